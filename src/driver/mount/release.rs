//! Release a volume on a person's word, although the guard refuses.
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

/// The result of a release.
#[derive(Debug, Default)]
pub struct Released {
    /// The unmounted directories.
    pub folders: Vec<PathBuf>,
    /// Why written data did not reach the disk.
    pub lost: Option<String>,
    /// Who still holds the disk, and how to end that.
    pub held: Option<String>,
}
/// How long to wait for one unmount.
const PATIENCE: Duration = Duration::from_secs(5);

/// Everything on this node that stops working without the volume, in words.
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

/// Whether processes that have the volume open would wait for its disk after a forced detach; false if that is
/// uncertain.
pub fn would_wait(cx: &Context<'_>, id: &VolumeId) -> bool {
    shield::would_wait(cx, id).unwrap_or(false)
}

/// Whether they are waiting now.
pub fn waits(cx: &Context<'_>, id: &VolumeId) -> bool {
    shield::waited_for(cx, id).is_ok_and(|map| map.is_some())
}

/// Unmounts the volume everywhere in this mount namespace, pods first, whatever uses it.
pub fn release(cx: &Context<'_>, id: &VolumeId) -> Result<Released> {
    let _lock = locking::lock_alone(cx, id)?;
    // Paused I/O blocks unmounts and even killed processes.
    cx.host.shield.end_wait(id)?;
    recovery::end_leftovers(cx, id);
    let mut released = Released::default();
    let snapshot = Snapshot::of(cx, Some(id));
    let mut mounts = snapshot.mounts()?;
    let disks = free_disks::disks_of(&snapshot, &[]).unwrap_or_default();
    // Unmount in reverse order: pods before the stage directory.
    mounts.reverse();
    for mount in mounts {
        let folder = &mount.target;
        tracing::warn!(volume = %id, folder = %folder.display(), "unmounted by a person, despite the guard");
        // Do not wait for a hung disk.
        let soon = || cx.deadline.at_most(PATIENCE);
        // The person wants it unmounted even if data is lost, but must know.
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
    // Lazily unmounted file systems may still hold the disk; then the mark stays until a later call or the timer
    // removes it.
    remote_mark::unmark_mounted(cx, id);
    if let DiskState::Held(why) = free_disks::state_of_all(cx, &disks, &[], Duration::ZERO) {
        released.held = Some(why);
    } else if let Err(error) = cx.host.shield.take_off(cx, id) {
        released.held = Some(error.cause);
    }
    Ok(released)
}
