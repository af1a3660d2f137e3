//! The cloud's view of a volume and a server, combined from its compute and block storage services, and how far each is
//! trusted.

use crate::context::Context;
use crate::model::cloud::attachment_state::{
    AttachmentState, Listing, Mapping, VolumePhase, judge,
};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId};
use crate::model::pauses::Looks;
use crate::ports::clock::Deadline;
use crate::ports::cloud::{Capabilities, CloudVolume, Reservation, Trouble};
use crate::ports::store::Change;
use std::time::{Duration, Instant};

/// How long a call may ask the cloud for a better message after its deadline.
const LAST_QUESTION: Duration = Duration::from_secs(1);

/// Whose word for a finished attachment is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The block storage service's, which lists it.
    Listing,
    /// The block storage service's: in this phase it works on this call's request, which the compute service has
    /// accepted.
    Own(VolumePhase),
    /// Both: the compute service may have lost it.
    Both,
}

/// How to ask which server a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// Once for all concurrent calls.
    Shared,
    /// For each call.
    Anew,
}

/// Whether the node is this one, by either name; the configuration may have its server under another one.
pub(crate) fn is_here(cx: &Context<'_>, node: &NodeName, server: Option<&ServerId>) -> bool {
    node == cx.this_node || server.is_some_and(|server| cx.cloud.is_this_machine(server))
}

/// Acts on the node's server. A recent answer about the server is reused, and verified only if the result would be
/// wrong for another server.
pub(crate) fn at_server_of<T>(
    cx: &Context<'_>,
    node: &NodeName,
    sight: Asking,
    needs_proof: impl Fn(&Result<T>) -> bool,
    act: impl Fn(Option<&ServerId>) -> Result<T>,
) -> Result<T> {
    let ask = || cx.cloud.server(node, cx.deadline);
    let asked = || match (cx.answers(), sight) {
        (Some(answers), Asking::Shared) => answers.server(node, cx.deadline, &mut { ask }),
        (Some(answers), Asking::Anew) => ask().inspect(|server| {
            if let Some(server) = server {
                answers.is_server(node, server);
            }
        }),
        (None, _) => ask(),
    };
    let Some(recent) = cx.answers().and_then(|answers| answers.recent_server(node)) else {
        return act(asked()?.as_ref());
    };
    let answer = act(Some(&recent));
    if !needs_proof(&answer) {
        return answer;
    }
    match asked() {
        Ok(now) if now.as_ref() != Some(&recent) => act(now.as_ref()),
        Err(error) if answer.is_ok() => Err(error),
        _ => answer,
    }
}

/// The combined state. Asks the compute service only if its word matters.
pub(crate) fn attachment_state(
    cx: &Context<'_>,
    state: &CloudVolume,
    server: &ServerId,
    trust: Trust,
) -> Result<AttachmentState> {
    let is_certain = match trust {
        Trust::Both => false,
        Trust::Listing => is_settled(state, server),
        Trust::Own(phase) => is_settled(state, server) || state.status.phase == phase,
    };
    let mapping = if is_certain {
        Mapping::Mapped
    } else {
        cx.cloud.mapping(&state.id, server, cx.deadline)?
    };
    Ok(judge(&listing(state, server), mapping))
}

/// The volume; an error if it does not exist.
pub(crate) fn existing(cx: &Context<'_>, id: &VolumeId) -> Result<CloudVolume> {
    cx.cloud.volume(id, cx.deadline)?.ok_or_else(|| missing(id))
}

pub(crate) fn missing(id: &VolumeId) -> Error {
    Error::new(Kind::Missing, format!("volume {id} does not exist in the cloud"))
        .hint("is volumeID right, and of this project and region?")
}

/// Fails unless the missing volume certainly does not exist: the cloud gives the same answer about volumes of another
/// project or region. A server that is visible proves that these credentials see the right place.
pub(crate) fn prove_missing(
    cx: &Context<'_>,
    volume: &str,
    server: Option<&ServerId>,
) -> Result<()> {
    let Some(scope) = cx.cloud.unproven_scope(server, cx.deadline)? else { return Ok(()) };
    Err(Error::new(
        Kind::Config,
        format!(
            "cannot determine whether volume {volume} is attached: these credentials ({scope}) show \
             neither the volume nor the node's server nor the server of this machine"
        ),
    )
    .hint(
        "check the project and the region in the configuration; if they are right and both were \
         deleted, set node.server_id to the server of this machine",
    ))
}

pub(crate) fn existing_server(cx: &Context<'_>, node: &NodeName) -> Result<ServerId> {
    cx.cloud.server(node, cx.deadline)?.ok_or_else(|| no_server(node))
}

pub(crate) fn still_moving(cx: &Context<'_>, state: &CloudVolume, refusal: Option<Error>) -> Error {
    let seconds = cx.deadline.total().as_secs();
    let (id, status) = (&state.id, &state.status);
    let held = held_by(cx, state);
    let describe = |one: &Reservation| {
        let server = one.server.as_ref().map_or("no server", |server| server.as_str());
        format!("attachment {} ({}) for server {server}", one.id, one.word)
    };
    let holders: Vec<_> = held.iter().map(describe).collect();
    let holders = match holders.as_slice() {
        [] => String::new(),
        several => format!(", held by {}", several.join(", ")),
    };
    let last = refusal.as_ref().map_or_else(String::new, |error| format!("; {}", error.cause));
    let of_refusal = refusal.and_then(|error| error.hint);
    let of_cloud =
        || held.first().and_then(|one| cx.cloud.advice(Trouble::LeftAttachment(&one.id)));
    Error::new(
        Kind::Timeout,
        format!("volume {id} is still {status} after {seconds} s{holders}{last}"),
    )
    .hint(of_refusal.or_else(|| Some(of_cloud()?.into())).unwrap_or_else(|| {
        "the cloud works on it, or lost it: see the volume's events there".into()
    }))
}

/// What holds a volume that does not become free, for a message.
fn held_by(cx: &Context<'_>, state: &CloudVolume) -> Vec<Reservation> {
    if state.status.phase != VolumePhase::Attaching {
        return Vec::new();
    }
    cx.cloud.reservations(&state.id, Deadline::after(LAST_QUESTION)).unwrap_or_else(|error| {
        tracing::debug!(%error, "who holds the volume is not known");
        Vec::new()
    })
}

/// The refusal of a volume that can never be attached.
pub(crate) fn unusable(cx: &Context<'_>, state: &CloudVolume) -> Error {
    let advice = cx.cloud.advice(Trouble::FailedVolume);
    Error::refused(format!("volume {} is in status {} in the cloud", state.id, state.status))
        .hint(advice.unwrap_or_else(|| "an operator of the cloud must mend it".to_owned()))
}

/// A mapping that has outlived its attachment.
pub(crate) fn ghost(cx: &Context<'_>, state: &CloudVolume, server: &ServerId) -> Error {
    let Capabilities { volumes_side, servers_side, .. } = cx.cloud.capabilities();
    let (id, status) = (&state.id, &state.status);
    let advice = cx.cloud.advice(Trouble::LeftMapping(server, id));
    Error::refused(format!(
        "{servers_side} maps volume {id} to {server}, {volumes_side} calls it {status}"
    ))
    .hint(advice.unwrap_or_else(|| "an operator of the cloud must remove the mapping".to_owned()))
}

/// The services contradict each other, and time did not help.
pub(crate) fn contradiction(cx: &Context<'_>, state: &CloudVolume, server: &ServerId) -> Error {
    let Capabilities { volumes_side, servers_side, .. } = cx.cloud.capabilities();
    let attachment = state.attachment_to(server).and_then(|one| one.id.as_deref());
    let advice = attachment.and_then(|id| cx.cloud.advice(Trouble::ForgottenAttachment(id)));
    Error::refused(format!(
        "{volumes_side} lists volume {} at {server}, {servers_side} does not know of it",
        state.id
    ))
    .hint(advice.unwrap_or_else(|| {
        "an operator of the cloud must remove the volume's attachment there".to_owned()
    }))
}

/// Drops cached answers about a volume that is about to change.
pub(crate) fn forget_answers(cx: &Context<'_>, id: &VolumeId) {
    if let Some(answers) = cx.answers() {
        answers.forget(id);
    }
}

/// The cloud's answer, or `None` if this call's own deadline was too short for one. Then the service is not to blame,
/// and earlier observations are the reason.
pub(crate) fn in_time<T>(cx: &Context<'_>, ask: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    let had_time = cx.deadline.remaining() >= LAST_QUESTION.min(cx.deadline.total() / 4);
    match ask() {
        Err(error) if !had_time && is_silence(&error) => Ok(None),
        other => other.map(Some),
    }
}

/// How long the cloud may not show a request, or be inconsistent, before that counts. A mapping may outlive a detach
/// for a moment; a ghost stays.
pub(crate) fn settle(cx: &Context<'_>) -> Deadline {
    const LONG_ENOUGH: Duration = Duration::from_secs(10);
    Deadline::after(LONG_ENOUGH.min(cx.deadline.total() / 2))
}

/// The pauses between polls after this call has requested a change.
pub(crate) fn looks_at(cx: &Context<'_>, change: Change) -> Looks {
    Looks::at(cx.pace().and_then(|pace| pace.usual(change)), cx.deadline.total())
}

/// Records a change that the poll starting at `looked` showed as done. The poll's own duration does not count, or the
/// first poll would come later and later.
pub(crate) fn note_pace(cx: &Context<'_>, change: Change, asked: Instant, looked: Instant) {
    if let Some(pace) = cx.pace() {
        pace.took(change, looked.saturating_duration_since(asked));
    }
}

/// The pauses between polls, whatever the cloud is doing.
pub(crate) fn looks(cx: &Context<'_>) -> Looks {
    Looks::at_others(cx.deadline.total())
}

pub(crate) fn no_server(node: &NodeName) -> Error {
    Error::new(Kind::Missing, format!("the cloud knows no server for node {node}")).hint(format!(
        "if its server has another name in the cloud, add it to [node.servers]: \"{node}\" = \"<id of the server>\"; \
         if {node} is this machine, set node.name to that, and node.server_id if the machine does not show it"
    ))
}

/// A change that the cloud rejected repeatedly, or accepted and rolled back (`undone`).
pub(crate) fn not_done(
    id: &VolumeId,
    server: &ServerId,
    undone: &str,
    refusal: Option<Error>,
) -> Error {
    let start = format!("for volume {id} and server {server} the cloud");
    match refusal {
        // The rejection is the reason; the server's action log does not contain it.
        Some(error) => {
            let cause = format!("{start} refuses: {}", error.cause);
            Error { kind: Kind::Unreachable, cause, ..error }
        }
        None => Error::new(Kind::Unreachable, format!("{start} {undone}"))
            .hint("the server's actions in the cloud have the reason"),
    }
}

/// A failed poll, reported after what was learned before, which matters more.
pub(crate) fn after_all(state: &CloudVolume, refusal: Option<&Error>, error: Error) -> Error {
    if !is_silence(&error) {
        return error;
    }
    let (id, status, then) = (&state.id, &state.status, &error.cause);
    let said = refusal.map_or_else(String::new, |refusal| format!(" ({})", refusal.cause));
    let cause = format!("volume {id} was {status} when it was last seen{said}; then {then}");
    Error { cause, ..error }
}

fn is_silence(error: &Error) -> bool {
    matches!(error.kind, Kind::Unreachable | Kind::Timeout | Kind::Busy)
}

/// Finished, by the one certain word.
pub(crate) fn is_settled(state: &CloudVolume, server: &ServerId) -> bool {
    state.status.phase == VolumePhase::Attached && state.attachment_to(server).is_some()
}

fn listing(state: &CloudVolume, server: &ServerId) -> Listing {
    Listing {
        phase: state.status.phase,
        lists_server: state.attachment_to(server).is_some(),
        lists_others: state.attachments.iter().any(|one| one.server != *server),
        is_shareable: state.is_shareable,
    }
}

#[cfg(test)]
mod tests;
