//! The README's table of refusals and the texts of the program are of one kind: no row outlives its
//! message, and no refusal is left without a row.

use crate::source::{files, for_tests, tests_at};
use regex_lite::Regex;
use std::fs;
use std::path::{Path, PathBuf};

/// What a heal says of a single mount that it leaves as it is, beside all that it did: each is a note
/// in its list, and no call fails with it.
const NOTES: &str = "src/host/remount/";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The beginnings of the table's rows: what a message has in it.
fn fragments() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let table = readme.split("| the message has |").nth(1).expect("the table of refusals");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let heads = rows.map(|row| row.split('|').nth(1).unwrap().to_owned());
    let quoted = Regex::new("`([^`]+)`").unwrap();
    let mut all = Vec::new();
    for head in heads {
        for found in quoted.captures_iter(&head) {
            all.extend(found[1].split('…').map(|part| part.trim().to_owned()));
        }
    }
    all.retain(|part| !part.is_empty());
    assert!(all.len() > 30, "{all:?}");
    all
}

fn sources() -> Vec<(PathBuf, String)> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let text = text[..tests_at(&text)].replace("\\\n", "");
        let path = path.strip_prefix(root()).unwrap().to_owned();
        (path, text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let tests = for_tests();
    let files = files(&root().join("src"));
    files.into_iter().filter(|file| !tests.contains(file)).map(read).collect()
}

#[test]
fn every_row_is_a_message_of_the_program() {
    let all = sources();
    for fragment in fragments() {
        assert!(all.iter().any(|(_, text)| text.contains(&fragment)), "{fragment}");
    }
}

#[test]
fn every_refusal_has_a_row() {
    let all = sources();
    let begin = "(?:Error::refused\\(|\\brefuse\\(|Kind::Refused,) ?(?:format!\\( ?)?";
    let hint = "(?:[^;\"]*\\.hint\\( ?(?:format!\\( ?)?(\"[^\"]*\"))?";
    let refusal = Regex::new(&format!("{begin}(\"[^\"]*\"){hint}")).unwrap();
    let fragments = fragments();
    let mut found = 0;
    let mut untold = Vec::new();
    for (path, text) in all.iter().filter(|(path, _)| !path.starts_with(NOTES)) {
        for message in refusal.captures_iter(text) {
            found += 1;
            let words = [1, 2].map(|part| message.get(part).map_or("", |part| part.as_str()));
            let words = words.concat();
            // Its cause is one of the others.
            let is_frame = words.starts_with("\"{}: {why}\"");
            if !is_frame && !fragments.iter().any(|fragment| words.contains(fragment.as_str())) {
                untold.push(format!("{}: {words}", path.display()));
            }
        }
    }
    assert!(found > 30, "only {found} refusals were found");
    assert!(untold.is_empty(), "the README's table has nothing for\n{}", untold.join("\n"));
}
