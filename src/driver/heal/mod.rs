//! The heal: a volume's disk came back under another number, and mounts of running consumers still
//! stand on the dead one. Each is replaced by a mount of the same file system on the disk that is
//! there now, without a restart, in every mount namespace.
//!
//! Stale is told by identity, never by symptoms: a dead mount answers `stat` with success, and on
//! older kernels takes writes for seconds. Nothing is touched before the death of the old disk is
//! proven and the new one is checked.

pub mod adopt;
pub(in crate::driver) mod diagnosis;
pub(in crate::driver) mod file_system_check;
pub(in crate::driver) mod notify;
pub(in crate::driver) mod peer_groups;
pub(in crate::driver) mod recovery;
pub(in crate::driver) mod replacement_plan;
pub mod sweep;

use super::guard;
use super::heal::diagnosis::Patient;
use super::heal::replacement_plan::Pace;
use super::ownership::mount_place::belongs_now;
use super::{Driver, Volume, moment};
use crate::failpoints;
use crate::host::MountRequest;
use crate::model::config::HealMode;
use crate::model::disk::contents::FileSystem;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{Answer, DeviceUses, NamespaceUse};
use crate::model::mount::mount_options::MountOptions;
use crate::model::mount::mountinfo::Mount;
use crate::model::mount::replacement::{Outcome, Switched};
use crate::model::timestamp::{Millis, now, text as in_full};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an attach waits for the disk that it brought, where there is something to heal.
const DISK_WAIT: Duration = Duration::from_secs(15);

/// What became of a volume's mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Healed {
    /// Where mounts were replaced: the namespace in words, and what became of each mount.
    pub places: Vec<(String, Vec<Switched>)>,
    /// What stays on the dead disk, in words.
    pub left: Vec<String>,
    /// Whether that is because its successor is not here yet.
    pub is_waiting: bool,
    /// Between which moments writes may be lost, if anything was replaced.
    pub lost: Option<String>,
}

impl Healed {
    /// How many mounts stand on the new disk now.
    fn switched(&self) -> usize {
        let all = self.places.iter().flat_map(|(_, done)| done);
        all.filter(|one| !matches!(one.outcome, Outcome::Skipped(_) | Outcome::Gone)).count()
    }

    fn is_nothing(&self) -> bool {
        self.places.is_empty() && self.left.is_empty()
    }
}

impl Driver<'_> {
    /// Heals as far as the configuration has it; what cannot be healed never fails the caller, and
    /// is said. Answers why the volume is as it was, for a caller that then fails for that. The
    /// caller holds the volume's lock.
    pub(super) fn heal_on_the_way(&self, id: &VolumeId, disk: &Device) -> Option<String> {
        match self.counted_heal(id, self.heal, Some(disk)) {
            Ok(healed) if healed.is_nothing() => None,
            Ok(healed) => {
                let switched = healed.switched();
                if switched > 0 {
                    let places = healed.places.len();
                    tracing::info!(volume = %id, places, switched, left = ?healed.left, "healed");
                }
                (!healed.left.is_empty()).then(|| healed.left.join("; "))
            }
            Err(error) => {
                tracing::warn!(volume = %id, %error, "not healed");
                Some(error.to_string())
            }
        }
    }

    /// After an attach to this machine: its disk shows a moment later, and nobody may call again.
    /// An attach never fails because a heal could not finish.
    pub(super) fn heal_when_it_shows(&self, volume: &Volume) {
        let boot = crate::host::machine::boot_id();
        let record = self.records.load(&volume.id);
        let is_staged = record.mounted_as().is_some_and(|staged| staged.disk.boot == boot);
        let was_here = record.former_numbers(&boot).next().is_some();
        if self.heal == HealMode::Off || !(is_staged || was_here) {
            return;
        }
        match self.wait_for(volume, self.deadline.at_most(DISK_WAIT)) {
            Ok(disk) => {
                self.heal_on_the_way(&volume.id, &disk);
                if record.staged.is_some() {
                    self.mark_mounted(&volume.id, None);
                }
            }
            Err(error) => {
                tracing::warn!(volume = %volume.id, %error, "not healed: the disk did not show");
            }
        }
    }

    /// The same because a person wants it, with the volume's lock taken.
    pub fn heal_by_hand(&self, id: &VolumeId, mode: HealMode) -> Result<Healed> {
        let _lock = self.lock(id)?;
        self.counted_heal(id, mode, None)
    }

    pub(super) fn counted_heal(
        &self,
        id: &VolumeId,
        mode: HealMode,
        disk: Option<&Device>,
    ) -> Result<Healed> {
        let done = self.nothing_hangs(id).and_then(|()| self.heal(id, mode, disk));
        match &done {
            Ok(healed) if mode == HealMode::Auto && !healed.is_nothing() => {
                self.tally.healed(healed);
            }
            Err(_) => self.tally.not_healed(),
            Ok(_) => {}
        }
        done
    }

    /// Replaces every mount of the volume that stands on a disk which is gone, by mounts of its
    /// disk, which is looked for if the caller has not just done so.
    pub(super) fn heal(
        &self,
        id: &VolumeId,
        mode: HealMode,
        disk: Option<&Device>,
    ) -> Result<Healed> {
        if mode == HealMode::Off {
            return Ok(Healed::default());
        }
        // A plan changes nothing.
        if mode != HealMode::Report {
            self.end_leftovers(id);
        }
        let again = mode != HealMode::Report && self.set_back(id).is_some();
        // Whoever brings the disk along has other work to do.
        let pace = Pace::of(self.deadline, disk.is_some());
        let Some(mut patient) = self.examine(id, disk, pace)? else {
            if again {
                self.set_back_for_good(id);
            }
            return Ok(Healed::default());
        };
        let plan = plan_of(&patient);
        let Some(disk) = &patient.disk.clone() else {
            let waiting = |place| format!("its disk is gone, and none is here yet: {place}");
            let left = plan.into_iter().map(waiting).collect();
            return Ok(Healed { left, is_waiting: true, ..Healed::default() });
        };
        if mode == HealMode::Report {
            tracing::warn!(volume = %id, ?plan, "would be healed: heal.mode is report");
            return Ok(Healed { left: plan, ..Healed::default() });
        }
        tracing::warn!(volume = %id, disk = %disk.kernel_name, dead = %listed(&patient.dead), ?plan, "healing: the disk came back under another number");
        let found = self.fit_file_system(id, disk)?;
        let _held = self.hold(id, disk)?;
        let scratch = self.scratch(id)?;
        let aside = match self.mount_aside(id, disk, &found, &scratch) {
            Ok(aside) => aside,
            Err(error) => {
                self.end_leftovers(id);
                return Err(error);
            }
        };
        failpoints::step("heal.mounted");
        let (mut hangs, mut unkept) = (Vec::new(), Vec::new());
        let healed = self.mounts.open_root(&aside).and_then(|fresh| {
            let (kept, lost) = self.keep_dead(&patient, pace.part(0.25));
            unkept = replacement_plan::without(&mut patient, &lost);
            let healed = self.switch_everywhere(id, (&patient, disk), &fresh, again, pace);
            hangs = self.let_go(kept);
            healed
        });
        // Only the switched mounts keep the new file system from here on.
        self.end_leftovers(id);
        let mut healed = healed?;
        if healed.switched() > 0 {
            let lost = lost_since(self.records.load(id).seen);
            tracing::warn!(volume = %id, "may be lost: {lost}");
            healed.lost = Some(lost);
        }
        self.remember_healed(id, disk, &found.uuid);
        // Who holds what is read process by process: not where the time is over.
        let users = if pace.until.over() {
            Answer::CannotTell("no time was left to look".to_owned())
        } else {
            self.census.device_users(&patient.dead)
        };
        healed.left.extend(unkept);
        healed.left.extend(patient.untold.clone());
        healed.left.extend(hangs);
        healed.left.extend(still_held(&users));
        for left in &healed.left {
            tracing::warn!(volume = %id, left, "not healed");
        }
        self.care_after(id, disk, &patient, &healed, &users);
        Ok(healed)
    }

    /// Mounts the new disk where nobody looks; nothing of the old one is touched yet.
    fn mount_aside(
        &self,
        id: &VolumeId,
        disk: &Device,
        found: &FileSystem,
        scratch: &Path,
    ) -> Result<Mount> {
        let record = self.records.load(id);
        let staged = record.mounted_as();
        let options = staged.map(|staged| MountOptions::parse(&staged.options));
        let options = options.transpose()?.unwrap_or_default();
        let untouched = staged.is_some_and(|staged| staged.untouched);
        // A heal that is killed from here on has mounted the file system once more, or has not.
        let counts = self.mounts_counted(found, disk, untouched)?;
        self.records.update(id, |record| record.is_healing(found.mounts, counts))?;
        self.prove_again(id, disk)?;
        self.mounts.mount(&MountRequest {
            id,
            device: disk,
            kind: found.kind,
            uuid: &found.uuid,
            asks_for_panic: found.asks_for_panic,
            options: &options,
            untouched,
            beside_its_twin: true,
            target: scratch,
        })?;
        let verified = self.mounts.standing_at(scratch).and_then(|look| {
            let mount = belongs_now(&look, disk, scratch)?.clone();
            self.prove_again(id, disk)?;
            Ok(mount)
        });
        verified.map_err(|error| self.undo_mount(scratch, disk.number, error))
    }

    /// The folder for the moment of a heal. What is mounted there comes into no other namespace:
    /// whoever had it there would have the volume, long after the heal.
    fn scratch(&self, id: &VolumeId) -> Result<PathBuf> {
        let folder = self.scratch_of(id);
        self.mounts.make_folder(&folder)?;
        self.mounts.seclude(&folder)?;
        Ok(folder)
    }

    fn remember_healed(&self, id: &VolumeId, disk: &Device, uuid: &str) {
        let noted = self.records.update(id, |record| {
            record.is_healed(moment(disk), uuid.to_owned(), record.healing);
            record.seen = Some(now());
        });
        if let Err(error) = noted {
            tracing::warn!(volume = %id, %error, "the heal is not remembered");
        }
    }
}

fn plan_of(patient: &Patient) -> Vec<String> {
    let own = patient.own.iter().map(|mount| mount.target.display().to_string());
    own.chain(patient.elsewhere.iter().map(place_of)).collect()
}

/// Who lives there may have as many mounts as he likes: no more are named.
const NAMED: usize = 4;

/// Of more mounts in one place only the number is logged.
const LOGGED: usize = 20;

pub(super) fn place_of(one: &NamespaceUse) -> String {
    let mut places: Vec<_> =
        one.mounts.iter().take(NAMED).map(|mount| mount.target.display().to_string()).collect();
    if let Some(more @ 1..) = one.mounts.len().checked_sub(NAMED) {
        places.push(format!("and {more} more"));
    }
    let who = one.processes.first().map_or_else(|| "nobody".to_owned(), ToString::to_string);
    format!("{who} at {}", places.join(", "))
}

fn listed(numbers: &[DeviceNumber]) -> String {
    let texts: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// A disk that goes takes with it what was not written yet, and older kernels let writes to it
/// succeed for a while. When it went nobody knows who was not there.
fn lost_since(seen: Option<Millis>) -> String {
    let from = seen.map_or_else(|| "an unknown moment".to_owned(), in_full);
    let until = in_full(now());
    format!(
        "writes between {from}, when the disk was last seen, and {until}, but for those that an fsync confirmed (before Linux 6.5 also some that seemed to succeed)"
    )
}

/// What became of each mount, for the log.
pub(super) fn tell(id: &VolumeId, place: &str, done: &[Switched]) {
    if done.len() > LOGGED {
        tracing::info!(volume = %id, place, count = done.len(), "heal: the first of them are named");
    }
    for one in done.iter().take(LOGGED) {
        let target = one.mount.target.display();
        tracing::info!(volume = %id, place, %target, outcome = ?one.outcome, notes = ?one.notes, "heal");
    }
}

/// Open files, maps, working and root folders stay where they are for ever: only the end of their
/// process lets go of the dead disk.
fn still_held(users: &Answer<DeviceUses>) -> Vec<String> {
    match users {
        Answer::Told(users) => users
            .files
            .iter()
            .map(|one| format!("on the dead disk until it is restarted: {}", guard::file_use(one)))
            .collect(),
        Answer::CannotTell(why) => vec![format!("who still holds the dead disk: {why}")],
    }
}
