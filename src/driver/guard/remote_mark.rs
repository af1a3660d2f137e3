//! The remote guard: while a volume is mounted, the cloud holds a mark that names its server. A detach that is called
//! on another node, such as the orchestrator's forced one after six minutes, finds it there. The mark never fails a
//! mount.

use crate::context::Context;
use crate::failpoints;
use crate::guard::{free_disks, refusal};
use crate::model::disk::formatting::Life;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ServerId, VolumeId};
use crate::model::record::{MarkRecord, VolumeRecord};
use crate::model::report::tear_down::TearDown;
use crate::ports::clock::{Deadline, since_boot};
use crate::ports::cloud::{CloudVolume, Note, ServerState};
use crate::snapshot::Snapshot;
use std::time::Duration;

/// How long a mount waits for the cloud.
const PATIENCE: Duration = Duration::from_secs(5);

/// A mark that this call left.
pub(crate) enum LeftMark {
    /// As the only one, with the volume's attach generation if known.
    Ours(Option<u64>),
    /// Next to the mark of another server that has the volume too.
    Beside(ServerId),
}

/// This server's marks as last seen: the main one, and one next to another server's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    first: bool,
    beside: bool,
}

impl Marks {
    pub(crate) fn of(state: &CloudVolume, server: &ServerId) -> Self {
        Self {
            first: state.mounted_on.as_ref() == Some(server),
            beside: state.mounted_beside.contains(server),
        }
    }

    /// Whether a recorded mark is missing.
    fn lacks_one_of(self, mark: &MarkRecord) -> bool {
        (mark.is_set && !self.first) || (mark.set_beside.is_some() && !self.beside)
    }
}

/// Leaves the mark and records it. The caller holds the volume's lock.
pub(crate) fn mark_mounted(cx: &Context<'_>, id: &VolumeId) {
    if let Some(left) = leave_mark(cx, id, None) {
        remember_mark(cx, id, left);
    }
}

/// Notes in the cloud, in one request, that the volume is mounted here and has data; the latter whatever the guard's
/// mode is. `seen` is the volume's last state: the caller has proven its disk since, so no other server can have got
/// it. The caller holds the volume's lock. Returns a new mark, which later calls leave again until the caller has
/// recorded it.
pub(crate) fn leave_mark(
    cx: &Context<'_>,
    id: &VolumeId,
    seen: Option<CloudVolume>,
) -> Option<LeftMark> {
    if let Some(state) = &seen {
        forget_mark_gone_from(cx, state);
    }
    let record = cx.store.records.load(id);
    if record.mark.is_data_reported && (record.mark.is_known() || !leaves_marks(cx)) {
        return None;
    }
    if !leaves_marks(cx) {
        if let Err(error) = note_data(cx, id) {
            tracing::warn!(volume = %id, %error, "the cloud was not told that the volume has data");
        }
        return None;
    }
    match ask_for_mark(cx, id, seen, cx.deadline.at_most(PATIENCE)) {
        Ok(left) => {
            failpoints::step("mark.left");
            Some(left)
        }
        Err(error) => {
            tracing::warn!(volume = %id, %error, "the cloud was not told that the volume is mounted here");
            None
        }
    }
}

pub(crate) fn remember_mark(cx: &Context<'_>, id: &VolumeId, left: LeftMark) {
    let noted = cx.store.records.update(id, |record| {
        record.mark.is_data_reported = true;
        record.mark.end_request();
        match left {
            LeftMark::Ours(tenure) => {
                record.mark.is_set = true;
                record.mark.attach_generation = tenure;
            }
            LeftMark::Beside(server) => record.mark.set_beside = Some(server),
        }
    });
    if let Err(error) = noted {
        tracing::warn!(volume = %id, %error, "that the volume is marked in the cloud is not remembered");
    }
}

/// Leaves the mark, next to one of another server that has the volume too, so that each reader of a shared volume has
/// its own.
fn ask_for_mark(
    cx: &Context<'_>,
    id: &VolumeId,
    seen: Option<CloudVolume>,
    deadline: Deadline,
) -> Result<LeftMark> {
    let Some(server) = cx.cloud.server(cx.this_node, deadline)? else {
        return Err(Error::new(Kind::Missing, "it knows no server for this node"));
    };
    let state = match seen {
        Some(seen) => Some(seen),
        None => cx.cloud.volume(id, deadline)?,
    };
    // First, because a call that is killed or gets no answer may have left the mark.
    cx.store.records.update(id, |record| record.mark.requested_at = Some(millis_since_boot()))?;
    // Whatever outlives the boot needs a disk that may be full; that must not cost the mount its mark.
    if let Err(error) =
        cx.store.records.update(id, |record| record.mark.requested_as = Some(server.clone()))
    {
        tracing::warn!(volume = %id, %error, "that a mark was asked for is remembered until the machine restarts, and no longer");
    }
    failpoints::step("mark.asked");
    let marked = state.as_ref().and_then(|state| {
        let other = state.mounted_on.as_ref().filter(|other| **other != server)?;
        state.attachment_to(other).map(|_| other)
    });
    if let Some(other) = marked {
        tracing::info!(volume = %id, %other, "another server has its mark with the volume: this one's is left beside it");
        let left = note_mounted(cx, id, Note::MountedBeside(&server), deadline);
        noted(cx, id, left.clone()).and(left)?;
        return Ok(LeftMark::Beside(server));
    }
    let left = note_mounted(cx, id, Note::MountedOn(Some(&server)), deadline);
    // Logs once what a person must know about a refusal.
    noted(cx, id, left.clone()).and(left)?;
    Ok(LeftMark::Ours(state.and_then(|state| state.tenure).map(|tenure| tenure.count)))
}

/// The same request notes for good that the volume has data.
fn note_mounted(cx: &Context<'_>, id: &VolumeId, mark: Note<'_>, deadline: Deadline) -> Result<()> {
    cx.cloud.note(id, &[mark, Note::Life(&Life::HasData)], deadline)
}

/// Whether the mark is there after one more attempt, or the cloud accepts none.
pub(crate) fn is_marked_or_cannot_be(cx: &Context<'_>, id: &VolumeId) -> bool {
    if !leaves_marks(cx) {
        return true;
    }
    mark_mounted(cx, id);
    let record = cx.store.records.load(id);
    record.mark.is_known() || record.mark.notes_forbidden.is_some()
}

/// Whether a mark is missing in the cloud, or has to be verified.
pub(crate) fn owes_mark(cx: &Context<'_>, record: &VolumeRecord) -> bool {
    leaves_marks(cx) && record.owes_mark(millis_since_boot())
}

/// A forced detach on another node removed the mark: forget it, so that it is left again.
pub(crate) fn forget_lost_mark(cx: &Context<'_>, id: &VolumeId, seen: Marks) {
    let record = cx.store.records.load(id);
    if !leaves_marks(cx) || !seen.lacks_one_of(&record.mark) {
        return;
    }
    let lost = |record: &mut VolumeRecord| {
        let mark = &mut record.mark;
        mark.is_set &= seen.first;
        mark.set_beside = mark.set_beside.take().filter(|_| seen.beside);
    };
    if let Err(error) = cx.store.records.update(id, lost) {
        tracing::warn!(volume = %id, %error, "the lost mark is not left anew");
    }
}

/// After a heal: the mark may have disappeared together with the disk, unnoticed.
pub(crate) fn mark_healed(cx: &Context<'_>, id: &VolumeId) {
    if !leaves_marks(cx) || !cx.store.records.load(id).mark.is_known() {
        return;
    }
    match cx.cloud.volume(id, cx.deadline.at_most(PATIENCE)) {
        Ok(Some(state)) => forget_mark_gone_from(cx, &state),
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(volume = %id, %error, "whether the mark went with the disk is not known yet");
            doubt_mark(cx, id);
            return;
        }
    }
    mark_mounted(cx, id);
}

/// Forgets a recorded mark that the cloud no longer shows.
fn forget_mark_gone_from(cx: &Context<'_>, state: &CloudVolume) {
    let id = &state.id;
    if !cx.store.records.load(id).mark.is_known() {
        return;
    }
    match cx.cloud.server(cx.this_node, cx.deadline.at_most(PATIENCE)) {
        Ok(Some(server)) => {
            forget_lost_mark(cx, id, Marks::of(state, &server));
            if cx.store.records.load(id).mark.doubted_at.is_some() {
                remember_doubt(cx, id, |record| record.mark.doubted_at = None);
            }
        }
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(volume = %id, %error, "whether the mark is still there is not known yet");
            doubt_mark(cx, id);
        }
    }
}

/// Before a heal: makes this call or the timer verify the mark in the cloud, whatever happens to this call.
pub(crate) fn doubt_mark(cx: &Context<'_>, id: &VolumeId) {
    let record = cx.store.records.load(id);
    if record.mark.is_known() && record.mark.doubted_at.is_none() {
        remember_doubt(cx, id, |record| record.mark.doubt(millis_since_boot()));
    }
}

fn remember_doubt(cx: &Context<'_>, id: &VolumeId, change: impl FnOnce(&mut VolumeRecord)) {
    if let Err(error) = cx.store.records.update(id, change) {
        tracing::warn!(volume = %id, %error, "whether the mark is in doubt is not remembered");
    }
}

/// Removes the mark, now or in a later call, once the disk is free. The caller holds the volume's lock.
pub(crate) fn unmark_mounted(cx: &Context<'_>, id: &VolumeId) {
    let record = cx.store.records.load(id);
    if owes_note(&record)
        && let Err(error) = note_data(cx, id)
    {
        tracing::warn!(volume = %id, %error, "the cloud was not told that the volume has data");
    }
    if !leaves_marks(cx) || !record.may_lose_mark() || !free_disks::has_departed(cx, id) {
        return;
    }
    let removed = remove_marks(cx, &record, cx.deadline.at_most(PATIENCE));
    let gone = if may_still_come(cx, &record) { MarkRecord::clear_seen } else { MarkRecord::clear };
    let noted = removed.and_then(|()| cx.store.records.update(id, |record| gone(&mut record.mark)));
    if let Err(error) = noted {
        tracing::warn!(volume = %id, %error, "the cloud still thinks that the volume is mounted here; later calls repeat it");
    }
}

/// Whether a recent request without an answer may still leave a mark; the timer checks again.
fn may_still_come(cx: &Context<'_>, record: &VolumeRecord) -> bool {
    let silence = cx.cloud.capabilities().longest_silence;
    let is_young = |at| {
        // A request from before a reboot has had its time.
        let since = millis_since_boot().checked_sub(at).map(Duration::from_millis);
        since.is_some_and(|since| since < silence)
    };
    record.mark.requested_at.is_some_and(is_young)
}

/// Removes this server's marks. Another server may have got the volume and left its own mark since, because a forced
/// detach removes ours without notice.
fn remove_marks(cx: &Context<'_>, record: &VolumeRecord, deadline: Deadline) -> Result<()> {
    let id = &record.volume;
    let server = match record.mark.requested_as.clone().or_else(|| record.mark.set_beside.clone()) {
        Some(server) => Some(server),
        None => cx.cloud.server(cx.this_node, deadline)?,
    };
    let Some(server) = server else {
        return Err(Error::new(Kind::Missing, "it knows no server for this node"));
    };
    let Some(state) = cx.cloud.volume(id, deadline)? else { return Ok(()) };
    remove_marks_of(cx, &state, &server, deadline)
}

fn remove_marks_of(
    cx: &Context<'_>,
    state: &CloudVolume,
    server: &ServerId,
    deadline: Deadline,
) -> Result<()> {
    let seen = Marks::of(state, server);
    let beside = seen.beside.then_some(Note::NotMountedBeside(server));
    let gone: Vec<_> =
        beside.into_iter().chain(seen.first.then_some(Note::MountedOn(None))).collect();
    if gone.is_empty() { Ok(()) } else { cx.cloud.note(&state.id, &gone, deadline) }
}

/// Before an attach: removes an outdated mark of a server that does not have the volume. If the volume is never
/// mounted, nothing else would remove it, and a detach would be refused for ever.
pub(crate) fn end_mark_of_before(cx: &Context<'_>, state: &CloudVolume, server: &ServerId) {
    let is_of_before = state.is_marked_by(server) && state.attachment_to(server).is_none();
    if !leaves_marks(cx) || !is_of_before {
        return;
    }
    tracing::info!(volume = %state.id, %server, "the mark of a mount that this server cannot have any more is taken away");
    let deadline = cx.deadline.at_most(PATIENCE);
    if let Err(error) = remove_marks_of(cx, state, server, deadline) {
        tracing::warn!(volume = %state.id, %server, %error, "the mark of an earlier mount stays");
    }
}

/// Refuses if a running server has marked the volume as mounted.
pub(crate) fn guard_by_mark(
    cx: &Context<'_>,
    state: &CloudVolume,
    server: &ServerId,
) -> Result<()> {
    if !leaves_marks(cx) || !state.is_marked_by(server) {
        return Ok(());
    }
    let Some(view) = cx.cloud.server_view(server, cx.deadline)? else { return Ok(()) };
    if view.state != ServerState::Running {
        return Ok(());
    }
    let name = view.name.unwrap_or_default();
    let reason = format!("server {server} ({name}, {}) has the volume mounted", view.word);
    refusal::refuse(&Snapshot::of(cx, Some(&state.id)), &TearDown::Detach, &reason)
}

fn leaves_marks(cx: &Context<'_>) -> bool {
    why_no_marks(cx).is_none()
}

/// Why this node leaves no marks in the cloud.
pub fn why_no_marks(cx: &Context<'_>) -> Option<&'static str> {
    if !cx.policy.guard.is_on() {
        return Some("guard.mode is off");
    }
    if !cx.policy.guard.remote {
        return Some("guard.remote is off");
    }
    (!cx.cloud.capabilities().keeps_marks).then_some("this cloud keeps no marks")
}

/// Notes that the volume has data, if no mark does.
pub(crate) fn note_data(cx: &Context<'_>, id: &VolumeId) -> Result<()> {
    let told = cx.cloud.note(id, &[Note::Life(&Life::HasData)], cx.deadline);
    let was_told = told.is_ok();
    noted(cx, id, told)?;
    // Repeat it if it costs no request.
    if was_told && cx.cloud.capabilities().keeps_marks {
        cx.store.records.update(id, |record| record.mark.is_data_reported = true)?;
    }
    Ok(())
}

/// Records for `doctor` whether the cloud accepts notes. A refusal is no error.
pub(crate) fn noted(cx: &Context<'_>, id: &VolumeId, told: Result<()>) -> Result<()> {
    let forbidden = match told {
        Ok(()) => None,
        // The volume is visible to these credentials, so this very request is forbidden.
        Err(error) if error.kind == Kind::Config => {
            tracing::warn!(volume = %id, %error, "the cloud allows no notes with the volume: that it has data is known to this machine alone");
            Some(error.cause)
        }
        Err(error) => return Err(error),
    };
    if cx.store.records.load(id).mark.notes_forbidden == forbidden {
        return Ok(());
    }
    cx.store.records.update(id, |record| record.mark.notes_forbidden = forbidden)
}

/// Milliseconds on the monotonic clock: after a step of the wall clock a mark would look young for ever, or old at
/// once.
pub fn millis_since_boot() -> u64 {
    u64::try_from(since_boot().as_millis()).unwrap_or(u64::MAX)
}

/// Whether the cloud still has to learn that the volume has data, perhaps from a mount that has ended.
fn owes_note(record: &VolumeRecord) -> bool {
    record.disk.was_mounted
        && record.mounts.staged.is_none()
        && !record.mark.is_data_reported
        && record.mark.notes_forbidden.is_none()
}

#[cfg(test)]
mod tests;
