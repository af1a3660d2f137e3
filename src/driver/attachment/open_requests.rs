//! Attach requests whose outcome is not known yet.
//!
//! The request is noted with the volume before it is sent, and the note is removed once the outcome is known. Until
//! then "attached to no server" is uncertain: the volume may be attached a moment later.

use crate::context::Context;
use crate::lookup::alias;
use crate::model::cloud::attachment_state::{Mapping, VolumePhase};
use crate::model::cloud::request::{AttachRequest, Work};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use crate::operation::Volume;
use crate::ports::clock::seconds;
use crate::ports::cloud::{CloudVolume, Note, Tenure};
use std::collections::BTreeSet;
use std::time::Duration;

/// A request that may still succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenRequest {
    pub(crate) request: AttachRequest,
    /// The time since it was sent.
    age: Duration,
    /// When it expires, if nothing is seen of it.
    left: Duration,
}

/// The noted request, if it may still succeed.
pub(crate) fn open_request(cx: &Context<'_>, state: &CloudVolume) -> Option<OpenRequest> {
    let request = state.requested.as_ref()?;
    if state.attachment_to(&request.server).is_some() {
        return None;
    }
    // A request for a deleted server cannot succeed.
    let server = cx.cloud.server_view(&request.server, cx.deadline);
    if matches!(server, Ok(None)) {
        return None;
    }
    let now = cloud_time(cx);
    let open = |left| {
        let age = Duration::from_secs(now.saturating_sub(request.at));
        OpenRequest { request: request.clone(), age, left }
    };
    let silence = cx.cloud.capabilities().longest_silence;
    if let Some(left) = request.open_for(now, Work::NoneKnown, silence) {
        return Some(open(left));
    }
    // If the server's host were idle, the request would have finished.
    let work = match cx.cloud.work_at(&request.server, cx.deadline) {
        Ok(work) => work,
        // The credentials may not ask that; then only time decides.
        Err(error) if error.kind == Kind::Config => {
            tracing::debug!(server = %request.server, %error, "what the server's host does is not known");
            Work::NoneKnown
        }
        // The host may be busy.
        Err(error) => {
            tracing::debug!(server = %request.server, %error, "what the server's host does is not known now");
            Work::UnderWay
        }
    };
    request.open_for(now, work, silence).map(open)
}

/// Fails unless every server that has the volume, or may still get it, is known to be another node's: the name may
/// resolve to the wrong server, or to none although the node has one.
pub(crate) fn prove_not_attached(
    cx: &Context<'_>,
    state: &CloudVolume,
    node: &NodeName,
    server: Option<&ServerId>,
) -> Result<()> {
    let attached = state.attachments.iter().map(|one| &one.server);
    let requested = state.requested.as_ref().map(|request| &request.server);
    let all: BTreeSet<_> = attached.chain(requested).chain(recorded(state)).collect();
    for other in all.into_iter().filter(|one| Some(*one) != server) {
        if cx.cloud.belongs_to_another_node(other, (node, server), cx.deadline)? {
            continue;
        }
        let has_it = match cx.cloud.mapping(&state.id, other, cx.deadline)? {
            Mapping::Mapped => true,
            Mapping::NoServer => false,
            Mapping::NotMapped => {
                state.attachment_to(other).is_some() || open_request_of(cx, state, other).is_some()
            }
        };
        if has_it {
            return Err(may_be_the_nodes(&state.id, other, node));
        }
    }
    Ok(())
}

/// This server's request, if it may still succeed.
pub(crate) fn open_request_of(
    cx: &Context<'_>,
    state: &CloudVolume,
    server: &ServerId,
) -> Option<OpenRequest> {
    match &state.requested {
        Some(request) if request.server == *server => open_request(cx, state),
        _ => None,
    }
}

/// Another server's request, if it may still succeed.
pub(crate) fn open_request_elsewhere(
    cx: &Context<'_>,
    state: &CloudVolume,
    server: &ServerId,
) -> Option<OpenRequest> {
    match &state.requested {
        Some(request) if request.server != *server => open_request(cx, state),
        _ => None,
    }
}

/// Notes the coming request with its name, and which server gets the volume next, because a heal must know whether
/// another server had it since it was mounted here. Where the cloud forbids notes, the attach goes on if a detach can
/// find the volume anyway.
pub(crate) fn note_request(
    cx: &Context<'_>,
    volume: &Volume,
    state: &CloudVolume,
    server: &ServerId,
) -> Result<()> {
    if !cx.cloud.capabilities().keeps_marks {
        return record_pair(cx, volume, state);
    }
    let tenure = next_tenure(state, server);
    let request = AttachRequest { server: server.clone(), at: cloud_time(cx) };
    // Write the name every time: a concurrent detach may remove it.
    let mut notes = vec![Note::Request(Some(&request))];
    notes.extend(volume.name.as_ref().map(|name| Note::Name(Some(name))));
    notes.extend(tenure.as_ref().map(|tenure| Note::Tenure(Some(tenure))));
    note_if_allowed(cx, volume, state, &notes)
}

/// Records the attach generation again: a rejected attach may have overwritten it, and without it a heal would not know
/// that the volume was elsewhere. Cinder keeps both values if two requests add a key at the same moment, shows one, and
/// updates the other; only deleting the key removes both.
pub(crate) fn record_tenure(
    cx: &Context<'_>,
    volume: &Volume,
    state: &CloudVolume,
    server: &ServerId,
) -> Result<()> {
    match next_tenure(state, server) {
        Some(tenure) if cx.cloud.capabilities().keeps_marks => {
            note_if_allowed(cx, volume, state, &[Note::Tenure(None)])?;
            note_if_allowed(cx, volume, state, &[Note::Tenure(Some(&tenure))])
        }
        _ => Ok(()),
    }
}

/// Reverts the notes of a rejected request, if the volume is free. A server that got the volume meanwhile keeps its
/// name and generation. Both stay while it is uncertain which server gets the volume.
pub(crate) fn undo_request(
    cx: &Context<'_>,
    volume: &Volume,
    before: &CloudVolume,
    server: &ServerId,
) {
    let undone = cx.cloud.volume(&volume.id, cx.deadline).and_then(|now| match now {
        Some(now) => undo_notes(cx, before, &now, server),
        None => Ok(()),
    });
    if let Err(error) = undone {
        tracing::warn!(volume = %volume.id, %error, "notes of the refused attach stay; a later call removes them");
    }
}

fn undo_notes(
    cx: &Context<'_>,
    before: &CloudVolume,
    now: &CloudVolume,
    server: &ServerId,
) -> Result<()> {
    let is_own = |request: &AttachRequest| request.server == *server;
    let rival = now.requested.as_ref().filter(|request| !is_own(request));
    let winner = now.attachments.first().map(|one| &one.server);
    let winner = winner.or(rival.map(|request| &request.server));
    let mut notes = Vec::new();
    if now.requested.as_ref().is_some_and(is_own) {
        notes.push(Note::Request(None));
    }
    let is_free = winner.is_none() && now.status.phase == VolumePhase::Available;
    let mine = now.tenure.as_ref().filter(|tenure| tenure.server == *server);
    let of_winner =
        winner.zip(mine).map(|(server, mine)| Tenure { server: server.clone(), ..*mine });
    if mine.is_some() && now.tenure != before.tenure && (is_free || of_winner.is_some()) {
        cx.cloud.note(&now.id, &[Note::Tenure(None)], cx.deadline)?;
        let tenure = of_winner.as_ref().or(before.tenure.as_ref());
        notes.extend(tenure.map(|tenure| Note::Tenure(Some(tenure))));
    }
    if is_free && now.recorded_name != before.recorded_name {
        notes.push(Note::Name(before.recorded_name.as_ref()));
    }
    if notes.is_empty() { Ok(()) } else { cx.cloud.note(&now.id, &notes, cx.deadline) }
}

/// The outcome is known: removes the note. If that fails, the next call that sees the outcome does it.
pub(crate) fn end_request(cx: &Context<'_>, volume: &Volume) {
    if !cx.cloud.capabilities().keeps_marks {
        return;
    }
    if let Err(error) = cx.cloud.note(&volume.id, &[Note::Request(None)], cx.deadline) {
        tracing::warn!(volume = %volume.id, %error, "the note of the attach stays; a later call removes it");
    }
}

/// Seconds since 1970 by the clock of the cloud's services.
fn cloud_time(cx: &Context<'_>) -> u64 {
    seconds().saturating_add_signed(cx.cloud.clock_ahead().unwrap_or_default())
}

/// Records the volume's name in the cloud if it is missing, as for volumes that the predecessor attached.
pub(crate) fn record_pair(cx: &Context<'_>, volume: &Volume, state: &CloudVolume) -> Result<()> {
    if let Some(name) = &volume.name
        && state.recorded_name.as_ref() != Some(name)
    {
        if let Some(former) = &state.recorded_name {
            tracing::warn!(volume = %volume.id, %former, %name, "the volume has a new name");
        }
        note_name(cx, volume, state, name)?;
    }
    // Also record a name that equals the id, if nothing else shows that this driver attached the volume.
    if volume.name.is_none() && !alias::is_known(cx, state) {
        note_name(cx, volume, state, &volume.id.as_name())?;
    }
    Ok(())
}

fn note_name(
    cx: &Context<'_>,
    volume: &Volume,
    state: &CloudVolume,
    name: &VolumeName,
) -> Result<()> {
    note_if_allowed(cx, volume, state, &[Note::Name(Some(name))])
}

/// A cloud that forbids notes is no obstacle if a detach finds the volume anyway.
fn note_if_allowed(
    cx: &Context<'_>,
    volume: &Volume,
    state: &CloudVolume,
    notes: &[Note<'_>],
) -> Result<()> {
    match cx.cloud.note(&volume.id, notes, cx.deadline) {
        Err(error) if error.kind == Kind::Config && is_found_without_notes(volume, state) => {
            tracing::warn!(volume = %volume.id, %error, "the cloud allows no notes with the volume: an attach whose caller is killed is not waited for");
            Ok(())
        }
        Err(error) if error.kind == Kind::Config && error.hint.is_none() => Err(error.hint(
            "without notes a detach finds a volume only by its id or its name in the cloud: \
             give the PersistentVolume one of these names",
        )),
        other => other,
    }
}

/// The attach generation of a server that gets the volume; `None` if it had the volume last.
fn next_tenure(state: &CloudVolume, server: &ServerId) -> Option<Tenure> {
    let last = state.tenure.as_ref();
    let count = last.map_or(1, |last| last.count.saturating_add(1));
    last.is_none_or(|last| last.server != *server).then(|| Tenure { server: server.clone(), count })
}

/// Whether a detach, which receives only the name, finds the volume without further notes: by its id, the recorded
/// name, or its display name.
fn is_found_without_notes(volume: &Volume, state: &CloudVolume) -> bool {
    let Some(name) = &volume.name else { return true };
    match &state.recorded_name {
        Some(recorded) => recorded == name,
        None => state.name.as_deref() == Some(name.as_str()),
    }
}

impl OpenRequest {
    /// The error of a call that needs the outcome.
    pub(crate) fn into_error(self, state: &CloudVolume) -> Error {
        let (id, server) = (&state.id, &self.request.server);
        let (age, left) = (self.age.as_secs(), self.left.as_secs());
        Error::new(
            Kind::Busy,
            format!(
                "an attach of volume {id} to server {server} was asked for {age} s ago, and its \
                 outcome is not known: it may still come true"
            ),
        )
        .hint(format!(
            "call again: it is waited for and undone, or over {left} s after the last work of the \
             server's host"
        ))
    }
}

/// The servers that had the volume last, according to its notes.
pub(crate) fn recorded(state: &CloudVolume) -> impl Iterator<Item = &ServerId> {
    [state.tenure.as_ref().map(|last| &last.server), state.mounted_on.as_ref()]
        .into_iter()
        .flatten()
}

fn may_be_the_nodes(id: &VolumeId, server: &ServerId, node: &NodeName) -> Error {
    Error::refused(format!(
        "cannot confirm that volume {id} is detached from node {node}: it is attached to server {server}, which \
         may be that node"
    ))
    .hint(format!(
        "add the server to [node.servers] in the configuration: \"{node}\" = \"{server}\", or the name of the \
         other node that it is; on that server itself, set node.name to the node's Kubernetes name"
    ))
}
