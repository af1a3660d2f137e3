//! What came in: every request in order, and figures about them.

use super::http::Request;
use super::route::{Route, Service};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Everything that came in since the last reset.
#[derive(Debug)]
pub struct Traffic {
    start: Instant,
    log: Vec<Entry>,
    /// Requests that are being answered.
    open: u64,
    most_open: u64,
    /// Requests that a fault keeps without an answer.
    held: u64,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Entry {
    pub service: Service,
    pub region: Option<String>,
    pub interface: Option<String>,
    /// The method and the route with its ids replaced, such as `GET volume/volumes/{volume}`.
    pub route: String,
    pub method: String,
    /// The target as it was written.
    pub target: String,
    /// The version that was asked for.
    pub version: Option<String>,
    /// The volume that an attach or detach is about.
    pub volume: Option<String>,
    /// The answer's status; none if there was none.
    pub status: Option<u16>,
    arrived: Duration,
}

/// Figures about what came in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    pub total: u64,
    /// By method and route.
    pub routes: BTreeMap<String, u64>,
    /// By `identity`, `compute`, `volume`, `metadata`.
    pub services: BTreeMap<String, u64>,
    /// By status; requests without an answer are `none`.
    pub statuses: BTreeMap<String, u64>,
    /// Tokens asked for.
    pub logins: u64,
    /// Requests to attach, by volume.
    pub attaches: BTreeMap<String, u64>,
    /// Requests to detach, by volume.
    pub detaches: BTreeMap<String, u64>,
    /// Most requests in any second.
    pub peak_per_second: u64,
    /// Most requests that were being answered at once.
    pub peak_at_once: u64,
}

impl Counters {
    /// How often a route was asked for.
    pub fn route(&self, route: &str) -> u64 {
        self.routes.get(route).copied().unwrap_or(0)
    }

    /// How often a service was asked.
    pub fn service(&self, word: &str) -> u64 {
        self.services.get(word).copied().unwrap_or(0)
    }
}

impl Default for Traffic {
    fn default() -> Self {
        Self { start: Instant::now(), log: Vec::new(), open: 0, most_open: 0, held: 0 }
    }
}

impl Traffic {
    /// A request came in; gives its place in the log.
    pub fn arrive(&mut self, request: &Request, route: &Route) -> usize {
        self.open += 1;
        self.most_open = self.most_open.max(self.open);
        let arrived = self.start.elapsed();
        let version = request.header("OpenStack-API-Version");
        self.log.push(Entry {
            service: route.service,
            region: route.region.clone(),
            interface: route.interface.clone(),
            route: route.label(&request.method),
            method: request.method.clone(),
            target: request.target.clone(),
            version: version.map(str::to_owned),
            volume: volume(request, route),
            status: None,
            arrived,
        });
        self.log.len() - 1
    }

    /// It was answered, or its connection was cut.
    pub fn leave(&mut self, place: usize, status: Option<u16>) {
        self.open = self.open.saturating_sub(1);
        if let Some(entry) = self.log.get_mut(place) {
            entry.status = status;
        }
    }

    /// A fault keeps a request without an answer; later it lets go.
    pub fn hold(&mut self, more: bool) {
        self.held = if more { self.held + 1 } else { self.held.saturating_sub(1) };
    }

    /// How many requests are kept without an answer.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// How many came in within the last second and were not sent away with 429.
    pub fn last_second(&self) -> usize {
        let now = self.start.elapsed();
        let recent = |entry: &&Entry| now.saturating_sub(entry.arrived) < Duration::from_secs(1);
        let recent = self.log.iter().rev().take_while(recent);
        recent.filter(|entry| entry.status != Some(429)).count()
    }

    /// Forgets what came in; what is being answered still counts as such.
    pub fn reset(&mut self) {
        self.log.clear();
        self.most_open = self.open;
    }

    pub fn log(&self) -> &[Entry] {
        &self.log
    }

    pub fn counters(&self) -> Counters {
        let mut counters = Counters { peak_at_once: self.most_open, ..Counters::default() };
        for (at, entry) in self.log.iter().enumerate() {
            counters.total += 1;
            *counters.routes.entry(entry.route.clone()).or_default() += 1;
            *counters.services.entry(entry.service.word().to_owned()).or_default() += 1;
            let status =
                entry.status.map_or_else(|| "none".to_owned(), |status| status.to_string());
            *counters.statuses.entry(status).or_default() += 1;
            counters.logins += u64::from(entry.route == "POST identity/auth/tokens");
            if let Some(volume) = &entry.volume {
                let by_volume = match entry.method.as_str() {
                    "POST" => &mut counters.attaches,
                    _ => &mut counters.detaches,
                };
                *by_volume.entry(volume.clone()).or_default() += 1;
            }
            let end = entry.arrived + Duration::from_secs(1);
            let within = self.log[at..].iter().take_while(|later| later.arrived < end).count();
            counters.peak_per_second = counters.peak_per_second.max(within as u64);
        }
        counters
    }
}

/// The volume that a request attaches or detaches.
fn volume(request: &Request, route: &Route) -> Option<String> {
    match (request.method.as_str(), &route.words()[..]) {
        ("POST", ["servers", _, "os-volume_attachments"]) => {
            let id = request.json()?.pointer("/volumeAttachment/volumeId")?.as_str()?.to_owned();
            Some(id)
        }
        ("DELETE", ["servers", _, "os-volume_attachments", volume]) => Some((*volume).to_owned()),
        _ => None,
    }
}
