//! Whatever kubelet passes of a pod's secrets is nowhere afterwards: not in the reply, not in the
//! log, not in any file.

use crate::calls::{self, Call, WORKING};
use crate::support::{Answer, Node, SEAM, has_seams, options, spawn};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// A secret as kubelet encodes it.
const CANARY: &str = "aHVudGVyMi1jYW5hcnk=";

/// Options with the secret in them, in every way of being right and wrong.
fn texts() -> Vec<String> {
    texts_for("vol-1")
}

fn texts_for(id: &str) -> Vec<String> {
    let right = options(id, "pv-1", "ext4");
    let with = |entry: &str| right.replacen('{', &format!("{{{entry},"), 1);
    let secret = format!("\"kubernetes.io/secret/token\":\"{CANARY}\"");
    let whole = with(&secret);
    let cut = whole.find(CANARY).unwrap() + CANARY.len();
    vec![
        with(&format!("\"kubernetes.io/secret/token\":[\"{CANARY}\"]")),
        with(&format!("\"kubernetes.io/secret/{CANARY}\":\"x\"")),
        with(&format!("\"other\":[\"{CANARY}\"]")),
        with(&format!("\"volumeID\":{{\"a\":\"{CANARY}\"}}")),
        with(&format!("{CANARY}:\"x\"")),
        with(&format!("\"a\":{CANARY}")),
        with(&format!("\"a\":\"\\q{CANARY}\"")),
        whole[..cut].to_owned(),
        whole[..=cut].to_owned(),
        whole[..cut - 3].to_owned(),
        whole.replace("\":\"", "\"=\""),
        whole.clone() + &whole,
        format!("[{whole}]"),
        format!("\"{CANARY}\""),
        CANARY.to_owned(),
        format!("{{{CANARY}"),
        whole,
    ]
}

/// Whether a file below the folder holds the text, or is called so.
fn holds(folder: &Path, text: &str) -> Option<String> {
    fs::read_dir(folder).into_iter().flatten().flatten().find_map(|entry| {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            return holds(&path, text);
        }
        let bytes = fs::read(&path).unwrap_or_default();
        let is_inside = bytes.windows(text.len()).any(|window| window == text.as_bytes());
        (is_inside || path.to_str().unwrap().contains(text)).then(|| path.display().to_string())
    })
}

#[track_caller]
fn stays_secret(node: &Node, answer: &Answer, call: &Call) {
    // Cut or escaped, a part of it would be enough.
    let part = &CANARY[..10];
    assert!(!answer.text.contains(part), "{call:?}: {}", answer.text);
    assert_eq!(holds(&node.base(), part), None, "{call:?}: {}", node.log());
}

fn node() -> Node {
    let node = Node::new();
    node.create("vol-1", "512");
    node.configure(
        "[log]\nlevel = \"trace\"\n[deadline]\nwaitforattach = 1\nmountdevice = 1\nmount = 1",
    );
    node
}

#[test]
fn secrets_in_the_options_of_any_call_are_nowhere_afterwards() {
    let node = node();
    for word in WORKING {
        // Some are right, and wait for a disk: all at once, each for a volume of its own.
        let started: Vec<_> = (0..texts().len())
            .map(|number| {
                let text = texts_for(&format!("vol-{number}")).swap_remove(number);
                let call = calls::with_options(&node, word, "pv-1", &text);
                (spawn(node.command(&call)), call)
            })
            .collect();
        for ((child, output), call) in started {
            stays_secret(&node, &Answer::finish(child, output), &call);
        }
    }
    assert!(node.log().contains("end: Success"), "some of the calls were right");
}

/// A person, or a script, that mixes the arguments up.
#[test]
fn secrets_in_the_place_of_another_argument_are_nowhere_afterwards() {
    let node = node();
    let right = options("vol-1", "pv-1", "ext4");
    let secret = right.replacen('{', &format!("{{\"kubernetes.io/secret/x\":\"{CANARY}\","), 1);
    for word in WORKING {
        let whole = calls::with_options(&node, word, "pv-1", &right);
        for at in 1..whole.len() {
            let mut call = whole.clone();
            call[at] = OsString::from(&secret);
            stays_secret(&node, &node.call(&call), &call);
        }
        let surplus: Call = whole.into_iter().chain([OsString::from(&secret)]).collect();
        stays_secret(&node, &node.call(&surplus), &surplus);
        let alone: Call = vec![word.into(), OsString::from(&secret)];
        stays_secret(&node, &node.call(&alone), &alone);
    }
}

#[test]
fn secrets_are_in_no_answer_to_other_words() {
    let node = node();
    for text in texts() {
        for word in ["init", "getvolumename", "expandvolume", "frobnicate", &text] {
            let call: Call = vec![word.into(), OsString::from(&text)];
            stays_secret(&node, &node.call(&call), &call);
        }
    }
}

#[test]
fn secrets_are_not_in_what_a_panic_leaves() {
    if !has_seams("secrets_are_not_in_what_a_panic_leaves") {
        return;
    }
    let node = node();
    for text in texts() {
        let call = calls::with_options(&node, "mount", "pv-1", &text);
        let mut command = node.command(&call);
        command.env(SEAM, "begin=panic");
        stays_secret(&node, &Answer::of(command), &call);
    }
}
