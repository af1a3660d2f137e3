//! Cinder: volumes and its own view of who has them.

pub mod actions;
pub mod attachments;
pub mod metadata;
pub mod routes;
pub mod rules;
pub mod volumes;

use super::ids;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Cinder's view.
#[derive(Debug, Default)]
pub struct Storage {
    /// Oldest first.
    pub volumes: Vec<Volume>,
}

#[derive(Debug, Clone)]
pub struct Volume {
    pub id: String,
    pub name: String,
    /// The project's id.
    pub project: String,
    /// The owner's id.
    pub user: String,
    pub region: String,
    pub zone: String,
    /// GiB.
    pub size: u64,
    pub status: String,
    pub bootable: bool,
    pub multiattach: bool,
    pub encrypted: bool,
    /// The name of its type.
    pub kind: String,
    /// What it was made from, by id.
    pub snapshot: Option<String>,
    pub source: Option<String>,
    /// What Cinder remembers of the image it was made from; shown only where there is something.
    pub image: Map<String, Value>,
    pub metadata: Map<String, Value>,
    /// Keys that two requests added at the same moment. Cinder then has two values: it shows one and updates the other, and
    /// only deleting the key removes both.
    pub doubled: BTreeSet<String>,
    pub attachments: Vec<Attachment>,
    /// Seconds since 1970.
    pub created: i64,
    pub updated: i64,
    /// Every status that the volume has had, oldest first.
    pub history: Vec<String>,
}

/// Cinder's record of an attachment, from the reservation on.
#[derive(Debug, Clone)]
pub struct Attachment {
    pub id: String,
    /// `reserved`, `attaching`, `attached` or `detaching`.
    pub status: String,
    /// The server's id.
    pub server: String,
    pub device: Option<String>,
    /// Whether a connector was given: a mere reservation has none, and no guard (H9).
    pub connected: bool,
    pub attached_at: Option<i64>,
}

impl Attachment {
    /// A reservation for a server.
    pub fn reserved(server: &str) -> Self {
        Self {
            id: ids::uuid(),
            status: "reserved".to_owned(),
            server: server.to_owned(),
            device: None,
            connected: false,
            attached_at: None,
        }
    }

    /// Whether the volume's own listing shows it: only what was completed (C2, C9).
    pub fn is_complete(&self) -> bool {
        matches!(self.status.as_str(), "attached" | "detaching")
    }
}

impl Volume {
    /// Changes the status, and remembers it.
    pub fn set_status(&mut self, status: &str) {
        if self.status != status {
            status.clone_into(&mut self.status);
            self.history.push(status.to_owned());
        }
    }

    /// An attachment by its id.
    pub fn attachment(&mut self, id: &str) -> Option<&mut Attachment> {
        self.attachments.iter_mut().find(|attachment| attachment.id == id)
    }

    /// Ids of the servers that the volume's listing shows.
    pub fn servers(&self) -> Vec<&str> {
        let complete = self.attachments.iter().filter(|attachment| attachment.is_complete());
        complete.map(|attachment| attachment.server.as_str()).collect()
    }

    /// The status that the attachments left over make (I6).
    pub fn settle_status(&mut self) {
        let has = |status: &str| self.attachments.iter().any(|known| known.status == status);
        let status = match () {
            () if has("attached") => "in-use",
            () if has("attaching") => "attaching",
            () if has("reserved") => "reserved",
            () => "available",
        };
        self.set_status(status);
    }
}

impl Storage {
    pub fn volume(&self, id: &str) -> Option<&Volume> {
        self.volumes.iter().find(|volume| volume.id == id)
    }

    pub fn volume_mut(&mut self, id: &str) -> Option<&mut Volume> {
        self.volumes.iter_mut().find(|volume| volume.id == id)
    }
}
