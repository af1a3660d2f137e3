//! The remote guard: a volume that is mounted carries, in the cloud, the mark of the server that
//! has it. A detach that is called elsewhere (the orchestrator's forced one, after six minutes)
//! finds it there. The mark never fails a mount.

use crate::cloud::{Cloud, CloudVolume, Note, ServerState};
use crate::failpoints;
use crate::guard::free_disks::FreeDisks;
use crate::guard::refusal::Refusals;
use crate::host::clock::{Deadline, since_boot};
use crate::host::records::Records;
use crate::model::disk::formatting::Life;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId};
use crate::model::policy::{GuardMode, GuardPolicy};
use crate::model::record::VolumeRecord;
use crate::model::report::tear_down::TearDown;
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
    fn lacks_one_of(self, record: &VolumeRecord) -> bool {
        (record.is_marked && !self.first) || (record.marked_beside.is_some() && !self.beside)
    }
}

/// The marks and notes that the cloud keeps with volumes.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct RemoteMarks<'a> {
    pub(crate) cloud: &'a dyn Cloud,
    pub(crate) records: &'a Records,
    pub(crate) this_node: &'a NodeName,
    pub(crate) policy: &'a GuardPolicy,
    pub(crate) deadline: Deadline,
    pub(crate) refusals: &'a Refusals<'a>,
    pub(crate) free_disks: &'a FreeDisks<'a>,
}

impl RemoteMarks<'_> {
    /// Tells the cloud of what is mounted, and remembers it. The caller holds the volume's lock.
    pub(crate) fn mark_mounted(&self, id: &VolumeId) {
        if let Some(left) = self.leave_mark(id, None) {
            self.remember_mark(id, left);
        }
    }

    /// Tells the cloud, in one request, that the volume is mounted here and that it has data. The
    /// second is told whatever the guard is set to. `seen` is the volume as the cloud has shown it: the
    /// caller has proven its disk since, so that no other server can have come to it. The caller holds
    /// the volume's lock. Answers the mark, if this call left one: until the caller has it remembered
    /// later calls leave it anew.
    pub(crate) fn leave_mark(&self, id: &VolumeId, seen: Option<CloudVolume>) -> Option<LeftMark> {
        if let Some(state) = &seen {
            self.forget_mark_gone_from(state);
        }
        let record = self.records.load(id);
        if record.is_life_told && (record.has_mark() || !self.leaves_marks()) {
            return None;
        }
        if !self.leaves_marks() {
            if let Err(error) = self.note_data(id) {
                tracing::warn!(volume = %id, %error, "the cloud was not told that the volume has data");
            }
            return None;
        }
        match self.ask_for_mark(id, seen, self.deadline.at_most(PATIENCE)) {
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

    pub(crate) fn remember_mark(&self, id: &VolumeId, left: LeftMark) {
        let noted = self.records.update(id, |record| {
            record.is_life_told = true;
            record.mark_is_answered();
            match left {
                LeftMark::Ours(tenure) => {
                    record.is_marked = true;
                    record.tenure = tenure;
                }
                LeftMark::Beside(server) => record.marked_beside = Some(server),
            }
        });
        if let Err(error) = noted {
            tracing::warn!(volume = %id, %error, "that the volume is marked in the cloud is not remembered");
        }
    }

    /// Leaves the mark: beside that of another server which has the volume too, so that each reader of
    /// a shared one has its own.
    fn ask_for_mark(
        &self,
        id: &VolumeId,
        seen: Option<CloudVolume>,
        deadline: Deadline,
    ) -> Result<LeftMark> {
        let Some(server) = self.cloud.server(self.this_node, deadline)? else {
            return Err(Error::new(Kind::Missing, "it knows no server for this node"));
        };
        let state = match seen {
            Some(seen) => Some(seen),
            None => self.cloud.volume(id, deadline)?,
        };
        // Before it is asked for: a call that is killed, or has no answer, may have left it.
        self.records.update(id, |record| record.mark_asked_at = Some(millis_since_boot()))?;
        // What outlives the boot waits for a disk that may be full: the mount gets its mark all the same.
        if let Err(error) =
            self.records.update(id, |record| record.mark_asked = Some(server.clone()))
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
            let left = self.note_mounted(id, Note::MountedBeside(&server), deadline);
            self.noted(id, left.clone()).and(left)?;
            return Ok(LeftMark::Beside(server));
        }
        let left = self.note_mounted(id, Note::MountedOn(Some(&server)), deadline);
        // It says of a refusal what a person must know, once.
        self.noted(id, left.clone()).and(left)?;
        Ok(LeftMark::Ours(state.and_then(|state| state.tenure).map(|tenure| tenure.count)))
    }

    /// What was mounted has data: that is noted in the same request, and stays.
    fn note_mounted(&self, id: &VolumeId, mark: Note<'_>, deadline: Deadline) -> Result<()> {
        self.cloud.note(id, &[mark, Note::Life(&Life::HasData)], deadline)
    }

    /// Whether the cloud has the mark, after one more try; or no mark can be left there.
    pub(crate) fn is_marked_or_cannot_be(&self, id: &VolumeId) -> bool {
        if !self.leaves_marks() {
            return true;
        }
        self.mark_mounted(id);
        let record = self.records.load(id);
        record.has_mark() || record.notes_forbidden.is_some()
    }

    /// Whether the cloud has yet to be told of what is mounted here, or to be asked whether it still has the mark.
    pub(crate) fn owes_mark(&self, record: &VolumeRecord) -> bool {
        self.leaves_marks() && record.owes_mark(millis_since_boot())
    }

    /// Another machine's detach by force took the mark away: then it is left anew.
    pub(crate) fn forget_lost_mark(&self, id: &VolumeId, seen: Marks) {
        let record = self.records.load(id);
        if !self.leaves_marks() || !seen.lacks_one_of(&record) {
            return;
        }
        let lost = |record: &mut VolumeRecord| {
            record.is_marked &= seen.first;
            record.marked_beside = record.marked_beside.take().filter(|_| seen.beside);
        };
        if let Err(error) = self.records.update(id, lost) {
            tracing::warn!(volume = %id, %error, "the lost mark is not left anew");
        }
    }

    /// After a heal: what took the disk before may have taken the mark, and this machine was not told.
    pub(crate) fn mark_healed(&self, id: &VolumeId) {
        if !self.leaves_marks() || !self.records.load(id).has_mark() {
            return;
        }
        match self.cloud.volume(id, self.deadline.at_most(PATIENCE)) {
            Ok(Some(state)) => self.forget_mark_gone_from(&state),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(volume = %id, %error, "whether the mark went with the disk is not known yet");
                self.doubt_mark(id);
                return;
            }
        }
        self.mark_mounted(id);
    }

    /// A mark that is remembered counts only as long as the cloud shows it.
    fn forget_mark_gone_from(&self, state: &CloudVolume) {
        let id = &state.id;
        if !self.records.load(id).has_mark() {
            return;
        }
        match self.cloud.server(self.this_node, self.deadline.at_most(PATIENCE)) {
            Ok(Some(server)) => {
                self.forget_lost_mark(id, Marks::of(state, &server));
                if self.records.load(id).mark_doubted_at.is_some() {
                    self.remember_doubt(id, |record| record.mark_doubted_at = None);
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(volume = %id, %error, "whether the mark is still there is not known yet");
                self.doubt_mark(id);
            }
        }
    }

    /// Before what lost its disk gets it again: whatever ends this call, the cloud is asked for the mark then, by it or
    /// by the timer.
    pub(crate) fn doubt_mark(&self, id: &VolumeId) {
        let record = self.records.load(id);
        if record.has_mark() && record.mark_doubted_at.is_none() {
            self.remember_doubt(id, |record| record.doubts_mark(millis_since_boot()));
        }
    }

    fn remember_doubt(&self, id: &VolumeId, change: impl FnOnce(&mut VolumeRecord)) {
        if let Err(error) = self.records.update(id, change) {
            tracing::warn!(volume = %id, %error, "whether the mark is in doubt is not remembered");
        }
    }

    /// Takes the mark back, now or with a later call: not before the disk is free, whatever was
    /// unmounted. The caller holds the volume's lock.
    pub(crate) fn unmark_mounted(&self, id: &VolumeId) {
        let record = self.records.load(id);
        if owes_note(&record)
            && let Err(error) = self.note_data(id)
        {
            tracing::warn!(volume = %id, %error, "the cloud was not told that the volume has data");
        }
        if !self.leaves_marks() || !record.may_lose_mark() || !self.free_disks.has_departed(id) {
            return;
        }
        let removed = self.remove_marks(&record, self.deadline.at_most(PATIENCE));
        let gone = if self.may_still_come(&record) {
            VolumeRecord::shows_no_mark
        } else {
            VolumeRecord::is_unmarked
        };
        let noted = removed.and_then(|()| self.records.update(id, gone));
        if let Err(error) = noted {
            tracing::warn!(volume = %id, %error, "the cloud still thinks that the volume is mounted here; later calls repeat it");
        }
    }

    /// Whether a mark that was asked for a moment ago, and not answered, may come yet: the timer looks for
    /// it once more.
    fn may_still_come(&self, record: &VolumeRecord) -> bool {
        let silence = self.cloud.capabilities().longest_silence;
        let is_young = |at| {
            // What was asked for before a restart has had its time.
            let since = millis_since_boot().checked_sub(at).map(Duration::from_millis);
            since.is_some_and(|since| since < silence)
        };
        record.mark_asked_at.is_some_and(is_young)
    }

    /// Removes what the cloud shows as this server's. Another may have the volume, and have left its own
    /// mark, since ours was left: a detach by force takes ours away without a word to this machine.
    fn remove_marks(&self, record: &VolumeRecord, deadline: Deadline) -> Result<()> {
        let id = &record.volume;
        let server = match record.mark_asked.clone().or_else(|| record.marked_beside.clone()) {
            Some(server) => Some(server),
            None => self.cloud.server(self.this_node, deadline)?,
        };
        let Some(server) = server else {
            return Err(Error::new(Kind::Missing, "it knows no server for this node"));
        };
        let Some(state) = self.cloud.volume(id, deadline)? else { return Ok(()) };
        self.remove_marks_of(&state, &server, deadline)
    }

    fn remove_marks_of(
        &self,
        state: &CloudVolume,
        server: &ServerId,
        deadline: Deadline,
    ) -> Result<()> {
        let seen = Marks::of(state, server);
        let beside = seen.beside.then_some(Note::NotMountedBeside(server));
        let gone: Vec<_> =
            beside.into_iter().chain(seen.first.then_some(Note::MountedOn(None))).collect();
        if gone.is_empty() { Ok(()) } else { self.cloud.note(&state.id, &gone, deadline) }
    }

    /// Before an attach: the mark of a server that does not have the volume is left of an earlier life.
    /// Where it is never mounted nothing else would end it, and a detach would be refused for ever.
    pub(crate) fn end_mark_of_before(&self, state: &CloudVolume, server: &ServerId) {
        let is_of_before = state.is_marked_by(server) && state.attachment_to(server).is_none();
        if !self.leaves_marks() || !is_of_before {
            return;
        }
        tracing::info!(volume = %state.id, %server, "the mark of a mount that this server cannot have any more is taken away");
        let deadline = self.deadline.at_most(PATIENCE);
        if let Err(error) = self.remove_marks_of(state, server, deadline) {
            tracing::warn!(volume = %state.id, %server, %error, "the mark of an earlier mount stays");
        }
    }

    /// Whether a server that runs says that it has the volume mounted.
    pub(crate) fn guard_by_mark(&self, state: &CloudVolume, server: &ServerId) -> Result<()> {
        if !self.leaves_marks() || !state.is_marked_by(server) {
            return Ok(());
        }
        let Some(view) = self.cloud.server_view(server, self.deadline)? else { return Ok(()) };
        if view.state != ServerState::Running {
            return Ok(());
        }
        let name = view.name.unwrap_or_default();
        let reason = format!("server {server} ({name}, {}) has the volume mounted", view.word);
        self.refusals.refuse(Some(&state.id), &TearDown::Detach, &reason)
    }

    fn leaves_marks(&self) -> bool {
        self.why_no_marks().is_none()
    }

    /// Why this machine leaves no marks in the cloud, if it does not.
    #[must_use]
    pub fn why_no_marks(&self) -> Option<&'static str> {
        if self.policy.mode == GuardMode::Off {
            return Some("guard.mode is off");
        }
        if !self.policy.remote {
            return Some("guard.remote is off");
        }
        (!self.cloud.capabilities().keeps_marks).then_some("this cloud keeps no marks")
    }

    /// Notes that the volume has data, where no mark of its mount says so.
    pub(crate) fn note_data(&self, id: &VolumeId) -> Result<()> {
        let told = self.cloud.note(id, &[Note::Life(&Life::HasData)], self.deadline);
        let was_told = told.is_ok();
        self.noted(id, told)?;
        // Where it costs no request it is repeated, rather than remembered.
        if was_told && self.cloud.capabilities().keeps_marks {
            self.records.update(id, |record| record.is_life_told = true)?;
        }
        Ok(())
    }

    /// Remembers for `disk doctor` whether the cloud allows notes. That it does not is no error.
    pub(crate) fn noted(&self, id: &VolumeId, told: Result<()>) -> Result<()> {
        let forbidden = match told {
            Ok(()) => None,
            // The volume was just shown to this very user: it is this request that is not allowed.
            Err(error) if error.kind == Kind::Config => {
                tracing::warn!(volume = %id, %error, "the cloud allows no notes with the volume: that it has data is known to this machine alone");
                Some(error.cause)
            }
            Err(error) => return Err(error),
        };
        if self.records.load(id).notes_forbidden == forbidden {
            return Ok(());
        }
        self.records.update(id, |record| record.notes_forbidden = forbidden)
    }
}

/// This moment by the clock that is never set: a step of the other one would make a mark young for ever, or
/// old at once.
pub(crate) fn millis_since_boot() -> u64 {
    u64::try_from(since_boot().as_millis()).unwrap_or(u64::MAX)
}

/// Whether the cloud has not been told that the volume has data, which a mount that is over may have written.
fn owes_note(record: &VolumeRecord) -> bool {
    record.was_mounted
        && record.staged.is_none()
        && !record.is_life_told
        && record.notes_forbidden.is_none()
}

#[cfg(test)]
mod tests;
