//! Rooms of the driver, each made of those below it: in this order, and in no other, they can call.

use crate::attachment::attach::Attaching;
use crate::attachment::detach::Detaching;
use crate::attachment::open_requests::OpenRequests;
use crate::attachment::take_down::TakingDown;
use crate::attachment::takeover::Takeovers;
use crate::attachment::wait::DiskWait;
use crate::guard::Guard;
use crate::guard::end_users::OrdinaryUsers;
use crate::guard::flush::Flushing;
use crate::guard::free_disks::FreeDisks;
use crate::guard::leaked_copies::LeakedCopies;
use crate::guard::let_go_volumes::LetGoVolumes;
use crate::guard::letting_go::LettingGo;
use crate::guard::orphans::Orphans;
use crate::guard::refusal::Refusals;
use crate::guard::remote_mark::RemoteMarks;
use crate::heal::Healing;
use crate::heal::adopt::Adoption;
use crate::heal::covering::Covering;
use crate::heal::diagnosis::Diagnosis;
use crate::heal::file_system_check::FileSystemCheck;
use crate::heal::notify::Notification;
use crate::heal::peer_groups::PeerGroups;
use crate::heal::recovery::Recovery;
use crate::heal::replacement_plan::Replacement;
use crate::heal::returned_disk::ReturnedDisks;
use crate::heal::sweep::Sweep;
use crate::lookup::attachment_view::Attachments;
use crate::lookup::disk_numbers::DiskNumbers;
use crate::lookup::find_disk::Disks;
use crate::lookup::find_volume::Volumes;
use crate::lookup::known_volumes::KnownVolumes;
use crate::lookup::locking::Locking;
use crate::lookup::memory::Memory;
use crate::lookup::mounted_here::MountedHere;
use crate::lookup::own_maps::OwnMaps;
use crate::mount::expand::Expansion;
use crate::mount::format::Formatter;
use crate::mount::format_consent::FormatConsent;
use crate::mount::owed_marks::OwedMarks;
use crate::mount::publish::Publishing;
use crate::mount::release::Releasing;
use crate::mount::sole_writer::SoleWriter;
use crate::mount::stage::Staging;
use crate::mount::unmount::Unmounting;
use crate::ownership::Ownership;
use crate::ownership::mount_place::MountPlaces;
use crate::ports::Ports;
use crate::report::holders::Usage;
use crate::report::survey::Surveying;

/// The operations, by room.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct Driver<'a> {
    /// What they work with.
    pub ports: &'a Ports<'a>,
    /// Volumes go to servers.
    pub attaching: &'a Attaching<'a>,
    pub detaching: &'a Detaching<'a>,
    pub disk_wait: &'a DiskWait<'a>,
    /// Mounts of volumes at their stage folders.
    pub staging: &'a Staging<'a>,
    /// Binds of volumes into the folders of consumers.
    pub publishing: &'a Publishing<'a>,
    pub unmounting: &'a Unmounting<'a>,
    pub expansion: &'a Expansion<'a>,
    pub formatter: &'a Formatter<'a>,
    /// What a person gives up.
    pub releasing: &'a Releasing<'a>,
    /// The heal of one volume.
    pub healing: &'a Healing<'a>,
    /// The heal of all volumes.
    pub sweep: &'a Sweep<'a>,
    /// Mounts without a record become this driver's.
    pub adoption: &'a Adoption<'a>,
    /// What killed heals left.
    pub recovery: &'a Recovery<'a>,
    /// Marks that the cloud could not be told.
    pub owed_marks: &'a OwedMarks<'a>,
    /// Volumes that kubelet has forgotten are taken down.
    pub taking_down: &'a TakingDown<'a>,
    /// A look at every volume.
    pub surveying: &'a Surveying<'a>,
    /// Who uses a volume, and what is counted.
    pub usage: &'a Usage<'a>,
    /// Volumes by the names that others have for them.
    pub volumes: &'a Volumes<'a>,
    /// What people may call a volume.
    pub known: &'a KnownVolumes<'a>,
    /// The marks and notes that the cloud keeps with volumes.
    pub marks: &'a RemoteMarks<'a>,
    /// Processes of ordinary users that keep a volume in use.
    pub users: &'a OrdinaryUsers<'a>,
}

/// Makes the rooms, and lets the driver work.
#[expect(clippy::too_many_lines, reason = "a line or two for each room, in their order")]
pub fn with_driver<T>(ports: &Ports<'_>, work: impl FnOnce(&Driver<'_>) -> T) -> T {
    let &Ports {
        cloud,
        devices,
        maps,
        file_systems,
        mounts,
        records,
        answers,
        pace,
        locks,
        this_node,
        takeover,
        census,
        remounts,
        heal: heal_mode,
        shield,
        after,
        kubelets,
        processes,
        scratch,
        guard: policy,
        operation,
        deadline,
        counts,
        faces,
        face,
    } = ports;
    let is_remote = cloud.capabilities().is_remote;
    let (answers, pace) = (is_remote.then_some(answers), is_remote.then_some(pace));
    let attachments = Attachments { cloud, answers, pace, deadline, this_node };
    let locking = Locking { cloud, devices, locks, operation, deadline };
    let disks =
        Disks { cloud, devices, mounts, records, this_node, deadline, attachments: &attachments };
    let own_maps = OwnMaps { maps, deadline };
    let numbers =
        DiskNumbers { cloud, devices, mounts, records, census, disks: &disks, own_maps: &own_maps };
    let memory = Memory { file_systems, records, faces, face, locks, operation, deadline };
    let volumes = Volumes { cloud, devices, mounts, records, deadline, memory: &memory };
    let known = KnownVolumes {
        faces,
        cloud,
        devices,
        mounts,
        records,
        this_node,
        deadline,
        disks: &disks,
        volumes: &volumes,
    };
    let ownership = Ownership { faces, mounts, records, census, numbers: &numbers };
    let places = MountPlaces {
        mounts,
        records,
        deadline,
        disks: &disks,
        numbers: &numbers,
        volumes: &volumes,
    };
    let flushing = Flushing { devices, mounts, records, census, deadline };
    let refusals = Refusals { records, policy, counts, face, numbers: &numbers };
    let users = OrdinaryUsers { census, processes, deadline, numbers: &numbers };
    let free_disks = FreeDisks {
        cloud,
        devices,
        mounts,
        records,
        census,
        policy,
        deadline,
        locking: &locking,
        disks: &disks,
        refusals: &refusals,
        users: &users,
    };
    let marks = RemoteMarks {
        cloud,
        records,
        this_node,
        policy,
        deadline,
        refusals: &refusals,
        free_disks: &free_disks,
    };
    let copies = LeakedCopies {
        faces,
        mounts,
        records,
        census,
        policy,
        deadline,
        disks: &disks,
        numbers: &numbers,
        flushing: &flushing,
        refusals: &refusals,
    };
    let letting_go = LettingGo {
        faces,
        records,
        census,
        policy,
        numbers: &numbers,
        ownership: &ownership,
        refusals: &refusals,
        marks: &marks,
    };
    let let_go_volumes =
        LetGoVolumes { faces, mounts, records, census, numbers: &numbers, ownership: &ownership };
    let guard = Guard {
        devices,
        file_systems,
        mounts,
        records,
        census,
        policy,
        deadline,
        disks: &disks,
        flushing: &flushing,
        refusals: &refusals,
        free_disks: &free_disks,
        copies: &copies,
        own_maps: &own_maps,
        numbers: &numbers,
    };
    let diagnosis = Diagnosis {
        mounts,
        records,
        census,
        disks: &disks,
        numbers: &numbers,
        ownership: &ownership,
    };
    let check = FileSystemCheck {
        cloud,
        file_systems,
        mounts,
        records,
        this_node,
        census,
        deadline,
        attachments: &attachments,
        disks: &disks,
    };
    let recovery = Recovery {
        devices,
        mounts,
        records,
        locks,
        census,
        remounts,
        heal_mode,
        scratch,
        operation,
        deadline,
        flushing: &flushing,
        marks: &marks,
    };
    let peer_groups = PeerGroups { mounts, records, census, remounts };
    let replacement = Replacement {
        census,
        ownership: &ownership,
        recovery: &recovery,
        peer_groups: &peer_groups,
    };
    let notification = Notification { records, census, devices, after, processes, deadline };
    let adoption = Adoption {
        faces,
        cloud,
        kubelets,
        devices,
        file_systems,
        mounts,
        records,
        this_node,
        deadline,
        attachments: &attachments,
        locking: &locking,
        disks: &disks,
        numbers: &numbers,
        memory: &memory,
        volumes: &volumes,
        marks: &marks,
    };
    let returned = ReturnedDisks {
        devices,
        maps,
        records,
        shield,
        deadline,
        counts,
        disks: &disks,
        own_maps: &own_maps,
    };
    let covering = Covering {
        cloud,
        devices,
        maps,
        records,
        shield,
        heal_mode,
        deadline,
        disks: &disks,
        own_maps: &own_maps,
    };
    let mounted_here = MountedHere { faces, mounts, kubelets, records, own_maps: &own_maps };
    let healing = Healing {
        mounts,
        records,
        census,
        devices,
        heal_mode,
        deadline,
        counts,
        locking: &locking,
        disks: &disks,
        places: &places,
        marks: &marks,
        mounted_here: &mounted_here,
        diagnosis: &diagnosis,
        check: &check,
        recovery: &recovery,
        replacement: &replacement,
        notification: &notification,
        returned: &returned,
        adoption: &adoption,
    };
    let sweep = Sweep {
        cloud,
        devices,
        records,
        locks,
        operation,
        locking: &locking,
        healing: &healing,
        mounted_here: &mounted_here,
    };
    let sole_writer = SoleWriter { cloud, records, this_node, deadline };
    let consent = FormatConsent {
        cloud,
        records,
        this_node,
        deadline,
        attachments: &attachments,
        marks: &marks,
    };
    let formatter = Formatter {
        devices,
        file_systems,
        records,
        deadline,
        locking: &locking,
        disks: &disks,
        free_disks: &free_disks,
        marks: &marks,
        recovery: &recovery,
        consent: &consent,
    };
    let staging = Staging {
        devices,
        file_systems,
        mounts,
        deadline,
        locking: &locking,
        disks: &disks,
        numbers: &numbers,
        memory: &memory,
        volumes: &volumes,
        places: &places,
        free_disks: &free_disks,
        marks: &marks,
        let_go_volumes: &let_go_volumes,
        guard: &guard,
        check: &check,
        recovery: &recovery,
        healing: &healing,
        covering: &covering,
        sole_writer: &sole_writer,
        formatter: &formatter,
        own_maps: &own_maps,
    };
    let owed_marks = OwedMarks {
        mounts,
        records,
        locks,
        operation,
        locking: &locking,
        disks: &disks,
        marks: &marks,
        sole_writer: &sole_writer,
        staging: &staging,
    };
    let publishing = Publishing {
        mounts,
        records,
        locking: &locking,
        disks: &disks,
        memory: &memory,
        places: &places,
        let_go_volumes: &let_go_volumes,
        guard: &guard,
        staging: &staging,
    };
    let unmounting = Unmounting {
        devices,
        mounts,
        records,
        policy,
        deadline,
        locking: &locking,
        volumes: &volumes,
        places: &places,
        flushing: &flushing,
        refusals: &refusals,
        free_disks: &free_disks,
        marks: &marks,
        copies: &copies,
        letting_go: &letting_go,
        let_go_volumes: &let_go_volumes,
        guard: &guard,
        recovery: &recovery,
        returned: &returned,
    };
    let expansion = Expansion {
        cloud,
        devices,
        file_systems,
        mounts,
        deadline,
        attachments: &attachments,
        locking: &locking,
        disks: &disks,
        memory: &memory,
    };
    let releasing = Releasing {
        devices,
        mounts,
        records,
        census,
        deadline,
        locking: &locking,
        numbers: &numbers,
        flushing: &flushing,
        free_disks: &free_disks,
        marks: &marks,
        recovery: &recovery,
        own_maps: &own_maps,
    };
    let requests = OpenRequests { cloud, deadline, volumes: &volumes };
    let takeovers = Takeovers { cloud, takeover, deadline, attachments: &attachments };
    let attaching = Attaching {
        cloud,
        devices,
        answers,
        deadline,
        attachments: &attachments,
        locking: &locking,
        memory: &memory,
        marks: &marks,
        let_go_volumes: &let_go_volumes,
        guard: &guard,
        healing: &healing,
        sole_writer: &sole_writer,
        requests: &requests,
        takeovers: &takeovers,
    };
    let detaching = Detaching {
        cloud,
        records,
        locks,
        this_node,
        deadline,
        attachments: &attachments,
        locking: &locking,
        numbers: &numbers,
        volumes: &volumes,
        refusals: &refusals,
        let_go_volumes: &let_go_volumes,
        marks: &marks,
        guard: &guard,
        recovery: &recovery,
        requests: &requests,
        takeovers: &takeovers,
        own_maps: &own_maps,
    };
    let disk_wait = DiskWait {
        cloud,
        kubelets,
        mounts,
        records,
        locks,
        this_node,
        operation,
        deadline,
        attaching: &attaching,
        disks: &disks,
        numbers: &numbers,
        own_maps: &own_maps,
        memory: &memory,
        let_go_volumes: &let_go_volumes,
        healing: &healing,
    };
    let orphans = Orphans { faces, kubelets };
    let taking_down = TakingDown {
        faces,
        cloud,
        kubelets,
        records,
        this_node,
        operation,
        deadline,
        attachments: &attachments,
        locking: &locking,
        let_go_volumes: &let_go_volumes,
        orphans: &orphans,
        unmounting: &unmounting,
        detaching: &detaching,
    };
    let surveying = Surveying {
        faces,
        cloud,
        kubelets,
        devices,
        mounts,
        records,
        locks,
        this_node,
        census,
        counts,
        deadline,
        disks: &disks,
        numbers: &numbers,
        volumes: &volumes,
        places: &places,
        let_go_volumes: &let_go_volumes,
        orphans: &orphans,
        own_maps: &own_maps,
        shield,
    };
    let usage = Usage { cloud, devices, mounts, records, census, faces, ownership: &ownership };
    work(&Driver {
        ports,
        attaching: &attaching,
        detaching: &detaching,
        disk_wait: &disk_wait,
        staging: &staging,
        publishing: &publishing,
        unmounting: &unmounting,
        expansion: &expansion,
        formatter: &formatter,
        releasing: &releasing,
        healing: &healing,
        sweep: &sweep,
        adoption: &adoption,
        recovery: &recovery,
        owed_marks: &owed_marks,
        taking_down: &taking_down,
        surveying: &surveying,
        usage: &usage,
        known: &known,
        volumes: &volumes,
        marks: &marks,
        users: &users,
    })
}
