//! Whatever fails in a call of the mount side: it says so, leaves nothing behind, and the same call
//! then succeeds with all data whole.

use crate::checks::{layers_at, nothing_is_left};
use crate::crash::collect_names;
use crate::files;
use crate::support::{Answer, Node};
use crate::volume::{Call, POD, Volume, make_folder};
use std::path::Path;

/// No call does one thing more often: the places of a blank disk count as a few.
const MOST: usize = 300;

/// What fails in the life of this file system: not all of it happens in every one.
const NEVER_IN_A_CLEAN_LIFE: [&str; 12] = [
    "mounts.exchange_folder",
    "filesystems.wipe",
    "mounts.put_back",
    "mounts.unmount_inside",
    "mounts.flush_inside",
    "mounts.seclude",
    "filesystems.check",
    "filesystems.grow",
    "filesystems.grow_unmounted",
    "mounts.make_read_only",
    "mounts.mount2",
    "mounts.unmount_dead",
];

#[test]
fn after_each_failure_with_ext4_the_same_call_succeeds() {
    needs!(mounts, seams);
    after_each_failure("ext4", "16M", |_| true);
}

#[test]
fn after_each_failure_with_xfs_the_same_call_succeeds() {
    needs!(mounts, seams);
    after_each_failure("xfs", "320M", |name| !is_of_file_systems(name));
}

/// The longest of them, so that it runs beside the others.
#[test]
fn after_each_failure_at_the_file_system_of_xfs_the_same_call_succeeds() {
    needs!(mounts, seams);
    after_each_failure("xfs", "320M", is_of_file_systems);
}

fn is_of_file_systems(effect: &str) -> bool {
    effect.starts_with("filesystems.")
}

fn after_each_failure(kind: &'static str, size: &str, is_asked: impl Fn(&str) -> bool) {
    let names = collect_names("failpoints::effect(\"");
    assert!(names.len() > 10, "{names:?}");
    for name in names.iter().filter(|name| is_asked(name)) {
        // A failure that a call can bear ends its row: the next ones are tried in other lives.
        let lives = if name == "records.update" { 4 } else { 1 };
        let struck: usize = (1..=lives).map(|first| live(kind, size, name, first)).sum();
        let is_of_a_heal = name.starts_with("heal.");
        let expected = !is_of_a_heal && !NEVER_IN_A_CLEAN_LIFE.contains(&name.as_str());
        assert_eq!(struck > 0, expected, "{name} failed {struck} times in a life of {kind}");
    }
}

/// Two lives of a volume, the first with a format, in which the effect fails at its first time (or
/// a later one), the next, and so on, in each call; says how many calls failed.
fn live(kind: &'static str, size: &str, effect: &str, first: usize) -> usize {
    let (node, volume) = Volume::on_a_node(kind, size);
    make_folder(&volume.global());
    make_folder(&volume.pod(POD));
    let file = volume.pod(POD).join("f");
    let mut struck = 0;
    for round in 0..2 {
        node.must(volume.attach());
        for call in [volume.stage(), volume.publish_as(POD, if round == 0 { "rw" } else { "ro" })] {
            struck += strike(&node, &volume, &call, effect, first);
        }
        if round == 0 {
            files::write_synced(&file, b"kept");
        }
        assert_eq!(files::read(&file).unwrap(), b"kept", "{effect}");
        for call in [volume.unpublish(POD), volume.unstage()] {
            struck += strike(&node, &volume, &call, effect, first);
        }
        node.must(volume.detach());
    }
    volume.must_be_sound();
    nothing_is_left(&node, &[&volume]);
    struck
}

/// Fails the effect at one time after the other, until the call succeeds. Of what a call does very often,
/// as the reads of a blank disk, a sixteenth more each time.
fn strike(node: &Node, volume: &Volume, call: &Call, effect: &str, first: usize) -> usize {
    let times = std::iter::successors(Some(first), |time| Some(time + 1 + time / 16));
    for (struck, time) in times.take_while(|time| *time <= MOST).enumerate() {
        let mut command = node.command(call);
        command.env("INCLOUD_DISK_SEAM", format!("{effect}=fail:{time}"));
        let answer = Answer::of(command);
        if answer.json["status"] == "Success" {
            node.must(call);
            verify(volume, call, effect);
            return struck;
        }
        assert!(answer.text.contains("was made to fail"), "{call:?} {effect}: {}", answer.text);
        // kubelet takes a folder that is a mount point for a success of before.
        let (folder, wanted) = (Path::new(&call[1]), usize::from(call[0].starts_with("unmount")));
        let layers = layers_at(folder);
        assert!(
            layers <= wanted || effect == "mounts.unmount",
            "{call:?} failed in {effect} and left {layers} layers"
        );
    }
    panic!("{call:?} still fails after {MOST} failures of {effect}");
}

fn verify(volume: &Volume, call: &Call, effect: &str) {
    let (folder, layers) = match call[0].as_str() {
        "mountdevice" => (volume.global(), 1),
        "mount" => (volume.pod(POD), 1),
        "unmount" => (volume.pod(POD), 0),
        _ => (volume.global(), 0),
    };
    assert_eq!(layers_at(&folder), layers, "{call:?} {effect}");
}
