//! Who uses a file system or its disk: facts of one moment, for a decision and for its sentence.

use super::mountinfo::Mount;
use crate::advice::Remedy;
use crate::cgroup::Owner;
use crate::disk::device::DeviceNumber;
use crate::ids::ConsumerId;
use crate::shield::map_uuid::MapUuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What was found out, or why nothing could be: then a caller may not take the absence of users for
/// granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// All that there is to know.
    Told(T),
    /// Why it cannot be known from here.
    CannotTell(String),
}

/// A mount namespace: the inode number that `/proc/PID/ns/mnt` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamespaceId(pub u64);

impl fmt::Display for NamespaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mnt:[{}]", self.0)
    }
}

/// A process, as a person can find it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its id in the initial PID namespace.
    pub pid: u32,
    /// The kernel's short name of it; empty if it ended meanwhile.
    pub command: String,
    pub owner: Owner,
    /// The user as whom it runs; none if that could not be read.
    pub user: Option<u32>,
}

impl Process {
    /// The user whose process it is, if it is an ordinary user's: of no pod, of no container.
    pub fn ordinary_user(&self) -> Option<u32> {
        let is_contained = self.owner.pod.is_some() || self.owner.container.is_some();
        self.user.filter(|user| *user != 0 && !is_contained)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Enough of a container's id to find it, as every runtime's tools print it.
        const SHORT: usize = 12;
        write!(f, "{}", self.pid)?;
        if !self.command.is_empty() {
            write!(f, " ({})", self.command)?;
        }
        if let Some(container) = &self.owner.container {
            write!(f, " in container {}", container.get(..SHORT).unwrap_or(container))?;
        }
        if let Some(pod) = &self.owner.pod {
            write!(f, " of pod {pod}")?;
        }
        if let Some(user) = self.ordinary_user() {
            write!(f, " of user {user}")?;
        }
        Ok(())
    }
}

/// What was found of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodUsers {
    /// Its processes that have the volume.
    pub holders: Vec<Holder>,
    /// Whether the machine has a cgroup for it. Without one its containers, if any, run elsewhere.
    pub has_cgroup: bool,
}

/// A process of a pod that has the volume in its mount namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub process: Process,
    /// Where the volume is mounted, as the process sees it.
    pub places: Vec<PathBuf>,
}

/// How long the kernel may show a mount namespace that is being taken down: its last process was killed a moment
/// ago, or another process looks at it. It lets none in then.
pub const NAMESPACE_GOES_WITHIN: Duration = Duration::from_millis(200);

/// A mount namespace other than ours in which the file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceUse {
    /// Which; unknown if its only processes do not let their links be read.
    pub id: Option<NamespaceId>,
    /// The file system's mounts there, with paths as seen there.
    pub mounts: Vec<Mount>,
    /// What those stand on.
    pub beneath: Vec<Mount>,
    /// The ordinary user who made it, in a user namespace of his own.
    pub user: Option<u32>,
    /// The processes that live there.
    pub processes: Vec<Process>,
    /// What keeps it alive when no process lives there, as far as it could be found.
    pub keepers: Vec<NamespaceKeeper>,
}

/// What keeps a mount namespace alive that has no process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceKeeper {
    /// It is mounted, as `ip netns` and its like do.
    MountedAt {
        place: PathBuf,
        /// In which namespace; unknown as above.
        within: Option<NamespaceId>,
    },
    /// A process has it open.
    OpenIn { process: Process, descriptor: u32 },
    /// This process may live there: it, and perhaps others, could not be examined.
    Unexamined(Process),
}

/// How a process holds a file system without a mount of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tie {
    /// An open file or folder.
    Descriptor(u32),
    /// A file mapped into memory.
    Map,
    WorkingFolder,
    RootFolder,
    /// Files that wait in a UNIX socket to be received, or that an `io_uring` has: the kernel does not tell whether
    /// they are of this file system.
    Undescribed,
}

/// A process that holds a file of the file system.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileUse {
    pub process: Process,
    pub tie: Tie,
    /// What, as the kernel spells it for us: a label.
    pub path: PathBuf,
    /// The file system that it is of.
    pub number: DeviceNumber,
}

/// A process that has a node of the disk itself open. The kernel does not tell who opened it
/// exclusively.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeUse {
    pub process: Process,
    pub descriptor: u32,
    /// The node it was opened by.
    pub path: PathBuf,
}

/// A part of the kernel that uses the disk or a file of the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelUse {
    /// A device made of the disk.
    Holder {
        /// The kernel's name of it, such as `dm-0`.
        device: String,
        /// The device mapper's name of it; empty if it is none of its devices.
        name: String,
        /// The device mapper's id of it, which begins with the kind: `LVM-`, `mpath-`, `CRYPT-`.
        kind: String,
    },
    /// A loop device.
    Loop {
        device: String,
        /// The file or node behind it, as the kernel spells it for us.
        file: PathBuf,
    },
    /// A swap area.
    Swap(PathBuf),
}

impl KernelUse {
    /// The command that ends it.
    pub fn ended_by(&self) -> String {
        match self {
            Self::Holder { device, name, kind } => {
                if let Some(map) = MapUuid::parse(kind) {
                    return Remedy::Release.of(map.volume()).to_string();
                }
                let name = plain(Path::new(name));
                match kind.split('-').next() {
                    _ if device.starts_with("md") => format!("mdadm --stop /dev/{device}"),
                    _ if device.starts_with("bcache") => {
                        format!("echo 1 > /sys/block/{device}/bcache/stop")
                    }
                    Some("LVM") => format!("lvchange -an /dev/mapper/{name}"),
                    Some("mpath") => format!("multipath -f {name}"),
                    Some("CRYPT") => format!("cryptsetup close {name}"),
                    _ if device.starts_with("dm-") => format!("dmsetup remove {name}"),
                    _ => format!("lsblk /dev/{device} shows what it is"),
                }
            }
            Self::Loop { device, .. } => format!("losetup -d /dev/{device}"),
            Self::Swap(area) => format!("swapoff {}", plain(area)),
        }
    }
}

/// A path for a command that people copy: its name may have blanks or quotes.
pub fn plain(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@~=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        text.into_owned()
    } else {
        format!("'{}'", text.replace(|c: char| c == '\'' || c.is_control(), "?"))
    }
}

/// Something that could not be read; a holder of the disk may hide there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    pub what: String,
    pub why: String,
    /// The pods whose it is: it counts for the volumes that they have or had.
    pub pods: BTreeSet<ConsumerId>,
    /// Whether it counts for every volume.
    pub is_anyones: bool,
    /// The commands that end what keeps it from being read, if there are any.
    pub way_out: Option<String>,
}

impl Untold {
    /// Something of which is not known whose it is.
    pub fn of_unknown(what: String, why: String) -> Self {
        Self { what, why, pods: BTreeSet::new(), is_anyones: false, way_out: None }
    }
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        self.way_out.as_ref().map_or(Ok(()), |way| write!(f, "; to end it: {way}"))
    }
}

/// All mount namespaces but ours that have the file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceUses {
    /// Each of them.
    pub namespaces: Vec<NamespaceUse>,
    /// What could not be read.
    pub untold: Vec<Untold>,
    /// What there was no time to read, or no descriptor: a later look may tell it. Only a heal goes on
    /// without it.
    pub later: Vec<Untold>,
}

impl NamespaceUses {
    /// The first thing that could not be read and may have the volume: a container's, or one of these pods'.
    pub fn hidden(&self, is_one: impl Fn(&ConsumerId) -> bool) -> Option<&Untold> {
        self.untold.iter().find(|untold| untold.is_anyones || untold.pods.iter().any(&is_one))
    }
}

/// All that uses a file system or its disk, this process and its namespace left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceUses {
    /// Namespaces with a mount of it.
    pub namespaces: Vec<NamespaceUse>,
    /// Processes with a file of it.
    pub files: Vec<FileUse>,
    /// Processes with files that may be of it ([`Tie::Undescribed`]).
    pub possible: Vec<FileUse>,
    /// Processes with its disk open.
    pub nodes: Vec<NodeUse>,
    pub kernel: Vec<KernelUse>,
    /// What could not be read.
    pub untold: Vec<Untold>,
}

#[cfg(any(test, debug_assertions))]
impl Process {
    /// A process of root's, and of no pod.
    pub fn of_a_test(pid: u32) -> Self {
        Self { pid, command: "sh".to_owned(), owner: Owner::default(), user: Some(0) }
    }
}

#[cfg(any(test, debug_assertions))]
impl NamespaceUse {
    /// One that is not known by its number, with these mounts, where these live.
    pub fn of_a_test(mounts: Vec<Mount>, processes: Vec<Process>) -> Self {
        let (id, user, beneath, keepers) = (None, None, Vec::new(), Vec::new());
        Self { id, mounts, beneath, user, processes, keepers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_map_has_its_own_end() {
        let ended_by = |kind: &str| {
            let (device, name) = ("dm-0".to_owned(), "a".to_owned());
            KernelUse::Holder { device, name, kind: kind.to_owned() }.ended_by()
        };
        assert_eq!(ended_by("incloud_disk-v-1"), "Release v-1");
        assert_eq!(ended_by("LVM-v-1"), "lvchange -an /dev/mapper/a");
        assert_eq!(ended_by("incloud_disk-"), "dmsetup remove a");
    }

    #[test]
    fn a_process_is_named_by_what_is_known_of_it() {
        let owner = Owner {
            pod: Some(ConsumerId::parse("u-1").unwrap()),
            container: Some("0123456789abcdef".to_owned()),
        };
        let whole = Process { pid: 7, command: "postgres".to_owned(), owner, user: Some(999) };
        assert_eq!(whole.to_string(), "7 (postgres) in container 0123456789ab of pod u-1");
        let bare = Process { pid: 7, command: String::new(), owner: Owner::default(), user: None };
        assert_eq!(bare.to_string(), "7");
        let users = Process { user: Some(1000), ..bare.clone() };
        assert_eq!(users.to_string(), "7 of user 1000");
        assert_eq!(Process { user: Some(0), ..bare }.to_string(), "7");
    }
}
