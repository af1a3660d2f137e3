//! A tear-down that was refused, and how often.

use serde::{Deserialize, Serialize};

/// A refusal that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why, the last time.
    pub reason: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// When it was repeated last.
    pub last: u64,
    /// How often, for this reason.
    pub count: u64,
}

/// The orchestrator repeats a call at the latest after two minutes (its longest back-off is 2 min
/// 2 s); one that was not repeated for longer is not asked for any more.
const REPEATED_WITHIN: u64 = 300;

impl Refusal {
    /// Whether the tear-down is still asked for, and refused.
    #[must_use]
    pub fn is_current(&self, now: u64) -> bool {
        now.saturating_sub(self.last) <= REPEATED_WITHIN
    }

    /// The refusal that follows an earlier one of the same tear-down.
    #[must_use]
    pub fn after(before: Option<&Self>, reason: &str, now: u64) -> Self {
        let since = before.map_or(now, |before| before.since);
        let same = before.filter(|before| before.reason == reason);
        let count = same.map_or(1, |before| before.count.saturating_add(1));
        Self { reason: reason.to_owned(), since, last: now, count }
    }

    /// A reason is written into the log when it is new; of its repetitions the tenth, the
    /// hundredth and so on, so that a log shows that it goes on, and is not filled by it.
    #[must_use]
    pub fn is_worth_a_line(&self) -> bool {
        std::iter::successors(Some(1u64), |power| power.checked_mul(10))
            .take_while(|power| *power <= self.count)
            .any(|power| power == self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_reason_is_counted_and_another_one_begins_anew() {
        let first = Refusal::after(None, "a", 100);
        assert_eq!((first.count, first.since, first.is_worth_a_line()), (1, 100, true));
        let again = Refusal::after(Some(&first), "a", 107);
        assert_eq!((again.count, again.since, again.is_worth_a_line()), (2, 100, false));
        let other = Refusal::after(Some(&again), "b", 109);
        assert_eq!((other.count, other.since, other.is_worth_a_line()), (1, 100, true));
        assert!(first.is_current(100) && first.is_current(400) && !first.is_current(401));
        let lines =
            (1..=1000).filter(|count| Refusal { count: *count, ..first.clone() }.is_worth_a_line());
        assert_eq!(lines.collect::<Vec<_>>(), [1, 10, 100, 1000]);
    }
}
