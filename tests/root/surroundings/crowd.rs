//! The incident on a machine with very many mounts, processes and disks: refused, healed, nothing left.

use super::either;
use crate::checks::{eventually, nothing_is_left, table};
use crate::heal::{goes_on, pull};
use crate::holders::run;
use crate::scene::{Scene, scene};
use crate::support::{Node, detach_loops_below, start};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The crowd is there before the pod.
fn incident(node: &Node) {
    let Scene { node, volume, pod, mut container } = scene().on(node).start();
    node.must(volume.unpublish(pod.uid()));
    let message = node.fails(volume.unstage());
    assert!(message.contains("orders-0"), "{message}");
    let mounts = table().mounts().len();
    pull(&volume, &mut container);
    node.must(volume.attach());
    goes_on(&mut container, 5);
    assert_eq!(table().mounts().len(), mounts);
    node.must(volume.stage());
    node.must(volume.publish(pod.uid()));
    volume.take_away_with(&pod, container);
    volume.must_be_sound();
}

#[test]
fn the_incident_beside_many_mounts() {
    needs!(pods);
    let node = Node::new();
    let many = either(1_000, 10_000);
    let crowd = node.base().join("crowd");
    fs::create_dir(&crowd).unwrap();
    let nothing = None::<&str>;
    mount(Some("tmpfs"), &crowd, Some("tmpfs"), MsFlags::empty(), nothing).unwrap();
    for number in 0..many {
        let place = crowd.join(format!("pods-of-others-{number}"));
        fs::create_dir(&place).unwrap();
        mount(Some(&crowd), &place, nothing, MsFlags::MS_BIND, nothing).unwrap();
    }
    assert!(table().mounts().len() > many);
    incident(&node);
    umount2(&crowd, MntFlags::MNT_DETACH).unwrap();
    nothing_is_left(&node, &[]);
}

#[test]
fn the_incident_beside_many_processes() {
    needs!(pods);
    let node = Node::new();
    let many = either(500, 5_000);
    let script = format!("for n in $(seq {many}); do sleep 900 & done; echo; wait");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    let mut crowd = start(&mut command);
    let group = Pid::from_raw(i32::try_from(crowd.id()).unwrap());
    let children = format!("/proc/{group}/task/{group}/children");
    let count = || fs::read_to_string(&children).unwrap_or_default().split(' ').count();
    eventually("they are there", || count() > many);
    incident(&node);
    let there = count();
    killpg(group, Signal::SIGKILL).unwrap();
    crowd.wait().unwrap();
    assert!(there > many, "only {there} were there to the end");
    nothing_is_left(&node, &[]);
}

#[test]
fn the_incident_beside_many_disks() {
    needs!(pods);
    let node = Node::new();
    let crowd = node.base().join("crowd");
    fs::create_dir(&crowd).unwrap();
    for number in 0..either(16, 512) {
        let image = crowd.join(format!("{number}.img"));
        File::create(&image).unwrap().set_len(1 << 20).unwrap();
        run("losetup", &["--find", image.to_str().unwrap()]);
    }
    incident(&node);
    detach_loops_below(&crowd);
    nothing_is_left(&node, &[]);
}
