//! Calls that are told to end, or that do not end by themselves, still answer.
//!
//! kubelet crashes if a driver outlives its SIGTERM by ten seconds, and blocks a volume for ever
//! if any other call hangs.

use crate::calls;
use crate::locks::hold;
use crate::scene::{servers, until};
use crate::support::{Answer, Node, SEAM, has_seams, spawn};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

/// What the kernel says of a process under this key; nothing if it is gone.
fn field(pid: u32, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut values = status.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    values.next().unwrap_or_default().trim().to_owned()
}

/// Whether the process has blocked the signal, which it does to receive it in its own time.
fn expects(pid: u32, signal: Signal) -> bool {
    let mask = u64::from_str_radix(&field(pid, "SigBlk"), 16).unwrap_or_default();
    mask & (1 << (signal as i32 - 1)) != 0
}

/// Sends the signal to a call that waits, and answers what the call said.
#[track_caller]
fn ended_by(signal: Signal, command: std::process::Command) -> Answer {
    let (child, output) = spawn(command);
    until("the call listens to signals", || expects(child.id(), signal));
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    Answer::finish(child, output)
}

#[test]
fn a_signal_ends_a_call_that_waits_with_one_failure() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let node = Node::new();
        node.create("vol-1", "1M");
        let held = hold(&node, "vol-1");
        let answer = ended_by(signal, node.command(calls::attach("vol-1", "pv-1", "node-b")));
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        let message = answer.json["message"].as_str().unwrap();
        let words = format!("attach volume vol-1: {signal} ended the call");
        assert!(message.starts_with(&words), "{message}");
        assert!(servers(&node, "vol-1").is_empty());

        let id = message.rsplit_once("[call ").unwrap().1.trim_end_matches(']');
        let log = node.log();
        let last = log.lines().last().unwrap();
        assert!(last.contains("end: given up") && last.contains(id), "{log}");
        drop(held);
        node.must(calls::attach("vol-1", "pv-1", "node-b"));
    }
}

#[test]
fn sigterm_ends_the_wait_for_a_disk() {
    let node = Node::new();
    let command = node.command(calls::wait("vol-1", "pv-1"));
    let answer = ended_by(Signal::SIGTERM, command);
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert!(answer.text.contains("SIGTERM ended the call"), "{}", answer.text);
}

/// A call that dies in the middle of its work leaves what the next one goes on from.
#[test]
fn sigterm_in_the_middle_of_an_attach_leaves_no_lock_behind() {
    let test = "sigterm_in_the_middle_of_an_attach_leaves_no_lock_behind";
    if !has_seams(test) {
        return;
    }
    for step in ["attach.named", "local.attach.recorded", "attach.requested"] {
        let node = Node::new();
        node.create("vol-1", "1M");
        let attach = calls::attach("vol-1", "pv-1", "node-b");
        let mut command = node.command(&attach);
        command.env(SEAM, format!("{step}=sleep:60000"));
        let answer = ended_by(Signal::SIGTERM, command);
        assert!(answer.text.contains("SIGTERM ended the call"), "{step}: {}", answer.text);
        node.must(&attach);
        assert_eq!(servers(&node, "vol-1"), ["node-b"]);
    }
}

#[test]
fn a_disk_that_never_comes_is_a_failure_at_the_deadline() {
    let node = Node::new();
    node.create("vol-1", "1M");
    node.configure("[deadline]\nwaitforattach = 1");
    let message = node.fails(calls::wait("vol-1", "pv-1"));
    assert!(message.contains("appeared within 1 s"), "{message}");
    assert!(message.contains(node.image("vol-1").to_str().unwrap()), "{message}");
}

#[test]
fn a_disk_that_cannot_come_is_a_failure_before_the_deadline() {
    let node = Node::new();
    node.create("vol-2", "1M");
    node.create("vol-3", "1M");
    node.must(calls::attach("vol-3", "pv-3", "node-b"));
    let started = [
        ("vol-1", "does not exist"),
        ("vol-2", "not attached to node-a: it is attached nowhere"),
        ("vol-3", "not attached to node-a: it is attached to node-b"),
    ]
    .map(|(id, words)| (words, spawn(node.command(calls::wait(id, id)))));
    for (words, (child, output)) in started {
        let answer = Answer::finish(child, output);
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        assert!(answer.text.contains(words), "{}", answer.text);
    }
}

/// The signal may come when the call has answered and is about to end: then it answers no more.
#[test]
fn a_signal_after_the_answer_adds_nothing_to_it() {
    let node = Node::new();
    for _ in 0..100 {
        let (mut child, output) = spawn(node.command(calls::detach("pv-1", "node-b")));
        let mut output = BufReader::new(output);
        let (mut line, mut rest) = (String::new(), String::new());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "{\"status\":\"Success\"}\n");
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("", Some(0)));
    }
}

/// A reader that is slow, and a signal in between: an answer that was begun is still given.
#[test]
fn a_signal_while_the_answer_is_being_written_does_not_lose_it() {
    let node = Node::new();
    let (mut output, mut writer) = std::io::pipe().unwrap();
    // A pipe without room, so that the answer has to wait.
    let room = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    writer.write_all(&vec![b'x'; usize::try_from(room).unwrap()]).unwrap();
    let mut command = node.command(calls::detach("pv-1", "node-b"));
    let mut child = command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
    drop(command);
    until("the call has its answer", || node.log().contains("end: Success"));
    // Its worker ends when its answer is taken over; then the call waits for room.
    until("the worker has ended", || {
        let path = format!("/proc/{0}/task/{0}/children", child.id());
        let children = fs::read_to_string(path).unwrap();
        children.split_whitespace().all(|pid| field(pid.parse().unwrap(), "State").starts_with('Z'))
    });
    until("the call waits for room", || field(child.id(), "State").starts_with('S'));
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    until("the signal is taken", || field(child.id(), "ShdPnd").chars().all(|c| c == '0'));
    // Time enough to do the wrong thing: without it a mistake might not be seen.
    std::thread::sleep(Duration::from_millis(100));

    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text.trim_start_matches('x'), "{\"status\":\"Success\"}\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Nothing of the call itself moves any more, as on a disk that does not answer.
#[test]
fn a_call_that_hangs_is_answered_for() {
    if !has_seams("a_call_that_hangs_is_answered_for") {
        return;
    }
    let node = Node::new();
    node.create("vol-1", "1M");
    node.configure("[deadline]\nattach = 1");
    let attach = calls::attach("vol-1", "pv-1", "node-b");
    let mut command = node.command(&attach);
    command.env(SEAM, "attach.requested=sleep:60000");
    let answer = Answer::of(command);
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert!(answer.text.contains("not done within 1 s"), "{}", answer.text);
    node.must(&attach);
}
