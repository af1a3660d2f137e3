//! Requests to Nova and Cinder: with a token, with the version that a request needs, and with one
//! new login when the token is refused.

use super::http::{Answer, Http, Method, Request, failed};
use super::keystone;
use super::tokens::{Session, Tokens};
use super::wire::{
    AttachmentsBody, Link, Server, ServerAttachment, ServersBody, Volume, VolumeBody, VolumesBody,
};
use crate::model::error::{Error, Kind, Result};
use crate::model::time::Deadline;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::cell::RefCell;

/// `volume 3.42` grows a volume that is attached; below, only one that is not.
const EXTEND_ATTACHED: &str = "volume 3.42";
/// `compute 2.60` attaches volumes that several servers may have; lower versions are sent
/// otherwise, for they do the job on more clouds.
const ATTACH_SHAREABLE: &str = "compute 2.60";
/// `compute 2.20` works for shelved servers too.
const SHELVED: &str = "compute 2.20";

/// How many pages of a list are read before it counts as endless.
const MOST_PAGES: usize = 50;

#[derive(Clone, Copy)]
enum Service {
    Compute,
    Volume,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Service::Compute => "Nova",
            Service::Volume => "Cinder",
        }
    }
}

/// Nova and Cinder, as one credential sees them.
pub(super) struct Services {
    http: Http,
    tokens: Tokens,
    session: RefCell<Option<Session>>,
}

impl Services {
    pub(super) fn new(http: Http, tokens: Tokens) -> Self {
        Self { http, tokens, session: RefCell::new(None) }
    }

    pub(super) fn volume(&self, id: &str, deadline: Deadline) -> Result<Option<Volume>> {
        let path = format!("/volumes/{id}");
        let found: Option<VolumeBody> = self.get(Service::Volume, &path, deadline)?;
        Ok(found.map(|body| body.volume))
    }

    /// Volumes with this name record in their metadata.
    pub(super) fn volumes_with(
        &self,
        key: &str,
        value: &str,
        deadline: Deadline,
    ) -> Result<Vec<Volume>> {
        let filter = json!({key: value}).to_string().replace('"', "'");
        let path = format!("/volumes/detail?metadata={}", query(&filter));
        let all = self.pages(Service::Volume, &path, deadline, |body: VolumesBody| {
            (body.volumes, body.volumes_links)
        })?;
        // A service that does not know the filter would list every volume.
        Ok(all.into_iter().filter(|v| v.metadata.get(key).is_some_and(|v| v == value)).collect())
    }

    pub(super) fn set_metadata(
        &self,
        id: &str,
        key: &str,
        value: Option<&str>,
        deadline: Deadline,
    ) -> Result<()> {
        let path = format!("/volumes/{id}/metadata");
        let answer = if let Some(value) = value {
            let body = json!({"metadata": {key: value}});
            self.send(Service::Volume, &Method::POST, &path, None, Some(&body), deadline)?
        } else {
            let path = format!("{path}/{key}");
            self.send(Service::Volume, &Method::DELETE, &path, None, None, deadline)?
        };
        match (answer.status, value) {
            (200..=204, _) | (404, None) => Ok(()),
            _ => Err(refused(Service::Volume, &answer)),
        }
    }

    pub(super) fn extend(&self, id: &str, gib: u64, deadline: Deadline) -> Result<()> {
        let path = format!("/volumes/{id}/action");
        let body = json!({"os-extend": {"new_size": gib}});
        let answer = self.send(
            Service::Volume,
            &Method::POST,
            &path,
            Some(EXTEND_ATTACHED),
            Some(&body),
            deadline,
        )?;
        match answer.status {
            202 => Ok(()),
            413 => Err(refused(Service::Volume, &answer).hint("the project's quota is used up")),
            _ => Err(refused(Service::Volume, &answer)),
        }
    }

    pub(super) fn server_exists(&self, id: &str, deadline: Deadline) -> Result<bool> {
        let path = format!("/servers/{id}");
        Ok(self.get::<Value>(Service::Compute, &path, deadline)?.is_some())
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
        let answer = self.send(
            Service::Compute,
            &Method::POST,
            &path,
            Some(version),
            Some(&body),
            deadline,
        )?;
        match answer.status {
            200 | 202 => Ok(()),
            403 => Err(refused(Service::Compute, &answer).hint(
                "is the server at its limit of disks, or the credential not allowed to attach?",
            )),
            _ => Err(refused(Service::Compute, &answer)),
        }
    }

    pub(super) fn detach(&self, server: &str, volume: &str, deadline: Deadline) -> Result<()> {
        let path = format!("/servers/{server}/os-volume_attachments/{volume}");
        let answer =
            self.send(Service::Compute, &Method::DELETE, &path, Some(SHELVED), None, deadline)?;
        match answer.status {
            202 | 204 | 404 => Ok(()),
            _ => Err(refused(Service::Compute, &answer)),
        }
    }

    fn get<T: DeserializeOwned>(
        &self,
        service: Service,
        path: &str,
        deadline: Deadline,
    ) -> Result<Option<T>> {
        let answer = self.send(service, &Method::GET, path, None, None, deadline)?;
        match answer.status {
            200 => serde_json::from_value(answer.body).map(Some).map_err(|error| {
                Error::new(
                    Kind::Unreachable,
                    format!("{} answered what cannot be read: {error}", service.name()),
                )
            }),
            // Only the service's own 404 is an answer; a proxy's page is not.
            404 if answer.body.is_object() => Ok(None),
            _ => Err(refused(service, &answer)),
        }
    }

    fn pages<T: DeserializeOwned, I>(
        &self,
        service: Service,
        path: &str,
        deadline: Deadline,
        split: impl Fn(T) -> (Vec<I>, Vec<Link>),
    ) -> Result<Vec<I>> {
        let mut all = Vec::new();
        let mut path = path.to_owned();
        for _ in 0..MOST_PAGES {
            let body: Option<T> = self.get(service, &path, deadline)?;
            let body = body.ok_or_else(|| {
                Error::new(Kind::Unreachable, format!("{} has no list at {path}", service.name()))
            })?;
            let (items, links) = split(body);
            all.extend(items);
            match links.into_iter().find(|link| link.rel == "next") {
                // Its host may be an inner name: only what follows the `?` is taken.
                Some(next) => {
                    let marker = next.href.split_once('?').map_or("", |(_, query)| query);
                    path = format!("{}?{marker}", path.split('?').next().unwrap_or_default());
                }
                None => return Ok(all),
            }
        }
        Err(Error::new(Kind::Unreachable, format!("{} lists without an end", service.name())))
    }

    fn send(
        &self,
        service: Service,
        method: &Method,
        path: &str,
        version: Option<&str>,
        body: Option<&Value>,
        deadline: Deadline,
    ) -> Result<Answer> {
        let mut session = self.session(deadline)?;
        for is_last in [false, true] {
            let base = match service {
                Service::Compute => &session.compute,
                Service::Volume => &session.volume,
            };
            let answer = self.http.send(
                &Request {
                    method: method.clone(),
                    url: format!("{base}{path}"),
                    service: service.name(),
                    token: Some(&session.token),
                    version: version.map(str::to_owned),
                    body: body.cloned(),
                },
                deadline,
            )?;
            // A 401 comes before anything is done, so that repeating a change is safe.
            if answer.status != 401 || is_last {
                return Ok(answer);
            }
            self.tokens.drop_refused(&session.token);
            self.session.replace(None);
            session = self.session(deadline)?;
        }
        Err(Error::new(Kind::Bug, "a request was neither answered nor given up"))
    }

    /// The session of this process, else the kept one of another, else a new login.
    fn session(&self, deadline: Deadline) -> Result<Session> {
        if let Some(session) = self.session.borrow().clone() {
            return Ok(session);
        }
        let session = if let Some(session) = self.tokens.kept() {
            session
        } else {
            let _turn = self.tokens.turn(deadline);
            // Whoever had the turn before has logged in meanwhile.
            if let Some(session) = self.tokens.kept() {
                session
            } else {
                let session = keystone::log_in(&self.http, deadline)?;
                self.tokens.keep(&session);
                session
            }
        };
        self.session.replace(Some(session.clone()));
        Ok(session)
    }
}

fn refused(service: Service, answer: &Answer) -> Error {
    failed(service.name(), answer)
}

/// A value in a query.
fn query(text: &str) -> String {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes().fold(String::new(), |query, byte| {
        if plain(byte) {
            query + &char::from(byte).to_string()
        } else {
            query + &format!("%{byte:02X}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_escaped() {
        assert_eq!(query("^a.b$"), "%5Ea.b%24");
        assert_eq!(query("{'k': 'v'}"), "%7B%27k%27%3A%20%27v%27%7D");
    }
}
