//! Marks that the cloud could not be told, or asked for, when it was time: the timer makes up for it. Until then
//! nothing holds back a detach that is called on another machine.
use crate::context::Context;
use crate::guard::remote_mark;
use crate::lookup::{find_disk, locking};
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::mount::{sole_writer, stage};
use crate::ports::clock::Deadline;
use crate::ports::store::Locked;
use std::time::Duration;

/// Leaves all of them, as far as that can be now.
pub fn leave_all(cx: &Context<'_>) {
    let records = cx.store.records.list().unwrap_or_default().into_iter();
    for record in records.filter(|record| remote_mark::owes_mark(cx, record)) {
        let id = &record.volume;
        // A call that works on it just now leaves its own.
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

/// Whether it is there now. A volume whose disk is not here, or that is mounted from another one, costs no request: a
/// heal is for it, and asks by itself.
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
