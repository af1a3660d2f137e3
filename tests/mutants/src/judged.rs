//! What a person has said of survivors, and what the rings were seen to catch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The page whose table has a reason for each survivor.
pub const PAGE: &str = "docs/mutants.md";
/// Mutants that no unit test catches, but one of a ring.
pub const BY_RINGS: &str = "tests/mutants/caught_by_rings";

/// Mutants that survived when they were last played, and are not judged yet. A new one fails.
pub const NOT_JUDGED: &str = "tests/mutants/not_judged";

/// A reason for each mutant's key: the rows of the page that begin with a file, `| file | function | what | reason |`.
pub fn reasons(tree: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(tree.join(PAGE)).unwrap_or_default();
    let mut reasons = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `src/")) {
        // A bar within a cell is written as Markdown asks for.
        let line = line.replace("\\|", "\u{1}");
        let cells: Vec<String> = line
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().replace('\u{1}', "|"))
            .collect();
        let [file, function, what, reason] = &cells[..] else { continue };
        let bare = |cell: &str| cell.trim_matches('`').to_owned();
        if !reason.is_empty() {
            reasons.insert(
                format!("{}: {}: {}", bare(file), bare(function), bare(what)),
                reason.clone(),
            );
        }
    }
    reasons
}

/// A row of that page, without its reason.
pub fn row(file: &str, function: &str, key: &str) -> String {
    let what = key.strip_prefix(&format!("{file}: {function}: ")).unwrap_or(key);
    format!("| `{file}` | `{}` | `{}` | |", function.replace('|', "\\|"), what.replace('|', "\\|"))
}

/// The keys in a file of this folder, one in a line.
pub fn keys(tree: &Path, file: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(tree.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

pub fn keep(tree: &Path, file: &str, keys: &BTreeSet<String>) -> Result<(), String> {
    let lines: Vec<&str> = keys.iter().map(String::as_str).collect();
    let text = if lines.is_empty() { String::new() } else { lines.join("\n") + "\n" };
    std::fs::write(tree.join(file), text).map_err(|error| format!("{file}: {error}"))
}
