//! Take a volume from another server that the cloud lists for it.
//!
//! A volume is never stolen from a server that may use it. But a deleted or shut-off server does not write, and may
//! never give the volume back; `attach.takeover` decides about those.

use crate::context::Context;
use crate::failpoints;
use crate::lookup::attachment_view;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::ServerId;
use crate::model::policy::Takeover;
use crate::model::timestamp;
use crate::ports::cloud::{Attachment, CloudVolume};
use std::time::Duration;

/// The pause between two checks of a server, so that one glitch of the cloud is not believed.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// How to end an attachment.
enum Way {
    /// Ask the cloud to detach it.
    Detach,
    /// Its server is gone: remove the attachment record.
    Forget(String),
}

/// Ends every attachment to other servers, or none of them. The error names the server that has the volume.
pub(crate) fn take_over(cx: &Context<'_>, state: &CloudVolume, server: &ServerId) -> Result<()> {
    let mut ways = Vec::new();
    for attachment in &state.attachments {
        match way_to_end(cx, attachment)? {
            Some(way) => ways.push((attachment, way)),
            None if attachment.server == *server => {
                return Err(attachment_view::contradiction(cx, state, server));
            }
            None => return elsewhere(cx, state, server).and_then(Err),
        }
    }
    if ways.is_empty() {
        return elsewhere(cx, state, server).and_then(Err);
    }
    for (attachment, way) in ways {
        let (volume, from) = (&state.id, &attachment.server);
        tracing::warn!(%volume, %from, policy = ?cx.policy.takeover, "taking the volume from a server that cannot use it");
        attachment_view::forget_answers(cx, volume);
        match way {
            Way::Detach => cx.cloud.detach(volume, from, cx.deadline)?,
            Way::Forget(id) => cx.cloud.forget_attachment(&id, cx.deadline)?,
        }
        failpoints::step("takeover.requested");
    }
    Ok(())
}

/// How the attachment may be ended under the policy; `None` if it must not be.
fn way_to_end(cx: &Context<'_>, attachment: &Attachment) -> Result<Option<Way>> {
    if cx.policy.takeover == Takeover::Off {
        return Ok(None);
    }
    let look = || cx.cloud.server_view(&attachment.server, cx.deadline);
    let first = look()?;
    let is_gone = first.is_none();
    let is_stopped = first.is_some_and(|view| view.is_stopped());
    let may_be_ended = is_gone || (is_stopped && cx.policy.takeover == Takeover::Stopped);
    if !may_be_ended {
        return Ok(None);
    }
    if !cx.deadline.pause(BETWEEN_LOOKS.min(cx.deadline.total() / 10)) {
        return Ok(None);
    }
    Ok(match (look()?, &attachment.id) {
        (None, Some(id)) if is_gone => Some(Way::Forget(id.clone())),
        (Some(view), _) if view.is_stopped() && is_stopped => Some(Way::Detach),
        _ => None,
    })
}

/// "Another server has it", in words that Kubernetes users know.
pub(crate) fn elsewhere(cx: &Context<'_>, state: &CloudVolume, server: &ServerId) -> Result<Error> {
    let mut holders = Vec::new();
    let mut is_used = false;
    for one in state.attachments.iter().filter(|one| one.server != *server) {
        // Leave out the age: kubelet counts repeated events, but emits another one for each new text.
        let since = one.since.as_ref();
        let since = since.map(|since| format!(" since {}", timestamp::written(since)));
        let who = match cx.cloud.server_view(&one.server, cx.deadline)? {
            Some(view) => {
                is_used = true;
                let name = view.name.map_or_else(String::new, |name| format!("{name}, "));
                format!("{} ({name}{})", one.server, view.word)
            }
            None => format!("{} (which does not exist any more)", one.server),
        };
        holders.push(format!("{who}{}", since.unwrap_or_default()));
    }
    let hint = if is_used || holders.is_empty() { NEVER } else { GONE };
    if holders.is_empty() {
        holders.push("a server that the cloud does not name".to_owned());
    }
    let (id, holders) = (&state.id, holders.join(", "));
    Ok(Error::new(
        Kind::Elsewhere,
        format!("Multi-Attach error: volume {id} is attached to {holders}"),
    )
    .hint(hint))
}

/// Ends an attachment to a server that no longer exists, if the policy allows it.
pub(crate) fn end_attachment_of_gone_server(
    cx: &Context<'_>,
    state: &CloudVolume,
    attachment: &Attachment,
) -> Result<()> {
    match way_to_end(cx, attachment)? {
        Some(Way::Forget(id)) => {
            tracing::warn!(volume = %state.id, server = %attachment.server, "removing the attachment of a server that does not exist");
            cx.cloud.forget_attachment(&id, cx.deadline)
        }
        _ => Err(attachment_view::contradiction(cx, state, &attachment.server)),
    }
}

const GONE: &str = "attach.takeover = \"deleted\" lets this driver end the attachments of servers that do \
    not exist";
const NEVER: &str = "a volume is never taken from a server that may use it; detach it there first";
