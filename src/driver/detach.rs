//! Detach a volume from a server.

use super::attach::ghost;
use super::guard::Sight;
use super::takeover::contradiction;
use super::{Driver, Outcome};
use crate::cloud::CloudVolume;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use crate::model::situation::{ComputeView, Situation};
use crate::model::time::jittered;
use crate::seam;

/// A guest that does not let go makes the cloud roll a detach back: it is asked once more.
const TRIES: u32 = 2;

/// Whether a person gave up what the guard protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// No.
    No,
    /// Yes: whatever uses the disk loses it.
    Yes,
}

impl Driver<'_> {
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
        let server = self.cloud.server(node, self.deadline)?;
        match self.volume_named(name, server.as_ref())? {
            Some(id) => self.detach_volume(&id, name, (node, server), force),
            None => Ok(Outcome::Already),
        }
    }

    /// Detaches this volume and no other, whatever goes by its id as a name.
    pub fn detach_exactly(
        &self,
        id: &VolumeId,
        node: Option<&NodeName>,
        force: Force,
    ) -> Result<Outcome> {
        let node = node.unwrap_or(self.this_node);
        let server = self.cloud.server(node, self.deadline)?;
        self.detach_volume(id, &id.as_name(), (node, server), force)
    }

    fn detach_volume(
        &self,
        id: &VolumeId,
        name: &VolumeName,
        (node, server): (&NodeName, Option<ServerId>),
        force: Force,
    ) -> Result<Outcome> {
        let _lock = match force {
            Force::No => self.lock_if_possible(id)?,
            Force::Yes => self.lock_or_go_on(id)?,
        };
        let Some(state) = self.cloud.volume(id, self.deadline)? else {
            self.forget(id, name);
            return Ok(Outcome::Already);
        };
        let Some(server) = server else { return self.server_is_gone(&state, node, name) };
        let outcome = self.make_detached(state, &server, node, force)?;
        self.forget_answers(id);
        if node == self.this_node {
            self.end_refusals(id, &["detach"]);
        }
        self.forget_everywhere(id, name)?;
        Ok(outcome)
    }

    fn make_detached(
        &self,
        first: CloudVolume,
        server: &ServerId,
        node: &NodeName,
        force: Force,
    ) -> Result<Outcome> {
        let id = first.id.clone();
        // A detach is about this attachment; one that is made while it runs has another id.
        let meant = first.attachment_to(server).and_then(|one| one.id.clone());
        let mut state = first;
        let mut tries = 0;
        let mut refusal: Option<Error> = None;
        let mut settle = self.settle();
        let mut last = None;
        for step in self.looks() {
            let situation = self.situation(&state, server)?;
            let tries_before = tries;
            if last.replace(situation) != Some(situation) {
                tracing::info!(volume = %id, %server, status = state.status, ?situation, "looked");
            }
            let now = state.attachment_to(server).and_then(|one| one.id.as_ref());
            if let (Some(meant), Some(now)) = (&meant, now)
                && meant != now
            {
                return Err(attached_anew(&id, server));
            }
            match situation {
                Situation::Attached if tries == 0 || settle.over() => {
                    if tries == TRIES {
                        return Err(kept(&id, server, refusal));
                    }
                    if force == Force::No {
                        self.guard_detach(&state, server, node)?;
                    }
                    tries += 1;
                    settle = self.settle();
                    refusal = self.request_detach(&id, server)?;
                    seam::step("detach.requested");
                }
                Situation::Free | Situation::Elsewhere | Situation::Shareable if tries == 0 => {
                    let attached_to = state.attachments.first().map(|one| one.server.as_str());
                    tracing::info!(volume = %id, %server, attached_to, "not attached there");
                    return Ok(Outcome::Already);
                }
                Situation::Free | Situation::Elsewhere | Situation::Shareable => {
                    return Ok(Outcome::Done);
                }
                Situation::Unusable => return Ok(Outcome::Already),
                // Not at this server by either account, and it stayed so: none of this detach's
                // business. A lost answer to an attach would have shown by now.
                Situation::BusyElsewhere if settle.over() => return Ok(Outcome::Already),
                Situation::Ghost if settle.over() => return Err(ghost(&state, server)),
                Situation::Forgotten | Situation::ServerGone if settle.over() => {
                    return Err(contradiction(&state, server));
                }
                Situation::Attached
                | Situation::BusyElsewhere
                | Situation::Ghost
                | Situation::Forgotten
                | Situation::ServerGone => {}
                Situation::Attaching
                | Situation::AttachedBusy
                | Situation::Detaching
                | Situation::Busy => {
                    settle = self.settle();
                }
            }
            // Right after a request the first look is free: many clouds, and ours, are done then.
            let has_time = tries > tries_before || self.deadline.pause(jittered(step));
            if !has_time {
                break;
            }
            match self.cloud.volume(&id, self.deadline)? {
                Some(now) => state = now,
                None => return Ok(Outcome::Done),
            }
        }
        Err(self.still_moving(&state, refusal))
    }

    /// What this machine can see decides; where it sees nothing, or is another one, the mark that
    /// the server left.
    fn guard_detach(&self, state: &CloudVolume, server: &ServerId, node: &NodeName) -> Result<()> {
        if node == self.this_node && self.guard_attachment(&state.id)? == Sight::Clear {
            return Ok(());
        }
        self.guard_by_mark(state, server)
    }

    /// What the answer leaves open, the next look tells.
    fn request_detach(&self, id: &VolumeId, server: &ServerId) -> Result<Option<Error>> {
        tracing::info!(volume = %id, %server, "asking the cloud to detach");
        self.forget_answers(id);
        match self.cloud.detach(id, server, self.deadline) {
            Ok(()) => Ok(None),
            Err(error) if error.kind == Kind::Config => Err(error),
            Err(error) => {
                tracing::warn!(volume = %id, %server, %error, "the cloud did not simply take the detach");
                Ok(Some(error))
            }
        }
    }

    /// The cloud has no server for the node: then nothing can be attached to it, unless a server
    /// that is listed with the volume does not exist either.
    fn server_is_gone(
        &self,
        state: &CloudVolume,
        node: &NodeName,
        name: &VolumeName,
    ) -> Result<Outcome> {
        for attachment in &state.attachments {
            let view = self.cloud.compute_view(&state.id, &attachment.server, self.deadline)?;
            if view == ComputeView::NoServer {
                self.end_attachment_of_gone_server(state, attachment)?;
            }
        }
        tracing::info!(volume = %state.id, %node, "the node's server does not exist");
        self.forget_everywhere(&state.id, name)?;
        Ok(Outcome::Already)
    }

    /// Forgets the name of a volume that is attached nowhere any more.
    fn forget_everywhere(&self, id: &VolumeId, name: &VolumeName) -> Result<()> {
        match self.cloud.volume(id, self.deadline)? {
            Some(state) if !state.attachments.is_empty() => return Ok(()),
            Some(state) => {
                if state.recorded_name.is_some() {
                    self.cloud.record_name(id, None, self.deadline)?;
                }
                if state.mounted_on.is_some() {
                    self.cloud.mark_mounted(id, None, self.deadline)?;
                }
            }
            None => {}
        }
        self.forget(id, name);
        Ok(())
    }

    /// What is remembered of the volume goes, unless somebody here still stands on a disk that it
    /// had: detached by force, or without the guard. The volume may come back, and the heal then
    /// finds those mounts only by the numbers that are remembered.
    fn forget(&self, id: &VolumeId, name: &VolumeName) {
        let done = if self.is_left_behind(id) {
            tracing::warn!(volume = %id, %name, "mounts of it are left on a disk that is gone: remembered for the heal");
            self.records.update(id, |record| record.is_marked = false)
        } else {
            self.records.forget(id)
        };
        if let Err(error) = done {
            tracing::debug!(volume = %id, %name, %error, "the record stays");
        }
    }
}

fn attached_anew(id: &VolumeId, server: &ServerId) -> Error {
    Error::new(Kind::Busy, format!("volume {id} was attached to {server} anew during this detach"))
        .hint("the new attachment was left alone; detach again if it is meant too")
}

fn kept(id: &VolumeId, server: &ServerId, refusal: Option<Error>) -> Error {
    let why = refusal.map_or_else(
        || "took the detach and undid it: the guest may hold the disk".to_owned(),
        |error| format!("does not detach: {}", error.cause),
    );
    Error::new(Kind::Unreachable, format!("for volume {id} and server {server} the cloud {why}"))
        .hint("the server's actions in the cloud have the reason")
}
