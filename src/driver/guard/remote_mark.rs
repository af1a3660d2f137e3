//! The remote guard: a volume that is mounted carries, in the cloud, the mark of the server that
//! has it. A detach that is called elsewhere (the orchestrator's forced one, after six minutes)
//! finds it there. The mark never fails a mount.

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

/// A mount does not wait longer for the cloud to take note of it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whose mark is with the volume.
pub(crate) enum LeftMark {
    /// Ours; and how often the volume had gone to another server, if that is known.
    Ours(Option<u64>),
    /// Ours, as this server, beside that of another which has the volume too.
    Beside(ServerId),
}

/// The marks of this server that a volume was seen with: the first one, and one beside another's.
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

    /// Whether one is not there any more that is remembered.
    fn lacks_one_of(self, mark: &MarkRecord) -> bool {
        (mark.is_set && !self.first) || (mark.set_beside.is_some() && !self.beside)
    }
}

/// Tells the cloud of what is mounted, and remembers it. The caller holds the volume's lock.
pub(crate) fn mark_mounted(cx: &Context<'_>, id: &VolumeId) {
    if let Some(left) = leave_mark(cx, id, None) {
        remember_mark(cx, id, left);
    }
}

/// Tells the cloud, in one request, that the volume is mounted here and that it has data. The
/// second is told whatever the guard is set to. `seen` is the volume as the cloud has shown it: the
/// caller has proven its disk since, so that no other server can have come to it. The caller holds
/// the volume's lock. Answers the mark, if this call left one: until the caller has it remembered
/// later calls leave it anew.
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

/// Leaves the mark: beside that of another server which has the volume too, so that each reader of
/// a shared one has its own.
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
    // Before it is asked for: a call that is killed, or has no answer, may have left it.
    cx.store.records.update(id, |record| record.mark.requested_at = Some(millis_since_boot()))?;
    // What outlives the boot waits for a disk that may be full: the mount gets its mark all the same.
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
    // It says of a refusal what a person must know, once.
    noted(cx, id, left.clone()).and(left)?;
    Ok(LeftMark::Ours(state.and_then(|state| state.tenure).map(|tenure| tenure.count)))
}

/// What was mounted has data: that is noted in the same request, and stays.
fn note_mounted(cx: &Context<'_>, id: &VolumeId, mark: Note<'_>, deadline: Deadline) -> Result<()> {
    cx.cloud.note(id, &[mark, Note::Life(&Life::HasData)], deadline)
}

/// Whether the cloud has the mark, after one more try; or no mark can be left there.
pub(crate) fn is_marked_or_cannot_be(cx: &Context<'_>, id: &VolumeId) -> bool {
    if !leaves_marks(cx) {
        return true;
    }
    mark_mounted(cx, id);
    let record = cx.store.records.load(id);
    record.mark.is_known() || record.mark.notes_forbidden.is_some()
}

/// Whether the cloud has yet to be told of what is mounted here, or to be asked whether it still has the mark.
pub(crate) fn owes_mark(cx: &Context<'_>, record: &VolumeRecord) -> bool {
    leaves_marks(cx) && record.owes_mark(millis_since_boot())
}

/// Another machine's detach by force took the mark away: then it is left anew.
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

/// After a heal: what took the disk before may have taken the mark, and this machine was not told.
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

/// A mark that is remembered counts only as long as the cloud shows it.
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

/// Before what lost its disk gets it again: whatever ends this call, the cloud is asked for the mark then, by it or
/// by the timer.
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

/// Takes the mark back, now or with a later call: not before the disk is free, whatever was
/// unmounted. The caller holds the volume's lock.
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

/// Whether a mark that was asked for a moment ago, and not answered, may come yet: the timer looks for
/// it once more.
fn may_still_come(cx: &Context<'_>, record: &VolumeRecord) -> bool {
    let silence = cx.cloud.capabilities().longest_silence;
    let is_young = |at| {
        // What was asked for before a restart has had its time.
        let since = millis_since_boot().checked_sub(at).map(Duration::from_millis);
        since.is_some_and(|since| since < silence)
    };
    record.mark.requested_at.is_some_and(is_young)
}

/// Removes what the cloud shows as this server's. Another may have the volume, and have left its own
/// mark, since ours was left: a detach by force takes ours away without a word to this machine.
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

/// Before an attach: the mark of a server that does not have the volume is left of an earlier life.
/// Where it is never mounted nothing else would end it, and a detach would be refused for ever.
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

/// Whether a server that runs says that it has the volume mounted.
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

/// Why this machine leaves no marks in the cloud, if it does not.
pub fn why_no_marks(cx: &Context<'_>) -> Option<&'static str> {
    if !cx.policy.guard.is_on() {
        return Some("guard.mode is off");
    }
    if !cx.policy.guard.remote {
        return Some("guard.remote is off");
    }
    (!cx.cloud.capabilities().keeps_marks).then_some("this cloud keeps no marks")
}

/// Notes that the volume has data, where no mark of its mount says so.
pub(crate) fn note_data(cx: &Context<'_>, id: &VolumeId) -> Result<()> {
    let told = cx.cloud.note(id, &[Note::Life(&Life::HasData)], cx.deadline);
    let was_told = told.is_ok();
    noted(cx, id, told)?;
    // Where it costs no request it is repeated, rather than remembered.
    if was_told && cx.cloud.capabilities().keeps_marks {
        cx.store.records.update(id, |record| record.mark.is_data_reported = true)?;
    }
    Ok(())
}

/// Remembers for the doctor whether the cloud allows notes. That it does not is no error.
pub(crate) fn noted(cx: &Context<'_>, id: &VolumeId, told: Result<()>) -> Result<()> {
    let forbidden = match told {
        Ok(()) => None,
        // The volume was just shown to this very user: it is this request that is not allowed.
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

/// This moment by the clock that is never set: a step of the other one would make a mark young for ever, or
/// old at once.
pub fn millis_since_boot() -> u64 {
    u64::try_from(since_boot().as_millis()).unwrap_or(u64::MAX)
}

/// Whether the cloud has not been told that the volume has data, which a mount that is over may have written.
fn owes_note(record: &VolumeRecord) -> bool {
    record.disk.was_mounted
        && record.mounts.staged.is_none()
        && !record.mark.is_data_reported
        && record.mark.notes_forbidden.is_none()
}

#[cfg(test)]
mod tests;
