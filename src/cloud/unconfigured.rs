//! Stands in where no cloud is configured: what needs none works, the rest says what to write.

use super::{Beside, Claim, Cloud, CloudVolume, RequestNote, ServerView};
use crate::host::clock::Deadline;
use crate::model::cloud::attachment_state::ComputeView;
use crate::model::cloud::request::Work;
use crate::model::disk::device::Identity;
use crate::model::disk::formatting::Life;
use crate::model::error::{Error, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use std::path::{Path, PathBuf};

/// No cloud, and why.
#[derive(Debug, Clone)]
pub struct Unconfigured {
    /// What every request answers.
    pub reason: Error,
}

impl Unconfigured {
    fn no<T>(&self) -> Result<T> {
        Err(self.reason.clone())
    }
}

impl Cloud for Unconfigured {
    fn identity(&self, id: &VolumeId) -> Identity {
        Identity::Serial(id.clone())
    }

    fn link(&self, id: &VolumeId) -> PathBuf {
        Path::new("/dev/disk/by-id").join(id.link_name())
    }

    fn volume(&self, _: &VolumeId, _: Deadline) -> Result<Option<CloudVolume>> {
        self.no()
    }

    fn server(&self, _: &NodeName, _: Deadline) -> Result<Option<ServerId>> {
        self.no()
    }

    fn recorded_as(&self, _: &VolumeName, _: Deadline) -> Result<Vec<CloudVolume>> {
        self.no()
    }

    fn compute_view(&self, _: &VolumeId, _: &ServerId, _: Deadline) -> Result<ComputeView> {
        self.no()
    }

    fn attached_to(&self, _: &ServerId, _: Deadline) -> Result<Vec<CloudVolume>> {
        self.no()
    }

    fn record_name(&self, _: &VolumeId, _: Option<&VolumeName>, _: Deadline) -> Result<()> {
        self.no()
    }

    fn note_request(&self, _: &VolumeId, _: &RequestNote<'_>, _: Deadline) -> Result<()> {
        self.no()
    }

    fn end_request(&self, _: &VolumeId, _: Deadline) -> Result<()> {
        self.no()
    }

    fn work_at(&self, _: &ServerId, _: Deadline) -> Result<Work> {
        self.no()
    }

    fn keeps_marks(&self) -> bool {
        false
    }

    fn note_life(&self, _: &VolumeId, _: &Life, _: Deadline) -> Result<()> {
        self.no()
    }

    fn mark_mounted(&self, _: &VolumeId, _: Option<&ServerId>, _: Deadline) -> Result<()> {
        self.no()
    }

    fn mark_beside(&self, _: &VolumeId, _: Beside<'_>, _: Deadline) -> Result<()> {
        self.no()
    }

    fn attach(&self, _: &VolumeId, _: &ServerId, _: Deadline) -> Result<()> {
        self.no()
    }

    fn detach(&self, _: &VolumeId, _: &ServerId, _: Deadline) -> Result<()> {
        self.no()
    }

    fn server_view(&self, _: &ServerId, _: Deadline) -> Result<Option<ServerView>> {
        self.no()
    }

    fn claims(&self, _: &VolumeId, _: Deadline) -> Result<Vec<Claim>> {
        self.no()
    }

    fn drop_attachment(&self, _: &str, _: Deadline) -> Result<()> {
        self.no()
    }

    fn extend(&self, _: &VolumeId, _: u64, _: Deadline) -> Result<()> {
        self.no()
    }
}
