//! `guard.give_up_after`: what counts is one unbroken series of refusals, by a clock that no one can
//! set. Calls come at later moments by a time namespace, which moves the time since the start.

use crate::checks::layers_at;
use crate::scene::{Scene, scene};
use crate::support::pods::{Naming, Pod};
use crate::support::{Answer, DISK, Node};
use crate::volume::{Call, Volume, make_folder};
use std::fs;
use std::process::{Command, Stdio};

/// Longer than any two calls of a test take.
const MINUTE: &str = "[guard]\ngive_up_after = 60";

/// Ten of them.
const YEARS: i64 = 10 * 365 * 86_400;

/// More than any gap within a series.
const GAP: u64 = 700;

/// A call that comes so many seconds later, unless the wall clock is asked.
fn later(node: &Node, seconds: u64, call: &Call, wish: (&str, &str)) -> Answer {
    let mut command = Command::new("unshare");
    command.args(["--time", "--fork", "--boottime", &seconds.to_string(), "--", DISK]);
    command.args(call).env("INCLOUD_DISK_CONFIG", node.config_path()).env(wish.0, wish.1);
    command.stdin(Stdio::null());
    Answer::of(command)
}

#[track_caller]
fn is_refused(node: &Node, seconds: u64, call: &Call) -> String {
    let answer = later(node, seconds, call, ("NO", "WISH"));
    assert_eq!(answer.json["status"], "Failure", "after {seconds} s: {}", answer.text);
    let message = answer.json["message"].as_str().unwrap().to_owned();
    assert!(message.contains("it is refused until that ends"), "{message}");
    message
}

#[track_caller]
fn is_consented(node: &Node, seconds: u64, call: &Call) {
    let answer = later(node, seconds, call, ("NO", "WISH"));
    assert_eq!(answer.json["status"], "Success", "after {seconds} s: {}", answer.text);
}

/// The wall clock is set, after what is remembered was written: seen from now, that was `by` seconds
/// earlier or later.
fn set_the_wall_clock(volume: &Volume, by: i64) {
    let path = volume.boot_record_path();
    let mut record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for refusal in record["refused"].as_object_mut().unwrap().values_mut() {
        for key in ["since", "last"] {
            let then = refusal[key].as_i64().unwrap();
            refusal[key] = (then - by).into();
        }
    }
    fs::write(&path, record.to_string()).unwrap();
}

/// So that only the container keeps the volume.
fn unmount_by_hand(folder: &std::path::Path) {
    nix::mount::umount2(folder, nix::mount::MntFlags::empty()).unwrap();
}

#[test]
fn a_second_incident_is_refused_from_its_beginning() {
    needs!(boot_clock);
    let Scene { node, volume, pod, container } = scene().configured(MINUTE).start();
    unmount_by_hand(&volume.pod(pod.uid()));
    let unmount = volume.unstage();
    is_refused(&node, 0, &unmount);
    set_the_wall_clock(&volume, 1000);
    // kubelet came to its senses, and errs again later.
    is_refused(&node, GAP, &unmount);
    assert_eq!(layers_at(&volume.global()), 1);
    assert!(!node.log().contains("given up"), "{}", node.log());
    is_refused(&node, GAP, &unmount);
    is_consented(&node, GAP + 70, &unmount);
    assert!(node.log().contains("given up"), "{}", node.log());
    // What is done is over: it begins anew, whatever mounts it again.
    assert!(volume.record()["refused"].is_null(), "{}", volume.record());
    container.die();
    volume.ends();
}

#[test]
fn a_consent_holds_until_the_tear_down_is_done() {
    needs!(boot_clock, seams);
    let Scene { node, volume, pod, container } = scene().configured(MINUTE).start();
    unmount_by_hand(&volume.pod(pod.uid()));
    let unmount = volume.unstage();
    is_refused(&node, 0, &unmount);
    let answer = later(&node, 100, &unmount, ("INCLOUD_DISK_SEAM", "mounts.unmount=fail"));
    assert!(answer.text.contains("was made to fail"), "{}", answer.text);
    is_consented(&node, 200, &unmount);
    assert_eq!(node.log().matches("given up").count(), 3, "each consent is told: {}", node.log());
    container.die();
    volume.ends();
}

#[test]
fn a_wall_clock_that_is_set_hastens_and_delays_nothing() {
    needs!(boot_clock);
    let Scene { node, volume, pod, container } =
        scene().configured("[guard]\ngive_up_after = 500").named(Naming::Cgroupfs).start();
    unmount_by_hand(&volume.pod(pod.uid()));
    let unmount = volume.unstage();
    is_refused(&node, 0, &unmount);
    set_the_wall_clock(&volume, YEARS);
    is_refused(&node, 1, &unmount);
    is_refused(&node, 300, &unmount);
    set_the_wall_clock(&volume, -2 * YEARS);
    is_refused(&node, 400, &unmount);
    is_consented(&node, 510, &unmount);
    container.die();
    volume.ends();
}

#[test]
fn a_pod_that_came_later_has_the_whole_time() {
    needs!(boot_clock);
    let Scene { node, volume, pod: first, container } = scene().configured(MINUTE).start();
    let second = Pod::new(Naming::Cgroupfs);
    is_refused(&node, 0, &volume.unstage());
    set_the_wall_clock(&volume, 1000);
    // Not by kubelet, which would tell of it: a runtime starts it with what it has.
    let later_one = second.container_with(&volume.pod(first.uid()));
    container.die();
    let message = is_refused(&node, 70, &volume.unstage());
    assert!(message.contains(second.uid()), "{message}");
    is_refused(&node, 70, &volume.unstage());
    assert_eq!(layers_at(&volume.global()), 1);
    volume.ends_with(&first, later_one);
}

#[test]
fn what_was_wanted_again_meanwhile_has_the_whole_time() {
    needs!(boot_clock);
    let Scene { node, volume, pod, container } = scene().configured(MINUTE).start();
    let other = Pod::new(Naming::Systemd);
    let detach = volume.detach();
    is_refused(&node, 0, &detach);
    is_refused(&node, 0, &detach);
    set_the_wall_clock(&volume, 1000);
    // Another pod gets it: a call that mounts a volume does not want it detached.
    make_folder(&volume.pod(other.uid()));
    node.must(volume.publish(other.uid()));
    is_refused(&node, 70, &detach);
    assert!(node.letter(&volume.id).is_some(), "it is attached still");
    node.must(volume.unpublish(other.uid()));
    volume.ends_with(&pod, container);
}
