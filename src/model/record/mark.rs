//! The marks and notes that the cloud keeps of a volume, as far as this machine knows them.

use crate::ids::ServerId;
use serde::{Deserialize, Serialize};

/// What the cloud was told of the volume, and what it said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MarkRecord {
    /// How often the volume had gone to another server when it was mounted here.
    #[serde(rename = "tenure", default, skip_serializing_if = "Option::is_none")]
    pub attach_generation: Option<u64>,
    /// Whether the cloud would give the volume to several servers, as it was seen last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_shareable: Option<bool>,
    /// Whether the cloud was told that the volume is mounted here.
    #[serde(rename = "is_marked", default)]
    pub is_set: bool,
    /// When the disk was lost, in milliseconds since the boot: the mark may have gone with it, and the cloud was not
    /// asked yet.
    #[serde(rename = "mark_doubted_at", default, skip_serializing_if = "Option::is_none")]
    pub doubted_at: Option<u64>,
    /// As which server this one told it beside another, of a volume that readers share.
    #[serde(rename = "marked_beside", default, skip_serializing_if = "Option::is_none")]
    pub set_beside: Option<ServerId>,
    /// As which server this one asked the cloud to keep a mark of it, and has no answer yet: the mark may
    /// be there. It outlives the boot, as the mark does.
    #[serde(rename = "mark_asked", default, skip_serializing_if = "Option::is_none")]
    pub requested_as: Option<ServerId>,
    /// When it asked, in milliseconds since the boot: the mark may come later still. It is known before the
    /// other, which waits for a disk.
    #[serde(rename = "mark_asked_at", default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<u64>,
    /// Whether the cloud was told that the volume has data.
    #[serde(rename = "is_life_told", default)]
    pub is_data_reported: bool,
    /// What the cloud says when notes with the volume are not allowed; nothing if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes_forbidden: Option<String>,
}

impl MarkRecord {
    /// Whether the cloud was told that the volume is mounted here, by either mark.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_set || self.set_beside.is_some()
    }

    /// Whether the cloud may have a mark, because this machine asked it to keep one.
    #[must_use]
    pub fn may_exist(&self) -> bool {
        self.is_known() || self.requested_as.is_some() || self.requested_at.is_some()
    }

    /// The cloud has no mark.
    pub fn clear(&mut self) {
        self.end_request();
        self.clear_seen();
    }

    /// The cloud shows no mark; one that was requested may still come.
    pub fn clear_seen(&mut self) {
        (self.is_set, self.doubted_at, self.set_beside) = (false, None, None);
    }

    /// What became of a requested mark is known.
    pub fn end_request(&mut self) {
        (self.requested_as, self.requested_at) = (None, None);
    }

    /// The disk is gone, and the mark may have gone with it.
    pub fn doubt(&mut self, now: u64) {
        if self.is_known() {
            self.doubted_at.get_or_insert(now);
        }
    }
}
