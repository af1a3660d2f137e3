//! The walks of docs/design, the recipes of CONTRIBUTING, and what the other pages name: each file and function
//! is where they say.

use crate::source::{files, folder};
use regex_lite::Regex;
use std::fs;
use std::path::{Path, PathBuf};

/// The targets of a line's links to files of the project, each with the words in backticks that follow it at
/// once, behind a colon. `begin` is what a link to such a file begins with on the page.
fn named<'a>(line: &'a str, begin: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut found = Vec::new();
    for link in line.split(begin).skip(1) {
        let Some((target, rest)) = link.split_once(')') else { continue };
        let file = target.split('#').next().unwrap_or_default();
        if file.is_empty() {
            continue;
        }
        let list = rest.strip_prefix(": ").unwrap_or_default();
        let mut words = Vec::new();
        let mut next = list.strip_prefix('`');
        while let Some((word, after)) = next.and_then(|text| text.split_once('`')) {
            words.push(word);
            next = after.strip_prefix(", `");
        }
        found.push((file, words));
    }
    found
}

/// What is not where the page says.
fn missing(root: &Path, page: &str, begin: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for (file, functions) in page.lines().flat_map(|line| named(line, begin)) {
        let Ok(text) = fs::read_to_string(root.join(file)) else {
            missing.push(format!("there is no {file}"));
            continue;
        };
        let has = |name: &&str| {
            let is_name = |c: char| c.is_alphanumeric() || c == '_';
            let start = format!("fn {name}");
            text.match_indices(&start).any(|(at, _)| !text[at + start.len()..].starts_with(is_name))
        };
        let absent = functions.into_iter().filter(|name| !has(name));
        missing.extend(absent.map(|name| format!("{file} has no function {name}")));
    }
    missing
}

#[test]
fn the_walks_name_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wrong = "| [x](../../src/main.rs): `main`, `mai` | [y](../../src/none.rs): `f` |";
    assert_eq!(
        missing(root, wrong, "](../../"),
        ["src/main.rs has no function mai", "there is no src/none.rs"]
    );
    for (page, begin) in [
        ("docs/design/walks.md", "](../../"),
        ("docs/design/house.md", "](../../"),
        ("CONTRIBUTING.md", "]("),
    ] {
        let text = fs::read_to_string(root.join(page)).unwrap();
        assert_eq!(missing(root, &text, begin), [""; 0], "{page}");
        let links = text.lines().flat_map(|line| named(line, begin)).count();
        assert!(links > 10, "{page}: its links are read");
    }
}

/// The files that a rule names in backticks, each with the names in backticks at once behind it or before
/// it (`it` in `file`).
fn said_of(page: &str) -> Vec<(String, Vec<String>)> {
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let file = Regex::new("(?:`([A-Za-z_:]+)` in )?`([a-z_/]+\\.rs)`").unwrap();
    let name = Regex::new("^(?:[,:]? | \\(|, and | and )`([A-Za-z_][A-Za-z_0-9:]*)`").unwrap();
    let mut found = Vec::new();
    for said in file.captures_iter(&page) {
        let mut names: Vec<_> = said.get(1).iter().map(|name| name.as_str().to_owned()).collect();
        let mut rest = &page[said.get(0).unwrap().end()..];
        while let Some(next) = name.captures(rest) {
            let (whole, word) = (next.get(0).unwrap(), next.get(1).unwrap());
            // `a` in `other.rs` is of the other one.
            if rest[whole.end()..].starts_with(" in `") {
                break;
            }
            names.push(word.as_str().to_owned());
            rest = &rest[whole.end()..];
        }
        found.push((said[2].to_owned(), names));
    }
    found
}

/// The sources that a rule's path may mean: the whole of it, or its end.
fn meant<'a>(all: &'a [PathBuf], path: &str) -> Vec<&'a PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_it = |file: &&PathBuf| **file == root.join(path) || file.ends_with(path);
    all.iter().filter(is_it).collect()
}

/// Whether a text has this item; of `Type::function` the function, and the type.
fn defines(text: &str, name: &str) -> bool {
    let is_there = |part: &str| {
        let items = "fn|struct|enum|trait|type|const|static|mod";
        let item = format!("\\b(?:{items}) {part}\\b|(?m)^ +(?:pub )?{part}(?:: |,$|\\(|\\b \\{{)");
        Regex::new(&item).unwrap().is_match(text) || text.contains(&format!("impl {part} "))
    };
    name.split("::").all(is_there)
}

/// What a rule names and is not there.
fn not_so(page: &str, all: &[PathBuf]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, names) in said_of(page) {
        let files = meant(all, &file);
        if files.is_empty() {
            wrong.push(format!("there is no {file}"));
            continue;
        }
        let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        let absent = names.iter().filter(|name| !texts.iter().any(|text| defines(text, name)));
        wrong.extend(absent.map(|name| format!("{file} has no {name}")));
    }
    wrong
}

#[test]
fn the_pages_name_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = files(&folder());
    all.append(&mut files(&root.join("tests")));
    let page = "`src/main.rs`, `main`, `mai`; `Mounts::standing_a` in `host/mounts/mod.rs`. `model/none.rs`:\n`f`";
    assert_eq!(
        not_so(page, &all),
        [
            "src/main.rs has no mai",
            "host/mounts/mod.rs has no Mounts::standing_a",
            "there is no model/none.rs"
        ]
    );
    let (mut pages, mut names, mut wrong) = (0, 0, Vec::new());
    let folders = ["docs", "docs/rules", "docs/design", "docs/design/decisions"];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "md")) {
        let text = fs::read_to_string(&path).unwrap();
        let page = path.strip_prefix(root).unwrap().display();
        pages += 1;
        names += said_of(&text).iter().map(|(_, names)| names.len()).sum::<usize>();
        wrong.extend(not_so(&text, &all).into_iter().map(|what| format!("{page}: {what}")));
    }
    assert_eq!(wrong, [""; 0]);
    assert!(pages > 40 && names > 60, "{pages} pages, {names} names: they are read");
}
