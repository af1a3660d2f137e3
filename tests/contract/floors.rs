//! The floors of `src/lib.rs`, where no crate keeps them.

use crate::source::{files, folder, without_tests};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// A file ends where its concept ends, however long that is: so its first line must say it.
#[test]
fn every_file_says_what_it_holds() {
    for file in files(&folder()) {
        let text = fs::read_to_string(&file).unwrap();
        let first = text.lines().next().unwrap_or_default();
        if first == "use super::*;" {
            // The tests of the file beside it.
            continue;
        }
        assert!(first.starts_with("//! ") && first.len() > 15, "{}: {first}", file.display());
    }
}

/// Rooms that serve each face: what one orchestrator calls things is not theirs to know.
const BELOW_THE_FACES: [&str; 6] = ["driver", "shield", "cloud", "host", "ports", "model"];

/// `FlexVolume`, kubelet's call words that are no ordinary words, and its folders.
const OF_ONE_FACE: [&str; 11] = [
    "flexvolume",
    "getvolumename",
    "waitforattach",
    "isattached",
    "unmountdevice",
    "mountdevice",
    "expandfs",
    "incloud~disk",
    "kubernetes.io",
    "/var/lib/kubelet",
    "kubelet-plugins",
];

/// Records of before have a word of kubelet's in them, which is read, and tested.
const READS_OLD_RECORDS: [&str; 2] =
    [r#"matches!(name, "unstage" | "unmountdevice")"#, r#""unmountdevice":2,"detach":3}"#];

fn words_of_a_face(text: &str) -> Vec<(usize, &'static str)> {
    let is_excused = |line: &str| READS_OLD_RECORDS.iter().any(|one| line.contains(one));
    let lines = text.lines().enumerate().filter(|(_, line)| !is_excused(line));
    let words = |line: &str| {
        let line = line.to_lowercase();
        OF_ONE_FACE.into_iter().filter(move |word| line.contains(word))
    };
    lines.flat_map(|(at, line)| words(line).map(move |word| (at + 1, word))).collect()
}

/// Commands of this program, as a person types them: what is advised is a value there.
fn command_lines(text: &str) -> Vec<String> {
    let verbs =
        "detach doctor explain format heal history holders local node release report status umount";
    let lines = verbs.split(' ').map(|verb| format!("disk {verb}"));
    lines.filter(|line| text.contains(line)).collect()
}

#[test]
fn nothing_below_the_faces_holds_a_command_line() {
    assert_eq!(command_lines("see: disk explain {id}"), ["disk explain"]);
    for room in BELOW_THE_FACES {
        for (file, text) in without_tests(&folder().join(room)) {
            assert_eq!(command_lines(&text), [""; 0], "{}", file.display());
        }
    }
}

#[test]
fn nothing_below_the_faces_names_kubelets_interface() {
    assert_eq!(words_of_a_face("x\n/// In `FlexVolume`\n"), [(2, "flexvolume")]);
    let mut wrong = Vec::new();
    for room in BELOW_THE_FACES {
        for file in files(&folder().join(room)) {
            let text = fs::read_to_string(&file).unwrap();
            for (line, word) in words_of_a_face(&text) {
                wrong.push(format!("{}:{line}: {word}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The names of the types that a text defines.
fn types_in(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in code.lines() {
        let line = line.trim_start();
        let Some(rest) = line.strip_prefix("pub") else { continue };
        let rest = match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let mut words = rest.split_whitespace();
        if matches!(words.next(), Some("struct" | "enum" | "trait" | "type")) {
            let name = words.next().unwrap_or_default();
            found.push(name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap());
        }
    }
    found
}

#[test]
fn each_name_of_a_type_has_one_meaning() {
    assert_eq!(
        types_in("pub struct A<'a> {\n  pub(in crate::x) enum B {\nstruct C;\npub fn d()\n"),
        ["A", "B"]
    );
    let mut seen: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut twice = Vec::new();
    for (file, text) in without_tests(&folder()) {
        for name in types_in(&text) {
            if let Some(other) = seen.insert(name.to_owned(), file.clone()) {
                twice.push(format!("{name}: {} and {}", other.display(), file.display()));
            }
        }
    }
    assert!(twice.is_empty(), "\n{}", twice.join("\n"));
}
