//! Attach a volume to a server, and ask whether it is.

use super::{Driver, Outcome, Volume};
use crate::cloud::{Attachment, AttachmentState, CloudVolume};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId};
use crate::model::time::Steps;
use crate::seam;
use std::path::PathBuf;
use std::time::Duration;

impl Driver<'_> {
    /// Attaches the volume to the node's server; answers the link of its disk.
    ///
    /// Already attached there: nothing is requested. Attached elsewhere: an error that says where,
    /// never stolen.
    pub fn attach(&self, volume: &Volume, node: &NodeName) -> Result<(PathBuf, Outcome)> {
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
        let _lock = self.lock_if_possible(&volume.id)?;
        let server = self.existing_server(node)?;
        let mut state = self.existing(&volume.id)?;

        let outcome = match state.attachment_to(&server) {
            Some(Attachment { state: AttachmentState::Attached, .. }) => Outcome::Already,
            Some(_) => {
                state = self.wait_settled(&volume.id, &server)?;
                Outcome::Done
            }
            None => Outcome::Done,
        };
        self.record_pair(volume, &state)?;
        seam::step("attach.named");
        if state.attachment_to(&server).is_none() {
            if let Some(other) = state.attachments.first() {
                return Err(elsewhere(&volume.id, other));
            }
            tracing::info!(volume = %volume.id, %server, "asking the cloud to attach");
            self.cloud.attach(&volume.id, &server, self.deadline)?;
            seam::step("attach.requested");
            let settled = self.wait_settled(&volume.id, &server)?;
            if settled.attachment_to(&server).is_none() {
                return Err(Error::new(
                    Kind::Unreachable,
                    format!("the cloud took the attachment to {server} and undid it"),
                )
                .hint("the cloud's log for the volume has the reason"));
            }
        }
        Ok((self.cloud.link(&volume.id), outcome))
    }

    /// Whether the volume is attached to the node's server, on its way there, or still going.
    /// Doubt is an error, for "no" makes the orchestrator attach it again.
    pub fn is_attached(&self, volume: &Volume, node: &NodeName) -> Result<bool> {
        let Some(server) = self.cloud.server(node, self.deadline)? else { return Ok(false) };
        let Some(state) = self.cloud.volume(&volume.id, self.deadline)? else { return Ok(false) };
        let attached = state.attachment_to(&server).is_some();
        if attached {
            self.record_pair(volume, &state)?;
        }
        Ok(attached)
    }

    /// The volume as the cloud has it; a missing one is an error.
    pub(super) fn existing(&self, id: &VolumeId) -> Result<CloudVolume> {
        self.cloud.volume(id, self.deadline)?.ok_or_else(|| {
            Error::new(Kind::Missing, format!("volume {id} does not exist in the cloud"))
                .hint("is volumeID right, and of this project and region?")
        })
    }

    pub(super) fn existing_server(&self, node: &NodeName) -> Result<ServerId> {
        self.cloud.server(node, self.deadline)?.ok_or_else(|| {
            Error::new(Kind::Missing, format!("the cloud knows no server for node {node}"))
        })
    }

    /// Records which name belongs to the volume, with the volume and on this machine, if it is
    /// missing: volumes that the predecessor attached have none.
    pub(super) fn record_pair(&self, volume: &Volume, state: &CloudVolume) -> Result<()> {
        if let Some(name) = &volume.name
            && state.recorded_name.as_ref() != Some(name)
        {
            if let Some(former) = &state.recorded_name {
                tracing::warn!(volume = %volume.id, %former, %name, "the volume goes by another name now");
            }
            self.cloud.record_name(&volume.id, Some(name), self.deadline)?;
        }
        self.remember_name(volume);
        Ok(())
    }

    /// Waits until the volume is neither on its way to the server nor leaving it.
    pub(super) fn wait_settled(&self, id: &VolumeId, server: &ServerId) -> Result<CloudVolume> {
        for step in Steps::between(Duration::from_millis(20), Duration::from_secs(2)) {
            let state = self.existing(id)?;
            let moving = state.attachment_to(server).map(|attachment| attachment.state);
            match moving {
                Some(AttachmentState::Attaching | AttachmentState::Detaching) => {}
                Some(AttachmentState::Attached) | None => return Ok(state),
            }
            tracing::debug!(volume = %id, %server, ?moving, "waiting for the cloud");
            if !self.deadline.pause(step) {
                break;
            }
        }
        Err(Error::new(
            Kind::Timeout,
            format!(
                "the cloud still moves volume {id} after {} s",
                self.deadline.total().as_secs()
            ),
        ))
    }
}

fn elsewhere(id: &VolumeId, other: &Attachment) -> Error {
    let since = other.since.as_ref().map_or_else(String::new, |since| format!(" since {since}"));
    let how = match other.state {
        AttachmentState::Attaching => "is being attached to",
        AttachmentState::Attached => "is attached to",
        AttachmentState::Detaching => "is being detached from",
    };
    Error::new(Kind::Elsewhere, format!("Multi-Attach: volume {id} {how} {}{since}", other.server))
        .hint("a volume is never taken from another server; detach it there first")
}
