//! The cloud: who has which volume, and the requests that change it.
//!
//! Adapters are raw: they report what is, and pass a request on. Whether "already attached" is a
//! success, what to wait for and what to refuse is the driver's to decide. How a cloud is added
//! is written in `docs/adding-a-cloud.md`; `tests/conformance` is what each must pass.

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

/// What a cloud can do, and how people call it and its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    pub name: &'static str,
    /// Whether it is asked over a network. Then calls of one moment share its answers, how long its
    /// changes take is remembered, and its clock is compared with this machine's.
    pub is_remote: bool,
    /// Whether it keeps every [`Note`]. Without, the driver marks no volume as mounted, so a detach that
    /// is called on another machine is refused by nothing; waits for no attach whose caller was
    /// killed; and does not see whether another server had a volume in between.
    pub keeps_marks: bool,
    /// After so long without a sign of it, a request that it took never comes true.
    pub longest_silence: Duration,
    /// Its part that knows the volumes, where its two parts contradict each other.
    pub volumes_side: &'static str,
    /// Its part that runs the servers.
    pub servers_side: &'static str,
}

impl Capabilities {
    /// A cloud beside us, that keeps no marks.
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

/// What this driver cannot put right, and a person may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble<'a> {
    /// A volume has failed, or is about to go.
    FailedVolume,
    /// This volume has failed while it was attached, and so cannot be detached.
    FailedWhileAttached(&'a VolumeId),
    /// This server has this volume mapped, and the volume lists no attachment.
    LeftMapping(&'a ServerId, &'a VolumeId),
    /// A volume is not free because of an attachment of this id that no request ends.
    LeftAttachment(&'a str),
    /// A volume is listed at a server that does not know of it, by the attachment of this id.
    ForgottenAttachment(&'a str),
    /// The cloud refuses notes.
    NotesForbidden,
}

/// A cloud that lends block volumes to servers. The seven methods without a body make one; the defaults of the others
/// promise nothing.
pub trait Cloud {
    /// What it can do. No request is made.
    fn capabilities(&self) -> Capabilities;

    /// What the volume's disk shows on the machine it is attached to. No request is made.
    fn identity(&self, id: &VolumeId) -> Identity;

    /// Why [`Self::identity`] is a guess: it is not known which cloud the volumes are from. A report must not
    /// judge a disk by a guess.
    fn identity_doubt(&self) -> Option<&Error> {
        None
    }

    /// The volume; `None` only when the cloud says for certain that it does not exist.
    fn volume(&self, id: &VolumeId, deadline: Deadline) -> Result<Option<CloudVolume>>;

    /// The server behind a node's name; `None` only when it certainly does not exist.
    fn server(&self, node: &NodeName, deadline: Deadline) -> Result<Option<ServerId>>;

    /// Whether a server that has a volume certainly belongs to another node than this one, whose name
    /// stands for `server`. By default whatever a name stands for is right.
    fn belongs_to_another_node(
        &self,
        attached: &ServerId,
        (_node, server): (&NodeName, Option<&ServerId>),
        _deadline: Deadline,
    ) -> Result<bool> {
        Ok(server.is_some_and(|server| server != attached))
    }

    /// Whether this machine itself shows that it is this server, whatever name the node has. No request is made.
    fn is_this_machine(&self, _server: &ServerId) -> bool {
        false
    }

    /// Every volume that is attached to the server.
    fn attached_to(&self, server: &ServerId, deadline: Deadline) -> Result<Vec<CloudVolume>>;

    /// Asks for an attachment; it may come true later. An error of kind `Unreachable` or
    /// `Timeout` leaves open whether it was taken: the driver looks.
    fn attach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()>;

    /// Asks to end an attachment; it may come true later. Errors as with attach; one of kind
    /// `Missing` says that the servers' side knows of none.
    fn detach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()>;

    /// The link under which people and the orchestrator know the volume's disk. No request is made.
    fn link(&self, id: &VolumeId) -> PathBuf {
        Path::new("/dev/disk/by-id").join(id.link_name())
    }

    /// Whether the servers' side has the volume mapped to the server: that is so from the first moment
    /// of an attach to the last of a detach. By default that is what the volume lists.
    fn mapping(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<Mapping> {
        if self.server_view(server, deadline)?.is_none() {
            return Ok(Mapping::NoServer);
        }
        let volume = self.volume(id, deadline)?;
        let is_mapped = volume.is_some_and(|volume| volume.attachment_to(server).is_some());
        Ok(if is_mapped { Mapping::Mapped } else { Mapping::NotMapped })
    }

    /// Notes things with the volume, all in one request, or removes them. By default the cloud
    /// allows none: the driver attaches only volumes whose detach finds them without.
    fn note(&self, _id: &VolumeId, _notes: &[Note<'_>], _deadline: Deadline) -> Result<()> {
        let name = self.capabilities().name;
        Err(Error::new(Kind::Config, format!("{name} keeps no notes with its volumes")))
    }

    /// Every volume that has this name noted.
    fn recorded_as(&self, _name: &VolumeName, _deadline: Deadline) -> Result<Vec<CloudVolume>> {
        Ok(Vec::new())
    }

    /// Every volume that people gave this name in the cloud. By default names there say nothing.
    fn called(&self, _name: &VolumeName, _deadline: Deadline) -> Result<Vec<CloudVolume>> {
        Ok(Vec::new())
    }

    /// The server; `None` only if there is certainly none of that id. By default it is taken to run.
    fn server_view(&self, _server: &ServerId, _deadline: Deadline) -> Result<Option<ServerView>> {
        let word = "state not known".to_owned();
        Ok(Some(ServerView { name: None, state: ServerState::Running, word }))
    }

    /// Where these credentials look, such as a project and a region, unless they show this server or this machine's
    /// own there: only then does "not found" mean "does not exist". By default nothing is out of sight.
    fn unproven_scope(
        &self,
        _server: Option<&ServerId>,
        _deadline: Deadline,
    ) -> Result<Option<String>> {
        Ok(None)
    }

    /// What the server's host does, as far as the cloud tells.
    fn work_at(&self, _server: &ServerId, _deadline: Deadline) -> Result<Work> {
        Ok(Work::NoneKnown)
    }

    /// What holds the volume beside finished attachments.
    fn reservations(&self, _id: &VolumeId, _deadline: Deadline) -> Result<Vec<Reservation>> {
        Ok(Vec::new())
    }

    /// Removes an attachment from the volumes' side alone. Right only when the server does not exist
    /// any more: a running one would have its disk cut off.
    fn forget_attachment(&self, attachment: &str, _deadline: Deadline) -> Result<()> {
        let name = self.capabilities().name;
        Err(Error::refused(format!("{name} has no attachment {attachment}")))
    }

    /// By how many seconds the cloud's clock was ahead of ours when it answered last; nothing where
    /// it has none, or has not answered.
    fn clock_ahead(&self) -> Option<i64> {
        None
    }

    /// Asks for a larger volume; it may come true later.
    fn extend(&self, id: &VolumeId, _bytes: u64, _deadline: Deadline) -> Result<()> {
        let name = self.capabilities().name;
        Err(Error::new(Kind::Config, format!("{name} cannot make volume {id} larger")))
    }

    /// What a person does here about a trouble, with the tools of this cloud.
    fn advice(&self, _trouble: Trouble<'_>) -> Option<String> {
        None
    }
}
