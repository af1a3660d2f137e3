//! One call at a time works on a volume; the others wait and learn who does.

use crate::calls::{self, POD, UUID};
use crate::scene::servers;
use crate::support::{Answer, Node, spawn};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

fn lock_path(node: &Node, id: &str) -> PathBuf {
    node.own().join("run/locks").join(format!("{id}.lock"))
}

/// Holds the lock as another call would, until the file is dropped.
pub fn hold(node: &Node, id: &str) -> File {
    let path = lock_path(node, id);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = File::create(path).unwrap();
    file.try_lock().unwrap();
    writeln!(file, "process 4999999 (mountdevice)").unwrap();
    file
}

/// The names of all lock files.
fn lock_files(node: &Node) -> Vec<String> {
    let files = fs::read_dir(node.own().join("run/locks")).into_iter().flatten().flatten();
    files.map(|file| file.file_name().into_string().unwrap()).collect()
}

#[test]
fn a_call_that_waits_too_long_for_the_lock_names_its_holder() {
    let node = Node::new();
    node.create(UUID, "1M");
    node.must(calls::attach(UUID, UUID, "node-b"));
    fs::create_dir_all(node.pod(POD, UUID)).unwrap();
    node.configure(
        "[deadline]\nattach = 1\ndetach = 1\nmountdevice = 1\nmount = 1\nunmount = 1\nexpandfs = 1",
    );
    let held = hold(&node, UUID);
    let started = [
        calls::attach(UUID, UUID, "node-b"),
        calls::detach(UUID, "node-b"),
        calls::stage(&node, UUID, UUID),
        calls::publish(&node, UUID, UUID),
        calls::unpublish(&node, UUID),
        calls::expand(&node, UUID, UUID),
    ]
    .map(|call| spawn(node.command(&call)));
    for (child, output) in started {
        let answer = Answer::finish(child, output);
        let message = answer.json["message"].as_str().unwrap();
        assert!(message.contains("process 4999999 (mountdevice)"), "{message}");
        assert!(message.contains("another call works on the volume"), "{message}");
    }
    assert_eq!(servers(&node, UUID), ["node-b"]);
    assert_eq!(lock_files(&node), [format!("{UUID}.lock")], "the holder's file stays");
    drop(held);
    node.must(calls::detach(UUID, "node-b"));
    assert!(lock_files(&node).is_empty());
}

/// Another program of this machine has the local cloud's own lock for longer than the call may take.
#[test]
fn a_local_cloud_that_is_locked_is_named() {
    let node = Node::new();
    node.create("vol-1", "1M");
    node.configure("[deadline]\nattach = 1");
    let held = fs::File::open(node.base().join("cloud/lock")).unwrap();
    held.lock().unwrap();
    let message = node.fails(calls::attach("vol-1", "pv-1", "node-b"));
    assert!(message.contains("the local cloud is locked: "), "{message}");
    drop(held);
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
}

#[test]
fn a_held_lock_is_no_hindrance_to_other_volumes() {
    let node = Node::new();
    node.create("vol-2", "1M");
    let _held = hold(&node, "vol-1");
    node.must(calls::attach("vol-2", "pv-2", "node-b"));
    node.must(calls::detach("pv-2", "node-b"));
}

/// Asking changes nothing, and the controller-manager asks every minute.
#[test]
fn isattached_answers_while_the_lock_is_held() {
    let node = Node::new();
    node.create("vol-1", "1M");
    let _held = hold(&node, "vol-1");
    assert_eq!(node.must(calls::is_attached("vol-1", "pv-1", "node-b"))["attached"], false);
}

#[test]
fn no_lock_file_stays_after_a_call() {
    let node = Node::new();
    node.create("vol-1", "1M");
    node.configure("[deadline]\nmountdevice = 1\nmount = 1");
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    node.fails(calls::attach("vol-1", "pv-1", "node-c"));
    node.fails(calls::stage(&node, "vol-1", "pv-1"));
    node.fails(calls::publish(&node, "vol-1", "pv-1"));
    node.fails(calls::expand(&node, "vol-1", "pv-1"));
    node.must(calls::detach("pv-1", "node-b"));
    assert!(node.own().join("run/locks").is_dir());
    assert!(lock_files(&node).is_empty());
}

/// The kernel frees a dead call's lock; its file is only a name.
#[test]
fn the_lock_file_of_a_dead_call_is_no_lock() {
    let node = Node::new();
    node.create("vol-1", "1M");
    drop(hold(&node, "vol-1"));
    assert!(lock_path(&node, "vol-1").exists());
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    assert!(lock_files(&node).is_empty());
}

/// A controller's container has a read-only root: there the cloud itself keeps order.
#[test]
fn calls_that_only_speak_to_the_cloud_go_on_without_a_lock() {
    let node = Node::new();
    node.create("vol-1", "1M");
    fs::write(node.own().join("run"), "a file in its place").unwrap();
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    assert_eq!(node.must(calls::is_attached("vol-1", "pv-1", "node-b"))["attached"], true);
    node.must(calls::detach("pv-1", "node-b"));
    assert!(servers(&node, "vol-1").is_empty());
}

#[test]
fn calls_that_mount_refuse_without_a_lock() {
    let node = Node::new();
    node.create(UUID, "1M");
    fs::create_dir_all(node.pod(POD, UUID)).unwrap();
    fs::create_dir_all(node.global(UUID)).unwrap();
    fs::write(node.own().join("run"), "a file in its place").unwrap();
    for call in [
        calls::stage(&node, UUID, UUID),
        calls::publish(&node, UUID, UUID),
        calls::expand(&node, UUID, UUID),
    ] {
        let message = node.fails(&call);
        assert!(message.contains("paths.run_dir"), "{message}");
        assert!(message.contains(node.own().join("run").to_str().unwrap()), "{message}");
    }
    // With nothing mounted there is nothing that a lock would guard.
    node.must(calls::unpublish(&node, UUID));
    node.must(calls::unstage(&node, UUID));
}

/// What this machine remembers is a cache: without it calls to the cloud go on.
#[test]
fn a_state_folder_that_cannot_be_written_stops_no_call_to_the_cloud() {
    let node = Node::new();
    node.create("vol-1", "1M");
    fs::write(node.own().join("state"), "a file in its place").unwrap();
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    assert_eq!(node.must(calls::is_attached("vol-1", "pv-1", "node-b"))["attached"], true);
    node.must(calls::detach("pv-1", "node-b"));
    assert!(servers(&node, "vol-1").is_empty());
}
