//! Attach a volume to a server, and ask whether it is.

use crate::attachment::open_requests::{OpenRequest, OpenRequests};
use crate::attachment::takeover::Takeovers;
use crate::cloud::{Cloud, CloudVolume};
use crate::failpoints;
use crate::guard::Guard;
use crate::guard::let_go_volumes::LetGoVolumes;
use crate::guard::remote_mark::{Marks, RemoteMarks};
use crate::heal::Healing;
use crate::host::Devices;
use crate::host::clock::Deadline;
use crate::host::pace::Change;
use crate::host::shared_answers::Answers;
use crate::lookup::attachment_view::{
    Asking, Attachments, Trust, after_all, is_settled, no_server, not_done,
};
use crate::lookup::locking::Locking;
use crate::lookup::memory::Memory;
use crate::model::cloud::attachment_state::{AttachmentState, Mapping, Sharing, VolumePhase};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId};
use crate::model::report::tear_down::TearDown;
use crate::mount::sole_writer::SoleWriter;
use crate::operation::{Outcome, Volume};
use std::path::PathBuf;
use std::time::Instant;

/// How often an attach is asked for: the cloud takes a request and undoes it later when its host
/// cannot do it.
const TRIES: u32 = 2;

/// What a person does who wants several servers to have a volume.
const SHARE: &str = "the cloud would allow it, but no file system survives two writers: with the \
    option share: read-only in the PersistentVolume every node mounts it read-only";

/// What one attach has done so far.
#[derive(Debug, Default)]
struct Attempt {
    /// How often it asked.
    tries: u32,
    /// When it asked last.
    asked: Option<Instant>,
    /// What the cloud said to that, if it did not simply take it.
    refusal: Option<Error>,
    /// Whether a request, this call's or an earlier one's, may still come true unseen.
    is_open: bool,
    /// Whether a note of a request is left with the volume.
    is_noted: bool,
}

/// Volumes go to servers.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct Attaching<'a> {
    pub(crate) cloud: &'a dyn Cloud,
    pub(crate) devices: &'a dyn Devices,
    pub(crate) answers: Option<&'a Answers>,
    pub(crate) deadline: Deadline,
    pub(crate) attachments: &'a Attachments<'a>,
    pub(crate) locking: &'a Locking<'a>,
    pub(crate) memory: &'a Memory<'a>,
    pub(crate) marks: &'a RemoteMarks<'a>,
    pub(crate) let_go_volumes: &'a LetGoVolumes<'a>,
    pub(crate) guard: &'a Guard<'a>,
    pub(crate) healing: &'a Healing<'a>,
    pub(crate) sole_writer: &'a SoleWriter<'a>,
    pub(crate) requests: &'a OpenRequests<'a>,
    pub(crate) takeovers: &'a Takeovers<'a>,
}

impl Attaching<'_> {
    /// Attaches the volume to the node's server; answers the link of its disk.
    ///
    /// Already attached there: nothing is requested. Attached elsewhere: an error that says where,
    /// never stolen.
    pub fn attach(
        &self,
        volume: &Volume,
        node: &NodeName,
        sharing: Sharing,
    ) -> Result<(PathBuf, Outcome)> {
        if let Some(name) = &volume.name
            && let Some(other) = name.as_volume_id()
        {
            // Detach is told the name alone, and such a name is a volume id by convention.
            return Err(Error::bad_call(format!(
                "the volume's name {other} is itself a volume id, but volume {} is asked for",
                volume.id
            ))
            .hint("rename the PersistentVolume: its detach would reach the wrong volume"));
        }
        let lock = self.locking.lock_if_possible(&volume.id)?;
        let attach = |server: Option<&ServerId>| {
            let server = server.ok_or_else(|| no_server(node))?;
            let is_here = self.attachments.is_here(node, Some(server));
            if lock.is_some() && is_here {
                self.guard.wanted_again(&volume.id, &[TearDown::Detach]);
                self.let_go_volumes.note_caller(&volume.id);
            }
            self.attach_to(volume, server, is_here, sharing)
        };
        let outcome = self.attachments.at_server_of(node, Asking::Anew, Result::is_err, attach)?;
        Ok((self.cloud.link(&volume.id), outcome))
    }

    fn attach_to(
        &self,
        volume: &Volume,
        server: &ServerId,
        is_here: bool,
        sharing: Sharing,
    ) -> Result<Outcome> {
        let state = self.attachments.existing(&volume.id)?;
        let (marks, is_shareable) = (Marks::of(&state, server), state.is_shareable);
        let outcome = if is_settled(&state, server) && self.is_mapped(&state, server, is_here)? {
            self.requests.record_pair(volume, &state)?;
            if has_note_of(&state, server) {
                // The attach of this note was killed before it came to that.
                self.requests.record_tenure(volume, &state, server)?;
                self.requests.end_request(volume);
            }
            self.memory.remember_name(volume);
            Outcome::Already
        } else {
            self.make_attached(volume, server, sharing, &state)?;
            Outcome::Done
        };
        if is_here {
            self.sole_writer.remember_sharing(&volume.id, is_shareable);
            self.marks.forget_lost_mark(&volume.id, marks);
            self.healing.heal_when_it_shows(volume);
        }
        Ok(outcome)
    }

    /// Whether the servers' side knows of an attachment that the volume lists: it can lose it. Where the
    /// volume's disk is on this machine, it need not be asked.
    fn is_mapped(&self, state: &CloudVolume, server: &ServerId, is_here: bool) -> Result<bool> {
        if is_here {
            let disks = self.devices.search(&self.cloud.identity(&state.id));
            if disks.is_ok_and(|disks| !disks.is_empty()) {
                return Ok(true);
            }
        }
        let ask = || {
            let mapping = self.cloud.mapping(&state.id, server, self.deadline)?;
            Ok(mapping == Mapping::Mapped)
        };
        match self.answers {
            Some(answers) => answers.shared(&state.id, &mapped_at(server), self.deadline, ask),
            None => ask(),
        }
    }

    fn make_attached(
        &self,
        volume: &Volume,
        server: &ServerId,
        sharing: Sharing,
        first: &CloudVolume,
    ) -> Result<()> {
        let mut attempt = Attempt {
            is_noted: has_note_of(first, server),
            is_open: self.requests.open_request(first).is_some(),
            ..Attempt::default()
        };
        match self.try_attach(volume, server, sharing, first.clone(), &mut attempt) {
            Ok(state) => {
                // A detach that ended while this attach began may have taken the name.
                self.requests.record_pair(volume, &state)?;
                if attempt.is_noted {
                    self.requests.record_tenure(volume, &state, server)?;
                    self.requests.end_request(volume);
                }
                if let Some(answers) = self.answers {
                    answers.is_so(&volume.id, &mapped_at(server));
                }
                Ok(())
            }
            Err(error) => {
                // Refused, or undone: nothing of it can come any more.
                if attempt.is_noted && attempt.tries > 0 && !attempt.is_open {
                    self.requests.undo_request(volume, first, server);
                }
                Err(error)
            }
        }
    }

    /// Answers the volume as it was seen attached.
    fn try_attach(
        &self,
        volume: &Volume,
        server: &ServerId,
        sharing: Sharing,
        first: CloudVolume,
        attempt: &mut Attempt,
    ) -> Result<CloudVolume> {
        let mut state = first;
        // Since when nothing has changed that should: a request in the dark, or a ghost.
        let mut settle = self.attachments.settle();
        let mut looks = self.attachments.looks();
        let mut last = None;
        let mut looked = Instant::now();
        let mut taken_over = false;
        // An attach whose outcome this call waits for.
        let mut awaited: Option<OpenRequest> = None;
        loop {
            // What this call asked for and the volume lists, the servers' side has made.
            let trust = match attempt {
                Attempt { tries: 0, .. } => Trust::Both,
                Attempt { refusal: None, .. } => Trust::Own(VolumePhase::Attaching),
                _ => Trust::Listing,
            };
            let seen = self
                .attachments
                .in_time(|| self.attachments.attachment_state(&state, server, trust));
            let situation = match seen {
                Ok(Some(situation)) => situation,
                Ok(None) => break,
                Err(_) if awaited.is_some() && self.deadline.over() => break,
                Err(error) => return Err(after_all(&state, attempt.refusal.as_ref(), error)),
            };
            let tries_before = attempt.tries;
            if last.replace(situation) != Some(situation) {
                tracing::info!(volume = %volume.id, %server, status = state.status.word, ?situation, "looked");
            }
            match situation {
                AttachmentState::Attached | AttachmentState::AttachedBusy => {
                    self.attachments.forget_answers(&volume.id);
                    if let (Some(asked), AttachmentState::Attached) = (attempt.asked, situation) {
                        self.attachments.note_pace(Change::Attach, asked, looked);
                    }
                    return Ok(state);
                }
                AttachmentState::Elsewhere if taken_over && !settle.over() => {}
                AttachmentState::Elsewhere => {
                    self.takeovers.take_over(&state, server)?;
                    taken_over = true;
                    settle = self.attachments.settle();
                }
                AttachmentState::Shareable if sharing == Sharing::Alone => {
                    return Err(self.takeovers.elsewhere(&state, server)?.hint(SHARE));
                }
                AttachmentState::Unusable => return Err(self.attachments.unusable(&state)),
                AttachmentState::Free | AttachmentState::Shareable
                    if attempt.tries == 0 || settle.over() =>
                {
                    if attempt.tries == TRIES {
                        return Err(undone(volume, server, attempt.refusal.clone()));
                    }
                    // Two servers may not both come to have it: the other's request is waited for.
                    let rival = self.requests.open_request_elsewhere(&state, server);
                    awaited = rival.filter(|_| sharing == Sharing::Alone);
                    if awaited.is_none() {
                        self.ask_to_attach(volume, server, &state, attempt)?;
                        settle = self.attachments.settle();
                        looks = self.attachments.looks_at(Change::Attach);
                    }
                }
                AttachmentState::Ghost if settle.over() => {
                    awaited = self.requests.open_request_of(&state, server);
                    if awaited.is_none() {
                        return Err(self.attachments.ghost(&state, server));
                    }
                    // The block service may be slow to list it, so the note outlives this call.
                    attempt.is_open = true;
                    settle = self.attachments.settle();
                }
                AttachmentState::Forgotten | AttachmentState::ServerGone if settle.over() => {
                    self.takeovers.take_over(&state, server)?;
                    settle = self.attachments.settle();
                }
                AttachmentState::Free
                | AttachmentState::Shareable
                | AttachmentState::Ghost
                | AttachmentState::Forgotten
                | AttachmentState::ServerGone => {}
                AttachmentState::Attaching
                | AttachmentState::Detaching
                | AttachmentState::Busy
                | AttachmentState::BusyElsewhere => {
                    settle = self.attachments.settle();
                }
            }
            let pause = looks.next().unwrap_or_default();
            let was_asked = attempt.tries > tries_before;
            if !self.deadline.pause(pause) && !was_asked {
                break;
            }
            looked = Instant::now();
            match self.attachments.in_time(|| self.attachments.existing(&volume.id)) {
                Ok(Some(now)) => state = now,
                Ok(None) => break,
                Err(_) if awaited.is_some() && self.deadline.over() => break,
                Err(error) => return Err(after_all(&state, attempt.refusal.as_ref(), error)),
            }
        }
        match awaited {
            Some(open) => Err(open.into_error(&state)),
            None => Err(self.attachments.still_moving(&state, attempt.refusal.clone())),
        }
    }

    fn ask_to_attach(
        &self,
        volume: &Volume,
        server: &ServerId,
        state: &CloudVolume,
        attempt: &mut Attempt,
    ) -> Result<()> {
        self.requests.note_request(volume, state, server)?;
        self.marks.end_mark_of_before(state, server);
        self.memory.remember_name(volume);
        failpoints::step("attach.named");
        attempt.is_noted = self.cloud.capabilities().keeps_marks;
        attempt.tries += 1;
        let is_answered = self.request_attach(&volume.id, server, attempt)?;
        attempt.is_open |= !is_answered;
        attempt.asked = Some(Instant::now());
        failpoints::step("attach.requested");
        Ok(())
    }

    /// Asks for the attachment. An answer that leaves open what happened is no error here: the
    /// next look tells. A refusal is kept for the message, for the cloud says "no" with the same
    /// code to a second request as to an impossible one. Answers whether there was an answer.
    fn request_attach(
        &self,
        id: &VolumeId,
        server: &ServerId,
        attempt: &mut Attempt,
    ) -> Result<bool> {
        tracing::info!(volume = %id, %server, "asking the cloud to attach");
        self.attachments.forget_answers(id);
        let Err(error) = self.cloud.attach(id, server, self.deadline) else {
            attempt.refusal = None;
            return Ok(true);
        };
        let is_open = matches!(error.kind, Kind::Unreachable | Kind::Timeout);
        attempt.refusal = Some(error.clone());
        if is_open {
            tracing::warn!(volume = %id, %server, %error, "whether the attach was taken is open");
        } else if error.kind != Kind::Busy {
            // Of two requests the cloud takes one, and refuses this one.
            let may_have_been_taken = self.may_have_been_taken(id, server);
            attempt.is_open |= may_have_been_taken.is_err();
            if !may_have_been_taken? {
                return Err(error);
            }
        }
        Ok(!is_open)
    }

    fn may_have_been_taken(&self, id: &VolumeId, server: &ServerId) -> Result<bool> {
        let state = self.attachments.existing(id)?;
        let situation = self.attachments.attachment_state(&state, server, Trust::Both)?;
        Ok(!matches!(situation, AttachmentState::Free | AttachmentState::Unusable))
    }

    /// Whether the volume is attached to the node's server, on its way there, or still going.
    /// Doubt is an error, for "no" makes the orchestrator attach it again.
    pub fn is_attached(&self, volume: &Volume, node: &NodeName) -> Result<bool> {
        let ask = || self.ask_whether_attached(volume, node);
        match self.answers {
            Some(answers) => answers.shared(&volume.id, node.as_str(), self.deadline, ask),
            None => ask(),
        }
    }

    fn ask_whether_attached(&self, volume: &Volume, node: &NodeName) -> Result<bool> {
        let ask = |server: Option<&ServerId>| self.is_attached_to(volume, node, server);
        self.attachments.at_server_of(
            node,
            Asking::Shared,
            |answer| !matches!(answer, Ok(true)),
            ask,
        )
    }

    fn is_attached_to(
        &self,
        volume: &Volume,
        node: &NodeName,
        server: Option<&ServerId>,
    ) -> Result<bool> {
        let Some(state) = self.cloud.volume(&volume.id, self.deadline)? else {
            return self.attachments.prove_missing(volume.id.as_str(), server).map(|()| false);
        };
        let Some(server) = server else {
            return self.requests.prove_not_attached(&state, node, None).map(|()| false);
        };
        let is_attached = match self.attachments.attachment_state(&state, server, Trust::Listing)? {
            AttachmentState::Attached
            | AttachmentState::AttachedBusy
            | AttachmentState::Attaching
            | AttachmentState::Detaching => true,
            AttachmentState::Free
            | AttachmentState::Elsewhere
            | AttachmentState::Shareable
            | AttachmentState::BusyElsewhere => false,
            AttachmentState::Busy => return Err(self.attachments.still_moving(&state, None)),
            AttachmentState::Ghost => {
                return Err(match self.requests.open_request_of(&state, server) {
                    Some(open) => open.into_error(&state),
                    None => self.attachments.ghost(&state, server),
                });
            }
            AttachmentState::Forgotten | AttachmentState::ServerGone => {
                return Err(self.attachments.contradiction(&state, server));
            }
            AttachmentState::Unusable => return Err(self.attachments.unusable(&state)),
        };
        if is_attached {
            self.requests.record_pair(volume, &state)?;
            self.memory.remember_name_if_unlocked(volume);
        } else if let Some(open) = self.requests.open_request_of(&state, server) {
            // A "no" would make the orchestrator give the volume to another node.
            return Err(open.into_error(&state));
        } else {
            self.requests.prove_not_attached(&state, node, Some(server))?;
        }
        Ok(is_attached)
    }
}

/// Whether the note of a request is this server's.
fn has_note_of(state: &CloudVolume, server: &ServerId) -> bool {
    state.requested.as_ref().is_some_and(|request| request.server == *server)
}

/// The question whether the servers' side has the volume at this server.
fn mapped_at(server: &ServerId) -> String {
    format!("mapped-{server}")
}

fn undone(volume: &Volume, server: &ServerId, refusal: Option<Error>) -> Error {
    not_done(&volume.id, server, "took the attachment and undid it", refusal)
}
