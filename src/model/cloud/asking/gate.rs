//! The gate before the services of a cloud: the rate at which a machine asks, and a pause for a service
//! that fails.
//!
//! All processes of a machine go through the one gate: who uses this keeps its state where they share it.

use crate::model::cloud::access::Limits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// After so many failures in a row a service is left alone for a while, but for one probe.
pub const FAILURES_TO_OPEN: u32 = 6;

/// How long a failing service is left alone.
pub const OPEN_FOR: Duration = Duration::from_secs(10);

/// How often a call that waits for a failing service looks whether it is well again.
pub const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How much of a service's last reason is kept.
const LONGEST_REASON: usize = 300;

/// Nothing due lies further ahead than so many milliseconds.
const FAR: f64 = 120_000.0;

/// Times are milliseconds of one clock.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gate {
    /// When the next request would be due if all came at the steady rate.
    due: f64,
    /// How each service does, by its name and host.
    services: BTreeMap<String, Service>,
}

/// A service that failed last time.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Service {
    /// How often in a row.
    failures: u32,
    /// Until when only a probe is let through.
    open_until: f64,
    /// The last reason.
    reason: String,
}

/// What became of the wish for a place in the row.
#[derive(Debug, Clone, PartialEq)]
pub enum Booked {
    /// It is booked, and comes after this long.
    After(Duration),
    /// It would come too late: not booked.
    TooLate,
    /// The service is left alone for this long, and why.
    Closed(Duration, String),
}

impl Gate {
    /// Whether all of this can be so now: it may be of another boot, or torn.
    #[must_use]
    pub fn is_possible(&self, now: f64) -> bool {
        let far = now + FAR;
        self.due < far && self.services.values().all(|one| one.open_until < far)
    }

    /// Books the next place in the row, if it comes in time.
    pub fn book(&mut self, service: &str, now: f64, limits: Limits, patience: Duration) -> Booked {
        if let Some(found) = self.services.get_mut(service)
            && found.failures >= FAILURES_TO_OPEN
        {
            if now < found.open_until {
                let wait = from_millis(found.open_until - now);
                let why =
                    format!("it failed {} times in a row, last: {}", found.failures, found.reason);
                return Booked::Closed(wait, why);
            }
            // This one is the probe; the others wait for what comes of it.
            found.open_until = now + millis(OPEN_FOR);
        }
        let step = 1000.0 / limits.per_second;
        let due = self.due.max(now) + step;
        let wait = from_millis((due - step * limits.burst - now).max(0.0));
        if wait > patience {
            return Booked::TooLate;
        }
        self.due = due;
        Booked::After(wait)
    }

    /// How a request to a service went: failures in a row add up, an answer ends the row.
    pub fn report(&mut self, service: &str, failure: Option<&str>, now: f64) {
        let Some(reason) = failure else {
            self.services.remove(service);
            return;
        };
        let found = self.services.entry(service.to_owned()).or_default();
        found.failures = found.failures.saturating_add(1);
        found.reason = reason.chars().take(LONGEST_REASON).collect();
        let is_open = found.failures >= FAILURES_TO_OPEN;
        found.open_until = if is_open { now + millis(OPEN_FOR) } else { 0.0 };
    }

    /// A service asked for a pause: every process keeps it.
    pub fn pause(&mut self, pause: Duration, now: f64, limits: Limits) {
        let room = limits.burst * 1000.0 / limits.per_second;
        self.due = self.due.max(now + millis(pause) + room);
    }
}

fn from_millis(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1000.0)
}

/// A time as the gate counts it.
#[must_use]
pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { per_second: 10.0, burst: 3.0, at_once: 2 };
    const NOVA: &str = "Nova at nova";

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let mut gate = Gate::default();
        let long = Duration::from_secs(9);
        let mut at = |now: f64, patience| gate.book(NOVA, now, LIMITS, patience);
        for wait in [0, 0, 0, 100, 200, 300] {
            assert_eq!(at(1_000_000.0, long), Booked::After(Duration::from_millis(wait)));
        }
        assert_eq!(at(1_000_000.0, Duration::from_millis(399)), Booked::TooLate);
        let next = Booked::After(Duration::from_millis(400));
        assert_eq!(at(1_000_000.0, long), next, "a call that gave up keeps no place");
        assert_eq!(at(1_010_000.0, long), Booked::After(Duration::ZERO), "a pause refills it");
    }

    #[test]
    fn one_probe_tells_whether_a_service_is_well_again() {
        let failing =
            Service { failures: FAILURES_TO_OPEN, open_until: 10_000.0, ..Service::default() };
        let mut gate = Gate { services: [(NOVA.to_owned(), failing)].into(), ..Gate::default() };
        let long = Duration::from_secs(60);
        for _ in 0..100 {
            let closed = gate.book(NOVA, 9_000.0, LIMITS, long);
            let Booked::Closed(wait, _) = closed else { panic!("{closed:?}") };
            assert_eq!(wait, Duration::from_secs(1), "asking does not prolong it");
        }
        let probe = gate.book(NOVA, 10_000.0, LIMITS, long);
        assert_eq!(probe, Booked::After(Duration::ZERO));
        assert!(matches!(gate.book(NOVA, 10_001.0, LIMITS, long), Booked::Closed(..)));
        gate.report(NOVA, None, 10_001.5);
        assert!(matches!(gate.book(NOVA, 10_002.0, LIMITS, long), Booked::After(_)));
    }
}
