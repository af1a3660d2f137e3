//! What is remembered of the map through which a volume is mounted.

use super::disk::DiskMoment;
use crate::disk::journal::sights::JournalMark;
use crate::timestamp::Uptime;
use serde::{Deserialize, Serialize};

/// A volume that grows makes some at once.
const MOST_SUPERBLOCKS: usize = 8;

/// The volume's map: its mount, and its wait for the disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShieldRecord {
    /// Since when its map waits for its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_wait: Option<MapWait>,
    /// The mount through a map that was made last, or was about to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_intent: Option<MapIntent>,
    /// The superblocks of the mount through the map, as they were in the kernel's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superblocks: Option<SeenSuperblocks>,
}

impl ShieldRecord {
    /// The superblocks that were seen of the mount through this map.
    #[must_use]
    pub fn superblocks_through(&self, map: &DiskMoment) -> &[String] {
        let seen = self.superblocks.as_ref().filter(|seen| seen.map.is_of(map));
        seen.map_or(&[], |seen| &seen.fingerprints)
    }

    /// This one was in memory.
    pub fn saw_superblock(&mut self, map: DiskMoment, fingerprint: String) {
        let mut fingerprints = self.superblocks_through(&map).to_vec();
        fingerprints.retain(|one| *one != fingerprint);
        fingerprints.push(fingerprint);
        let surplus = fingerprints.len().saturating_sub(MOST_SUPERBLOCKS);
        fingerprints.drain(..surplus);
        self.superblocks = Some(SeenSuperblocks { map, fingerprints });
    }
}

/// What a map waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitCause {
    /// Its disk, which is gone, or cannot be looked at yet.
    #[default]
    Gone,
    /// A disk to which nothing else wrote: the one that is here is refused.
    Refused,
    /// A request that does not fail: the disk is here.
    Failing,
}

impl WaitCause {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::Failing => "failing",
        }
    }
}

/// A mount through a map. It is written down before the mount: of one whose call is killed nothing else tells how far
/// its journal was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapIntent {
    /// The map, as the disk that is mounted.
    pub map: DiskMoment,
    /// What the mount will be remembered by.
    #[serde(rename = "first_transaction")]
    pub journal: JournalMark,
}

/// Superblocks of one mount through a map, the newest last. The kernel changes one in memory first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenSuperblocks {
    pub map: DiskMoment,
    /// What tells each from the others.
    pub fingerprints: Vec<String>,
}

/// The wait of a volume's map for its disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapWait {
    /// When it was seen first.
    pub since: Uptime,
    #[serde(default)]
    pub cause: WaitCause,
    /// Why the disk that is here was not put under the map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_switched: Option<String>,
}

impl MapWait {
    /// Whether it is for no more than a look at the disk, which is here: what hinders that may end any moment. What was
    /// seen of a disk that is refused stays.
    #[must_use]
    pub const fn is_for_a_look(&self) -> bool {
        matches!(self.cause, WaitCause::Gone) && self.not_switched.is_some()
    }
}
