//! Requests to the compute service.

use super::http::{Answer, Method, words};
use super::services::{Ask, Service, Services, Version, query, refused};
use super::wire::{AttachmentsBody, Server, ServerAttachment, ServerBody, ServersBody};
use crate::model::error::{Error, Result};
use crate::model::time::Deadline;
use serde_json::{Value, json};

/// `compute 2.60` attaches volumes that several servers may have; lower versions are sent
/// otherwise, for they do the job on more clouds.
const ATTACH_SHAREABLE: Version =
    Version::Needed("compute 2.60", "a volume that several servers may have");

/// `compute 2.20` works for shelved servers too.
const SHELVED: Version = Version::Better("compute 2.20");

impl Services {
    /// The server; nothing if the service knows none of that id in our project.
    pub(super) fn compute_server(&self, id: &str, deadline: Deadline) -> Result<Option<Server>> {
        let path = format!("/servers/{id}");
        let found: Option<ServerBody> = self.get(Service::Compute, &path, deadline)?;
        Ok(found.map(|body| body.server))
    }

    /// Servers whose name is exactly this one. The service takes a regular expression that it
    /// neither anchors nor compares by case.
    pub(super) fn servers_named(&self, name: &str, deadline: Deadline) -> Result<Vec<Server>> {
        let pattern = format!("^{}$", name.replace('.', "\\."));
        let path = format!("/servers?name={}", query(&pattern));
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
        let found: Option<AttachmentsBody> = self.get(Service::Compute, &path, deadline)?;
        Ok(found.map(|body| body.attachments))
    }

    /// Whether the volume is mapped to the server; a 404 may mean the server too.
    pub(super) fn is_mapped(&self, server: &str, volume: &str, deadline: Deadline) -> Result<bool> {
        let path = format!("/servers/{server}/os-volume_attachments/{volume}");
        Ok(self.get::<Value>(Service::Compute, &path, deadline)?.is_some())
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
            _ => Err(refused(Service::Compute, &answer)),
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
            202 | 204 | 404 => Ok(()),
            _ => Err(refused(Service::Compute, &answer)),
        }
    }

    /// The server has as many disks as it may have. The cloud's words name the limit; how many
    /// there are is counted, for both tell what to do.
    fn full(&self, server: &str, answer: &Answer, deadline: Deadline) -> Error {
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

/// In the words of Nova's own limit, and of hypervisors that run out of letters.
fn is_full(answer: &Answer) -> bool {
    let words = words(&answer.body).to_lowercase();
    let is_limit = words.contains("maximum allowed number of disk devices");
    (answer.status == 403 && is_limit) || words.contains("no free disk device names")
}
