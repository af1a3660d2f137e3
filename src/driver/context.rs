//! What every operation works with: ports, policy and the limits of the call.

use crate::call_counts::CallCounts;
use crate::model::face::{Face, Faces};
use crate::model::ids::NodeName;
use crate::model::mount::after_heal::After;
use crate::model::policy::{GuardPolicy, HealMode, ShieldPolicy, Takeover};
use crate::ports::clock::Deadline;
use crate::ports::cloud::Cloud;
use crate::ports::host::{
    Census, Devices, Environment, FileSystems, Kubelets, Mounts, Processes, Remounts,
};
use crate::ports::store::{Answers, Locks, Pace, Records};
use crate::shield::Shield;
use std::path::Path;

/// One call's view of the cloud, this machine and the configuration. Every operation takes it.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub cloud: &'a dyn Cloud,
    pub host: Host<'a>,
    pub store: Store<'a>,
    pub policy: Policy<'a>,
    pub this_node: &'a NodeName,
    /// Each orchestrator's folders and words.
    pub faces: Faces,
    /// The one through which this call came.
    pub face: &'static Face,
    /// The operation's name, for the lock file.
    pub operation: &'a str,
    pub deadline: Deadline,
    pub counts: &'a CallCounts,
}

/// The ports of this machine.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
#[derive(Clone, Copy)]
pub struct Host<'a> {
    pub devices: &'a dyn Devices,
    pub shield: &'a dyn Shield,
    pub file_systems: &'a dyn FileSystems,
    pub mounts: &'a dyn Mounts,
    /// How a mount takes another's place.
    pub remounts: &'a dyn Remounts,
    /// Who uses a mount or a disk.
    pub census: &'a dyn Census,
    pub processes: &'a dyn Processes,
    pub kubelets: &'a dyn Kubelets,
    pub environment: &'a dyn Environment,
}

/// What this machine remembers between calls.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
#[derive(Clone, Copy)]
pub struct Store<'a> {
    pub records: &'a dyn Records,
    /// One lock for each volume.
    pub locks: &'a dyn Locks,
    /// Answers of a remote cloud that processes share.
    pub answers: &'a dyn Answers,
    /// How long a remote cloud takes for its changes.
    pub pace: &'a dyn Pace,
    /// A folder for mounts that stay out of sight.
    pub scratch: &'a Path,
}

/// What the configuration decides.
#[derive(Debug, Clone, Copy)]
pub struct Policy<'a> {
    pub guard: &'a GuardPolicy,
    pub heal: HealMode,
    pub shield: &'a ShieldPolicy,
    /// What is done after a heal.
    pub after: &'a After,
    /// From which servers a volume may be taken.
    pub takeover: Takeover,
}

impl<'a> Context<'a> {
    /// Answers that processes share; a local cloud is asked each time.
    pub(crate) fn answers(&self) -> Option<&'a dyn Answers> {
        self.cloud.capabilities().is_remote.then_some(self.store.answers)
    }

    pub(crate) fn pace(&self) -> Option<&'a dyn Pace> {
        self.cloud.capabilities().is_remote.then_some(self.store.pace)
    }
}
