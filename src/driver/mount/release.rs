//! What a person may do although the guard refuses it.
use crate::context::Context;
use crate::guard::free_disks::{self, DiskState};
use crate::guard::{flush, remote_mark};
use crate::heal::recovery;
use crate::lookup::locking;
use crate::model::error::{Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::Answer;
use crate::ownership::words;
use crate::shield;
use crate::snapshot::Snapshot;
use std::path::PathBuf;
use std::time::Duration;

/// What a release came to.
#[derive(Debug, Default)]
pub struct Released {
    /// The folders that were unmounted.
    pub folders: Vec<PathBuf>,
    /// Why written data did not reach the disk, if it did not.
    pub lost: Option<String>,
    /// Who has the disk still, and what ends it.
    pub held: Option<String>,
}
/// How long one unmount is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Everything on this machine that stops to work when the volume goes, in words.
pub fn what_would_break(cx: &Context<'_>, id: &VolumeId) -> Vec<String> {
    let snapshot = Snapshot::of(cx, Some(id));
    let mut all: Vec<String> = snapshot
        .mounts()
        .unwrap_or_default()
        .iter()
        .map(|mount| format!("the mount at {}", mount.target.display()))
        .collect();
    if let Some(map) = shield::seen(cx, id) {
        let (name, state) = (&map.kernel_name, map.state());
        let (what, open) = if state.waits() { ("waits in", "") } else { ("has", " open") };
        all.push(format!("what {what} the map {name}{open}, which {}", state.words()));
    }
    match cx.host.census.device_users(&snapshot.numbers(&[])) {
        Answer::Told(users) => {
            all.extend(words::all_of(&users));
            let hidden = users.untold.iter().filter(|one| one.way_out.is_some());
            all.extend(hidden.map(|one| format!("perhaps more: {one}")));
        }
        Answer::CannotTell(why) => {
            all.push(format!("its users: they cannot be told from here: {why}"));
        }
    }
    all
}

/// Whether what has the volume open would wait for its disk, were that detached by force; where it cannot be told,
/// it would fail.
pub fn would_wait(cx: &Context<'_>, id: &VolumeId) -> bool {
    shield::would_wait(cx, id).unwrap_or(false)
}

/// Whether it waits now.
pub fn waits(cx: &Context<'_>, id: &VolumeId) -> bool {
    shield::waited_for(cx, id).is_ok_and(|map| map.is_some())
}

/// Unmounts the volume everywhere in this namespace, pods first, whatever uses it elsewhere.
pub fn release(cx: &Context<'_>, id: &VolumeId) -> Result<Released> {
    let _lock = locking::lock_alone(cx, id)?;
    // What waits has no end else: neither an unmount nor a process that is killed.
    cx.host.shield.end_wait(id)?;
    recovery::end_leftovers(cx, id);
    let mut released = Released::default();
    let snapshot = Snapshot::of(cx, Some(id));
    let mut mounts = snapshot.mounts()?;
    let disks = free_disks::disks_of(&snapshot, &[]).unwrap_or_default();
    // What was mounted last goes first: pods before the global folder.
    mounts.reverse();
    for mount in mounts {
        let folder = &mount.target;
        tracing::warn!(volume = %id, folder = %folder.display(), "unmounted by a person, despite the guard");
        // A disk that hangs is not waited for.
        let soon = || cx.deadline.at_most(PATIENCE);
        // What is lost is lost, and the person wants it unmounted; but it is told.
        if !cx.host.devices.is_gone(mount.disk).unwrap_or(false)
            && let Err(error) =
                flush::flush_if_last(cx, &cx.host.mounts.table()?, mount, Some(id), soon())
        {
            tracing::error!(volume = %id, %error, "written data is lost");
            released.lost.get_or_insert(error.cause);
        }
        if let Err(error) = cx.host.mounts.unmount(mount, soon()) {
            if !matches!(error.kind, Kind::Busy | Kind::Timeout) {
                return Err(error);
            }
            tracing::warn!(volume = %id, %error, "busy: its users keep what they hold");
            let is_there = cx.host.mounts.table()?.mounts().iter().any(|one| one.id == mount.id);
            if is_there {
                cx.host.mounts.unmount_dead(mount, soon())?;
            }
        }
        released.folders.push(folder.clone());
    }
    cx.store.records.update(id, |record| {
        record.mounts.is_unstaged();
        record.mounts.is_unpublished_everywhere();
        record.guard.refused.clear();
    })?;
    recovery::remove_link(&Snapshot::of(cx, Some(id)));
    // Who kept what it held has the disk still: then the mark in the cloud stays, and goes with
    // a later call, or by the timer.
    remote_mark::unmark_mounted(cx, id);
    if let DiskState::Held(why) = free_disks::state_of_all(cx, &disks, &[], Duration::ZERO) {
        released.held = Some(why);
    } else if let Err(error) = cx.host.shield.take_off(cx, id) {
        released.held = Some(error.cause);
    }
    Ok(released)
}
