//! What an operator met at night, each item with a test of its own. Above each stands what the driver
//! said at fee4868, where the test fails. More of them: `crate::tend`, `super`, and `looking` and
//! `at_night` of the ring `contract`.

use super::{as_another_user, healths, json, said};
use crate::checks::{eventually, number_of};
use crate::heal::goes_on;
use crate::scene::{Scene, scene};
use crate::support::pods::{Naming, Order};
use crate::support::{Node, has, output_of};
use crate::tend::bring_back;
use std::fs;

/// The disk went under a container that has a file open, and came back: an attach healed the mounts.
fn healed_around_an_open_file(node: &Node) -> Scene {
    let mut scene = scene().on(node).called("db-0").start();
    scene.container.must(&Order::Open { path: "/data/log".into() });
    healths::pull(&scene.volume, &mut scene.container);
    scene.node.must(scene.volume.attach());
    scene
}

/// The same without the open file, and nothing is healed yet.
fn back_and_not_healed() -> Scene {
    let mut scene = scene().called("mail-0").start();
    healths::pull(&scene.volume, &mut scene.container);
    bring_back(&scene.volume);
    scene
}

/// kubelet takes down what its pod still uses, and is refused the device.
fn guarded(scene: &Scene) {
    // At fee4868 this is refused too.
    scene.node.call(scene.volume.unpublish(scene.pod.uid()));
    scene.node.fails(scene.volume.unstage());
}

fn ends(scene: Scene) {
    scene.volume.take_away_with(&scene.pod, scene.container);
}

/// A verb's output, whatever its exit status, as one line.
fn told(node: &Node, words: &[&str]) -> String {
    let output = output_of(&mut node.command(words));
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At fee4868: "verdict ok: every mount stands on loop4: the global one, 1 pod's, 1 container's".
#[test]
fn explain_tells_of_a_file_that_is_open_on_the_lost_disk() {
    needs!(pods);
    let scene = healed_around_an_open_file(&Node::new());
    let text = told(&scene.node, &["explain", &scene.volume.id]);
    let who = format!("process {} ", scene.container.pid());
    assert!(text.contains("verdict half-healed: ") && text.contains(&who), "{text}");
    ends(scene);
}

/// At fee4868 no row: nothing but `incloud_disk_heals_total{outcome="partly"} 1`, as an absent disk has.
#[test]
fn a_half_done_heal_is_a_metric() {
    needs!(pods);
    let node = Node::new();
    let page = node.own().join("disk.prom");
    node.configure(&format!("[metrics]\ntextfile = '{}'", page.display()));
    let scene = healed_around_an_open_file(&node);
    let _ = output_of(&mut node.command(["heal"]));
    let text = fs::read_to_string(&page).unwrap();
    let row = text
        .lines()
        .find_map(|line| line.strip_prefix("incloud_disk_health_volumes{health=\"half-healed\"} "));
    // Other tests of this machine may have one too.
    assert!(row.is_some_and(|count| count != "0"), "{text}");
    ends(scene);
}

/// At fee4868: "heal its end is not in the log", and no row of what moved.
#[test]
fn what_the_timer_moved_is_in_the_history_and_has_an_end() {
    needs!(pods);
    let mut scene = back_and_not_healed();
    scene.node.verb(&["heal"]).unwrap();
    goes_on(&mut scene.container, 3);
    let text = told(&scene.node, &["history", &scene.volume.pv]);
    assert!(!text.contains("its end is not in the log") && !text.contains("FAILED"), "{text}");
    has(&text, &["3 mounts in 2 namespaces put from 7:", "for shop/mail-0"]);
    ends(scene);
}

/// At fee4868: "last: heal has not ended, 140 ms ago".
#[test]
fn status_knows_that_the_timers_heal_has_ended() {
    needs!(pods);
    let scene = back_and_not_healed();
    scene.node.verb(&["heal"]).unwrap();
    let text = told(&scene.node, &["status"]);
    assert!(!text.contains("has not ended"), "{text}");
    ends(scene);
}

/// At fee4868: "would be healed: heal.mode is report", which it was not.
#[test]
fn a_plan_is_logged_as_what_a_person_asked_for() {
    needs!(pods);
    let scene = back_and_not_healed();
    scene.node.verb(&["heal", "--dry-run"]).unwrap();
    let files = fs::read_dir(scene.node.own().join("log")).unwrap().flatten();
    let log: String = files.map(|file| fs::read_to_string(file.path()).unwrap()).collect();
    let log: Vec<_> = log.lines().filter(|line| line.contains("would be healed")).collect();
    let log = log.join("\n");
    assert!(!log.contains("heal.mode is report") && log.contains("asked for a plan"), "{log}");
    scene.node.verb(&["heal"]).unwrap();
    ends(scene);
}

/// At fee4868: `incloud_disk_heals_total{outcome="partly"} 3`, one more each minute.
#[test]
fn an_absent_disk_is_no_heal_that_fails_each_minute() {
    needs!(pods);
    let node = Node::new();
    let page = node.own().join("disk.prom");
    node.configure(&format!("[metrics]\ntextfile = '{}'", page.display()));
    let mut scene = scene().on(&node).start();
    healths::pull(&scene.volume, &mut scene.container);
    for _minute in 0..3 {
        let _ = output_of(&mut node.command(["heal"]));
    }
    let text = fs::read_to_string(&page).unwrap();
    let heals: Vec<_> =
        text.lines().filter(|line| line.starts_with("incloud_disk_heals_total{")).collect();
    let partly = "incloud_disk_heals_total{outcome=\"partly\"} 0";
    assert!(heals.contains(&partly), "{heals:#?}");
    node.must(scene.volume.attach());
    ends(scene);
}

/// At fee4868 two rows, "... still run: 21406 (sh)" and "... still run: 21406 (sh) and 1 more".
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
    ends(scene);
}

/// At fee4868: "detach is asked for and refused (1 time): disk loop3 is mounted at ...", and no pod.
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
    has(&told(node, &["status"]), &["No harm: shop/orders-0 uses it and goes on."]);
    ends(scene);
}

/// At fee4868 for each of them: "no volume goes by the name mail-0", or "the volume name holds '/'".
#[test]
fn a_volume_goes_by_its_device_and_its_pod() {
    needs!(pods);
    let scene = scene().called("mail-0").idle().start();
    let Scene { node, volume, pod, .. } = &scene;
    let letter = volume.letter();
    let number = number_of(&letter).to_string();
    let names = [&letter, &number, "mail-0", "shop/mail-0", pod.uid(), &volume.id[..8]];
    let unknown: Vec<_> =
        names.into_iter().filter_map(|name| node.verb(&["explain", name]).err()).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    ends(scene);
}

/// At fee4868: "8a92d44e-... loop2 whole unknown yes 1 1 ok".
#[test]
fn without_root_a_guarded_volume_is_not_called_well() {
    needs!(pods);
    let scene = scene().named(Naming::Cgroupfs).start();
    let Scene { node, volume, .. } = &scene;
    guarded(&scene);
    let (text, _) = as_another_user(node, &["status"]);
    let row = text.lines().find(|line| line.contains(&volume.id[..8])).unwrap();
    assert!(!row.split_whitespace().any(|word| word == "ok"), "{row}");
    ends(scene);
}

/// At fee4868 a hundred lines: "Not seen: what process 2 (kthreadd) holds: permission denied".
#[test]
fn without_root_holders_says_in_one_line_what_it_did_not_see() {
    needs!(pods);
    let scene = scene().start();
    let (text, _) = as_another_user(&scene.node, &["holders", &scene.volume.id]);
    assert_eq!(text.matches("Not seen").count(), 1);
    ends(scene);
}

/// At fee4868: "make the folder .../run/locks: permission denied; calls that mount need the lock folder".
#[test]
fn without_root_release_says_that_it_needs_root() {
    needs!(pods);
    let scene = scene().start();
    let (text, status) = as_another_user(&scene.node, &["release", &scene.volume.id]);
    assert_eq!(status, Some(1));
    has(&text, &[&format!("this needs root: sudo disk release {}", scene.volume.id)]);
    ends(scene);
}

/// At fee4868 its last row is "mounted for shop/orders-0", and none is the kernel's.
#[test]
fn the_history_of_a_pulled_disk_tells_why_it_went() {
    needs!(pods);
    if fs::File::open("/dev/kmsg").is_err() {
        return crate::support::skip(
            "the_history_of_a_pulled_disk_tells_why_it_went",
            "the kernel's log cannot be read here",
        );
    }
    let mut scene = scene().start();
    let letter = scene.volume.letter();
    healths::pull(&scene.volume, &mut scene.container);
    let (text, _) = said(&scene.node, &["history", &scene.volume.pv]);
    let of_disk = |line: &str| line.contains(" kernel ") && line.contains(&format!("({letter})"));
    // Not behind which row: the kernel's log has a clock of its own, some milliseconds beside the wall's.
    assert!(text.lines().any(of_disk), "{text}");
    eventually("writes go on to fail", || scene.container.report().errors > 0);
    scene.node.must(scene.volume.attach());
    ends(scene);
}
