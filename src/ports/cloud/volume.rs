//! A cloud's view of volumes and servers.

use super::notes::{Notes, Tenure};
use crate::model::cloud::attachment_state::VolumeStatus;
use crate::model::cloud::request::AttachRequest;
use crate::model::disk::formatting::Life;
use crate::model::ids::{ServerId, VolumeId, VolumeName};
use std::collections::BTreeSet;

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudVolume {
    pub id: VolumeId,
    /// In bytes.
    pub size: u64,
    /// The display name that people gave it.
    pub name: Option<String>,
    /// The orchestrator's name, recorded by an attach.
    pub recorded_name: Option<VolumeName>,
    /// The server whose mark says that it has mounted the volume.
    pub mounted_on: Option<ServerId>,
    /// Further such servers, for a shared volume.
    pub mounted_beside: BTreeSet<ServerId>,
    /// How far it has come, according to its notes.
    pub life: Option<Life>,
    /// What it was made from, if not blank: a snapshot, an image, a volume.
    pub origin: Option<String>,
    /// Whether encryption makes its disk smaller.
    pub is_encrypted: bool,
    /// The last server that had it, as far as our attaches recorded that.
    pub tenure: Option<Tenure>,
    /// An attach request with unknown outcome.
    pub requested: Option<AttachRequest>,
    pub status: VolumeStatus,
    /// Whether it is multi-attach.
    pub is_shareable: bool,
    /// Its attachments, including one that is ending, but not one in progress.
    pub attachments: Vec<Attachment>,
}

impl CloudVolume {
    /// A blank volume for one server, without notes.
    pub fn new(id: VolumeId, size: u64, status: VolumeStatus) -> Self {
        Self {
            id,
            size,
            name: None,
            recorded_name: None,
            mounted_on: None,
            mounted_beside: BTreeSet::new(),
            life: None,
            origin: None,
            is_encrypted: false,
            tenure: None,
            requested: None,
            status,
            is_shareable: false,
            attachments: Vec::new(),
        }
    }

    /// Adds the volume's notes.
    #[must_use]
    pub fn with_notes(self, notes: Notes) -> Self {
        let Notes { name, request, tenure, life, mounted_on, mounted_beside } = notes;
        Self {
            recorded_name: name,
            requested: request,
            tenure,
            life,
            mounted_on,
            mounted_beside,
            ..self
        }
    }

    pub fn attachment_to(&self, server: &ServerId) -> Option<&Attachment> {
        self.attachments.iter().find(|attachment| attachment.server == *server)
    }

    /// Whether this server's mark says that it has mounted the volume.
    pub fn is_marked_by(&self, server: &ServerId) -> bool {
        self.mounted_on.as_ref() == Some(server) || self.mounted_beside.contains(server)
    }

    /// Whether any server's mark does.
    pub fn is_marked(&self) -> bool {
        self.mounted_on.is_some() || !self.mounted_beside.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The attachment's id, if it has one; a later attachment has another.
    pub id: Option<String>,
    pub server: ServerId,
    /// Since when, in the cloud's format.
    pub since: Option<String>,
    /// Whether it is the server's root volume, which no orchestrator attached.
    pub is_root: bool,
}

impl Attachment {
    /// An attachment of which only the server is known.
    pub fn to(server: ServerId) -> Self {
        Self { id: None, server, since: None, is_root: false }
    }
}

/// Whether a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// It runs, or may run.
    Running,
    /// It certainly does not run and writes to no disk.
    Stopped,
    /// It is shelved: an attach is only reserved, and a detach completes at once.
    Offloaded,
    /// Anything else.
    Other,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerView {
    pub name: Option<String>,
    pub state: ServerState,
    /// The cloud's word for it, for people.
    pub word: String,
}

impl ServerView {
    /// Whether it certainly does not run.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, ServerState::Stopped | ServerState::Offloaded)
    }
}

/// A hold on a volume that is not a finished attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    pub id: String,
    pub server: Option<ServerId>,
    /// Its state, in the cloud's words.
    pub word: String,
}
