//! The time that a heal has, and how it is divided.

use crate::ports::clock::Deadline;
use std::time::Duration;

/// The limit for one namespace within a kubelet call: a pod with the volume, another pod, anything else.
pub(crate) const EACH: [Duration; 3] =
    [Duration::from_secs(10), Duration::from_secs(3), Duration::from_secs(2)];

/// The share of the remaining time for each of these kinds.
const SHARES: [f64; 3] = [0.6, 0.6, 0.9];

/// The limit for everything outside pods within a kubelet call, which has its own work to do.
const OTHERS_ON_THE_WAY: Duration = Duration::from_secs(5);

/// The time that a heal has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeShares {
    pub(crate) until: Deadline,
    is_on_the_way: bool,
}

impl TimeShares {
    /// For a heal within another call or on its own; reserves some time for what follows.
    pub(crate) fn of(deadline: Deadline, is_on_the_way: bool) -> Self {
        let part = if is_on_the_way { 0.5 } else { 0.75 };
        Self { until: deadline.at_most(deadline.remaining().mul_f64(part)), is_on_the_way }
    }

    /// A part of the remaining time.
    pub(crate) fn part(self, part: f64) -> Deadline {
        self.until.at_most(self.until.remaining().mul_f64(part))
    }

    /// The limit for one namespace, which is higher if no kubelet call waits.
    pub(crate) fn of_one(self, kind: usize) -> Duration {
        if self.is_on_the_way { EACH[kind] } else { EACH[kind] * 3 }
    }

    pub(crate) fn of_kind(self, kind: usize) -> Deadline {
        let limit = self.part(SHARES[kind]);
        let is_others = kind + 1 == SHARES.len();
        if is_others && self.is_on_the_way { limit.at_most(OTHERS_ON_THE_WAY) } else { limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Almost that long; less than a second has passed since.
    fn is_about(deadline: Deadline, seconds: u64) -> bool {
        let left = deadline.remaining();
        left <= Duration::from_secs(seconds) && left > Duration::from_secs(seconds - 1)
    }

    #[test]
    fn a_heal_on_the_way_of_a_call_takes_half_and_keeps_others_short() {
        let shares = TimeShares::of(Deadline::after(Duration::from_secs(200)), true);
        assert!(is_about(shares.until, 100));
        assert_eq!([0, 1, 2].map(|kind| shares.of_one(kind)), EACH);
        assert!(is_about(shares.of_kind(0), 60));
        assert!(is_about(shares.of_kind(1), 60));
        assert!(is_about(shares.of_kind(2), 5), "those who are no pods");
    }

    #[test]
    fn a_heal_for_its_own_sake_has_more() {
        let shares = TimeShares::of(Deadline::after(Duration::from_secs(200)), false);
        assert!(is_about(shares.until, 150));
        assert_eq!([0, 1, 2].map(|kind| shares.of_one(kind).as_secs()), [30, 9, 6]);
        assert!(is_about(shares.of_kind(0), 90));
        assert!(is_about(shares.of_kind(2), 135), "those who are no pods");
    }
}
