//! The driver's rules as they were: a pause that the cloud asks for is kept as it is, and nothing is asked less
//! often after it. Kept here alone, to be compared.

use incloud_disk::model::cloud::access::Limits;
use incloud_disk::model::cloud::asking::gate::{Booked, FAILURES_TO_OPEN, Heard, millis};
use std::collections::BTreeMap;
use std::time::Duration;

const OPEN_FOR: Duration = Duration::from_secs(10);

/// Another process that logs in was waited for so long.
pub const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub struct OldGate {
    due: f64,
    services: BTreeMap<&'static str, (u32, f64)>,
}

impl OldGate {
    pub fn closed(&self, service: &'static str, now: f64) -> Option<Duration> {
        let (failures, until) = self.services.get(service)?;
        let is_closed = *failures >= FAILURES_TO_OPEN && now < *until;
        is_closed.then(|| Duration::from_secs_f64((until - now) / 1000.0))
    }

    pub fn book(
        &mut self,
        service: &'static str,
        now: f64,
        limits: Limits,
        left: Duration,
    ) -> Booked {
        if let Some(wait) = self.closed(service, now) {
            return Booked::Closed(wait, String::new());
        }
        if let Some((failures, until)) = self.services.get_mut(service)
            && *failures >= FAILURES_TO_OPEN
        {
            *until = now + millis(OPEN_FOR);
        }
        let step = 1000.0 / limits.per_second;
        let due = self.due.max(now) + step;
        let wait = Duration::from_secs_f64((due - step * limits.burst - now).max(0.0) / 1000.0);
        if wait > left {
            return Booked::TooLate;
        }
        self.due = due;
        Booked::After(wait)
    }

    pub fn report(&mut self, service: &'static str, heard: Heard<'_>, now: f64) {
        let Heard::Failure(_) = heard else {
            self.services.remove(service);
            return;
        };
        let (failures, until) = self.services.entry(service).or_default();
        *failures += 1;
        *until = if *failures >= FAILURES_TO_OPEN { now + millis(OPEN_FOR) } else { 0.0 };
    }

    pub fn pause(&mut self, pause: Duration, now: f64, limits: Limits) {
        let room = limits.burst * 1000.0 / limits.per_second;
        self.due = self.due.max(now + millis(pause) + room);
    }
}
