//! Clean up after killed heals: a heal records each temporary change first, and the next call reverts it.

use crate::context::Context;
use crate::failpoints;
use crate::guard::{flush, remote_mark};
use crate::heal::diagnosis::StaleMounts;
use crate::heal::time_shares::TimeShares;
use crate::lookup::disk_numbers::labelled;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{NamespaceId, NamespaceUse};
use crate::model::mount::mountinfo::Mount;
use crate::model::mount::replacement::MountIntent;
use crate::model::path_text::longest_written;
use crate::model::policy::HealMode;
use crate::model::record::{NamespaceSign, Switching, VolumeRecord};
use crate::ports::clock::Deadline;
use crate::ports::host::{Keeper, SwitchRequest};
use crate::ports::store::Locked;
use crate::snapshot::Snapshot;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

/// How long the last reference to a lost disk may take to go.
const LET_GO_WAIT: Duration = Duration::from_secs(3);

/// How long to spend on one namespace, to revert its changes or to reach its stale mount.
const SET_BACK_WAIT: Duration = Duration::from_secs(3);
const KEEP_WAIT: Duration = Duration::from_secs(2);

/// The most changes that are recorded for one part of a namespace, and for all that are not the node's own. Tenants
/// decide how many there are, and how long their paths.
const MOST_CHANGES: usize = 1000;
const MOST_BYTES: usize = 1 << 20;
/// The most bytes for all changes, by kind: pods that use the volume, other pods, anything else. Anything else comes
/// last and can have any number of namespaces, so it must leave room.
const MOST_BYTES_OF_ALL: [usize; 3] = [10 << 20, 8 << 20, 6 << 20];

/// The processes that keep lost disks busy; the others could not be reached.
type Keepers = Vec<(DeviceNumber, Box<dyn Keeper>)>;
type Unkept = Vec<(DeviceNumber, Error)>;

/// The places without stale mounts, by namespace.
pub(crate) type Finished = HashMap<NamespaceId, HashSet<PathBuf>>;

/// Records what replacing the node's own mounts changes temporarily. Nothing is changed before that is on disk.
pub(crate) fn intend_own(
    cx: &Context<'_>,
    id: &VolumeId,
    own: &[Mount],
    fresh: &File,
    shares: TimeShares,
) -> Result<()> {
    tracing::info!(volume = %id, method = %cx.host.remounts.method(), "how mounts are replaced");
    if own.is_empty() {
        return Ok(());
    }
    let (fresh, deadline) = (fresh.as_fd(), shares.until);
    let request = SwitchRequest { namespace: None, stale: own, fresh, group: None, deadline };
    let changes = cx.host.remounts.will_change(&request)?;
    write_down(cx, id, vec![(cx.host.census.sign_of(None)?, changes)])
}

/// What replacing mounts in another namespace changes temporarily.
pub(crate) fn changes_in(
    cx: &Context<'_>,
    one: &NamespaceUse,
    fresh: &File,
    deadline: Deadline,
) -> Result<(NamespaceSign, Vec<MountIntent>)> {
    let door = cx.host.census.open_namespace(one)?;
    let (namespace, stale, fresh) = (Some(&door), one.mounts.as_slice(), fresh.as_fd());
    let request = SwitchRequest { namespace, stale, fresh, group: None, deadline };
    let changes = cx.host.remounts.will_change(&request)?;
    if is_too_much(&changes) {
        let count = changes.len();
        return Err(Error::refused(format!("{count} mounts would have to be put right after it"))
            .hint("restart the container"));
    }
    Ok((cx.host.census.sign_of(Some(one))?, changes))
}

/// Records the changes in these namespaces before they are made.
pub(crate) fn write_down(
    cx: &Context<'_>,
    id: &VolumeId,
    all: Vec<(NamespaceSign, Vec<MountIntent>)>,
) -> Result<()> {
    let all: Vec<_> = all.into_iter().filter(|(_, changes)| !changes.is_empty()).collect();
    if all.is_empty() {
        return Ok(());
    }
    let boot = cx.host.environment.boot_id();
    cx.store.records.update(id, |record| {
        for (sign, changes) in all {
            record.heal.will_switch(&boot, sign, changes);
        }
    })?;
    failpoints::step("heal.intended");
    Ok(())
}

/// Whether these changes fit into the record, next to `more`. Changes that are already recorded take no room; otherwise
/// an interrupted heal could prevent its own completion.
pub(crate) fn has_room_for(
    cx: &Context<'_>,
    id: &VolumeId,
    (sign, changes): &(NamespaceSign, Vec<MountIntent>),
    kind: usize,
    more: usize,
) -> bool {
    let free = MOST_BYTES_OF_ALL[kind].saturating_sub(more);
    has_room(&begun(cx, id), sign, changes, free)
}

/// The changes that earlier heals of the volume recorded and did not revert.
pub(crate) fn begun(cx: &Context<'_>, id: &VolumeId) -> Vec<Switching> {
    switching(cx, &cx.store.records.load(id))
}

/// The recorded changes of this boot.
pub(crate) fn switching(cx: &Context<'_>, record: &VolumeRecord) -> Vec<Switching> {
    let boot = cx.host.environment.boot_id();
    record.heal.switching.iter().filter(|one| one.boot == boot).cloned().collect()
}

/// Reverts the changes of a killed heal. Returns the namespaces where that failed, or `None` if there was no such heal.
pub(crate) fn set_back(cx: &Context<'_>, id: &VolumeId) -> Option<Vec<NamespaceId>> {
    let record = cx.store.records.load(id);
    let (mut failed, mut gone) = (Vec::new(), Vec::new());
    // Tenants can delay their own namespace, but must not delay the others.
    let until = cx.deadline.at_most(cx.deadline.remaining() / 8);
    for one in &switching(cx, &record) {
        let number = NamespaceId(one.sign.namespace);
        let limit = until.at_most(SET_BACK_WAIT);
        if limit.over() {
            failed.push(number);
            continue;
        }
        let put_right = cx.host.census.find_namespace(&one.sign).and_then(|door| {
            if let Some(door) = door {
                return cx.host.remounts.set_back(Some(&door), &one.mounts, limit);
            }
            gone.push(one.sign);
            Ok(())
        });
        if let Err(error) = put_right {
            tracing::warn!(volume = %id, namespace = %number, %error, "what an interrupted heal left is not put right");
            failed.push(number);
        }
    }
    // A new namespace may reuse the number and must not be mistaken for it.
    if !gone.is_empty() {
        let noted = |record: &mut VolumeRecord| forget_gone(&mut record.heal.switching, &gone);
        if let Err(error) = cx.store.records.update(id, noted) {
            tracing::warn!(volume = %id, %error, "that mount namespaces have gone is not remembered");
        }
    }
    (!record.heal.switching.is_empty()).then_some(failed)
}

/// Cleans up after killed or timed-out calls; every call on the volume begins with this. What remains is found and
/// named by the exclusive open. The caller holds the volume's lock.
pub(crate) fn end_leftovers(cx: &Context<'_>, id: &VolumeId) {
    cx.host.devices.tidy(id);
    if let Err(error) = clear_scratch(cx, id) {
        tracing::warn!(volume = %id, %error, "what an interrupted heal left stays mounted");
    }
}

/// Removes the volume's link from `/dev` unless it is still mounted. The caller holds its lock.
pub(crate) fn remove_link(snapshot: &Snapshot<'_>) {
    let Snapshot { cx, id: Some(id), .. } = *snapshot else { return };
    if cx.host.devices.has_link(id)
        && snapshot.table().is_ok_and(|table| labelled(table, id).next().is_none())
    {
        cx.host.devices.remove_link(id);
    }
}

/// Cleans up every volume after killed calls, for the timer: kubelet makes no call while another mount of the disk
/// exists. Also removes marks in the cloud whose last user has ended.
pub fn end_all_leftovers(cx: &Context<'_>) {
    for id in volumes_with_leftovers(cx) {
        // A call that holds the lock does the same.
        let now = Deadline::after(Duration::ZERO);
        let Ok(Locked::Held(_lock)) = cx.store.locks.take(&id, cx.operation, now) else {
            continue;
        };
        end_leftovers(cx, &id);
        remove_link(&Snapshot::of(cx, Some(&id)));
        // Without heals, nothing else reverts it before the next call.
        if cx.policy.heal == HealMode::Off {
            set_back(cx, &id);
        }
        remote_mark::unmark_mounted(cx, &id);
    }
}

fn volumes_with_leftovers(cx: &Context<'_>) -> BTreeSet<VolumeId> {
    let named = cx.host.mounts.names_in(cx.store.scratch).into_iter();
    let mut ids: BTreeSet<_> = named.filter_map(|name| VolumeId::parse(&name).ok()).collect();
    let table = cx.host.mounts.table().ok();
    let has_stale_link = |id: &VolumeId| {
        cx.host.devices.has_link(id)
            && table.as_ref().is_some_and(|table| labelled(table, id).next().is_none())
    };
    let records = cx.store.records.list().unwrap_or_default().into_iter();
    let left = records.filter(|one| has_leftovers(one) || has_stale_link(&one.volume));
    ids.extend(left.map(|record| record.volume));
    // A killed call leaves its lock file behind.
    ids.extend(cx.store.locks.files());
    ids
}

/// The directory for a heal's temporary mount.
pub(crate) fn scratch_of(cx: &Context<'_>, id: &VolumeId) -> PathBuf {
    cx.store.scratch.join(id.as_str())
}

fn clear_scratch(cx: &Context<'_>, id: &VolumeId) -> Result<()> {
    let folder = scratch_of(cx, id);
    // Without the directory nothing is mounted.
    if cx.host.mounts.is_missing(&folder) {
        return Ok(());
    }
    loop {
        let look = cx.host.mounts.standing_at(&folder)?;
        let Some(mount) = look.top()? else { break };
        if cx.host.devices.is_gone(mount.disk)? {
            cx.host.mounts.unmount_dead(mount, cx.deadline)?;
            continue;
        }
        flush::flush_if_last(cx, &look.table, mount, Some(id), cx.deadline)?;
        if let Err(error) = cx.host.mounts.unmount(mount, cx.deadline) {
            if error.kind != Kind::Busy {
                return Err(error);
            }
            // The users keep what they have open, and block nothing else.
            tracing::warn!(volume = %id, %error, "busy: its users keep what they hold");
            cx.host.mounts.unmount_dead(mount, cx.deadline)?;
        }
    }
    cx.host.mounts.remove_folder(&folder)
}

/// Reverts and forgets the changes when nothing will be replaced any more.
pub(crate) fn set_back_for_good(cx: &Context<'_>, id: &VolumeId) {
    if let Some(failed) = set_back(cx, id) {
        forget_switching(cx, id, &failed, &Finished::new());
    }
}

/// Forgets the changes of a finished heal, except in namespaces whose state is unknown; there only finished places are
/// forgotten, so that the record does not fill up. `again` says that a heal or round was interrupted: its changes are
/// reverted once more, because only now everything is in place.
pub(crate) fn is_switched(
    cx: &Context<'_>,
    id: &VolumeId,
    again: bool,
    mut unknown: Vec<NamespaceId>,
    finished: &Finished,
) {
    if again {
        unknown.extend(set_back(cx, id).unwrap_or_default());
    }
    forget_switching(cx, id, &unknown, finished);
}

fn forget_switching(cx: &Context<'_>, id: &VolumeId, but: &[NamespaceId], finished: &Finished) {
    if cx.store.records.load(id).heal.switching.is_empty() {
        return;
    }
    let forgotten = cx.store.records.update(id, |record| {
        forget(&mut record.heal.switching, but, finished);
    });
    if let Err(error) = forgotten {
        tracing::warn!(volume = %id, %error, "the end of the heal is not remembered");
    }
}

/// Lets other processes hold the lost file systems open, so that no unmount drops the last reference. Also returns the
/// disks for which that failed: nothing of those may be replaced.
pub(crate) fn keep_dead(
    cx: &Context<'_>,
    stale: &StaleMounts,
    until: Deadline,
) -> (Keepers, Unkept) {
    let (mut all, mut unkept) = (Vec::new(), Vec::new());
    for number in &stale.dead {
        let of = |mounts: &[Mount]| -> Vec<Mount> {
            // One is enough; if the first hundred are unreachable, the rest will be too.
            mounts.iter().filter(|mount| mount.number == *number).take(100).cloned().collect()
        };
        let own = || cx.host.remounts.keep(None, &of(&stale.own), until);
        let there = |one: &NamespaceUse| {
            let mounts = of(&one.mounts);
            if mounts.is_empty() {
                return Ok(None);
            }
            if until.over() {
                return Err(Error::new(Kind::Timeout, "no time was left"));
            }
            let door = cx.host.census.open_namespace(one)?;
            cx.host.remounts.keep(Some(&door), &mounts, until.at_most(KEEP_WAIT))
        };
        let others = stale.elsewhere.iter().map(there);
        let (mut kept, mut failure) = (None, None);
        for tried in std::iter::once_with(own).chain(others) {
            match tried {
                Ok(Some(keeper)) => kept = Some(keeper),
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
            if kept.is_some() {
                break;
            }
        }
        match (kept, failure) {
            (Some(keeper), _) => all.push((*number, keeper)),
            (None, Some(error)) => unkept.push((*number, error)),
            (None, None) => {}
        }
    }
    (all, unkept)
}

/// Ends those processes; reports one that hangs and leaves it alone.
pub(crate) fn let_go(cx: &Context<'_>, kept: Keepers) -> Vec<String> {
    let ended = |(number, keeper): (DeviceNumber, Box<dyn Keeper>)| {
        let pid = keeper.pid();
        let hangs = !keeper.release(cx.deadline.at_most(LET_GO_WAIT));
        hangs.then(|| {
            format!("the kernel does not let go of the dead disk {number}: process {pid} waits for it, and goes with it; see the kernel's log")
        })
    };
    kept.into_iter().filter_map(ended).collect()
}

/// Whether a heal was interrupted, or a stale mark may be left.
fn has_leftovers(record: &VolumeRecord) -> bool {
    !record.heal.switching.is_empty() || record.may_lose_mark()
}

fn forget_gone(switching: &mut Vec<Switching>, gone: &[NamespaceSign]) {
    switching.retain(|one| !gone.contains(&one.sign));
}

/// Forgets all changes but those of some namespaces, and of these the finished places. Changes next to stale mounts are
/// identified by mount id and stay.
fn forget(switching: &mut Vec<Switching>, but: &[NamespaceId], finished: &Finished) {
    switching.retain_mut(|one| {
        let namespace = NamespaceId(one.sign.namespace);
        if let Some(finished) = finished.get(&namespace) {
            one.mounts.retain(|mount| mount.id.is_some() || !finished.contains(&mount.target));
        }
        but.contains(&namespace) && !one.mounts.is_empty()
    });
}

fn has_room(
    known: &[Switching],
    sign: &NamespaceSign,
    changes: &[MountIntent],
    free: usize,
) -> bool {
    let of_it = known.iter().find(|one| one.sign == *sign);
    let is_new = |change: &&MountIntent| !of_it.is_some_and(|one| one.tells_of(change));
    let taken: usize = known.iter().map(|one| bytes_of(&one.mounts)).sum();
    let free = free.saturating_sub(taken);
    // Look up each change only if they do not fit otherwise; there may be thousands.
    bytes_of(changes) <= free || bytes_of(changes.iter().filter(is_new)) <= free
}

/// Whether the changes in one namespace are too many to record.
fn is_too_much(changes: &[MountIntent]) -> bool {
    changes.len() > MOST_CHANGES || bytes_of(changes) > MOST_BYTES
}

/// The most bytes that they take in a record.
pub(crate) fn bytes_of<'a>(changes: impl IntoIterator<Item = &'a MountIntent>) -> usize {
    /// Key names, numbers and indentation.
    const REST: usize = 160;
    let each = |one: &MountIntent| longest_written(&one.target) + one.propagation.len() + REST;
    changes.into_iter().map(each).sum()
}

#[cfg(test)]
mod tests;
