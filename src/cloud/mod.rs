//! The cloud: who has which volume, and the requests that change it.
//!
//! Adapters are raw: they report what is, and pass a request on. Whether "already attached" is a
//! success, what to wait for and what to refuse is decided in [`crate::driver`].

pub mod local;
pub mod openstack;
pub mod unconfigured;

use crate::model::device::Identity;
use crate::model::error::Result;
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use crate::model::time::Deadline;
use std::path::PathBuf;

/// A volume as the cloud shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudVolume {
    /// Its id.
    pub id: VolumeId,
    /// Its size in bytes.
    pub size: u64,
    /// Its name in the cloud, as people gave it.
    pub name: Option<String>,
    /// The orchestrator's name of it, as an attach recorded it.
    pub recorded_name: Option<VolumeName>,
    /// Where it is attached, is being attached, or is being detached.
    pub attachments: Vec<Attachment>,
}

impl CloudVolume {
    /// The attachment to this server, if there is one.
    #[must_use]
    pub fn attachment_to(&self, server: &ServerId) -> Option<&Attachment> {
        self.attachments.iter().find(|attachment| attachment.server == *server)
    }
}

/// One attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// To whom.
    pub server: ServerId,
    /// How far it is.
    pub state: AttachmentState,
    /// Since when, in the cloud's words.
    pub since: Option<String>,
}

/// How far an attachment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentState {
    /// Asked for, not there yet.
    Attaching,
    /// There.
    Attached,
    /// Still there, going.
    Detaching,
}

/// A cloud that lends block volumes to servers.
pub trait Cloud {
    /// What the volume's disk shows on the machine it is attached to. No request is made.
    fn identity(&self, id: &VolumeId) -> Identity;

    /// The link under which people and kubelet know the volume's disk. No request is made.
    fn link(&self, id: &VolumeId) -> PathBuf;

    /// The volume; `None` only when the cloud says for certain that it does not exist.
    fn volume(&self, id: &VolumeId, deadline: Deadline) -> Result<Option<CloudVolume>>;

    /// The server behind a node's name; `None` only when it certainly does not exist.
    fn server(&self, node: &NodeName, deadline: Deadline) -> Result<Option<ServerId>>;

    /// Every volume that an attach recorded under this name.
    fn recorded_as(&self, name: &VolumeName, deadline: Deadline) -> Result<Vec<VolumeId>>;

    /// Every volume that is attached to the server, or on its way there.
    fn attached_to(&self, server: &ServerId, deadline: Deadline) -> Result<Vec<CloudVolume>>;

    /// Records the orchestrator's name with the volume, or removes it.
    fn record_name(
        &self,
        id: &VolumeId,
        name: Option<&VolumeName>,
        deadline: Deadline,
    ) -> Result<()>;

    /// Asks for an attachment; it may come true later.
    fn attach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()>;

    /// Asks to end an attachment; it may come true later.
    fn detach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()>;

    /// Asks for a larger volume; it may come true later.
    fn extend(&self, id: &VolumeId, bytes: u64, deadline: Deadline) -> Result<()>;
}
