//! What this machine remembers about a volume: a cache, never the truth.
//!
//! All of it can be lost: the kernel and the cloud are asked again. Keys that this version does not know are written back,
//! so that newer and older versions can take turns.

mod disk;
mod guard;
mod heal;
mod mark;
mod mounts;
mod shield;

pub use disk::{DiskMoment, DiskRecord, Formatting, LastFileSystem};
pub use guard::GuardRecord;
pub use heal::{HealRecord, NamespaceSign, Switching};
pub use mark::MarkRecord;
pub use mounts::{MountsRecord, Staged};
pub use shield::{MapIntent, MapWait, SeenSuperblocks, ShieldRecord, WaitCause};

use super::disk::journal::sights::JournalMark;
use super::ids::{VolumeId, VolumeName};
use super::mount::orphan::SILENT_FOR;
use super::timestamp::Uptime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The format that this version writes. Readers accept any.
pub const FORMAT: u32 = 1;

/// The keys that are meaningless after a reboot. They are stored separately, below the run directory, so that no mount
/// waits for a busy disk of the machine.
pub const OF_THE_BOOT: [&str; 22] = [
    "seen",
    "staged",
    "unstaged",
    "unstaged_at",
    "file_system",
    "former",
    "tenure",
    "mark_asked_at",
    "healing",
    "healing_from",
    "switching",
    "not_healed",
    "map_wait",
    "map_intent",
    "superblocks",
    "told_lost_writes",
    "refused",
    REFUSALS,
    "published",
    "faces",
    "consumers",
    "let_go",
];

/// The key of a count that is written even if it is 0. If it is missing among the keys of the boot, an older version
/// wrote the record and the count is with the other keys.
pub const REFUSALS: &str = "refusals";

/// What is remembered about one volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// The format of the version that wrote the record.
    #[serde(default)]
    pub format: u32,
    pub volume: VolumeId,
    /// The orchestrator's name for the volume, if it differs from the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<VolumeName>,
    #[serde(flatten)]
    pub disk: DiskRecord,
    #[serde(flatten)]
    pub mounts: MountsRecord,
    #[serde(flatten)]
    pub mark: MarkRecord,
    #[serde(flatten)]
    pub guard: GuardRecord,
    #[serde(flatten)]
    pub heal: HealRecord,
    #[serde(flatten)]
    pub shield: ShieldRecord,
    /// Keys of other versions.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// Milliseconds before a mark that the cloud did not accept is requested again.
const MARK_AGAIN: u64 = 600_000;

impl VolumeRecord {
    /// An empty record.
    pub fn new(volume: VolumeId) -> Self {
        Self {
            format: FORMAT,
            volume,
            name: None,
            disk: DiskRecord::default(),
            mounts: MountsRecord::default(),
            mark: MarkRecord::default(),
            guard: GuardRecord::default(),
            heal: HealRecord::default(),
            shield: ShieldRecord::default(),
            other: BTreeMap::new(),
        }
    }

    /// Whether the cloud may have a mark of a mount that no longer exists.
    pub fn may_lose_mark(&self) -> bool {
        self.mark.may_exist() && self.mounts.staged.is_none()
    }

    /// Whether the cloud must still be asked to set the mark, or whether it still has it. `now` is in milliseconds since
    /// the boot.
    pub fn owes_mark(&self, now: u64) -> bool {
        if self.mounts.staged.is_none() || self.mark.notes_forbidden.is_some() {
            return false;
        }
        if self.mark.is_known() {
            return self.mark.doubted_at.is_some();
        }
        // A request later than now is from before the boot.
        let since = self.mark.requested_at.and_then(|asked| now.checked_sub(asked));
        since.is_none_or(|since| since >= MARK_AGAIN)
    }

    /// Whether the timer should have handled the volume long ago: kubelet released a directory in use, or unmounted the
    /// volume and left it attached.
    pub fn waits_for_timer(&self, now: &Uptime) -> bool {
        const LONG: Duration = Duration::from_secs(120);
        let is_old = |at: &Uptime, least| now.since(at).is_some_and(|gap| gap >= least);
        self.mounts.let_go.open(&now.boot).any(|(_, one)| is_old(&one.when, LONG))
            || self.mounts.unstaged_at.as_ref().is_some_and(|at| is_old(at, SILENT_FOR + LONG))
    }

    /// Records a stage mount and its disk.
    pub fn is_staged(&mut self, staged: Staged) {
        self.disk.is_mounted_from(staged.disk.clone());
        self.disk.was_mounted = true;
        self.disk.formatting = None;
        self.disk.saw_file_system(&staged);
        self.heal.is_healing(None, None);
        // The kernel reuses the ids of mounts.
        self.guard.told_lost_writes = None;
        self.mounts.staged = Some(staged);
        self.mounts.unstaged = None;
    }

    /// Whether the volume was mounted since this boot, so that mounts may remain on a disk that it had.
    pub fn was_mounted_since(&self, boot: &str) -> bool {
        let last = self.mounts.mounted_as().map(|staged| &staged.disk);
        self.disk.former.iter().chain(last).any(|disk| disk.boot == boot)
    }

    /// The state of the journal at the last mount through this map, even if its call was killed.
    pub fn journal_through(&self, map: &DiskMoment) -> Option<JournalMark> {
        let told = self.mounts.mounted_as().filter(|staged| staged.disk.is_of(map));
        let intended = || self.shield.map_intent.as_ref().filter(|intent| intent.map.is_of(map));
        told.and_then(|staged| staged.journal.clone())
            .or_else(|| intended().map(|intent| intent.journal.clone()))
    }

    /// Records that all mounts are on this disk now.
    pub fn is_healed(&mut self, disk: DiskMoment, uuid: String, mounts: Option<u16>) {
        let Some(before) = self.mounts.mounted_as().cloned() else { return };
        let was_staged = self.mounts.staged.is_some();
        self.is_staged(Staged { disk, uuid, mounts, journal: None, ..before });
        if !was_staged {
            self.mounts.is_unstaged();
        }
    }

    /// Records that a heal is about to mount this disk. If it is killed after all mounts are moved, nothing else shows the
    /// disk, for the next heal finds nothing to do.
    pub fn will_be_healed_by(&mut self, disk: DiskMoment, from: Option<u16>, to: Option<u16>) {
        self.disk.is_mounted_from(disk);
        self.heal.is_healing(from, to);
    }
}

#[cfg(test)]
mod tests;
