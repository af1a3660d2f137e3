//! How much time a heal has, and how it is shared out.

use crate::ports::clock::Deadline;
use std::time::Duration;

/// What one namespace may take on the way: a consumer's pod, another pod, any other.
pub(crate) const EACH: [Duration; 3] =
    [Duration::from_secs(10), Duration::from_secs(3), Duration::from_secs(2)];

/// Which part of what is left each kind of them may take together.
const SHARES: [f64; 3] = [0.6, 0.6, 0.9];

/// What those who are no pods may take together of a call of kubelet's, which has its own work to do.
const OTHERS_ON_THE_WAY: Duration = Duration::from_secs(5);

/// How much time a heal has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeShares {
    pub(crate) until: Deadline,
    is_on_the_way: bool,
}

impl TimeShares {
    /// That of a heal on the way of another call, or of one for its own sake. Some is kept for what
    /// comes after it.
    pub(crate) fn of(deadline: Deadline, is_on_the_way: bool) -> Self {
        let part = if is_on_the_way { 0.5 } else { 0.75 };
        Self { until: deadline.at_most(deadline.remaining().mul_f64(part)), is_on_the_way }
    }

    /// A part of what is left.
    pub(crate) fn part(self, part: f64) -> Deadline {
        self.until.at_most(self.until.remaining().mul_f64(part))
    }

    /// What one namespace may take: more where no call of kubelet's waits for it.
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

    /// Nearly that long: what has passed since is less than a second.
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
