//! The cloud: which server has which volume, and the requests that change it.
//!
//! Adapters only report the state and pass requests on. Whether "already attached" is a success, what to wait for and
//! what to refuse is the driver's decision. `docs/adding-a-cloud.md` explains how to add a cloud, and
//! `tests/conformance` is what each must pass.

pub mod notes;
mod volume;

pub use self::notes::{Note, Notes, Tenure};
pub use self::volume::{Attachment, CloudVolume, Reservation, ServerState, ServerView};

use crate::clock::Deadline;
use crate::model::cloud::attachment_state::Mapping;
use crate::model::cloud::request::Work;
use crate::model::disk::device::Identity;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a cloud can do, and its names for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    pub name: &'static str,
    /// Whether it is reached over a network. Then concurrent calls share its answers, the time of its changes is
    /// recorded, and its clock is compared with the node's.
    pub is_remote: bool,
    /// Whether it keeps every [`Note`]. Without them the driver marks no volume as mounted, so that nothing refuses a
    /// detach that is called on another node; does not wait for an attach whose caller was killed; and does not notice
    /// that another server had a volume meanwhile.
    pub keeps_marks: bool,
    /// How long an accepted request may show no sign before it counts as lost.
    pub longest_silence: Duration,
    /// The name of its block storage service, for contradictions between the two.
    pub volumes_side: &'static str,
    /// The name of its compute service.
    pub servers_side: &'static str,
}

impl Capabilities {
    /// A local cloud that keeps no marks.
    pub const fn of(name: &'static str) -> Self {
        Self {
            name,
            is_remote: false,
            keeps_marks: false,
            longest_silence: Duration::from_secs(120),
            volumes_side: "the cloud's list of volumes",
            servers_side: "the cloud's list of servers",
        }
    }
}

/// A problem that a person may fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble<'a> {
    /// A volume is in an error state or is being deleted.
    FailedVolume,
    /// This volume is in an error state while attached, so it cannot be detached.
    FailedWhileAttached(&'a VolumeId),
    /// This server maps this volume, which lists no attachment.
    LeftMapping(&'a ServerId, &'a VolumeId),
    /// This leftover attachment keeps a volume from becoming free.
    LeftAttachment(&'a str),
    /// The server does not know this attachment that a volume lists.
    ForgottenAttachment(&'a str),
    /// The cloud refuses notes.
    NotesForbidden,
}

/// A cloud that attaches block volumes to servers. The seven methods without a body are enough; the defaults of the
/// others promise nothing.
pub trait Cloud {
    /// What it can do. Makes no request.
    fn capabilities(&self) -> Capabilities;

    /// The identity of the volume's disk on its server. Makes no request.
    fn identity(&self, id: &VolumeId) -> Identity;

    /// Why [`Self::identity`] is a guess: the configuration does not say which cloud the volumes are from. A report
    /// must not judge a disk by a guess.
    fn identity_doubt(&self) -> Option<&Error> {
        None
    }

    /// The volume; `None` only if it certainly does not exist.
    fn volume(&self, id: &VolumeId, deadline: Deadline) -> Result<Option<CloudVolume>>;

    /// The server of a node's name; `None` only if it certainly does not exist.
    fn server(&self, node: &NodeName, deadline: Deadline) -> Result<Option<ServerId>>;

    /// Whether a server with a volume certainly belongs to another node than the one whose name resolves to `server`.
    /// By default names are trusted.
    fn belongs_to_another_node(
        &self,
        attached: &ServerId,
        (_node, server): (&NodeName, Option<&ServerId>),
        _deadline: Deadline,
    ) -> Result<bool> {
        Ok(server.is_some_and(|server| server != attached))
    }

    /// Whether this node itself shows that it is this server, whatever the node's name. Makes no request.
    fn is_this_machine(&self, _server: &ServerId) -> bool {
        false
    }

    /// Every volume that is attached to the server.
    fn attached_to(&self, server: &ServerId, deadline: Deadline) -> Result<Vec<CloudVolume>>;

    /// Requests an attachment, which may happen later. After an error of kind `Unreachable` or `Timeout` it is unknown
    /// whether the request was accepted; the driver finds out.
    fn attach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()>;

    /// Requests the end of an attachment, which may happen later. Errors as for attach; kind `Missing` means that the
    /// compute service has none.
    fn detach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()>;

    /// The link by which people and the orchestrator know the volume's disk. Makes no request.
    fn link(&self, id: &VolumeId) -> PathBuf {
        Path::new("/dev/disk/by-id").join(id.link_name())
    }

    /// Whether the compute service maps the volume to the server, which lasts from the beginning of an attach to the
    /// end of a detach. By default, what the volume lists.
    fn mapping(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<Mapping> {
        if self.server_view(server, deadline)?.is_none() {
            return Ok(Mapping::NoServer);
        }
        let volume = self.volume(id, deadline)?;
        let is_mapped = volume.is_some_and(|volume| volume.attachment_to(server).is_some());
        Ok(if is_mapped { Mapping::Mapped } else { Mapping::NotMapped })
    }

    /// Stores or removes notes with the volume in one request. By default the cloud allows none, and the driver only
    /// attaches volumes whose detach finds them without.
    fn note(&self, _id: &VolumeId, _notes: &[Note<'_>], _deadline: Deadline) -> Result<()> {
        let name = self.capabilities().name;
        Err(Error::new(Kind::Config, format!("{name} keeps no notes with its volumes")))
    }

    /// Every volume with this recorded name.
    fn recorded_as(&self, _name: &VolumeName, _deadline: Deadline) -> Result<Vec<CloudVolume>> {
        Ok(Vec::new())
    }

    /// Every volume with this display name. By default display names mean nothing.
    fn called(&self, _name: &VolumeName, _deadline: Deadline) -> Result<Vec<CloudVolume>> {
        Ok(Vec::new())
    }

    /// The server; `None` only if it certainly does not exist. By default it counts as running.
    fn server_view(&self, _server: &ServerId, _deadline: Deadline) -> Result<Option<ServerView>> {
        let word = "state not known".to_owned();
        Ok(Some(ServerView { name: None, state: ServerState::Running, word }))
    }

    /// The scope of these credentials, such as project and region, unless they show this server or this node's own:
    /// only then does "not found" mean "does not exist". By default nothing is out of scope.
    fn unproven_scope(
        &self,
        _server: Option<&ServerId>,
        _deadline: Deadline,
    ) -> Result<Option<String>> {
        Ok(None)
    }

    /// What the server's host is doing, as far as the cloud tells.
    fn work_at(&self, _server: &ServerId, _deadline: Deadline) -> Result<Work> {
        Ok(Work::NoneKnown)
    }

    /// What holds the volume besides finished attachments.
    fn reservations(&self, _id: &VolumeId, _deadline: Deadline) -> Result<Vec<Reservation>> {
        Ok(Vec::new())
    }

    /// Removes an attachment record from the block storage service alone. Only right if the server no longer exists; a
    /// running one would lose its disk.
    fn forget_attachment(&self, attachment: &str, _deadline: Deadline) -> Result<()> {
        let name = self.capabilities().name;
        Err(Error::refused(format!("{name} has no attachment {attachment}")))
    }

    /// By how many seconds the cloud's clock was ahead at its last answer; `None` if unknown.
    fn clock_ahead(&self) -> Option<i64> {
        None
    }

    /// Requests a larger volume, which may happen later.
    fn extend(&self, id: &VolumeId, _bytes: u64, _deadline: Deadline) -> Result<()> {
        let name = self.capabilities().name;
        Err(Error::new(Kind::Config, format!("{name} cannot make volume {id} larger")))
    }

    /// What a person can do about a problem with this cloud's tools.
    fn advice(&self, _trouble: Trouble<'_>) -> Option<String> {
        None
    }
}
