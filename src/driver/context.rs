//! What every operation needs: ports, policy and the limits of the call.

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

/// One call's view of the cloud, this node and the configuration.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub cloud: &'a dyn Cloud,
    pub host: Host<'a>,
    pub store: Store<'a>,
    pub policy: Policy<'a>,
    pub this_node: &'a NodeName,
    /// Each orchestrator's directories and words.
    pub faces: Faces,
    /// The front end through which this call came.
    pub face: &'static Face,
    /// The operation's name, for the lock file.
    pub operation: &'a str,
    pub deadline: Deadline,
    pub counts: &'a CallCounts,
}

/// The ports of this node.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
#[derive(Clone, Copy)]
pub struct Host<'a> {
    pub devices: &'a dyn Devices,
    pub shield: &'a dyn Shield,
    pub file_systems: &'a dyn FileSystems,
    pub mounts: &'a dyn Mounts,
    /// Replaces mounts.
    pub remounts: &'a dyn Remounts,
    /// Finds the users of mounts and disks.
    pub census: &'a dyn Census,
    pub processes: &'a dyn Processes,
    pub kubelets: &'a dyn Kubelets,
    pub environment: &'a dyn Environment,
}

/// What this node remembers between calls.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
#[derive(Clone, Copy)]
pub struct Store<'a> {
    pub records: &'a dyn Records,
    /// One lock per volume.
    pub locks: &'a dyn Locks,
    /// A remote cloud's answers, shared between processes.
    pub answers: &'a dyn Answers,
    /// How long a remote cloud takes for its changes.
    pub pace: &'a dyn Pace,
    /// The directory for hidden mounts.
    pub scratch: &'a Path,
}

/// The decisions of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Policy<'a> {
    pub guard: &'a GuardPolicy,
    pub heal: HealMode,
    pub shield: &'a ShieldPolicy,
    /// What to do after a heal.
    pub after: &'a After,
    /// From which servers a volume may be taken.
    pub takeover: Takeover,
}

impl<'a> Context<'a> {
    /// Shared answers; a local cloud is asked every time.
    pub(crate) fn answers(&self) -> Option<&'a dyn Answers> {
        self.cloud.capabilities().is_remote.then_some(self.store.answers)
    }

    pub(crate) fn pace(&self) -> Option<&'a dyn Pace> {
        self.cloud.capabilities().is_remote.then_some(self.store.pace)
    }
}
