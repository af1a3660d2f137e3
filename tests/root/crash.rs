//! Calls that are killed, or panic, at every step that they name: the same call then goes on.

use crate::checks::{eventually, layers_at, mounts_like, nothing_is_left};
use crate::files;
use crate::support::{Answer, Node, spawn};
use crate::volume::{Call, POD, Volume, make_folder};
use std::ffi::OsStr;
use std::fs;
use std::io::{PipeReader, Read};
use std::os::unix::process::ExitStatusExt;
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
            // kubelet and people know the disk by it.
            "attach" => assert!(fs::canonicalize(volume.link()).is_ok(), "no link after {step}"),
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

fn strike_everywhere(strike: Strike, lives: usize) {
    for (index, step) in STEPS.iter().enumerate() {
        let (_, volume) = Volume::on_a_node("ext4", "16M");
        // After the first life it has data.
        let lives = if index < STEPS.len() - ONLY_BLANK { lives } else { 1 };
        for _ in 0..lives {
            live(&volume, *step, strike);
        }
    }
}

#[test]
fn calls_that_were_killed_are_finished_by_the_same_call() {
    needs!(mounts, seams);
    strike_everywhere(kill_at, 2);
}

#[test]
fn calls_that_panic_answer_failure_and_are_finished_by_the_same_call() {
    needs!(mounts, seams);
    strike_everywhere(panic_at, 1);
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
