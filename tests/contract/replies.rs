//! One JSON object, exit status 0: whatever the arguments are.

use crate::calls::{self, Call, WORKING};
use crate::support::{Answer, DISK, Node, options};
use incloud_disk::model::ids::VolumeName;
use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};

/// The longest argument that Linux passes on.
const LONGEST: usize = 131_071;

/// kubelet decodes into a struct: a key of the wrong type fails the whole call.
#[track_caller]
pub fn must_decode(answer: &Answer) {
    for (key, value) in answer.json.as_object().unwrap() {
        let fits = match key.as_str() {
            "status" => ["Success", "Failure", "Not supported"].contains(&value.as_str().unwrap()),
            "message" | "device" => value.is_string(),
            "attached" => value.is_boolean(),
            "capabilities" => {
                value.as_object().is_some_and(|all| all.values().all(Value::is_boolean))
            }
            _ => false,
        };
        assert!(fits, "{key} in {}", answer.text);
    }
    assert!(answer.json["status"].is_string(), "{}", answer.text);
    assert!(answer.text.len() < 3000, "{} bytes would bury the pod's events", answer.text.len());
}

/// A failure says of which call, what, and the call's id; and nothing that only a success has.
#[track_caller]
fn must_be_failure(answer: &Answer, word: &str) -> String {
    must_decode(answer);
    assert_eq!(answer.json["status"], "Failure", "{word}: {}", answer.text);
    let message = answer.json["message"].as_str().unwrap();
    assert!(message.starts_with(word), "{message}");
    assert!(message.contains(" [call ") && message.ends_with(']'), "{message}");
    assert_eq!(answer.json.as_object().unwrap().len(), 2, "{}", answer.text);
    message.to_owned()
}

#[track_caller]
fn not_supported(answer: &Answer) {
    assert_eq!(answer.text, "{\"status\":\"Not supported\"}\n");
}

#[test]
fn a_call_without_arguments_is_a_failure() {
    let node = Node::new();
    for word in WORKING {
        let message = must_be_failure(&node.call([word]), word);
        assert!(message.contains("without its argument"), "{message}");
    }
}

/// The controller-manager leaves the options out when it cannot write them.
#[test]
fn a_call_that_lacks_an_argument_is_a_failure() {
    let node = Node::new();
    for call in calls::every(&node, "vol-1", "pv-1") {
        for length in 1..call.len() {
            if calls::word(&call) == "detach" && length == 2 {
                continue; // People may leave the node out.
            }
            must_be_failure(&node.call(&call[..length]), calls::word(&call));
        }
    }
}

#[test]
fn a_call_with_one_argument_too_many_is_a_failure() {
    let node = Node::new();
    for mut call in calls::every(&node, "vol-1", "pv-1") {
        call.push("surplus".into());
        let message = must_be_failure(&node.call(&call), calls::word(&call));
        assert!(message.contains("too many arguments"), "{message}");
    }
}

#[test]
fn options_that_are_no_map_of_strings_are_a_failure() {
    let node = Node::new();
    let deep = format!("{{\"volumeID\":{}1{}}}", "[".repeat(500), "]".repeat(500));
    let texts = [
        "",
        " ",
        "{",
        "}",
        "null",
        "true",
        "7",
        "-1e999",
        "\"text\"",
        "[]",
        "[{}]",
        "{}{}",
        "{},",
        "{\"volumeID\"",
        "{\"volumeID\":",
        "{\"volumeID\":}",
        "{\"volumeID\":\"v\"",
        "{\"volumeID\":\"v\"}x",
        "{\"volumeID\":7}",
        "{\"volumeID\":null}",
        "{\"volumeID\":true}",
        "{\"volumeID\":[\"v\"]}",
        "{\"volumeID\":{\"a\":\"v\"}}",
        "{\"volumeID\":\"v\",\"x\":1}",
        "{7:\"v\"}",
        "{volumeID:v}",
        "\u{feff}{\"volumeID\":\"v\"}",
        "{\"volumeID\":\"\\ud800\"}",
        "{\"volumeID\":\"\\q\"}",
        "{\"volumeID\":\"%s%n\"}",
        "{\"volumeID\":\"a\\nb\"}",
        &deep,
    ];
    for word in WORKING {
        for text in texts {
            let call = calls::with_options(&node, word, "pv-1", text);
            if call.iter().any(|argument| argument == text) {
                must_be_failure(&node.call(&call), word);
            }
            // And where something else belongs, if it could not be a name.
            if word != "detach" || VolumeName::parse(text).is_err() {
                must_be_failure(&node.call([word, text]), word);
            }
        }
    }
}

#[test]
fn the_longest_argument_that_linux_passes_on_is_read() {
    let node = Node::new();
    node.create("vol-1", "1M");
    let plain = options("vol-1", "pv-1", "ext4");
    let secret = |length| plain.replacen('{', &format!("{{\"a\":\"{}\",", "x".repeat(length)), 1);
    let long = secret(LONGEST - secret(0).len());
    assert_eq!(long.len(), LONGEST);
    node.must(["attach", &long, "node-b"]);
    let json = node.must(["isattached", "node-b", &long]);
    assert_eq!(json["attached"], true);
}

#[test]
fn one_huge_argument_is_a_short_failure() {
    let node = Node::new();
    let quotes = "\"".repeat(LONGEST);
    let folder = format!("/{}", "a/".repeat(LONGEST / 2));
    let open = "{\"a\":".repeat(LONGEST / 5);
    for word in WORKING {
        for text in [&"x".repeat(LONGEST), &quotes, &folder, &open, &"é".repeat(LONGEST / 2)] {
            must_be_failure(&node.call([word, text]), word);
        }
    }
}

#[test]
fn ten_thousand_arguments_are_a_failure() {
    let node = Node::new();
    for word in WORKING {
        let call: Call = std::iter::once(word)
            .chain(std::iter::repeat_n("x", 10_000))
            .map(OsString::from)
            .collect();
        must_be_failure(&node.call(&call), word);
    }
}

#[test]
fn arguments_that_are_not_utf8_are_a_failure() {
    let node = Node::new();
    for call in calls::every(&node, "vol-1", "pv-1") {
        for broken in 1..call.len() {
            let mut call = call.clone();
            let mut bytes = std::mem::take(&mut call[broken]).into_vec();
            bytes.push(0xff);
            call[broken] = OsString::from_vec(bytes);
            let message = must_be_failure(&node.call(&call), calls::word(&call));
            assert!(message.contains("not UTF-8"), "{message}");
        }
    }
}

/// kubelet keeps this answer for as long as it lives, so it must never come for a passing reason.
#[test]
fn only_what_is_never_done_is_not_supported() {
    let node = Node::new();
    let json = options("vol-1", "pv-1", "");
    let global = node.global("pv-1");
    let global = global.to_str().unwrap();
    for words in [
        &["getvolumename", json.as_str()][..],
        &["getvolumename"],
        &["expandvolume", &json, global, "2", "1"],
        &["expandvolume", "{"],
        &["frobnicate"],
        &["frobnicate", &json, "node-b"],
        &[""],
        &["Init"],
        &["INIT"],
        &["init "],
        &["attach\n"],
        &["getvolumenames"],
    ] {
        not_supported(&node.call(words));
    }
    not_supported(&node.call([OsString::from_vec(vec![0xff, b'i'])]));
    not_supported(&node.call([OsString::from("x".repeat(LONGEST))]));
}

#[test]
fn unknown_words_need_no_configuration() {
    let node = Node::new();
    node.configure("[nonsense]");
    for word in ["getvolumename", "expandvolume", "frobnicate"] {
        not_supported(&node.call([word]));
    }
}

#[test]
fn no_word_at_all_is_a_failure_in_a_pipe() {
    let node = Node::new();
    let answer = node.call::<&str>([]);
    let message = must_be_failure(&answer, "disk");
    assert!(message.contains("without a call word") && message.contains("--help"), "{message}");
    let mut alone = Command::new(DISK);
    alone.env_clear().stdin(Stdio::null());
    must_be_failure(&Answer::of(alone), "disk");
}
