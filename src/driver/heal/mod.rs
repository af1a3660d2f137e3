//! The heal: a volume's disk came back under another number, and mounts of running consumers still
//! stand on the dead one. Each is replaced by a mount of the same file system on the disk that is
//! there now, without a restart, in every mount namespace.
//!
//! Stale is told by identity, never by symptoms: a dead mount answers `stat` with success, and on
//! older kernels takes writes for seconds. Nothing is touched before the death of the old disk is
//! proven and the new one is checked.

pub mod adopt;
pub(crate) mod covering;
pub(crate) mod diagnosis;
pub(crate) mod file_system_check;
pub(crate) mod notify;
pub mod outcome;
pub(crate) mod peer_groups;
pub(crate) mod recovery;
pub(crate) mod replacement_plan;
pub(crate) mod returned_disk;
mod superblocks;
pub mod sweep;
pub(crate) mod time_shares;

use crate::call_counts::CallCounts;
use crate::failpoints;
use crate::guard::remote_mark::RemoteMarks;
use crate::heal::adopt::Adoption;
use crate::heal::diagnosis::{Diagnosis, HealOccasion};
use crate::heal::file_system_check::{FileSystemCheck, next_count};
use crate::heal::notify::Notification;
use crate::heal::outcome::{
    Healed, listed, lost_since, plan_of, pods_on, still_held, waiting_is_no_failure, why_as_before,
};
use crate::heal::recovery::Recovery;
use crate::heal::replacement_plan::Replacement;
use crate::heal::returned_disk::{Returned, ReturnedDisks};
use crate::heal::time_shares::TimeShares;
use crate::host::clock::Deadline;
use crate::host::clock::now;
use crate::host::machine::boot_id;
use crate::host::records::Records;
use crate::host::{Census, Devices, MountRequest, Mounts};
use crate::lookup::find_disk::Disks;
use crate::lookup::locking::Locking;
use crate::lookup::lost_disks::{lost_numbers, users_of_lost};
use crate::lookup::mounted_here::MountedHere;
use crate::model::disk::contents::FileSystem;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{Answer, Process};
use crate::model::mount::mount_options::MountOptions;
use crate::model::mount::mountinfo::Mount;
use crate::model::policy::HealMode;
use crate::operation::{Volume, moment};
use crate::ownership::mount_place::{MountPlaces, belongs_now};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an attach waits for the disk that it brought, where there is something to heal.
const DISK_WAIT: Duration = Duration::from_secs(15);

/// The heal of one volume.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct Healing<'a> {
    pub(crate) mounts: &'a dyn Mounts,
    pub(crate) records: &'a Records,
    pub(crate) census: &'a dyn Census,
    pub(crate) devices: &'a dyn Devices,
    pub(crate) heal_mode: HealMode,
    pub(crate) deadline: Deadline,
    pub(crate) counts: &'a CallCounts,
    pub(crate) locking: &'a Locking<'a>,
    pub(crate) disks: &'a Disks<'a>,
    pub(crate) places: &'a MountPlaces<'a>,
    pub(crate) marks: &'a RemoteMarks<'a>,
    pub(crate) mounted_here: &'a MountedHere<'a>,
    pub(crate) diagnosis: &'a Diagnosis<'a>,
    pub(crate) check: &'a FileSystemCheck<'a>,
    pub(crate) recovery: &'a Recovery<'a>,
    pub(crate) replacement: &'a Replacement<'a>,
    pub(crate) notification: &'a Notification<'a>,
    pub(crate) returned: &'a ReturnedDisks<'a>,
    pub(crate) adoption: &'a Adoption<'a>,
}

impl Healing<'_> {
    /// Heals as far as the configuration has it; what cannot be healed never fails the caller, and
    /// is said. Answers the volume's disk, which is another one where this one was put under a map, and why the
    /// volume is as it was, for a caller that then fails for that. An error where all that is asked of the volume fails,
    /// and no heal puts that right. The caller holds the volume's lock.
    pub(super) fn heal_on_the_way(
        &self,
        id: &VolumeId,
        disk: Device,
    ) -> Result<(Device, Option<String>)> {
        let disk = match self.has_disk_again(id) {
            Returned::Not => disk,
            Returned::Back => match self.disks.disk(id) {
                Ok(map) => map,
                Err(error) => return Ok((disk, Some(error.to_string()))),
            },
            Returned::Fails(why) => return Err(why),
        };
        self.adopt_unrecorded(id, self.heal_mode);
        let done = self.counted_heal(id, self.heal_mode, HealOccasion::Call(&disk));
        if let Err(error) = &done {
            tracing::warn!(volume = %id, %error, "not healed");
        }
        Ok((disk, why_as_before(&done)))
    }

    /// Puts a disk that came back under the volume's map. What took it away may have taken the mark, too.
    fn has_disk_again(&self, id: &VolumeId) -> Returned {
        let returned = self.returned.look_after(id);
        if matches!(returned, Returned::Back) {
            self.marks.mark_healed(id);
        }
        returned
    }

    /// After an attach to this machine: its disk shows a moment later, and no call may come after it.
    /// An attach never fails because a heal could not finish.
    pub(super) fn heal_when_it_shows(&self, volume: &Volume) {
        if self.heal_mode == HealMode::Off {
            return;
        }
        if !self.mounted_here.has(&volume.id) {
            return self.adopt_unrecorded(&volume.id, self.heal_mode);
        }
        match self.disks.wait_for(volume, self.deadline.at_most(DISK_WAIT)) {
            Ok(disk) => {
                // An attach does not ask for that: it needs no disk.
                let done = self.locking.nothing_hangs(&volume.id);
                if let Err(error) = done.and_then(|()| self.heal_on_the_way(&volume.id, disk)) {
                    tracing::warn!(volume = %volume.id, %error, "not healed");
                }
                if self.records.load(&volume.id).staged.is_some() {
                    self.marks.mark_mounted(&volume.id);
                }
            }
            Err(error) => {
                tracing::warn!(volume = %volume.id, %error, "not healed: the disk did not show");
            }
        }
    }

    /// Mounts of another driver must be in the records while their disk lives, or no heal knows them later.
    fn adopt_unrecorded(&self, id: &VolumeId, mode: HealMode) {
        let is_recorded = || self.records.load(id).staged.is_some_and(|s| s.disk.boot == boot_id());
        if mode == HealMode::Auto && !is_recorded() {
            self.adoption.adopt_on_the_way(id);
        }
    }

    /// The same because a person wants it, with the volume's lock taken.
    pub fn heal_by_hand(&self, id: &VolumeId, mode: HealMode) -> Result<Healed> {
        let _lock = self.locking.lock(id)?;
        self.adopt_unrecorded(id, mode);
        self.look_after(id, mode, HealOccasion::Person)
    }

    /// The processes of pods that have files of a lost disk of the volume open.
    pub fn holders_of_lost(&self, id: &VolumeId) -> Result<Vec<Process>> {
        let holders = self.notification.holders_of(id, &self.lost_numbers(id)?)?;
        Ok(holders.into_values().collect())
    }

    /// Ends these processes; answers which. Their containers come back on what is mounted here, so that must be healed.
    pub fn end_holders(&self, id: &VolumeId) -> Result<Vec<Process>> {
        let _lock = self.locking.lock(id)?;
        self.notification.end_holders(id, &self.lost_numbers(id)?)
    }

    fn lost_numbers(&self, id: &VolumeId) -> Result<Vec<DeviceNumber>> {
        let all = lost_numbers(&self.records.list()?, &boot_id(), self.devices);
        Ok(all.into_iter().filter(|(_, of)| of == id).map(|(number, _)| number).collect())
    }

    /// The same for a caller that holds the volume's lock, and has not looked for its disk.
    pub(super) fn look_after(
        &self,
        id: &VolumeId,
        mode: HealMode,
        occasion: HealOccasion<'_>,
    ) -> Result<Healed> {
        // A plan changes nothing.
        let is_back = match mode {
            HealMode::Auto => match self.has_disk_again(id) {
                Returned::Fails(why) => return Err(why),
                returned => matches!(returned, Returned::Back),
            },
            HealMode::Report | HealMode::Off => false,
        };
        let done = self.counted_heal(id, mode, occasion);
        done.map(|healed| Healed { is_back, ..healed })
    }

    fn counted_heal(
        &self,
        id: &VolumeId,
        mode: HealMode,
        occasion: HealOccasion<'_>,
    ) -> Result<Healed> {
        let done = self.heal(id, mode, occasion).or_else(|error| {
            let waits = || self.returned.waits(id);
            waiting_is_no_failure(error, waits, |error| self.returned.why_it_waits(id, error))
        });
        if let Ok(healed) = &done
            && healed.has_switched()
        {
            let (places, switched) = (healed.places.len(), healed.switched());
            tracing::info!(volume = %id, places, switched, pods = healed.pods.join(", "), left = ?healed.left, "healed");
        }
        match &done {
            Ok(healed) if healed.is_counted(mode) => {
                self.counts.healed(healed.replaced(), healed.left.is_empty());
            }
            Err(_) => self.counts.not_healed(),
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
        occasion: HealOccasion<'_>,
    ) -> Result<Healed> {
        if mode == HealMode::Off {
            return Ok(Healed::default());
        }
        // A plan changes nothing.
        if mode != HealMode::Report {
            self.recovery.end_leftovers(id);
        }
        let again = mode != HealMode::Report && self.recovery.set_back(id).is_some();
        let is_on_the_way = matches!(occasion, HealOccasion::Call(_));
        let shares = TimeShares::of(self.deadline, is_on_the_way);
        let Some(mut stale) = self.diagnosis.examine(id, occasion, shares)? else {
            if again {
                self.recovery.set_back_for_good(id);
            }
            return Ok(Healed::default());
        };
        let plan = plan_of(&stale);
        let Some(disk) = &stale.disk.clone() else {
            let waiting = |place| format!("its disk is gone, and none is here yet: {place}");
            let left = plan.into_iter().map(waiting).collect();
            return Ok(Healed { left, is_waiting: true, ..Healed::default() });
        };
        if mode == HealMode::Report {
            let why =
                if self.heal_mode == mode { "heal.mode is report" } else { "asked for a plan" };
            tracing::warn!(volume = %id, ?plan, "would be healed: {why}");
            return Ok(Healed { left: plan, ..Healed::default() });
        }
        tracing::warn!(volume = %id, disk = %disk.kernel_name, dead = %listed(&stale.dead), ?plan, "healing: the disk came back under another number");
        let found = self.check.fit_file_system(id, disk)?;
        let _held = self.disks.hold(id, disk)?;
        self.marks.doubt_mark(id);
        let scratch = self.scratch(id)?;
        let (aside, counts) = match self.mount_aside(id, disk, &found, &scratch) {
            Ok(mounted) => mounted,
            Err(error) => {
                self.recovery.end_leftovers(id);
                return Err(error);
            }
        };
        failpoints::step("heal.mounted");
        let (mut hangs, mut unkept) = (Vec::new(), Vec::new());
        let healed = self.mounts.open_root(&aside).and_then(|fresh| {
            let (kept, lost) = self.recovery.keep_dead(&stale, shares.part(0.25));
            unkept = replacement_plan::without(&mut stale, &lost);
            let healed =
                self.replacement.switch_everywhere(id, (&stale, disk), &fresh, again, shares);
            hangs = self.recovery.let_go(kept);
            healed
        });
        // Only the switched mounts keep the new file system from here on.
        self.recovery.end_leftovers(id);
        let mut healed = Healed { pods: pods_on(&self.records.load(id), &stale), ..healed? };
        if healed.has_switched() {
            let lost = lost_since(self.records.load(id).seen);
            tracing::warn!(volume = %id, "may be lost: {lost}");
            healed.lost = Some(lost);
        }
        self.remember_healed(id, disk, &found.uuid, counts);
        // Who holds what is read process by process: not where the time is over.
        let users = if shares.until.over() {
            Answer::CannotTell("no time was left to look".to_owned())
        } else {
            users_of_lost(self.census, self.devices, &stale.dead)
        };
        healed.left.extend(unkept);
        healed.left.extend(stale.untold.clone());
        healed.left.extend(hangs);
        healed.left.extend(still_held(&users));
        for left in &healed.left {
            tracing::warn!(volume = %id, left, "not healed");
        }
        self.notification.care_after(id, disk, &stale, &healed, &users);
        if healed.has_switched() {
            self.marks.mark_healed(id);
        }
        Ok(healed)
    }

    /// Mounts the new disk out of sight; nothing of the old one is touched yet. Answers also what the file system
    /// counts now.
    fn mount_aside(
        &self,
        id: &VolumeId,
        disk: &Device,
        found: &FileSystem,
        scratch: &Path,
    ) -> Result<(Mount, Option<u16>)> {
        let record = self.records.load(id);
        let staged = record.mounted_as();
        let options = staged.map(|staged| MountOptions::parse(&staged.options));
        let options = options.transpose()?.unwrap_or_default();
        let untouched = staged.is_some_and(|staged| staged.untouched);
        // A heal that is killed from here on has mounted the file system once more, or has not.
        let expected = next_count(found, disk, untouched);
        let was_free = expected.is_none() || self.disks.is_free(disk)?;
        self.records.update(id, |record| {
            record.will_be_healed_by(moment(disk), found.mounts, expected);
        })?;
        self.disks.prove_again(id, disk)?;
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
            self.disks.prove_again(id, disk)?;
            Ok(mount)
        });
        let mount =
            verified.map_err(|error| self.places.undo_mount(scratch, disk.number, error))?;
        Ok((mount, self.check.mounts_counted(expected, disk, was_free)))
    }

    /// The folder for the moment of a heal. What is mounted there comes into no other namespace:
    /// a process that had it there would have the volume, long after the heal.
    fn scratch(&self, id: &VolumeId) -> Result<PathBuf> {
        let folder = self.recovery.scratch_of(id);
        self.mounts.make_folder(&folder)?;
        self.mounts.seclude(&folder)?;
        Ok(folder)
    }

    fn remember_healed(&self, id: &VolumeId, disk: &Device, uuid: &str, counts: Option<u16>) {
        let noted = self.records.update(id, |record| {
            record.is_healed(moment(disk), uuid.to_owned(), counts);
            if let Some(staged) = &mut record.staged {
                staged.transport = disk.transport().cloned();
            }
            record.seen = Some(now());
        });
        if let Err(error) = noted {
            tracing::warn!(volume = %id, %error, "the heal is not remembered");
        }
    }
}
