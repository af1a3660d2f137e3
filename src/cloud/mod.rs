//! The cloud: who has which volume, and the requests that change it.
//!
//! Adapters are raw: they report what is, and pass a request on. Whether "already attached" is a
//! success, what to wait for and what to refuse is decided in [`crate::driver`].

pub mod local;
pub mod openstack;
pub mod unconfigured;

use crate::host::clock::Deadline;
use crate::model::cloud::attachment_state::ComputeView;
use crate::model::cloud::request::{AttachRequest, Work};
use crate::model::disk::device::Identity;
use crate::model::disk::formatting::Life;
use crate::model::error::Result;
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use std::collections::BTreeSet;
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
    /// The server that says it has the volume mounted.
    pub mounted_on: Option<ServerId>,
    /// Further servers that say so, of a volume that several may have.
    pub mounted_beside: BTreeSet<ServerId>,
    /// How far it has come, as noted with it.
    pub life: Option<Life>,
    /// What the cloud made it from, if it did not begin blank: a snapshot, an image, a volume.
    pub origin: Option<String>,
    /// Whether its disk is smaller by what an encryption takes.
    pub is_encrypted: bool,
    /// Who had it last, as far as our attaches noted it.
    pub tenure: Option<Tenure>,
    /// An attach that was asked for, and whose outcome nobody has noted yet.
    pub requested: Option<AttachRequest>,
    /// Its status, in the words of `OpenStack`'s block service.
    pub status: String,
    /// Whether several servers may have it at once.
    pub is_shareable: bool,
    /// Where it is attached; one that is only on its way is not listed, one that is leaving is.
    pub attachments: Vec<Attachment>,
}

impl CloudVolume {
    /// The attachment to this server, if there is one.
    #[must_use]
    pub fn attachment_to(&self, server: &ServerId) -> Option<&Attachment> {
        self.attachments.iter().find(|attachment| attachment.server == *server)
    }

    /// Whether this server says that it has the volume mounted.
    #[must_use]
    pub fn is_marked_by(&self, server: &ServerId) -> bool {
        self.mounted_on.as_ref() == Some(server) || self.mounted_beside.contains(server)
    }

    /// Whether any server says so.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.mounted_on.is_some() || !self.mounted_beside.is_empty()
    }
}

/// What becomes of the mark that a further server has with a volume.
#[derive(Debug, Clone, Copy)]
pub enum Beside<'a> {
    /// It is left.
    Left(&'a ServerId),
    /// It is removed.
    Removed(&'a ServerId),
}

/// Which server was the last to get a volume by an attach of ours, and how often it went to another
/// one than the time before: two equal counts mean that nobody else had it in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenure {
    /// The server.
    pub server: ServerId,
    /// How often the server was another one.
    pub count: u64,
}

/// What is noted with a volume, in one request, before an attach is asked for.
#[derive(Debug, Clone, Copy)]
pub struct RequestNote<'a> {
    /// The request.
    pub request: &'a AttachRequest,
    /// Who is about to have the volume, if that is another one than before.
    pub tenure: Option<&'a Tenure>,
    /// The orchestrator's name of the volume.
    pub name: Option<&'a VolumeName>,
}

/// One attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The attachment's own id, where it has one: a volume that was detached and attached again
    /// has another.
    pub id: Option<String>,
    /// To whom.
    pub server: ServerId,
    /// Since when, in the cloud's words.
    pub since: Option<String>,
    /// Whether the server starts from it: then no orchestrator attached it.
    pub is_root: bool,
}

/// A server as the compute service shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerView {
    /// Its name.
    pub name: Option<String>,
    /// Its status, in the service's words.
    pub status: String,
    /// Whether it is certainly not running.
    pub is_stopped: bool,
}

/// Whoever holds a volume, be it only by a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The attachment's id.
    pub id: String,
    /// For which server.
    pub server: Option<ServerId>,
    /// How far it is, in the service's words.
    pub status: String,
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
    fn recorded_as(&self, name: &VolumeName, deadline: Deadline) -> Result<Vec<CloudVolume>>;

    /// Whether the cloud's other half, the compute service, has the volume mapped to the server:
    /// that is so from the first moment of an attach to the last of a detach.
    fn compute_view(
        &self,
        id: &VolumeId,
        server: &ServerId,
        deadline: Deadline,
    ) -> Result<ComputeView>;

    /// Every volume that is attached to the server.
    fn attached_to(&self, server: &ServerId, deadline: Deadline) -> Result<Vec<CloudVolume>>;

    /// Records the orchestrator's name with the volume, or removes it.
    fn record_name(
        &self,
        id: &VolumeId,
        name: Option<&VolumeName>,
        deadline: Deadline,
    ) -> Result<()>;

    /// Notes with the volume, before it is asked for, that an attach is.
    fn note_request(&self, id: &VolumeId, note: &RequestNote<'_>, deadline: Deadline)
    -> Result<()>;

    /// Notes that the outcome of the attach was seen.
    fn end_request(&self, id: &VolumeId, deadline: Deadline) -> Result<()>;

    /// What the server's host does, as far as the cloud tells.
    fn work_at(&self, server: &ServerId, deadline: Deadline) -> Result<Work>;

    /// Whether marks of who has a volume mounted can be left with it.
    fn keeps_marks(&self) -> bool;

    /// Notes how far the volume has come.
    fn note_life(&self, id: &VolumeId, life: &Life, deadline: Deadline) -> Result<()>;

    /// Leaves the mark of who has the volume mounted, or removes it. What was mounted has data: that
    /// is noted in the same request, and stays.
    fn mark_mounted(
        &self,
        id: &VolumeId,
        server: Option<&ServerId>,
        deadline: Deadline,
    ) -> Result<()>;

    /// Leaves the mark of a further server, beside the one of another, or removes it.
    fn mark_beside(&self, id: &VolumeId, mark: Beside<'_>, deadline: Deadline) -> Result<()>;

    /// Asks for an attachment; it may come true later. An error of kind `Unreachable` or
    /// `Timeout` leaves open whether it was taken: look.
    fn attach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()>;

    /// Asks to end an attachment; it may come true later. Errors as with attach; one of kind
    /// `Missing` says that the compute service knows of none.
    fn detach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()>;

    /// The server; nothing only if the compute service knows none of that id.
    fn server_view(&self, server: &ServerId, deadline: Deadline) -> Result<Option<ServerView>>;

    /// Who holds the volume, reservations included.
    fn claims(&self, id: &VolumeId, deadline: Deadline) -> Result<Vec<Claim>>;

    /// Removes an attachment from the block service's books alone. Right only when the server
    /// does not exist any more: a running one would have its disk cut off.
    fn drop_attachment(&self, attachment: &str, deadline: Deadline) -> Result<()>;

    /// By how many seconds the cloud's clock was ahead of ours when it answered last; nothing where
    /// it has none, or has not answered.
    fn clock_ahead(&self) -> Option<i64> {
        None
    }

    /// Asks for a larger volume; it may come true later.
    fn extend(&self, id: &VolumeId, bytes: u64, deadline: Deadline) -> Result<()>;
}
