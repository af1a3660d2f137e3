//! This machine.

use crate::clock::{self, Deadline};
use crate::model::disk::contents::{Contents, FsType};
use crate::model::disk::device::{
    Device, DeviceNumber, Identity, Link, LinkFault, Shown, UdevEntry,
};
use crate::model::disk::exclusive_open::ExclusiveOpen;
use crate::model::disk::journal::sights::{JournalMark, JournalSights};
use crate::model::error::{Error, Result};
use crate::model::face::Faces;
use crate::model::ids::{ConsumerId, VolumeId, VolumeName};
use crate::model::kubelet::RunningKubelet;
use crate::model::mount::after_heal::Wakeup;
use crate::model::mount::disk_users::{
    Answer, DeviceUses, NamespaceId, NamespaceUse, NamespaceUses, PodUsers, Process,
};
use crate::model::mount::folders_let_go::Caller;
use crate::model::mount::layout::Target;
use crate::model::mount::mount_options::{MkfsOptions, MountOptions};
use crate::model::mount::mount_place::Look;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::replacement::{Method, MountIntent, Switched};
use crate::model::mount::staleness::Presence;
use crate::model::record::NamespaceSign;
use crate::model::shield::own_map::OwnMap;
use crate::model::timestamp::Uptime;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A disk that is held: while this lives the kernel does not give its number to another one.
#[derive(Debug)]
pub struct Held {
    _node: File,
}

impl Held {
    /// Holds the disk behind an open node.
    pub fn new(node: File) -> Self {
        Self { _node: node }
    }
}

/// News of disks.
pub trait Events {
    /// Returns when something about disks changed since the last wait, or when the time is over.
    fn wait(&mut self, at_most: Duration);
    /// Also returns when this file can be read; answers whether something about disks changed.
    fn wait_beside(&mut self, at_most: Duration, other: BorrowedFd<'_>) -> bool;
}

/// What libudev knows about disks. It is only a hint: sysfs alone proves a disk.
pub trait Udev: fmt::Debug {
    /// Subscribes to the events that udevd sends after it has applied its rules.
    fn monitor(&self) -> io::Result<Box<dyn UdevMonitor>>;
    /// The disks with one of these serials in udev's database.
    fn disks_with_serial(&self, serials: &[&str]) -> io::Result<Vec<DeviceNumber>>;
    /// The disk's entry in the database.
    fn disk(&self, number: DeviceNumber) -> Option<UdevDisk>;
}

/// A subscription to udevd's events.
pub trait UdevMonitor: AsFd {
    /// Discards the queued events; returns whether there were any.
    fn drain(&self) -> bool;
}

/// A disk in udev's database.
#[derive(Debug)]
pub struct UdevDisk {
    /// Its directory in sysfs.
    pub sysfs: PathBuf,
    /// Whether udevd has applied its rules.
    pub is_initialized: bool,
    pub shown: Vec<Shown>,
    pub links: Vec<PathBuf>,
}

/// The proof that a device is the volume's disk, as of now. Whatever may change the disk takes it, so that the next
/// change needs a new proof.
#[derive(Debug)]
pub struct Proven<'a> {
    volume: &'a VolumeId,
    device: &'a Device,
}

impl<'a> Proven<'a> {
    pub const fn volume(&self) -> &'a VolumeId {
        self.volume
    }

    pub const fn device(&self) -> &'a Device {
        self.device
    }
}

/// Block devices of this machine.
pub trait Devices {
    /// Whether it is certain that no disk can be seen from here: a container may have no sysfs.
    fn are_out_of_sight(&self) -> bool;
    /// Every disk that shows this identity now, however it is connected.
    fn claimants(&self, wanted: &Identity) -> Result<Vec<Device>>;
    /// Those of them whose transport is allowed: the others prove nothing with what they show.
    fn search(&self, wanted: &Identity) -> Result<Vec<Device>> {
        let mut found = self.claimants(wanted)?;
        found.retain(Device::is_allowed);
        Ok(found)
    }
    /// Every disk that shows a serial on a transport that is not allowed.
    fn strangers(&self) -> Result<Vec<(Device, Vec<Shown>)>> {
        Ok(Vec::new())
    }
    /// Until what this answers ends, all searches are of one moment: for those who tell of many volumes, and
    /// do nothing to a disk.
    fn one_moment(&self) -> Box<dyn Any> {
        Box::new(())
    }
    /// An error if the disk of that number is no longer the one that was proven.
    fn check(&self, wanted: &Identity, device: &Device) -> Result<()>;
    /// Proves that the device is still the volume's disk.
    fn prove<'a>(
        &self,
        volume: &'a VolumeId,
        wanted: &Identity,
        device: &'a Device,
    ) -> Result<Proven<'a>> {
        self.check(wanted, device)?;
        Ok(Proven { volume, device })
    }
    /// Holds the disk, and then checks it.
    fn hold(&self, wanted: &Identity, device: &Device) -> Result<Held>;
    /// All that the disk of this number shows now; nothing if there is no such disk.
    fn shown_by(&self, number: DeviceNumber) -> Result<Option<Vec<Shown>>>;
    /// What the kernel has at this number, where a mount of the volume stands or stood.
    fn presence(&self, number: DeviceNumber, wanted: &Identity) -> Result<Presence>;
    /// Subscribes to news; a caller that then looks for a disk cannot miss it.
    fn watch(&self) -> Box<dyn Events>;
    /// Whether a link leads to this node.
    fn leads_to(&self, link: &Path, node: &Path) -> bool;
    /// Links that name the volume and lead elsewhere. They are reported, never repaired.
    fn link_faults(&self, wanted: &Identity, own_link: &Path) -> Vec<LinkFault>;
    /// Every link that is there and names the volume, where it leads, and what is wrong with it.
    fn links(&self, wanted: &Identity, own_link: &Path) -> Vec<Link>;
    /// The disks that udev knows under the volume's serial, in words: for a message, no proof.
    fn udev_says(&self, _wanted: &Identity) -> Vec<String> {
        Vec::new()
    }
    /// What udev's database says about the disk of this number; nothing without libudev or udevd.
    fn udev_entry(&self, _wanted: &Identity, _number: DeviceNumber) -> Option<UdevEntry> {
        None
    }
    /// Whether the disk of this number is gone for good: no mount of it will ever be read again.
    fn is_gone(&self, number: DeviceNumber) -> Result<bool>;
    /// Why this disk must not be written or mounted, whatever stands on it: partitions, holders,
    /// no size.
    fn objection(&self, device: &Device) -> Result<Option<String>>;
    /// Whether anything on this machine, in whatever namespace, uses the disk: the kernel's own
    /// answer, by an exclusive open. An error says nothing of it.
    fn exclusive_open(&self, device: &Device) -> Result<ExclusiveOpen>;
    /// The disk of this number, if it is there; whose it is must have been proven before.
    fn disk_at(&self, number: DeviceNumber) -> Result<Option<Device>>;
    /// Makes the kernel look again how large the disk is.
    fn rescan(&self, device: &Device) -> Result<()>;
    /// Removes what a killed call left for this volume in `/dev`.
    fn tidy(&self, id: &VolumeId);
    /// Whether the volume has a link in `/dev`, which a mount leaves.
    fn has_link(&self, id: &VolumeId) -> bool;
    /// Removes that link; the volume is not mounted.
    fn remove_link(&self, id: &VolumeId);
}

/// What a disk is looked at for.
#[derive(Debug, Clone, Copy)]
pub enum AboveDisk<'a> {
    /// Nothing has it mounted.
    Nothing,
    /// It may be put under this map, through which the volume is mounted, and of whose mount this is remembered.
    Map(&'a Device, Option<&'a JournalMark>),
    /// It is mounted through this map, which works: what is compared later is put where it will be found.
    WorkingMap(&'a Device),
}

impl<'a> AboveDisk<'a> {
    pub const fn map_above(&self) -> Option<&'a Device> {
        match self {
            Self::Nothing => None,
            Self::Map(map, _) | Self::WorkingMap(map) => Some(map),
        }
    }
}

/// Maps of the driver's own, through which volumes may be mounted.
pub trait Maps {
    /// The volume's map, if this machine has one.
    fn map_of(&self, volume: &VolumeId) -> Result<Option<OwnMap>>;
    /// Puts a map over the volume's disk: from here on the volume is there. What is written to a stretch of it is
    /// counted from the beginning: the first sector, and how many.
    fn cover(&self, disk: Proven<'_>, counted: Option<(u64, u64)>) -> Result<()>;
    /// Puts another disk under the volume's map, which must have the same on it: what waits in the map goes there.
    fn switch(&self, disk: Proven<'_>) -> Result<()>;
    /// What a file system wrote last to this disk, read past all caches, and what the kernel has of it. Nothing waits
    /// for a disk that a map has not.
    fn journals(
        &self,
        disk: &Device,
        above: &AboveDisk<'_>,
        deadline: Deadline,
    ) -> Result<JournalSights>;
    /// Why the kernel no longer tells what a disk that comes back will be compared with, of a mount through this map
    /// of which this is remembered; nothing if it does. An error if it could not be asked, which says nothing of it.
    fn why_untold(&self, map: &Device, mark: &JournalMark) -> Result<Option<String>>;
    /// What tells the superblock from others that the kernel has in memory of a mount through this map, of which this is
    /// remembered; nothing if it is not there, or not compared.
    fn superblock(&self, map: &Device, mark: &JournalMark) -> Result<Option<String>>;
    fn volumes(&self) -> Result<Vec<VolumeId>>;
    /// What waits in the volume's map fails, and so does all that comes while it has no disk.
    fn end_wait(&self, volume: &VolumeId) -> Result<()>;
    /// Ends a change of the map that was not finished: what it has loaded is cleared, and the map goes on as it was.
    fn settle(&self, volume: &VolumeId) -> Result<()>;
    /// What waits in the volume's map goes to its disk once more, if that is there: after a request that failed. Whose
    /// disk that is must have been proven.
    fn try_again(&self, volume: &VolumeId) -> Result<()>;
    /// Removes the volume's map; false if there is none. An error of the kind
    /// [`Kind::Busy`](crate::model::error::Kind::Busy) if it is open.
    fn remove(&self, volume: &VolumeId, deadline: Deadline) -> Result<bool>;
}

/// File systems on disks.
pub trait FileSystems {
    /// What stands on the disk. Bytes that cannot be read, or not in time, are an error, never "blank".
    fn look(&self, device: &Device, deadline: Deadline) -> Result<Contents>;
    /// What another program that knows many more marks finds on the disk: nothing is no proof.
    fn second_opinion(
        &self,
        id: &VolumeId,
        device: &Device,
        deadline: Deadline,
    ) -> Result<Option<String>>;
    /// What a mkfs of this plan makes of a blank disk, tried in memory; nothing where that is not tried, or did
    /// not succeed. The disk is not touched.
    fn rehearse(
        &self,
        size: u64,
        plan: &NewFileSystem,
        deadline: Deadline,
    ) -> Result<Option<Contents>>;
    /// Overwrites the marks of whatever stands on the disk.
    fn wipe(&self, disk: Proven<'_>) -> Result<()>;
    /// Makes a file system.
    fn make(&self, disk: Proven<'_>, plan: &NewFileSystem, deadline: Deadline) -> Result<()>;
    /// Checks and mends an unmounted file system that asks for it. If the time is over before it
    /// ends, it goes on by itself: see `await_check`.
    fn check(&self, disk: Proven<'_>, kind: FsType, deadline: Deadline) -> Result<()>;
    /// Checks an unmounted ext3 or ext4 as a whole and grows it to its disk. If the time is over before that ends,
    /// it goes on by itself: see `await_check`.
    fn grow_unmounted(&self, disk: Proven<'_>, deadline: Deadline) -> Result<()>;
    /// Waits a moment for a check of this volume that an earlier call began. An error if it goes on;
    /// else its verdict, if it ended without mending the file system.
    fn await_check(
        &self,
        id: &VolumeId,
        device: &Device,
        deadline: Deadline,
    ) -> Result<Option<Error>>;
    /// Grows the file system of this open folder to its disk; says how many bytes it covers then. The
    /// place is for messages.
    fn grow(
        &self,
        root_and_place: (&File, &Path),
        kind: FsType,
        disk: Proven<'_>,
        deadline: Deadline,
    ) -> Result<u64>;
}

/// A file system to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFileSystem {
    pub kind: FsType,
    pub uuid: String,
    /// Whether to overwrite what mkfs itself finds on the disk: a person gave it up.
    pub force: bool,
    /// What the volume's owner wishes.
    pub options: MkfsOptions,
}

/// A disk to be mounted.
#[derive(Debug)]
pub struct MountRequest<'a> {
    /// The mount table names its volume.
    pub disk: Proven<'a>,
    /// The file system on it.
    pub kind: FsType,
    pub uuid: &'a str,
    /// Whether its superblock asks for a panic of the whole machine after an error.
    pub asks_for_panic: bool,
    /// What the volume's owner wishes.
    pub options: &'a MountOptions,
    /// Whether nothing may be written to the disk, not even the file system's own journal.
    pub untouched: bool,
    /// Whether another file system of the same UUID may be mounted: only when that is proven to be
    /// this one's dead mount.
    pub beside_its_twin: bool,
    pub target: &'a Path,
}

/// What lies in a folder that is about to be covered by a mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hidden {
    pub files: u64,
    /// How many bytes in them.
    pub bytes: u64,
    /// Whether there are more than were counted.
    pub more: bool,
}

/// The mount table of this process's namespace.
pub trait Mounts {
    /// The table now.
    fn table(&self) -> Result<MountTable>;
    /// The folder's real path, with the links of its root followed and none below it allowed. An
    /// error of kind [`Kind::Missing`](crate::model::error::Kind::Missing) if the root is not there.
    fn real_path(&self, target: &Target) -> Result<PathBuf>;
    /// What stands at the folder, and whether its path leads there.
    fn standing_at(&self, folder: &Path) -> Result<Look> {
        self.standing_in(folder, self.table()?)
    }
    /// The same from a mount table that was already read; reads it again if the directory does not match it.
    fn standing_in(&self, folder: &Path, table: MountTable) -> Result<Look>;
    /// The mount that the folder's path leads to; nothing if there is no such folder.
    fn leads_to(&self, folder: &Path) -> Result<Option<u32>>;
    /// Opens the root of a mount, if its path leads there.
    fn open_root(&self, mount: &Mount) -> Result<File>;
    /// Makes the folder if it is missing, as kubelet does.
    fn make_folder(&self, path: &Path) -> Result<()>;
    /// The names in a folder; none of one that cannot be read.
    fn names_in(&self, folder: &Path) -> Vec<String>;
    /// Whether it is certain that nothing has this path.
    fn is_missing(&self, path: &Path) -> bool;
    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> Result<()>;
    /// What was written into a folder while nothing was mounted there.
    fn hidden_in(&self, path: &Path) -> Hidden;
    /// Mounts a disk.
    fn mount(&self, request: MountRequest<'_>) -> Result<()>;
    /// Binds a folder onto itself, and shares nothing of that: what is mounted there is seen in no
    /// other namespace.
    fn seclude(&self, folder: &Path) -> Result<()>;
    /// Mounts a mount's root at another place too, where the bind refuses writes from its first
    /// moment. Like all that follows it does nothing if the mount's path no longer leads to it.
    fn bind(&self, source: &Mount, target: &Path, read_only: bool) -> Result<()>;
    /// Makes a bind refuse writes.
    fn make_read_only(&self, mount: &Mount) -> Result<()>;
    /// Writes out what the mount's file system still holds in memory; an error if a write failed
    /// since the last time.
    fn flush(&self, mount: &Mount, deadline: Deadline) -> Result<()>;
    /// Writes out a mount's file system inside an open mount namespace; false if the mount is gone or
    /// cannot be opened.
    fn flush_inside(&self, namespace: &File, mount: &Mount, deadline: Deadline) -> Result<bool>;
    /// Takes the mount off; an error if it is busy.
    fn unmount(&self, mount: &Mount, deadline: Deadline) -> Result<()>;
    /// Takes these mounts off inside an open mount namespace; an error if one is busy.
    fn unmount_inside(&self, namespace: &File, mounts: &[Mount], deadline: Deadline) -> Result<()>;
    /// Ends every mount that other namespaces have at this empty folder of the orchestrator's, also
    /// one that is locked: a new global folder takes its place, a consumer's is removed. An error if
    /// something of this namespace is mounted there; fine if there is no such folder.
    fn exchange_folder(&self, folder: &Path) -> Result<()>;
    /// Removes what a killed call left of that beside the folder.
    fn tidy_exchange(&self, folder: &Path);
    /// A copy of the mount, to put back what was taken off too early; nothing where the kernel
    /// cannot make one.
    fn copy_of(&self, mount: &Mount) -> Option<OwnedFd>;
    fn put_back(&self, copy: OwnedFd, target: &Path) -> Result<()>;
    /// Takes the mount off, whatever still uses it: right only if its disk is dead.
    fn unmount_dead(&self, mount: &Mount, deadline: Deadline) -> Result<()>;
}

/// Who on this machine uses a file system or its disk, in whatever mount namespace.
///
/// File systems are named by number, several of them if the disk had more than one: after a
/// change of letters the dead one lives under the old number. That there is no user is told only where
/// all processes are seen: what cannot be known is [`Answer::CannotTell`], and so is what this process lacked
/// a descriptor or memory for; what of an answer is closed to us is in its `untold`.
pub trait Census {
    /// Whether every process of the machine can be seen from here.
    fn sight(&self) -> Answer<()>;
    /// From here on, looks at other processes may take this long in all; what is not reached is told as not read.
    fn allow(&self, time: Duration);
    /// The mount namespace of this thread.
    fn own_namespace(&self) -> Result<NamespaceId>;
    /// The living processes of a pod that have one of the file systems in their mount namespace.
    /// Those in the namespace `except`, in which the caller unmounts, do not count.
    fn pod_users(
        &self,
        pod: &ConsumerId,
        numbers: &[DeviceNumber],
        except: NamespaceId,
    ) -> Answer<PodUsers>;
    /// The mount namespaces that have one of the file systems, but this thread's.
    fn namespaces_with(&self, numbers: &[DeviceNumber]) -> Answer<NamespaceUses>;
    /// The mount namespaces that a heal can read in time: first those of these pods, then those of other
    /// pods, then the rest. What could not be read is left for a later heal.
    fn namespaces_in_time(
        &self,
        numbers: &[DeviceNumber],
        first: &BTreeSet<ConsumerId>,
        deadline: Deadline,
    ) -> Answer<NamespaceUses>;
    /// The mount namespaces that have one of the file systems, or one whose source has a name below this
    /// directory, with all mounts of those, whatever their source.
    fn namespaces_of(&self, numbers: &[DeviceNumber], sources: &Path) -> Answer<NamespaceUses>;
    /// Everything that uses one of the file systems or its disk, but this process and this
    /// thread's namespace. It is slower: it looks at every open file of the machine.
    fn device_users(&self, numbers: &[DeviceNumber]) -> Answer<DeviceUses>;
    /// Those that trace a process and have stopped it: one that is killed may stop in its end, with all that
    /// it has, until its tracer lets it go on or ends (`PTRACE_O_TRACEEXIT`).
    fn tracers_that_stop(&self, pid: u32) -> Vec<Process>;
    /// The id that statfs(2) tells of each ext file system, in whatever namespace; nothing of one that lies
    /// under another mount or cannot be reached.
    fn ext_file_system_ids(&self) -> Answer<BTreeMap<DeviceNumber, u64>>;
    /// Opens a namespace that was found, for setns(2).
    fn open_namespace(&self, namespace: &NamespaceUse) -> Result<File>;
    /// By what a namespace that was found is known again; of this thread's own if none.
    fn sign_of(&self, namespace: Option<&NamespaceUse>) -> Result<NamespaceSign>;
    /// Opens a namespace that is remembered; nothing if it has gone, also if another one has its
    /// number by now.
    fn find_namespace(&self, sign: &NamespaceSign) -> Result<Option<File>>;
}

/// The peer group that the machine's own old mounts were in, and who stands for it now.
#[derive(Debug, Clone, Copy)]
pub struct PeerGroup<'a> {
    /// What it was called.
    pub number: u32,
    /// The root of a mount of the new file system in this thread's namespace, which is shared with
    /// its new peers and slaves.
    pub place: BorrowedFd<'a>,
}

/// Mounts to be replaced in one mount namespace.
#[derive(Debug)]
pub struct SwitchRequest<'a> {
    /// The namespace; this thread's own if none.
    pub namespace: Option<&'a File>,
    /// The old mounts there: all of one dead file system, as the table of that namespace has them.
    pub stale: &'a [Mount],
    /// The root of a healthy mount of the new file system: a folder of this thread's namespace
    /// that is open, or, from Linux 6.15 on, a detached mount.
    pub fresh: BorrowedFd<'a>,
    /// Where those go that were in a peer group of the machine's own, or followed it. No other
    /// mount shares with or follows anything.
    pub group: Option<PeerGroup<'a>>,
    /// When no answer is waited for any more: those who live in the namespace can make a walk
    /// through it take for ever.
    pub deadline: Deadline,
}

/// So many processes are held at once: each takes a descriptor, and a user or a pod may have more of
/// them than a call may have of those.
pub const HELD_AT_ONCE: usize = 128;

/// The machine that the call runs on, who called it, and what its process may do.
pub trait Environment {
    /// A text that differs after each boot: device numbers and disk counts begin anew with it.
    fn boot_id(&self) -> String;
    /// The process that called the driver, so that it can be told from a later one of its number.
    fn caller(&self) -> Option<Caller>;
    /// Whether that process still lives.
    fn lives(&self, caller: &Caller) -> bool;
    fn is_root(&self) -> bool;
    /// Whether this process may grow a mounted ext4. Where that cannot be determined, the kernel decides when it is asked.
    fn may_grow_mounted(&self) -> bool;
    /// A short id that no other call of this machine has.
    fn new_call_id(&self) -> String;

    /// This moment, by the boot and the time since then.
    fn uptime(&self) -> Uptime {
        Uptime { boot: self.boot_id(), seconds: clock::since_boot().as_secs() }
    }
}

/// The kubelets of this machine.
pub trait Kubelets {
    /// The one whose calls this driver answers; nothing while none is running.
    fn running_kubelet(&self) -> Option<RunningKubelet>;
    /// Whether what is mounted below this root directory is another kubelet's.
    fn is_root_of_another(&self, root: &Path) -> bool;
    /// Whether a pod's directory below this root directory has one for the volume. What cannot be listed is an error.
    fn has_pod_directory(&self, root: &Path, faces: Faces, name: &VolumeName) -> Result<bool>;
}

/// Other processes of this machine.
pub trait Processes {
    /// Holds a process: while it is held, its id cannot lead a signal to another one.
    fn pin(&self, pid: u32) -> Result<OwnedFd>;
    /// Signals a held process; fine if it ended.
    fn signal(&self, pinned: &OwnedFd, wakeup: Wakeup) -> Result<()>;
    /// Whether a held process is known to have ended with all that it had. One that is ending has no
    /// files and no namespace in `/proc` any more while the kernel still unmounts what it alone had.
    fn has_ended(&self, pinned: &OwnedFd) -> bool;
    /// Runs an operator's program with these facts in its environment; what it said last.
    fn run(&self, program: &Path, facts: &[(&str, String)], deadline: Deadline) -> Result<String>;
}

/// A process that keeps a dead file system, so that none of those who let go of it is the last.
pub trait Keeper: std::fmt::Debug {
    fn pid(&self) -> i32;
    /// Lets go of the file system; whether that ended in time. A process that hangs is left alone with it.
    fn release(self: Box<Self>, deadline: Deadline) -> bool;
}

/// Mounts that take another's place while it is used, in any mount namespace.
pub trait Remounts {
    /// The best method that this kernel has; the worst where this process may not try any.
    fn method(&self) -> Method;
    /// Why this process may not try what the kernel can do.
    fn obstacle(&self) -> Option<String>;
    /// Puts a mount of the new file system in the place of each old one, with everything that the
    /// old one was: its folder, its flags, its propagation, what is mounted in it. One answer for
    /// each old mount, in no order. An error means that nothing was changed, except when the time
    /// is over: then it is not known.
    fn switch(&self, request: &SwitchRequest<'_>) -> Result<Vec<Switched>>;
    /// The mounts whose propagation a switch will change for a moment, with what it is to be in the
    /// end. To be remembered before: a switch that is killed leaves them changed.
    fn will_change(&self, request: &SwitchRequest<'_>) -> Result<Vec<MountIntent>>;
    /// Gives mounts that a killed switch left otherwise the propagation that they are to have. One
    /// that is gone, or that is as it is to be, is left alone.
    fn set_back(
        &self,
        namespace: Option<&File>,
        mounts: &[MountIntent],
        deadline: Deadline,
    ) -> Result<()>;
    /// Keeps the file system of one of these mounts from being the last that any process of this
    /// process lets go of; nothing if none of them can be reached.
    fn keep(
        &self,
        namespace: Option<&File>,
        mounts: &[Mount],
        deadline: Deadline,
    ) -> Result<Option<Box<dyn Keeper>>>;
}
