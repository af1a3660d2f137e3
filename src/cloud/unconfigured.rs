//! Stands in where no cloud is configured: what needs none works, the rest says what to write.

use crate::model::cloud::request::Work;
use crate::model::disk::device::Identity;
use crate::model::error::{Error, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use crate::ports::clock::Deadline;
use crate::ports::cloud::{Capabilities, Cloud, CloudVolume, Note, Reservation, ServerView};

/// No cloud, and why.
#[derive(Debug, Clone)]
pub struct Unconfigured {
    /// What every request answers.
    pub reason: Error,
    /// Whether the configuration says which cloud the volumes are from: then it is known what their disks show.
    pub is_kind_known: bool,
}

impl Unconfigured {
    fn no<T>(&self) -> Result<T> {
        Err(self.reason.clone())
    }
}

impl Cloud for Unconfigured {
    fn capabilities(&self) -> Capabilities {
        Capabilities::of("no cloud")
    }

    fn identity(&self, id: &VolumeId) -> Identity {
        Identity::Serial(id.clone())
    }

    fn identity_doubt(&self) -> Option<&Error> {
        (!self.is_kind_known).then_some(&self.reason)
    }

    fn volume(&self, _: &VolumeId, _: Deadline) -> Result<Option<CloudVolume>> {
        self.no()
    }

    fn server(&self, _: &NodeName, _: Deadline) -> Result<Option<ServerId>> {
        self.no()
    }

    fn attached_to(&self, _: &ServerId, _: Deadline) -> Result<Vec<CloudVolume>> {
        self.no()
    }

    fn attach(&self, _: &VolumeId, _: &ServerId, _: Deadline) -> Result<()> {
        self.no()
    }

    fn detach(&self, _: &VolumeId, _: &ServerId, _: Deadline) -> Result<()> {
        self.no()
    }

    fn note(&self, _: &VolumeId, _: &[Note<'_>], _: Deadline) -> Result<()> {
        self.no()
    }

    fn recorded_as(&self, _: &VolumeName, _: Deadline) -> Result<Vec<CloudVolume>> {
        self.no()
    }

    fn server_view(&self, _: &ServerId, _: Deadline) -> Result<Option<ServerView>> {
        self.no()
    }

    fn work_at(&self, _: &ServerId, _: Deadline) -> Result<Work> {
        self.no()
    }

    fn reservations(&self, _: &VolumeId, _: Deadline) -> Result<Vec<Reservation>> {
        self.no()
    }

    fn forget_attachment(&self, _: &str, _: Deadline) -> Result<()> {
        self.no()
    }

    fn extend(&self, _: &VolumeId, _: u64, _: Deadline) -> Result<()> {
        self.no()
    }
}
