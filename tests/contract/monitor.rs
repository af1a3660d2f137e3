//! `disk status --check`: a monitor takes an exit status of 1 for a volume that is harmed, so whatever keeps
//! the verb from looking has another one, and is the answer.

use crate::support::{Node, has_seams, output_of, skip, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

fn is_not_seen(what: &str, output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{what}: {output:?}");
    assert!(text.starts_with("not seen: ") && text.lines().count() == 1, "{what}: {output:?}");
}

#[test]
fn what_cannot_be_looked_at_is_not_harmed() {
    let node = Node::new();
    let check = |words: &[&str]| node.command([words, &["status", "--check"]].concat());
    for words in [&["node", "--root", "/nowhere"][..], &["node", "--every", "60"]] {
        is_not_seen(&words.join(" "), &output_of(&mut check(words)));
    }
    let with = |mut command: Command, name: &str, value: &str| output_of(command.env(name, value));
    is_not_seen("DESTDIR", &with(check(&["node"]), "DESTDIR", "/x"));
    is_not_seen("no such file", &with(check(&[]), "INCLOUD_DISK_CONFIG", "/nowhere/c.toml"));
    let broken = node.own().join("broken.toml");
    fs::create_dir_all(node.own()).unwrap();
    fs::write(&broken, "cloud = [").unwrap();
    let broken = broken.to_str().unwrap();
    is_not_seen("broken", &with(check(&[]), "INCLOUD_DISK_CONFIG", broken));
    // Words that mean nothing are said to the person who typed them.
    let wrong = output_of(&mut node.command(["status", "--check", "--wrong"]));
    assert_eq!((wrong.status.code(), wrong.stdout.as_slice()), (Some(2), &b""[..]), "{wrong:?}");
}

/// The process that looks, of two: the other one waits for it.
fn with_its_worker_killed(node: &Node, words: &[&str]) -> Output {
    let held = node.own().join("held");
    let mut command = node.command(words);
    command.env("INCLOUD_DISK_SEAM", format!("mounts.table=hold:{}", held.display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let asked = start(&mut command);
    while !held.exists() {
        std::thread::yield_now();
    }
    let id = asked.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let worker = children.split_whitespace().next().unwrap();
    kill(Pid::from_raw(worker.parse().unwrap()), Signal::SIGKILL).unwrap();
    fs::remove_file(held).unwrap();
    asked.wait_with_output().unwrap()
}

#[test]
fn a_check_whose_process_ends_is_not_seen() {
    if !has_seams("a_check_whose_process_ends_is_not_seen") {
        return;
    }
    let node = Node::new();
    fs::create_dir_all(node.own()).unwrap();
    is_not_seen("killed", &with_its_worker_killed(&node, &["status", "--check"]));
    let mut command = node.command(["status", "--check"]);
    let output = output_of(command.env("INCLOUD_DISK_SEAM", "mounts.table=panic"));
    is_not_seen("panicked", &output);
    // A person's shell sees how it ended.
    let output = with_its_worker_killed(&node, &["status"]);
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
}

/// Only the status can still tell it.
#[test]
fn a_line_that_got_lost_is_not_seen() {
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        return skip("a_line_that_got_lost_is_not_seen", "needs /dev/full");
    };
    let node = Node::new();
    let lost = |words: &[&str]| {
        node.command(words).stdout(full.try_clone().unwrap()).status().unwrap().code()
    };
    assert_eq!(lost(&["status", "--check"]), Some(3));
    assert_eq!(lost(&["status", "--rows"]), Some(1));
}
