//! What a call works with.

use crate::call_counts::CallCounts;
use crate::cloud::Cloud;
use crate::host::clock::Deadline;
use crate::host::locks::Locks;
use crate::host::pace::Pace;
use crate::host::records::Records;
use crate::host::shared_answers::Answers;
use crate::host::{Census, Devices, FileSystems, Kubelets, Maps, Mounts, Processes, Remounts};
use crate::model::face::{Face, Faces};
use crate::model::ids::NodeName;
use crate::model::mount::after_heal::After;
use crate::model::policy::{GuardPolicy, HealMode, ShieldPolicy, Takeover};
use std::path::Path;

/// What a call works with: ports to the cloud and the machine, and settings.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// Who lends the volumes.
    pub cloud: &'a dyn Cloud,
    /// Disks of this machine.
    pub devices: &'a dyn Devices,
    /// Maps of the driver's own over them.
    pub maps: &'a dyn Maps,
    /// What stands on them.
    pub file_systems: &'a dyn FileSystems,
    pub mounts: &'a dyn Mounts,
    /// What this machine remembers.
    pub records: &'a Records,
    /// Answers shared with other processes, for a cloud that is remote.
    pub answers: &'a Answers,
    /// How long a remote cloud takes for its changes.
    pub pace: &'a Pace,
    /// One lock for each volume.
    pub locks: &'a Locks,
    /// This machine's name.
    pub this_node: &'a NodeName,
    /// From which servers a volume may be taken.
    pub takeover: Takeover,
    pub census: &'a dyn Census,
    /// How a mount takes another's place.
    pub remounts: &'a dyn Remounts,
    /// Whether mounts of a disk that came back are repaired.
    pub heal: HealMode,
    /// Whether new mounts are made through a map, and how long what waits in one may wait.
    pub shield: &'a ShieldPolicy,
    /// What is done once they were.
    pub after: &'a After,
    /// The kubelets of this machine.
    pub kubelets: &'a dyn Kubelets,
    /// Other processes of this machine.
    pub processes: &'a dyn Processes,
    /// A folder for mounts that stay out of sight.
    pub scratch: &'a Path,
    /// Whether tear-downs of volumes in use are refused.
    pub guard: &'a GuardPolicy,
    /// The faces of the driver: each orchestrator's folders and words.
    pub faces: Faces,
    /// The one through which this call came.
    pub face: &'static Face,
    /// The operation's name, for the lock file.
    pub operation: &'a str,
    /// When to answer at the latest.
    pub deadline: Deadline,
    /// What is counted on the way.
    pub counts: &'a CallCounts,
}
