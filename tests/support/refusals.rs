//! The messages of docs/refusals.md: what a test was told is held against the page, or, with `REFUSALS=write`,
//! kept for it. A row is one of the tables of docs/failures.md; the first message of a test that fits it counts.

use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A row of a table of docs/failures.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The heading that it stands below.
    pub heading: String,
    /// Its first cell.
    pub head: String,
    /// What that quotes: of each text its parts, in their order.
    pub quoted: Vec<Vec<String>>,
}

impl Row {
    /// Whether a message has what the row quotes.
    pub fn fits(&self, message: &str) -> bool {
        self.quoted.iter().any(|parts| has_in_order(message, parts))
    }
}

/// Whether a text has all these parts, one after the other.
pub fn has_in_order(text: &str, parts: &[String]) -> bool {
    let mut rest = text;
    parts.iter().all(|part| match rest.split_once(part.as_str()) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

fn page_of(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All rows, in the order of the page.
pub fn rows() -> Vec<Row> {
    let page = page_of("failures.md");
    let mark = Regex::new("`([^`]+)`").expect("a pattern");
    let mut all = Vec::new();
    for section in page.split("\n## ").skip(1) {
        let heading = section.lines().next().unwrap_or_default();
        let Some((_, table)) = section.split_once("| the message has |") else { continue };
        let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        for head in lines.filter_map(|line| line.split('|').nth(1)) {
            let parts = |text: &str| {
                let parts = text.split('…').map(|part| part.trim().to_owned());
                parts.filter(|part| !part.is_empty()).collect()
            };
            let quoted = mark.captures_iter(head).map(|found| parts(&found[1])).collect();
            let (heading, head) = (heading.to_owned(), head.trim().to_owned());
            all.push(Row { heading, head, quoted });
        }
    }
    assert!(all.len() > 40, "{all:?}");
    all
}

/// A message that a test was told, and the row that it fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The first cell of the row.
    pub row: String,
    /// The ring and the test.
    pub test: String,
    /// The call or verb.
    pub call: String,
    pub message: String,
}

/// What docs/refusals.md shows.
pub fn entries() -> Vec<Entry> {
    let page = page_of("refusals.md");
    let pattern = "(?s)\n### ([^\n]+)\n\n`([^`]+)`, by `([^`]+)`:\n\n```text\n([^\n]*)\n```";
    let found = Regex::new(pattern).expect("a pattern");
    let all = found.captures_iter(&page).map(|found| Entry {
        row: found[1].to_owned(),
        call: found[2].to_owned(),
        test: found[3].to_owned(),
        message: found[4].to_owned(),
    });
    all.collect()
}

/// The same message on every machine, as people read it.
fn shown(message: &str) -> String {
    let folder = regex_lite::escape(std::env::temp_dir().to_str().unwrap_or("/tmp"));
    let mut text = message.to_owned();
    for (pattern, same) in [
        (r" \[call [0-9a-z-]+\]".to_owned(), ""),
        (format!("{folder}/incloud-disk-[^/]+/[^/ ]+/kubelet"), "/var/lib/kubelet"),
        (format!("{folder}/incloud-disk-[^/]+/[^/ ]+/state"), "/var/lib/incloud-disk"),
        (format!("{folder}/incloud-disk-[^/]+/[^/ ]+/run"), "/run/incloud-disk"),
        (format!("{folder}/incloud-disk-[^/ ]+"), "/tmp"),
        // The name of a test's program; an id may have such an end, but never alone.
        (r"\([a-z]+-[0-9a-f]{6,16}\)".to_owned(), "(prometheus)"),
    ] {
        text = Regex::new(&pattern).expect("a pattern").replace_all(&text, same).into_owned();
    }
    text
}

/// What must be the same each time: no id, no number, no name of a process.
pub fn normal(message: &str) -> String {
    let mut text = message.to_owned();
    for (pattern, same) in [
        ("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
        (r"\b[0-9a-f]{12,64}\b", "ID"),
        (r"[0-9]+(\.[0-9]+)*", "N"),
    ] {
        text = Regex::new(pattern).expect("a pattern").replace_all(&text, same).into_owned();
    }
    text
}

/// This ring and this test; nothing on another thread.
fn this_test() -> Option<String> {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| name.contains("::"))?;
    let program = std::env::current_exe().ok()?;
    let ring = program.file_name()?.to_str()?.rsplit_once('-')?.0.to_owned();
    Some(format!("{ring} {test}"))
}

/// Where messages are kept for the page.
pub fn kept() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("refusals")
}

pub fn is_to_be_written() -> bool {
    std::env::var_os("REFUSALS").is_some_and(|word| word == "write")
}

thread_local! {
    /// The rows that this test was told a message of.
    static TOLD: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// A failure that a call or a verb told.
#[track_caller]
pub fn told(call: &str, message: &str) {
    /// What is on the pages does not change while tests run.
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    let Some(test) = this_test() else { return };
    let of_test: Vec<_> =
        ENTRIES.get_or_init(entries).iter().filter(|entry| entry.test == test).collect();
    if of_test.is_empty() && !is_to_be_written() {
        return;
    }
    let rows = ROWS.get_or_init(rows);
    let message = shown(message);
    let is_first = |row: &String| TOLD.with_borrow_mut(|told| told.insert(row.clone()));
    if is_to_be_written() {
        let rows = rows.iter().filter(|row| row.fits(&message)).map(|row| row.head.clone());
        let (test, call) = (&test, call.to_owned());
        let lines = rows.filter(is_first).map(|row| {
            let entry =
                Entry { row, test: test.clone(), call: call.clone(), message: message.clone() };
            serde_json::to_string(&entry).expect("JSON") + "\n"
        });
        let lines: String = lines.collect();
        fs::create_dir_all(kept()).expect("a folder below target");
        let path = kept().join(std::process::id().to_string());
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("a file");
        return file.write_all(lines.as_bytes()).expect("a file below target");
    }
    for entry in of_test {
        let fits = rows.iter().any(|row| row.head == entry.row && row.fits(&message));
        if fits && is_first(&entry.row) {
            assert_eq!(
                normal(&message),
                normal(&entry.message),
                "docs/refusals.md shows another message for {}; ./install.sh test refusals writes it",
                entry.row
            );
        }
    }
}

/// The verbs that do something: each line that they say stands for itself.
const ACTING: [&str; 5] = ["detach", "format", "heal", "local", "release"];

/// What a person's verb printed.
#[track_caller]
pub fn printed(command: &Command, text: &str) {
    let ours = Path::new(command.get_program()) == Path::new(super::DISK);
    let verb = command.get_args().next().and_then(|word| word.to_str()).unwrap_or_default();
    if ours && ACTING.contains(&verb) && !text.starts_with('{') {
        text.lines().for_each(|line| told(verb, line.trim()));
    }
}
