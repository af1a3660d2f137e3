//! Unmount a volume from a consumer's directory or from its stage directory.

use crate::context::Context;
use crate::failpoints;
use crate::guard::letting_go::{self, ConsumerFolder};
use crate::guard::{self, flush, free_disks, leaked_copies, let_go_volumes, refusal, remote_mark};
use crate::heal::recovery;
use crate::lookup::{alias, disk_owner, locking};
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ConsumerId, VolumeId, VolumeName};
use crate::model::mount::folders_let_go::LetGoes;
use crate::model::mount::layout::{PublishTarget, StageTarget, Target};
use crate::model::mount::mount_place::Look;
use crate::model::mount::mountinfo::Mount;
use crate::model::record::VolumeRecord;
use crate::model::report::tear_down::TearDown;
use crate::operation::Outcome;
use crate::ownership::mount_place;
use crate::ports::host::Hidden;
use crate::ports::store::Lock;
use crate::snapshot::{Renewal, Snapshot};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The volume to be unmounted.
#[expect(missing_debug_implementations, reason = "it borrows a function")]
#[derive(Clone, Copy)]
pub enum Occupant<'a> {
    /// This volume; refuse if another one is mounted there.
    Exactly(&'a VolumeId),
    /// Whatever the name means there. It is resolved after the directory was read, so that a visible mount has its
    /// volume. `None` for a mount that has lost its disk and has no record.
    Named(&'a VolumeName, &'a dyn Fn(&Path) -> Result<Option<VolumeId>>),
}

impl fmt::Display for Occupant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(id) => id.fmt(f),
            Self::Named(name, _) => name.fmt(f),
        }
    }
}

/// Who requests it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Requester {
    Orchestrator,
    /// The timer, because the orchestrator has forgotten the volume.
    Timer,
}

/// The disks that must be free after the stage directory is unmounted.
struct DisksToFree {
    disks: Vec<Device>,
    /// The anonymous device numbers of its file systems (btrfs).
    numbers: Vec<DeviceNumber>,
}

impl DisksToFree {
    /// Determined before the unmount; afterwards only the record knows the disks.
    fn of(snapshot: &Snapshot<'_>, folder: &Path) -> Result<Self> {
        let mounts: Vec<_> = snapshot.table()?.at(folder).collect();
        let disks: Vec<_> = mounts.iter().map(|mount| mount.disk).collect();
        let has_its_own = mounts.iter().filter(|mount| mount.number != mount.disk);
        let numbers = has_its_own.map(|mount| mount.number).collect();
        Ok(Self { disks: free_disks::disks_of(snapshot, &disks)?, numbers })
    }
}

/// The start of an unmount: the directory, its volume and the volume's lock.
struct Begun {
    folder: PathBuf,
    /// `None` for a mount that has lost its disk and has no record.
    id: Option<VolumeId>,
    _lock: Option<Lock>,
}

/// Unmounts the consumer's directory.
pub fn unpublish(
    cx: &Context<'_>,
    volume: Occupant<'_>,
    target: &PublishTarget,
) -> Result<Outcome> {
    let PublishTarget { consumer, folder } = target;
    let Some(begun) = begin(cx, volume, folder, Requester::Orchestrator)? else {
        return Ok(Outcome::Already);
    };
    let mut snapshot = Snapshot::of(cx, begun.id.as_ref());
    let look = snapshot.look(&begun.folder)?;
    let outcome = if cx.policy.guard.is_on() {
        unmount_consumer(&mut snapshot, &begun.folder, &look, consumer)?
    } else {
        unmount_all(&mut snapshot, &begun.folder, look)?
    };
    if let Some(id) = &begun.id {
        refusal::end_refusals(cx, id, &[TearDown::Unpublish(consumer.clone())]);
        remember(cx, id, |record| record.mounts.is_unpublished(consumer, &folder.below));
    }
    report_left_over(cx, volume, &begun.folder);
    Ok(outcome)
}

/// Unmounts the stage directory.
pub fn unstage(cx: &Context<'_>, volume: Occupant<'_>, target: &StageTarget) -> Result<Outcome> {
    unstage_for(cx, Requester::Orchestrator, volume, target)
}

/// Unmounts the stage directory of a volume that the orchestrator has forgotten.
pub(crate) fn unstage_forgotten(
    cx: &Context<'_>,
    id: &VolumeId,
    target: &StageTarget,
) -> Result<Outcome> {
    unstage_for(cx, Requester::Timer, Occupant::Exactly(id), target)
}

fn unstage_for(
    cx: &Context<'_>,
    requester: Requester,
    volume: Occupant<'_>,
    target: &StageTarget,
) -> Result<Outcome> {
    let Some(begun) = begin(cx, volume, &target.0, requester)? else {
        return Ok(Outcome::Already);
    };
    let (folder, id) = (begun.folder.as_path(), begun.id.as_ref());
    let mut snapshot = Snapshot::of(cx, id);
    let look = snapshot.look(folder)?;
    if let Some(id) = id.filter(|_| look.is_mounted()) {
        // A PV name may look like a volume id; record the mapping so that it is never mistaken for one.
        if let Occupant::Named(name, _) = volume
            && name.as_volume_id().is_some()
        {
            alias::record_found_name(cx, id, name);
        }
        // First, because a disk that is put under its map is replaced by the map.
        cx.host.shield.before_unmount(cx, id)?;
    }
    let is_guarded = cx.policy.guard.is_on();
    let to_free = is_guarded.then(|| DisksToFree::of(&snapshot, folder)).transpose()?;
    let outcome = match &to_free {
        Some(to_free) => unmount_stage(&mut snapshot, folder, &look, to_free)?,
        None => unmount_all(&mut snapshot, folder, look)?,
    };
    cx.host.mounts.tidy_exchange(folder);
    recovery::remove_link(&snapshot);
    let mut is_free = match &to_free {
        Some(DisksToFree { disks, numbers }) => free_disks::must_be_free(&snapshot, disks, numbers),
        None => Ok(false),
    };
    if let Some(id) = id {
        if is_free.is_ok()
            && let Err(error) = guard::take_off_map(&snapshot, id, &TearDown::Unstage)
        {
            is_free = Err(error);
        }
        if is_free.is_ok() {
            refusal::end_refusals(cx, id, &[TearDown::Unstage]);
        }
        // Record the unmount even if the disk is not free, so that a retry resumes here.
        remember(cx, id, |record| {
            record.mounts.is_unstaged();
            if is_free.is_ok() && requester == Requester::Orchestrator {
                record.mounts.let_go = LetGoes::default();
                record.mounts.unstaged_at = Some(cx.host.environment.uptime());
            }
            // The guard has just verified that no former disk is mounted anywhere. Checking that in each call would
            // take longer than the call.
            let guard_looked = outcome == Outcome::Done
                && matches!(is_free, Ok(true))
                && cx.policy.guard.has_no_exceptions();
            if guard_looked {
                record.disk.former.clear();
                record.mounts.unstaged = None;
            }
        });
    }
    report_left_over(cx, volume, folder);
    is_free.map(|_| outcome)
}

/// Resolves the directory's volume, locks it, and cleans up after killed heals. `None` if there is no such directory,
/// or neither a volume nor a mount.
fn begin(
    cx: &Context<'_>,
    volume: Occupant<'_>,
    target: &Target,
    requester: Requester,
) -> Result<Option<Begun>> {
    let Some(folder) = mount_place::existing_folder(cx, target)? else { return Ok(None) };
    let stands = cx.host.mounts.standing_at(&folder)?;
    let id = match volume {
        Occupant::Exactly(id) => {
            disk_owner::refuse_another_at(cx, id, &folder, &stands.table)?;
            Some(id.clone())
        }
        Occupant::Named(_, find) => find(&folder)?,
    };
    let is_mounted = stands.is_mounted();
    if !is_mounted {
        let Some(id) = &id else { return Ok(None) };
        mount_place::refuse_if_it_stands_elsewhere(cx, id, target, &folder, &stands.table)?;
    }
    // A mount that has lost its disk and has no record has no id. Lock its name instead; the directory is still this
    // driver's.
    let key = id.clone().or_else(|| VolumeId::parse(&volume.to_string()).ok());
    let lock = key.map(|key| {
        // Nothing is mounted, so working without the lock is safe.
        if is_mounted {
            locking::lock(cx, &key).map(Some)
        } else {
            locking::lock_if_possible(cx, &key)
        }
    });
    let lock = lock.transpose()?.flatten();
    if let Some(id) = &id {
        if requester == Requester::Orchestrator {
            let_go_volumes::note_caller(cx, id);
        }
        recovery::end_leftovers(cx, id);
        recovery::set_back_for_good(cx, id);
    }
    Ok(Some(Begun { folder, id, _lock: lock }))
}

/// Updates the record, which may list a mount that disappeared with a reboot.
fn remember(cx: &Context<'_>, id: &VolumeId, change: impl FnOnce(&mut VolumeRecord)) {
    if !cx.store.records.load(id).disk.was_mounted {
        return;
    }
    if let Err(error) = cx.store.records.update(id, change) {
        tracing::warn!(volume = %id, %error, "the unmount is not remembered");
    }
    remote_mark::unmark_mounted(cx, id);
}

/// Asks the guard, unmounts, and asks again, because a container may have started in between and inherited the mount.
/// Then unmounts leaked copies that keep the disk busy.
fn unmount_stage(
    snapshot: &mut Snapshot<'_>,
    folder: &Path,
    look: &Look,
    to_free: &DisksToFree,
) -> Result<Outcome> {
    let outcome = if look.top()?.is_some() {
        mount_place::refuse_strangers_on_top(snapshot, look)?;
        unmount_guarded(snapshot, folder)?;
        Outcome::Done
    } else {
        Outcome::Already
    };
    leaked_copies::end_views_left(snapshot, folder, (&to_free.disks, &to_free.numbers), outcome)?;
    Ok(outcome)
}

fn unmount_guarded(snapshot: &mut Snapshot<'_>, folder: &Path) -> Result<()> {
    let mounted = numbers_at(snapshot, folder)?;
    let mut views = leaked_copies::guard_stage(snapshot, &mounted)?;
    let look = snapshot.look_again(folder, Renewal::Consented)?;
    unmount_all(snapshot, folder, look)?;
    failpoints::step("unmount.own");
    if views.has_peers {
        views.add(leaked_copies::guard_stage(snapshot, &mounted)?);
    }
    leaked_copies::end_views(snapshot, &TearDown::Unstage, &mounted, &views)
}

fn unmount_consumer(
    snapshot: &mut Snapshot<'_>,
    folder: &Path,
    look: &Look,
    consumer: &ConsumerId,
) -> Result<Outcome> {
    let Some(top) = look.top()? else { return Ok(Outcome::Already) };
    mount_place::refuse_strangers_on_top(snapshot, look)?;
    let mounted = numbers_at(snapshot, folder)?;
    let_go_of_folder(snapshot, look, top, &ConsumerFolder { consumer, folder, mounted: &mounted })
}

fn numbers_at(snapshot: &Snapshot<'_>, folder: &Path) -> Result<Vec<DeviceNumber>> {
    Ok(snapshot.table()?.at(folder).map(|mount| mount.number).collect())
}

/// Unmounts a consumer's directory, which must take nothing from its processes. If it does, the mount is restored.
fn let_go_of_folder(
    snapshot: &mut Snapshot<'_>,
    look: &Look,
    top: &Mount,
    one: &ConsumerFolder<'_>,
) -> Result<Outcome> {
    let Snapshot { cx, id, .. } = *snapshot;
    let kept = letting_go::guard_folder(snapshot, one)?;
    let noted = id.filter(|_| !kept.is_empty());
    if let Some(id) = noted {
        letting_go::note_letting_go(cx, id, one.consumer);
    }
    let copy = cx.host.mounts.copy_of(top);
    failpoints::step("unmount.guarded");
    let now = snapshot.look_again(one.folder, Renewal::Consented);
    let unmounted = now.and_then(|look| unmount_all(snapshot, one.folder, look));
    let done =
        unmounted.map_err(|error| letting_go::refuse_who_is_in_the_way(snapshot, one, error));
    let done = done.and_then(|outcome| {
        let again = letting_go::look_again(snapshot, one, &kept);
        if again.is_err() {
            put_back(cx, copy, look, top, one)?;
        }
        again.map(|has_it| (outcome, has_it))
    });
    match (&done, id) {
        (Ok((_, true)), Some(id)) => {
            // A process that started in between was not reported yet.
            if noted.is_none() {
                letting_go::note_letting_go(cx, id, one.consumer);
            }
            let label = letting_go::label(snapshot, one.consumer).filter(|label| !label.is_empty());
            let whose = label.unwrap_or_else(|| one.consumer.to_string());
            tracing::warn!(volume = %id, pod = %one.consumer, whose, event = "folder_released", "let go of the folder: the pod keeps the volume");
        }
        // None of them is left, or nothing was unmounted.
        (_, Some(id)) if noted.is_some() => letting_go::forget_letting_go(cx, id, one.consumer),
        _ => {}
    }
    done.map(|(outcome, _)| outcome)
}

/// Restores a consumer's mount. Before Linux 5.2 there is no copy of it, and another mount of the volume is bound
/// instead.
fn put_back(
    cx: &Context<'_>,
    copy: Option<OwnedFd>,
    look: &Look,
    top: &Mount,
    one: &ConsumerFolder<'_>,
) -> Result<()> {
    if let Some(copy) = copy {
        return cx.host.mounts.put_back(copy, one.folder);
    }
    let mut others = look.table.of(top.number).filter(|other| other.root == top.root);
    let other = others.find(|other| other.target != top.target).ok_or_else(|| {
        let folder = one.folder.display();
        Error::new(Kind::Host, format!("the mount at {folder} cannot be put back"))
            .hint("the orchestrator's next `mount` makes it")
    })?;
    cx.host.mounts.bind(other, one.folder, top.is_read_only())
}

/// Unmounts everything that is stacked at the directory, top first.
fn unmount_all(snapshot: &mut Snapshot<'_>, folder: &Path, mut look: Look) -> Result<Outcome> {
    let Snapshot { cx, id, .. } = *snapshot;
    let mut outcome = Outcome::Already;
    while let Some(mount) = look.top()? {
        mount_place::refuse_strangers_on_top(snapshot, &look)?;
        if cx.host.devices.is_gone(mount.disk)? {
            tracing::warn!(folder = %folder.display(), number = %mount.disk, "the mount's disk is gone: unmounted, whatever uses it");
            cx.host.mounts.unmount_dead(mount, cx.deadline)?;
        } else {
            flush::flush_if_last(cx, &look.table, mount, id, cx.deadline)?;
            unmount_one(cx, mount, id)?;
        }
        failpoints::step("unmount.one");
        outcome = Outcome::Done;
        look = snapshot.look_again(folder, Renewal::Unmounted)?;
    }
    Ok(outcome)
}

fn unmount_one(cx: &Context<'_>, mount: &Mount, id: Option<&VolumeId>) -> Result<()> {
    cx.host.mounts.unmount(mount, cx.deadline).map_err(|error| match error.kind {
        Kind::Busy if error.hint.is_none() => guard::busy(cx, id, mount, error),
        _ => error,
    })
}

/// Logs files that remain in the directory: the orchestrator can remove it only if it is empty. Nothing is deleted
/// here.
fn report_left_over(cx: &Context<'_>, volume: Occupant<'_>, folder: &Path) {
    let Hidden { files, bytes, more } = cx.host.mounts.hidden_in(folder);
    if files > 0 {
        let folder = folder.display();
        tracing::warn!(name = %volume, %folder, files, bytes, more, "files were written into the folder while nothing was mounted there; they must be moved by hand, or the folder stays");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeMounts, MadeUp};
    use std::cell::Cell;

    fn target() -> StageTarget {
        StageTarget(Target { root: "/k".into(), below: "stages/pv-1".into() })
    }

    /// Otherwise a mount that appears in between would be unmounted without its volume's lock.
    #[test]
    fn a_name_is_resolved_after_the_look_at_its_folder() {
        let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
        let made_up = MadeUp::with(&cloud, &devices);
        let looks_before = Cell::new(None);
        let find = |_: &Path| {
            looks_before.set(Some(made_up.mounts.looks.get()));
            Ok(None)
        };
        let name = VolumeName::parse("pv-1").unwrap();
        let done = made_up.drive(|cx| unstage(cx, Occupant::Named(&name, &find), &target()));
        assert_eq!((done, looks_before.get()), (Ok(Outcome::Already), Some(1)));
    }

    /// The result of an unstage and the ids of the unmounted mounts, with these successive readings of the table.
    fn unstaged(tables: &[&[&str]]) -> (Result<Outcome>, Vec<u32>) {
        let devices = FakeDevices::default().with("vda", 1, "v-1").with("vdb", 1, "v-2");
        let (cloud, mounts) = (FakeCloud::default(), FakeMounts::in_turn(tables));
        let made_up = MadeUp { mounts, ..MadeUp::with(&cloud, &devices) };
        let id = VolumeId::parse("v-1").unwrap();
        let done = made_up.drive(|cx| unstage(cx, Occupant::Exactly(&id), &target()));
        (done, made_up.mounts.unmounted.take())
    }

    const ROOT: &str = "20 1 254:0 / / rw - ext4 d rw";
    const ITS: &str = "40 20 253:0 / /k/stages/pv-1 rw - ext4 d rw";
    const ON_IT: &str = "41 40 253:0 / /k/stages/pv-1 rw - ext4 d rw";
    const ANOTHERS_ON_IT: &str = "42 40 253:16 / /k/stages/pv-1 rw - ext4 e rw";

    #[test]
    fn what_was_mounted_or_unmounted_before_the_lock_was_had_counts() {
        assert_eq!(unstaged(&[&[ROOT], &[ROOT, ITS], &[ROOT, ITS], &[ROOT]]).1, [40]);
        assert_eq!(unstaged(&[&[ROOT, ITS], &[ROOT]]), (Ok(Outcome::Already), vec![]));
    }

    #[test]
    fn a_mount_that_went_with_a_copy_is_not_unmounted_again() {
        let tables: [&[&str]; 3] = [&[ROOT, ITS], &[ROOT, ITS], &[ROOT]];
        assert_eq!(unstaged(&tables), (Ok(Outcome::Done), vec![]));
    }

    #[test]
    fn each_mount_at_the_folder_is_unmounted_and_what_shows_then_is_judged_anew() {
        let stacked: &[&str] = &[ROOT, ITS, ON_IT];
        let (done, unmounted) = unstaged(&[stacked, stacked, stacked, &[ROOT, ITS], &[ROOT]]);
        assert_eq!((done, unmounted), (Ok(Outcome::Done), vec![41, 40]));
        let (done, unmounted) =
            unstaged(&[stacked, stacked, stacked, &[ROOT, ITS, ANOTHERS_ON_IT]]);
        assert_eq!((done.unwrap_err().kind, unmounted), (Kind::Refused, vec![41]));
    }
}
