//! A refusal names who causes it and what ends it; and what it names ends it.

use crate::checks::{eventually, layers_at, nothing_is_left};
use crate::holders::run;
use crate::scene::{Scene, scene};
use crate::support::loop_devices_below;
use crate::support::pods::{Naming, Order, Plan};
use crate::volume::{POD, Volume, make_folder};
use std::fs;
use std::path::Path;

/// The command in a message that begins with this.
#[track_caller]
fn command_in(message: &str, begin: &str) -> Vec<String> {
    let at = message.find(begin).unwrap_or_else(|| panic!("{begin}: {message}"));
    let end = |c: char| matches!(c, ')' | ';' | ',' | '[') || c == '\n';
    let text = message[at..].split(end).next().unwrap();
    let text = text.split(" and then ").next().unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn what_a_refused_unmountdevice_names_ends_it() {
    needs!(pods);
    let Scene { node, volume, pod, container } = scene().named(Naming::Cgroupfs).idle().start();
    let message = node.fails(volume.unstage());
    let (release, force) =
        (format!("disk release {}", volume.id), format!("disk detach --force {}", volume.id));
    assert!(message.contains(&format!("{release} and then {force}")), "{message}");
    node.verb(&["release", &volume.id]).unwrap();
    node.must(volume.unpublish(pod.uid()));
    let message = node.fails(volume.unstage());
    assert!(!message.contains("disk release") && message.contains(&force), "{message}");
    node.verb(&["detach", "--force", &volume.id]).unwrap();
    node.must(volume.unstage());
    container.die();
    eventually("the loop device is gone", || loop_devices_below(&node.base()).is_empty());
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn mounts_that_stand_on_the_volume_are_named_with_what_ends_them() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    let pod = volume.bring_to_pod();
    for (folder, call) in [(pod, volume.unpublish(POD)), (volume.global(), volume.unstage())] {
        let (sub, below) = (folder.join("sub"), folder.join("sub/below"));
        fs::create_dir_all(&sub).unwrap();
        run("mount", &["-t", "tmpfs", "sidecar", sub.to_str().unwrap()]);
        fs::create_dir(&below).unwrap();
        run("mount", &["--bind", "/proc", below.to_str().unwrap()]);
        for place in [below, sub] {
            let message = node.fails(&call);
            assert!(message.contains("other mounts stand on it"), "{message}");
            assert!(message.contains(&format!("disk release {}", volume.id)), "{message}");
            let words = command_in(&message, "umount /");
            assert_eq!(words, ["umount", place.to_str().unwrap()], "{message}");
            run(&words[0], &[&words[1]]);
        }
        node.must(call);
        assert_eq!(layers_at(&folder), 0);
    }
    fs::remove_dir(volume.pod(POD)).unwrap();
    volume.ends();
}

#[test]
fn who_has_the_disk_for_himself_is_named_by_a_mount_and_by_a_format() {
    needs!(pods);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    node.must(volume.attach());
    make_folder(&volume.global());
    for _ in ["blank", "formatted"] {
        let mut other = Plan::outside().in_our_namespace().start();
        other.must(&Order::OpenAlone { path: Path::new("/dev").join(volume.letter()) });
        let message = node.fails(volume.stage());
        let words = command_in(&message, "kill ");
        assert_eq!(words, ["kill", &other.pid().to_string()], "{message}");
        other.die();
        node.must(volume.stage());
        node.must(volume.unstage());
    }
    volume.ends();
}

/// Who lives in a container names places as he likes, and has as many as he likes.
#[test]
fn a_tenants_many_long_names_neither_hide_the_way_out_nor_lose_the_record() {
    const MANY: usize = 400;
    needs!(pods);
    let Scene { node, volume, pod, mut container } = scene().named(Naming::Cgroupfs).idle().start();
    let below = ["x"; 15].map(|name| name.repeat(240)).join("/");
    fs::create_dir_all(volume.pod(pod.uid()).join(&below)).unwrap();
    let place = Path::new("/data").join(&below);
    for _ in 0..MANY {
        container.must(&Order::Bind { from: "/data".into(), to: place.clone() });
    }
    // It takes nothing from the container; the disk does not go.
    node.must(volume.unpublish(pod.uid()));
    // A reader of another test's driver may be in the container for a moment, and only the first process is named.
    let own = format!("{} (", container.pid());
    eventually("the container is named", || node.fails(volume.unstage()).contains(&own));
    let message = node.fails(volume.unstage());
    assert!(message.contains(&format!("disk release {}", volume.id)), "{message}");
    let bytes = fs::metadata(volume.boot_record_path()).unwrap().len();
    assert!(bytes < 32 << 10, "{bytes}");
    assert_eq!(volume.record()["staged"]["folder"], volume.global().to_str().unwrap());
    container.die();
    eventually("its mounts are gone", || {
        node.call(volume.unpublish(pod.uid())).json["status"] == "Success"
    });
    fs::remove_dir(volume.pod(pod.uid())).unwrap();
    eventually("the disk is let go", || node.call(volume.unstage()).json["status"] == "Success");
    volume.ends();
}
