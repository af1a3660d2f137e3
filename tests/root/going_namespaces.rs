//! Mount namespaces that go in the middle of a call, and others that get their numbers.

use crate::checks::{eventually, nothing_is_left, number_of};
use crate::crash::interrupted_at;
use crate::heal::goes_on;
use crate::scene::{Scene, scene};
use crate::support::disks::table_of;
use crate::support::pods::{Container, Order, Plan};
use crate::support::{Answer, Node, spawn};
use crate::volume::{Call, Volume};
use incloud_disk::model::mount::mountinfo::Mount;
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The call with something done between the guard's look and what it does.
#[track_caller]
fn interrupted(node: &Node, call: &Call, act: impl FnOnce()) -> Answer {
    interrupted_at(node, call, "guard.looked", act)
}

/// Who has the volume in namespaces of their own, and what they do in the middle of the call: those who
/// live on are answered.
type Begin = fn(&Volume) -> Vec<Container>;
type End = fn(&Volume, Vec<Container>) -> Vec<Container>;

/// A process that keeps the namespace of another one, which has ended.
pub fn keeper_of(container: Container) -> Container {
    let mut keeper = Plan::outside().in_our_namespace().start();
    let door = PathBuf::from(format!("/proc/{}/ns/mnt", container.pid()));
    keeper.must(&Order::Open { path: door });
    container.die();
    keeper
}

#[test]
fn a_namespace_that_ends_while_it_is_entered_is_no_refusal() {
    needs!(pods, seams);
    let view: Begin = |_| vec![Plan::outside().copying_all_mounts().start()];
    // The volume at a place of its own, and no process lives there.
    let abandoned: Begin =
        |volume| vec![keeper_of(Plan::outside().seeing(&volume.global(), "/data").start())];
    let both: Begin = |volume| {
        let service = Plan::outside().copying_all_mounts().start();
        let container = Plan::outside().seeing(&volume.global(), "/data").start();
        vec![keeper_of(container), service]
    };
    let dies: End = |_, _| Vec::new();
    // What remains is taken down all the same.
    let one_dies: End = |_, all| all.into_iter().skip(1).collect();
    let lets_go: End = |_, mut all| {
        all[0].must(&Order::LetGo);
        all
    };
    let unmounts: End = |volume, mut all| {
        all[0].must(&Order::Unmount { place: volume.global() });
        all
    };
    let cases = [
        ("a view", view, dies),
        ("a view that its owner unmounts", view, unmounts),
        ("an abandoned one", abandoned, dies),
        ("an abandoned one that is let go of", abandoned, lets_go),
        ("one of two", both, one_dies),
    ];
    for (what, begin, end) in cases {
        let (node, volume) = Volume::on_a_node("ext4", "64M");
        volume.bring();
        let all = begin(&volume);
        let mut rest = Vec::new();
        let answer = interrupted(&node, &volume.unstage(), || rest = end(&volume, all));
        assert_eq!(answer.json["status"], "Success", "{what}: {}", answer.text);
        assert!(volume.record()["refused"].is_null(), "{what}: {}", volume.record());
        assert!(!node.log().contains("Failure"), "{what}: {}", node.log());
        fs::remove_dir(volume.global()).unwrap();
        node.must(volume.detach());
        drop(rest);
        nothing_is_left(&node, &[&volume]);
    }
}

/// What comes to have the volume meanwhile is not taken down by an old look.
#[test]
fn a_namespace_that_changes_while_it_is_entered_is_judged_anew() {
    needs!(pods, seams);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    let keeper = keeper_of(Plan::outside().seeing(&volume.global(), "/data").start());
    let mut late = None;
    let answer = interrupted(&node, &volume.unstage(), || {
        late = Some(Plan::outside().seeing(&volume.global(), "/data").start());
        keeper.die();
    });
    let late = late.unwrap();
    let message = answer.json["message"].as_str().unwrap_or_default();
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert!(message.contains(&format!("{} (", late.pid())), "{message}");
    assert!(late.sees("/data/lost+found").exists(), "it keeps what it was given");
    late.die();
    volume.ends();
}

fn in_container(container: &Container) -> Mount {
    table_of(container.pid()).top_at(Path::new("/data")).unwrap().clone()
}

/// A killed heal noted the namespace of a container by its number, which the kernel gives away again.
#[test]
fn a_later_namespace_of_the_same_number_is_left_alone() {
    needs!(pods, seams);
    let Scene { node, volume, pod, container } = scene().idle().start();
    let door = File::open(format!("/proc/{}/ns/mnt", container.pid())).unwrap();
    let count = incloud_disk::host::kernel::id_of_mount_namespace(&door).ok();
    let namespace = door.metadata().unwrap().ino();
    drop(door);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let before = in_container(&container).propagation;
    assert!(!before.contains("shared:"), "{before}");
    let began: u64 = {
        let stat = fs::read_to_string(format!("/proc/{}/stat", container.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap()
    };
    let mut signs = vec![
        // Another one of that number; a process that lives elsewhere, or was another one.
        (json!({"count": 7}), false),
        (json!({"dweller": [std::process::id(), 1]}), false),
        (json!({"dweller": [container.pid(), began + 1]}), false),
        (json!({"dweller": [container.pid(), began]}), true),
        // As an older version wrote it.
        (json!({}), true),
    ];
    signs.extend(count.map(|count| (json!({ "count": count }), true)));
    for (sign, is_meant) in signs {
        let is_shared = || in_container(&container).propagation.contains("shared:");
        let was = is_shared();
        let mut noted = json!({
            "boot": boot.trim(),
            "namespace": namespace,
            "mounts": [{
                "number": number_of(&volume.letter()).to_string(),
                "target": "/data",
                "propagation": if was { "" } else { "shared:9" },
            }],
        });
        noted.as_object_mut().unwrap().extend(sign.as_object().unwrap().clone());
        let path = volume.boot_record_path();
        let mut record: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        record["switching"] = json!([noted]);
        fs::write(&path, record.to_string()).unwrap();
        node.fails(volume.unstage());
        assert_eq!(is_shared() != was, is_meant, "{sign}");
        assert!(volume.record()["switching"].is_null(), "{sign}: it is looked after");
    }
    volume.ends_with(&pod, container);
}

/// A process that goes to another namespace while the heal is on its way to it is not left on the dead disk, nor
/// told as left: the heal visits what its look finds until no look finds one that it did not try.
#[test]
fn a_namespace_that_comes_in_the_middle_of_a_heal_is_visited() {
    needs!(pods, seams);
    let Scene { node, volume, pod, mut container } = scene().idle().start();
    let dead = in_container(&container).number;
    node.verb(&["local", "yank", &volume.id]).unwrap();
    let answer = interrupted_at(&node, volume.attach(), "heal.own", || {
        container.must(&Order::CopyMounts { slave: false });
    });
    assert_eq!(answer.json["status"], "Success", "{}", answer.text);
    assert_ne!(in_container(&container).number, dead, "{}", node.log());
    assert!(!node.log().contains("still on the dead disk"), "{}", node.log());
    container.write("/data/log", Duration::from_millis(2));
    goes_on(&mut container, 3);
    volume.ends_with(&pod, container);
}

/// What goes after it could not be healed, and before that is told, is not told: a process that was killed
/// a moment ago is seen for as long as the kernel takes it down.
#[test]
fn a_namespace_that_goes_before_it_is_told_as_left_is_not_told() {
    needs!(pods, seams);
    let Scene { node, volume, pod, container } = scene().idle().start();
    node.verb(&["local", "yank", &volume.id]).unwrap();
    // No way leads into a container then.
    let mut heal = node.command(volume.attach());
    heal.env("INCLOUD_DISK_SWITCH", "stack");
    let held = node.own().join("held");
    heal.env("INCLOUD_DISK_SEAM", format!("heal.left=hold:{}", held.display()));
    let (mut child, output) = spawn(heal);
    eventually("the heal has something left", || {
        held.exists() || child.try_wait().unwrap().is_some()
    });
    assert!(held.exists(), "it ended: {}", Answer::finish(child, output).text);
    container.die();
    fs::remove_file(&held).unwrap();
    let answer = Answer::finish(child, output);
    assert_eq!(answer.json["status"], "Success", "{}", answer.text);
    assert!(!node.log().contains("still on the dead disk"), "{}", node.log());
    assert!(node.log().contains("no way to replace this mount"), "{}", node.log());
    node.must(volume.unpublish(pod.uid()));
    volume.take_away();
    nothing_is_left(&node, &[&volume]);
}
