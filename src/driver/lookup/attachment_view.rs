//! What the cloud says of a volume and a server: one view, put together of both of its halves, and how
//! far each is believed.

use crate::cloud::{Cloud, CloudVolume};
use crate::host::clock::Deadline;
use crate::host::pace::{Change, Pace};
use crate::host::shared_answers::Answers;
use crate::model::cloud::attachment_state::{BlockView, ComputeView, Situation, judge};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId};
use crate::model::pauses::Looks;
use std::time::{Duration, Instant};

/// A call whose time is up may ask this long for a better message.
const LAST_QUESTION: Duration = Duration::from_secs(1);

/// Whose word for a finished attachment is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::driver) enum Trust {
    /// The block service's, which lists it.
    Listing,
    /// The same, and what it is busy with is the request of this call, which the compute service took.
    Own,
    /// Not one without the other: the compute service may have lost it.
    Both,
}

/// How the cloud is asked which server a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::driver) enum Asking {
    /// Once for all calls that ask at the same time.
    Shared,
    /// By each call for itself.
    Anew,
}

/// What the cloud says of volumes and servers.
pub(in crate::driver) struct Attachments<'a> {
    pub(in crate::driver) cloud: &'a dyn Cloud,
    pub(in crate::driver) answers: Option<&'a Answers>,
    pub(in crate::driver) pace: Option<&'a Pace>,
    pub(in crate::driver) deadline: Deadline,
}

impl Attachments<'_> {
    /// Does something at the node's server. Which server that is was mostly asked a moment ago: then
    /// it is asked anew only where the answer would be wrong if it was another one by now.
    pub(in crate::driver) fn at_server_of<T>(
        &self,
        node: &NodeName,
        sight: Asking,
        needs_proof: impl Fn(&Result<T>) -> bool,
        act: impl Fn(Option<&ServerId>) -> Result<T>,
    ) -> Result<T> {
        let ask = || self.cloud.server(node, self.deadline);
        let asked = || match (self.answers, sight) {
            (Some(answers), Asking::Shared) => answers.server(node, self.deadline, ask),
            (Some(answers), Asking::Anew) => ask().inspect(|server| {
                if let Some(server) = server {
                    answers.is_server(node, server);
                }
            }),
            (None, _) => ask(),
        };
        let Some(recent) = self.answers.and_then(|answers| answers.recent_server(node)) else {
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

    /// What the two halves of the cloud say together. The compute service is asked only where
    /// its word matters.
    pub(in crate::driver) fn situation(
        &self,
        state: &CloudVolume,
        server: &ServerId,
        trust: Trust,
    ) -> Result<Situation> {
        let is_moving = matches!(state.status.as_str(), "reserved" | "attaching" | "detaching");
        let is_certain = match trust {
            Trust::Both => false,
            Trust::Listing => is_settled(state, server),
            Trust::Own => is_settled(state, server) || is_moving,
        };
        let compute = if is_certain {
            ComputeView::Mapped
        } else {
            self.cloud.compute_view(&state.id, server, self.deadline)?
        };
        Ok(judge(&block_view(state, server), compute))
    }

    /// The volume as the cloud has it; a missing one is an error.
    pub(in crate::driver) fn existing(&self, id: &VolumeId) -> Result<CloudVolume> {
        self.cloud.volume(id, self.deadline)?.ok_or_else(|| {
            Error::new(Kind::Missing, format!("volume {id} does not exist in the cloud"))
                .hint("is volumeID right, and of this project and region?")
        })
    }

    pub(in crate::driver) fn existing_server(&self, node: &NodeName) -> Result<ServerId> {
        self.cloud.server(node, self.deadline)?.ok_or_else(|| no_server(node))
    }

    pub(in crate::driver) fn still_moving(
        &self,
        state: &CloudVolume,
        refusal: Option<Error>,
    ) -> Error {
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

    /// Who holds a volume that does not become free, for a message.
    fn claimed_by(&self, state: &CloudVolume) -> String {
        if !matches!(state.status.as_str(), "reserved" | "attaching") {
            return String::new();
        }
        let claims = match self.cloud.claims(&state.id, Deadline::after(LAST_QUESTION)) {
            Ok(claims) => claims,
            Err(error) => {
                tracing::debug!(%error, "who holds the volume is not known");
                return String::new();
            }
        };
        let describe = |claim: crate::cloud::Claim| {
            let server = claim.server.map_or_else(|| "nobody".to_owned(), |s| s.to_string());
            format!("attachment {} ({}) for server {server}", claim.id, claim.status)
        };
        let claims: Vec<_> = claims.into_iter().map(describe).collect();
        if claims.is_empty() { String::new() } else { format!(", held by {}", claims.join(", ")) }
    }

    /// What was answered about the volume is about to change.
    pub(in crate::driver) fn forget_answers(&self, id: &VolumeId) {
        if let Some(answers) = self.answers {
            answers.forget(id);
        }
    }

    /// How long the cloud may show nothing of a request, or contradict itself, before it counts.
    /// Nova's row of a mapping dies moments after Cinder calls the volume available; a ghost stays.
    pub(in crate::driver) fn settle(&self) -> Deadline {
        const LONG_ENOUGH: Duration = Duration::from_secs(10);
        Deadline::after(LONG_ENOUGH.min(self.deadline.total() / 2))
    }

    /// The pauses between looks at a change that this call has just asked the cloud for.
    pub(in crate::driver) fn looks_at(&self, change: Change) -> Looks {
        Looks::at(self.pace.and_then(|pace| pace.usual(change)), self.deadline.total())
    }

    /// The cloud took this long for a change.
    pub(in crate::driver) fn note_pace(&self, change: Change, asked: Instant) {
        if let Some(pace) = self.pace {
            pace.took(change, asked.elapsed());
        }
    }

    /// The pauses between looks at the cloud, for whatever it is busy with.
    pub(in crate::driver) fn looks(&self) -> Looks {
        Looks::at_others(self.deadline.total())
    }
}

pub(in crate::driver) fn no_server(node: &NodeName) -> Error {
    Error::new(Kind::Missing, format!("the cloud knows no server for node {node}"))
}

/// A look that failed, behind what was learned before: that is what a person needs to know.
pub(in crate::driver) fn after_all(
    state: &CloudVolume,
    refusal: Option<&Error>,
    error: Error,
) -> Error {
    if !matches!(error.kind, Kind::Unreachable | Kind::Timeout | Kind::Busy) {
        return error;
    }
    let (id, status, then) = (&state.id, &state.status, &error.cause);
    let said = refusal.map_or_else(String::new, |refusal| format!(" ({})", refusal.cause));
    let cause = format!("volume {id} was {status} when it was last seen{said}; then {then}");
    Error { cause, ..error }
}

/// Finished, and by the one word that is certain.
pub(in crate::driver) fn is_settled(state: &CloudVolume, server: &ServerId) -> bool {
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
