//! The pauses between looks at something that takes its time.

use std::time::Duration;

/// Between three quarters and five quarters of a pause, by a share from 0 to 1, so that many callers do
/// not come back at once.
pub fn jittered(pause: Duration, share: f64) -> Duration {
    pause.mul_f64(0.75 + share / 2.0)
}

/// Growing steps between two looks at something that takes its time.
#[derive(Debug, Clone)]
pub struct Steps {
    next: Duration,
    longest: Duration,
}

impl Steps {
    /// Steps that begin at `first` and grow by half until `longest`.
    pub fn between(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }
}

impl Iterator for Steps {
    type Item = Duration;
    fn next(&mut self) -> Option<Duration> {
        let now = self.next;
        self.next = (now + now / 2).min(self.longest);
        Some(now)
    }
}

/// Looks at a change that the cloud makes: the pauses between them. The first look comes a little before
/// the change is usually through, so that one which has become quicker is noticed; each next one when
/// some more of the time has gone.
#[derive(Debug, Clone)]
pub struct Looks {
    /// Since the change was asked for.
    elapsed: Duration,
    usual: Option<Duration>,
    shortest: Duration,
    longest: Duration,
}

impl Looks {
    /// Looks at a change that usually takes this long, if that is known, by a call that has this time.
    pub fn at(usual: Option<Duration>, total: Duration) -> Self {
        let shortest = Duration::from_millis(50).min(total / 20);
        let longest = Duration::from_secs(5).min(total / 8);
        Self { elapsed: Duration::ZERO, usual, shortest, longest }
    }

    /// Looks at a change that others asked for, by a call that has just looked.
    pub fn at_others(total: Duration) -> Self {
        Self { elapsed: Duration::from_millis(200).min(total / 20), ..Self::at(None, total) }
    }
}

impl Iterator for Looks {
    type Item = Duration;
    fn next(&mut self) -> Option<Duration> {
        let pause = match self.usual {
            Some(usual) if self.elapsed.is_zero() => usual.mul_f64(0.85).min(self.longest * 4),
            Some(usual) if self.elapsed < usual * 2 => self.elapsed.mul_f64(0.07),
            // A look at once, for some clouds are through when they answer.
            None if self.elapsed.is_zero() => Duration::ZERO,
            _ => (self.elapsed / 3).max(self.shortest * 2),
        };
        let is_first = self.elapsed.is_zero();
        let pause = if is_first { pause } else { pause.clamp(self.shortest, self.longest) };
        // Time passes also with a look that waits for nothing.
        self.elapsed += pause.max(Duration::from_millis(1));
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_to_their_limit() {
        let steps: Vec<_> =
            Steps::between(Duration::from_millis(4), Duration::from_millis(10)).take(4).collect();
        assert_eq!(steps.iter().map(Duration::as_millis).collect::<Vec<_>>(), [4, 6, 9, 10]);
    }

    #[test]
    fn looks_come_when_the_change_is_usually_through() {
        let minute = Duration::from_secs(60);
        let looks = |usual: Option<u64>| {
            let pauses = Looks::at(usual.map(Duration::from_millis), minute).take(4);
            pauses.map(|pause| pause.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(looks(Some(1000)), [850, 59, 63, 68]);
        assert_eq!(looks(Some(0)), [0, 100, 100, 100]);
        assert_eq!(looks(None), [0, 100, 100, 100]);
        // One that takes very long, or never ends, is looked at less and less often.
        assert_eq!(looks(Some(100_000))[..2], [20_000, 1400]);
        let all: Vec<_> = Looks::at(None, minute).take(40).collect();
        assert!(
            all.iter().sum::<Duration>() > minute && all.last() == Some(&Duration::from_secs(5))
        );
        // A call that has little time looks often.
        let short = Looks::at(None, Duration::from_millis(240));
        assert!(short.take(9).all(|pause| pause <= Duration::from_millis(30)));
    }
}
