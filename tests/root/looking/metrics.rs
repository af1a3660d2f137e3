//! The page for `node_exporter`'s textfile collector, as real calls write it.

use super::healths::pull;
use crate::scene::{Scene, scene};
use crate::support::{Node, output_of, promtool};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

fn page_of(node: &Node) -> PathBuf {
    node.own().join("textfile/incloud_disk.prom")
}

fn measured(node: &Node) {
    fs::create_dir_all(page_of(node).parent().unwrap()).unwrap();
    node.configure(&format!("[metrics]\ntextfile = '{}'", page_of(node).display()));
}

/// The value of a row; nothing if there is none.
fn value(node: &Node, row: &str) -> Option<f64> {
    let page = fs::read_to_string(page_of(node)).unwrap_or_default();
    let found = page.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(' '));
    found.map(|text| text.parse().unwrap())
}

/// How many volumes have that health; other tests' mounts of this machine may be counted too.
fn count_of(node: &Node, health: &str) -> f64 {
    value(node, &format!("incloud_disk_health_volumes{{health=\"{health}\"}}")).expect("a row")
}

/// Prometheus' own check of the page, where it is installed.
fn check(test: &str, node: &Node) {
    let page = fs::File::open(page_of(node)).unwrap();
    let words = ["check", "metrics"].map(OsStr::new);
    if let Some((is_content, said)) = promtool(test, &words, Some(page)) {
        assert!(is_content && said.is_empty(), "{said}");
    }
}

#[test]
fn refusals_heals_and_stale_mounts_are_counted() {
    let test = "refusals_heals_and_stale_mounts_are_counted";
    needs!(pods);
    // There a call that finds all right leaves the page as it is: what is not right is on it with each call.
    let node = crate::budgets::node();
    measured(&node);
    let Scene { volume, pod, mut container, .. } = scene().on(&node).start();
    assert_eq!(
        value(&node, "incloud_disk_calls_total{operation=\"mount\",outcome=\"done\"}"),
        Some(1.0)
    );
    assert_eq!(value(&node, "incloud_disk_volumes"), Some(1.0));
    let refused = format!(
        "incloud_disk_refused{{volume=\"{}\",persistentvolume=\"{}\",operation=\"unmountdevice\",pod_uid=\"\",pod_name=\"\"}}",
        volume.id, volume.pv,
    );
    let let_go = format!(
        "incloud_disk_let_go{{volume=\"{}\",persistentvolume=\"{}\",pod_uid=\"{}\",pod_name=\"shop/orders-0\"}}",
        volume.id,
        volume.pv,
        pod.uid()
    );
    assert_eq!(value(&node, &let_go), None);
    node.must(volume.unpublish(pod.uid()));
    assert_eq!(value(&node, &let_go), Some(1.0));
    assert_eq!(value(&node, &refused), None);
    for count in 1..=3 {
        node.fails(volume.unstage());
        assert_eq!(value(&node, &refused), Some(1.0));
        assert_eq!(
            value(&node, "incloud_disk_refusals_total{operation=\"unmountdevice\"}"),
            Some(f64::from(count))
        );
    }
    assert_eq!(
        value(&node, "incloud_disk_calls_total{operation=\"unmountdevice\",outcome=\"guarded\"}"),
        Some(3.0)
    );
    check(test, &node);

    pull(&volume, &mut container);
    node.must(volume.is_attached());
    let stale = format!("incloud_disk_stale_mounts{{volume=\"{}\"}}", volume.id);
    assert_eq!(value(&node, &stale), Some(2.0), "global, container");
    // To wait for the disk is a state with a beginning: the timer's looks count no heal.
    let of_volume = format!("{{volume=\"{}\",persistentvolume=\"{}\"}}", volume.id, volume.pv);
    let absent = format!("incloud_disk_absent{of_volume}");
    let since = format!("incloud_disk_absent_since_timestamp_seconds{of_volume}");
    let began = value(&node, &since);
    assert_eq!((value(&node, &absent), began.is_some()), (Some(1.0), true));
    for _ in 0..2 {
        let output = output_of(&mut node.command(["heal"]));
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert_eq!(value(&node, "incloud_disk_heals_total{outcome=\"partly\"}"), Some(0.0));
        assert_eq!(value(&node, "incloud_disk_heals_total{outcome=\"failed\"}"), Some(0.0));
        assert_eq!(value(&node, &since), began, "its beginning stays");
        assert!(count_of(&node, "dead") >= 1.0);
    }
    node.must(volume.attach());
    assert_eq!((value(&node, &stale), value(&node, &absent)), (None, None));
    node.verb(&["heal"]).unwrap();
    assert!(count_of(&node, "guarded") >= 1.0, "it is healed, and its unstage is refused still");
    assert_eq!(value(&node, "incloud_disk_heals_total{outcome=\"healed\"}"), Some(1.0));
    assert_eq!(value(&node, "incloud_disk_healed_mounts_total"), Some(2.0));
    node.must(volume.publish(pod.uid()));
    assert_eq!(value(&node, &let_go), None, "it is mounted again");
    check(test, &node);

    container.die();
    node.must(volume.unpublish(pod.uid()));
    assert_eq!(value(&node, &refused), None, "the refusal is over");
    volume.take_away();
    assert_eq!(value(&node, "incloud_disk_volumes"), Some(0.0));
    let took = "incloud_disk_call_duration_seconds_count{operation=\"attach\"}";
    assert_eq!(value(&node, took), Some(2.0));
    check(test, &node);
    // Nothing but the page is in the collector's folder.
    let names: Vec<_> = fs::read_dir(page_of(&node).parent().unwrap()).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

/// The collector's folder is gone, closed, or a file: calls do not notice.
#[test]
fn no_call_fails_for_its_metrics() {
    needs!(pods);
    for place in ["/proc/incloud.prom", "/nowhere/at/all/incloud.prom", "/dev/null/incloud.prom"] {
        let node = Node::new();
        node.configure(&format!("[metrics]\ntextfile = {place:?}"));
        let volume = crate::volume::Volume::create(&node, "ext4", "64M");
        volume.bring_to_pod();
        volume.take_away();
    }
    let node = Node::new();
    measured(&node);
    // Another process holds the counters for ever.
    let lock = node.own().join("state/metrics.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let held = fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    let volume = crate::volume::Volume::create(&node, "ext4", "64M");
    volume.bring_to_pod();
    volume.take_away();
    assert!(!page_of(&node).exists());
    drop(held);
    let output = output_of(&mut node.command(["detach", &volume.pv, &node.name]));
    assert!(output.status.success());
    // What the others had to tell waited for this one.
    assert_eq!(
        value(&node, "incloud_disk_calls_total{operation=\"mount\",outcome=\"done\"}"),
        Some(1.0)
    );
}
