//! From a request to an answer: the token, the version, the right service.

use super::compute::routes::Outcome;
use super::http::{Request, Response};
use super::identity::Token;
use super::reply::{Answer, Dress, Form, Refusal};
use super::route::{Route, Service};
use super::world::World;
use super::{Shared, compute, identity, ids, metadata, storage};
use std::fmt::Write as _;
use std::time::Duration;

/// A request with what is known about it.
#[derive(Debug)]
pub struct Asked<'a> {
    pub request: &'a Request,
    pub route: &'a Route,
    /// The server's address.
    pub base: String,
    /// Keystone's address.
    pub keystone: String,
    /// The minor of the version asked for, or the lowest.
    pub minor: u32,
    /// The id of this request.
    pub id: String,
    token: Result<Token, Refusal>,
}

impl Asked<'_> {
    /// The token, or the 401.
    pub fn token(&self) -> Result<&Token, Refusal> {
        self.token.as_ref().map_err(Clone::clone)
    }

    /// The token of a user who may change things, or the 403.
    pub fn writer(&self, rule: &str) -> Result<&Token, Refusal> {
        let token = self.token()?;
        if token.may_write() { Ok(token) } else { Err(Refusal::policy(rule)) }
    }

    /// The id of the token's project.
    pub fn project(&self) -> &str {
        let token = self.token.as_ref().ok();
        token.and_then(|token| token.project.as_deref()).unwrap_or_default()
    }

    pub fn own_project(&self, project: &str) -> bool {
        self.project() == project
    }

    /// The region that the path names.
    pub fn region(&self, world: &World) -> String {
        self.route.region.clone().unwrap_or_else(|| world.home_region())
    }

    /// The service's address without a version, as the request named it.
    pub fn service_root(&self) -> String {
        let Route { region, interface, service, .. } = self.route;
        let mut root = self.base.clone();
        for part in [region, interface].into_iter().flatten() {
            let _ = write!(root, "/{part}");
        }
        format!("{root}/{}", service.word())
    }

    /// An address below the service's version, and project if the path has one.
    pub fn link(&self, path: &str) -> String {
        let version = self.route.version.as_deref().unwrap_or_default();
        let project = self.route.project.as_deref().map(|project| format!("/{project}"));
        format!("{}/{version}{}/{path}", self.service_root(), project.unwrap_or_default())
    }

    /// The address of the page after an entry, with the filters of this one (N2).
    pub fn next_page(&self, path: &str, limit: usize, marker: &str) -> String {
        let filters = self.request.target.split_once('?').map_or("", |(_, query)| query);
        let kept: String = filters
            .split('&')
            .filter(|pair| !pair.is_empty())
            .filter(|pair| !pair.starts_with("limit=") && !pair.starts_with("marker="))
            .fold(String::new(), |all, pair| all + "&" + pair);
        format!("{}?limit={limit}{kept}&marker={marker}", self.link(path))
    }

    /// How many entries a page has.
    pub fn limit(&self, most: usize) -> Result<usize, Refusal> {
        let Some(text) = self.request.query("limit") else { return Ok(most) };
        let bad = || Refusal::bad(format!("limit param must be an integer: {text}"));
        let limit: usize = text.parse().map_err(|_| bad())?;
        Ok(if limit == 0 { most } else { limit.min(most) })
    }
}

/// Answers a request to one of the services.
pub fn answer(shared: &Shared, request: &Request, route: &Route) -> Response {
    if route.service == Service::Metadata {
        return metadata::answer(&shared.world(), request, route);
    }
    let id = ids::request();
    let keystone = format!("{}/identity/v3", shared.base);
    let mut world = shared.world();
    let version = match route.service {
        Service::Identity | Service::Metadata => Ok(None),
        Service::Compute => version(request, "compute", 2, world.settings.compute_versions),
        Service::Storage => version(request, "volume", 3, world.settings.storage_versions),
    };
    let token = world.check_token(request.header("X-Auth-Token"));
    let (shown, minor, refusal) = match &version {
        Ok(version) => (version.clone(), version.as_deref().map_or(0, minor_of), None),
        Err((shown, refusal)) => (shown.clone(), 0, Some(refusal.clone())),
    };
    let mut dress = Dress {
        service: route.service,
        version: shown,
        request: id.clone(),
        keystone: keystone.clone(),
    };
    let base = shared.base.clone();
    let asked = Asked { request, route, base, keystone, minor, id, token };
    // The token is looked at before the version (B2 took as long as a check of the token).
    let anonymous = route.version.is_none() || route.service == Service::Identity;
    let outcome = match (asked.token(), refusal) {
        (Err(unauthorized), _) if !anonymous => Outcome::Now(Err(unauthorized)),
        (_, Some(refusal)) => Outcome::Now(Err(refusal)),
        _ => match route.service {
            Service::Identity => Outcome::Now(identity::routes::answer(&mut world, &asked)),
            Service::Storage => Outcome::Now(storage::routes::answer(&mut world, &asked)),
            _ => compute::routes::answer(&mut world, &asked),
        },
    };
    drop(world);
    let answer = match outcome {
        Outcome::Now(answer) => answer,
        Outcome::Wait(ticket) => wait_for_host(shared, &asked, ticket),
    };
    if let Err(refusal) = &answer
        && refusal.form == Form::Token
    {
        dress.version = None;
    }
    dress.response(answer)
}

/// An attach is answered only when the server's host has reserved a device for it.
fn wait_for_host(shared: &Shared, asked: &Asked<'_>, ticket: compute::attach::Ticket) -> Answer {
    let mut world = shared.world();
    loop {
        world.settle();
        if world.is_answered(&ticket) {
            return world.finish_attach(asked, ticket);
        }
        if shared.is_stopping() {
            return Err(Refusal::new(500, "the server stops"));
        }
        world = world.wait(Duration::from_millis(20));
    }
}

fn minor_of(version: &str) -> u32 {
    version.split_once('.').and_then(|(_, minor)| minor.parse().ok()).unwrap_or(0)
}

/// The version that a request asks for, or the version to name in a refusal, and the refusal.
fn version(
    request: &Request,
    word: &str,
    major: u32,
    (lowest, highest): (u32, u32),
) -> Result<Option<String>, (Option<String>, Refusal)> {
    let header = request.header("OpenStack-API-Version").unwrap_or_default();
    let of_word = |text: &str| text.trim().strip_prefix(word).map(|rest| rest.trim().to_owned());
    let wanted = header.split(',').find_map(of_word);
    let Some(wanted) = wanted else { return Ok(Some(format!("{major}.{lowest}"))) };
    let parts = wanted.split_once('.').map(|(a, b)| (a.parse::<u32>(), b.parse::<u32>()));
    let Some((Ok(asked_major), Ok(minor))) = parts else {
        return Err((None, Refusal::bad("API Version String is of invalid format.")));
    };
    if asked_major != major || minor < lowest || minor > highest {
        let text = format!(
            "Version {wanted} is not supported by the API. Minimum is {major}.{lowest} and maximum \
             is {major}.{highest}."
        );
        return Err((Some(wanted), Refusal::new(406, text)));
    }
    Ok(Some(wanted))
}
