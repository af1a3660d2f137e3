//! A tear-down that was refused, and how often.

use crate::face::FaceName;
use crate::ids::ConsumerId;
use crate::text::kept;
use crate::timestamp::Uptime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// A refusal that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why, the last time.
    pub reason: String,
    /// Since when, in seconds since 1970: for people, and nothing is decided by it.
    pub since: u64,
    /// When it was repeated last, for people too.
    pub last: u64,
    /// How often, for this reason.
    pub count: u64,
    /// The face through which it was asked for the last time; nothing in a record of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub face: Option<FaceName>,
    /// The series of refusals that it belongs to; nothing in a record of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
}

/// Refusals of one tear-down that follow each other: it was asked for all the time, and for the
/// same pods. Measured by the time since the machine was started, which cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Its first refusal.
    pub begin: Uptime,
    /// Its last one.
    pub last: Uptime,
    /// How many there were.
    pub count: u64,
    /// The pods for whose sake it is refused, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<BTreeSet<ConsumerId>>,
}

/// When and for whom a tear-down is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occasion {
    /// By the clock that cannot be set.
    pub uptime: Uptime,
    /// In seconds since 1970.
    pub wall: u64,
    /// The pods that run, where they are known.
    pub pods: Option<BTreeSet<ConsumerId>>,
    /// Through which face it is asked for.
    pub face: FaceName,
}

/// The orchestrator repeats a call at the latest after two minutes (its longest back-off is 2 min
/// 2 s); one that was not repeated for longer is not asked for any more.
const REPEATED_WITHIN: u64 = 300;

/// A gap that no back-off explains, not even with a restart of kubelet in it: what is refused after
/// it is another incident.
const SERIES_GAP: u64 = 600;

impl Series {
    /// Whether a refusal of now goes on with this series. After a reboot, a long gap, or for pods
    /// that were not refused before it is another one.
    fn goes_on(&self, now: &Occasion) -> bool {
        let is_asked_on =
            now.uptime.since(&self.last).is_some_and(|gap| gap <= Duration::from_secs(SERIES_GAP));
        let is_for_the_same = match (&self.pods, &now.pods) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(before), Some(pods)) => pods.is_subset(before),
        };
        is_asked_on && is_for_the_same
    }
}

impl Refusal {
    /// Whether the tear-down is still asked for, and refused.
    pub fn is_current(&self, now: &Uptime) -> bool {
        let gap = self.series.as_ref().and_then(|series| now.since(&series.last));
        gap.is_some_and(|gap| gap <= Duration::from_secs(REPEATED_WITHIN))
    }

    /// The refusal that follows an earlier one of the same tear-down.
    pub fn after(before: Option<&Self>, reason: &str, now: &Occasion) -> Self {
        let last = now.uptime.clone();
        let goes_on =
            |before: &&Self| before.series.as_ref().is_some_and(|series| series.goes_on(now));
        let before = before.filter(goes_on);
        let series = before.and_then(|before| before.series.clone()).map_or_else(
            || Series { begin: last.clone(), last: last.clone(), count: 1, pods: now.pods.clone() },
            |series| Series {
                last: last.clone(),
                count: series.count.saturating_add(1),
                pods: now.pods.clone().or(series.pods),
                ..series
            },
        );
        let since = before.map_or(now.wall, |before| before.since);
        let reason = kept(reason);
        let same = before.filter(|before| is_the_same(&before.reason, &reason, now));
        let count = same.map_or(1, |before| before.count.saturating_add(1));
        let face = Some(now.face.clone());
        Self { reason, since, last: now.wall, count, face, series: Some(series) }
    }

    /// Whether the tear-down was refused for so long, without a break and for the same pods, and
    /// not for the first time.
    pub fn lasts(&self, limit: Duration) -> bool {
        let series = self.series.as_ref().filter(|series| series.count > 1);
        let lasted = series.and_then(|series| series.last.since(&series.begin));
        lasted.is_some_and(|lasted| lasted >= limit)
    }

    /// Whether the time before had the same reason.
    pub fn is_repeated(&self) -> bool {
        self.count > 1
    }

    /// A reason is written into the log when it is new; of its repetitions the tenth, the
    /// hundredth and so on, so that a log shows that it goes on, and is not filled by it.
    pub fn is_worth_a_line(&self) -> bool {
        std::iter::successors(Some(1u64), |power| power.checked_mul(10))
            .take_while(|power| *power <= self.count)
            .any(|power| power == self.count)
    }
}

/// Whether a reason is the one of the time before. Where the pods are known it is for the same ones, and
/// who of them is named after the colon is another process with each look: a shell's child, say.
fn is_the_same(before: &str, reason: &str, now: &Occasion) -> bool {
    let told = |text| if now.pods.is_some() { cause(text) } else { text };
    told(before) == told(reason)
}

fn cause(reason: &str) -> &str {
    reason.split_once(": ").map_or(reason, |(cause, _)| cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::OF_TESTS;

    fn at(boot: &str, seconds: u64, pods: Option<&[&str]>) -> Occasion {
        let pods = pods.map(|all| all.iter().map(|one| ConsumerId::parse(one).unwrap()).collect());
        let uptime = Uptime { boot: boot.to_owned(), seconds };
        // The wall clock runs wild: nothing may depend on it.
        let wall = seconds.wrapping_mul(2_654_435_761) % 4_000_000_000;
        Occasion { uptime, wall, pods, face: OF_TESTS.0[0].name() }
    }

    #[test]
    fn the_same_reason_is_counted_and_another_one_begins_anew() {
        let first = Refusal::after(None, "a", &at("b", 100, None));
        assert_eq!((first.count, first.is_worth_a_line()), (1, true));
        let again = Refusal::after(Some(&first), "a", &at("b", 107, None));
        assert_eq!((again.count, again.since, again.is_worth_a_line()), (2, first.since, false));
        let other = Refusal::after(Some(&again), "b", &at("b", 109, None));
        assert_eq!((other.count, other.since, other.is_worth_a_line()), (1, first.since, true));
        assert_eq!(other.series.as_ref().unwrap().count, 3, "the series goes on");
        assert_eq!([&first, &again, &other].map(Refusal::is_repeated), [false, true, false]);
        let is_current = |seconds| first.is_current(&at("b", seconds, None).uptime);
        assert!(is_current(100) && is_current(400) && !is_current(401) && !is_current(99));
        let lines =
            (1..=1000).filter(|count| Refusal { count: *count, ..first.clone() }.is_worth_a_line());
        assert_eq!(lines.collect::<Vec<_>>(), [1, 10, 100, 1000]);
    }

    /// A container's shell starts a child five times a second, and its process may be named first.
    #[test]
    fn who_of_a_pod_is_named_is_no_other_reason() {
        let pods = Some(&["a"][..]);
        let first = Refusal::after(None, "a still runs: 864 (sleep)", &at("b", 100, pods));
        let again = |reason, pods| Refusal::after(Some(&first), reason, &at("b", 107, pods)).count;
        assert_eq!(again("a still runs: 31688 (sh) and 1 more", pods), 2);
        assert_eq!(again("a uses the folder itself: 864 (sleep)", pods), 1);
        assert_eq!(again("a and b still run: 864 (sleep)", Some(&["a", "b"])), 1);
        assert_eq!(again("a still runs: 31688 (sh)", None), 1, "whose it is cannot be told");
    }

    /// The boot, the seconds since it, and the pods.
    type Told = (&'static str, u64, Option<&'static [&'static str]>);

    #[test]
    fn time_counts_from_the_first_refusal_of_an_unbroken_series() {
        let limit = Duration::from_secs(300);
        let a = Some(&["a"][..]);
        let both = Some(&["a", "b"][..]);
        let none: Option<&[&str]> = Some(&[]);
        // Of each series the occasions, and whether the last of them was refused for long enough.
        let cases: [(&[Told], bool); 13] = [
            (&[("b", 0, a), ("b", 300, a)], true),
            (&[("b", 0, a), ("b", 299, a)], false),
            (&[("b", 0, None), ("b", 300, None)], true),
            // One alone, however long the machine runs.
            (&[("b", 90_000, a)], false),
            // A gap.
            (&[("b", 0, a), ("b", 601, a)], false),
            (&[("b", 0, a), ("b", 600, a)], true),
            (&[("b", 0, a), ("b", 250, a), ("b", 851, a), ("b", 900, a)], false),
            // A reboot; a clock that went back; a boot that cannot be told.
            (&[("b", 0, a), ("c", 400, a)], false),
            (&[("b", 500, a), ("b", 400, a), ("b", 600, a)], false),
            (&[("", 0, a), ("", 400, a)], false),
            // A pod that was not refused before; one that has ended; one that cannot be told.
            (&[("b", 0, a), ("b", 200, both), ("b", 400, both)], false),
            (&[("b", 0, both), ("b", 200, a), ("b", 400, None), ("b", 500, a)], true),
            (&[("b", 0, a), ("b", 200, none), ("b", 400, a)], false),
        ];
        for (told, expected) in cases {
            let mut refusal: Option<Refusal> = None;
            for (boot, seconds, pods) in told {
                refusal = Some(Refusal::after(refusal.as_ref(), "r", &at(boot, *seconds, *pods)));
            }
            assert_eq!(refusal.unwrap().lasts(limit), expected, "{told:?}");
        }
    }

    #[test]
    fn a_record_of_an_older_version_begins_anew() {
        let text = r#"{"reason":"r","since":1,"last":2,"count":7}"#;
        let old: Refusal = serde_json::from_str(text).unwrap();
        let now = at("b", 90_000, None);
        assert!(!old.is_current(&now.uptime) && !old.lasts(Duration::ZERO));
        let next = Refusal::after(Some(&old), "r", &now);
        assert_eq!((next.count, next.series.as_ref().unwrap().count), (1, 1));
        assert!(!next.lasts(Duration::ZERO));
    }
}
