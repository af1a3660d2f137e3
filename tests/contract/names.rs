//! Detach is told the `PersistentVolume`'s name alone. A wrong guess would take another volume's
//! disk away, so whatever is not certain is a failure.

use crate::calls::{self, UUID};
use crate::scene::{record, servers, set};
use crate::support::Node;
use serde_json::json;
use std::fs;

fn attached(id: &str, pv: &str) -> Node {
    let node = Node::new();
    node.create(id, "1M");
    node.must(calls::attach(id, pv, "node-b"));
    node
}

fn forget_all(node: &Node) {
    fs::remove_dir_all(node.own().join("state")).unwrap();
}

#[test]
fn detach_finds_the_volume_by_the_name_that_attach_was_told() {
    let node = attached("vol-1", "pv-1");
    node.must(calls::detach("pv-1", "node-b"));
    assert!(servers(&node, "vol-1").is_empty());
    assert!(record(&node, "vol-1")["recorded_name"].is_null(), "the name is free again");
}

#[test]
fn detach_on_another_replica_finds_the_volume() {
    let node = attached("vol-1", "pv-1");
    let replica = node.neighbour("replica");
    replica.must(calls::detach("pv-1", "node-b"));
    assert!(servers(&node, "vol-1").is_empty());
}

#[test]
fn detach_again_is_success() {
    let node = attached("vol-1", "pv-1");
    for _ in 0..3 {
        node.must(calls::detach("pv-1", "node-b"));
    }
}

#[test]
fn detach_of_an_unknown_volume_is_success() {
    let node = attached("vol-1", "pv-1");
    for name in ["pv-2", "vol-2", UUID] {
        node.must(calls::detach(name, "node-b"));
    }
    assert_eq!(servers(&node, "vol-1"), ["node-b"]);
    Node::new().must(calls::detach("pv-1", "node-b"));
}

#[test]
fn detach_of_a_volume_that_was_deleted_is_success() {
    let node = attached("vol-1", "pv-1");
    fs::remove_file(node.base().join("cloud/volumes/vol-1.json")).unwrap();
    node.must(calls::detach("pv-1", "node-b"));
}

#[test]
fn detach_from_another_node_leaves_the_attachment_alone() {
    let node = attached("vol-1", "pv-1");
    let before = record(&node, "vol-1");
    for other in ["node-c", "node-a", "1", ""] {
        node.must(calls::detach("pv-1", other));
        assert_eq!(record(&node, "vol-1"), before, "{other:?}");
    }
    node.must(["detach", "pv-1"]);
    assert_eq!(record(&node, "vol-1"), before);
    node.must(calls::detach("pv-1", "node-b"));
    assert!(servers(&node, "vol-1").is_empty(), "it is still known by its name");
}

/// People typed `detach VOLUME 1` with the predecessor.
#[test]
fn node_1_is_this_machine_and_no_node_of_that_name() {
    let node = Node::new();
    node.create("vol-1", "1M");
    node.must(calls::attach("vol-1", "pv-1", "1"));
    assert_eq!(servers(&node, "vol-1"), ["1"]);
    node.must(calls::detach("pv-1", "1"));
    assert_eq!(servers(&node, "vol-1"), ["1"], "this machine is node-a");
    assert!(node.log().contains(" server=node-a "), "{}", node.log());
}

#[test]
fn two_volumes_under_one_name_are_a_failure_that_names_both() {
    let node = attached("vol-1", "pv-1");
    node.create("vol-2", "1M");
    set(&node, "vol-2", "attachments", json!({"node-b": "@1"}));
    set(&node, "vol-2", "recorded_name", json!("pv-1"));
    forget_all(&node);
    let message = node.fails(calls::detach("pv-1", "node-b"));
    assert!(message.contains("vol-1") && message.contains("vol-2"), "{message}");
    assert_eq!(
        (servers(&node, "vol-1"), servers(&node, "vol-2")),
        (vec!["node-b".into()], vec!["node-b".into()])
    );
    // The way out that the message tells.
    assert!(message.contains("disk detach id:<volume id> <node>"), "{message}");
    node.must(calls::detach("id:vol-2", "node-b"));
    assert!(servers(&node, "vol-2").is_empty());
    assert_eq!(servers(&node, "vol-1"), ["node-b"]);
}

/// The claim was made anew under another name while a pod still had the volume.
#[test]
fn a_refused_attach_does_not_take_the_name_away_from_the_one_who_has_the_volume() {
    let node = attached("vol-1", "pv-old");
    node.fails(calls::attach("vol-1", "pv-new", "node-c"));
    node.must(calls::detach("pv-old", "node-b"));
    assert!(servers(&node, "vol-1").is_empty());
    node.must(calls::attach("vol-1", "pv-new", "node-c"));
    assert_eq!(servers(&node, "vol-1"), ["node-c"]);
}
