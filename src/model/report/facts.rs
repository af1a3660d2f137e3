//! What was seen of one volume at one moment, and where it was read: for people and machines to
//! look at. Nothing is decided here; [`super::health`] judges it.

use crate::cloud::attachment_state::{VolumePhase, VolumeStatus};
use crate::disk::device::{Device, DeviceNumber, Link, Proof};
use crate::disk::formatting::Life;
use crate::face::FaceName;
use crate::ids::{ConsumerId, VolumeId, VolumeName};
use crate::mount::disk_users::Process;
use crate::mount::mountinfo::Mount;
use crate::mount::staleness::{Here, MountVerdict};
use crate::report::tear_down::TearDown;
use crate::shield::own_map::{MapState, OwnMap};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VolumeFacts {
    /// The cloud's id; nothing if only a folder of it was found.
    pub id: Option<VolumeId>,
    /// The orchestrator's name.
    pub name: Option<VolumeName>,
    /// What its disk must show, in words.
    pub identity: String,
    /// Its disk on this machine.
    pub disk: DiskFact,
    /// The map of the driver's own over that, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<MapFact>,
    /// What the cloud says.
    pub cloud: CloudFact,
    /// Its mounts, in all mount namespaces that could be seen.
    pub mounts: Vec<MountFact>,
    /// Why the mounts of other namespaces could not be seen.
    pub unseen_mounts: Option<String>,
    /// What still uses a disk that the volume had and that is gone, beside its mounts.
    pub users_of_lost_disk: Vec<HolderFact>,
    /// Why that could not be looked for.
    pub unseen_users: Option<String>,
    /// Who had the volume since it came here.
    pub pods: Vec<PodFact>,
    /// Tear-downs that are refused.
    pub refused: Vec<RefusalFact>,
    /// Folders that the orchestrator was let go of while their pods had the volume.
    pub let_go: Vec<LetGoFact>,
    /// Whether kubelet unmounted it and left it attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_attached: Option<LeftAttached>,
    /// What this machine remembers, and where that is written.
    pub record: RecordFact,
    /// Links that name the volume.
    pub links: Vec<Link>,
    /// The call that works on it right now.
    pub lock: Option<String>,
}

impl VolumeFacts {
    /// What it is called, by its id first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let id = self.id.iter().map(VolumeId::as_str);
        id.chain(self.name.iter().map(VolumeName::as_str))
    }

    /// The first of its names; nothing is known without one.
    pub fn label(&self) -> &str {
        self.names().next().unwrap_or_default()
    }

    /// Those who have it now, as people know them.
    pub fn users(&self) -> Vec<&str> {
        self.pods.iter().filter(|pod| pod.has_it).map(PodFact::label).collect()
    }
}

/// Where the volume's disk is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "found", rename_all = "kebab-case")]
pub enum DiskFact {
    /// One disk, and it is the volume's.
    Proven(Disk),
    /// No disk of this machine shows the volume's identity.
    None,
    /// Which disk it is cannot be told: several show the identity, or one shows too little.
    Ambiguous {
        why: String,
        /// The disks that show the identity.
        among: Vec<DeviceNumber>,
    },
    /// It could not be determined.
    Unseen {
        why: String,
        /// What to check; nothing where another user sees more.
        #[serde(skip_serializing_if = "Option::is_none")]
        check: Option<String>,
    },
}

impl DiskFact {
    /// The disk, if it is certain.
    pub fn proven(&self) -> Option<&Disk> {
        match self {
            Self::Proven(disk) => Some(disk),
            Self::None | Self::Ambiguous { .. } | Self::Unseen { .. } => None,
        }
    }

    /// The same for the rule that tells dead mounts; nothing if it could not be looked for.
    pub fn here(&self) -> Option<Here> {
        match self {
            Self::Proven(disk) => Some(Here::One(disk.number)),
            Self::None => Some(Here::Nothing),
            Self::Ambiguous { .. } => Some(Here::Uncertain),
            Self::Unseen { .. } => None,
        }
    }
}

/// A disk that was proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// The kernel's name.
    pub name: String,
    pub number: DeviceNumber,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// The kernel's count of disks when it appeared.
    pub sequence: Option<u64>,
    /// Whether it shows the whole id: else only its first 20 characters.
    pub shows_whole_id: bool,
    /// What it shows of itself in sysfs.
    pub shows: Vec<String>,
}

impl Disk {
    /// A disk and what it shows.
    pub fn new(device: Device, shows: Vec<String>) -> Self {
        Self {
            name: device.kernel_name,
            number: device.number,
            size: device.size,
            read_only: device.read_only,
            sequence: device.sequence,
            shows_whole_id: device.proof == Proof::Whole,
            shows,
        }
    }
}

/// A map of device mapper through which the volume is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MapFact {
    /// The kernel's name.
    pub name: String,
    pub number: DeviceNumber,
    /// What becomes of a read or a write.
    pub state: MapState,
    /// The number of the disk that it has or had; nothing if that could not be told.
    pub path: Option<DeviceNumber>,
    /// How often it is open.
    pub opened: u32,
    /// Its wait for its disk, if it was seen to wait.
    pub wait: Option<WaitFact>,
}

/// The wait of a map for its disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitFact {
    /// For how many seconds it was seen to wait.
    pub paused: u64,
    /// For how many more it will, at most a look of the timer longer.
    pub patience_left: u64,
    /// Why the disk that is here was not put under the map.
    pub not_switched: Option<String>,
}

impl MapFact {
    /// As it was seen now.
    pub fn new(map: OwnMap, wait: Option<WaitFact>) -> Self {
        Self {
            wait: wait.filter(|_| map.state().waits()),
            state: map.state(),
            path: map.table.map(|table| table.path),
            name: map.kernel_name,
            number: map.number,
            opened: map.opened,
        }
    }
}

/// What the cloud says of the volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "says", rename_all = "kebab-case")]
pub enum CloudFact {
    /// Nothing: it was not asked, or did not answer. That is no "detached".
    Unknown {
        why: String,
    },
    /// There is no such volume.
    Missing,
    Known(CloudView),
}

/// The volume as the cloud shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CloudView {
    /// What it is doing, in the cloud's word.
    pub status: VolumeStatus,
    /// Its size in bytes.
    pub size: u64,
    pub name: Option<String>,
    /// The orchestrator's name that an attach left with it.
    pub recorded_name: Option<VolumeName>,
    /// The server that says it has it mounted.
    pub mounted_on: Option<String>,
    /// How far it has come, as noted with it.
    pub life: Option<Life>,
    /// What it was made from, if it did not begin blank.
    pub origin: Option<String>,
    /// Whether its disk is smaller by what an encryption takes.
    pub is_encrypted: bool,
    /// This machine's server.
    pub here: Option<String>,
    /// The servers it is attached to, and since when.
    pub servers: Vec<(String, Option<String>)>,
    /// Whether this machine is one of them.
    pub is_here: bool,
}

impl CloudFact {
    /// One word or two.
    pub fn word(&self) -> String {
        match self {
            Self::Unknown { .. } => "unknown".to_owned(),
            Self::Missing => "missing".to_owned(),
            Self::Known(view) => match (view.is_here, view.servers.is_empty()) {
                (true, _) if view.status.phase == VolumePhase::Attached => "attached".to_owned(),
                (false, true) if view.status.phase == VolumePhase::Available => {
                    "detached".to_owned()
                }
                (false, false) => "elsewhere".to_owned(),
                _ => view.status.to_string(),
            },
        }
    }
}

/// Whose a mount is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The machine's own, from which pods get theirs.
    Global,
    /// A pod's folder on the machine.
    Pod,
    /// Another place on the machine.
    Machine,
    /// Inside a pod's container.
    Container,
    /// In a namespace that is no pod's.
    Stranger,
}

/// What a mount stands on, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountedOn {
    /// The volume's disk.
    Disk,
    /// That could not be told.
    Unknown,
    /// A disk that is gone.
    Gone,
    /// A disk that the kernel has and gives no work to: it may come back.
    Halted,
    /// A disk that the kernel has, and that is not the volume's.
    Other,
}

impl From<Option<&MountVerdict>> for MountedOn {
    fn from(verdict: Option<&MountVerdict>) -> Self {
        match verdict {
            Some(MountVerdict::Healthy) => Self::Disk,
            Some(MountVerdict::Stale | MountVerdict::Waiting) => Self::Gone,
            Some(MountVerdict::NotProvenDead(_)) => Self::Halted,
            Some(MountVerdict::Foreign(_)) => Self::Other,
            Some(MountVerdict::Ambiguous) | None => Self::Unknown,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountFact {
    pub role: Role,
    /// Where, as seen in its namespace.
    #[serde(serialize_with = "crate::path_text::shown")]
    pub place: PathBuf,
    /// What it stands on, by the verdict.
    pub on: MountedOn,
    /// What the heal makes of it; nothing if that could not be told.
    pub verdict: Option<MountVerdict>,
    pub number: DeviceNumber,
    /// Which folder of the file system.
    #[serde(serialize_with = "crate::path_text::shown")]
    pub root: PathBuf,
    /// The file system's type.
    pub fs_type: String,
    pub options: String,
    /// Those of the whole file system.
    pub super_options: String,
    /// What was named as its source.
    pub source: String,
    /// Its namespace; nothing for the machine's own.
    pub namespace: Option<u64>,
    /// The pod, if it is one's.
    pub pod: Option<ConsumerId>,
    /// The processes that live there.
    pub processes: Vec<ProcessFact>,
    /// Through which face it was asked for, if it is the machine's own and that is remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub face: Option<FaceName>,
    /// Why its path does not lead to it, if it is the machine's own and that was found.
    pub out_of_reach: Option<String>,
    /// The command that ends that.
    pub way_out: Option<String>,
}

impl MountFact {
    /// A mount and what is known of it beside the table.
    pub fn new(mount: &Mount, role: Role, verdict: Option<MountVerdict>) -> Self {
        Self {
            role,
            place: mount.target.clone(),
            on: verdict.as_ref().into(),
            verdict,
            number: mount.disk,
            root: mount.root.clone(),
            fs_type: mount.fs_type.clone(),
            options: mount.options.clone(),
            super_options: mount.super_options.clone(),
            source: mount.source.clone(),
            namespace: None,
            pod: None,
            processes: Vec::new(),
            face: None,
            out_of_reach: None,
            way_out: None,
        }
    }

    /// Whether it is in the machine's own namespace.
    pub fn is_own(&self) -> bool {
        matches!(self.role, Role::Global | Role::Pod | Role::Machine)
    }

    /// Whether the file system as a whole refuses writes.
    pub fn is_super_read_only(&self) -> bool {
        self.super_options.split(',').any(|option| option == "ro")
    }
}

/// A process, as a person can find it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessFact {
    pub pid: u32,
    /// The kernel's short name of it.
    pub command: String,
    /// The runtime's id of its container.
    pub container: Option<String>,
    pub pod: Option<ConsumerId>,
}

impl From<&Process> for ProcessFact {
    fn from(process: &Process) -> Self {
        Self {
            pid: process.pid,
            command: process.command.clone(),
            container: process.owner.container.clone(),
            pod: process.owner.pod.clone(),
        }
    }
}

/// A pod that has or had the volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodFact {
    pub uid: ConsumerId,
    /// The name that people know it by, where it was told.
    pub name: Option<String>,
    /// Whether the volume is in its folder, or in a container of it.
    pub has_it: bool,
}

impl PodFact {
    /// The name, else the UID.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(self.uid.as_str())
    }
}

/// A tear-down that was refused and has not succeeded since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusalFact {
    #[serde(skip)]
    pub tear_down: TearDown,
    /// Which, in the caller's words, with the consumer's id.
    pub what: String,
    /// The same with the name that people know the consumer by.
    #[serde(skip)]
    pub told: String,
    /// The caller's word alone.
    #[serde(skip)]
    pub operation: &'static str,
    /// Why, the last time.
    pub reason: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// When it was asked for last.
    pub last: u64,
    pub count: u64,
    /// Whether it is still asked for.
    pub is_current: bool,
}

/// A pod's folder that was unmounted while the pod had the volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LetGoFact {
    pub pod: ConsumerId,
    /// When, in milliseconds since 1970.
    pub since: u64,
    /// When it was mounted again, in milliseconds since 1970.
    pub back: Option<u64>,
    /// Whether it lasts for longer than an orchestrator needs that can read its claims.
    pub lasts: bool,
    /// Whether no caller will ask for the volume's end: the pod has ended, and so has the process that
    /// named the volume last.
    pub is_forgotten: bool,
}

/// A volume that kubelet unmounted and left attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftAttached {
    /// For how many seconds no call came.
    pub silent_for: u64,
    /// Why it is not certain; then nothing is done about it.
    pub doubt: Option<String>,
}

/// What this machine remembers of the volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RecordFact {
    pub file: PathBuf,
    /// Whether there is one.
    pub is_there: bool,
    /// Why it could not be read.
    pub unseen: Option<String>,
    pub staged: Option<PathBuf>,
    /// The file system's UUID then.
    pub uuid: Option<String>,
    /// The number of the disk then.
    pub staged_from: Option<DeviceNumber>,
    /// Numbers that its disk had since this machine was started.
    pub former: Vec<DeviceNumber>,
    /// A format that was begun and not finished.
    pub is_formatting: bool,
    /// Whether this machine ever mounted the volume.
    pub was_mounted: bool,
    /// What the cloud says where notes with the volume are not allowed.
    pub notes_forbidden: Option<String>,
    /// How many tear-downs were refused since it came here.
    pub refusals: u64,
}

/// A process or a part of the kernel that uses the volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HolderFact {
    /// The process; nothing for the kernel.
    pub process: Option<ProcessFact>,
    /// The name of its pod, where it was told.
    pub pod_name: Option<String>,
    /// How it holds it, in a word: mount, file, map, folder, root, node, kernel.
    pub how: &'static str,
    pub what: String,
    /// Whether that is on a disk that is gone.
    pub is_on_gone_disk: bool,
    /// The inode number of the mount namespace, for a mount.
    pub namespace: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clouds_view_is_never_detached_by_silence() {
        let view = |phase, word: &str, servers: usize, is_here| {
            CloudFact::Known(CloudView {
                status: VolumeStatus::new(phase, word),
                size: 1,
                servers: vec![("s".to_owned(), None); servers],
                is_here,
                ..CloudView::default()
            })
        };
        assert_eq!(CloudFact::Unknown { why: "x".to_owned() }.word(), "unknown");
        assert_eq!(view(VolumePhase::Attached, "in-use", 1, true).word(), "attached");
        assert_eq!(view(VolumePhase::Attached, "in-use", 1, false).word(), "elsewhere");
        assert_eq!(view(VolumePhase::Available, "available", 0, false).word(), "detached");
        assert_eq!(view(VolumePhase::Detaching, "detaching", 1, true).word(), "detaching");
        assert_eq!(view(VolumePhase::Failed, "error", 0, false).word(), "error");
    }
}
