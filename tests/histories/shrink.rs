//! Makes a history that fails shorter, as long as it fails in the same way.

use crate::play::Tally;
use crate::steps::Step;
use crate::world::Violation;
use crate::{Setting, play};
use std::time::{Duration, Instant};

pub fn shrink(
    setting: Setting,
    steps: &[Step],
    violation: &Violation,
    limit: Duration,
) -> Vec<Step> {
    let begin = Instant::now();
    let mut best = steps.to_vec();
    let still_fails = |steps: &[Step]| {
        let ended = play(setting, steps, &mut Tally::default());
        ended.is_err_and(|(_, found)| found.kind == violation.kind)
    };
    let mut piece = best.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < best.len() {
            if begin.elapsed() > limit {
                return best;
            }
            let mut shorter = best.clone();
            shorter.drain(at..(at + piece).min(best.len()));
            if still_fails(&shorter) {
                best = shorter;
            } else {
                at += piece;
            }
        }
        if piece == 1 {
            break;
        }
        piece = piece.div_ceil(2);
    }
    simpler(best, begin + limit, still_fails)
}

/// The same without what happens beside a step, and without kills.
fn simpler(mut best: Vec<Step>, end: Instant, still_fails: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    for n in 0..best.len() {
        if Instant::now() > end {
            break;
        }
        let mut plain = best.clone();
        plain[n].beside = None;
        plain[n].killed_at = None;
        if plain != best && still_fails(&plain) {
            best = plain;
        }
    }
    best
}
