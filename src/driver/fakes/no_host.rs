//! A node where nothing can be done.

use crate::model::error::Result;
use crate::model::face::Faces;
use crate::model::ids::VolumeName;
use crate::model::kubelet::RunningKubelet;
use crate::model::mount::after_heal::Wakeup;
use crate::ports::clock::Deadline;
use crate::ports::host::{Kubelets, Processes};
use std::os::fd::OwnedFd;
use std::path::Path;

/// For questions that do not need it.
#[derive(Debug)]
pub(crate) struct NoHost;

impl Kubelets for NoHost {
    fn running_kubelet(&self) -> Option<RunningKubelet> {
        None
    }

    fn is_root_of_another(&self, _: &Path) -> bool {
        false
    }

    fn has_pod_directory(&self, _: &Path, _: Faces, _: &VolumeName) -> Result<bool> {
        Ok(false)
    }
}

impl Processes for NoHost {
    fn pin(&self, _: u32) -> Result<OwnedFd> {
        unreachable!("nothing is healed in these tests")
    }

    fn signal(&self, _: &OwnedFd, _: Wakeup) -> Result<()> {
        unreachable!("nothing is healed in these tests")
    }

    fn has_ended(&self, _: &OwnedFd) -> bool {
        unreachable!("nothing is healed in these tests")
    }

    fn run(&self, _: &Path, _: &[(&str, String)], _: Deadline) -> Result<String> {
        unreachable!("nothing is healed in these tests")
    }
}
