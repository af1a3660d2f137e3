//! Whether a request is sent again, and after which pause.
//!
//! What only reads is repeated when the network or the service fails. What changes something is
//! sent once, unless the service says that it has not begun with it.

use crate::pauses::Steps;
use std::time::Duration;

/// A pause that a service asks for is kept up to this long; longer ones become a failure.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What became of one try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// The service answered.
    Answered {
        status: u16,
        /// And wants to be left alone for so long.
        asked_for: Option<Duration>,
    },
    /// It did not reach the service.
    NotReached,
    /// It may have.
    Unknown,
}

/// What comes after a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing: its answer is the answer, or its failure the failure.
    Nothing,
    /// It is sent again after this pause.
    Again(Duration),
    /// It is sent again after at least this pause, which all processes of the machine keep.
    AgainTogether(Duration),
}

/// The tries of one request.
#[derive(Debug, Clone)]
pub struct Tries {
    steps: Steps,
    is_repeatable: bool,
}

impl Tries {
    /// A request that may, or may not, be sent again after a failure that leaves open whether it took
    /// effect.
    pub fn of(is_repeatable: bool) -> Self {
        let steps = Steps::between(Duration::from_millis(250), Duration::from_secs(5));
        Self { steps, is_repeatable }
    }

    /// What comes after the next try, by a call that has so much time left.
    pub fn after(&mut self, tried: Tried, left: Duration) -> Next {
        let step = self.steps.next().unwrap_or_default();
        match tried {
            Tried::NotReached => Next::Again(step),
            Tried::Unknown if self.is_repeatable => Next::Again(step),
            Tried::Unknown => Next::Nothing,
            Tried::Answered { status, asked_for } => {
                let may_repeat = status == 429
                    || (status == 503 && asked_for.is_some())
                    || (self.is_repeatable && status >= 500);
                let asked_for = asked_for.filter(|pause| !pause.is_zero());
                match asked_for {
                    _ if !may_repeat => Next::Nothing,
                    Some(pause) if pause > LONGEST_PAUSE || pause > left => Next::Nothing,
                    Some(pause) => Next::AgainTogether(pause),
                    // It has no room, and does not say for how long.
                    None if status == 429 => Next::AgainTogether(step),
                    None => Next::Again(step),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn answered(status: u16, seconds: Option<u64>) -> Tried {
        Tried::Answered { status, asked_for: seconds.map(Duration::from_secs) }
    }

    #[test]
    fn what_may_have_been_done_is_not_asked_for_twice() {
        for (tried, changes, reads) in [
            (answered(200, None), false, false),
            (answered(409, None), false, false),
            (answered(500, None), false, true),
            (answered(503, None), false, true),
            (answered(503, Some(1)), true, true),
            (answered(429, None), true, true),
            (answered(429, Some(1)), true, true),
            (Tried::NotReached, true, true),
            (Tried::Unknown, false, true),
        ] {
            for (is_repeatable, is_again) in [(false, changes), (true, reads)] {
                let next = Tries::of(is_repeatable).after(tried, LONG);
                assert_eq!(next != Next::Nothing, is_again, "{tried:?}, {is_repeatable}");
            }
        }
    }

    #[test]
    fn pauses_grow_and_one_that_takes_too_long_is_an_answer() {
        let mut tries = Tries::of(true);
        let mut pauses = (0..12).map(|_| tries.after(Tried::Unknown, LONG));
        assert_eq!(pauses.next(), Some(Next::Again(Duration::from_millis(250))));
        assert_eq!(pauses.next(), Some(Next::Again(Duration::from_millis(375))));
        assert_eq!(pauses.last(), Some(Next::Again(Duration::from_secs(5))));
        let after = |tried, left| Tries::of(true).after(tried, left);
        let shared = Next::AgainTogether(Duration::from_secs(60));
        assert_eq!(after(answered(429, Some(60)), LONG), shared);
        assert_eq!(after(answered(429, Some(61)), LONG), Next::Nothing);
        assert_eq!(after(answered(429, Some(9)), Duration::from_secs(8)), Next::Nothing);
        let step = Next::AgainTogether(Duration::from_millis(250));
        assert_eq!(after(answered(429, Some(0)), LONG), step, "no pause was asked for");
    }
}
