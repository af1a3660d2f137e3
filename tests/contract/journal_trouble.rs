//! A log that cannot be written changes nothing of the answer.

use crate::calls;
use crate::scene::{own_mounts, servers};
use crate::support::{Node, skip};
use nix::mount::{MsFlags, mount};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// What the driver answers to a whole life of calls, without the call ids, which never repeat.
#[track_caller]
fn life(node: &Node) -> Vec<String> {
    let calls = [
        calls::attach("vol-1", "pv-1", "node-b"),
        calls::is_attached("vol-1", "pv-1", "node-b"),
        calls::attach("vol-2", "pv-2", "node-b"),
        calls::unpublish(node, "pv-1"),
        calls::detach("pv-1", "node-b"),
        vec!["attach".into(), "{".into(), "node-b".into()],
    ];
    let answers = calls.iter().map(|call| {
        let text = node.call(call).text;
        text.split(" [call ").next().unwrap().replace(node.base().to_str().unwrap(), "")
    });
    answers.collect()
}

/// The same life with a log that is fine.
fn undisturbed() -> Vec<String> {
    let node = Node::new();
    node.create("vol-1", "1M");
    let answers = life(&node);
    assert!(!node.log().is_empty());
    answers
}

fn prepared() -> Node {
    let node = Node::new();
    node.create("vol-1", "1M");
    fs::create_dir_all(node.own()).unwrap();
    node
}

#[test]
fn a_file_in_place_of_the_log_folder_changes_no_answer() {
    let node = prepared();
    fs::write(node.own().join("log"), "a file").unwrap();
    assert_eq!(life(&node), undisturbed());
    assert_eq!(fs::read_to_string(node.own().join("log")).unwrap(), "a file");
}

#[test]
fn a_log_folder_below_a_file_changes_no_answer() {
    let node = prepared();
    let file = node.base().join("file");
    fs::write(&file, "").unwrap();
    symlink(file.join("log"), node.own().join("log")).unwrap();
    assert_eq!(life(&node), undisturbed());
}

/// Root may write everywhere, so for root this is one more undisturbed life.
#[test]
fn a_log_folder_without_permissions_changes_no_answer() {
    let node = prepared();
    let log = node.own().join("log");
    fs::create_dir(&log).unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o000)).unwrap();
    let answers = life(&node);
    fs::set_permissions(&log, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(answers, undisturbed());
}

#[test]
fn a_folder_in_place_of_the_log_file_changes_no_answer() {
    let node = prepared();
    node.must(calls::detach("pv-1", "node-b"));
    let file = fs::read_dir(node.own().join("log")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(life(&node), undisturbed());
}

#[test]
fn a_full_disk_under_the_log_changes_no_answer() {
    let test = "a_full_disk_under_the_log_changes_no_answer";
    if !Path::new("/dev/full").exists() {
        return skip(test, "needs /dev/full");
    }
    let node = prepared();
    // The appender's own name for today, and behind it a device that is always full.
    node.must(calls::detach("pv-1", "node-b"));
    let file = fs::read_dir(node.own().join("log")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&file).unwrap();
    symlink("/dev/full", &file).unwrap();
    for level in ["info", "trace"] {
        node.configure(&format!("[log]\nlevel = \"{level}\""));
        assert_eq!(life(&node), undisturbed());
    }
}

/// Not a device that refuses, but a file system without a free block.
#[test]
fn a_full_file_system_under_the_log_changes_no_answer() {
    if !own_mounts("a_full_file_system_under_the_log_changes_no_answer", &[]) {
        return;
    }
    let node = prepared();
    let log = node.own().join("log");
    fs::create_dir(&log).unwrap();
    mount(Some("tmpfs"), &log, Some("tmpfs"), MsFlags::empty(), Some("size=8k")).unwrap();
    assert!(fs::write(log.join("filler"), vec![0; 64 << 10]).is_err());
    assert_eq!(life(&node), undisturbed());
    assert_eq!(node.log().matches("begin").count(), 0, "there was no room for a line");
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    assert_eq!(servers(&node, "vol-1"), ["node-b"]);
}

/// The log may be turned over by another process at any time.
#[test]
fn a_log_folder_that_vanishes_is_made_again() {
    let node = prepared();
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    fs::remove_dir_all(node.own().join("log")).unwrap();
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    assert!(node.log().contains("end: Success"));
}
