//! The model does nothing: it neither reads a clock nor sleeps, and knows no file and no process. The
//! driver does nothing by itself: it decides, and the ports act.

use crate::source::{code, folder, line_of, without_tests};

/// A name for what a port has opened.
const HANDED_ON: &str = "use std::fs::File;";

/// What reads or changes anything beside its arguments.
const DEEDS: [&str; 12] = [
    "SystemTime",
    "sleep",
    "fs::",
    "std::env",
    "env::var",
    "std::process",
    "process::",
    "std::net",
    "File::",
    "Command",
    "OpenOptions",
    "libc",
];

/// What the model does not do either.
const OF_THE_MODEL: [&str; 8] = [
    "Instant::now",
    "thread::",
    "std::fs",
    "rustix",
    "nix::unistd",
    "nix::fcntl",
    "nix::sys",
    "tracing",
];

/// What goes to the machine past the ports. A file that a port has opened is handed on, and how long a
/// request has taken is measured.
const PAST_THE_PORTS: [&str; 11] = [
    "stdout",
    "stderr",
    "rustix",
    "nix",
    "exists",
    "try_exists",
    "canonicalize",
    "read_link",
    "symlink_metadata",
    "is_dir",
    "is_file",
];

/// Where the sources of a room say one of these words, beside their tests.
fn said(room: &str, more: &[&str]) -> Vec<String> {
    let words = [&DEEDS, more].concat();
    let mut found = Vec::new();
    for (file, text) in without_tests(&folder().join(room)) {
        let code = code(&text).replace(HANDED_ON, &" ".repeat(HANDED_ON.len()));
        let code = code.as_str();
        for (word, at) in words.iter().flat_map(|word| places(code, word)) {
            found.push(format!("{}:{}: {word}", file.display(), line_of(code, at)));
        }
    }
    found
}

/// Where a word stands that does not go on from another name.
fn places<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (&'a str, usize)> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let all = code.match_indices(word).map(|(at, _)| at);
    all.filter(move |at| {
        let rest = &code[at + word.len()..];
        !code[..*at].ends_with(is_name) && (word.ends_with(':') || !rest.starts_with(is_name))
    })
    .map(move |at| (word, at))
}

#[test]
fn the_model_does_nothing() {
    assert_eq!(said("model", &OF_THE_MODEL), Vec::<String>::new());
    assert!(!said("host", &OF_THE_MODEL).is_empty(), "the reader sees such words");
}

#[test]
fn the_driver_works_through_the_ports() {
    for room in ["driver", "shield"] {
        assert_eq!(said(room, &PAST_THE_PORTS), Vec::<String>::new());
    }
    assert!(!said("host", &PAST_THE_PORTS).is_empty(), "the reader sees such words");
}
