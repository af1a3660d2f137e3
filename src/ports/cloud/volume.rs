//! What a cloud shows of its volumes and servers.

use super::notes::{Notes, Tenure};
use crate::model::cloud::attachment_state::VolumeStatus;
use crate::model::cloud::request::AttachRequest;
use crate::model::disk::formatting::Life;
use crate::model::ids::{ServerId, VolumeId, VolumeName};
use std::collections::BTreeSet;

/// A volume as the cloud shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudVolume {
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
    /// An attach that was asked for, and whose outcome is not noted yet.
    pub requested: Option<AttachRequest>,
    /// What it is doing.
    pub status: VolumeStatus,
    /// Whether several servers may have it at once.
    pub is_shareable: bool,
    /// Where it is attached; one that is only on its way is not listed, one that is leaving is.
    pub attachments: Vec<Attachment>,
}

impl CloudVolume {
    /// A volume that began blank, that one server may have, and of which nothing is noted.
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

    /// Adds the notes that the cloud keeps with the volume.
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

    /// The attachment to this server, if there is one.
    pub fn attachment_to(&self, server: &ServerId) -> Option<&Attachment> {
        self.attachments.iter().find(|attachment| attachment.server == *server)
    }

    /// Whether this server says that it has the volume mounted.
    pub fn is_marked_by(&self, server: &ServerId) -> bool {
        self.mounted_on.as_ref() == Some(server) || self.mounted_beside.contains(server)
    }

    /// Whether any server says so.
    pub fn is_marked(&self) -> bool {
        self.mounted_on.is_some() || !self.mounted_beside.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The attachment's own id, where it has one: a volume that was detached and attached again
    /// has another.
    pub id: Option<String>,
    pub server: ServerId,
    /// Since when, in the cloud's words.
    pub since: Option<String>,
    /// Whether the server starts from it: then no orchestrator attached it.
    pub is_root: bool,
}

impl Attachment {
    /// An attachment of which the cloud tells the server alone.
    pub fn to(server: ServerId) -> Self {
        Self { id: None, server, since: None, is_root: false }
    }
}

/// Whether a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// It runs, or nothing says that it does not.
    Running,
    /// It certainly does not run: it writes to no disk.
    Stopped,
    /// It does not run, and no host has it: an attach is only reserved, and a detach is done at once.
    Offloaded,
    /// Anything else.
    Other,
}

/// A server as the cloud shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerView {
    pub name: Option<String>,
    pub state: ServerState,
    /// What the cloud calls that, for people.
    pub word: String,
}

impl ServerView {
    /// Whether it certainly does not run.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, ServerState::Stopped | ServerState::Offloaded)
    }
}

/// A hold on a volume that is no finished attachment yet, or not any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    pub id: String,
    pub server: Option<ServerId>,
    /// How far it is, in the cloud's word.
    pub word: String,
}
