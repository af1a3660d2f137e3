//! Detach a volume from a server.

use crate::attachment::cloud_wait::CloudWait;
use crate::attachment::open_requests::{self, recorded};
use crate::attachment::takeover;
use crate::context::Context;
use crate::failpoints;
use crate::guard::{self, UsersSeen, let_go_volumes, refusal, remote_mark};
use crate::heal::recovery;
use crate::lookup::attachment_view::{self, Asking, Trust, not_done};
use crate::lookup::{disk_numbers, locking};
use crate::model::cloud::attachment_state::{AttachmentState, Mapping, VolumePhase};
use crate::model::cloud::next_step::{DetachStep, detach_step};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use crate::model::report::tear_down::TearDown;
use crate::operation::Outcome;
use crate::ports::cloud::{CloudVolume, Note, ServerState, Trouble};
use crate::ports::store::{Change, Lock};
use crate::shield;
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Whether a person overrides the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    No,
    /// Processes that use the disk lose it, or wait for it behind the shield.
    Yes,
}

/// Detaches the volume from the node's server, or from this node's if no node is given.
///
/// Succeeds if the volume is not attached there or does not exist. Never touches another attachment.
pub fn detach(
    cx: &Context<'_>,
    id: &VolumeId,
    node: Option<&NodeName>,
    force: Force,
) -> Result<Outcome> {
    at_node(cx, node, |at| detach_volume(cx, id, None, at, force))
}

/// Detaches from the node's server, or from this node's. Looks the server up again if a cached answer may be wrong.
pub(crate) fn at_node(
    cx: &Context<'_>,
    node: Option<&NodeName>,
    detach: impl Fn((&NodeName, Option<&ServerId>)) -> Result<Outcome>,
) -> Result<Outcome> {
    let node = node.unwrap_or(cx.this_node);
    let detach = |server: Option<&ServerId>| detach((node, server));
    attachment_view::at_server_of(cx, node, Asking::Anew, is_not_done, detach)
}

/// `seen` is the volume as the cloud showed it a moment ago.
pub(crate) fn detach_volume(
    cx: &Context<'_>,
    id: &VolumeId,
    seen: Option<CloudVolume>,
    (node, server): (&NodeName, Option<&ServerId>),
    force: Force,
) -> Result<Outcome> {
    let lock = match force {
        Force::No => locking::lock_if_possible(cx, id)?,
        Force::Yes => locking::lock_or_go_on(cx, id)?,
    };
    let is_here = attachment_view::is_here(cx, node, server);
    if lock.is_some() && is_here {
        let_go_volumes::note_detach(cx, id);
    }
    // An attachment that was seen before the lock was taken is still worth detaching; its absence may be outdated.
    let is_attached =
        |state: &CloudVolume| server.is_some_and(|server| state.attachment_to(server).is_some());
    let state = match seen.filter(is_attached) {
        Some(state) => Some(state),
        None => cx.cloud.volume(id, cx.deadline)?,
    };
    let Some(state) = state else {
        attachment_view::prove_missing(cx, id.as_str(), server)?;
        forget(cx, id);
        return Ok(Outcome::Already);
    };
    if force == Force::Yes && is_here && !is_a_pause(cx, id, lock.as_ref())? {
        // Its mounts fail, as they would without a map; the person was warned.
        cx.host.shield.end_wait(id)?;
    }
    detach_locked(cx, id, (node, server), state, force)
}

/// Whether processes that have the volume open may wait for its disk. Not if a call hangs on the disk, because this
/// detach is what ends that call.
fn is_a_pause(cx: &Context<'_>, id: &VolumeId, lock: Option<&Lock>) -> Result<bool> {
    let hangs = lock.is_none() || locking::nothing_hangs(cx, id).is_err();
    Ok(!hangs && shield::would_wait(cx, id)?)
}

/// Detaches a volume; the caller holds its lock.
pub(crate) fn detach_locked(
    cx: &Context<'_>,
    id: &VolumeId,
    (node, server): (&NodeName, Option<&ServerId>),
    state: CloudVolume,
    force: Force,
) -> Result<Outcome> {
    let Some(server) = server else { return server_is_gone(cx, &state, node) };
    let (outcome, state) = make_detached(cx, state, server, node, force)?;
    attachment_view::forget_answers(cx, id);
    if attachment_view::is_here(cx, node, Some(server)) {
        refusal::end_refusals(cx, id, &[TearDown::Detach]);
        recovery::remove_link(&Snapshot::of(cx, Some(id)));
    }
    forget_everywhere(cx, id, state.as_ref(), (Some(server), outcome))?;
    Ok(outcome)
}

/// Returns the volume as last seen, or `None` if it no longer exists.
fn make_detached(
    cx: &Context<'_>,
    first: CloudVolume,
    server: &ServerId,
    node: &NodeName,
    force: Force,
) -> Result<(Outcome, Option<CloudVolume>)> {
    // This detach is about one attachment; a later one has another id.
    let meant = first.attachment_to(server).and_then(|one| one.id.clone());
    let mut wait = CloudWait::new(cx, server, first);
    let decide = |wait: &mut CloudWait<'_>, situation: AttachmentState| {
        let now = wait.state.attachment_to(server).and_then(|one| one.id.as_ref());
        if let (Some(meant), Some(now)) = (&meant, now)
            && meant != now
        {
            return Err(attached_anew(&wait.state.id, server));
        }
        match detach_step(situation, wait.progress()) {
            DetachStep::Done => {
                if wait.refusal.is_none() {
                    wait.note_pace(Change::Detach);
                }
                return Ok(ControlFlow::Break((Outcome::Done, Some(wait.state.clone()))));
            }
            DetachStep::NotAttached => {
                let open = open_requests::open_request_of(cx, &wait.state, server);
                if wait.tries > 0 || open.is_none() {
                    let (id, state) = (&wait.state.id, &wait.state);
                    open_requests::prove_not_attached(cx, state, node, Some(server))?;
                    let attached_to = state.attachments.first().map(|one| one.server.as_str());
                    tracing::info!(volume = %id, %server, attached_to, "not attached there");
                    return Ok(ControlFlow::Break((Outcome::Already, Some(state.clone()))));
                }
                wait.awaited = open;
            }
            DetachStep::Request => {
                wait.tries += 1;
                wait.refusal = ask_to_detach(cx, &wait.state, server, node, force)?;
                wait.has_asked(Change::Detach);
                failpoints::step("detach.requested");
            }
            DetachStep::RefuseRolledBack => {
                return Err(kept(&wait.state.id, server, wait.refusal.clone()));
            }
            DetachStep::AwaitRequest => {
                // The block storage service may be slow to list an attach in progress.
                let open = open_requests::open_request_of(cx, &wait.state, server);
                if wait.tries > 0 || open.is_none() {
                    return Err(attachment_view::ghost(cx, &wait.state, server));
                }
                wait.awaited = open;
                wait.settle_again();
            }
            DetachStep::RefuseContradiction => {
                return Err(attachment_view::contradiction(cx, &wait.state, server));
            }
            DetachStep::Wait => {}
            DetachStep::WaitLonger => wait.settle_again(),
        }
        Ok(ControlFlow::Continue(()))
    };
    if let Some(done) = wait.until(judge_state, decide, || Ok((Outcome::Done, None)))? {
        return Ok(done);
    }
    Err(match wait.awaited.take() {
        Some(open) if wait.tries == 0 => open.into_error(&wait.state),
        _ => attachment_view::still_moving(cx, &wait.state, wait.refusal.clone()),
    })
}

/// The combined state of both services.
fn judge_state(wait: &CloudWait<'_>, last: Option<AttachmentState>) -> Result<AttachmentState> {
    let CloudWait { cx, server, .. } = *wait;
    // The compute service was asked to end the attachment; this is its word that it has none.
    let trust = match &wait.refusal {
        Some(error) if error.kind == Kind::Missing => Trust::Both,
        None if wait.tries > 0 => Trust::Own(VolumePhase::Detaching),
        _ => Trust::Listing,
    };
    let now = attachment_view::attachment_state(cx, &wait.state, server, trust)?;
    if last == Some(now) { Ok(now) } else { or_offloaded(cx, now, server) }
}

/// An attach to a shelved server never finishes: the volume stays reserved. Treat it as attached, so that it is
/// detached.
fn or_offloaded(
    cx: &Context<'_>,
    now: AttachmentState,
    server: &ServerId,
) -> Result<AttachmentState> {
    if now != AttachmentState::Attaching {
        return Ok(now);
    }
    let view = cx.cloud.server_view(server, cx.deadline)?;
    let is_offloaded = view.is_some_and(|view| view.state == ServerState::Offloaded);
    Ok(if is_offloaded { AttachmentState::Attached } else { now })
}

/// What is visible on this node decides. If nothing is, or the node is another one, the mark in the cloud decides.
fn guard_detach(
    cx: &Context<'_>,
    state: &CloudVolume,
    server: &ServerId,
    node: &NodeName,
) -> Result<()> {
    let is_here = attachment_view::is_here(cx, node, Some(server));
    if is_here && may_leave(cx, &state.id)? == UsersSeen::Yes {
        return Ok(());
    }
    remote_mark::guard_by_mark(cx, state, server)
}

/// Clean up after earlier calls first: their leftovers may be all that uses the disk.
fn may_leave(cx: &Context<'_>, id: &VolumeId) -> Result<UsersSeen> {
    locking::nothing_hangs(cx, id)?;
    recovery::end_leftovers(cx, id);
    guard::guard_attachment(cx, id)
}

/// Requests the detach unless the volume is in use. A volume in an error state cannot be detached by asking again.
fn ask_to_detach(
    cx: &Context<'_>,
    state: &CloudVolume,
    server: &ServerId,
    node: &NodeName,
    force: Force,
) -> Result<Option<Error>> {
    if force == Force::No {
        guard_detach(cx, state, server, node)?;
    }
    let refusal = request_detach(cx, &state.id, server)?;
    let is_refused = refusal.as_ref().is_some_and(|error| error.kind == Kind::Refused);
    if is_refused && state.status.phase == VolumePhase::Failed {
        let advice = cx.cloud.advice(Trouble::FailedWhileAttached(&state.id));
        return Err(advice.into_iter().fold(kept(&state.id, server, refusal), Error::hint));
    }
    Ok(refusal)
}

/// If the reply is ambiguous, the next poll decides.
fn request_detach(cx: &Context<'_>, id: &VolumeId, server: &ServerId) -> Result<Option<Error>> {
    tracing::info!(volume = %id, %server, "asking the cloud to detach");
    attachment_view::forget_answers(cx, id);
    match cx.cloud.detach(id, server, cx.deadline) {
        Ok(()) => Ok(None),
        Err(error) if matches!(error.kind, Kind::Config | Kind::Barred) => Err(error),
        Err(error) => {
            tracing::warn!(volume = %id, %server, %error, "the cloud did not simply take the detach");
            Ok(Some(error))
        }
    }
}

/// The cloud has no server of the node's name: it was deleted, or has another name there. Attachments of servers that
/// do not exist end by the takeover policy.
fn server_is_gone(cx: &Context<'_>, state: &CloudVolume, node: &NodeName) -> Result<Outcome> {
    for attachment in &state.attachments {
        let mapping = cx.cloud.mapping(&state.id, &attachment.server, cx.deadline)?;
        if mapping == Mapping::NoServer {
            takeover::end_attachment_of_gone_server(cx, state, attachment)?;
        }
    }
    let state = cx.cloud.volume(&state.id, cx.deadline)?.unwrap_or_else(|| state.clone());
    open_requests::prove_not_attached(cx, &state, node, None)?;
    tracing::info!(volume = %state.id, %node, "the node's server does not exist");
    forget_everywhere(cx, &state.id, Some(&state), (None, Outcome::Already))?;
    Ok(Outcome::Already)
}

/// Removes the recorded name of a volume that is attached nowhere and that no pending request may still attach. `seen`
/// is its last state, and `server` the one it was detached from.
fn forget_everywhere(
    cx: &Context<'_>,
    id: &VolumeId,
    seen: Option<&CloudVolume>,
    (server, outcome): (Option<&ServerId>, Outcome),
) -> Result<()> {
    if let Some(state) = seen {
        // The request of this server is settled, whichever other server has the volume.
        let is_outcome = outcome == Outcome::Done
            && state.requested.as_ref().is_some_and(|request| server == Some(&request.server));
        let is_over = state.attachments.is_empty()
            && (is_outcome || open_requests::open_request(cx, state).is_none())
            && !is_mapped_where_recorded(cx, state, server)?;
        // A server without the volume needs no mark next to another's.
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
            note_over(cx, id, &over)?;
        }
        if !is_over {
            return Ok(());
        }
    }
    forget(cx, id);
    Ok(())
}

/// Whether a server that had the volume last still maps it although the volume lists no attachment; an operator may
/// have reset its status. Without its name, a detach from that server would find no volume.
fn is_mapped_where_recorded(
    cx: &Context<'_>,
    state: &CloudVolume,
    known: Option<&ServerId>,
) -> Result<bool> {
    let recorded: BTreeSet<_> = recorded(state).collect();
    for server in recorded.into_iter().filter(|server| Some(*server) != known) {
        if cx.cloud.mapping(&state.id, server, cx.deadline)? == Mapping::Mapped {
            tracing::warn!(volume = %state.id, %server, "this server still maps the volume: its name stays");
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes notes. A cloud that forbids it does not fail the detach: what stays is another server's, or only a name.
fn note_over(cx: &Context<'_>, id: &VolumeId, over: &[Note<'_>]) -> Result<()> {
    match cx.cloud.note(id, over, cx.deadline) {
        Err(error) if error.kind == Kind::Config => {
            tracing::warn!(volume = %id, %error, "the cloud does not allow notes on the volume: earlier ones remain");
            Ok(())
        }
        other => other,
    }
}

/// Removes the record, unless mounts of a former disk are left after a forced or unguarded detach: the heal finds those
/// only by the recorded numbers.
fn forget(cx: &Context<'_>, id: &VolumeId) {
    // Drops entries of processes that no longer hang.
    let _ = cx.store.locks.stuck(id);
    let done = if disk_numbers::is_left_behind(cx, id) {
        let name = cx.store.records.load(id).name;
        let name = name.as_ref().map(VolumeName::as_str);
        tracing::warn!(volume = %id, name, "mounts of it are left on a disk that is gone: remembered for the heal");
        cx.store.records.update(id, |record| record.mark.clear())
    } else {
        cx.store.records.forget(id)
    };
    if let Err(error) = done {
        tracing::debug!(volume = %id, %error, "the record stays");
    }
}

/// Whether the answer may be about the wrong server. A completed detach is not.
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
