//! What an operator met at night. Above each stands what the driver said at fee4868, where the test fails. More of
//! them: `crate::tend`, `super`, and `looking` and `at_night` of the ring `contract`.

use super::{healths, json, words_of};
use crate::scene::{Scene, scene};
use crate::support::pods::Order;
use crate::support::{Node, has, output_of};
use std::fs;

/// kubelet takes down what its pod still uses, and is refused the device.
fn guarded(scene: &Scene) {
    scene.node.must(scene.volume.unpublish(scene.pod.uid()));
    scene.node.fails(scene.volume.unstage());
}

/// No row: nothing but `incloud_disk_heals_total{outcome="partly"} 1`, as an absent disk has.
#[test]
fn a_half_done_heal_is_a_metric() {
    needs!(pods);
    let node = Node::new();
    let page = node.own().join("disk.prom");
    node.configure(&format!("[metrics]\ntextfile = '{}'", page.display()));
    let mut scene = scene().on(&node).start();
    scene.container.must(&Order::Open { path: "/data/log".into() });
    healths::pull(&scene.volume, &mut scene.container);
    node.must(scene.volume.attach());
    let _ = output_of(&mut node.command(["heal"]));
    let text = fs::read_to_string(&page).unwrap();
    let row = text
        .lines()
        .find_map(|line| line.strip_prefix("incloud_disk_health_volumes{health=\"half-healed\"} "));
    // Other tests of this machine may have one too.
    assert!(row.is_some_and(|count| count != "0"), "{text}");
    scene.ends();
}

/// Two rows, "... still run: 21406 (sh)" and "... still run: 21406 (sh) and 1 more".
#[test]
fn another_process_of_the_same_container_is_no_new_row() {
    needs!(pods);
    let mut scene = scene().idle().start();
    guarded(&scene);
    // What runs `sleep` in a loop has another process each time.
    scene.container.must(&Order::Fork { count: 1 });
    scene.node.fails(scene.volume.unstage());
    let found = json(&scene.node, &["history", &scene.volume.pv]);
    let rows = found["entries"].as_array().unwrap();
    let refused: Vec<_> = rows.iter().filter(|row| row["op"] == "unmountdevice").collect();
    let reasons: Vec<_> = refused.iter().map(|row| &row["text"]).collect();
    assert_eq!(refused.iter().map(|row| &row["count"]).collect::<Vec<_>>(), [&2], "{reasons:#?}");
    scene.ends();
}

/// "Detach is asked for and refused (1 time): disk loop3 is mounted at ...", and no pod.
#[test]
fn a_guarded_volume_names_its_pod_whatever_was_refused_last() {
    needs!(pods);
    let scene = scene().called("orders-0").start();
    let Scene { node, volume, .. } = &scene;
    guarded(&scene);
    node.fails(volume.detach());
    let found = json(node, &["status"]);
    let verdict = &found["volumes"][0]["verdict"];
    assert_eq!(verdict["health"], "guarded");
    assert!(verdict["because"].as_str().unwrap().contains("orders-0"), "{verdict:#}");
    has(&words_of(node, &["status"]), &["No harm: shop/orders-0 uses it and goes on."]);
    scene.ends();
}
