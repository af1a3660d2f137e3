//! The heal: the volume's disk came back under another device number, and mounts of running consumers are still from
//! the lost one. Each of them is replaced by a mount of the same file system from the new disk, in every mount
//! namespace and without a restart.
//!
//! Stale mounts are recognised by device identity, never by symptoms: a stale mount still answers `stat`, and older
//! kernels accept writes to it for seconds. Nothing is changed until the old disk is proven to be gone and the new one
//! is verified.

pub mod adopt;
pub(crate) mod diagnosis;
pub(crate) mod file_system_check;
pub(crate) mod notify;
pub mod outcome;
pub(crate) mod peer_groups;
pub mod recovery;
pub(crate) mod replacement_plan;
pub mod sweep;
pub(crate) mod time_shares;

use crate::context::Context;
use crate::failpoints;
use crate::guard::remote_mark;
use crate::heal::diagnosis::HealOccasion;
use crate::heal::file_system_check::next_count;
use crate::heal::outcome::{
    HealProgress, Healed, listed, lost_since, plan_of, pods_on, still_held, waiting_is_no_failure,
    why_as_before,
};
use crate::heal::time_shares::TimeShares;
use crate::lookup::lost_disks::{lost_numbers, users_of_lost};
use crate::lookup::{find_disk, locking, mounted_here};
use crate::model::disk::contents::FileSystem;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{Answer, Process};
use crate::model::mount::mount_options::MountOptions;
use crate::model::mount::mountinfo::Mount;
use crate::model::policy::HealMode;
use crate::operation::{Volume, moment};
use crate::ownership::mount_place::{self, belongs_now};
use crate::ports::clock::now;
use crate::ports::host::MountRequest;
use crate::shield::{self, Returned};
use crate::snapshot::{Renewal, Snapshot};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an attach waits for its disk if there is something to heal.
const DISK_WAIT: Duration = Duration::from_secs(15);

/// Heals as far as the configuration allows, before the caller's own work. The caller holds the volume's lock, has
/// removed leftovers and has found the disk, which is the shield's map afterwards if the heal put it there.
///
/// A failed heal does not fail the caller: the reason is logged and returned, for the error that the caller may run
/// into because of it. An error means that every operation on the volume would fail.
pub(super) fn heal_on_the_way(
    snapshot: &mut Snapshot<'_>,
    id: &VolumeId,
    disk: Device,
) -> Result<Option<String>> {
    let cx = snapshot.cx;
    snapshot.set_disk(disk);
    match has_disk_again(cx, id) {
        Returned::Not => {}
        Returned::Back => match find_disk::disk(cx, id) {
            Ok(map) => snapshot.set_disk(map),
            Err(error) => return Ok(Some(error.to_string())),
        },
        Returned::Fails(why) => return Err(why),
    }
    adopt_unrecorded(cx, id, cx.policy.heal);
    let done = counted_heal(snapshot, id, cx.policy.heal, HealOccasion::Call);
    if let Err(error) = &done {
        tracing::warn!(volume = %id, %error, event = "not_healed", "not healed");
    }
    Ok(why_as_before(&done))
}

/// Puts a returned disk under the volume's map. The mark in the cloud may have disappeared with the disk.
fn has_disk_again(cx: &Context<'_>, id: &VolumeId) -> Returned {
    let returned = cx.host.shield.disk_returned(cx, id);
    if matches!(returned, Returned::Back) {
        remote_mark::mark_healed(cx, id);
    }
    returned
}

/// Heals after an attach to this node, when the disk appears; no other call may follow. Never fails the attach.
pub(super) fn heal_when_it_shows(cx: &Context<'_>, volume: &Volume) {
    if cx.policy.heal == HealMode::Off {
        return;
    }
    if !mounted_here::has(cx, &volume.id) {
        return adopt_unrecorded(cx, &volume.id, cx.policy.heal);
    }
    match find_disk::wait_for(cx, volume, cx.deadline.at_most(DISK_WAIT)) {
        Ok(disk) => {
            // The attach itself needs no disk, so this was not checked yet.
            let done = locking::nothing_hangs(cx, &volume.id);
            let done = done.and_then(|()| {
                recovery::end_leftovers(cx, &volume.id);
                heal_on_the_way(&mut Snapshot::of(cx, Some(&volume.id)), &volume.id, disk)
            });
            if let Err(error) = done {
                tracing::warn!(volume = %volume.id, %error, event = "not_healed", "not healed");
            }
            if cx.store.records.load(&volume.id).mounts.staged.is_some() {
                remote_mark::mark_mounted(cx, &volume.id);
            }
        }
        Err(error) => {
            tracing::warn!(volume = %volume.id, %error, "not healed: the disk did not show");
        }
    }
}

/// Records another driver's mounts while their disk is alive; later no heal could recognise them.
fn adopt_unrecorded(cx: &Context<'_>, id: &VolumeId, mode: HealMode) {
    let is_recorded = || {
        cx.store
            .records
            .load(id)
            .mounts
            .staged
            .is_some_and(|s| s.disk.boot == cx.host.environment.boot_id())
    };
    if mode == HealMode::Auto && !is_recorded() {
        adopt::adopt_on_the_way(cx, id);
    }
}

/// Heals a volume for a person; takes its lock.
pub fn heal_by_hand(cx: &Context<'_>, id: &VolumeId, mode: HealMode) -> Result<Healed> {
    let _lock = locking::lock(cx, id)?;
    adopt_unrecorded(cx, id, mode);
    look_after(cx, id, mode, HealOccasion::Person)
}

/// Processes of pods with open files on a lost disk of the volume.
pub fn holders_of_lost(cx: &Context<'_>, id: &VolumeId) -> Result<Vec<Process>> {
    let holders = notify::holders_of(cx, id, &lost_numbers_of(cx, id)?)?;
    Ok(holders.into_values().collect())
}

/// Ends these processes and returns them. Their containers restart on the current mounts, so the volume must be healed.
pub fn end_holders(cx: &Context<'_>, id: &VolumeId) -> Result<Vec<Process>> {
    let _lock = locking::lock(cx, id)?;
    notify::end_holders(cx, id, &lost_numbers_of(cx, id)?)
}

fn lost_numbers_of(cx: &Context<'_>, id: &VolumeId) -> Result<Vec<DeviceNumber>> {
    let all =
        lost_numbers(&cx.store.records.list()?, &cx.host.environment.boot_id(), cx.host.devices);
    Ok(all.into_iter().filter(|(_, of)| of == id).map(|(number, _)| number).collect())
}

/// Heals a volume whose disk was not searched yet. The caller holds its lock.
pub(super) fn look_after(
    cx: &Context<'_>,
    id: &VolumeId,
    mode: HealMode,
    occasion: HealOccasion,
) -> Result<Healed> {
    let mut is_back = false;
    // Reporting a plan changes nothing.
    if mode == HealMode::Auto {
        match has_disk_again(cx, id) {
            Returned::Fails(why) => return Err(why),
            returned => is_back = matches!(returned, Returned::Back),
        }
        recovery::end_leftovers(cx, id);
    }
    let healed = counted_heal(&mut Snapshot::of(cx, Some(id)), id, mode, occasion)?;
    let is_resumed = is_back && !healed.is_waiting();
    let progress = if is_resumed { HealProgress::Resumed } else { healed.progress };
    Ok(Healed { progress, ..healed })
}

fn counted_heal(
    snapshot: &mut Snapshot<'_>,
    id: &VolumeId,
    mode: HealMode,
    occasion: HealOccasion,
) -> Result<Healed> {
    let cx = snapshot.cx;
    let done = heal(snapshot, id, mode, occasion).or_else(|error| {
        let waits = || shield::waits(cx, id);
        waiting_is_no_failure(error, waits, |error| shield::why_it_waits(cx, id, error))
    });
    if let Ok(healed) = &done
        && healed.has_switched()
    {
        let (places, switched) = (healed.places.len(), healed.switched());
        tracing::info!(volume = %id, places, switched, pods = healed.pods.join(", "), left = ?healed.left, event = "healed", "healed");
    }
    match &done {
        Ok(healed) if healed.is_counted(mode) => {
            cx.counts.healed(healed.replaced(), healed.left.is_empty());
        }
        Err(_) => cx.counts.not_healed(),
        Ok(_) => {}
    }
    done
}

/// Replaces every mount from a lost disk of the volume by a mount from its current disk.
pub(super) fn heal(
    snapshot: &mut Snapshot<'_>,
    id: &VolumeId,
    mode: HealMode,
    occasion: HealOccasion,
) -> Result<Healed> {
    let cx = snapshot.cx;
    if mode == HealMode::Off {
        return Ok(Healed::default());
    }
    let again = mode != HealMode::Report && recovery::set_back(cx, id).is_some();
    let is_on_the_way = matches!(occasion, HealOccasion::Call);
    let shares = TimeShares::of(cx.deadline, is_on_the_way);
    let Some(mut stale) = diagnosis::examine(snapshot, id, occasion, shares)? else {
        if again {
            recovery::set_back_for_good(cx, id);
        }
        return Ok(Healed::default());
    };
    let plan = plan_of(&stale);
    let Some(disk) = &stale.disk.clone() else {
        let waiting = |place| format!("its disk is gone, and none is here yet: {place}");
        let left = plan.into_iter().map(waiting).collect();
        return Ok(Healed::waiting(left));
    };
    if mode == HealMode::Report {
        let why = if cx.policy.heal == mode { "heal.mode is report" } else { "asked for a plan" };
        tracing::warn!(volume = %id, ?plan, event = "would_heal", "would be healed: {why}");
        return Ok(Healed { left: plan, ..Healed::default() });
    }
    tracing::warn!(volume = %id, disk = %disk.kernel_name, dead = %listed(&stale.dead), ?plan, event = "heal_started", "healing: the disk came back under another number");
    let found = file_system_check::fit_file_system(cx, id, disk)?;
    let _held = find_disk::hold(cx, id, disk)?;
    snapshot.renew(Renewal::Healed);
    remote_mark::doubt_mark(cx, id);
    let scratch = scratch(cx, id)?;
    let (aside, counts) = match mount_aside(cx, id, disk, &found, &scratch) {
        Ok(mounted) => mounted,
        Err(error) => {
            recovery::end_leftovers(cx, id);
            return Err(error);
        }
    };
    failpoints::step("heal.mounted");
    let (mut hangs, mut unkept) = (Vec::new(), Vec::new());
    let healed = cx.host.mounts.open_root(&aside).and_then(|fresh| {
        let (kept, lost) = recovery::keep_dead(cx, &stale, shares.part(0.25));
        unkept = replacement_plan::without(&mut stale, &lost);
        let healed =
            replacement_plan::switch_everywhere(cx, id, (&stale, disk), &fresh, again, shares);
        hangs = recovery::let_go(cx, kept);
        healed
    });
    // From here on only the replaced mounts use the new file system.
    recovery::end_leftovers(cx, id);
    let mut healed = Healed { pods: pods_on(&cx.store.records.load(id), &stale), ..healed? };
    if healed.has_switched() {
        let lost = lost_since(cx.store.records.load(id).disk.seen);
        tracing::warn!(volume = %id, "may be lost: {lost}");
        healed.lost = Some(lost);
    }
    remember_healed(cx, id, disk, &found.uuid, counts);
    // Reading every process takes time; skip it after the deadline.
    let users = if shares.until.over() {
        Answer::CannotTell("no time was left to look".to_owned())
    } else {
        users_of_lost(cx.host.census, cx.host.devices, &stale.dead)
    };
    healed.left.extend(unkept);
    healed.left.extend(stale.untold.clone());
    healed.left.extend(hangs);
    healed.left.extend(still_held(&users));
    for left in &healed.left {
        tracing::warn!(volume = %id, left, event = "not_healed", "not healed");
    }
    notify::care_after(cx, id, disk, &stale, &healed, &users);
    if healed.has_switched() {
        remote_mark::mark_healed(cx, id);
    }
    Ok(healed)
}

/// Mounts the new disk at a hidden place, and returns the mount count in its superblock. The old mounts are not touched
/// yet.
fn mount_aside(
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &Device,
    found: &FileSystem,
    scratch: &Path,
) -> Result<(Mount, Option<u16>)> {
    let record = cx.store.records.load(id);
    let staged = record.mounts.mounted_as();
    let options = staged.map(|staged| MountOptions::parse(&staged.options));
    let options = options.transpose()?.unwrap_or_default();
    let untouched = staged.is_some_and(|staged| staged.untouched);
    // If the heal is killed after this, the file system may or may not have been mounted once more.
    let expected = next_count(found, disk, untouched);
    let was_free = expected.is_none() || find_disk::is_free(cx, disk)?;
    cx.store.records.update(id, |record| {
        record.will_be_healed_by(moment(cx, disk), found.mounts, expected);
    })?;
    cx.host.mounts.mount(MountRequest {
        disk: find_disk::prove(cx, id, disk)?,
        kind: found.kind,
        uuid: &found.uuid,
        asks_for_panic: found.asks_for_panic,
        options: &options,
        untouched,
        beside_its_twin: true,
        target: scratch,
    })?;
    let verified = cx.host.mounts.standing_at(scratch).and_then(|look| {
        let mount = belongs_now(&look, disk, scratch)?.clone();
        find_disk::prove(cx, id, disk)?;
        Ok(mount)
    });
    let mount =
        verified.map_err(|error| mount_place::undo_mount(cx, scratch, disk.number, error))?;
    Ok((mount, file_system_check::mounts_counted(cx, expected, disk, was_free)))
}

/// The directory for the temporary mount. It is private, because a process in another namespace would keep the volume
/// busy long after the heal.
fn scratch(cx: &Context<'_>, id: &VolumeId) -> Result<PathBuf> {
    let folder = recovery::scratch_of(cx, id);
    cx.host.mounts.make_folder(&folder)?;
    cx.host.mounts.seclude(&folder)?;
    Ok(folder)
}

fn remember_healed(
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &Device,
    uuid: &str,
    counts: Option<u16>,
) {
    let noted = cx.store.records.update(id, |record| {
        record.is_healed(moment(cx, disk), uuid.to_owned(), counts);
        if let Some(staged) = &mut record.mounts.staged {
            staged.transport = disk.transport().cloned();
        }
        record.disk.seen = Some(now());
    });
    if let Err(error) = noted {
        tracing::warn!(volume = %id, %error, "the heal is not remembered");
    }
}
