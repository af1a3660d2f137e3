//! What became of a mount that a heal replaced, in words.

use crate::model::mount::replacement::{ReplacementOutcome, Switched};

/// What is told of a map whose disk came back.
pub(super) const IS_BACK: &str = "the disk is back under its map, and what waited goes on";

pub(super) fn word(one: &Switched) -> &'static str {
    match one.outcome {
        ReplacementOutcome::Switched => "switched",
        ReplacementOutcome::DetachedOnly => "finished",
        ReplacementOutcome::Stacked => "stacked",
        ReplacementOutcome::Gone => "gone",
        ReplacementOutcome::Skipped(_) => "skipped",
    }
}

pub(super) fn notes(one: &Switched) -> String {
    let why = match &one.outcome {
        ReplacementOutcome::Skipped(why) => vec![why.clone()],
        _ => Vec::new(),
    };
    let all: Vec<_> = why.into_iter().chain(one.notes.iter().cloned()).collect();
    if all.is_empty() { String::new() } else { format!("  ({})", all.join("; ")) }
}
