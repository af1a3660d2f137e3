//! Both versions on one node: whatever one wrote, the other goes on from there.

use crate::checks::{eventually, layers_at, number_of, only_mount_at, the_dead_disk_is_let_go};
use crate::files;
use crate::keys::Keys;
use crate::previous::{ORDERS, Version, driven_by};
use crate::scene::{Scene, goes_on, pull, scene};
use crate::support::{Answer, Node, spawn};
use crate::volume::{Volume, make_folder};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// A pod gets its volume, keeps it when kubelet would take it away, loses its disk twice and is healed, by a call and
/// by a person; it ends, and the next one finds its data. Answers how many calls that takes.
#[track_caller]
fn live(fs_type: &'static str, versions: impl IntoIterator<Item = Version>) -> usize {
    let node = driven_by(&Node::new(), versions);
    let Scene { volume, pod, mut container, .. } = scene().on(&node).of(fs_type).start();
    for call in [volume.is_attached(), volume.wait(""), volume.stage(), volume.publish(pod.uid())] {
        node.must(call);
    }
    assert_eq!((layers_at(&volume.global()), layers_at(&volume.pod(pod.uid()))), (1, 1));

    // kubelet believes that the pod is gone.
    node.must(volume.unpublish(pod.uid()));
    for round in 1..=2 {
        let message = node.fails(volume.unstage());
        assert!(message.contains(pod.uid()), "{message}");
        node.fails(volume.detach());
        assert_eq!(volume.record()["refusals"], 2 * round, "each version counts on");
        assert_eq!(volume.record()["refused"]["unstage"]["count"], round);
    }
    container.must_write_on(3);
    node.must(volume.publish(pod.uid()));

    // The disk is lost and comes back.
    pull(&volume, &mut container);
    node.must(volume.attach());
    goes_on(&mut container, 3);
    for call in [volume.wait(""), volume.stage(), volume.publish(pod.uid())] {
        node.must(call);
    }
    node.configure("[heal]\nmode = \"off\"");
    pull(&volume, &mut container);
    node.must(volume.attach());
    node.configure("");
    node.verb(&["heal", &volume.id]).unwrap();
    goes_on(&mut container, 3);
    the_dead_disk_is_let_go(&node);
    let number = number_of(&volume.letter());
    for place in [volume.global(), volume.pod(pod.uid())] {
        assert_eq!(only_mount_at(&place).number, number, "{}", place.display());
    }
    assert_eq!(volume.record()["switching"], Value::Null);

    container.die();
    for call in [volume.unpublish(pod.uid()), volume.unstage(), volume.detach()] {
        node.must(call);
    }
    volume.bring();
    assert_eq!(files::read(volume.global().join("kept")).unwrap(), b"from before");
    volume.ends();
    volume.must_be_sound();
    node.calls_made()
}

#[test]
fn each_call_follows_one_of_the_other_version() {
    needs!(pods, previous);
    for order in ORDERS {
        for fs_type in ["ext4", "xfs"] {
            live(fs_type, order);
        }
    }
}

/// Longer than any life here: the last version answers all calls that are left.
fn replaced_after(calls: usize, [first, second]: [Version; 2]) -> impl Iterator<Item = Version> {
    std::iter::repeat_n(first, calls).chain(std::iter::repeat_n(second, 100))
}

/// The driver is replaced once, between two calls: each place is tried.
fn replaced_anywhere(order: [Version; 2]) {
    let mut calls = 1;
    while calls < live("ext4", replaced_after(calls, order)) {
        calls += 1;
    }
}

#[test]
fn an_upgrade_between_any_two_calls_is_not_noticed() {
    needs!(pods, previous);
    replaced_anywhere(ORDERS[0]);
}

#[test]
fn a_rollback_between_any_two_calls_is_not_noticed() {
    needs!(pods, previous);
    replaced_anywhere(ORDERS[1]);
}

/// A verb's answer as JSON.
#[track_caller]
fn json(node: &Node, words: &[&str]) -> Value {
    let text = node.verb(&[words, &["--json"]].concat()).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn each_version_shows_what_the_other_wrote() {
    needs!(pods, previous);
    let keys = ORDERS.map(|[first, second]| {
        let mut keys = Keys::default();
        let node = driven_by(&Node::new(), [first]);
        let Scene { volume, pod, mut container, .. } = scene().on(&node).start();
        pull(&volume, &mut container);
        node.must(volume.attach());
        goes_on(&mut container, 3);
        node.must(volume.unpublish(pod.uid()));
        node.fails(volume.unstage());
        node.fails(volume.unstage());
        keys.note(&volume);
        let shown = [first, second].map(|version| {
            let node = driven_by(&node, [version]);
            let all = json(&node, &["status"]);
            let row = &all["volumes"][0];
            assert_eq!(
                (&row["id"], &row["name"]),
                (&volume.id.clone().into(), &volume.pv.clone().into())
            );
            assert_eq!(row["verdict"]["health"], "guarded", "{row:#}");
            assert_eq!(row["refused"][0]["count"], 2, "{row:#}");
            assert_eq!(row["let_go"][0]["pod"], pod.uid(), "{row:#}");
            let story = json(&node, &["history", &volume.pv]);
            let entries = story["entries"].as_array().unwrap();
            let ends: Vec<_> = entries
                .iter()
                .filter(|entry| entry["op"] != "kernel")
                .map(|entry| ["op", "ending", "count", "pod"].map(|key| entry[key].clone()))
                .collect();
            let text = node.verb(&["explain", &volume.pv]).unwrap();
            assert!(text.contains("shop/orders-0"), "{text}");
            (row["last_call"]["ending"].clone(), ends)
        });
        assert_eq!(shown[0], shown[1]);
        assert!(shown[0].1.len() > 7, "{shown:?}");
        volume.ends_with(&pod, container);
        keys
    });
    let [previous, current] = keys;
    current.must_include(&previous);
}

/// The locks of a volume are the same ones.
#[test]
fn a_call_waits_for_one_of_the_other_version() {
    needs!(mounts, seams, previous);
    for order in ORDERS {
        let node = Node::new();
        let [first, second] = order.map(|version| driven_by(&node, [version]));
        let volume = Volume::create(&first, "ext4", "16M");
        first.must(volume.attach());
        make_folder(&volume.global());
        let held = node.base().join("held");
        let mut stage = first.command(volume.stage());
        stage.env("INCLOUD_DISK_SEAM", format!("stage.looked=hold:{}", held.display()));
        let (stage, staged) = spawn(stage);
        eventually("the first call is in its middle", || held.exists());
        let (mut detach, detached) = spawn(second.command(volume.detach()));
        std::thread::sleep(Duration::from_millis(500));
        assert!(detach.try_wait().unwrap().is_none(), "it did not wait");
        fs::remove_file(&held).unwrap();
        assert_eq!(Answer::finish(stage, staged).json["status"], "Success");
        assert_eq!(Answer::finish(detach, detached).json["status"], "Failure", "it is mounted");
        assert_eq!(layers_at(&volume.global()), 1);
        second.must(volume.unstage());
        second.must(volume.detach());
    }
}
