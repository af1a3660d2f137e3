//! The kubelet that calls this driver, as far as it can be seen from outside.

use std::path::PathBuf;
use std::time::Duration;

/// Who attaches volumes to a kubelet's node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attacher {
    /// kubelet itself: `enableControllerAttachDetach` is false.
    Kubelet,
    /// The controller-manager, which is the default.
    Controller,
    /// That could not be determined, for this reason.
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningKubelet {
    /// Who attaches for it.
    pub attacher: Attacher,
    pub root: PathBuf,
    /// How long it has been running; nothing if that cannot be determined.
    pub age: Option<Duration>,
}
