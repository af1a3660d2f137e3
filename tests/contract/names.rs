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
fn detach_without_the_record_cache_finds_the_volume() {
    let node = attached("vol-1", "pv-1");
    forget_all(&node);
    node.must(calls::detach("pv-1", "node-b"));
    assert!(servers(&node, "vol-1").is_empty());
}

/// Volumes that were attached before this driver came are known after the first `isattached`.
#[test]
fn isattached_records_the_name_for_the_detach_to_come() {
    let node = Node::new();
    node.create("vol-1", "1M");
    set(&node, "vol-1", "attachments", json!({"node-b": "@1"}));
    node.must(calls::is_attached("vol-1", "pv-1", "node-b"));
    node.neighbour("replica").must(calls::detach("pv-1", "node-b"));
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
fn a_cache_that_is_out_of_date_does_not_mislead() {
    let node = attached("vol-1", "pv-1");
    let replica = node.neighbour("replica");
    // The name goes to another volume, and this node's cache does not notice.
    replica.must(calls::detach("pv-1", "node-b"));
    replica.create("vol-2", "1M");
    replica.must(calls::attach("vol-2", "pv-1", "node-b"));
    replica.must(calls::attach("vol-1", "pv-2", "node-b"));

    node.must(calls::detach("pv-1", "node-b"));
    assert!(servers(&node, "vol-2").is_empty());
    assert_eq!(servers(&node, "vol-1"), ["node-b"], "the volume that had the name before");
}

/// The volume that had the name before was taken away by hand, so its record still has it.
#[test]
fn a_name_that_the_cloud_knows_twice_is_ambiguous_whatever_the_cache_says() {
    let node = attached("vol-1", "pv-1");
    set(&node, "vol-1", "attachments", json!({}));
    let replica = node.neighbour("replica");
    replica.create("vol-2", "1M");
    replica.must(calls::attach("vol-2", "pv-1", "node-b"));

    let answer = node.call(calls::detach("pv-1", "node-b"));
    let is_gone = servers(&node, "vol-2").is_empty();
    assert_eq!(answer.json["status"] == "Success", is_gone, "{}", answer.text);
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

/// The predecessor recorded nothing; its volumes are often called like their `PersistentVolume`.
fn called(node: &Node, id: &str, name: &str, server: &str) {
    node.verb(&["local", "create", id, "--size", "1M", "--name", name]).unwrap();
    set(node, id, "attachments", json!({server: "@1"}));
}

#[test]
fn a_volume_that_the_cloud_calls_so_is_found() {
    let node = Node::new();
    called(&node, "vol-1", "pv-x", "node-b");
    called(&node, "vol-2", "pv-x", "node-c");
    called(&node, "vol-3", "pv-y", "node-b");
    node.must(calls::detach("pv-x", "node-b"));
    assert!(servers(&node, "vol-1").is_empty());
    assert_eq!(servers(&node, "vol-2"), ["node-c"]);
    assert_eq!(servers(&node, "vol-3"), ["node-b"]);
}

#[test]
fn two_volumes_that_the_cloud_calls_so_are_a_failure_that_names_both() {
    let node = Node::new();
    called(&node, "vol-1", "pv-x", "node-b");
    called(&node, "vol-2", "pv-x", "node-b");
    let message = node.fails(calls::detach("pv-x", "node-b"));
    assert!(message.contains("vol-1") && message.contains("vol-2"), "{message}");
    assert_eq!(servers(&node, "vol-1"), ["node-b"]);
    assert_eq!(servers(&node, "vol-2"), ["node-b"]);
}

/// A volume of which it is certain that it goes by another name is not the one that is meant.
#[test]
fn a_name_in_the_cloud_is_nothing_where_attach_recorded_another() {
    let node = attached("vol-1", "pv-x");
    called(&node, "vol-2", "pv-x", "node-b");
    node.must(calls::attach("vol-2", "pv-y", "node-b"));
    // The second detach is a repetition, as the controller-manager makes them.
    for _ in 0..2 {
        node.must(calls::detach("pv-x", "node-b"));
        assert!(servers(&node, "vol-1").is_empty());
        assert_eq!(servers(&node, "vol-2"), ["node-b"], "it is pv-y");
    }
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

/// What attach recorded is certain; a name in the cloud is only what a person typed.
#[test]
fn a_recorded_name_wins_over_a_name_in_the_cloud() {
    let node = attached("vol-1", "pv-x");
    called(&node, "vol-2", "pv-x", "node-b");
    forget_all(&node);
    node.must(calls::detach("pv-x", "node-b"));
    assert!(servers(&node, "vol-1").is_empty());
    assert_eq!(servers(&node, "vol-2"), ["node-b"]);
}
