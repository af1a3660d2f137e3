//! Every row of the table that tells a dead mount from one that only looks dead, by a real set-up
//! where this machine can make one, by a made-up sysfs where it cannot. Where nothing is proven
//! nothing is touched.

use crate::checks::{nothing_is_left, table};
use crate::files;
use crate::support::pods::{Container, Naming, Pod, pods_are_possible};
use crate::support::{Node, private_mounts};
use crate::volume::{Volume, make_folder};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

struct Scene<'n> {
    volume: Volume<'n>,
    pod: Pod,
    container: Container,
}

impl<'n> Scene<'n> {
    fn new(node: &'n Node) -> Self {
        let pod = Pod::new(Naming::Systemd);
        let volume = Volume::create(node, "ext4", "64M");
        volume.bring();
        make_folder(&volume.pod(pod.uid()));
        node.must(volume.publish(pod.uid()));
        let container = pod.container_with(&volume.pod(pod.uid()));
        Self { volume, pod, container }
    }

    fn inside(&self) -> String {
        fs::read_to_string(format!("/proc/{}/mountinfo", self.container.pid())).unwrap()
    }

    /// Every mount, here and in the container.
    fn mounts(&self) -> (String, String) {
        (format!("{:?}", table().mounts()), self.inside())
    }

    fn end(self, node: &Node) {
        self.container.die();
        node.must(self.volume.unpublish(self.pod.uid()));
        node.must(self.volume.unstage());
        node.must(self.volume.detach());
        nothing_is_left(node, &[&self.volume]);
    }
}

fn is_possible(test: &str) -> bool {
    private_mounts(test) && pods_are_possible(test)
}

#[test]
fn a_mount_on_the_volumes_own_disk_is_healthy() {
    if !is_possible("a_mount_on_the_volumes_own_disk_is_healthy") {
        return;
    }
    let node = Node::new();
    let scene = Scene::new(&node);
    let before = scene.mounts();
    let told = node.verb(&["heal", &scene.volume.id]).unwrap();
    assert!(told.contains("no mount of it stands on a dead disk"), "{told}");
    assert_eq!(scene.mounts(), before);
    scene.end(&node);
}

#[test]
fn a_dead_mount_waits_for_its_disk() {
    if !is_possible("a_dead_mount_waits_for_its_disk") {
        return;
    }
    let node = Node::new();
    let scene = Scene::new(&node);
    node.verb(&["local", "yank", &scene.volume.id]).unwrap();
    let before = scene.mounts();
    let told = node.verb(&["heal", &scene.volume.id]).unwrap();
    assert!(told.contains("its disk is gone, and none is here yet"), "{told}");
    assert!(told.contains("/data"), "the container is named: {told}");
    assert_eq!(scene.mounts(), before);
    scene.end(&node);
}

#[test]
fn two_live_disks_with_one_serial_refuse_everything() {
    if !is_possible("two_live_disks_with_one_serial_refuse_everything") {
        return;
    }
    let node = Node::new();
    let scene = Scene::new(&node);
    let output = Command::new("losetup")
        .args(["--find", "--show"])
        .arg(scene.volume.image())
        .output()
        .unwrap();
    let second = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let before = scene.mounts();
    let refused = node.verb(&["heal", &scene.volume.id]).unwrap_err();
    assert!(refused.contains("several disks") && refused.contains("detach the one"), "{refused}");
    let message = node.fails(scene.volume.stage());
    assert!(message.contains("several disks"), "{message}");
    assert_eq!(scene.mounts(), before);
    crate::holders::run("losetup", &["--detach", &second]);
    scene.end(&node);
}

/// A made-up sysfs that has the volume's disk under another number, and something at the number
/// that it was mounted from.
struct MadeUp {
    root: PathBuf,
}

impl MadeUp {
    fn new(scene: &Scene<'_>, name: &str, old: &[(&str, &str)]) -> Self {
        let root = scene.volume.node.base().join("sys");
        let made_up = Self { root };
        let number = crate::checks::number_of(&scene.volume.letter()).to_string();
        made_up.disk(name, &number, old);
        let image = scene.volume.image();
        made_up.disk("loop4000", "7:4000", &[("loop/backing_file", image.to_str().unwrap())]);
        made_up
    }

    fn disk(&self, name: &str, number: &str, shown: &[(&str, &str)]) {
        let folder = self.root.join("block").join(name);
        let facts = [("dev", number), ("size", "131072"), ("ro", "0"), ("diskseq", "7")];
        for (file, text) in facts.iter().chain(shown) {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            files::write(path, format!("{text}\n")).unwrap();
        }
        fs::create_dir_all(self.root.join("dev/block")).unwrap();
        std::os::unix::fs::symlink(&folder, self.root.join("dev/block").join(number)).unwrap();
    }

    fn heal(&self, scene: &Scene<'_>) -> String {
        let mut command = scene.volume.node.command(["heal", &scene.volume.id]);
        let output = command.env("INCLOUD_DISK_SYSFS", &self.root).output().unwrap();
        assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn a_disk_that_is_there_is_not_proven_dead() {
    if !is_possible("a_disk_that_is_there_is_not_proven_dead") {
        return;
    }
    let node = Node::new();
    let scene = Scene::new(&node);
    let image = scene.volume.image();
    let image = image.to_str().unwrap();
    let before = scene.mounts();
    let letter = scene.volume.letter();
    let letter = letter.as_str();
    for (name, old, words) in [
        // Another disk's serial at the number of a live mount.
        (
            letter,
            &[("loop/backing_file", "/somebody/elses.img")][..],
            "its number is another disk's",
        ),
        // The path to the disk is down, the disk may live; its serial can be read or not.
        ("sdz", &[("device/state", "offline")], "is offline"),
        ("sdz", &[("device/state", "transport-offline")], "is transport-offline"),
        ("dm-9", &[("dm/suspended", "1")], "is suspended"),
        // The same serial twice.
        (letter, &[("loop/backing_file", image)], "several disks"),
        (letter, &[("loop/backing_file", image), ("device/state", "offline")], "several disks"),
    ] {
        let made_up = MadeUp::new(&scene, name, old);
        let told = made_up.heal(&scene);
        assert!(told.contains(words), "{old:?}: {told}");
        assert_eq!(scene.mounts(), before, "{old:?}");
        fs::remove_dir_all(&made_up.root).unwrap();
    }
    scene.end(&node);
}
