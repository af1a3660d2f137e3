//! Requests to the compute service.

use super::http::{HttpAnswer, Method};
use super::services::{Ask, Service, Services, Version, refused};
use super::wire::{Action, Event, Server, ServerAttachment, ServersBody};
use super::words;
use crate::model::cloud::request::Work;
use crate::model::error::{Error, Kind, Result};
use crate::model::sorting::sort_by_key;
use crate::model::text::percent_encoded;
use crate::ports::clock::Deadline;
use serde_json::json;

/// `compute 2.60` attaches volumes that several servers may have; lower versions are sent
/// otherwise, for they do the job on more clouds.
const ATTACH_SHAREABLE: Version =
    Version::Needed("compute 2.60", "a volume that several servers may have");

/// `compute 2.58` tells with a list when each action was last worked on.
const WITH_UPDATES: Version = Version::Better("compute 2.58");

/// `compute 2.51` shows an action's events to every user.
const WITH_EVENTS: Version = Version::Better("compute 2.51");

/// So many of a server's newest actions are looked at for one that is still worked on.
const MOST_UNDER_WAY: usize = 4;

/// What the service says of a volume and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MappingAnswer {
    /// The volume is mapped to the server.
    There,
    /// The server exists, and has no such volume.
    NotAtServer,
    /// No such pair: there may be no such server.
    Missing,
}

/// `compute 2.20` works for shelved servers too.
const SHELVED: Version = Version::Better("compute 2.20");

impl Services {
    /// The server; nothing if the service knows none of that id in our project.
    pub(super) fn compute_server(&self, id: &str, deadline: Deadline) -> Result<Option<Server>> {
        let path = format!("/servers/{id}");
        let member = (path.as_str(), "server");
        let found: Option<Server> = self.get(Service::Compute, member, Version::Any, deadline)?;
        if let Some(server) = &found {
            Service::Compute.answers_about("server", id, &server.id)?;
        }
        Ok(found)
    }

    /// Servers whose name is exactly this one. The service takes a regular expression that it
    /// neither anchors nor compares by case.
    pub(super) fn servers_named(&self, name: &str, deadline: Deadline) -> Result<Vec<Server>> {
        let pattern = format!("^{}$", name.replace('.', "\\."));
        let path = format!("/servers?name={}", percent_encoded(&pattern));
        let all = self.pages(Service::Compute, &path, deadline, |body: ServersBody| {
            (body.servers, body.servers_links)
        })?;
        Ok(all.into_iter().filter(|server| server.name == name).collect())
    }

    pub(super) fn attachments_of(
        &self,
        server: &str,
        deadline: Deadline,
    ) -> Result<Option<Vec<ServerAttachment>>> {
        let path = format!("/servers/{server}/os-volume_attachments");
        let member = (path.as_str(), "volumeAttachments");
        let found: Option<Vec<ServerAttachment>> =
            self.get(Service::Compute, member, Version::Any, deadline)?;
        for one in found.iter().flatten().filter_map(|one| one.server.as_deref()) {
            Service::Compute.answers_about("server", server, one)?;
        }
        Ok(found)
    }

    /// Whether the volume is mapped to the server.
    pub(super) fn mapping(
        &self,
        server: &str,
        volume: &str,
        deadline: Deadline,
    ) -> Result<MappingAnswer> {
        let path = &format!("/servers/{server}/os-volume_attachments/{volume}");
        let (service, version) = (Service::Compute, Version::Any);
        let ask = Ask { service, method: Method::GET, path, version, body: None };
        let answer = self.send(&ask, deadline)?;
        match answer.status {
            200 => {
                let found: ServerAttachment =
                    self.read_in(service, answer.body, "volumeAttachment")?;
                service.answers_about("volume", volume, &found.volume)?;
                if let Some(other) = &found.server {
                    service.answers_about("server", server, other)?;
                }
                Ok(MappingAnswer::There)
            }
            // Only the service's own 404 is an answer; a proxy's page is not.
            404 if answer.body.is_object() => {
                // It looks for the server first: these words say that it has found it.
                let has_server = answer.words.contains("is not attached to volume");
                Ok(if has_server { MappingAnswer::NotAtServer } else { MappingAnswer::Missing })
            }
            _ => Err(refused(Service::Compute, &answer)),
        }
    }

    /// What the server's host does, by the history that the service keeps of the server: of each
    /// request that the host works on it says when that began, and when it ended.
    pub(super) fn work_at(&self, server: &str, deadline: Deadline) -> Result<Work> {
        let path = format!("/servers/{server}/os-instance-actions");
        let member = (path.as_str(), "instanceActions");
        let listed: Option<Vec<Action>> =
            self.get(Service::Compute, member, WITH_UPDATES, deadline)?;
        let mut actions = listed.unwrap_or_default();
        actions.retain(|action| action.started().is_some());
        sort_by_key(&mut actions, |action| std::cmp::Reverse(action.started()));
        let mut last = actions.iter().filter_map(Action::last_sign).max();
        // One that is still worked on is among the newest: the host takes one after the other.
        for action in actions.iter().take(MOST_UNDER_WAY) {
            let path = format!(
                "/servers/{server}/os-instance-actions/{}",
                percent_encoded(&action.request)
            );
            let member = (path.as_str(), "instanceAction");
            let shown: Option<Action> =
                self.get(Service::Compute, member, WITH_EVENTS, deadline)?;
            let Some(events) = shown.and_then(|action| action.events) else { continue };
            if events.iter().any(|event| event.finish_time.is_none()) {
                return Ok(Work::UnderWay);
            }
            last = last.max(events.iter().filter_map(Event::finished).max());
        }
        Ok(last.map_or(Work::NoneKnown, Work::EndedAt))
    }

    pub(super) fn attach(
        &self,
        server: &str,
        volume: &str,
        is_shareable: bool,
        deadline: Deadline,
    ) -> Result<()> {
        let path = format!("/servers/{server}/os-volume_attachments");
        let body = json!({"volumeAttachment": {"volumeId": volume}});
        let version = if is_shareable { ATTACH_SHAREABLE } else { SHELVED };
        let ask = Ask {
            service: Service::Compute,
            method: Method::POST,
            path: &path,
            version,
            body: Some(&body),
        };
        let answer = self.send(&ask, deadline)?;
        match answer.status {
            200 | 202 => Ok(()),
            _ if is_full(&answer) => Err(self.full(server, &answer, deadline)),
            403 => Err(refused(Service::Compute, &answer)
                .hint("the credential's role does not allow to attach volumes")),
            _ => Err(refused_change(server, &answer)),
        }
    }

    pub(super) fn detach(&self, server: &str, volume: &str, deadline: Deadline) -> Result<()> {
        let path = format!("/servers/{server}/os-volume_attachments/{volume}");
        let ask = Ask {
            service: Service::Compute,
            method: Method::DELETE,
            path: &path,
            version: SHELVED,
            body: None,
        };
        let answer = self.send(&ask, deadline)?;
        match answer.status {
            202 | 204 => Ok(()),
            _ => Err(refused_change(server, &answer)),
        }
    }

    /// The server has as many disks as it may have. The cloud's words name the limit; how many
    /// there are is counted, for both tell what to do.
    fn full(&self, server: &str, answer: &HttpAnswer, deadline: Deadline) -> Error {
        let count = self.attachments_of(server, deadline).ok().flatten().map(|all| all.len());
        let count = count.map_or_else(|| "an unknown number of".to_owned(), |n| n.to_string());
        let error = refused(Service::Compute, answer);
        Error::refused(format!(
            "server {server} has {count} volumes, and no more fit: {}",
            error.cause
        ))
        .hint("detach volumes from that node, move pods to another, or have the limit raised")
    }
}

/// A change that Nova refused. Where it refuses because of the server's state, asking again within a call is no use.
fn refused_change(server: &str, answer: &HttpAnswer) -> Error {
    let error = refused(Service::Compute, answer);
    match words::advice_on_server(server, answer.status, &answer.words) {
        Some(advice) => Error { kind: Kind::Barred, ..error }.hint(advice),
        None => error,
    }
}

/// In the words of Nova's own limit, and of hypervisors that run out of letters.
fn is_full(answer: &HttpAnswer) -> bool {
    let words = answer.words.to_lowercase();
    let is_limit = words.contains("maximum allowed number of disk devices");
    (answer.status == 403 && is_limit) || words.contains("no free disk device names")
}
