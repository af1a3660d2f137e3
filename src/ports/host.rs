//! The ports of this node.

use crate::clock::{self, Deadline};
use crate::model::disk::contents::{Contents, FsType};
use crate::model::disk::device::{Device, DeviceNumber, Identity, Link, Shown, UdevEntry};
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

/// A disk that is held open, so that the kernel does not reuse its number.
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

/// Events about disks.
pub trait Events {
    /// Returns when a disk changed since the last wait, or at the timeout.
    fn wait(&mut self, at_most: Duration);
    /// Also returns when this file becomes readable; returns whether a disk changed.
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

/// The proof that a device is the volume's disk at this moment. Whatever may change the disk consumes it, so that the
/// next change needs a new proof.
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

/// The block devices of this node.
pub trait Devices {
    /// Whether certainly no disk is visible from here; a container may have no sysfs.
    fn are_out_of_sight(&self) -> bool;
    /// Every disk with this identity, on whatever transport.
    fn claimants(&self, wanted: &Identity) -> Result<Vec<Device>>;
    /// Those with an allowed transport; the identity of the others proves nothing.
    fn search(&self, wanted: &Identity) -> Result<Vec<Device>> {
        let mut found = self.claimants(wanted)?;
        found.retain(Device::is_allowed);
        Ok(found)
    }
    /// Every disk with a serial on a transport that is not allowed.
    fn strangers(&self) -> Result<Vec<(Device, Vec<Shown>)>> {
        Ok(Vec::new())
    }
    /// While the returned value lives, all searches share one look at the disks; for reports about many volumes that
    /// change nothing.
    fn one_moment(&self) -> Box<dyn Any> {
        Box::new(())
    }
    /// Refuses if the disk of that number is not the proven one any more.
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
    /// Holds the disk, then checks it.
    fn hold(&self, wanted: &Identity, device: &Device) -> Result<Held>;
    /// The identity that the disk of this number shows, or `None` if there is no such disk.
    fn shown_by(&self, number: DeviceNumber) -> Result<Option<Vec<Shown>>>;
    /// What the kernel has at this number, from which the volume is or was mounted.
    fn presence(&self, number: DeviceNumber, wanted: &Identity) -> Result<Presence>;
    /// Subscribes to events; a later search cannot miss a disk.
    fn watch(&self) -> Box<dyn Events>;
    /// Whether a link leads to this device node.
    fn leads_to(&self, link: &Path, node: &Path) -> bool;
    /// Every existing link that names the volume, with its target and what is wrong with it.
    fn links(&self, wanted: &Identity, own_link: &Path) -> Vec<Link>;
    /// The disks with the volume's serial in udev's database, in words for a message.
    fn udev_says(&self, _wanted: &Identity) -> Vec<String> {
        Vec::new()
    }
    /// The disk's entry in udev's database; `None` without libudev or udevd.
    fn udev_entry(&self, _wanted: &Identity, _number: DeviceNumber) -> Option<UdevEntry> {
        None
    }
    /// Whether the disk of this number is lost, so that its mounts will never be read again.
    fn is_gone(&self, number: DeviceNumber) -> Result<bool>;
    /// Why this disk must not be written to or mounted, whatever its contents: partitions, holders, no size.
    fn objection(&self, device: &Device) -> Result<Option<String>>;
    /// Whether anything in any namespace uses the disk, according to the kernel, by an exclusive open. An error proves
    /// nothing.
    fn exclusive_open(&self, device: &Device) -> Result<ExclusiveOpen>;
    /// The disk of this number, if it exists; the caller has proven whose it is.
    fn disk_at(&self, number: DeviceNumber) -> Result<Option<Device>>;
    /// Makes the kernel read the disk's size again.
    fn rescan(&self, device: &Device) -> Result<()>;
    /// Removes what a killed call left for this volume in `/dev`.
    fn tidy(&self, id: &VolumeId);
    /// Whether the volume has a link in `/dev`, which a mount creates.
    fn has_link(&self, id: &VolumeId) -> bool;
    /// Removes that link of a volume that is not mounted.
    fn remove_link(&self, id: &VolumeId);
}

/// The state in which a disk's journal is read.
#[derive(Debug, Clone, Copy)]
pub enum AboveDisk<'a> {
    /// Nothing mounts it.
    Nothing,
    /// It may be put under this map, through which the volume is mounted, and whose mount is remembered by this mark.
    Map(&'a Device, Option<&'a JournalMark>),
    /// It is mounted through this working map; what is compared later is put where it can be found.
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

/// The driver's own maps, through which volumes may be mounted.
pub trait Maps {
    /// The volume's map, if there is one.
    fn map_of(&self, volume: &VolumeId) -> Result<Option<OwnMap>>;
    /// Puts a map over the volume's disk, which represents the volume from then on. Counts writes to a range, given by
    /// its first sector and length.
    fn cover(&self, disk: Proven<'_>, counted: Option<(u64, u64)>) -> Result<()>;
    /// Puts another disk with the same contents under the volume's map; paused I/O goes there.
    fn switch(&self, disk: Proven<'_>) -> Result<()>;
    /// The file system's latest journal entries on this disk, read past all caches, and the kernel's state of it. Never
    /// waits for a map without a disk.
    fn journals(
        &self,
        disk: &Device,
        above: &AboveDisk<'_>,
        deadline: Deadline,
    ) -> Result<JournalSights>;
    /// Why the kernel can no longer provide what a returned disk is compared with, for this mount through this map;
    /// `None` if it can. An error proves nothing.
    fn why_untold(&self, map: &Device, mark: &JournalMark) -> Result<Option<String>>;
    /// What distinguishes the superblock in the kernel's memory for this mount through this map; `None` if it is
    /// unavailable or not compared.
    fn superblock(&self, map: &Device, mark: &JournalMark) -> Result<Option<String>>;
    fn volumes(&self) -> Result<Vec<VolumeId>>;
    /// Fails paused I/O of the volume's map, and all further I/O while it has no disk.
    fn end_wait(&self, volume: &VolumeId) -> Result<()>;
    /// Reverts an unfinished change of the map: clears the loaded table, and lets the map go on as before.
    fn settle(&self, volume: &VolumeId) -> Result<()>;
    /// Sends paused I/O to the disk again after a failed request, if the disk is there. The caller has proven the disk.
    fn try_again(&self, volume: &VolumeId) -> Result<()>;
    /// Removes the volume's map; false if there is none. An error of kind
    /// [`Kind::Busy`](crate::model::error::Kind::Busy) if it is open.
    fn remove(&self, volume: &VolumeId, deadline: Deadline) -> Result<bool>;
}

/// File systems on disks.
pub trait FileSystems {
    /// The disk's contents. Bytes that cannot be read, or not in time, are an error and never "blank".
    fn look(&self, device: &Device, deadline: Deadline) -> Result<Contents>;
    /// What another program that knows many more signatures finds on the disk; finding nothing proves nothing.
    fn second_opinion(
        &self,
        id: &VolumeId,
        device: &Device,
        deadline: Deadline,
    ) -> Result<Option<String>>;
    /// What a mkfs with this plan would make of a blank disk, tried in memory; `None` if it was not tried or failed.
    /// Does not touch the disk.
    fn rehearse(
        &self,
        size: u64,
        plan: &NewFileSystem,
        deadline: Deadline,
    ) -> Result<Option<Contents>>;
    /// Overwrites the signatures of the disk's contents.
    fn wipe(&self, disk: Proven<'_>) -> Result<()>;
    /// Makes a file system.
    fn make(&self, disk: Proven<'_>, plan: &NewFileSystem, deadline: Deadline) -> Result<()>;
    /// Checks and repairs an unmounted file system. A check that outlasts the deadline continues alone: see
    /// `await_check`.
    fn check(&self, disk: Proven<'_>, kind: FsType, deadline: Deadline) -> Result<()>;
    /// Checks an unmounted ext3 or ext4 completely and grows it to its disk. Continues alone after the deadline: see
    /// `await_check`.
    fn grow_unmounted(&self, disk: Proven<'_>, deadline: Deadline) -> Result<()>;
    /// Waits a moment for a check that an earlier call started. An error if it is still running, otherwise its verdict
    /// if it ended without repairing the file system.
    fn await_check(
        &self,
        id: &VolumeId,
        device: &Device,
        deadline: Deadline,
    ) -> Result<Option<Error>>;
    /// Grows the file system of this open directory to its disk; returns its new size. The path is for messages.
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
    /// Whether to overwrite what mkfs itself finds on the disk, on a person's word.
    pub force: bool,
    /// The volume's mkfs options.
    pub options: MkfsOptions,
}

/// A request to mount a disk.
#[derive(Debug)]
pub struct MountRequest<'a> {
    /// The mount's source names its volume.
    pub disk: Proven<'a>,
    /// Its file system.
    pub kind: FsType,
    pub uuid: &'a str,
    /// Whether its superblock requests a panic of the whole machine after an error.
    pub asks_for_panic: bool,
    /// The volume's mount options.
    pub options: &'a MountOptions,
    /// Whether nothing may be written to the disk, not even the journal.
    pub untouched: bool,
    /// Whether another file system of the same UUID may be mounted; only if that is proven to be this one's stale
    /// mount.
    pub beside_its_twin: bool,
    pub target: &'a Path,
}

/// Files in a directory that a mount is about to hide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hidden {
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// Whether there are more than were counted.
    pub more: bool,
}

/// The mount table of this process's namespace.
pub trait Mounts {
    /// The current table.
    fn table(&self) -> Result<MountTable>;
    /// The directory's real path; links are followed in its root only, and refused below it. An error of kind
    /// [`Kind::Missing`](crate::model::error::Kind::Missing) if the root does not exist.
    fn real_path(&self, target: &Target) -> Result<PathBuf>;
    /// What is mounted at the directory, and whether its path leads there.
    fn standing_at(&self, folder: &Path) -> Result<Look> {
        self.standing_in(folder, self.table()?)
    }
    /// The same from a mount table that was already read; reads it again if the directory does not match it.
    fn standing_in(&self, folder: &Path, table: MountTable) -> Result<Look>;
    /// The mount that the directory's path leads to, or `None` if there is no such directory.
    fn leads_to(&self, folder: &Path) -> Result<Option<u32>>;
    /// Opens the root of a mount, if its path leads there.
    fn open_root(&self, mount: &Mount) -> Result<File>;
    /// Makes a missing directory, as kubelet does.
    fn make_folder(&self, path: &Path) -> Result<()>;
    /// The names in a directory; none if it cannot be read.
    fn names_in(&self, folder: &Path) -> Vec<String>;
    /// Whether certainly nothing has this path.
    fn is_missing(&self, path: &Path) -> bool;
    /// Removes an empty directory.
    fn remove_folder(&self, path: &Path) -> Result<()>;
    /// Files that were written into a directory while nothing was mounted there.
    fn hidden_in(&self, path: &Path) -> Hidden;
    fn mount(&self, request: MountRequest<'_>) -> Result<()>;
    /// Binds a directory onto itself as a private mount, so that mounts below it appear in no other namespace.
    fn seclude(&self, folder: &Path) -> Result<()>;
    /// Binds a mount's root at another place; a read-only bind is so from its first moment. Like everything below, does
    /// nothing if the mount's path no longer leads to it.
    fn bind(&self, source: &Mount, target: &Path, read_only: bool) -> Result<()>;
    /// Makes a bind mount read-only.
    fn make_read_only(&self, mount: &Mount) -> Result<()>;
    /// Writes out the mount's file system; an error if a write has failed since the last time.
    fn flush(&self, mount: &Mount, deadline: Deadline) -> Result<()>;
    /// Writes out a mount's file system inside an open mount namespace; false if the mount is gone or cannot be opened.
    fn flush_inside(&self, namespace: &File, mount: &Mount, deadline: Deadline) -> Result<bool>;
    /// Unmounts; an error if it is busy.
    fn unmount(&self, mount: &Mount, deadline: Deadline) -> Result<()>;
    /// Unmounts these inside an open mount namespace; an error if one is busy.
    fn unmount_inside(&self, namespace: &File, mounts: &[Mount], deadline: Deadline) -> Result<()>;
    /// Ends all mounts, even locked ones, that other namespaces have at this empty directory of the orchestrator:
    /// replaces a stage directory by a new one, and removes a consumer's. An error if something of this namespace is
    /// mounted there; no error if the directory does not exist.
    fn exchange_folder(&self, folder: &Path) -> Result<()>;
    /// Cleans up after a killed call that did so.
    fn tidy_exchange(&self, folder: &Path);
    /// A copy of the mount, to restore it if it was unmounted too early; `None` if the kernel cannot make one.
    fn copy_of(&self, mount: &Mount) -> Option<OwnedFd>;
    fn put_back(&self, copy: OwnedFd, target: &Path) -> Result<()>;
    /// Unmounts lazily, whatever uses it; only right if its disk is lost.
    fn unmount_dead(&self, mount: &Mount, deadline: Deadline) -> Result<()>;
}

/// Who on this node uses a file system or its disk, in whatever mount namespace.
///
/// File systems are given by device number, including those of former disks. "No user" is only answered if all
/// processes are visible; otherwise, or if this process lacks descriptors or memory, the answer is
/// [`Answer::CannotTell`]. Inaccessible parts of an answer are in its `untold`.
pub trait Census {
    /// Whether every process of the node is visible from here.
    fn sight(&self) -> Answer<()>;
    /// Limits the total time for examining other processes from here on; what is not reached is reported as unread.
    fn allow(&self, time: Duration);
    /// The mount namespace of this thread.
    fn own_namespace(&self) -> Result<NamespaceId>;
    /// The living processes of a pod with one of the file systems in their mount namespace, except those in the
    /// namespace `except`, in which the caller unmounts.
    fn pod_users(
        &self,
        pod: &ConsumerId,
        numbers: &[DeviceNumber],
        except: NamespaceId,
    ) -> Answer<PodUsers>;
    /// The other mount namespaces with one of the file systems.
    fn namespaces_with(&self, numbers: &[DeviceNumber]) -> Answer<NamespaceUses>;
    /// The mount namespaces that a heal can read in time: those of these pods first, then those of other pods, then the
    /// rest. What could not be read is left for a later heal.
    fn namespaces_in_time(
        &self,
        numbers: &[DeviceNumber],
        first: &BTreeSet<ConsumerId>,
        deadline: Deadline,
    ) -> Answer<NamespaceUses>;
    /// The mount namespaces with one of the file systems, or with one whose source is below this directory; with all
    /// such mounts.
    fn namespaces_of(&self, numbers: &[DeviceNumber], sources: &Path) -> Answer<NamespaceUses>;
    /// All users of the file systems or their disks, except this process and this thread's namespace. Slower, since it
    /// reads every open file of the node.
    fn device_users(&self, numbers: &[DeviceNumber]) -> Answer<DeviceUses>;
    /// Tracers that have stopped a process: one that is killed may stop at its exit, with everything it holds, until
    /// its tracer continues it or ends (`PTRACE_O_TRACEEXIT`).
    fn tracers_that_stop(&self, pid: u32) -> Vec<Process>;
    /// The statfs(2) id of each ext file system in any namespace; without those that are covered or inaccessible.
    fn ext_file_system_ids(&self) -> Answer<BTreeMap<DeviceNumber, u64>>;
    /// Opens a namespace for setns(2).
    fn open_namespace(&self, namespace: &NamespaceUse) -> Result<File>;
    /// What identifies a namespace later; this thread's own if none is given.
    fn sign_of(&self, namespace: Option<&NamespaceUse>) -> Result<NamespaceSign>;
    /// Opens a remembered namespace; `None` if it is gone, even if another one has its number.
    fn find_namespace(&self, sign: &NamespaceSign) -> Result<Option<File>>;
}

/// The peer group of this node's own stale mounts, and its current representative.
#[derive(Debug, Clone, Copy)]
pub struct PeerGroup<'a> {
    /// Its former number.
    pub number: u32,
    /// The root of a mount of the new file system in this thread's namespace, which is shared with new peers and
    /// followers.
    pub place: BorrowedFd<'a>,
}

/// Mounts to be replaced in one mount namespace.
#[derive(Debug)]
pub struct SwitchRequest<'a> {
    /// The namespace, or `None` for this thread's own.
    pub namespace: Option<&'a File>,
    /// The stale mounts, all of one lost file system, from that namespace's table.
    pub stale: &'a [Mount],
    /// The root of a healthy mount of the new file system: an open directory of this thread's namespace, or a detached
    /// mount from Linux 6.15 on.
    pub fresh: BorrowedFd<'a>,
    /// The group that former peers and followers join. Other mounts share with nothing.
    pub group: Option<PeerGroup<'a>>,
    /// When to stop waiting; tenants can make a walk through their namespace take for ever.
    pub deadline: Deadline,
}

/// How many processes are held at once. Each takes a descriptor, and tenants may have more processes than a call may
/// have descriptors.
pub const HELD_AT_ONCE: usize = 128;

/// The node, the caller and the rights of this process.
pub trait Environment {
    /// A text that differs after each boot, with which device and sequence numbers start again.
    fn boot_id(&self) -> String;
    /// The process that called the driver, distinguishable from a later one of its number.
    fn caller(&self) -> Option<Caller>;
    /// Whether that process is still alive.
    fn lives(&self, caller: &Caller) -> bool;
    fn is_root(&self) -> bool;
    /// Whether this process may grow a mounted ext4. If that is uncertain, the kernel decides.
    fn may_grow_mounted(&self) -> bool;
    /// A short id that is unique on this node.
    fn new_call_id(&self) -> String;

    /// The time since boot.
    fn uptime(&self) -> Uptime {
        Uptime { boot: self.boot_id(), seconds: clock::since_boot().as_secs() }
    }
}

/// The kubelets of this node.
pub trait Kubelets {
    /// The kubelet that this driver serves, if it is running.
    fn running_kubelet(&self) -> Option<RunningKubelet>;
    /// Whether the mounts below this root directory are another kubelet's.
    fn is_root_of_another(&self, root: &Path) -> bool;
    /// Whether a pod's directory below this root has one for the volume. An error if it cannot be listed.
    fn has_pod_directory(&self, root: &Path, faces: Faces, name: &VolumeName) -> Result<bool>;
}

/// Other processes of this node.
pub trait Processes {
    /// Holds a process, so that a signal cannot reach another one with its id.
    fn pin(&self, pid: u32) -> Result<OwnedFd>;
    /// Signals a held process; no error if it has ended.
    fn signal(&self, pinned: &OwnedFd, wakeup: Wakeup) -> Result<()>;
    /// Whether a held process has ended and the kernel has released everything it held. An exiting process disappears
    /// from `/proc` before the kernel unmounts its namespace.
    fn has_ended(&self, pinned: &OwnedFd) -> bool;
    /// Runs an operator's program with these facts in its environment; returns its last output.
    fn run(&self, program: &Path, facts: &[(&str, String)], deadline: Deadline) -> Result<String>;
}

/// A process that keeps a lost file system open, so that no unmount drops the last reference.
pub trait Keeper: std::fmt::Debug {
    fn pid(&self) -> i32;
    /// Releases the file system; returns whether that succeeded in time. A process that hangs is left alone.
    fn release(self: Box<Self>, deadline: Deadline) -> bool;
}

/// Replaces mounts while they are in use, in any mount namespace.
pub trait Remounts {
    /// The best method of this kernel; the worst one if this process may not try.
    fn method(&self) -> Method;
    /// Why this process may not try.
    fn obstacle(&self) -> Option<String>;
    /// Replaces each stale mount by one of the new file system with the same directory, flags, propagation and child
    /// mounts. One result per stale mount, in any order. An error means that nothing was changed, unless the time ran
    /// out: then it is unknown.
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
