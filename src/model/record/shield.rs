//! The map through which a volume is mounted.

use super::disk::DiskMoment;
use crate::disk::journal::sights::JournalMark;
use crate::timestamp::Uptime;
use serde::{Deserialize, Serialize};

/// How many superblocks are remembered: a volume that grows changes its superblock several times at once.
const MOST_SUPERBLOCKS: usize = 8;

/// The volume's map: what is mounted through it, and since when it waits for its disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShieldRecord {
    /// The map's wait for its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_wait: Option<MapWait>,
    /// The last mount through a map, recorded before it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_intent: Option<MapIntent>,
    /// The superblocks of the mount through the map, as seen in the kernel's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superblocks: Option<SeenSuperblocks>,
}

impl ShieldRecord {
    /// The superblocks seen of the mount through this map.
    pub fn superblocks_through(&self, map: &DiskMoment) -> &[String] {
        let seen = self.superblocks.as_ref().filter(|seen| seen.map.is_of(map));
        seen.map_or(&[], |seen| &seen.fingerprints)
    }

    /// Records a superblock that was seen.
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
    /// Its disk, which is gone or cannot be examined yet.
    #[default]
    Gone,
    /// An unchanged disk: the present one is refused.
    Refused,
    /// A request that succeeds: the disk is here.
    Failing,
}

impl WaitCause {
    pub fn word(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::Failing => "failing",
        }
    }
}

/// A mount through a map. It is recorded before the mount is made: if the call is killed, nothing else shows the state
/// of its journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapIntent {
    /// The map, as the mounted disk.
    pub map: DiskMoment,
    /// The journal's state before the mount.
    #[serde(rename = "first_transaction")]
    pub journal: JournalMark,
}

/// Superblocks of one mount through a map, the newest last. The kernel changes them in memory first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenSuperblocks {
    pub map: DiskMoment,
    pub fingerprints: Vec<String>,
}

/// A map's wait for its disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapWait {
    pub since: Uptime,
    #[serde(default)]
    pub cause: WaitCause,
    /// Why the present disk was not put under the map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_switched: Option<String>,
}

impl MapWait {
    /// Whether only an examination of the present disk is missing, which may succeed at any time. A disk that was refused
    /// stays refused.
    pub const fn is_for_a_look(&self) -> bool {
        matches!(self.cause, WaitCause::Gone) && self.not_switched.is_some()
    }
}
