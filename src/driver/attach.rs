//! Attach a volume to a server, and ask whether it is.

use super::takeover::contradiction;
use super::{Driver, Outcome, Volume};
use crate::cloud::{CloudVolume, Tenure};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId};
use crate::model::situation::{BlockView, ComputeView, Sharing, Situation, judge};
use crate::model::time::jittered;
use crate::seam;
use std::path::PathBuf;

/// How often an attach is asked for: the cloud takes a request and undoes it later when its host
/// cannot do it.
const TRIES: u32 = 2;

/// What a person does who wants several servers to have a volume.
const SHARE: &str = "the cloud would allow it, but no file system survives two writers: with the \
    option share: read-only in the PersistentVolume every node mounts it read-only";

impl Driver<'_> {
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
        let lock = self.lock_if_possible(&volume.id)?;
        if lock.is_some() && node == self.this_node {
            self.wanted_again(&volume.id, &["detach"]);
        }
        let server = self.existing_server(node)?;
        let state = self.existing(&volume.id)?;
        let marked = state.mounted_on.clone();
        let outcome = if is_settled(&state, &server) {
            self.record_pair(volume, &state)?;
            self.remember_name(volume);
            Outcome::Already
        } else {
            self.make_attached(volume, &server, sharing, state)?;
            Outcome::Done
        };
        if node == self.this_node {
            self.forget_lost_mark(&volume.id, marked.as_ref());
            self.heal_when_it_shows(volume);
        }
        Ok((self.cloud.link(&volume.id), outcome))
    }

    fn make_attached(
        &self,
        volume: &Volume,
        server: &ServerId,
        sharing: Sharing,
        first: CloudVolume,
    ) -> Result<()> {
        let mut state = first;
        let mut tries = 0;
        let mut refusal: Option<Error> = None;
        // Since when nothing has changed that should: a request in the dark, or a ghost.
        let mut settle = self.settle();
        let mut last = None;
        let mut taken_over = false;
        for step in self.looks() {
            let situation = self.situation(&state, server)?;
            let tries_before = tries;
            if last.replace(situation) != Some(situation) {
                tracing::info!(volume = %volume.id, %server, status = state.status, ?situation, "looked");
            }
            match situation {
                Situation::Attached | Situation::AttachedBusy => {
                    self.forget_answers(&volume.id);
                    return Ok(());
                }
                Situation::Elsewhere if taken_over && !settle.over() => {}
                Situation::Elsewhere => {
                    self.take_over(&state, server)?;
                    taken_over = true;
                    settle = self.settle();
                }
                Situation::Shareable if sharing == Sharing::Alone => {
                    return Err(self.elsewhere(&state, server)?.hint(SHARE));
                }
                Situation::Unusable => return Err(unusable(&state)),
                Situation::Free | Situation::Shareable if tries == 0 || settle.over() => {
                    if tries == TRIES {
                        return Err(undone(volume, server, refusal));
                    }
                    self.record_tenure(volume, &state, server)?;
                    self.remember_name(volume);
                    seam::step("attach.named");
                    tries += 1;
                    settle = self.settle();
                    refusal = self.request_attach(&volume.id, server)?;
                    seam::step("attach.requested");
                }
                Situation::Ghost if settle.over() => return Err(ghost(&state, server)),
                Situation::Forgotten | Situation::ServerGone if settle.over() => {
                    self.take_over(&state, server)?;
                    settle = self.settle();
                }
                Situation::Free
                | Situation::Shareable
                | Situation::Ghost
                | Situation::Forgotten
                | Situation::ServerGone => {}
                Situation::Attaching
                | Situation::Detaching
                | Situation::Busy
                | Situation::BusyElsewhere => {
                    settle = self.settle();
                }
            }
            // Right after a request the first look is free: many clouds, and ours, are done then.
            let has_time = tries > tries_before || self.deadline.pause(jittered(step));
            if !has_time {
                break;
            }
            state = self.existing(&volume.id)?;
        }
        Err(self.still_moving(&state, refusal))
    }

    /// Asks for the attachment. An answer that leaves open what happened is no error here: the
    /// next look tells. A refusal is kept for the message, for the cloud says "no" with the same
    /// code to a second request as to an impossible one.
    fn request_attach(&self, id: &VolumeId, server: &ServerId) -> Result<Option<Error>> {
        tracing::info!(volume = %id, %server, "asking the cloud to attach");
        self.forget_answers(id);
        match self.cloud.attach(id, server, self.deadline) {
            Ok(()) => Ok(None),
            Err(error) => match error.kind {
                Kind::Unreachable | Kind::Timeout | Kind::Busy => {
                    tracing::warn!(volume = %id, %server, %error, "whether the attach was taken is open");
                    Ok(Some(error))
                }
                _ if self.may_have_been_taken(id, server)? => Ok(Some(error)),
                _ => Err(error),
            },
        }
    }

    fn may_have_been_taken(&self, id: &VolumeId, server: &ServerId) -> Result<bool> {
        let state = self.existing(id)?;
        Ok(!matches!(self.situation(&state, server)?, Situation::Free | Situation::Unusable))
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
        let ask = || self.cloud.server(node, self.deadline);
        let server = match self.answers {
            Some(answers) => answers.server(node, self.deadline, ask),
            None => ask(),
        };
        let Some(server) = server? else { return Ok(false) };
        let Some(state) = self.cloud.volume(&volume.id, self.deadline)? else { return Ok(false) };
        let is_attached = match self.situation(&state, &server)? {
            Situation::Attached
            | Situation::AttachedBusy
            | Situation::Attaching
            | Situation::Detaching => true,
            Situation::Free
            | Situation::Elsewhere
            | Situation::Shareable
            | Situation::BusyElsewhere => false,
            Situation::Busy => return Err(self.still_moving(&state, None)),
            Situation::Ghost => return Err(ghost(&state, &server)),
            Situation::Forgotten | Situation::ServerGone => {
                return Err(contradiction(&state, &server));
            }
            Situation::Unusable => return Err(unusable(&state)),
        };
        if is_attached {
            self.record_pair(volume, &state)?;
            self.remember_name_if_unlocked(volume);
        }
        Ok(is_attached)
    }

    /// What the two halves of the cloud say together. The compute service is asked only where
    /// its word matters.
    pub(super) fn situation(&self, state: &CloudVolume, server: &ServerId) -> Result<Situation> {
        let compute = if is_settled(state, server) {
            ComputeView::Mapped
        } else {
            self.cloud.compute_view(&state.id, server, self.deadline)?
        };
        Ok(judge(&block_view(state, server), compute))
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

    /// Records with the volume which name belongs to it, if that is missing: volumes that the
    /// predecessor attached have none.
    pub(super) fn record_pair(&self, volume: &Volume, state: &CloudVolume) -> Result<()> {
        if let Some(name) = &volume.name
            && state.recorded_name.as_ref() != Some(name)
        {
            if let Some(former) = &state.recorded_name {
                tracing::warn!(volume = %volume.id, %former, %name, "the volume goes by another name now");
            }
            self.cloud.record_name(&volume.id, Some(name), self.deadline)?;
        }
        // One that goes by its id is noted too, where nothing else tells that it was ours to attach.
        if volume.name.is_none() && !self.is_known(state) {
            self.cloud.record_name(&volume.id, Some(&volume.id.as_name()), self.deadline)?;
        }
        Ok(())
    }

    /// The same before an attach, with who is to have the volume: a heal must know whether anybody
    /// else had it since it was mounted here.
    fn record_tenure(&self, volume: &Volume, state: &CloudVolume, server: &ServerId) -> Result<()> {
        let last = state.tenure.as_ref();
        if !self.cloud.keeps_marks() || last.is_some_and(|last| last.server == *server) {
            return self.record_pair(volume, state);
        }
        let count = last.map_or(1, |last| last.count.saturating_add(1));
        let tenure = Tenure { server: server.clone(), count };
        let name = volume.name.as_ref().filter(|name| state.recorded_name.as_ref() != Some(*name));
        self.cloud.note_tenure(&volume.id, &tenure, name, self.deadline)
    }

    pub(super) fn still_moving(&self, state: &CloudVolume, refusal: Option<Error>) -> Error {
        let seconds = self.deadline.total().as_secs();
        let (id, status) = (&state.id, &state.status);
        let holders = self.claimed_by(state);
        let last = refusal.map_or_else(String::new, |error| format!(" (it said: {})", error.cause));
        Error::new(
            Kind::Timeout,
            format!("volume {id} is still {status} after {seconds} s{holders}{last}"),
        )
        .hint("the cloud works on it, or lost it: see the volume's events there")
    }
}

/// Finished, and by the one word that is certain.
fn is_settled(state: &CloudVolume, server: &ServerId) -> bool {
    state.status == "in-use" && state.attachment_to(server).is_some()
}

fn block_view(state: &CloudVolume, server: &ServerId) -> BlockView {
    BlockView {
        status: state.status.clone(),
        lists_server: state.attachment_to(server).is_some(),
        lists_others: state.attachments.iter().any(|one| one.server != *server),
        is_shareable: state.is_shareable,
    }
}

fn unusable(state: &CloudVolume) -> Error {
    Error::refused(format!("volume {} is in status {} in the cloud", state.id, state.status))
        .hint("an operator of the cloud must mend it: openstack volume show has the details")
}

fn undone(volume: &Volume, server: &ServerId, refusal: Option<Error>) -> Error {
    let why = refusal.map_or_else(
        || "took the attachment and undid it".to_owned(),
        |error| format!("does not attach: {}", error.cause),
    );
    Error::new(
        Kind::Unreachable,
        format!("for volume {} and server {server} the cloud {why}", volume.id),
    )
    .hint("the server's actions in the cloud have the reason")
}

pub(super) fn ghost(state: &CloudVolume, server: &ServerId) -> Error {
    Error::refused(format!(
        "the compute service maps volume {} to {server}, the block service calls it {}",
        state.id, state.status
    ))
    .hint("an operator of the cloud must remove the mapping")
}
