//! People get text, and an exit status that tells success from failure.

use crate::calls;
use crate::scene::servers;
use crate::support::{Answer, Node};

struct Said {
    status: i32,
    stdout: String,
    stderr: String,
}

fn say(node: &Node, words: &[&str]) -> Said {
    let output = node.command(words).output().unwrap();
    Said {
        status: output.status.code().expect("no signal"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn complains(node: &Node, words: &[&str], about: &str) {
    let said = say(node, words);
    assert!(said.status != 0, "{words:?}");
    assert_eq!(said.stdout, "", "{words:?}");
    assert!(said.stderr.contains(about), "{words:?}: {}", said.stderr);
    assert!(!said.stderr.contains("panicked"), "{words:?}: {}", said.stderr);
    assert!(!said.stderr.starts_with('{'), "text, not JSON: {}", said.stderr);
}

#[test]
fn help_names_every_call_and_every_place_of_the_configuration() {
    let node = Node::new();
    for words in [&["--help"][..], &["-h"], &["help"]] {
        let said = say(&node, words);
        assert_eq!((said.status, said.stderr.as_str()), (0, ""), "{words:?}");
        for word in calls::WORKING.iter().chain(&["init", "local"]) {
            assert!(said.stdout.contains(word), "{word}: {}", said.stdout);
        }
        for place in ["$INCLOUD_DISK_CONFIG", "/etc/incloud-disk/config.toml", ".config.toml"] {
            assert!(said.stdout.contains(place), "{place}: {}", said.stdout);
        }
    }
}

#[test]
fn the_version_is_the_packages_with_its_commit() {
    let said = say(&Node::new(), &["--version"]);
    let version = said.stdout.strip_prefix(concat!("disk ", env!("CARGO_PKG_VERSION"))).unwrap();
    // An unpacked source has no history.
    let commit = version.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let is_commit = |text: &str| text.len() == 12 && text.chars().all(|c| c.is_ascii_hexdigit());
    assert!(version == "\n" || commit.is_some_and(is_commit), "{version}");
    assert_eq!((said.status, said.stderr.as_str()), (0, ""));
}

#[test]
fn help_and_version_need_no_configuration() {
    let node = Node::new();
    node.configure("[nonsense]");
    for words in [&["--help"][..], &["--version"], &["local", "--help"]] {
        assert_eq!(say(&node, words).status, 0, "{words:?}");
    }
}

#[test]
fn wrong_verbs_are_complaints() {
    let node = Node::new();
    complains(&node, &["local"], "Usage");
    complains(&node, &["local", "frobnicate"], "frobnicate");
    complains(&node, &["--frobnicate"], "frobnicate");
    complains(&node, &["local", "create"], "SIZE");
    complains(&node, &["local", "create", "vol-1", "--size", "1X"], "unit");
    complains(&node, &["local", "create", "../vol", "--size", "1M"], "volume id");
    complains(&node, &["local", "delete", "vol-1"], "vol-1");
    complains(&node, &["local", "yank", "vol-1"], "vol-1");
    node.configure("[nonsense]");
    complains(&node, &["local", "list"], "nonsense");
    assert!(!node.base().join("cloud/volumes").exists());
}

#[test]
fn a_volume_is_made_shown_and_removed() {
    let node = Node::new();
    node.verb(&["local", "create", "vol-1", "--size", "3M", "--name", "orders"]).unwrap();
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    let table = node.verb(&["local", "list"]).unwrap();
    let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["vol-1", "3M", "orders", "node-b", "-"], "{table}");

    complains(&node, &["local", "create", "vol-1", "--size", "1M"], "exists already");
    complains(&node, &["local", "delete", "vol-1"], "attached to node-b");
    complains(&node, &["local", "yank", "vol-1"], "no disk on this machine");
    assert_eq!(servers(&node, "vol-1"), ["node-b"]);

    node.must(calls::detach("pv-1", "node-b"));
    node.verb(&["local", "delete", "vol-1"]).unwrap();
    assert_eq!(node.verb(&["local", "list"]).unwrap().lines().count(), 1);
    assert!(!node.image("vol-1").exists());
}

/// A call word stays kubelet's even where a flag for people follows.
#[test]
fn a_call_word_with_a_persons_flag_answers_json() {
    let node = Node::new();
    for words in [&["attach", "--help"][..], &["detach", "-h"], &["unmount", "--version"]] {
        let answer = Answer::of(node.command(words));
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    }
}
