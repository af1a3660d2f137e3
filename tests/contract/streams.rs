//! stdout and stderr as kubelet, a shell or a full disk may hand them over.

use crate::calls;
use crate::scene::servers;
use crate::support::{Answer, DISK, Node, skip};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `script` in a shell with the executable as `$0` and the call as `$@`.
fn shell(node: &Node, script: &str, call: &calls::Call) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(DISK).args(call);
    command.env("INCLOUD_DISK_CONFIG", node.config_path());
    command
}

/// Streams that are closed must not become the log, the lock or a record.
#[test]
fn closed_streams_change_nothing_of_what_a_call_does() {
    for closed in [">&-", "2>&-", ">&- 2>&-", "<&-", "<&- >&- 2>&-"] {
        let node = Node::new();
        node.create("vol-1", "1M");
        let call = calls::attach("vol-1", "pv-1", "node-b");
        let script = format!("exec \"$0\" \"$@\" {closed}");
        let output = shell(&node, &script, &call).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.code().is_some(), "{closed}: {}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{closed}");
        assert_eq!(servers(&node, "vol-1"), ["node-b"], "{closed}");
        for line in node.log().lines() {
            assert!(line.starts_with("20") && line.contains("op=\"attach\""), "{closed}: {line}");
        }
        if !closed.contains(" >&-") && !closed.starts_with(">&-") {
            let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(reply["status"], "Success", "{closed}");
        }
    }
}

#[test]
fn constant_answers_end_quietly_without_stdout() {
    let node = Node::new();
    for call in [&["init"][..], &["getvolumename"], &["frobnicate"], &[]] {
        let call = call.iter().map(Into::into).collect();
        let output = shell(&node, "exec \"$0\" \"$@\" >&-", &call).output().unwrap();
        assert!(output.status.code().is_some(), "{}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

/// An answer that could not be given must not look like one.
#[test]
fn a_stdout_that_takes_nothing_is_told_by_the_exit_status_alone() {
    let test = "a_stdout_that_takes_nothing_is_told_by_the_exit_status_alone";
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        return skip(test, "needs /dev/full");
    };
    let node = Node::new();
    node.create("vol-1", "1M");
    let attach = calls::attach("vol-1", "pv-1", "node-b");
    let words = |words: &[&str]| words.iter().map(Into::into).collect();
    for call in [
        words(&["init"]),
        words(&["frobnicate"]),
        words(&[]),
        words(&["attach", "{"]),
        attach.clone(),
        words(&["--help"]),
        words(&["--version"]),
        words(&["local", "list"]),
    ] {
        let stdout = full.try_clone().unwrap();
        let output = node.command(&call).stdout(stdout).output().unwrap();
        assert!(output.status.code().is_some_and(|code| code != 0), "{call:?}: {}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{call:?}");
    }
    assert_eq!(node.must(&attach)["status"], "Success", "what was done stays done");
}

/// kubelet may die while its driver works.
#[test]
fn a_reader_that_is_gone_is_no_signal() {
    let node = Node::new();
    node.create("vol-1", "1M");
    let words = |words: &[&str]| words.iter().map(Into::into).collect();
    for call in [words(&["init"]), words(&["attach"]), calls::attach("vol-1", "pv-1", "node-b")] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = node.command(&call).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), output.status.signal()), (Some(1), None), "{call:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{call:?}");
    }
    assert_eq!(servers(&node, "vol-1"), ["node-b"]);
}

/// The reply goes to stdout as it was handed over, and stderr stays empty.
#[test]
fn the_reply_is_on_stdout_and_stderr_is_empty() {
    let node = Node::new();
    for words in [&["init"][..], &["attach"], &["frobnicate"], &[]] {
        let output = node.command(words).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(reply["status"].is_string(), "{words:?}");
    }
}

/// Runs a command line on a terminal of its own; answers what the terminal showed.
pub fn on_a_terminal(test: &str, node: &Node, arguments: &str) -> Option<(i32, String)> {
    if !["/usr/bin/script", "/bin/script"].iter().any(|path| Path::new(path).exists()) {
        skip(test, "needs script(1)");
        return None;
    }
    let line = format!("'{DISK}' {arguments}");
    let mut command = Command::new("script");
    command.args(["-q", "-e", "-c", &line, "/dev/null"]).stdin(Stdio::null());
    command.env("INCLOUD_DISK_CONFIG", node.config_path()).env("TERM", "xterm");
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    Some((output.status.code().unwrap(), shown))
}

#[test]
fn people_at_a_terminal_get_help_when_they_say_nothing() {
    let (test, node) = ("people_at_a_terminal_get_help_when_they_say_nothing", Node::new());
    let Some((status, shown)) = on_a_terminal(test, &node, "") else { return };
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("Usage: disk") && shown.contains("mountdevice DIR"), "{shown}");
}

#[test]
fn a_call_on_a_terminal_answers_a_person() {
    let (test, node) = ("a_call_on_a_terminal_answers_a_person", Node::new());
    for (arguments, expected, ends_with) in [
        ("init", "Success", 0),
        ("getvolumename", "Not supported", 1),
        ("attach", "Failure", 1),
        ("detach pv/1 1", "Failure", 1),
    ] {
        let Some((status, shown)) = on_a_terminal(test, &node, arguments) else { return };
        assert_eq!(status, ends_with, "{arguments}: {shown}");
        assert!(shown.starts_with("disk: ") && !shown.contains('{'), "{arguments}: {shown}");
        assert_eq!(shown.matches("disk: ").count(), 1, "{arguments}: {shown}");
        assert_eq!(shown.contains("\nTo do: "), expected == "Failure", "{arguments}: {shown}");
        // A script that uses the terminal of a person.
        let json = on_a_terminal(test, &node, &format!("{arguments} --json"));
        let (status, shown) = json.unwrap();
        let reply: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!((&reply["status"], status), (&expected.into(), ends_with), "{shown}");
        assert!(reply.get("hint").is_none(), "{shown}");
        // kubelet has no terminal.
        let answer = Answer::of(node.command(arguments.split(' ')));
        assert_eq!(answer.json["status"], expected, "{}", answer.text);
        assert!(answer.json.get("hint").is_none(), "{}", answer.text);
    }
    let (_, shown) = on_a_terminal(test, &node, "mount --help").unwrap();
    assert!(shown.contains("with 1 in its place, detaches"), "{shown}");
}

/// kubelet has no terminal: there an unknown word is a misspelt verb.
#[test]
fn a_misspelt_verb_is_told_to_people_and_kubelet_gets_its_answer() {
    let test = "a_misspelt_verb_is_told_to_people_and_kubelet_gets_its_answer";
    let node = Node::new();
    assert_eq!(Answer::of(node.command(["statuss"])).json["status"], "Not supported");
    let Some((status, shown)) = on_a_terminal(test, &node, "statuss") else { return };
    assert_eq!(status, 2, "{shown}");
    assert!(shown.contains("unrecognized subcommand 'statuss'"), "{shown}");
}

/// kubelet waits for the end of the pipe: nothing may keep it open after the answer.
#[test]
fn the_pipe_ends_with_the_process() {
    let node = Node::new();
    let (mut child, mut output) = crate::support::spawn(node.command(["init"]));
    assert!(child.wait().unwrap().success());
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, Answer::of(node.command(["init"])).text);
}
