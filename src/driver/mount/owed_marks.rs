//! Marks that the cloud did not accept in time; the timer leaves them later. Until then nothing prevents a detach that
//! is called on another node.
use crate::context::Context;
use crate::guard::remote_mark;
use crate::lookup::{find_disk, locking};
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::mount::{sole_writer, stage};
use crate::ports::clock::Deadline;
use crate::ports::store::Locked;
use std::time::Duration;

/// Leaves all missing marks, as far as possible.
pub fn leave_all(cx: &Context<'_>) {
    let records = cx.store.records.list().unwrap_or_default().into_iter();
    for record in records.filter(|record| remote_mark::owes_mark(cx, record)) {
        let id = &record.volume;
        // A call that holds the lock leaves its own mark.
        let now = Deadline::after(Duration::ZERO);
        let Ok(Locked::Held(_lock)) = cx.store.locks.take(id, cx.operation, now) else {
            continue;
        };
        match leave(cx, id) {
            Ok(true) => {
                tracing::info!(volume = %id, "the mark in the cloud was looked for, and is there");
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(volume = %id, %error, "the mark is not left yet"),
        }
    }
}

/// Returns whether the mark is there. Asks nothing for a volume whose disk is missing or that is mounted from another
/// disk: its heal does that.
fn leave(cx: &Context<'_>, id: &VolumeId) -> Result<bool> {
    let record = cx.store.records.load(id);
    let Some(staged) =
        record.mounts.staged.as_ref().filter(|_| remote_mark::owes_mark(cx, &record))
    else {
        return Ok(false);
    };
    locking::nothing_hangs(cx, id)?;
    let Some(disk) = find_disk::find_disk(cx, id)? else { return Ok(false) };
    let look = cx.host.mounts.standing_at(&staged.folder)?;
    if look.top()?.is_none_or(|mount| mount.disk != disk.number) {
        return Ok(false);
    }
    let Some(state) = sole_writer::seen_here(cx, id)? else { return Ok(false) };
    stage::mark_proven(cx, id, &disk, Some(state), staged.untouched)?;
    let now = cx.store.records.load(id);
    Ok(now.mark.is_known() && now.mark.doubted_at.is_none())
}
