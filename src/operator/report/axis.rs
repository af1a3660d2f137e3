//! A line of time: where each moment stands. Where nothing happens for long it is broken, so that what happened
//! within seconds stays readable beside what happened a day before.

use crate::host::zone::LOCAL;
use crate::model::sorting::sort_by_key;
use crate::model::timestamp::{self, Millis};

/// Tenths of a unit of the picture.
pub(super) type Tenths = u64;

/// Two moments that stand closer are crowded.
const CROWDED: Tenths = 140;

/// How wide a break is.
const BREAK: Tenths = 440;

/// What is drawn between two breaks is at least as wide.
const LEAST: Tenths = 900;

/// How wide a sign of a label is taken for, and what is left free beside it.
const SIGN: Tenths = 68;
const FREE: Tenths = 120;

/// Steps between two ticks, in tenths of a second.
const STEPS: [Millis; 26] = [
    1, 2, 5, 10, 20, 50, 100, 150, 300, 600, 1200, 3000, 6000, 9000, 18_000, 36_000, 72_000,
    108_000, 216_000, 432_000, 864_000, 1_728_000, 6_048_000, 12_096_000, 25_920_000, 77_760_000,
];

const MINUTE: Millis = 60_000;
const DAY: Millis = 86_400_000;

/// The line.
#[derive(Debug)]
pub(super) struct Axis {
    stretches: Vec<Stretch>,
    pub(super) breaks: Vec<AxisBreak>,
}

/// A part of it on which the time goes on evenly.
#[derive(Debug, Clone)]
struct Stretch {
    from: Millis,
    until: Millis,
    left: Tenths,
    right: Tenths,
}

/// A part that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AxisBreak {
    pub(super) left: Tenths,
    pub(super) right: Tenths,
    /// How long that was.
    pub(super) span: Millis,
}

/// A moment with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tick {
    pub(super) at: Tenths,
    /// Where its label begins.
    pub(super) label_at: Tenths,
    pub(super) label: String,
    /// The day, where it is another than at the tick before.
    pub(super) day: Option<String>,
}

fn width_of(label: &str) -> Tenths {
    Tenths::try_from(label.len()).unwrap_or_default() * SIGN
}

impl Axis {
    /// A line from one moment to another, between two edges, for what happens at these times.
    pub(super) fn new(
        times: &[Millis],
        (begin, end): (Millis, Millis),
        (left, right): (Tenths, Tenths),
        most_breaks: usize,
    ) -> Self {
        let end = end.max(begin + 2000);
        let mut points: Vec<Millis> = times.iter().map(|at| (*at).clamp(begin, end)).collect();
        points.extend([begin, end]);
        points.sort_unstable();
        points.dedup();
        let gaps: Vec<(Millis, Millis)> = points.windows(2).map(|two| (two[0], two[1])).collect();
        let mut idle = idle(&gaps, right - left, most_breaks);
        // Between two breaks something stands, with some room around it.
        let active: Millis =
            gaps.iter().filter(|gap| !idle.contains(gap)).map(|(a, b)| b - a).sum();
        let margin = |gap: &(Millis, Millis)| (active / 12).max(1000).min((gap.1 - gap.0) / 3);
        let mut spans: Vec<(Millis, Millis)> = Vec::new();
        let mut from = begin;
        // What is empty from the beginning on needs no break.
        if idle.first().is_some_and(|gap| gap.0 == begin) && !times.contains(&begin) {
            let gap = idle.remove(0);
            from = gap.1 - margin(&gap);
        }
        for gap in &idle {
            spans.push((from, gap.0 + margin(gap)));
            from = gap.1 - margin(gap);
        }
        spans.push((from, end));
        let room = (right - left).saturating_sub(BREAK * idle.len() as u64);
        let widths = widths(&spans, room);
        let mut axis = Self { stretches: Vec::new(), breaks: Vec::new() };
        let mut at = left;
        for (place, ((from, until), width)) in spans.iter().zip(widths).enumerate() {
            axis.stretches.push(Stretch {
                from: *from,
                until: *until,
                left: at,
                right: at + width,
            });
            at += width;
            if let Some((next, _)) = spans.get(place + 1) {
                axis.breaks.push(AxisBreak { left: at, right: at + BREAK, span: next - until });
                at += BREAK;
            }
        }
        axis
    }

    /// Where a moment stands.
    pub(super) fn at(&self, moment: Millis) -> Tenths {
        let mut last = self.stretches.first().map_or(0, |first| first.left);
        for stretch in &self.stretches {
            if moment < stretch.from {
                // Within a break nothing is to be told apart.
                return Tenths::midpoint(last, stretch.left);
            }
            if moment <= stretch.until {
                return stretch.at(moment);
            }
            last = stretch.right;
        }
        last
    }

    /// Ticks that are as close as their labels can be read.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let (Some(first), Some(last)) = (self.stretches.first(), self.stretches.last()) else {
            return Vec::new();
        };
        let (left, right) = (first.left, last.right);
        let mut ticks: Vec<Tick> = Vec::new();
        let mut free_from = left;
        let mut day = String::new();
        for stretch in &self.stretches {
            for (moment, label) in stretch.moments() {
                let (at, width) = (stretch.at(moment), width_of(&label));
                let today = timestamp::day(LOCAL.shown(moment));
                let is_new_day = today != day;
                let whole = if is_new_day { width.max(width_of(&today)) } else { width };
                let label_at = at.saturating_sub(width / 2).clamp(left, (right - whole).max(left));
                if label_at < free_from {
                    continue;
                }
                free_from = label_at + whole + FREE / 2;
                day.clone_from(&today);
                ticks.push(Tick { at, label_at, label, day: is_new_day.then_some(today) });
            }
        }
        ticks
    }
}

/// The gaps that are left out, in the order of time: the longest ones, as long as what stands between them is
/// crowded, and only where most of the rest goes with them: each break makes the line harder to read.
fn idle(gaps: &[(Millis, Millis)], room: Tenths, most: usize) -> Vec<(Millis, Millis)> {
    const SHORTEST: Millis = 3000;
    let span = |gap: &(Millis, Millis)| gap.1 - gap.0;
    let mut longest: Vec<_> = gaps.to_vec();
    sort_by_key(&mut longest, |gap| std::cmp::Reverse(span(gap)));
    let mut active: Millis = gaps.iter().map(span).sum();
    let shortest = gaps.iter().map(span).min().unwrap_or_default();
    let mut count = 0;
    while gaps.len() > 1
        && u128::from(shortest) * u128::from(room) < u128::from(active) * u128::from(CROWDED)
    {
        let is_long = |gap: &&(Millis, Millis)| span(gap) >= SHORTEST && span(gap) * 10 >= active;
        let long = longest[count..].iter().take_while(is_long).take(most - count);
        let mut sum = 0;
        let enough = long.map(span).position(|span| {
            sum += span;
            sum * 20 >= active * 11
        });
        let Some(enough) = enough else { break };
        count += enough + 1;
        active -= sum;
    }
    longest.truncate(count);
    longest.sort_unstable();
    longest
}

/// The room of each span: as long as it lasts, and at least so much that a time can be read below it.
fn widths(spans: &[(Millis, Millis)], room: Tenths) -> Vec<Tenths> {
    let count = spans.len() as u64;
    let least = LEAST.min(room / count.max(1));
    let rest = room - least * count;
    let all: u128 = spans.iter().map(|(from, until)| u128::from(until - from)).sum();
    let share = |(from, until): &(Millis, Millis)| {
        let share = u128::from(rest) * u128::from(until - from) / all.max(1);
        least + Tenths::try_from(share).unwrap_or_default()
    };
    spans.iter().map(share).collect()
}

impl Stretch {
    fn at(&self, moment: Millis) -> Tenths {
        let (all, part) = (self.until - self.from, moment.clamp(self.from, self.until) - self.from);
        let share = u128::from(self.right - self.left) * u128::from(part) / u128::from(all.max(1));
        self.left + Tenths::try_from(share).unwrap_or_default()
    }

    /// The moments of its ticks, with their labels; where no step fits its beginning.
    fn moments(&self) -> Vec<(Millis, String)> {
        let (span, width) = (self.until - self.from, self.right - self.left);
        for step in STEPS.map(|tenths| tenths * 100) {
            let apart = u128::from(width) * u128::from(step) / u128::from(span.max(1));
            if apart < u128::from(width_of(&label(self.from, step)) + FREE) {
                continue;
            }
            // A day begins at midnight of local time.
            let local = LOCAL.shown(self.from);
            let first = self.from + (local.div_ceil(step) * step - local);
            let moments = (0..).map(|nth| first + nth * step).take_while(|at| *at <= self.until);
            let moments: Vec<_> = moments.map(|at| (at, label(at, step))).collect();
            if !moments.is_empty() {
                return moments;
            }
        }
        vec![(self.from, label(self.from, 1000))]
    }
}

/// As exact as the step.
fn label(at: Millis, step: Millis) -> String {
    let at = LOCAL.shown(at);
    let clock = timestamp::clock(at);
    let signs = match step {
        0..1000 => "00:00:00.0".len(),
        1000..MINUTE => "00:00:00".len(),
        MINUTE..DAY => "00:00".len(),
        _ => return timestamp::day(at)[5..].to_owned(),
    };
    clock[..signs].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Millis = 1_795_233_000_000;
    const EDGES: (Tenths, Tenths) = (1000, 10_800);

    fn check(axis: &Axis, times: &[Millis]) {
        let mut times = times.to_vec();
        times.sort_unstable();
        let places: Vec<_> = times.iter().map(|at| axis.at(*at)).collect();
        assert!(places.is_sorted() && places.iter().all(|x| (EDGES.0..=EDGES.1).contains(x)));
        let ticks = axis.ticks();
        assert!(!ticks.is_empty() && ticks[0].day.is_some(), "{ticks:?}");
        for two in ticks.windows(2) {
            let day = two[0].day.as_deref().map_or(0, width_of);
            let end = two[0].label_at + width_of(&two[0].label).max(day);
            assert!(end < two[1].label_at, "{ticks:?}");
        }
        for tick in &ticks {
            assert!(tick.label_at + width_of(&tick.label) <= EDGES.1, "{ticks:?}");
        }
    }

    #[test]
    fn what_is_even_has_no_break() {
        let times: Vec<_> = (0..24).map(|hour| BEGIN + hour * 3_600_000).collect();
        let axis = Axis::new(&times, (BEGIN, BEGIN + DAY), EDGES, 5);
        assert_eq!(axis.breaks, []);
        check(&axis, &times);
        assert_eq!((axis.at(BEGIN), axis.at(BEGIN + DAY)), EDGES);
    }

    #[test]
    fn an_hour_in_a_day_is_as_wide_as_it_needs() {
        let incident = BEGIN + 80_000_000;
        let times: Vec<_> = (0..40).map(|nth| incident + nth * 1500).collect();
        let axis = Axis::new(&times, (BEGIN, BEGIN + DAY), EDGES, 5);
        assert_eq!(axis.breaks.len(), 1, "that it was quiet before needs none: {axis:?}");
        let width = axis.at(incident + 40 * 1500) - axis.at(incident);
        assert!(width > (EDGES.1 - EDGES.0) / 2, "{width} {axis:?}");
        check(&axis, &times);
    }

    #[test]
    fn no_moment_and_one_have_an_axis() {
        for times in [&[][..], &[BEGIN], &[BEGIN; 50], &[BEGIN - 5, BEGIN + 1_000_000_000]] {
            check(&Axis::new(times, (BEGIN, BEGIN), EDGES, 5), &[]);
            check(&Axis::new(times, (BEGIN, BEGIN + 1), EDGES, 0), times);
            check(&Axis::new(times, (0, BEGIN), EDGES, 2), times);
        }
    }

    proptest::proptest! {
        #[test]
        fn every_moment_has_its_place(
            parts in proptest::collection::vec((0u64..30, 0u64..4), 0..80),
            span in 0u64..40,
        ) {
            // Clusters of very different spans.
            let times: Vec<_> = parts.iter().map(|(power, more)| BEGIN + (1 << power) * (more + 1)).collect();
            let axis = Axis::new(&times, (BEGIN, BEGIN + (1 << span)), EDGES, 5);
            check(&axis, &times);
        }
    }
}
