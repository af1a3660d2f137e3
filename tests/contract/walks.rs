//! The walks of docs/design: each file and function is where they say.

use std::fs;
use std::path::Path;

/// The targets of a line's links to Rust sources, each with the words in backticks that follow it at
/// once, behind a colon.
fn named(line: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    for link in line.split("](../../").skip(1) {
        let Some((file, rest)) = link.split_once(')') else { continue };
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
fn missing(root: &Path, page: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for (file, functions) in page.lines().flat_map(named) {
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
        missing(root, wrong),
        ["src/main.rs has no function mai", "there is no src/none.rs"]
    );
    for page in ["walks.md", "house.md"] {
        let text = fs::read_to_string(root.join("docs/design").join(page)).unwrap();
        assert_eq!(missing(root, &text), [""; 0], "{page}");
        assert!(text.lines().flat_map(named).count() > 10, "{page}: its links are read");
    }
}
