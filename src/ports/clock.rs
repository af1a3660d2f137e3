//! The clock: the current time, deadlines and pauses.

use crate::model::pauses;
use crate::model::timestamp::Millis;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The current time, in milliseconds since 1970.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The current time, in seconds since 1970.
pub fn seconds() -> u64 {
    now() / 1000
}

/// The time since boot: a clock that all processes share, that includes suspend and that cannot be set.
pub fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(now).unwrap_or_default()
}

/// The time since boot without suspend, as in the kernel's log.
pub fn since_boot_awake() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).unwrap_or_default()
}

/// The moment after which a call answers instead of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    end: Instant,
    total: Duration,
}

impl Deadline {
    /// The deadline of a call that begins now.
    pub fn after(total: Duration) -> Self {
        Self { end: Instant::now() + total, total }
    }

    /// The remaining time, or zero.
    pub fn remaining(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    pub fn over(self) -> bool {
        self.remaining().is_zero()
    }

    /// The time that the call was given.
    pub fn total(self) -> Duration {
        self.total
    }

    /// The time since the call began.
    pub fn spent(self) -> Duration {
        self.total.saturating_sub(self.remaining())
    }

    /// The earlier of this deadline and one that begins now.
    #[must_use]
    pub fn at_most(self, limit: Duration) -> Self {
        let other = Self::after(limit);
        if other.end < self.end { other } else { self }
    }

    /// Sleeps for `step` or the remaining time; returns whether any time is left.
    pub fn pause(self, step: Duration) -> bool {
        let nap = step.min(self.remaining());
        if !nap.is_zero() {
            std::thread::sleep(nap);
        }
        !self.over()
    }
}

/// A pause that differs from call to call.
pub fn jittered(pause: Duration) -> Duration {
    pauses::jittered(pause, share())
}

/// A number from 0 to 1 that differs from call to call.
pub fn share() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    f64::from(now.subsec_nanos() % 1000) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jittered_pause_stays_near_its_length() {
        for _ in 0..1000 {
            let pause = jittered(Duration::from_secs(4));
            assert!((3000..=5000).contains(&pause.as_millis()), "{pause:?}");
        }
    }

    #[test]
    fn a_deadline_that_is_over_does_not_sleep() {
        let deadline = Deadline::after(Duration::ZERO);
        assert!(deadline.over());
        assert!(!deadline.pause(Duration::from_secs(60)));
    }

    #[test]
    fn the_earlier_deadline_wins() {
        let short = Deadline::after(Duration::from_secs(60)).at_most(Duration::from_millis(1));
        assert!(short.remaining() <= Duration::from_millis(1));
    }
}
