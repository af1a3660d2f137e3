//! docs/refusals.md has a message for each row of docs/failures.md that a test was told, or says why it has none.
//! `./install.sh test refusals` runs those tests, and this one last, which writes the page.

use crate::source;
use crate::support::refusals::{Entry, entries, is_to_be_written, kept, normal, rows};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The heading of the rows that no test makes.
const NOT_MADE: &str = "## Made by no test";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/refusals.md")
}

/// What stands below the heading of the rows that no test makes, and the first cells of these.
fn not_made(page: &str) -> (&str, BTreeSet<String>) {
    let (_, rest) = page.split_once(NOT_MADE).unwrap_or_else(|| panic!("no {NOT_MADE}"));
    let lines = rest.lines().filter_map(|line| line.strip_prefix("| `"));
    let heads = lines.filter_map(|line| line.split(" |").next());
    (rest, heads.map(|head| format!("`{head}")).collect())
}

/// The messages that tests have kept, by row.
fn messages() -> BTreeMap<String, Vec<Entry>> {
    let files = fs::read_dir(kept()).into_iter().flatten().flatten();
    let texts: Vec<_> = files.map(|file| fs::read_to_string(file.path()).unwrap()).collect();
    let mut all: BTreeMap<_, Vec<Entry>> = BTreeMap::new();
    for line in texts.iter().flat_map(|text| text.lines()) {
        let entry: Entry = serde_json::from_str(line).unwrap();
        all.entry(entry.row.clone()).or_default().push(entry);
    }
    all
}

/// What stands on the page for a row, as its test was told it now; of a new row the shortest message.
fn renewed(before: Option<Entry>, told: Option<&Vec<Entry>>) -> Option<Entry> {
    let told = told.map_or(&[][..], Vec::as_slice);
    let Some(before) = before else {
        return told.iter().min_by_key(|entry| (entry.message.len(), &entry.test)).cloned();
    };
    let now = told.iter().find(|entry| entry.test == before.test);
    let is_new = |now: &&Entry| normal(&now.message) != normal(&before.message);
    Some(now.filter(is_new).cloned().unwrap_or(before))
}

fn write() {
    let before = fs::read_to_string(page()).unwrap();
    let (rest, not_made) = not_made(&before);
    let (mut text, mut below) = (before.split("\n## ").next().unwrap().trim_end().to_owned(), None);
    let (messages, shown) = (messages(), entries());
    for row in rows().into_iter().filter(|row| !not_made.contains(&row.head)) {
        let entry = shown.iter().find(|entry| entry.row == row.head).cloned();
        let Some(entry) = renewed(entry, messages.get(&row.head)) else { continue };
        if below.as_ref() != Some(&row.heading) {
            text += &format!("\n\n## {}", row.heading);
            below = Some(row.heading);
        }
        let Entry { row, test, call, message } = entry;
        text += &format!("\n\n### {row}\n\n`{call}`, by `{test}`:\n\n```text\n{message}\n```");
    }
    fs::write(page(), format!("{text}\n\n{NOT_MADE}{rest}")).unwrap();
}

#[test]
fn each_row_has_a_message_of_a_test_or_a_reason() {
    if is_to_be_written() {
        write();
    }
    let text = fs::read_to_string(page()).unwrap();
    let (_, not_made) = not_made(&text);
    let (shown, rows) = (entries(), rows());
    assert_eq!(text.matches("\n### ").count(), shown.len(), "an entry cannot be read");
    let heads: BTreeSet<_> = rows.iter().map(|row| row.head.clone()).collect();
    let of_page: BTreeSet<_> = shown.iter().map(|entry| entry.row.clone()).collect();
    let both: Vec<_> = of_page.intersection(&not_made).collect();
    assert!(both.is_empty(), "{both:?}");
    let told: BTreeSet<_> = of_page.union(&not_made).cloned().collect();
    let differ: Vec<_> = told.symmetric_difference(&heads).collect();
    assert!(
        differ.is_empty(),
        "in one of docs/refusals.md and docs/failures.md alone: {differ:#?}"
    );
    for entry in &shown {
        let row = rows.iter().find(|row| row.head == entry.row).unwrap();
        assert!(row.fits(&entry.message), "{}: {}", entry.row, entry.message);
    }
}

/// A test that the page names must be there to be held against it.
#[test]
fn each_message_names_a_test_that_is_there() {
    for Entry { row, test, .. } in entries() {
        assert!(source::has_test(&test), "{row}: {test}");
    }
}
