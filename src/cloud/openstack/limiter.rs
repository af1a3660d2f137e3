//! The limits of the whole machine, shared by all processes of the driver: requests per second, how
//! many at once, and a pause for a service that fails.
//!
//! Requests that read and requests that change wait in queues of their own, and those that change one
//! server in that server's queue: one host that does not answer must not stop the others. The other
//! state is one small file, changed under its lock in microseconds. Without a folder to write there
//! is no limit: a call is worth more than its manners.

use super::queue::{Queue, Ticket, number_of_call};
use crate::host::files;
use crate::model::cloud::access::Limits;
use crate::model::cloud::asking::gate::{Booked, CallTime, Gate, Heard, LOOK_AGAIN, millis};
use crate::model::cloud::asking::places::Capacity;
use crate::model::error::{Error, Kind};
use crate::ports::clock::{Deadline, share, since_boot_awake};
use std::cell::Cell;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A request that is under way for longer than this does not hold up those of others.
const COUNTS_FOR: Duration = Duration::from_secs(5);

/// Which queue a request waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane<'a> {
    /// It changes nothing.
    Read,
    /// It changes this: a server, or what the service has but no server.
    Change(&'a str),
}

/// The limiter, as one call has it.
#[derive(Debug, Clone)]
pub struct Limiter {
    folder: PathBuf,
    limits: Limits,
    /// Older calls have lower numbers, and go first.
    call: u64,
    has_asked: Cell<bool>,
}

/// Leave to make one request; given back when dropped.
#[derive(Debug)]
pub struct Leave {
    _tickets: [Option<Ticket>; 2],
    /// When it was given, by the gate's clock.
    sent: f64,
}

impl Leave {
    /// When it was given: what is heard of the request says how the service does since then.
    pub fn sent(&self) -> f64 {
        self.sent
    }
}

impl Limiter {
    /// The limiter whose state is in this folder.
    pub fn in_folder(folder: &Path, limits: Limits) -> Self {
        let (folder, call) = (folder.to_path_buf(), number_of_call());
        Self { folder, limits, call, has_asked: Cell::new(false) }
    }

    /// Waits for its turn to ask a service, which is named with its host. An error if the deadline
    /// would pass first: then no place was taken, and it says why.
    pub fn enter(
        &self,
        service: &str,
        lane: Lane<'_>,
        deadline: Deadline,
    ) -> std::result::Result<Leave, Error> {
        loop {
            self.wait_until_open(service, deadline)?;
            // Who waits here holds no place that another service could use.
            let tickets = self.queue_up(service, lane, deadline)?;
            let patience = |gate: &Gate| gate.patience(self.time_of(deadline), self.limits);
            let booked =
                self.change(|gate, now| gate.book(service, now, self.limits, patience(gate)));
            match booked.unwrap_or(Booked::After(Duration::ZERO)) {
                Booked::After(wait) => {
                    std::thread::sleep(wait);
                    self.has_asked.set(true);
                    tickets.iter().flatten().for_each(Ticket::works);
                    return Ok(Leave { _tickets: tickets, sent: now() });
                }
                Booked::TooLate => return Err(self.too_late(service)),
                // The next one that asks is the probe, or finds that another's went well.
                Booked::Closed(..) => {}
            }
        }
    }

    /// Waits while a service is left alone.
    fn wait_until_open(&self, service: &str, deadline: Deadline) -> std::result::Result<(), Error> {
        while let Some(Some((wait, why))) = self.change(|gate, now| gate.closed(service, now)) {
            if wait >= deadline.remaining() || !deadline.pause(wait.min(LOOK_AGAIN)) {
                return Err(Error::new(
                    Kind::Busy,
                    format!("{service} is left alone for {} s: {why}", wait.as_secs() + 1),
                )
                .hint("it is asked again after that"));
            }
        }
        Ok(())
    }

    fn queue_up(
        &self,
        service: &str,
        lane: Lane<'_>,
        deadline: Deadline,
    ) -> std::result::Result<[Option<Ticket>; 2], Error> {
        let full = || {
            let what = match lane {
                Lane::Read => "requests of this machine are under way".to_owned(),
                Lane::Change(what) => format!("changes of {what} are under way"),
            };
            Error::new(Kind::Busy, format!("{service} was not asked: too many {what}"))
                .hint("it is asked again with the next call")
        };
        let of_gate = self.change(|gate, _| {
            (gate.at_once(self.limits), gate.patience(self.time_of(deadline), self.limits))
        });
        let (at_once, patience) = of_gate.unwrap_or((self.limits.at_once, deadline.remaining()));
        let until = deadline.at_most(patience);
        let queue = |name: &str, room| Queue::in_folder(self.folder.join(name), room, self.call);
        let all = Capacity { at_once, counts_for: Some(COUNTS_FOR) };
        Ok(match lane {
            Lane::Read => [None, Some(queue("reads", all).enter(until).ok_or_else(full)?)],
            Lane::Change(what) => {
                // Half of them, so that two servers whose hosts hang leave room for a third.
                let half = Capacity { at_once: self.limits.at_once.div_ceil(2), counts_for: None };
                let own = queue(&format!("changes-of-{}", file_name(what)), half);
                let own = own.enter(until).ok_or_else(full)?;
                [Some(own), Some(queue("changes", all).enter(until).ok_or_else(full)?)]
            }
        })
    }

    fn time_of(&self, deadline: Deadline) -> CallTime {
        let (left, total) = (deadline.remaining(), deadline.total());
        CallTime { left, total, has_asked: self.has_asked.get() }
    }

    /// The row is too long.
    fn too_late(&self, service: &str) -> Error {
        let rate = self.change(|gate, _| (!gate.cloud_has_room()).then(|| gate.rate(self.limits)));
        let error = match rate.flatten() {
            Some(rate) => Error::new(
                Kind::Busy,
                format!(
                    "{service} was not asked: the cloud had no room, and takes {rate:.2} requests a second of this machine now"
                ),
            ),
            None => Error::new(
                Kind::Busy,
                format!("{service} was not asked: this machine has asked too much"),
            ),
        };
        error.hint("openstack.limits has the rate; it is asked again with the next call")
    }

    /// Whether the cloud sent nothing away lately, and no service is left alone.
    pub fn cloud_is_well(&self) -> bool {
        self.change(|gate, _| gate.is_well()).unwrap_or(true)
    }

    /// Tells how a request to a service went that was sent then: failures in a row add up, an answer ends
    /// the row.
    pub fn report(&self, service: &str, heard: Heard<'_>, sent: f64) {
        let _ =
            self.change(|gate, now| gate.report(service, heard, sent, now, self.limits, share()));
    }

    /// The cloud had no room for a request that was sent then, and wants a pause: every process keeps the
    /// one that is answered, and asks less often from then on.
    pub fn refused(&self, pause: Duration, sent: f64) -> Duration {
        self.change(|gate, now| gate.refused(pause, sent, now, self.limits, share()))
            .unwrap_or(pause)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Gate, f64) -> T) -> Option<T> {
        files::make_private_folder(&self.folder).ok()?;
        let mut file = files::open_shared(&self.folder.join("limiter")).ok()?;
        file.lock().ok()?;
        // One that is too long is torn as well, and written anew.
        let text = files::read_rest(&mut file, files::LONGEST, 0).unwrap_or_default();
        let now = now();
        let mut gate: Gate = serde_json::from_slice(&text).unwrap_or_default();
        if !gate.is_possible(now, self.limits) {
            gate = Gate::default();
        }
        let result = change(&mut gate, now);
        let text = serde_json::to_string(&gate).ok()?;
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

fn now() -> f64 {
    millis(since_boot_awake())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cloud::asking::gate::FAILURES_TO_OPEN;

    const LIMITS: Limits = Limits { per_second: 10.0, burst: 3.0, at_once: 2 };
    const NOVA: &str = "Nova at nova";

    fn soon() -> Deadline {
        Deadline::after(Duration::from_millis(50))
    }

    fn long() -> Deadline {
        Deadline::after(Duration::from_secs(20))
    }

    #[test]
    fn a_failing_service_is_left_alone_and_the_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let limiter = Limiter::in_folder(folder.path(), LIMITS);
        for _ in 0..FAILURES_TO_OPEN {
            limiter.report(NOVA, Heard::Failure("connection refused"), now());
        }
        let refused = limiter.enter(NOVA, Lane::Read, soon()).unwrap_err();
        assert!(refused.cause.contains("Nova") && refused.cause.contains("connection refused"));
        assert!(limiter.enter("Cinder at cinder", Lane::Read, soon()).is_ok());
        limiter.report("Cinder at cinder", Heard::Answer, now());
        assert!(limiter.enter(NOVA, Lane::Read, soon()).is_err());
        limiter.report(NOVA, Heard::Answer, now());
        assert!(limiter.enter(NOVA, Lane::Read, long()).is_ok());
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
        let later = "{\"rate\":0.05,\"cut\":1e12}";
        for text in ["{", "", "{\"due\":1e300}", "null", old, later] {
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
