//! The tables of docs/failures.md and the texts of the program are of one kind: no row outlives its message,
//! and no refusal is left without a row.
//!
//! A refusal is an error of a kind that a person or a later call must end (`ENDED_BY_SOMETHING`), wherever it is
//! made: by `Error::new`, `Error::refused`, the guard's `refuse`, or a function or closure of those names. Its words
//! are the texts in the call and in its hint; where there are none, those of the variable or of the function that
//! the reason comes from. What cannot be followed fails, and is named in `WORDED_ELSEWHERE`.

use crate::source::{code, folder, line_of, without_tests};
use crate::support::refusals;
use regex_lite::Regex;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What a heal says of a single mount that it leaves as it is, beside all that it did: each is a note
/// in its list, and no call fails with it.
const NOTES: &str = "src/host/remount/";

/// What is told to people on a terminal, or to the log, and never as the answer of a call.
const TOLD_TO_PEOPLE: [&str; 4] =
    ["src/operator/", "src/supervisor.rs", "src/host/metrics.rs", "src/model/error.rs"];

/// The kinds of errors that waiting alone need not end.
const ENDED_BY_SOMETHING: [&str; 4] = ["Refused", "Guarded", "Elsewhere", "Busy"];

/// The functions of the guard that refuse. Each takes the context first.
const METHODS: [&str; 3] = ["refuse", "refuse_for", "refuse_for_it"];

/// Reasons that come by another way than a variable: file, expression, and by which calls of which file they are
/// worded.
const WORDED_ELSEWHERE: [(&str, &str, &str, &[&str]); 4] = [
    ("src/driver/guard/free_disks.rs", "reason", "src/driver/guard/free_disks.rs", &["held"]),
    (
        "src/driver/guard/leaked_copies.rs",
        "kept.0",
        "src/driver/guard/leaked_copies.rs",
        &["Stays"],
    ),
    (
        "src/driver/mount/format_consent.rs",
        "cause",
        "src/model/disk/formatting.rs",
        &["never", "person"],
    ),
    ("src/driver/heal/diagnosis.rs", "why", "src/driver/heal/diagnosis.rs", &["Some"]),
];

/// Reasons that stand only within another message, which has a row.
const PARTS: [(&str, &str); 1] = [("src/host/census/mod.rs", "obstacle")];

/// Errors that become refusals although they were made as another kind.
const RELABELLED: [&str; 1] = ["src/host/filesystems/samples.rs"];

struct Source {
    path: PathBuf,
    text: String,
    code: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    let read = |(path, text): (PathBuf, String)| {
        let code = code(&text);
        Source { path: path.strip_prefix(root()).unwrap().to_owned(), text, code }
    };
    without_tests(&folder()).into_iter().map(read).collect()
}

/// What the rows quote: the parts of a message, in their order.
fn rows() -> Vec<Vec<String>> {
    refusals::rows().into_iter().flat_map(|row| row.quoted).collect()
}

fn has_row(message: &str, rows: &[Vec<String>]) -> bool {
    rows.iter().any(|parts| refusals::has_in_order(message, parts))
}

impl Source {
    fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// From an opening bracket to behind the one that closes it.
    fn bracket(&self, open: usize) -> Range<usize> {
        let mut depth = 0;
        for (at, byte) in self.code.as_bytes()[open..].iter().enumerate() {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                _ => continue,
            }
            if depth == 0 {
                return open..open + at + 1;
            }
        }
        open..self.code.len()
    }

    /// The arguments of a call, and those of a `.hint` at once behind it.
    fn with_hint(&self, open: usize) -> Range<usize> {
        let arguments = self.bracket(open);
        let hint = Regex::new(r"^\)?\s*\.hint\(").unwrap();
        match hint.find(&self.code[arguments.end..]) {
            Some(found) => open..self.bracket(arguments.end + found.end() - 1).end,
            None => arguments,
        }
    }

    /// The texts in a stretch of the code, one after the other.
    fn words(&self, range: &Range<usize>) -> String {
        let quotes: Vec<_> = self.code[range.clone()].match_indices('"').collect();
        let texts = quotes.chunks_exact(2).map(|two| {
            let text = &self.text[range.start + two[0].0 + 1..range.start + two[1].0];
            let lines: Vec<_> = text.split("\\\n").collect();
            let first = lines[0].to_owned();
            lines[1..].iter().fold(first, |all, line| all + line.trim_start())
        });
        texts.collect::<Vec<_>>().join(" ")
    }

    /// The function that this place is in: its name and where it begins.
    fn function_at(&self, at: usize) -> (&str, usize) {
        let begin = Regex::new(r"\bfn (\w+)").unwrap();
        let last = begin.captures_iter(&self.code[..at]).last();
        last.map_or(("", 0), |found| {
            (found.get(1).unwrap().as_str(), found.get(0).unwrap().start())
        })
    }

    /// Where functions and closures of this name are made: all of each.
    fn made(&self, name: &str) -> Vec<Range<usize>> {
        let function = Regex::new(&format!(r"\bfn {name}\b")).unwrap();
        let closure = Regex::new(&format!(r"\blet {name} = \|")).unwrap();
        let functions = function.find_iter(&self.code).filter_map(|found| {
            let body = found.end() + self.code[found.end()..].find("{\n")?;
            Some(found.start()..self.bracket(body).end)
        });
        let closures = closure
            .find_iter(&self.code)
            .filter_map(|found| Some(found.start()..self.statement(found.start())?.end));
        functions.chain(closures).collect()
    }

    /// From here to the `;` that ends it.
    fn statement(&self, from: usize) -> Option<Range<usize>> {
        let mut at = from;
        while at < self.code.len() {
            match self.code.as_bytes()[at] {
                b'(' | b'[' | b'{' => at = self.bracket(at).end,
                b';' => return Some(from..at),
                _ => at += 1,
            }
        }
        None
    }
}

fn says_something(words: &str) -> bool {
    let holes = Regex::new(r"\{[^}]*\}").unwrap();
    holes.replace_all(words, "").chars().any(char::is_alphabetic)
}

/// A place where a refusal is made.
struct Site<'a> {
    source: &'a Source,
    at: usize,
    open: usize,
    name: String,
    prefix: String,
}

fn sites(source: &Source) -> Vec<Site<'_>> {
    let call = Regex::new(
        r"(\bfn |Error::|refusal::|[.:])?\b(new|refused|refuse|refuse_for|refuse_for_it)\(",
    )
    .unwrap();
    let all = call.captures_iter(&source.code).map(|found| {
        let whole = found.get(0).unwrap();
        let prefix = found.get(1).map_or("", |prefix| prefix.as_str()).to_owned();
        let (at, open) = (whole.start(), whole.end() - 1);
        Site { source, at, open, name: found[2].to_owned(), prefix }
    });
    all.filter(Site::is_a_refusal).collect()
}

impl Site<'_> {
    fn is_a_refusal(&self) -> bool {
        let source = self.source;
        match self.prefix.as_str() {
            "Error::" if self.name == "new" => {
                let kinds = ENDED_BY_SOMETHING.join("|");
                let chosen = if source.name().starts_with("src/driver/") { r"|kind\b" } else { "" };
                let kind = format!(r"^\(\s*(?:(?:\w+::)*Kind::(?:{kinds})\b{chosen})");
                Regex::new(&kind).unwrap().is_match(&source.code[self.open..])
            }
            "Error::" => self.name == "refused",
            "refusal::" => METHODS.contains(&self.name.as_str()),
            "" if METHODS.contains(&self.name.as_str()) => {
                source.code[self.open + 1..].trim_start().starts_with("cx,")
            }
            "" => !self.helper().is_empty(),
            _ => false,
        }
    }

    /// The function or closure of the file that is called, if it makes refusals.
    fn helper(&self) -> Vec<Range<usize>> {
        let mut made = self.source.made(&self.name);
        made.retain(|body| {
            let code = &self.source.code[body.clone()];
            code.contains("Error::refused(") || code.contains("Kind::Refused")
        });
        made
    }

    /// Whether it stands in such a function itself: then its callers are looked at, with its words.
    fn is_in_a_helper(&self) -> bool {
        let names = ["refuse", "refused"].iter();
        let mut made = names.flat_map(|name| self.source.made(name));
        self.prefix == "Error::" && made.any(|body| body.contains(&self.at))
    }

    fn place(&self) -> String {
        format!("{}:{}", self.source.name(), line_of(&self.source.code, self.at))
    }

    /// The last argument, without what borrows it.
    fn reason(&self) -> String {
        let range = self.source.bracket(self.open);
        let inner = self.source.code[range.start + 1..range.end - 1].trim().trim_end_matches(',');
        let (mut depth, mut from) = (0, 0);
        for (at, byte) in inner.bytes().enumerate() {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                b',' if depth == 0 => from = at + 1,
                _ => {}
            }
        }
        inner[from..].trim().trim_start_matches('&').to_owned()
    }

    /// What it says: one text for each message, or why that cannot be told.
    fn messages(&self, all: &[Source]) -> Result<Vec<String>, String> {
        let source = self.source;
        let reason = self.reason();
        let (function, begin) = source.function_at(self.at);
        let mut words = source.words(&source.with_hint(self.open));
        if !says_something(&source.words(&source.bracket(self.open)))
            && let Some(value) = source.last_value(&reason, begin..self.at)
        {
            words.insert_str(0, &format!("{value} "));
            words.truncate(words.trim_end().len());
        }
        if says_something(&words) {
            if self.prefix.is_empty() {
                let of_helper =
                    self.helper().iter().map(|body| source.words(body)).collect::<String>();
                words = format!("{of_helper} {words}");
            }
            return Ok(vec![words]);
        }
        let path = source.name();
        if PARTS.contains(&(path, reason.as_str())) {
            return Ok(Vec::new());
        }
        if let Some((worded_by, _)) = reason.split_once('(') {
            let words_of = |one: &Source| {
                let made = one.made(worded_by).into_iter();
                made.map(|body| one.words(&body)).collect::<Vec<_>>()
            };
            let bodies: Vec<_> = all.iter().flat_map(words_of).collect();
            return if bodies.is_empty() { Err(reason) } else { Ok(bodies) };
        }
        let parameter = Regex::new(&format!(r"^fn \w+(?:<[^(]*>)?\([^)]*\b{reason}: ")).unwrap();
        if parameter.is_match(&source.code[begin..self.at]) && METHODS.contains(&function) {
            return Ok(Vec::new());
        }
        let elsewhere = WORDED_ELSEWHERE
            .iter()
            .find(|(file, expression, ..)| (*file, *expression) == (path, &reason));
        let Some((_, _, file, calls)) = elsewhere else { return Err(reason) };
        let file = all.iter().find(|one| one.name() == *file).unwrap();
        let found: Vec<_> = calls.iter().flat_map(|name| file.said_by(name)).collect();
        if found.is_empty() { Err(reason) } else { Ok(found) }
    }
}

impl Source {
    /// The words of the last `let` of this name there.
    fn last_value(&self, name: &str, within: Range<usize>) -> Option<String> {
        let name = Regex::new(r"^\w+").unwrap().find(name)?.as_str();
        let set = Regex::new(&format!(r"\blet (?:mut )?{name}(?:: [^=]+)? =")).unwrap();
        let last = set.find_iter(&self.code[within.clone()]).last()?;
        let words = self.words(&self.statement(within.start + last.start())?);
        says_something(&words).then_some(words)
    }

    /// The words of each call of this name; of a variable those that it was given.
    fn said_by(&self, name: &str) -> Vec<String> {
        let call = Regex::new(&format!(r"\b{name}\(")).unwrap();
        let words = |open: usize| {
            let range = self.bracket(open);
            let words = self.words(&range);
            if says_something(&words) {
                return Some(words);
            }
            let variable = self.code[range.start + 1..range.end - 1].trim().to_owned();
            let (_, begin) = self.function_at(open);
            self.last_value(&variable, begin..open)
        };
        call.find_iter(&self.code).filter_map(|found| words(found.end() - 1)).collect()
    }
}

#[test]
fn every_row_is_a_message_of_the_program() {
    let all = sources();
    let texts: Vec<_> = all.iter().map(|one| one.words(&(0..one.code.len()))).collect();
    for part in rows().concat() {
        assert!(texts.iter().any(|text| text.contains(&part)), "{part}");
    }
}

#[test]
fn every_refusal_has_a_row() {
    let all = sources();
    let rows = rows();
    let mut found = Vec::new();
    let mut untold = Vec::new();
    for source in all.iter().filter(|one| !one.name().starts_with(NOTES)) {
        if TOLD_TO_PEOPLE.iter().any(|path| source.name().starts_with(path)) {
            continue;
        }
        for site in sites(source).into_iter().filter(|site| !site.is_in_a_helper()) {
            found.push(site.place());
            match site.messages(&all) {
                Ok(messages) => {
                    let without = messages.into_iter().filter(|message| !has_row(message, &rows));
                    untold.extend(without.map(|message| format!("{}: {message}", site.place())));
                }
                Err(reason) => {
                    untold.push(format!("{}: where is {reason:?} worded?", site.place()));
                }
            }
        }
    }
    let of_the_guard = found.iter().filter(|place| place.starts_with("src/driver/guard/")).count();
    assert!(of_the_guard > 14 && found.len() > 90, "only these were found: {found:#?}");
    assert!(untold.is_empty(), "docs/failures.md has no row for\n{}", untold.join("\n"));
}

#[test]
fn errors_become_refusals_at_known_places_alone() {
    let relabelled = Regex::new(r"\{\s*kind: (?:\w+::)*Kind::(?:Refused|Guarded)\b").unwrap();
    let all = sources();
    let places: Vec<_> =
        all.iter().filter(|one| relabelled.is_match(&one.code)).map(Source::name).collect();
    assert_eq!(places, RELABELLED);
}
