//! What this machine knows about the marks and notes that the cloud keeps with a volume.

use crate::ids::ServerId;
use serde::{Deserialize, Serialize};

/// The volume's mark in the cloud, which says where it is mounted, and its notes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MarkRecord {
    /// How many times the volume had moved to another server when it was mounted here.
    #[serde(rename = "tenure", default, skip_serializing_if = "Option::is_none")]
    pub attach_generation: Option<u64>,
    /// Whether the cloud would attach the volume to several servers, when last asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_shareable: Option<bool>,
    /// Whether the cloud has the mark that the volume is mounted here.
    #[serde(rename = "is_marked", default)]
    pub is_set: bool,
    /// When the disk was lost, in milliseconds since the boot, if the cloud was not asked since whether it still has the
    /// mark.
    #[serde(rename = "mark_doubted_at", default, skip_serializing_if = "Option::is_none")]
    pub doubted_at: Option<u64>,
    /// The server under which this machine's mark stands next to others', for a volume that readers share.
    #[serde(rename = "marked_beside", default, skip_serializing_if = "Option::is_none")]
    pub set_beside: Option<ServerId>,
    /// The server for which a mark was requested, until the cloud answers. The mark may exist. This outlives the boot,
    /// as the mark does.
    #[serde(rename = "mark_asked", default, skip_serializing_if = "Option::is_none")]
    pub requested_as: Option<ServerId>,
    /// When the mark was requested, in milliseconds since the boot. It is written before `requested_as`, which may
    /// wait for a slow disk.
    #[serde(rename = "mark_asked_at", default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<u64>,
    /// Whether the cloud has the note that the volume holds data.
    #[serde(rename = "is_life_told", default)]
    pub is_data_reported: bool,
    /// The cloud's error if it does not allow notes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes_forbidden: Option<String>,
}

impl MarkRecord {
    /// Whether the cloud has either mark.
    pub fn is_known(&self) -> bool {
        self.is_set || self.set_beside.is_some()
    }

    /// Whether the cloud may have a mark: it has one, or one was requested.
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

    /// The cloud has answered the request for a mark.
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
