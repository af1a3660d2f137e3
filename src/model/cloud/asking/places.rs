//! The places of a queue: who may go in, and how long a place counts.

use std::time::Duration;

/// How long the first of those who wait sleeps between two looks; those behind it sleep longer.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// How many may be in at once, and for how long each of them counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub at_once: usize,
    /// Work that takes longer than this no longer counts: one slow host must not stop the others.
    pub counts_for: Option<Duration>,
}

impl Capacity {
    /// Whether a place counts whose work takes so long by now; nothing for one that waits.
    pub fn counts(&self, worked: Option<Duration>) -> bool {
        match (worked, self.counts_for) {
            (Some(worked), Some(limit)) => worked < limit,
            _ => true,
        }
    }

    /// Whether there is room for the next one, by those before it that count.
    pub fn is_free(&self, counting: impl Iterator<Item = ()>) -> bool {
        counting.take(self.at_once).count() < self.at_once
    }

    /// How long one that has so many before it sleeps until it looks again.
    pub fn nap(&self, before: usize) -> Duration {
        let behind = u32::try_from(before.saturating_sub(self.at_once) + 1);
        LOOK_AGAIN.saturating_mul(behind.unwrap_or(u32::MAX)).min(LONGEST_LOOK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_counts_and_who_works_too_long_does_not() {
        let room = Capacity { at_once: 2, counts_for: Some(Duration::from_secs(5)) };
        assert!(room.counts(None) && room.counts(Some(Duration::from_secs(4))));
        assert!(!room.counts(Some(Duration::from_secs(5))));
        assert!(Capacity { counts_for: None, ..room }.counts(Some(Duration::MAX)));
        let free = |counting: usize| room.is_free(std::iter::repeat_n((), counting));
        assert_eq!([0, 1, 2, 3].map(free), [true, true, false, false]);
        let naps = [1, 3, 4, 1000].map(|before| room.nap(before).as_millis());
        assert_eq!(naps, [5, 10, 15, 100]);
    }
}
