//! The gate before the services of a cloud: the rate at which a machine asks, and a pause for a service
//! that fails.
//!
//! All processes of a machine go through the one gate: who uses this keeps its state where they share it.

use super::again::LONGEST_PAUSE;
use crate::cloud::access::Limits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// After so many failures in a row a service is left alone for a while, but for one probe.
pub const FAILURES_TO_OPEN: u32 = 6;

/// How long a failing service is left alone at first, and at most: all machines of a fleet probe.
const OPEN_FOR: Duration = Duration::from_secs(10);
const LONGEST_OPEN: Duration = Duration::from_secs(30);

/// How often a call that waits for a failing service looks whether it is well again.
pub const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// With so many requests per second a machine begins when a service is well again that was away for long: all
/// others come back in the same minute, and the longer it was away, the more they want.
const FIRST_RATE: f64 = 0.5;

/// A machine asks so often per second at least, however often it is sent away: it must see that the cloud
/// has room again. Times the machines of a fleet this is what a cloud is asked at most in the long run.
const LEAST_RATE: f64 = 0.05;

/// What is left of the rate when the cloud sends a request away.
const CUT: f64 = 0.5;

/// Each answer raises the rate by this part, times the answers since the rate was cut: slowly near the rate
/// that was too much, and soon where nothing is refused any more.
const RISE: f64 = 0.01;

/// Beside it the rate rises by so much in each second: a machine that was sent away more often than others soon
/// asks as often as they do.
const CLIMB: f64 = 0.003;

/// Each time that the cloud asks for a pause, without an answer in between, it gets one longer by this.
const LONGER: f64 = 1.5;

/// So many requests a call makes, mostly.
const OF_A_CALL: f64 = 8.0;

/// No place in the row is booked that comes later.
const LONGEST_ROW: Duration = Duration::from_secs(120);

/// How much of a service's last reason is kept.
const LONGEST_REASON: usize = 300;

/// Nothing due lies further ahead than so many milliseconds, and a burst.
const FAR: f64 = 240_000.0;

/// Times are milliseconds of one clock.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gate {
    /// When the next request would be due if all came at the steady rate.
    due: f64,
    /// How many requests per second the cloud seems to have room for; 0 for as many as are configured.
    rate: f64,
    /// How many were answered since the rate was cut.
    answers: u32,
    cut: f64,
    /// When it was cut or raised.
    changed: f64,
    /// How often the cloud asked for a pause since it answered last.
    refusals: u32,
    /// How each service does, by its name and host.
    services: BTreeMap<String, Service>,
}

/// A service that failed last time.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Service {
    /// How often in a row.
    failures: u32,
    /// Since when.
    since: f64,
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

/// How a request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard<'a> {
    /// The service answered.
    Answer,
    /// It, or what stands before it, has no room.
    Full,
    /// It failed, for this reason.
    Failure(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallTime {
    pub left: Duration,
    pub total: Duration,
    /// Whether it has made a request.
    pub has_asked: bool,
}

impl Gate {
    /// Whether all of this can be so now: it may be of another boot, or torn.
    pub fn is_possible(&self, now: f64, limits: Limits) -> bool {
        let far = now + FAR + limits.burst * 1000.0 / limits.per_second;
        let are_near = self.services.values().all(|one| one.open_until < far);
        let is_a_rate = self.cloud_has_room() || self.rate >= LEAST_RATE;
        self.due < far && are_near && is_a_rate && self.cut <= now
    }

    /// How many requests per second are made.
    pub fn rate(&self, limits: Limits) -> f64 {
        if self.cloud_has_room() { limits.per_second } else { self.rate.min(limits.per_second) }
    }

    /// Whether the machine asks as often as it is configured to: the cloud sent nothing away lately.
    pub fn cloud_has_room(&self) -> bool {
        self.rate == 0.0
    }

    /// Whether it sent nothing away lately, and no service is left alone.
    pub fn is_well(&self) -> bool {
        let mut services = self.services.values();
        self.cloud_has_room() && services.all(|one| one.failures < FAILURES_TO_OPEN)
    }

    /// How many requests may be under way or in the row at once. Where the cloud has room for few, the row
    /// is short: the oldest call's request is the next one, and no call is left half done.
    pub fn at_once(&self, limits: Limits) -> usize {
        if self.cloud_has_room() {
            return limits.at_once;
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is small")]
        let each_second = self.rate.ceil() as usize;
        limits.at_once.min(each_second.max(1))
    }

    /// How long a request of this call may wait. A call that has not begun leaves the time that its
    /// requests take: one that begins too late asks for nothing but what is thrown away.
    pub fn patience(&self, call: CallTime, limits: Limits) -> Duration {
        if call.has_asked {
            return call.left;
        }
        let (least, most) = (call.total / 3, call.total * 2 / 3);
        let needed = Duration::from_secs_f64(OF_A_CALL / self.rate(limits)).clamp(least, most);
        // What need not wait goes on, however late it is.
        call.left.saturating_sub(needed).max(call.left.min(Duration::from_secs(1)))
    }

    /// For how long a service is left alone, and why, if it is.
    pub fn closed(&self, service: &str, now: f64) -> Option<(Duration, String)> {
        let found = self.services.get(service)?;
        let is_closed = found.failures >= FAILURES_TO_OPEN && now < found.open_until;
        is_closed.then(|| {
            let wait = from_millis(found.open_until - now);
            let why =
                format!("it failed {} times in a row, last: {}", found.failures, found.reason);
            (wait, why)
        })
    }

    /// Books the next place in the row, if it comes in time.
    pub fn book(&mut self, service: &str, now: f64, limits: Limits, patience: Duration) -> Booked {
        if let Some((wait, why)) = self.closed(service, now) {
            return Booked::Closed(wait, why);
        }
        let step = 1000.0 / self.rate(limits);
        let burst = if self.cloud_has_room() { limits.burst } else { 1.0 };
        let due = self.due.max(now) + step;
        let wait = from_millis((due - step * burst - now).max(0.0));
        if wait > patience.min(LONGEST_ROW) {
            return Booked::TooLate;
        }
        self.due = due;
        // Of a service that is left alone this one is the probe; the others wait for what comes of it.
        if let Some(found) = self.services.get_mut(service)
            && found.failures >= FAILURES_TO_OPEN
        {
            found.open_until = now + millis(wait + OPEN_FOR);
        }
        Booked::After(wait)
    }

    /// How a request to a service went that was sent then: failures in a row add up, an answer ends the
    /// row. `share` is a number from 0 to 1 that differs from machine to machine and from time to time.
    pub fn report(
        &mut self,
        service: &str,
        heard: Heard<'_>,
        sent: f64,
        now: f64,
        limits: Limits,
        share: f64,
    ) {
        if let Heard::Failure(reason) = heard {
            let begins = || Service { since: now, ..Service::default() };
            let found = self.services.entry(service.to_owned()).or_insert_with(begins);
            found.failures = found.failures.saturating_add(1);
            found.reason = reason.chars().take(LONGEST_REASON).collect();
            found.open_until = match found.failures.checked_sub(FAILURES_TO_OPEN) {
                Some(more) => now + millis(open_for(more)) * (0.75 + share / 2.0),
                None => 0.0,
            };
            return;
        }
        let found = self.services.remove(service);
        if let Some(found) = found.filter(|found| found.failures >= FAILURES_TO_OPEN) {
            let away = (now - found.since) / millis(OPEN_FOR);
            let first = (limits.per_second / away.max(1.0)).max(FIRST_RATE);
            self.slow_down(self.rate(limits).min(first), now);
        } else if heard == Heard::Answer && sent >= self.cut {
            self.refusals = 0;
            self.speed_up(now, limits);
        }
    }

    fn speed_up(&mut self, now: f64, limits: Limits) {
        if self.cloud_has_room() {
            return;
        }
        self.answers = self.answers.saturating_add(1);
        let passed = ((now - self.changed) / 1000.0).clamp(0.0, 1.0 / LEAST_RATE);
        self.changed = now;
        self.rate = self.rate * (1.0 + RISE * f64::from(self.answers)) + CLIMB * passed;
        if self.rate >= limits.per_second {
            // The burst fills up again from here on.
            self.due = self.due.max(now + limits.burst * 1000.0 / limits.per_second);
            self.rate = 0.0;
        }
    }

    fn slow_down(&mut self, rate: f64, now: f64) {
        self.rate = rate;
        self.answers = 0;
        self.cut = now;
        self.changed = now;
    }

    /// The cloud had no room for a request that was sent then, and wants at least this pause. All
    /// processes keep the one that is answered. What was under way when the rate was cut says nothing new.
    pub fn refused(
        &mut self,
        pause: Duration,
        sent: f64,
        now: f64,
        limits: Limits,
        share: f64,
    ) -> Duration {
        if sent >= self.cut {
            self.slow_down((self.rate(limits) * CUT).max(LEAST_RATE), now);
            self.refusals = self.refusals.saturating_add(1);
        }
        let times = i32::try_from(self.refusals.saturating_sub(1)).unwrap_or(i32::MAX);
        let longer = (pause.as_secs_f64() * LONGER.powi(times)).min(LONGEST_PAUSE.as_secs_f64());
        // Never shorter than what was asked for.
        let pause = Duration::from_secs_f64(longer).max(pause).mul_f64(1.0 + share / 2.0);
        self.due = self.due.max(now + millis(pause));
        pause
    }
}

/// How long a service is left alone that has failed so many times more.
fn open_for(more: u32) -> Duration {
    let times = LONGER.powi(i32::try_from(more.min(100)).unwrap_or(0));
    OPEN_FOR.mul_f64(times).min(LONGEST_OPEN)
}

fn from_millis(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1000.0)
}

/// A time as the gate counts it.
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
        gate.report(NOVA, Heard::Answer, 10_000.0, 10_001.5, LIMITS, 0.5);
        assert!(matches!(gate.book(NOVA, 10_002.0, LIMITS, long), Booked::After(_)));
    }

    /// A minute of one answer after the other, as fast as the gate lets them; how many there were.
    fn answers(gate: &mut Gate, from: f64) -> usize {
        let (mut now, mut count) = (from, 0);
        while now < from + 60_000.0 {
            let Booked::After(wait) = gate.book(NOVA, now, LIMITS, Duration::from_secs(60)) else {
                panic!("{gate:?}")
            };
            now += millis(wait);
            gate.report(NOVA, Heard::Answer, now, now, LIMITS, 0.5);
            count += 1;
        }
        count
    }

    #[test]
    fn a_service_that_is_left_alone_is_probed_less_and_less_often() {
        let mut gate = Gate::default();
        let mut fail = |share| {
            gate.report(NOVA, Heard::Failure("refused"), 0.0, 0.0, LIMITS, share);
            gate.closed(NOVA, 0.0).map(|(wait, _)| wait.as_secs_f64())
        };
        let waits: Vec<_> = (0..10).map(|_| fail(0.5)).collect();
        assert_eq!(waits[4..], [None, Some(10.0), Some(15.0), Some(22.5), Some(30.0), Some(30.0)]);
        assert_eq!([fail(0.0), fail(1.0)], [Some(22.5), Some(37.5)], "machines differ");
    }

    #[test]
    fn after_an_outage_a_machine_begins_slowly_and_comes_back_to_its_rate() {
        let mut gate = Gate::default();
        for _ in 0..FAILURES_TO_OPEN {
            gate.report(NOVA, Heard::Failure("refused"), 0.0, 0.0, LIMITS, 0.5);
        }
        assert!(!gate.is_well() && gate.cloud_has_room());
        gate.report("Cinder at cinder", Heard::Answer, 0.0, 0.0, LIMITS, 0.5);
        assert!((gate.rate(LIMITS) - 10.0).abs() < 1e-9, "another service slows nothing down");
        let mut short = gate.clone();
        short.report(NOVA, Heard::Answer, 20_000.0, 20_000.0, LIMITS, 0.5);
        assert!((short.rate(LIMITS) - 5.0).abs() < 1e-9, "of a short one less is made");
        let now = 600_000.0;
        gate.report(NOVA, Heard::Answer, now, now, LIMITS, 0.5);
        assert!((gate.rate(LIMITS) - FIRST_RATE).abs() < 1e-9 && gate.at_once(LIMITS) == 1);
        assert!(!gate.is_well());
        let count = answers(&mut gate, now);
        assert!((300..450).contains(&count), "{count} in a minute, and not 600");
        assert!(gate.is_well() && gate.at_once(LIMITS) == 2);
    }

    #[test]
    fn each_refusal_halves_the_rate_once_and_answers_raise_it_slowly() {
        let mut gate = Gate::default();
        let second = Duration::from_secs(1);
        for _ in 0..5 {
            // Sent together, refused together.
            gate.refused(second, 0.0, 100.0, LIMITS, 0.0);
        }
        assert!((gate.rate(LIMITS) - 5.0).abs() < 1e-9, "{gate:?}");
        let next = gate.book(NOVA, 100.0, LIMITS, Duration::from_secs(9));
        assert_eq!(next, Booked::After(second), "the pause is kept by all");
        let next = gate.book(NOVA, 100.0, LIMITS, Duration::from_secs(9));
        assert_eq!(next, Booked::After(Duration::from_millis(1200)), "and no burst comes after it");
        gate.report(NOVA, Heard::Answer, 99.0, 200.0, LIMITS, 0.5);
        assert!((gate.rate(LIMITS) - 5.0).abs() < 1e-9, "what was under way says nothing");
        gate.report(NOVA, Heard::Answer, 100.0, 200.0, LIMITS, 0.5);
        assert!((5.05..5.06).contains(&gate.rate(LIMITS)), "{gate:?}");
        for n in 0..40 {
            let now = 1000.0 + f64::from(n);
            gate.refused(second, now, now, LIMITS, 0.0);
        }
        assert!((gate.rate(LIMITS) - LEAST_RATE).abs() < 1e-9, "{gate:?}");
    }

    #[test]
    fn a_machine_at_the_least_rate_comes_back_in_minutes() {
        let mut gate = Gate { rate: LEAST_RATE, ..Gate::default() };
        let begin: Vec<_> = (0..4).map(|n| answers(&mut gate, f64::from(n) * 60_000.0)).collect();
        assert!(begin[0] < 12, "not at once: {begin:?}");
        assert!(gate.cloud_has_room(), "{begin:?}");
    }

    #[test]
    fn pauses_grow_until_an_answer_comes_and_are_never_shorter_than_asked_for() {
        let mut gate = Gate::default();
        let mut now = 0.0;
        let mut refused = |gate: &mut Gate, seconds, share| {
            now += 1.0;
            gate.refused(Duration::from_secs(seconds), now, now, LIMITS, share).as_millis()
        };
        let pauses = [2, 2, 2].map(|seconds| refused(&mut gate, seconds, 0.0));
        assert_eq!(pauses, [2000, 3000, 4500]);
        assert_eq!(refused(&mut gate, 60, 1.0), 90_000);
        for _ in 0..100 {
            assert!(refused(&mut gate, 1, 0.0) <= 60_000);
        }
        gate.report(NOVA, Heard::Answer, 1000.0, 1000.0, LIMITS, 0.5);
        assert_eq!(gate.refused(Duration::from_secs(2), 1001.0, 1001.0, LIMITS, 0.0).as_secs(), 2);
    }

    #[test]
    fn a_call_that_begins_leaves_time_for_its_requests() {
        let of = |rate, left, total, has_asked| {
            let gate = Gate { rate, ..Gate::default() };
            let (left, total) = (Duration::from_secs(left), Duration::from_secs(total));
            gate.patience(CallTime { left, total, has_asked }, LIMITS).as_secs()
        };
        assert_eq!(of(0.0, 180, 180, false), 120);
        assert_eq!(of(0.1, 180, 180, false), 100);
        assert_eq!(of(0.05, 180, 180, false), 60, "a third of its time is left to every call");
        assert_eq!(of(0.05, 20, 180, true), 20, "one that has begun goes on to its end");
        assert_eq!(of(0.0, 20, 180, false), 1, "one that comes late goes on if it need not wait");
    }

    #[test]
    fn a_row_is_never_longer_than_what_is_believed() {
        let slow = Limits { per_second: 0.1, ..LIMITS };
        let mut gate = Gate::default();
        while gate.book(NOVA, 5.0, slow, Duration::from_secs(900)) != Booked::TooLate {}
        assert!(gate.is_possible(5.0, slow), "{gate:?}");
        gate.refused(LONGEST_PAUSE, 5.0, 5.0, slow, 1.0);
        while gate.book(NOVA, 5.0, slow, Duration::from_secs(900)) != Booked::TooLate {}
        assert!(gate.is_possible(5.0, slow), "{gate:?}");
        let later = Gate { cut: 6.0, ..Gate::default() };
        assert!(!later.is_possible(5.0, LIMITS), "another boot's");
        // As a torn file may have it: a call would wait for longer than any clock can count.
        for rate in [f64::MIN_POSITIVE, 1e-20, LEAST_RATE / 2.0, -1.0] {
            let torn = Gate { rate, ..Gate::default() };
            assert!(!torn.is_possible(5.0, LIMITS), "{rate}");
        }
    }
}
