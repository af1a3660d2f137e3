//! Attach and isattached: what is asked of the cloud, and what is never done.
//!
//! All attachments here are to nodes that are not this machine, so no disk is needed.

use crate::calls::{self, UUID};
use crate::scene::{record, servers, set};
use crate::support::{Answer, Node, options, spawn};
use serde_json::json;
use std::collections::BTreeSet;

fn node_with(ids: &[&str]) -> Node {
    let node = Node::new();
    for id in ids {
        node.create(id, "1M");
    }
    node
}

#[test]
fn attach_answers_the_stable_link_of_the_volume() {
    let node = node_with(&["vol-1", UUID]);
    for id in ["vol-1", UUID] {
        let json = node.must(calls::attach(id, id, "node-b"));
        assert_eq!(json["device"].as_str().unwrap(), node.link(id).to_str().unwrap());
        assert_eq!(servers(&node, id), ["node-b"]);
    }
}

#[test]
fn attach_to_the_same_node_again_changes_nothing() {
    let node = node_with(&["vol-1"]);
    let first = node.must(calls::attach("vol-1", "pv-1", "node-b"));
    let before = record(&node, "vol-1");
    for _ in 0..3 {
        assert_eq!(node.must(calls::attach("vol-1", "pv-1", "node-b")), first);
    }
    assert_eq!(record(&node, "vol-1"), before);
    let log = node.log();
    assert_eq!(log.matches("outcome=Done").count(), 1, "{log}");
    assert_eq!(log.matches("outcome=Already").count(), 3, "{log}");
}

#[test]
fn a_volume_of_another_node_is_never_taken() {
    let node = node_with(&["vol-1"]);
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    let before = record(&node, "vol-1");
    for other in ["node-c", "node-a"] {
        let message = node.fails(calls::attach("vol-1", "pv-1", other));
        assert!(message.contains("Multi-Attach") && message.contains("node-b"), "{message}");
        assert!(message.contains("vol-1") && message.contains("since 20"), "{message}");
        assert!(message.contains(" UTC") && !message.contains('@'), "{message}");
        assert_eq!(record(&node, "vol-1"), before);
    }
}

/// The controller-manager runs as many attaches at once as there are volumes, and there may be
/// several of it.
#[test]
fn of_many_attaches_at_once_one_node_gets_the_volume() {
    let node = node_with(&[]);
    // Each from a machine of its own: no lock but the cloud's keeps them apart.
    let replicas: Vec<_> = (0..6).map(|n| node.neighbour(&format!("replica-{n}"))).collect();
    for round in 0..10 {
        let id = format!("vol-{round}");
        node.create(&id, "1M");
        // With the name there already, nothing but the attachment is left to do.
        set(&node, &id, "recorded_name", json!("pv-1"));
        let started: Vec<_> = replicas
            .iter()
            .zip(["node-b", "node-c"].into_iter().cycle())
            .map(|(replica, to)| (to, spawn(replica.command(calls::attach(&id, "pv-1", to)))))
            .collect();
        let answers: Vec<_> = started
            .into_iter()
            .map(|(to, (child, output))| (to, Answer::finish(child, output)))
            .collect();
        let winners = servers(&node, &id);
        let [winner] = &winners[..] else { panic!("{winners:?}") };
        for (to, Answer { text, json }) in answers {
            let expected = if to == winner { "Success" } else { "Failure" };
            assert_eq!(json["status"], expected, "{winner} has it: {text}");
            assert!(to == winner || text.contains(winner), "{text}");
        }
    }
}

#[test]
fn calls_at_once_have_ids_of_their_own_and_whole_log_lines() {
    let ids: Vec<_> = (0..12).map(|number| format!("vol-{number}")).collect();
    let node = node_with(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    let started: Vec<_> =
        ids.iter().map(|id| spawn(node.command(calls::attach(id, id, "node-b")))).collect();
    for (child, output) in started {
        assert_eq!(Answer::finish(child, output).json["status"], "Success");
    }
    let log = node.log();
    let ids: Vec<_> = log
        .lines()
        .filter(|line| line.contains("begin") || line.contains("end:"))
        .map(|line| line.split("id=\"").nth(1).unwrap().split('"').next().unwrap())
        .collect();
    assert_eq!(ids.len(), 24, "{log}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 12, "{log}");
}

#[test]
fn names_of_nodes_and_volumes_that_could_be_paths_are_refused() {
    let node = node_with(&["vol-1"]);
    let long = "a".repeat(254);
    for bad in ["..", ".", "a/b", "/", "a b", "a\n", "-rf", ".a", "ä", "a%b", &long] {
        for (id, pv, to) in
            [(bad, "pv-1", "node-b"), ("vol-1", bad, "node-b"), ("vol-1", "pv-1", bad)]
        {
            node.fails(calls::attach(id, pv, to));
        }
        node.fails(calls::detach(bad, "node-b"));
        node.fails(calls::detach("pv-1", bad));
    }
    node.fails(calls::attach("vol-1", "pv-1", ""));
    assert!(servers(&node, "vol-1").is_empty());
    assert!(!node.own().join("state").exists() && !node.own().join("run").exists());
}

#[test]
fn a_volume_that_does_not_exist_is_named() {
    let node = node_with(&["vol-1"]);
    let message = node.fails(calls::attach("vol-2", "pv-2", "node-b"));
    assert!(message.contains("volume vol-2 does not exist"), "{message}");
}

#[test]
fn isattached_answers_true_and_false_in_both_orders_of_its_arguments() {
    let node = node_with(&["vol-1"]);
    let ask = |options: &str, to: &str| {
        let (one, other) =
            (node.must(["isattached", options, to]), node.must(["isattached", to, options]));
        assert_eq!(one, other);
        one["attached"].as_bool().expect("kubelet reads a missing key as false")
    };
    let options = options("vol-1", "pv-1", "ext4");
    assert!(!ask(&options, "node-b"));
    node.must(["attach", "node-b", &options]);
    assert!(ask(&options, "node-b"));
    assert!(!ask(&options, "node-c"));
    node.must(calls::detach("pv-1", "node-b"));
    assert!(!ask(&options, "node-b"));
}

#[test]
fn a_volume_that_does_not_exist_is_not_attached() {
    let json = Node::new().must(calls::is_attached("vol-1", "pv-1", "node-b"));
    assert_eq!(json["attached"], false);
}

/// "No" makes the controller-manager attach the volume again.
#[test]
fn a_cloud_that_cannot_be_read_is_no_answer() {
    let node = node_with(&["vol-1"]);
    node.must(calls::attach("vol-1", "pv-1", "node-b"));
    set(&node, "vol-1", "attachments", json!("broken"));
    for call in [
        calls::is_attached("vol-1", "pv-1", "node-b"),
        calls::attach("vol-1", "pv-1", "node-b"),
        calls::detach("pv-1", "node-b"),
    ] {
        let message = node.fails(&call);
        assert!(message.contains("vol-1.json cannot be read"), "{message}");
    }
    assert_eq!(record(&node, "vol-1")["attachments"], "broken");
}

#[test]
fn options_without_a_volume_id_name_the_missing_key() {
    let node = node_with(&["vol-1"]);
    for json in [
        r#"{"kubernetes.io/pvOrVolumeName":"vol-1"}"#,
        r#"{"kubernetes.io/pvOrVolumeName":"vol-1","volumeID":""}"#,
        r#"{"kubernetes.io/pvOrVolumeName":"vol-1","volumeid":"vol-1"}"#,
    ] {
        for word in ["attach", "isattached"] {
            let message = node.fails([word, json, "node-b"]);
            assert!(message.contains("volumeID") && message.contains("vol-1"), "{message}");
        }
    }
    assert!(servers(&node, "vol-1").is_empty());
}
