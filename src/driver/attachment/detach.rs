//! Detach a volume from a server.

use crate::attachment::open_requests::{OpenRequest, OpenRequests, recorded};
use crate::attachment::takeover::Takeovers;
use crate::cloud::{Cloud, CloudVolume, Note, ServerState, Trouble};
use crate::failpoints;
use crate::guard::let_go_volumes::LetGoVolumes;
use crate::guard::refusal::Refusals;
use crate::guard::remote_mark::RemoteMarks;
use crate::guard::{Guard, UsersSeen};
use crate::heal::recovery::Recovery;
use crate::host::clock::Deadline;
use crate::host::locks::{Lock, Locks};
use crate::host::pace::Change;
use crate::host::records::Records;
use crate::lookup::attachment_view::{Asking, Attachments, Trust, after_all, not_done};
use crate::lookup::disk_numbers::DiskNumbers;
use crate::lookup::find_volume::Volumes;
use crate::lookup::locking::Locking;
use crate::lookup::own_maps::OwnMaps;
use crate::model::cloud::attachment_state::{AttachmentState, Mapping, VolumePhase};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use crate::model::record::VolumeRecord;
use crate::model::report::tear_down::TearDown;
use crate::operation::Outcome;
use std::collections::BTreeSet;
use std::time::Instant;

/// A guest that does not let go makes the cloud roll a detach back: it is asked once more.
const TRIES: u32 = 2;

/// Whether a person gave up what the guard protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// No.
    No,
    /// Yes: whatever uses the disk loses it, or waits for it behind a shield.
    Yes,
}

/// Volumes leave servers.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct Detaching<'a> {
    pub(crate) cloud: &'a dyn Cloud,
    pub(crate) records: &'a Records,
    pub(crate) locks: &'a Locks,
    pub(crate) this_node: &'a NodeName,
    pub(crate) deadline: Deadline,
    pub(crate) attachments: &'a Attachments<'a>,
    pub(crate) locking: &'a Locking<'a>,
    pub(crate) numbers: &'a DiskNumbers<'a>,
    pub(crate) volumes: &'a Volumes<'a>,
    pub(crate) refusals: &'a Refusals<'a>,
    pub(crate) let_go_volumes: &'a LetGoVolumes<'a>,
    pub(crate) marks: &'a RemoteMarks<'a>,
    pub(crate) guard: &'a Guard<'a>,
    pub(crate) recovery: &'a Recovery<'a>,
    pub(crate) requests: &'a OpenRequests<'a>,
    pub(crate) takeovers: &'a Takeovers<'a>,
    pub(crate) own_maps: &'a OwnMaps<'a>,
}

impl Detaching<'_> {
    /// Detaches the volume of this name from the node's server, without a node from this machine.
    ///
    /// Not attached there, or no such volume: it is so already, and no other attachment is
    /// touched.
    pub fn detach(
        &self,
        name: &VolumeName,
        node: Option<&NodeName>,
        force: Force,
    ) -> Result<Outcome> {
        let node = node.unwrap_or(self.this_node);
        let detach = |server: Option<&ServerId>| {
            if let Some(state) = self.volumes.found_by_name(name, server)? {
                let id = state.id.clone();
                return self.detach_volume(&id, name, Some(state), (node, server), force);
            }
            self.attachments.prove_missing(name.as_str(), server)?;
            // Only the server's volumes were searched for one that the cloud itself calls so.
            let called = self.cloud.called(name, self.deadline)?;
            for volume in called.iter().filter(|volume| volume.recorded_name.is_none()) {
                self.requests.prove_not_attached(volume, node, server)?;
            }
            Ok(Outcome::Already)
        };
        self.attachments.at_server_of(node, Asking::Anew, is_not_done, detach)
    }

    /// Detaches this volume and no other, whatever goes by its id as a name.
    pub fn detach_exactly(
        &self,
        id: &VolumeId,
        node: Option<&NodeName>,
        force: Force,
    ) -> Result<Outcome> {
        let node = node.unwrap_or(self.this_node);
        let detach = |server: Option<&ServerId>| {
            self.detach_volume(id, &id.as_name(), None, (node, server), force)
        };
        self.attachments.at_server_of(node, Asking::Anew, is_not_done, detach)
    }

    /// `seen` is the volume as it was found by its name, a moment ago.
    fn detach_volume(
        &self,
        id: &VolumeId,
        name: &VolumeName,
        seen: Option<CloudVolume>,
        (node, server): (&NodeName, Option<&ServerId>),
        force: Force,
    ) -> Result<Outcome> {
        let lock = match force {
            Force::No => self.locking.lock_if_possible(id)?,
            Force::Yes => self.locking.lock_or_go_on(id)?,
        };
        let is_here = self.attachments.is_here(node, server);
        if lock.is_some() && is_here {
            self.let_go_volumes.note_detach(id);
        }
        // An attachment that was seen before the lock was had is asked to end, or is found to have
        // ended. That there was none may not be so any more.
        let is_attached = |state: &CloudVolume| {
            server.is_some_and(|server| state.attachment_to(server).is_some())
        };
        let state = match seen.filter(is_attached) {
            Some(state) => Some(state),
            None => self.cloud.volume(id, self.deadline)?,
        };
        let Some(state) = state else {
            self.attachments.prove_missing(id.as_str(), server)?;
            self.forget(id, name);
            return Ok(Outcome::Already);
        };
        if force == Force::Yes && is_here && !self.is_a_pause(id, lock.as_ref())? {
            // Its mounts die, as they would without a map: that is what the person was told.
            self.own_maps.end_wait(id)?;
        }
        self.detach_locked(id, name, (node, server), state, force)
    }

    /// Whether what has the volume open may wait for its disk. Not where a call hangs on it, for this detach is what
    /// ends that; who hangs keeps the lock, or is left behind.
    fn is_a_pause(&self, id: &VolumeId, lock: Option<&Lock>) -> Result<bool> {
        let hangs = lock.is_none() || self.locking.nothing_hangs(id).is_err();
        Ok(!hangs && self.own_maps.would_wait(id)?)
    }

    /// The same for a caller that holds the volume's lock, and has asked the cloud for it.
    pub(crate) fn detach_locked(
        &self,
        id: &VolumeId,
        name: &VolumeName,
        (node, server): (&NodeName, Option<&ServerId>),
        state: CloudVolume,
        force: Force,
    ) -> Result<Outcome> {
        let Some(server) = server else { return self.server_is_gone(&state, node, name) };
        let (outcome, state) = self.make_detached(state, server, node, force)?;
        self.attachments.forget_answers(id);
        if self.attachments.is_here(node, Some(server)) {
            self.refusals.end_refusals(id, &[TearDown::Detach]);
            self.recovery.remove_link(id);
        }
        self.forget_everywhere(id, state.as_ref(), (Some(server), outcome), name)?;
        Ok(outcome)
    }

    /// Answers the volume as it was seen last; nothing if it does not exist any more.
    fn make_detached(
        &self,
        first: CloudVolume,
        server: &ServerId,
        node: &NodeName,
        force: Force,
    ) -> Result<(Outcome, Option<CloudVolume>)> {
        let id = first.id.clone();
        // A detach is about this attachment; one that is made while it runs has another id.
        let meant = first.attachment_to(server).and_then(|one| one.id.clone());
        let mut state = first;
        let mut tries = 0;
        let mut asked = None;
        let mut refusal: Option<Error> = None;
        let mut settle = self.attachments.settle();
        let mut looks = self.attachments.looks();
        let mut last = None;
        let mut looked = Instant::now();
        // An attach whose outcome this call waits for.
        let mut awaited: Option<OpenRequest> = None;
        loop {
            let seen = self.judge_state(&state, server, (tries, refusal.as_ref()), last);
            let situation = match seen {
                Ok(Some(situation)) => situation,
                Ok(None) => break,
                Err(_) if awaited.is_some() && self.deadline.over() => break,
                Err(error) => return Err(after_all(&state, refusal.as_ref(), error)),
            };
            let tries_before = tries;
            if last.replace(situation) != Some(situation) {
                tracing::info!(volume = %id, %server, status = state.status.word, ?situation, "looked");
            }
            let now = state.attachment_to(server).and_then(|one| one.id.as_ref());
            if let (Some(meant), Some(now)) = (&meant, now)
                && meant != now
            {
                return Err(attached_anew(&id, server));
            }
            match situation {
                AttachmentState::Attached if tries == 0 || settle.over() => {
                    if tries == TRIES {
                        return Err(kept(&id, server, refusal));
                    }
                    tries += 1;
                    settle = self.attachments.settle();
                    looks = self.attachments.looks_at(Change::Detach);
                    refusal = self.ask_to_detach(&state, server, node, force)?;
                    asked = Some(Instant::now());
                    failpoints::step("detach.requested");
                }
                _ if tries > 0 && situation.is_elsewhere() => {
                    if let (Some(asked), None) = (asked, &refusal) {
                        self.attachments.note_pace(Change::Detach, asked, looked);
                    }
                    return Ok((Outcome::Done, Some(state)));
                }
                // Not at this server by either account. What the cloud is busy with may still come
                // here, and is given a moment.
                AttachmentState::Free
                | AttachmentState::Elsewhere
                | AttachmentState::Shareable
                | AttachmentState::Unusable
                | AttachmentState::BusyElsewhere
                    if situation != AttachmentState::BusyElsewhere || settle.over() =>
                {
                    let open = self.requests.open_request_of(&state, server);
                    if tries > 0 || open.is_none() {
                        self.requests.prove_not_attached(&state, node, Some(server))?;
                        let attached_to = state.attachments.first().map(|one| one.server.as_str());
                        tracing::info!(volume = %id, %server, attached_to, "not attached there");
                        return Ok((Outcome::Already, Some(state)));
                    }
                    awaited = open;
                }
                AttachmentState::Ghost if settle.over() => {
                    // The block service may only be slow to list an attach that is under way.
                    let open = self.requests.open_request_of(&state, server);
                    if tries > 0 || open.is_none() {
                        return Err(self.attachments.ghost(&state, server));
                    }
                    awaited = open;
                    settle = self.attachments.settle();
                }
                AttachmentState::Forgotten | AttachmentState::ServerGone if settle.over() => {
                    return Err(self.attachments.contradiction(&state, server));
                }
                AttachmentState::Attaching
                | AttachmentState::AttachedBusy
                | AttachmentState::Detaching
                | AttachmentState::Busy => {
                    settle = self.attachments.settle();
                }
                // Given a moment to come right by itself.
                _ => {}
            }
            let pause = looks.next().unwrap_or_default();
            if !self.deadline.pause(pause) && tries == tries_before {
                break;
            }
            looked = Instant::now();
            let now = self.attachments.in_time(|| self.cloud.volume(&id, self.deadline));
            match now {
                Ok(Some(Some(now))) => state = now,
                Ok(Some(None)) => return Ok((Outcome::Done, None)),
                Ok(None) => break,
                Err(_) if awaited.is_some() && self.deadline.over() => break,
                Err(error) => return Err(after_all(&state, refusal.as_ref(), error)),
            }
        }
        match awaited {
            Some(open) if tries == 0 => Err(open.into_error(&state)),
            _ => Err(self.attachments.still_moving(&state, refusal)),
        }
    }

    /// What both sides of the cloud say now; nothing if no time was left to ask.
    fn judge_state(
        &self,
        state: &CloudVolume,
        server: &ServerId,
        (tries, refusal): (u32, Option<&Error>),
        last: Option<AttachmentState>,
    ) -> Result<Option<AttachmentState>> {
        // The servers' side is asked to end the attachment: it then says if it has none.
        let trust = match refusal {
            Some(error) if error.kind == Kind::Missing => Trust::Both,
            None if tries > 0 => Trust::Own(VolumePhase::Detaching),
            _ => Trust::Listing,
        };
        self.attachments.in_time(|| {
            let now = self.attachments.attachment_state(state, server, trust)?;
            if last == Some(now) { Ok(now) } else { self.or_offloaded(now, server) }
        })
    }

    /// An attach to a server without a host never finishes: the volume stays reserved, and is asked back as if it was
    /// attached.
    fn or_offloaded(&self, now: AttachmentState, server: &ServerId) -> Result<AttachmentState> {
        if now != AttachmentState::Attaching {
            return Ok(now);
        }
        let view = self.cloud.server_view(server, self.deadline)?;
        let is_offloaded = view.is_some_and(|view| view.state == ServerState::Offloaded);
        Ok(if is_offloaded { AttachmentState::Attached } else { now })
    }

    /// What this machine can see decides; where it sees nothing, or is another one, the mark that
    /// the server left.
    fn guard_detach(&self, state: &CloudVolume, server: &ServerId, node: &NodeName) -> Result<()> {
        let is_here = self.attachments.is_here(node, Some(server));
        if is_here && self.may_leave(&state.id)? == UsersSeen::Yes {
            return Ok(());
        }
        self.marks.guard_by_mark(state, server)
    }

    /// What an earlier call left is ended first: it may be all that has the disk.
    fn may_leave(&self, id: &VolumeId) -> Result<UsersSeen> {
        self.locking.nothing_hangs(id)?;
        self.recovery.end_leftovers(id);
        self.guard.guard_attachment(id)
    }

    /// Asks the cloud, unless something here still uses the volume. The cloud detaches no volume that has failed, however
    /// often it is asked.
    fn ask_to_detach(
        &self,
        state: &CloudVolume,
        server: &ServerId,
        node: &NodeName,
        force: Force,
    ) -> Result<Option<Error>> {
        if force == Force::No {
            self.guard_detach(state, server, node)?;
        }
        let refusal = self.request_detach(&state.id, server)?;
        let is_refused = refusal.as_ref().is_some_and(|error| error.kind == Kind::Refused);
        if is_refused && state.status.phase == VolumePhase::Failed {
            let advice = self.cloud.advice(Trouble::FailedWhileAttached(&state.id));
            return Err(advice.into_iter().fold(kept(&state.id, server, refusal), Error::hint));
        }
        Ok(refusal)
    }

    /// What the answer leaves open, the next look tells.
    fn request_detach(&self, id: &VolumeId, server: &ServerId) -> Result<Option<Error>> {
        tracing::info!(volume = %id, %server, "asking the cloud to detach");
        self.attachments.forget_answers(id);
        match self.cloud.detach(id, server, self.deadline) {
            Ok(()) => Ok(None),
            Err(error) if matches!(error.kind, Kind::Config | Kind::Barred) => Err(error),
            Err(error) => {
                tracing::warn!(volume = %id, %server, %error, "the cloud did not simply take the detach");
                Ok(Some(error))
            }
        }
    }

    /// The cloud knows no server by the node's name: it was deleted, or it has another name there. The
    /// attachments of servers that do not exist end by the policy for them.
    fn server_is_gone(
        &self,
        state: &CloudVolume,
        node: &NodeName,
        name: &VolumeName,
    ) -> Result<Outcome> {
        for attachment in &state.attachments {
            let mapping = self.cloud.mapping(&state.id, &attachment.server, self.deadline)?;
            if mapping == Mapping::NoServer {
                self.takeovers.end_attachment_of_gone_server(state, attachment)?;
            }
        }
        let state = self.cloud.volume(&state.id, self.deadline)?.unwrap_or_else(|| state.clone());
        self.requests.prove_not_attached(&state, node, None)?;
        tracing::info!(volume = %state.id, %node, "the node's server does not exist");
        self.forget_everywhere(&state.id, Some(&state), (None, Outcome::Already), name)?;
        Ok(Outcome::Already)
    }

    /// Forgets the name of a volume that is attached nowhere any more, and that no request may still
    /// attach: `seen` is how it was seen last, and `server` the one that it was detached from.
    fn forget_everywhere(
        &self,
        id: &VolumeId,
        seen: Option<&CloudVolume>,
        (server, outcome): (Option<&ServerId>, Outcome),
        name: &VolumeName,
    ) -> Result<()> {
        if let Some(state) = seen {
            // A request of the server that the volume was seen at has its outcome, whichever
            // other server has the volume.
            let is_outcome = outcome == Outcome::Done
                && state.requested.as_ref().is_some_and(|request| server == Some(&request.server));
            let is_over = state.attachments.is_empty()
                && (is_outcome || self.requests.open_request(state).is_none())
                && !self.is_mapped_where_recorded(state, server)?;
            // Who does not have it any more has no mark beside another's.
            let gone = |server: &&ServerId| state.attachment_to(server).is_none();
            let beside = state.mounted_beside.iter().filter(gone);
            let over: Vec<_> = beside
                .map(Note::NotMountedBeside)
                .chain(is_outcome.then_some(Note::Request(None)))
                .chain((is_over && state.recorded_name.is_some()).then_some(Note::Name(None)))
                .chain((is_over && state.mounted_on.is_some()).then_some(Note::MountedOn(None)))
                .chain(
                    (is_over && !is_outcome && state.requested.is_some())
                        .then_some(Note::Request(None)),
                )
                .collect();
            if !over.is_empty() {
                self.note_over(id, &over)?;
            }
            if !is_over {
                return Ok(());
            }
        }
        self.forget(id, name);
        Ok(())
    }

    /// Whether a server that had the volume last still has it mapped, although the volume lists no attachment: an
    /// operator may have reset its status. Without the name, a detach from that server would find no volume.
    fn is_mapped_where_recorded(
        &self,
        state: &CloudVolume,
        known: Option<&ServerId>,
    ) -> Result<bool> {
        let recorded: BTreeSet<_> = recorded(state).collect();
        for server in recorded.into_iter().filter(|server| Some(*server) != known) {
            if self.cloud.mapping(&state.id, server, self.deadline)? == Mapping::Mapped {
                tracing::warn!(volume = %state.id, %server, "this server still maps the volume: its name stays");
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The volume is detached, whether the cloud allows to remove notes or not: what stays is another
    /// server's, or says no more than by which name it went.
    fn note_over(&self, id: &VolumeId, over: &[Note<'_>]) -> Result<()> {
        match self.cloud.note(id, over, self.deadline) {
            Err(error) if error.kind == Kind::Config => {
                tracing::warn!(volume = %id, %error, "the cloud allows no notes with the volume: those of before stay");
                Ok(())
            }
            other => other,
        }
    }

    /// What is remembered of the volume goes, unless a mount here still stands on a disk that it
    /// had: detached by force, or without the guard. The volume may come back, and the heal then
    /// finds those mounts only by the numbers that are remembered.
    fn forget(&self, id: &VolumeId, name: &VolumeName) {
        // What hung once and has ended is not listed any more.
        let _ = self.locks.left(id);
        let done = if self.numbers.is_left_behind(id) {
            tracing::warn!(volume = %id, %name, "mounts of it are left on a disk that is gone: remembered for the heal");
            self.records.update(id, VolumeRecord::is_unmarked)
        } else {
            self.records.forget(id)
        };
        if let Err(error) = done {
            tracing::debug!(volume = %id, %name, %error, "the record stays");
        }
    }
}

/// Whether an answer may be about the wrong server: not a detach that was done.
fn is_not_done(answer: &Result<Outcome>) -> bool {
    !matches!(answer, Ok(Outcome::Done))
}

fn attached_anew(id: &VolumeId, server: &ServerId) -> Error {
    Error::new(Kind::Busy, format!("volume {id} was attached to {server} anew during this detach"))
        .hint("the new attachment was left alone; detach again if it is meant too")
}

fn kept(id: &VolumeId, server: &ServerId, refusal: Option<Error>) -> Error {
    not_done(id, server, "took the detach and undid it: the guest may hold the disk", refusal)
}
