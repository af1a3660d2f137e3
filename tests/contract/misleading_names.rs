//! A `PersistentVolume` that is called like a volume, but has another one's `volumeID`, and was
//! attached before this driver came: nothing is recorded of it.

use crate::calls::{self, UUID};
use crate::scene::{record, servers, set};
use crate::support::Node;
use serde_json::json;

const OTHER: &str = "6f1c2d3e-4a5b-4c6d-8e7f-00000000000b";

/// Volumes that the predecessor attached to `node-b`.
fn with_strangers(ids: &[&str]) -> Node {
    let node = Node::new();
    for id in ids {
        node.create(id, "1M");
        set(&node, id, "attachments", json!({"node-b": "@1"}));
    }
    node
}

fn is_there(node: &Node, id: &str) -> bool {
    servers(node, id) == ["node-b"]
}

/// The name is no volume's id, so it must be the name of one of those. At fee4868: Success.
#[test]
fn a_name_that_is_no_volume_may_be_any_that_is_attached() {
    let node = with_strangers(&["vol-a", OTHER]);
    let message = node.fails(calls::detach(UUID, "node-b"));
    assert!(message.contains("vol-a") && message.contains(OTHER), "{message}");
    assert!(message.contains("disk detach id:<volumeID> <node>"), "{message}");
    assert!(is_there(&node, "vol-a") && is_there(&node, OTHER));
    node.must(calls::detach("id:vol-a", "node-b"));
    assert!(!is_there(&node, "vol-a") && is_there(&node, OTHER));
    // It ends when each of them is known.
    node.must(calls::attach(OTHER, "pv-other", "node-b"));
    node.must(calls::detach(UUID, "node-b"));
    assert!(is_there(&node, OTHER));
}

/// An unknown data volume stays where it is, and would keep the name in doubt for ever: the command
/// that the refusal names ends that. It is told the name too.
#[test]
fn the_command_that_a_refusal_names_ends_it() {
    // The volume that was meant: idle, attached, or deleted in the cloud meanwhile.
    for meant in ["idle", "attached", "gone"] {
        let node = match meant {
            "attached" => with_strangers(&["vol-a", OTHER]),
            _ => with_strangers(&[OTHER]),
        };
        if meant == "idle" {
            node.create("vol-a", "1M");
        }
        let message = node.fails(calls::detach(UUID, "node-b"));
        let command = format!("disk detach id:<volumeID> <node> {UUID}");
        assert!(message.contains(OTHER) && message.contains(&command), "{message}");
        let answer = node.must(["detach", "id:vol-a", "node-b", UUID]);
        assert_eq!(answer["status"], "Success");
        assert!(is_there(&node, OTHER), "{meant}: nothing else is touched");
        node.must(calls::detach(UUID, "node-b"));
        assert!(is_there(&node, OTHER), "{meant}");
        if meant != "gone" {
            assert!(record(&node, "vol-a")["recorded_name"].is_null(), "{meant}");
            assert!(servers(&node, "vol-a").is_empty(), "{meant}");
        }
    }
    // What is recorded for another volume is not settled otherwise by a slip.
    let node = with_strangers(&["vol-a", OTHER]);
    node.must(calls::is_attached(OTHER, UUID, "node-b"));
    let message = node.fails(["detach", "id:vol-a", "node-b", UUID]);
    assert!(message.contains(OTHER) && message.contains("is recorded for"), "{message}");
    assert!(!is_there(&node, "vol-a") && is_there(&node, OTHER));
    assert_eq!(record(&node, OTHER)["recorded_name"], UUID);
    // The name is also the id of a volume that is attached and unknown: that one is not meant.
    let node = with_strangers(&["vol-a", UUID]);
    node.fails(calls::detach(UUID, "node-b"));
    node.must(["detach", "id:vol-a", "node-b", UUID]);
    node.must(calls::detach(UUID, "node-b"));
    assert!(is_there(&node, UUID) && !is_there(&node, "vol-a"));
}
