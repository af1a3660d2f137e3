//! What people read: each row as it happens, and the sum at the end.

use crate::scene::Row;
use std::cell::RefCell;
use std::io::Write;
use std::time::Duration;

/// How a scenario ended on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    Passed,
    /// A control that failed where it must: the check, and what was seen there.
    FailedAsItMust(String),
    Failed(String),
    Skipped(String),
}

impl Ended {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Passed | Self::FailedAsItMust(_) => "passed",
            Self::Failed(_) => "FAILED",
            Self::Skipped(_) => "skipped",
        }
    }
}

/// One line of the last table.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) setting: String,
    pub(crate) took: Duration,
    pub(crate) ended: Ended,
}

thread_local! {
    /// What this thread says, while others play too: told in one piece when its scenario has ended.
    static HELD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on this thread holds back what it says.
pub(crate) fn hold() {
    HELD.with_borrow_mut(|held| *held = Some(String::new()));
}

/// Tells what this thread held back, and goes on holding.
pub(crate) fn tell() {
    let text = HELD.with_borrow_mut(|held| held.as_mut().map(std::mem::take));
    if let Some(text) = text {
        print(&text);
    }
}

/// Shows a row of a scenario's table.
pub(crate) fn show(row: &Row) {
    let Row { did, saw, well, took } = row;
    let word = if *well { "ok" } else { "WRONG" };
    say(&format!(
        "  {:<58} {:>6.2} s  {word:<5}  {}",
        shortened(did, 58),
        took.as_secs_f64(),
        shortened(saw, 300)
    ));
}

/// Says something at once, also into a pipe; or, where it is held back, later.
pub(crate) fn say(text: &str) {
    let line = format!("{text}\n");
    let is_held = HELD.with_borrow_mut(|held| held.as_mut().map(|held| held.push_str(&line)));
    if is_held.is_none() {
        print(&line);
    }
}

/// In one piece, whatever else is printed.
fn print(text: &str) {
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(text.as_bytes());
    let _ = output.flush();
}

fn shortened(text: &str, most: usize) -> String {
    let text = text.replace('\n', " ");
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// The table of all, and the closing line; answers whether nothing failed.
pub(crate) fn close(lines: &[Line], took: Duration) -> bool {
    say("");
    for line in lines {
        let why = match &line.ended {
            Ended::Passed => String::new(),
            Ended::FailedAsItMust(saw) => format!("  fails as it must: {}", shortened(saw, 120)),
            Ended::Failed(why) | Ended::Skipped(why) => format!("  {}", shortened(why, 300)),
        };
        let (name, setting, took) = (&line.name, &line.setting, line.took.as_secs_f64());
        let word = line.ended.word();
        say(&format!("{word:<8} {name:<36} {setting:<38} {took:>6.1} s{why}"));
    }
    let count = |word: &str| lines.iter().filter(|line| line.ended.word() == word).count();
    let controls = lines.iter().filter(|line| matches!(line.ended, Ended::FailedAsItMust(_)));
    say(&format!(
        "\n{} controls failed as they must; all of it took {:.0} s",
        controls.count(),
        took.as_secs_f64()
    ));
    let (passed, failed, skipped) = (count("passed"), count("FAILED"), count("skipped"));
    say(&format!("\n{passed} passed, {failed} failed, {skipped} skipped"));
    failed == 0
}
