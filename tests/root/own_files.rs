//! The disk of the driver's own files hangs, and not the volume's: that is what is said.

use crate::checks::{eventually, nothing_is_left};
use crate::hanging::{ANSWERED, DEADLINE, Running, hurry, left_in};
use crate::hanging_calls::Frozen;
use crate::heal::{goes_on, pull};
use crate::holders::{must_end, run};
use crate::scene::{Scene, scene};
use crate::support::Node;
use crate::volume::{Call, Volume};
use nix::mount::{MntFlags, umount2};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file system of its own for a folder of the driver's.
pub struct Own {
    pub folder: PathBuf,
    device: String,
}

impl Own {
    #[track_caller]
    pub fn mounted(node: &Node, name: &str) -> Self {
        Self::at(node, &node.own().join(name))
    }

    #[track_caller]
    pub fn at(node: &Node, folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        // No call is to wait for what is written there.
        fs::write(node.own().join("log-may-hang"), "").unwrap();
        let name = folder.file_name().unwrap().to_string_lossy();
        let image = node.base().join(format!("{name}.img"));
        let image = image.to_str().unwrap();
        run("truncate", &["--size=32M", image]);
        run("mkfs.ext4", &["-q", image]);
        let device = run("losetup", &["--find", "--show", image]).trim().to_owned();
        run("mount", &[&device, folder.to_str().unwrap()]);
        Self { folder: folder.to_path_buf(), device }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
        let _ = std::process::Command::new("losetup").args(["-d", &self.device]).output();
    }
}

#[test]
fn the_disk_of_the_drivers_own_files_is_named_and_not_the_volumes() {
    needs!(mounts);
    let node = Node::new();
    let own = Own::mounted(&node, "state");
    let volume = Volume::create(&node, "ext4", "64M");
    node.must(volume.attach());
    let disk = volume.letter();
    hurry(&node);
    let frozen = Frozen::at(&own.folder);
    let begin = Instant::now();
    let running = Running::start(node.command(volume.detach()));
    let answer = running.answer(ANSWERED).expect("an answer");
    assert!(begin.elapsed() < Duration::from_secs(DEADLINE + 12), "{:?}", begin.elapsed());
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    let message = answer.json["message"].as_str().unwrap().to_owned();
    let folder = own.folder.to_str().unwrap();
    assert!(message.contains(folder) && message.contains("of the driver's own"), "{message}");
    assert!(message.contains("not the volume's"), "{message}");
    assert!(!message.contains(&disk) && !message.contains("detach --force"), "{message}");
    let left = left_in(&message);
    // It ends with that disk, and all goes on.
    drop(frozen);
    must_end(left);
    node.configure("");
    node.must(volume.attach());
    node.must(volume.detach());
    drop(own);
    nothing_is_left(&node, &[&volume]);
}

/// What is answered while the driver's own files hang: the call, and not that it was given up.
#[track_caller]
fn answered(node: &Node, call: &Call) -> serde_json::Value {
    let answer = Running::start(node.command(call)).answer(ANSWERED).expect("an answer");
    assert!(!answer.text.contains("not done within"), "{}", answer.text);
    answer.json
}

/// The load that begins the incident is on the machine's own disk, where the records, the log and the
/// metrics are: the pod is protected and its disk given back all the same.
#[test]
fn where_the_machines_own_disk_hangs_the_guard_refuses_and_the_heal_heals() {
    needs!(pods);
    let node = Node::new();
    let owns = ["state", "log"].map(|name| Own::mounted(&node, name));
    let page = owns[0].folder.join("disk.prom");
    let metrics = format!("[metrics]\ntextfile = \"{}\"", page.display());
    let Scene { node, volume, pod, mut container } = scene().on(&node).configured(&metrics).start();
    hurry(&node);
    let mut frozen = owns.each_ref().map(|own| Frozen::at(&own.folder));

    // kubelet takes the volume down under the pod, and asks again.
    assert_eq!(answered(&node, &volume.unpublish(pod.uid()))["status"], "Success");
    for _ in 0..2 {
        let refused = answered(&node, &volume.unstage());
        let message = refused["message"].as_str().unwrap_or_default();
        assert_eq!(refused["status"], "Failure", "{message}");
        assert!(message.contains("orders-0") && !message.contains("driver's own"), "{message}");
    }
    container.must_write_on(5);

    pull(&volume, &mut container);
    assert_eq!(answered(&node, &volume.attach())["status"], "Success");
    goes_on(&mut container, 5);
    assert!(frozen.iter_mut().all(Frozen::is_still), "the test took too long to show anything");

    drop(frozen);
    node.configure("");
    node.must(volume.stage());
    node.must(volume.publish(pod.uid()));
    assert!(volume.record()["refusals"].as_u64() >= Some(2), "{}", volume.record());
    volume.take_away_with(&pod, container);
    drop(owns);
    nothing_is_left(&node, &[&volume]);
}

/// Calls are done although what is written beside them hangs, and only a few of them leave a process behind.
#[track_caller]
fn few_are_left_behind(node: &Node, calls: &[Call]) {
    let notes = node.own().join("run/aside.left");
    for call in calls {
        assert_eq!(answered(node, call)["status"], "Success");
        let text = fs::read_to_string(&notes).unwrap();
        assert!((1..=4).contains(&text.lines().count()), "too many were left behind: {text}");
    }
}

#[test]
fn where_the_metrics_hang_each_call_is_done() {
    needs!(mounts);
    let node = Node::new();
    let own = Own::mounted(&node, "page");
    let page = own.folder.join("disk.prom");
    node.configure(&format!("[metrics]\ntextfile = \"{}\"", page.display()));
    let volume = Volume::create(&node, "ext4", "64M");
    node.must(volume.attach());
    let mut frozen = Frozen::at(&own.folder);
    few_are_left_behind(&node, &[(); 7].map(|()| volume.wait("")));
    assert!(frozen.is_still(), "the test took too long to show anything");
    drop(frozen);
    eventually("the page goes on", || {
        node.must(volume.wait(""));
        fs::read_to_string(&page).is_ok_and(|text| text.contains("operation=\"waitforattach\""))
    });
    node.must(volume.detach());
    drop(own);
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn where_the_log_hangs_each_call_is_done() {
    needs!(mounts);
    let node = Node::new();
    let own = Own::mounted(&node, "log");
    let volume = Volume::create(&node, "ext4", "64M");
    node.must(volume.attach());
    hurry(&node);
    let mut frozen = Frozen::at(&own.folder);
    let wait = || volume.wait("");
    let calls = [volume.detach(), volume.attach(), wait(), wait(), wait(), wait(), wait()];
    few_are_left_behind(&node, &calls);
    assert!(frozen.is_still(), "the test took too long to show anything");
    let lines = node.log().lines().count();
    drop(frozen);
    node.configure("");
    // What hung has ended, and the log goes on.
    eventually("the log goes on", || {
        node.must(volume.wait(""));
        node.log().lines().count() > lines + 2
    });
    node.must(volume.detach());
    drop(own);
    nothing_is_left(&node, &[&volume]);
}
