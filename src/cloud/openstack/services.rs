//! Requests to Nova and Cinder: with a token, with the version that a request needs, and with one
//! new login when the token is refused.

use super::catalog::RegionEndpoints;
use super::http::{Http, HttpAnswer, Method, Request, failed, host_of};
use super::keystone;
use super::tokens::{Session, Tokens};
use super::wire::NextPage;
use crate::model::cloud::access::Access;
use crate::model::error::{Error, Kind, Result};
use crate::ports::clock::Deadline;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::cell::{Cell, RefCell};

/// How many pages of a list are read before it counts as endless.
const MOST_PAGES: usize = 50;

#[derive(Clone, Copy)]
pub(super) enum Service {
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

    /// An answer about another thing than the one that was asked about is not believed.
    pub(super) fn answers_about(self, what: &str, asked: &str, answered: &str) -> Result<()> {
        /// No id is longer; what is, is not shown.
        const LONGEST: usize = 128;
        // An id is found in whichever case it is written.
        if asked.eq_ignore_ascii_case(answered) {
            return Ok(());
        }
        let other = if answered.len() > LONGEST { "another" } else { answered };
        let name = self.name();
        Err(Error::new(
            Kind::Unreachable,
            format!("{name} was asked for {what} {asked}, and answered with {what} {other}"),
        )
        .hint("that answer is not believed; see what stands between this machine and the service"))
    }
}

/// The version of a service's interface that a request needs.
#[derive(Clone, Copy)]
pub(super) enum Version {
    /// Whatever the service has.
    Any,
    /// One that does more, where the service has it.
    Better(&'static str),
    /// One without which the request means something else; and what it is needed for.
    Needed(&'static str, &'static str),
}

/// A request to one of the services.
pub(super) struct Ask<'a> {
    pub(super) service: Service,
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) version: Version,
    pub(super) body: Option<&'a Value>,
}

/// Nova and Cinder, as one credential sees them.
pub(super) struct Services {
    http: Http,
    tokens: Tokens,
    session: RefCell<Option<Session>>,
    /// Which of the session's regions is asked.
    place: Cell<usize>,
}

impl Services {
    pub(super) fn new(http: Http, tokens: Tokens) -> Self {
        Self { http, tokens, session: RefCell::new(None), place: Cell::new(0) }
    }

    /// One member of the reply, such as `volume`.
    pub(super) fn get<T: DeserializeOwned>(
        &self,
        service: Service,
        (path, member): (&str, &str),
        version: Version,
        deadline: Deadline,
    ) -> Result<Option<T>> {
        let body = self.body(service, path, version, deadline)?;
        body.map(|body| self.read_in(service, body, member)).transpose()
    }

    fn body(
        &self,
        service: Service,
        path: &str,
        version: Version,
        deadline: Deadline,
    ) -> Result<Option<Value>> {
        let ask = Ask { service, method: Method::GET, path, version, body: None };
        let answer = self.send(&ask, deadline)?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            // Only the service's own 404 is an answer; a proxy's page is not.
            404 if answer.body.is_object() => Ok(None),
            _ => Err(refused(service, &answer)),
        }
    }

    /// One member of a body.
    pub(super) fn read_in<T: DeserializeOwned>(
        &self,
        service: Service,
        mut body: Value,
        member: &str,
    ) -> Result<T> {
        self.read(service, body.get_mut(member).map(Value::take).unwrap_or_default())
    }

    /// A body as what was asked for.
    pub(super) fn read<T: DeserializeOwned>(&self, service: Service, body: Value) -> Result<T> {
        serde_json::from_value(body).map_err(|error| {
            // The error quotes the reply.
            let why = self.http.secrets().text_without(&error.to_string());
            Error::new(
                Kind::Unreachable,
                format!("{} answered what cannot be read: {why}", service.name()),
            )
        })
    }

    pub(super) fn pages<T: DeserializeOwned, I>(
        &self,
        service: Service,
        path: &str,
        deadline: Deadline,
        split: impl Fn(T) -> (Vec<I>, Vec<NextPage>),
    ) -> Result<Vec<I>> {
        let mut all = Vec::new();
        let mut path = path.to_owned();
        for _ in 0..MOST_PAGES {
            let body = self.body(service, &path, Version::Any, deadline)?.ok_or_else(|| {
                Error::new(Kind::Unreachable, format!("{} has no list at {path}", service.name()))
            })?;
            let (items, links) = split(self.read(service, body)?);
            all.extend(items);
            match links.into_iter().find(|link| link.rel == "next") {
                // Its host may be an inner name: only what follows the `?` is taken.
                Some(next) => {
                    let marker = next.href.split_once('?').map_or("", |(_, query)| query);
                    let after = format!("{}?{marker}", path.split('?').next().unwrap_or_default());
                    if after == path {
                        break;
                    }
                    path = after;
                }
                None => return Ok(all),
            }
        }
        Err(Error::new(Kind::Unreachable, format!("{} lists without an end", service.name())))
    }

    /// Sends a request in the version that it needs. A service that does not have the version says
    /// so before it does anything.
    pub(super) fn send(&self, ask: &Ask<'_>, deadline: Deadline) -> Result<HttpAnswer> {
        match ask.version {
            Version::Any => self.send_as(ask, None, deadline),
            Version::Better(version) => {
                let answer = self.send_as(ask, Some(version), deadline)?;
                if answer.status == 406 { self.send_as(ask, None, deadline) } else { Ok(answer) }
            }
            Version::Needed(version, for_what) => {
                let answer = self.send_as(ask, Some(version), deadline)?;
                if answer.status != 406 {
                    return Ok(answer);
                }
                let (service, words) = (ask.service.name(), &answer.words);
                Err(Error::refused(format!(
                    "this cloud's {service} is too old for {for_what}: {words}"
                ))
                .hint(format!("it would need {version}")))
            }
        }
    }

    fn send_as(
        &self,
        ask: &Ask<'_>,
        version: Option<&'static str>,
        deadline: Deadline,
    ) -> Result<HttpAnswer> {
        let mut session = self.session(deadline)?;
        for is_last in [false, true] {
            let place = session.places.get(self.place.get()).or_else(|| session.places.first());
            let place = place.ok_or_else(|| Error::new(Kind::Bug, "a session without a place"))?;
            let base = self.base(place, ask.service)?;
            let answer = self.http.send(
                &Request {
                    method: ask.method.clone(),
                    url: format!("{base}{}", ask.path),
                    service: ask.service.name(),
                    about: thing_of(ask.path),
                    is_repeatable: ask.method == Method::GET,
                    token: Some(&session.token),
                    version: version.map(str::to_owned),
                    body: ask.body.cloned(),
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

    /// The address of a service in a region, if a token may go there: each request with one comes by here.
    fn base<'a>(&self, place: &'a RegionEndpoints, service: Service) -> Result<&'a str> {
        if let Some(why) = &place.unfit {
            return Err(Error::new(Kind::Config, why.clone()));
        }
        let base = match service {
            Service::Compute => &place.compute,
            Service::Volume => &place.volume,
        };
        if self.access().trusts(base) {
            return Ok(base);
        }
        let (name, host) = (service.name(), host_of(base));
        Err(Error::refused(format!(
            "the cloud's catalog has {name} at {host} without TLS, and the login has TLS: the token would go there in the clear"
        ))
        .hint("have the catalog corrected; if each network on the way is trusted: openstack.http_services = true"))
    }

    /// The regions that the credential sees, ours first.
    pub(super) fn regions(&self, deadline: Deadline) -> Result<Vec<Option<String>>> {
        Ok(self.session(deadline)?.places.into_iter().map(|place| place.region).collect())
    }

    /// From now on the services of this region are asked, by its number among the regions.
    pub(super) fn go_to(&self, place: usize) {
        self.place.set(place);
    }

    /// The number of the region that is asked.
    pub(super) fn here(&self) -> usize {
        self.place.get()
    }

    pub(super) fn ahead(&self) -> Option<i64> {
        self.http.ahead()
    }

    pub(super) fn access(&self) -> &Access {
        self.http.access()
    }

    /// The session of this process, else the kept one of another, else a new login.
    fn session(&self, deadline: Deadline) -> Result<Session> {
        if let Some(session) = self.session.borrow().clone() {
            return Ok(session);
        }
        let session = if let Some(session) = self.tokens.kept() {
            session
        } else {
            let _turn = self.tokens.turn(deadline, || self.http.cloud_is_well());
            // The process that had the turn before has logged in meanwhile.
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

pub(super) fn refused(service: Service, answer: &HttpAnswer) -> Error {
    failed(service.name(), answer)
}

/// The one server, volume or attachment that a path is about.
fn thing_of(path: &str) -> &str {
    let end = path.match_indices(['/', '?']).nth(2).map_or(path.len(), |(at, _)| at);
    path[..end].trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_about_one_thing() {
        for (path, thing) in [
            ("/servers/s1/os-volume_attachments/v1", "servers/s1"),
            ("/volumes/v1/action", "volumes/v1"),
            ("/attachments/a1", "attachments/a1"),
            ("/servers", "servers"),
        ] {
            assert_eq!(thing_of(path), thing);
        }
    }
}
