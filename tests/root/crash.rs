//! Calls that are killed, or panic, at every step that they name: the same call then goes on.

use crate::checks::{eventually, layers_at, mounts_like, nothing_is_left};
use crate::files;
use crate::support::{Answer, Node, spawn};
use crate::volume::{Call, POD, Volume, make_folder};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{PipeReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;

/// Every step of a life, by call; the last ones only with a blank disk.
const STEPS: &[(&str, &str)] = &[
    ("attach", "call"),
    ("attach", "begin"),
    ("attach", "attach.named"),
    ("attach", "local.attach.recorded"),
    ("attach", "local.attach.plugged"),
    ("attach", "attach.requested"),
    ("isattached", "begin"),
    ("waitforattach", "begin"),
    ("mountdevice", "begin"),
    ("mountdevice", "stage.found"),
    ("mountdevice", "stage.held"),
    ("mountdevice", "stage.looked"),
    ("mountdevice", "nodes.made"),
    ("mountdevice", "stage.mounted"),
    ("mountdevice", "stage.remembered"),
    ("mount", "begin"),
    ("mount", "publish.bound"),
    ("unmount", "begin"),
    ("unmount", "unmount.guarded"),
    ("unmount", "unmount.one"),
    ("unmountdevice", "begin"),
    ("unmountdevice", "unmount.one"),
    ("unmountdevice", "unmount.own"),
    ("detach", "begin"),
    ("detach", "local.detach.unplugged"),
    ("detach", "detach.requested"),
    ("mountdevice", "stage.format.consented"),
    ("mountdevice", "stage.format.intent"),
    ("mountdevice", "stage.format.made"),
    ("mountdevice", "stage.format.done"),
];
const ONLY_BLANK: usize = 4;

/// Steps that no ordinary life comes to: `expand`, `pull` and `letting_go` have their tests.
const ELSEWHERE: [&str; 34] = [
    // In a thread that may ask the kernel for nothing: `attacks` makes it panic.
    "filesystems.judge",
    // Only of a verb in a container, which enters its node.
    "hold-kubelet",
    // Only of a file system that asks for a check.
    "filesystems.check.begun",
    "heal.attached",
    "heal.checked",
    "heal.detached",
    "heal.intended",
    "heal.drawn",
    "heal.left",
    "heal.tuck.sent",
    "heal.tuck.shared",
    "heal.mounted",
    "heal.own",
    "heal.namespace",
    "format.intent",
    "format.wiped",
    "expand.requested",
    "expand.sized",
    "local.pull.shut-down",
    "local.pull.let-go",
    "local.pull.copied",
    // Only against a cloud with servers, and on kernels without the newer mount calls.
    "takeover.requested",
    "mounts.bound",
    // Only where kubelet has forgotten a volume.
    "forgotten.unmounted",
    // Only where copies in other namespaces stay.
    "mounts.renewing",
    // Only where another call works on the volume.
    "locks.waits",
    "guard.looked",
    // Only with a cloud that keeps marks.
    "mark.asked",
    "mark.left",
    // In virtual machines alone, for it takes device mapper.
    "map.created",
    "map.loaded",
    "map.held",
    "map.suspended",
    // After the answer, for verbs too.
    "worker.said",
];

#[test]
fn no_step_of_the_driver_is_left_out() {
    let named = collect_names("failpoints::step(\"");
    let struck = STEPS.iter().map(|(_, step)| *step).chain(ELSEWHERE).map(str::to_owned);
    assert_eq!(named, struck.collect());
}

/// Every name that the driver's sources give behind this opening.
pub fn collect_names(opening: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    collect_below(&sources, opening, &mut named);
    named
}

fn collect_below(folder: &Path, opening: &str, into: &mut BTreeSet<String>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect_below(&path, opening, into);
            continue;
        }
        let text = files::read_to_string(path).unwrap();
        let names = text.split(opening).skip(1).filter_map(|rest| rest.split('"').next());
        into.extend(names.map(str::to_owned));
    }
}

/// Calls, and the process ends at the step as if by `kill -9`.
#[track_caller]
pub fn kill_at(node: &Node, call: &Call, step: &str) {
    let mut command = node.command(call);
    command.env("INCLOUD_DISK_SEAM", format!("{step}=kill"));
    let (mut child, mut output) = spawn(command);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "{call:?} did not come to {step}: {text}");
    assert_eq!(text, "", "a killed call cannot answer");
}

/// Calls, and does something while the call stands at the step; its answer.
#[track_caller]
pub fn interrupted_at<A: AsRef<OsStr>>(
    node: &Node,
    call: impl IntoIterator<Item = A>,
    step: &str,
    act: impl FnOnce(),
) -> Answer {
    let (child, output) = held_at(node, call, step, act);
    Answer::finish(child, output)
}

/// The same, and the call has yet to answer.
#[track_caller]
pub fn held_at<A: AsRef<OsStr>>(
    node: &Node,
    call: impl IntoIterator<Item = A>,
    step: &str,
    act: impl FnOnce(),
) -> (Child, PipeReader) {
    let held = node.own().join("held");
    let mut command = node.command(call);
    command.env("INCLOUD_DISK_SEAM", format!("{step}=hold:{}", held.display()));
    let (mut child, output) = spawn(command);
    eventually(&format!("the call is at {step}"), || {
        held.exists() || child.try_wait().unwrap().is_some()
    });
    assert!(held.exists(), "it ended before {step}: {}", Answer::finish(child, output).text);
    act();
    fs::remove_file(&held).unwrap();
    (child, output)
}

/// Calls, and the driver panics at the step.
#[track_caller]
pub fn panic_at(node: &Node, call: &Call, step: &str) {
    let mut command = node.command(call);
    command.env("INCLOUD_DISK_SEAM", format!("{step}=panic"));
    let answer = Answer::of(command);
    assert_eq!(answer.json["status"], "Failure", "{call:?} did not come to {step}");
    let message = answer.json["message"].as_str().unwrap();
    assert!(message.contains("failed inside"), "{message}");
    assert!(!message.contains("seam"), "what panicked is not for kubelet: {message}");
}

pub type Strike = fn(&Node, &Call, &str);

/// One life, with one call struck at one step and then repeated.
#[track_caller]
fn live(volume: &Volume, (word, step): (&str, &str), strike: Strike) {
    let node = &volume.node;
    let file = volume.pod(POD).join("f");
    let is_first = !volume.record_path().exists() && !volume.node.own().join("lived").exists();
    for call in volume.life() {
        if call[0] == word {
            strike(node, &call, step);
        }
        node.must(&call);
        match call[0].as_str() {
            "mountdevice" => assert_eq!(layers_at(&volume.global()), 1),
            "mount" => {
                assert_eq!(layers_at(&volume.pod(POD)), 1);
                assert_eq!(mounts_like(&volume.global()), 2);
                if is_first {
                    files::write_synced(&file, b"kept");
                }
                assert_eq!(files::read(&file).unwrap(), b"kept");
            }
            _ => {}
        }
    }
    files::write(node.own().join("lived"), "").unwrap();
    volume.must_be_sound();
    nothing_is_left(node, &[volume]);
}

fn strike_everywhere(strike: Strike, fs_type: &'static str, size: &str, words: &[&str]) {
    let steps = STEPS.iter().enumerate().filter(|(_, (word, _))| words.contains(word));
    for (index, step) in steps {
        let (_, volume) = Volume::on_a_node(fs_type, size);
        live(&volume, *step, strike);
        // And once more, now with data.
        if index < STEPS.len() - ONLY_BLANK {
            live(&volume, *step, strike);
        }
    }
}

const CLOUD_CALLS: [&str; 4] = ["attach", "isattached", "waitforattach", "detach"];
const MOUNT_CALLS: [&str; 4] = ["mountdevice", "mount", "unmount", "unmountdevice"];

#[test]
fn cloud_calls_that_were_killed_are_finished_by_the_same_call() {
    needs!(mounts, seams);
    strike_everywhere(kill_at, "ext4", "16M", &CLOUD_CALLS);
}

#[test]
fn mount_calls_that_were_killed_are_finished_by_the_same_call() {
    needs!(mounts, seams);
    strike_everywhere(kill_at, "ext4", "16M", &MOUNT_CALLS);
}

#[test]
fn xfs_mounts_that_were_killed_are_finished_by_the_same_call() {
    needs!(mounts, seams);
    strike_everywhere(kill_at, "xfs", "320M", &["mountdevice"]);
}

#[test]
fn calls_that_panic_answer_failure_and_are_finished_by_the_same_call() {
    needs!(mounts, seams);
    strike_everywhere(panic_at, "ext4", "16M", &CLOUD_CALLS);
    strike_everywhere(panic_at, "ext4", "16M", &MOUNT_CALLS);
}

/// attach killed between the loop device and its link: kubelet and people know the disk by that.
#[test]
fn the_link_is_there_after_an_attach_that_was_killed() {
    needs!(mounts, seams);
    for (_, step) in STEPS.iter().filter(|(word, _)| *word == "attach") {
        let (node, volume) = Volume::on_a_node("ext4", "16M");
        kill_at(&node, &volume.attach(), step);
        let device = node.must(volume.attach())["device"].as_str().unwrap().to_owned();
        assert!(fs::canonicalize(&device).is_ok(), "{device} is missing, killed at {step}");
        assert_eq!(node.must(volume.wait(&device))["device"], device, "killed at {step}");
        node.must(volume.detach());
        nothing_is_left(&node, &[&volume]);
    }
}

/// A `mount` killed before its bind is read-only must not leave the pod more than it asked for.
#[test]
fn a_read_only_mount_that_was_killed_becomes_read_only() {
    needs!(mounts, seams);
    for strike in [kill_at as Strike, panic_at] {
        let (node, volume) = Volume::on_a_node("ext4", "16M");
        volume.bring();
        make_folder(&volume.pod(POD));
        let call = volume.publish_as(POD, "ro");
        strike(&node, &call, "publish.bound");
        node.must(&call);
        assert!(crate::checks::only_mount_at(&volume.pod(POD)).is_read_only());
        volume.ends();
    }
}
