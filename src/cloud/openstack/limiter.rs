//! The limits of the whole machine, shared by all processes of the driver: requests per second, how
//! many at once, and a pause for a service that fails.
//!
//! Requests that read and requests that change wait in queues of their own, and those that change one
//! server in that server's queue: one host that does not answer must not stop the others. The other
//! state is one small file, changed under its lock in microseconds. Without a folder to write there
//! is no limit: a call is worth more than its manners.

use super::queue::{Queue, Ticket};
use crate::host::clock::Deadline;
use crate::host::files;
use crate::model::cloud::access::Limits;
use crate::model::error::{Error, Kind};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// After so many failures in a row a service is left alone for a while, but for one probe.
const FAILURES_TO_OPEN: u32 = 6;

/// How long a failing service is left alone.
const OPEN_FOR: Duration = Duration::from_secs(10);

/// How often a call that waits for a failing service looks whether it is well again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A request that is under way for longer than this does not hold up those of others.
const COUNTS_FOR: Duration = Duration::from_secs(5);

/// How much of a service's last reason is kept.
const LONGEST_REASON: usize = 300;

/// Times are milliseconds of the clock that all processes of one boot share.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct State {
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

/// Which queue a request waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane<'a> {
    /// It changes nothing.
    Read,
    /// It changes this: a server, or what the service has but no server.
    Change(&'a str),
}

/// The limiter.
#[derive(Debug, Clone)]
pub struct Limiter {
    folder: PathBuf,
    limits: Limits,
}

/// Leave to make one request; given back when dropped.
#[derive(Debug)]
pub struct Leave {
    _tickets: [Option<Ticket>; 2],
}

impl Limiter {
    /// The limiter whose state is in this folder.
    #[must_use]
    pub fn in_folder(folder: &Path, limits: Limits) -> Self {
        Self { folder: folder.to_path_buf(), limits }
    }

    /// Waits for its turn to ask a service, which is named with its host. An error if the deadline
    /// would pass first: then no place was taken, and it says why.
    pub fn enter(
        &self,
        service: &str,
        lane: Lane<'_>,
        deadline: Deadline,
    ) -> std::result::Result<Leave, Error> {
        let full = || {
            let what = match lane {
                Lane::Read => "requests of this machine are under way".to_owned(),
                Lane::Change(what) => format!("changes of {what} are under way"),
            };
            Error::new(Kind::Busy, format!("{service} was not asked: too many {what}"))
                .hint("it is asked again with the next call")
        };
        let at_once = self.limits.at_once;
        let queue = |name: &str, at_once| Queue::in_folder(self.folder.join(name), at_once);
        let tickets = match lane {
            Lane::Read => {
                let reads = queue("reads", at_once).counting_for(COUNTS_FOR);
                [None, Some(reads.enter(deadline).ok_or_else(full)?)]
            }
            Lane::Change(what) => {
                // Half of them, so that two servers whose hosts hang leave room for a third.
                let own = queue(&format!("changes-of-{}", file_name(what)), at_once.div_ceil(2));
                let own = own.enter(deadline).ok_or_else(full)?;
                let all = queue("changes", at_once).counting_for(COUNTS_FOR);
                [Some(own), Some(all.enter(deadline).ok_or_else(full)?)]
            }
        };
        loop {
            let patience = deadline.remaining();
            let booked = self.change(|state, now| book(state, service, now, self.limits, patience));
            match booked.unwrap_or(Booked::After(Duration::ZERO)) {
                Booked::After(wait) => {
                    std::thread::sleep(wait);
                    return Ok(Leave { _tickets: tickets });
                }
                Booked::TooLate => {
                    return Err(Error::new(
                        Kind::Busy,
                        format!("{service} was not asked: this machine has asked too much"),
                    )
                    .hint("openstack.limits has the rate; it is asked again with the next call"));
                }
                // The next one that asks is the probe, or finds that another's went well.
                Booked::Closed(wait, why) => {
                    if wait >= patience || !deadline.pause(wait.min(LOOK_AGAIN)) {
                        return Err(Error::new(
                            Kind::Busy,
                            format!("{service} is left alone for {} s: {why}", wait.as_secs() + 1),
                        )
                        .hint("it is asked again after that"));
                    }
                }
            }
        }
    }

    /// Tells how a request to a service went: failures in a row add up, an answer ends the row.
    pub fn report(&self, service: &str, failure: Option<&str>) {
        let _ = self.change(|state, now| {
            let Some(reason) = failure else {
                state.services.remove(service);
                return;
            };
            let found = state.services.entry(service.to_owned()).or_default();
            found.failures = found.failures.saturating_add(1);
            found.reason = reason.chars().take(LONGEST_REASON).collect();
            let is_open = found.failures >= FAILURES_TO_OPEN;
            found.open_until = if is_open { now + millis(OPEN_FOR) } else { 0.0 };
        });
    }

    /// A service asked for a pause: every process keeps it.
    pub fn pause(&self, pause: Duration) {
        let _ = self.change(|state, now| {
            let room = self.limits.burst * 1000.0 / self.limits.per_second;
            state.due = state.due.max(now + millis(pause) + room);
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut State, f64) -> T) -> Option<T> {
        files::make_private_folder(&self.folder).ok()?;
        let mut file = files::open_shared(&self.folder.join("limiter")).ok()?;
        file.lock().ok()?;
        // One that is too long is torn as well, and written anew.
        let text = files::read_rest(&mut file, files::LONGEST, 0).unwrap_or_default();
        let now = now();
        let mut state: State = serde_json::from_slice(&text).unwrap_or_default();
        // A file of another boot, or a torn one: nothing due lies a minute ahead.
        let far = now + 120_000.0;
        if !(state.due < far && state.services.values().all(|one| one.open_until < far)) {
            state = State::default();
        }
        let result = change(&mut state, now);
        let text = serde_json::to_string(&state).ok()?;
        file.rewind().ok()?;
        file.set_len(0).ok()?;
        file.write_all(text.as_bytes()).ok()?;
        Some(result)
    }
}

/// A name that is one part of a path, whatever it was.
fn file_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    text.chars().take(100).map(|c| if plain(c) { c } else { '_' }).collect()
}

/// What became of the wish for a place in the row.
#[derive(Debug, Clone, PartialEq)]
enum Booked {
    /// It is booked, and comes after this long.
    After(Duration),
    /// It would come after the deadline: not booked.
    TooLate,
    /// The service is left alone for this long, and why.
    Closed(Duration, String),
}

/// Books the next place in the row, if it comes in time.
fn book(state: &mut State, service: &str, now: f64, limits: Limits, patience: Duration) -> Booked {
    if let Some(found) = state.services.get_mut(service)
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
    let due = state.due.max(now) + step;
    let wait = from_millis((due - step * limits.burst - now).max(0.0));
    if wait > patience {
        return Booked::TooLate;
    }
    state.due = due;
    Booked::After(wait)
}

fn from_millis(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1000.0)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn now() -> f64 {
    let now: Duration = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Into::into).unwrap_or_default();
    millis(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { per_second: 10.0, burst: 3.0, at_once: 2 };
    const NOVA: &str = "Nova at nova";

    fn soon() -> Deadline {
        Deadline::after(Duration::from_millis(50))
    }

    fn long() -> Deadline {
        Deadline::after(Duration::from_secs(20))
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let mut state = State::default();
        let long = Duration::from_secs(9);
        let mut at = |now: f64, patience| book(&mut state, NOVA, now, LIMITS, patience);
        for wait in [0, 0, 0, 100, 200, 300] {
            assert_eq!(at(1_000_000.0, long), Booked::After(Duration::from_millis(wait)));
        }
        assert_eq!(at(1_000_000.0, Duration::from_millis(399)), Booked::TooLate);
        let next = Booked::After(Duration::from_millis(400));
        assert_eq!(at(1_000_000.0, long), next, "a call that gave up keeps no place");
        assert_eq!(at(1_010_000.0, long), Booked::After(Duration::ZERO), "a pause refills it");
    }

    #[test]
    fn a_failing_service_is_left_alone_and_the_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let limiter = Limiter::in_folder(folder.path(), LIMITS);
        for _ in 0..FAILURES_TO_OPEN {
            limiter.report(NOVA, Some("connection refused"));
        }
        let refused = limiter.enter(NOVA, Lane::Read, soon()).unwrap_err();
        assert!(refused.cause.contains("Nova") && refused.cause.contains("connection refused"));
        assert!(limiter.enter("Cinder at cinder", Lane::Read, soon()).is_ok());
        limiter.report("Cinder at cinder", None);
        assert!(limiter.enter(NOVA, Lane::Read, soon()).is_err());
        limiter.report(NOVA, None);
        assert!(limiter.enter(NOVA, Lane::Read, long()).is_ok());
    }

    #[test]
    fn one_probe_tells_whether_a_service_is_well_again() {
        let failing =
            Service { failures: FAILURES_TO_OPEN, open_until: 10_000.0, ..Service::default() };
        let mut state = State { services: [(NOVA.to_owned(), failing)].into(), due: 0.0 };
        let long = Duration::from_secs(60);
        for _ in 0..100 {
            let closed = book(&mut state, NOVA, 9_000.0, LIMITS, long);
            let Booked::Closed(wait, _) = closed else { panic!("{closed:?}") };
            assert_eq!(wait, Duration::from_secs(1), "asking does not prolong it");
        }
        let probe = book(&mut state, NOVA, 10_000.0, LIMITS, long);
        assert_eq!(probe, Booked::After(Duration::ZERO));
        assert!(matches!(book(&mut state, NOVA, 10_001.0, LIMITS, long), Booked::Closed(..)));
        state.services.clear();
        assert!(matches!(book(&mut state, NOVA, 10_002.0, LIMITS, long), Booked::After(_)));
    }

    #[test]
    fn neither_reads_nor_other_servers_wait_for_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let limiter = Limiter::in_folder(folder.path(), Limits { per_second: 1e3, ..LIMITS });
        let enter = |lane, deadline| limiter.enter(NOVA, lane, deadline);
        let _hangs = enter(Lane::Change("one"), soon()).unwrap();
        let full = enter(Lane::Change("one"), soon()).unwrap_err();
        assert!(full.cause.contains("one"), "{full}");
        let other = enter(Lane::Change("two"), soon());
        let (first, second) = (enter(Lane::Read, soon()), enter(Lane::Read, soon()));
        assert!(other.is_ok() && first.is_ok() && second.is_ok());
        assert!(enter(Lane::Read, soon()).is_err());
        drop(first);
        assert!(enter(Lane::Read, long()).is_ok());
    }

    #[test]
    fn a_torn_or_foreign_state_is_no_state() {
        let folder = tempfile::tempdir().unwrap();
        let limiter = Limiter::in_folder(folder.path(), LIMITS);
        let old = "{\"due\":1.0,\"failures\":9,\"open_until\":1e12}";
        for text in ["{", "", "{\"due\":1e300}", "null", old] {
            std::fs::write(folder.path().join("limiter"), text).unwrap();
            assert!(limiter.enter(NOVA, Lane::Read, long()).is_ok(), "{text}");
        }
    }

    #[test]
    fn without_a_folder_there_is_no_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let limiter = Limiter::in_folder(&file, LIMITS);
        assert!(limiter.enter(NOVA, Lane::Change("one"), soon()).is_ok());
    }
}
