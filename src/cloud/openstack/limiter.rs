//! One limiter for the whole machine, shared by all processes of the driver: requests per second,
//! how many at once, and a pause for a service that fails.
//!
//! State is one small file, changed under its lock in microseconds; no lock is held while a
//! request is made, except the slot that counts it. Without a folder to write there is no
//! limiter: a call is worth more than its manners.

use crate::host::files;
use crate::model::access::Limits;
use crate::model::time::Deadline;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// After so many failures in a row the service is left alone for a while, but for one probe.
const FAILURES_TO_OPEN: u32 = 6;

/// How long a failing service is left alone.
const OPEN_FOR: Duration = Duration::from_secs(10);

/// How often whoever waits for a failing service looks whether it is well again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Times are milliseconds of the clock that all processes of one boot share.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct State {
    /// When the next request would be due if all came at the steady rate.
    due: f64,
    failures: u32,
    /// Until when only a probe is let through.
    open_until: f64,
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
    _slot: Option<File>,
}

impl Limiter {
    /// The limiter whose state is in this folder.
    #[must_use]
    pub fn in_folder(folder: &Path, limits: Limits) -> Self {
        Self { folder: folder.to_path_buf(), limits }
    }

    /// Waits for its turn; nothing if the deadline would pass first, and then no place was taken.
    #[must_use]
    pub fn enter(&self, deadline: Deadline) -> Option<Leave> {
        let slot = match self.slot(deadline) {
            Ok(slot) => slot,
            Err(Full) => return None,
        };
        loop {
            let patience = deadline.remaining();
            let booked = self.change(|state, now| book(state, now, self.limits, patience));
            match booked.unwrap_or(Booked::After(Duration::ZERO)) {
                Booked::After(wait) => {
                    std::thread::sleep(wait);
                    return Some(Leave { _slot: slot });
                }
                Booked::TooLate => return None,
                // Whoever asks next is the probe, or finds that another's went well.
                Booked::Closed(wait) => {
                    if !deadline.pause(wait.min(LOOK_AGAIN)) {
                        return None;
                    }
                }
            }
        }
    }

    /// Tells how a request went: failures of the service add up, anything else ends the row.
    pub fn report(&self, failed: bool) {
        let _ = self.change(|state, now| {
            state.failures = if failed { state.failures.saturating_add(1) } else { 0 };
            state.open_until =
                if state.failures >= FAILURES_TO_OPEN { now + millis(OPEN_FOR) } else { 0.0 };
        });
    }

    /// The service asked for a pause: everybody keeps it.
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
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        let now = now();
        let mut state: State = serde_json::from_str(&text).unwrap_or_default();
        // A file of another boot, or a torn one: nothing due lies a minute ahead.
        if !(state.due < now + 120_000.0 && state.open_until < now + 120_000.0) {
            state = State::default();
        }
        let result = change(&mut state, now);
        let text = serde_json::to_string(&state).ok()?;
        file.rewind().ok()?;
        file.set_len(0).ok()?;
        file.write_all(text.as_bytes()).ok()?;
        Some(result)
    }

    /// One of the files that count what is under way; no file at all where none can be made.
    fn slot(&self, deadline: Deadline) -> Result<Option<File>, Full> {
        if files::make_private_folder(&self.folder).is_err() {
            return Ok(None);
        }
        loop {
            for number in 0..self.limits.at_once {
                let Ok(file) = files::open_shared(&self.folder.join(format!("slot-{number}")))
                else {
                    return Ok(None);
                };
                if file.try_lock().is_ok() {
                    return Ok(Some(file));
                }
            }
            if !deadline.pause(Duration::from_millis(10)) {
                return Err(Full);
            }
        }
    }
}

struct Full;

/// What became of the wish for a place in the row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Booked {
    /// It is booked, and comes after this long.
    After(Duration),
    /// It would come after the deadline: not booked.
    TooLate,
    /// The service is left alone for this long.
    Closed(Duration),
}

/// Books the next place in the row, if it comes in time.
fn book(state: &mut State, now: f64, limits: Limits, patience: Duration) -> Booked {
    if state.failures >= FAILURES_TO_OPEN {
        if now < state.open_until {
            let wait = from_millis(state.open_until - now);
            return if wait < patience { Booked::Closed(wait) } else { Booked::TooLate };
        }
        // This one is the probe; the others wait for what comes of it.
        state.open_until = now + millis(OPEN_FOR);
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

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let mut state = State::default();
        let long = Duration::from_secs(9);
        let mut at = |now: f64, patience| book(&mut state, now, LIMITS, patience);
        for wait in [0, 0, 0, 100, 200, 300] {
            assert_eq!(at(1_000_000.0, long), Booked::After(Duration::from_millis(wait)));
        }
        assert_eq!(at(1_000_000.0, Duration::from_millis(399)), Booked::TooLate);
        let next = Booked::After(Duration::from_millis(400));
        assert_eq!(at(1_000_000.0, long), next, "who gave up keeps no place");
        assert_eq!(at(1_010_000.0, long), Booked::After(Duration::ZERO), "a pause refills it");
    }

    #[test]
    fn a_failing_service_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let limiter = Limiter::in_folder(folder.path(), LIMITS);
        for _ in 0..FAILURES_TO_OPEN {
            limiter.report(true);
        }
        let soon = Deadline::after(Duration::from_millis(50));
        assert!(limiter.enter(soon).is_none(), "the pause is longer than the call has");
        limiter.report(false);
        assert!(limiter.enter(Deadline::after(Duration::from_secs(5))).is_some());
    }

    #[test]
    fn one_probe_tells_whether_a_service_is_well_again() {
        let mut state =
            State { failures: FAILURES_TO_OPEN, open_until: 10_000.0, ..State::default() };
        let long = Duration::from_secs(60);
        for _ in 0..100 {
            let closed = book(&mut state, 9_000.0, LIMITS, long);
            assert_eq!(
                closed,
                Booked::Closed(Duration::from_secs(1)),
                "nobody's asking prolongs it"
            );
        }
        assert_eq!(book(&mut state, 10_000.0, LIMITS, long), Booked::After(Duration::ZERO));
        assert!(matches!(book(&mut state, 10_001.0, LIMITS, long), Booked::Closed(_)));
        state.failures = 0;
        assert!(matches!(book(&mut state, 10_002.0, LIMITS, long), Booked::After(_)));
    }

    #[test]
    fn no_more_than_so_many_are_under_way() {
        let folder = tempfile::tempdir().unwrap();
        let limiter = Limiter::in_folder(folder.path(), LIMITS);
        let soon = || Deadline::after(Duration::from_millis(30));
        let one = limiter.enter(soon());
        let two = limiter.enter(soon());
        assert!(one.is_some() && two.is_some() && limiter.enter(soon()).is_none());
        drop(one);
        assert!(limiter.enter(Deadline::after(Duration::from_secs(5))).is_some());
    }

    #[test]
    fn a_torn_or_foreign_state_is_no_state() {
        let folder = tempfile::tempdir().unwrap();
        let limiter = Limiter::in_folder(folder.path(), LIMITS);
        for text in ["{", "", "{\"due\":1e300,\"failures\":0,\"open_until\":0}", "null"] {
            std::fs::write(folder.path().join("limiter"), text).unwrap();
            assert!(limiter.enter(Deadline::after(Duration::from_secs(5))).is_some(), "{text}");
        }
    }

    #[test]
    fn without_a_folder_there_is_no_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let limiter = Limiter::in_folder(&file, LIMITS);
        assert!(limiter.enter(Deadline::after(Duration::from_millis(1))).is_some());
    }
}
