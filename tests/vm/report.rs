//! What people read: each row as it happens, and the sum at the end.

use crate::scene::Row;
use std::io::Write;
use std::time::Duration;

/// How a scenario ended on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    Passed,
    Failed(String),
    Skipped(String),
}

/// One line of the last table.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) setting: String,
    pub(crate) took: Duration,
    pub(crate) ended: Ended,
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

/// Says something at once, also into a pipe.
pub(crate) fn say(text: &str) {
    println!("{text}");
    let _ = std::io::stdout().flush();
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
        let (word, why) = match &line.ended {
            Ended::Passed => ("passed", String::new()),
            Ended::Failed(why) => ("FAILED", format!("  {why}")),
            Ended::Skipped(why) => ("skipped", format!("  {why}")),
        };
        let (name, setting, took) = (&line.name, &line.setting, line.took.as_secs_f64());
        say(&format!("{word:<8} {name:<36} {setting:<40} {took:>6.1} s{why}"));
    }
    let count = |fits: fn(&Ended) -> bool| lines.iter().filter(|line| fits(&line.ended)).count();
    let passed = count(|ended| matches!(ended, Ended::Passed));
    let failed = count(|ended| matches!(ended, Ended::Failed(_)));
    let skipped = count(|ended| matches!(ended, Ended::Skipped(_)));
    say(&format!("\nall of it took {:.0} s", took.as_secs_f64()));
    say(&format!("\n{passed} passed, {failed} failed, {skipped} skipped"));
    failed == 0
}
