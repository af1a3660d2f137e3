//! Attach a volume to a server, and answer whether it is attached.

use crate::attachment::cloud_wait::CloudWait;
use crate::attachment::{open_requests, takeover};
use crate::context::Context;
use crate::guard::remote_mark::{self, Marks};
use crate::guard::{self, let_go_volumes};
use crate::lookup::attachment_view::{self, Asking, Trust, is_settled, no_server, not_done};
use crate::lookup::{alias, locking};
use crate::model::cloud::attachment_state::{AttachmentState, Mapping, Sharing, VolumePhase};
use crate::model::cloud::next_step::{AttachStep, attach_step};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId};
use crate::model::report::tear_down::TearDown;
use crate::operation::{Outcome, Volume};
use crate::ports::cloud::CloudVolume;
use crate::ports::store::Change;
use crate::{failpoints, heal};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// What to do about a multi-attach volume that another server has.
const SHARE: &str = "the cloud would allow it, but no file system survives two writers: with the \
    option share: read-only in the PersistentVolume every node mounts it read-only";

/// What a failed attach leaves behind.
struct Attempt {
    /// Whether a request, of this call or an earlier one, may still succeed unnoticed.
    is_open: bool,
    /// Whether a note of a request is stored with the volume.
    is_noted: bool,
}

/// Attaches the volume to the node's server and returns the link of its disk.
///
/// Requests nothing if it is already attached there. If another server has it, the error names that server; the volume
/// is never stolen.
pub fn attach(
    cx: &Context<'_>,
    volume: &Volume,
    node: &NodeName,
    sharing: Sharing,
) -> Result<(PathBuf, Outcome)> {
    if let Some(name) = &volume.name
        && let Some(other) = name.as_volume_id()
    {
        // Detach receives only the name, and would take a name of this form for a volume id.
        return Err(Error::bad_call(format!(
            "the volume's name {other} is itself a volume id, but volume {} is asked for",
            volume.id
        ))
        .hint("rename the PersistentVolume: its detach would reach the wrong volume"));
    }
    let lock = locking::lock_if_possible(cx, &volume.id)?;
    let attach = |server: Option<&ServerId>| {
        let server = server.ok_or_else(|| no_server(node))?;
        let is_here = attachment_view::is_here(cx, node, Some(server));
        if lock.is_some() && is_here {
            guard::wanted_again(cx, &volume.id, &[TearDown::Detach]);
            let_go_volumes::note_caller(cx, &volume.id);
        }
        attach_to(cx, volume, server, is_here, sharing)
    };
    let outcome = attachment_view::at_server_of(cx, node, Asking::Anew, Result::is_err, attach)?;
    Ok((cx.cloud.link(&volume.id), outcome))
}

fn attach_to(
    cx: &Context<'_>,
    volume: &Volume,
    server: &ServerId,
    is_here: bool,
    sharing: Sharing,
) -> Result<Outcome> {
    let state = attachment_view::existing(cx, &volume.id)?;
    let marks = Marks::of(&state, server);
    let outcome = if is_settled(&state, server) && is_mapped(cx, &state, server, is_here)? {
        open_requests::record_pair(cx, volume, &state)?;
        if has_note_of(&state, server) {
            // The attach that left this note was killed before this step.
            open_requests::record_tenure(cx, volume, &state, server)?;
            open_requests::end_request(cx, volume);
        }
        remember(cx, volume, &state);
        Outcome::Already
    } else {
        make_attached(cx, volume, server, sharing, &state)?;
        Outcome::Done
    };
    if is_here {
        remote_mark::forget_lost_mark(cx, &volume.id, marks);
        heal::heal_when_it_shows(cx, volume);
    }
    Ok(outcome)
}

/// Whether the compute service knows an attachment that the volume lists; it can lose one. Not asked if the disk is
/// here.
fn is_mapped(
    cx: &Context<'_>,
    state: &CloudVolume,
    server: &ServerId,
    is_here: bool,
) -> Result<bool> {
    if is_here {
        let disks = cx.host.devices.search(&cx.cloud.identity(&state.id));
        if disks.is_ok_and(|disks| !disks.is_empty()) {
            return Ok(true);
        }
    }
    let mut ask = || {
        let mapping = cx.cloud.mapping(&state.id, server, cx.deadline)?;
        Ok(mapping == Mapping::Mapped)
    };
    match cx.answers() {
        Some(answers) => answers.shared(&state.id, &mapped_at(server), cx.deadline, &mut ask),
        None => ask(),
    }
}

fn make_attached(
    cx: &Context<'_>,
    volume: &Volume,
    server: &ServerId,
    sharing: Sharing,
    first: &CloudVolume,
) -> Result<()> {
    let mut attempt = Attempt {
        is_noted: has_note_of(first, server),
        is_open: open_requests::open_request(cx, first).is_some(),
    };
    let mut wait = CloudWait::new(cx, server, first.clone());
    match try_attach(&mut wait, volume, sharing, &mut attempt) {
        Ok(state) => {
            // A detach that ended after this attach began may have removed the name.
            open_requests::record_pair(cx, volume, &state)?;
            if attempt.is_noted {
                open_requests::record_tenure(cx, volume, &state, server)?;
                open_requests::end_request(cx, volume);
            }
            if let Some(answers) = cx.answers() {
                answers.is_so(&volume.id, &mapped_at(server));
            }
            Ok(())
        }
        Err(error) => {
            // Refused or rolled back: nothing can come of the request any more.
            if attempt.is_noted && wait.tries > 0 && !attempt.is_open {
                open_requests::undo_request(cx, volume, first, server);
            }
            Err(error)
        }
    }
}

/// Returns the volume once it is attached.
fn try_attach(
    wait: &mut CloudWait<'_>,
    volume: &Volume,
    sharing: Sharing,
    attempt: &mut Attempt,
) -> Result<CloudVolume> {
    let CloudWait { cx, server, .. } = *wait;
    let mut taken_over = false;
    let judge = |wait: &CloudWait<'_>, _| {
        // If this call requested the attachment and the volume lists it, the compute service has made it.
        let trust = match wait {
            CloudWait { tries: 0, .. } => Trust::Both,
            CloudWait { refusal: None, .. } => Trust::Own(VolumePhase::Attaching),
            _ => Trust::Listing,
        };
        attachment_view::attachment_state(cx, &wait.state, server, trust)
    };
    let decide = |wait: &mut CloudWait<'_>, situation| {
        match attach_step(situation, wait.progress(), sharing, taken_over) {
            AttachStep::Done => {
                attachment_view::forget_answers(cx, &volume.id);
                if situation == AttachmentState::Attached {
                    wait.note_pace(Change::Attach);
                }
                return Ok(ControlFlow::Break(wait.state.clone()));
            }
            AttachStep::Request => {
                // Two servers must not both get the volume: wait for the other request.
                let rival = open_requests::open_request_elsewhere(cx, &wait.state, server);
                wait.awaited = rival.filter(|_| sharing == Sharing::Alone);
                if wait.awaited.is_none() {
                    ask_to_attach(wait, volume, attempt)?;
                }
            }
            AttachStep::TakeOver => {
                takeover::take_over(cx, &wait.state, server)?;
                taken_over = true;
                wait.settle_again();
            }
            AttachStep::RefuseToShare => {
                return Err(takeover::elsewhere(cx, &wait.state, server)?.hint(SHARE));
            }
            AttachStep::RefuseUnusable => return Err(attachment_view::unusable(cx, &wait.state)),
            AttachStep::RefuseRolledBack => {
                return Err(undone(volume, server, wait.refusal.clone()));
            }
            AttachStep::AwaitRequest => {
                wait.awaited = open_requests::open_request_of(cx, &wait.state, server);
                if wait.awaited.is_none() {
                    return Err(attachment_view::ghost(cx, &wait.state, server));
                }
                // The block storage service may be slow to list it, so the note outlives this call.
                attempt.is_open = true;
                wait.settle_again();
            }
            AttachStep::Wait => {}
            AttachStep::WaitLonger => wait.settle_again(),
        }
        Ok(ControlFlow::Continue(()))
    };
    if let Some(state) = wait.until(judge, decide, || Err(attachment_view::missing(&volume.id)))? {
        return Ok(state);
    }
    Err(match wait.awaited.take() {
        Some(open) => open.into_error(&wait.state),
        None => attachment_view::still_moving(cx, &wait.state, wait.refusal.clone()),
    })
}

fn ask_to_attach(wait: &mut CloudWait<'_>, volume: &Volume, attempt: &mut Attempt) -> Result<()> {
    let CloudWait { cx, server, .. } = *wait;
    open_requests::note_request(cx, volume, &wait.state, server)?;
    remote_mark::end_mark_of_before(cx, &wait.state, server);
    remember(cx, volume, &wait.state);
    failpoints::step("attach.named");
    attempt.is_noted = cx.cloud.capabilities().keeps_marks;
    wait.tries += 1;
    let is_answered = request_attach(wait, &volume.id, attempt)?;
    attempt.is_open |= !is_answered;
    wait.has_asked(Change::Attach);
    failpoints::step("attach.requested");
    Ok(())
}

/// Records the name, because some calls receive nothing else, and whether the volume is multi-attach, so that it can
/// be mounted while the cloud is unreachable.
fn remember(cx: &Context<'_>, volume: &Volume, state: &CloudVolume) {
    let remembered = cx.store.records.update(&volume.id, |record| {
        record.name = volume.name.clone().or(record.name.take());
        record.mark.is_shareable = Some(state.is_shareable);
    });
    if let Err(error) = remembered {
        tracing::debug!(volume = %volume.id, %error, "could not record the volume's name and whether it is multi-attach");
    }
}

/// Requests the attachment and returns whether the cloud answered. An ambiguous answer is no error: the next poll
/// decides. A refusal is kept for the message, since the cloud rejects a repeated request with the same code as an
/// impossible one.
fn request_attach(wait: &mut CloudWait<'_>, id: &VolumeId, attempt: &mut Attempt) -> Result<bool> {
    let CloudWait { cx, server, .. } = *wait;
    tracing::info!(volume = %id, %server, "asking the cloud to attach");
    attachment_view::forget_answers(cx, id);
    let Err(error) = cx.cloud.attach(id, server, cx.deadline) else {
        wait.refusal = None;
        return Ok(true);
    };
    let is_open = matches!(error.kind, Kind::Unreachable | Kind::Timeout);
    wait.refusal = Some(error.clone());
    if is_open {
        tracing::warn!(volume = %id, %server, %error, "whether the attach was taken is open");
    } else if error.kind != Kind::Busy {
        // Of two concurrent requests the cloud accepts one and rejects this one.
        let may_have_been_taken = may_have_been_taken(cx, id, server);
        attempt.is_open |= may_have_been_taken.is_err();
        if !may_have_been_taken? {
            return Err(error);
        }
    }
    Ok(!is_open)
}

fn may_have_been_taken(cx: &Context<'_>, id: &VolumeId, server: &ServerId) -> Result<bool> {
    let state = attachment_view::existing(cx, id)?;
    let situation = attachment_view::attachment_state(cx, &state, server, Trust::Both)?;
    Ok(!matches!(situation, AttachmentState::Free | AttachmentState::Unusable))
}

/// Whether the volume is attached to the node's server, or is being attached or detached. Uncertainty is an error,
/// because after a "no" the orchestrator attaches it again.
pub fn is_attached(cx: &Context<'_>, volume: &Volume, node: &NodeName) -> Result<bool> {
    let mut ask = || ask_whether_attached(cx, volume, node);
    match cx.answers() {
        Some(answers) => answers.shared(&volume.id, node.as_str(), cx.deadline, &mut ask),
        None => ask(),
    }
}

fn ask_whether_attached(cx: &Context<'_>, volume: &Volume, node: &NodeName) -> Result<bool> {
    let ask = |server: Option<&ServerId>| is_attached_to(cx, volume, node, server);
    attachment_view::at_server_of(
        cx,
        node,
        Asking::Shared,
        |answer| !matches!(answer, Ok(true)),
        ask,
    )
}

fn is_attached_to(
    cx: &Context<'_>,
    volume: &Volume,
    node: &NodeName,
    server: Option<&ServerId>,
) -> Result<bool> {
    let Some(state) = cx.cloud.volume(&volume.id, cx.deadline)? else {
        return attachment_view::prove_missing(cx, volume.id.as_str(), server).map(|()| false);
    };
    let Some(server) = server else {
        return open_requests::prove_not_attached(cx, &state, node, None).map(|()| false);
    };
    let is_attached = match attachment_view::attachment_state(cx, &state, server, Trust::Listing)? {
        AttachmentState::Attached
        | AttachmentState::AttachedBusy
        | AttachmentState::Attaching
        | AttachmentState::Detaching => true,
        AttachmentState::Free
        | AttachmentState::Elsewhere
        | AttachmentState::Shareable
        | AttachmentState::BusyElsewhere => false,
        AttachmentState::Busy => return Err(attachment_view::still_moving(cx, &state, None)),
        AttachmentState::Ghost => {
            return Err(match open_requests::open_request_of(cx, &state, server) {
                Some(open) => open.into_error(&state),
                None => attachment_view::ghost(cx, &state, server),
            });
        }
        AttachmentState::Forgotten | AttachmentState::ServerGone => {
            return Err(attachment_view::contradiction(cx, &state, server));
        }
        AttachmentState::Unusable => return Err(attachment_view::unusable(cx, &state)),
    };
    if is_attached {
        open_requests::record_pair(cx, volume, &state)?;
        alias::remember_name_if_unlocked(cx, volume);
    } else if let Some(open) = open_requests::open_request_of(cx, &state, server) {
        // After a "no" the orchestrator would give the volume to another node.
        return Err(open.into_error(&state));
    } else {
        open_requests::prove_not_attached(cx, &state, node, Some(server))?;
    }
    Ok(is_attached)
}

/// Whether the stored request is this server's.
fn has_note_of(state: &CloudVolume, server: &ServerId) -> bool {
    state.requested.as_ref().is_some_and(|request| request.server == *server)
}

/// The key under which calls share whether the compute service has the volume at this server.
fn mapped_at(server: &ServerId) -> String {
    format!("mapped-{server}")
}

fn undone(volume: &Volume, server: &ServerId, refusal: Option<Error>) -> Error {
    not_done(&volume.id, server, "took the attachment and undid it", refusal)
}
