//! What the processes of one machine share: the driver's gate, its queues and its token, without the files.

use super::clock::{Micros, span};
use incloud_disk::model::cloud::asking::gate::Gate;
use incloud_disk::model::cloud::asking::places::Capacity;
use std::collections::BTreeMap;
use std::time::Duration;

/// A request that is under way for longer than this does not hold up those of others.
pub const COUNTS_FOR: Duration = Duration::from_secs(5);

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
    pub gate: Gate,
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
}

impl Machine {
    pub fn new(token: u64) -> Self {
        Self {
            gate: Gate::default(),
            reads: Line::default(),
            changes: Line::default(),
            own: BTreeMap::new(),
            token,
            logs_in: None,
            wait_for_login: Vec::new(),
            wait_for_service: Vec::new(),
            pace: Vec::new(),
        }
    }
}
