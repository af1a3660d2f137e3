//! What the processes of one machine share: the driver's gate, its queues and its token, without the files.

use super::adaptive::Bucket;
use super::before::{self, OldGate};
use super::clock::{Micros, span};
use incloud_disk::model::cloud::access::Limits;
use incloud_disk::model::cloud::asking::gate::{Booked, CallTime, Gate, Heard};
use incloud_disk::model::cloud::asking::places::Capacity;
use incloud_disk::model::cloud::asking::session;
use std::collections::BTreeMap;
use std::time::Duration;

/// A request that is under way for longer than this does not hold up those of others.
pub const COUNTS_FOR: Duration = Duration::from_secs(5);

pub enum Gates {
    Now(Gate),
    Before(OldGate),
}

impl Gates {
    pub fn closed(&self, service: &'static str, now: f64) -> Option<Duration> {
        match self {
            Self::Now(gate) => gate.closed(service, now).map(|(wait, _)| wait),
            Self::Before(gate) => gate.closed(service, now),
        }
    }

    pub fn at_once(&self, limits: Limits) -> usize {
        match self {
            Self::Now(gate) => gate.at_once(limits),
            Self::Before(_) => limits.at_once,
        }
    }

    pub fn patience(&self, call: CallTime, limits: Limits) -> Duration {
        match self {
            Self::Now(gate) => gate.patience(call, limits),
            Self::Before(_) => call.left,
        }
    }

    pub fn book(
        &mut self,
        service: &'static str,
        now: f64,
        limits: Limits,
        patience: Duration,
    ) -> Booked {
        match self {
            Self::Now(gate) => gate.book(service, now, limits, patience),
            Self::Before(gate) => gate.book(service, now, limits, patience),
        }
    }

    pub fn report(
        &mut self,
        service: &'static str,
        heard: Heard<'_>,
        sent: f64,
        now: f64,
        limits: Limits,
        share: f64,
    ) {
        match self {
            Self::Now(gate) => gate.report(service, heard, sent, now, limits, share),
            Self::Before(gate) => gate.report(service, heard, now),
        }
    }

    pub fn refused(
        &mut self,
        pause: Duration,
        sent: f64,
        now: f64,
        limits: Limits,
        share: f64,
    ) -> Duration {
        match self {
            Self::Now(gate) => gate.refused(pause, sent, now, limits, share),
            Self::Before(gate) => {
                gate.pause(pause, now, limits);
                incloud_disk::model::pauses::jittered(pause, share)
            }
        }
    }

    pub fn waits_for_login(&self, left: Duration, total: Duration) -> Duration {
        match self {
            Self::Now(_) => session::waits_for_login(left, total),
            Self::Before(_) => left.min(before::PATIENCE),
        }
    }

    /// Whether a login is made beside another one that takes long.
    pub fn is_well(&self) -> bool {
        match self {
            Self::Now(gate) => gate.is_well(),
            Self::Before(_) => true,
        }
    }

    /// Whether a service that is left alone is waited for without a place in a queue, and a place counts as
    /// work only from the request on.
    pub fn holds_no_place(&self) -> bool {
        matches!(self, Self::Now(_))
    }
}

/// One queue: the places of those that wait, and of those that are in, with the moment when they began.
#[derive(Debug, Default)]
pub struct Line {
    waiting: BTreeMap<u64, u32>,
    inside: Vec<(u64, Option<Micros>)>,
}

impl Line {
    /// Takes a place; answers whether it is in at once.
    pub fn enter(&mut self, number: u64, call: u32, room: Capacity, now: Micros) -> bool {
        self.waiting.insert(number, call);
        self.next(room, now) == Some(call)
    }

    /// Lets the first of those that wait in, if there is room.
    pub fn next(&mut self, room: Capacity, now: Micros) -> Option<u32> {
        let (number, call) =
            self.waiting.first_key_value().map(|(number, call)| (*number, *call))?;
        let worked = |began: Option<Micros>| began.map(|began| span(now.saturating_sub(began)));
        let counting = self.inside.iter().filter(|(_, began)| room.counts(worked(*began)));
        if !room.is_free(counting.map(|_| ())) {
            return None;
        }
        self.waiting.remove(&number);
        self.inside.push((number, None));
        Some(call)
    }

    pub fn works(&mut self, number: u64, now: Micros) {
        let own = self.inside.iter_mut().filter(|(one, _)| *one == number);
        own.for_each(|(_, began)| *began = Some(now));
    }

    pub fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
        self.inside.retain(|(one, _)| *one != number);
    }
}

/// A machine that calls the driver.
pub struct Machine {
    pub gate: Gates,
    pub reads: Line,
    pub changes: Line,
    /// Changes of one server.
    pub own: BTreeMap<u32, Line>,
    /// When the token ends; 0 without one.
    pub token: u64,
    pub logs_in: Option<u32>,
    pub wait_for_login: Vec<u32>,
    /// Calls that wait for a service that is left alone.
    pub wait_for_service: Vec<u32>,
    /// The last times that an attach took, in milliseconds.
    pub pace: Vec<u64>,
    /// The places that were drawn, in the queues as they were before.
    pub drawn: u64,
    pub bucket: Bucket,
}

impl Machine {
    pub fn new(gate: Gates, token: u64) -> Self {
        Self {
            gate,
            reads: Line::default(),
            changes: Line::default(),
            own: BTreeMap::new(),
            token,
            logs_in: None,
            wait_for_login: Vec::new(),
            wait_for_service: Vec::new(),
            pace: Vec::new(),
            drawn: 0,
            bucket: Bucket::default(),
        }
    }
}
