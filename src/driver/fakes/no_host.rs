//! A machine where nothing can be done.

use super::nothing;
use crate::model::disk::device::Device;
use crate::model::disk::journal::sights::{JournalMark, JournalSights};
use crate::model::error::Result;
use crate::model::face::Faces;
use crate::model::ids::VolumeId;
use crate::model::ids::VolumeName;
use crate::model::kubelet::RunningKubelet;
use crate::model::mount::after_heal::Wakeup;
use crate::model::shield::own_map::OwnMap;
use crate::ports::clock::Deadline;
use crate::ports::host::{AboveDisk, Kubelets, Maps, Processes};
use std::os::fd::OwnedFd;
use std::path::Path;

/// For questions that need nothing of it.
#[derive(Debug)]
pub(crate) struct NoHost;

impl Maps for NoHost {
    fn cover(&self, _: &VolumeId, _: &Device, _: Option<(u64, u64)>) -> Result<()> {
        nothing()
    }

    fn switch(&self, _: &VolumeId, _: &Device) -> Result<()> {
        nothing()
    }

    fn journals(&self, _: &Device, _: &AboveDisk<'_>, _: Deadline) -> Result<JournalSights> {
        nothing()
    }

    fn map_of(&self, _: &VolumeId) -> Result<Option<OwnMap>> {
        Ok(None)
    }

    fn why_untold(&self, _: &Device, _: &JournalMark) -> Result<Option<String>> {
        nothing()
    }

    fn superblock(&self, _: &Device, _: &JournalMark) -> Result<Option<String>> {
        nothing()
    }

    fn volumes(&self) -> Result<Vec<VolumeId>> {
        Ok(Vec::new())
    }

    fn end_wait(&self, _: &VolumeId) -> Result<()> {
        Ok(())
    }

    fn settle(&self, _: &VolumeId) -> Result<()> {
        Ok(())
    }

    fn try_again(&self, _: &VolumeId) -> Result<()> {
        Ok(())
    }

    fn remove(&self, _: &VolumeId, _: Deadline) -> Result<bool> {
        Ok(false)
    }
}

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
