//! Only one server may write to a volume: the only one to which the cloud has attached it. The disk alone does not
//! prove that, because it stays for a while after the cloud has detached the volume.

use crate::context::Context;
use crate::model::advice::{Remedy, advise};
use crate::model::cloud::attachment_state::VolumePhase;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ServerId, VolumeId};
use crate::ports::clock::Deadline;
use crate::ports::cloud::{Capabilities, CloudVolume};
use std::time::Duration;

/// How long a mount waits for the cloud.
const PATIENCE: Duration = Duration::from_secs(5);

/// Refuses a writable mount if another server has the volume too, or if it is being detached from this one. Returns the
/// volume as the cloud shows it, or `None` if the cloud is unreachable and not needed.
pub(crate) fn sole_writer(cx: &Context<'_>, id: &VolumeId) -> Result<Option<CloudVolume>> {
    let deadline = cx.deadline.at_most(PATIENCE);
    let (state, server) = match seen(cx, id, deadline) {
        Ok(Some(seen)) => seen,
        Ok(None) => return Ok(None),
        Err(error) => return sole_writer_by_memory(cx, id, error),
    };
    remember_sharing(cx, id, state.is_shareable);
    let Some(other) = state.attachments.iter().find(|one| one.server != server) else {
        stays(cx, &state, &server)?;
        return Ok(Some(state));
    };
    let view = cx.cloud.server_view(&other.server, deadline).ok().flatten();
    let name = view.and_then(|view| view.name).map_or_else(String::new, |n| format!(" ({n})"));
    let has_mark = state.is_marked_by(&other.server);
    let mounted = if has_mark { ", which has it mounted" } else { "" };
    let server = &other.server;
    Err(Error::new(
        Kind::Elsewhere,
        format!(
            "volume {id} is attached to server {server} too{name}{mounted}, and no file system \
             survives two writers: it is not mounted read-write"
        ),
    )
    .hint(advise("{}; or let every node mount it read-only, with the option share: read-only in the PersistentVolume", [Remedy::Detach(Some(server.to_string())).of(id)])))
}

/// Checks again after the mark was left: a detach that was requested before is in progress or done by now. An
/// unreachable cloud is no refusal.
pub(crate) fn still_has(cx: &Context<'_>, id: &VolumeId) -> Result<()> {
    match seen(cx, id, cx.deadline.at_most(PATIENCE)) {
        Ok(Some((state, server))) => stays(cx, &state, &server),
        Ok(None) => Ok(()),
        Err(error) => {
            tracing::warn!(volume = %id, %error, "whether a detach came before the mark is not known");
            Ok(())
        }
    }
}

/// The volume, if it is attached to this server and stays there.
pub(crate) fn seen_here(cx: &Context<'_>, id: &VolumeId) -> Result<Option<CloudVolume>> {
    let seen = seen(cx, id, cx.deadline.at_most(PATIENCE))?;
    Ok(seen.and_then(|(state, server)| stays(cx, &state, &server).is_ok().then_some(state)))
}

/// The volume as the cloud shows it, and this node's server.
fn seen(
    cx: &Context<'_>,
    id: &VolumeId,
    deadline: Deadline,
) -> Result<Option<(CloudVolume, ServerId)>> {
    let state = cx.cloud.volume(id, deadline)?;
    let server = cx.cloud.server(cx.this_node, deadline)?;
    Ok(state.zip(server))
}

/// Refuses a volume that is being detached from the server, although its disk is still here.
fn stays(cx: &Context<'_>, state: &CloudVolume, server: &ServerId) -> Result<()> {
    let (id, status) = (&state.id, &state.status);
    let is_listed = state.attachment_to(server).is_some();
    if is_listed && status.phase != VolumePhase::Detaching {
        return Ok(());
    }
    let Capabilities { volumes_side, .. } = cx.cloud.capabilities();
    let node = cx.this_node;
    let (kind, how, end) = if is_listed {
        (
            Kind::Busy,
            format!("takes volume {id} from this server, {server} ({status})"),
            "if it stays so the cloud has lost it: see the volume's events there".into(),
        )
    } else {
        (
            Kind::Refused,
            format!("does not list volume {id} ({status}) at this server, {server}"),
            advise(
                "if it stays so: {}, and delete the pod, so that its volume is attached again",
                [Remedy::DetachById(Some(node.to_string()), None).of(id)],
            ),
        )
    };
    let cause = format!("{volumes_side} {how}: its disk is here still, and is not to be used");
    Err(Error::new(kind, cause).hint(advise("once it is attached anew it is mounted; {}", [end])))
}

/// The cloud is unreachable: allow a volume that is known not to be multi-attach.
fn sole_writer_by_memory(
    cx: &Context<'_>,
    id: &VolumeId,
    error: Error,
) -> Result<Option<CloudVolume>> {
    let is_silent = matches!(error.kind, Kind::Unreachable | Kind::Timeout | Kind::Busy);
    if is_silent && cx.store.records.load(id).mark.is_shareable != Some(false) {
        let cause = format!(
            "whether another server has volume {id} too is not known, and this machine has \
             not seen yet that the cloud gives it to one alone: {}",
            error.cause
        );
        return Err(Error { cause, ..error }
            .hint("the mount goes on when the cloud answers; kubelet repeats it"));
    }
    tracing::warn!(volume = %id, %error, "mounted without the cloud's word on who has the volume");
    Ok(None)
}

/// Records whether the volume is multi-attach. The caller holds the volume's lock.
fn remember_sharing(cx: &Context<'_>, id: &VolumeId, is_shareable: bool) {
    let is_shareable = Some(is_shareable);
    if cx.store.records.load(id).mark.is_shareable == is_shareable {
        return;
    }
    let noted = cx.store.records.update(id, |record| record.mark.is_shareable = is_shareable);
    if let Err(error) = noted {
        tracing::debug!(volume = %id, %error, "whether it can be shared is not remembered");
    }
}
