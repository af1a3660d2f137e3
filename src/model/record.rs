//! What this machine remembers of a volume: a cache of facts, never the truth.
//!
//! Everything here can be lost: kernel and cloud are asked again. Keys that this version does not
//! know are kept when a record is written back, so that a newer and an older program can take
//! turns.

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

/// The format that this version writes. Readers accept any: unknown keys are carried along.
pub const FORMAT: u32 = 1;

/// The keys of what ends with the boot: mounts, and who has them. They are kept apart from the rest,
/// where writing is quick, so that no mount waits for a busy disk of the machine.
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

/// The key of a count that is told also where it is 0. Where what ends with the boot does not tell it, an
/// older version wrote that, and the count stands with the rest.
pub const REFUSALS: &str = "refusals";

/// One volume as remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// The format of the writer.
    #[serde(default)]
    pub format: u32,
    pub volume: VolumeId,
    /// The orchestrator's name of it, if another than the id.
    /// The orchestrator's name of it, if another than the id.
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

/// A mark that the cloud did not take is not asked for again before so many milliseconds.
const MARK_AGAIN: u64 = 600_000;

impl VolumeRecord {
    /// An empty record.
    #[must_use]
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

    /// Whether the cloud may have been told so of a mount that is over.
    #[must_use]
    pub fn may_lose_mark(&self) -> bool {
        self.mark.may_exist() && self.mounts.staged.is_none()
    }

    /// Whether the cloud is yet to be told of the mount, or to be asked whether it still has the mark; so many
    /// milliseconds after the boot.
    #[must_use]
    pub fn owes_mark(&self, now: u64) -> bool {
        if self.mounts.staged.is_none() || self.mark.notes_forbidden.is_some() {
            return false;
        }
        if self.mark.is_known() {
            return self.mark.doubted_at.is_some();
        }
        // One that was asked for later than now was asked for before the boot.
        let since = self.mark.requested_at.and_then(|asked| now.checked_sub(asked));
        since.is_none_or(|since| since >= MARK_AGAIN)
    }

    /// Whether the timer should have looked at the volume long ago: kubelet let go of it, or unmounted it and left it
    /// attached.
    #[must_use]
    pub fn waits_for_timer(&self, now: &Uptime) -> bool {
        const LONG: Duration = Duration::from_secs(120);
        let is_old = |at: &Uptime, least| now.since(at).is_some_and(|gap| gap >= least);
        self.mounts.let_go.open(&now.boot).any(|(_, one)| is_old(&one.when, LONG))
            || self.mounts.unstaged_at.as_ref().is_some_and(|at| is_old(at, SILENT_FOR + LONG))
    }

    /// Remembers a stage mount, and the disk that it was made from for as long as numbers mean the
    /// same.
    pub fn is_staged(&mut self, staged: Staged) {
        self.disk.is_mounted_from(staged.disk.clone());
        self.disk.was_mounted = true;
        self.disk.formatting = None;
        self.disk.saw_file_system(&staged);
        self.heal.is_healing(None, None);
        // The kernel gives the number of a mount that went to the next one.
        self.guard.told_lost_writes = None;
        self.mounts.staged = Some(staged);
        self.mounts.unstaged = None;
    }

    /// Whether it was mounted since this boot: mounts of it may stand on a disk that it had.
    #[must_use]
    pub fn was_mounted_since(&self, boot: &str) -> bool {
        let last = self.mounts.mounted_as().map(|staged| &staged.disk);
        self.disk.former.iter().chain(last).any(|disk| disk.boot == boot)
    }

    /// What is known of the journal at the last mount through this map, whether or not its call came to its end.
    #[must_use]
    pub fn journal_through(&self, map: &DiskMoment) -> Option<JournalMark> {
        let told = self.mounts.mounted_as().filter(|staged| staged.disk.is_of(map));
        let intended = || self.shield.map_intent.as_ref().filter(|intent| intent.map.is_of(map));
        told.and_then(|staged| staged.journal.clone())
            .or_else(|| intended().map(|intent| intent.journal.clone()))
    }

    /// All that stood on a dead disk stands on this one now.
    pub fn is_healed(&mut self, disk: DiskMoment, uuid: String, mounts: Option<u16>) {
        let Some(before) = self.mounts.mounted_as().cloned() else { return };
        let was_staged = self.mounts.staged.is_some();
        self.is_staged(Staged { disk, uuid, mounts, journal: None, ..before });
        if !was_staged {
            self.mounts.is_unstaged();
        }
    }

    /// A heal is about to mount this disk. If it is killed when all is moved, nothing else tells of the disk
    /// later on: the next heal finds nothing to do.
    pub fn will_be_healed_by(&mut self, disk: DiskMoment, from: Option<u16>, to: Option<u16>) {
        self.disk.is_mounted_from(disk);
        self.heal.is_healing(from, to);
    }
}

#[cfg(test)]
mod tests;
