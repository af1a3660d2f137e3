//! Every row of the table that tells a dead mount from one that only looks dead, by a real set-up
//! where this machine can make one, by a made-up sysfs where it cannot. Where nothing is proven
//! nothing is touched.

use crate::checks::{eventually, number_of, table};
use crate::files;
use crate::holders::run;
use crate::scene::{Scene, scene};
use crate::support::{Node, output_of};
use crate::volume::Volume;
use incloud_disk::model::disk::device::DeviceNumber;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn inside(scene: &Scene) -> String {
    fs::read_to_string(format!("/proc/{}/mountinfo", scene.container.pid())).unwrap()
}

/// Every mount, here and in the container.
fn mounts(scene: &Scene) -> (String, String) {
    (format!("{:?}", table().mounts()), inside(scene))
}

#[test]
fn two_live_disks_with_one_serial_refuse_everything() {
    needs!(pods);
    let scene = scene().idle().start();
    let output = Command::new("losetup")
        .args(["--find", "--show"])
        .arg(scene.volume.image())
        .output()
        .unwrap();
    let second = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let before = mounts(&scene);
    let refused = scene.node.verb(&["heal", &scene.volume.id]).unwrap_err();
    assert!(refused.contains("several disks") && refused.contains("detach the one"), "{refused}");
    let message = scene.node.fails(scene.volume.stage());
    assert!(message.contains("several disks"), "{message}");
    assert_eq!(mounts(&scene), before);
    run("losetup", &["--detach", &second]);
    scene.ends();
}

/// A made-up sysfs that has the volume's disk under another number, and something at the number
/// that it was mounted from.
struct MadeUp {
    root: PathBuf,
}

impl MadeUp {
    fn new(scene: &Scene, name: &str, old: &[(&str, &str)]) -> Self {
        let made_up = Self::alone(scene, name, old);
        let image = scene.volume.image();
        made_up.disk("loop4000", "7:4000", &[("loop/backing_file", image.to_str().unwrap())]);
        made_up
    }

    /// The same without the volume's disk.
    fn alone(scene: &Scene, name: &str, old: &[(&str, &str)]) -> Self {
        let made_up = Self { root: scene.volume.node.base().join("sys") };
        let number = number_of(&scene.volume.letter()).to_string();
        made_up.disk(name, &number, old);
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

    /// The health that status shows, and why.
    fn health(&self, scene: &Scene) -> (String, String) {
        let mut command = scene.volume.node.command(["status", "--json"]);
        let output = command.env("INCLOUD_DISK_SYSFS", &self.root).output().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = found["volumes"].as_array().unwrap();
        let row = all.iter().find(|row| row["id"] == scene.volume.id.as_str()).unwrap();
        let word = |name: &str| row["verdict"][name].as_str().unwrap().to_owned();
        (word("health"), word("because"))
    }

    fn heal(&self, scene: &Scene) -> String {
        let mut command = scene.volume.node.command(["heal", &scene.volume.id]);
        let output = output_of(command.env("INCLOUD_DISK_SYSFS", &self.root));
        assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn a_disk_that_is_there_is_not_proven_dead() {
    needs!(pods);
    let scene = scene().idle().start();
    let image = scene.volume.image();
    let image = image.to_str().unwrap();
    let before = mounts(&scene);
    let letter = scene.volume.letter();
    let letter = letter.as_str();
    for (name, old, words) in [
        // Another disk's serial at the number of a live mount.
        (
            letter,
            &[("loop/backing_file", "/somebody/elses.img")][..],
            "its device number now belongs to another disk",
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
        // What people see is what the heal found.
        let (health, because) = made_up.health(&scene);
        assert_eq!(health, "ambiguous", "{old:?}: {because}");
        assert!(because.contains(words), "{old:?}: {because}");
        assert_eq!(mounts(&scene), before, "{old:?}");
        fs::remove_dir_all(&made_up.root).unwrap();
    }
    scene.ends();
}

/// Each kind of disk has another file that takes it away.
#[test]
fn what_ends_a_halted_disk_is_what_a_disk_of_that_kind_has() {
    needs!(pods);
    let scene = scene().idle().start();
    let before = mounts(&scene);
    let number = number_of(&scene.volume.letter());
    let remover = |file: &str| format!("echo 1 > /sys/dev/block/{number}/{file} removes it");
    for (name, old, words) in [
        ("sdz", vec![("device/state", "offline"), ("device/delete", "")], remover("device/delete")),
        (
            "nvme9n1",
            vec![("device/state", "dead"), ("device/device/remove", "")],
            remover("device/device/remove"),
        ),
        (
            "nvme9n1",
            vec![("device/state", "dead"), ("device/delete_controller", "")],
            remover("device/delete_controller"),
        ),
        (
            "dm-9",
            vec![("dm/suspended", "1"), ("dm/name", "orders")],
            "dmsetup resume orders lets it work on".to_owned(),
        ),
        ("sdz", vec![("device/state", "offline")], "it ends when the disk answers".to_owned()),
    ] {
        let made_up = MadeUp::new(&scene, name, &old);
        let told = made_up.heal(&scene);
        assert!(told.contains("not proven dead") && told.contains(&words), "{old:?}: {told}");
        assert_eq!(mounts(&scene), before, "{old:?}");
        fs::remove_dir_all(&made_up.root).unwrap();
    }
    scene.ends();
}

/// Offline, and no other disk shows the serial: the volume is here, and does not work.
#[test]
fn a_disk_that_is_offline_is_not_well() {
    needs!(pods);
    let scene = scene().idle().start();
    let image = scene.volume.image();
    let old = [("loop/backing_file", image.to_str().unwrap()), ("device/state", "offline")];
    let made_up = MadeUp::alone(&scene, &scene.volume.letter(), &old);
    let before = mounts(&scene);
    let told = made_up.heal(&scene);
    assert!(told.contains("not proven dead") && told.contains("is offline"), "{told}");
    let (health, because) = made_up.health(&scene);
    assert_eq!(health, "ambiguous", "{because}");
    assert!(because.contains("is offline"), "{because}");
    assert_eq!(mounts(&scene), before);
    fs::remove_dir_all(&made_up.root).unwrap();
    scene.ends();
}

/// A mounted file system that is no volume's, on a disk that has a number which a volume's disk had.
struct Stranger {
    device: String,
    folder: PathBuf,
    image: PathBuf,
}

impl Stranger {
    #[track_caller]
    fn takes(number: DeviceNumber, node: &Node, (kind, size): (&str, &str)) -> Self {
        let device = format!("/dev/loop{}", number.minor);
        let (image, folder) = (node.base().join("strangers.img"), node.base().join("strangers"));
        fs::create_dir_all(&folder).unwrap();
        run("truncate", &["--size", size, image.to_str().unwrap()]);
        run(&format!("mkfs.{kind}"), &["-q", image.to_str().unwrap()]);
        // Another test may have been given the number meanwhile, for as long as it lasts.
        eventually("the number is free", || {
            let given = Command::new("losetup").arg(&device).arg(&image).output().unwrap();
            given.status.success()
        });
        run("mount", &[&device, folder.to_str().unwrap()]);
        Self { device, folder, image }
    }

    fn goes(self) {
        run("umount", &[self.folder.to_str().unwrap()]);
        run("losetup", &["--detach", &self.device]);
        fs::remove_file(self.image).unwrap();
    }
}

#[track_caller]
fn remembers(node: &Node, volume: &Volume, number: DeviceNumber) {
    let remembered = node.verb(&["explain", &volume.id]).unwrap();
    assert!(remembered.contains(&format!("had numbers  {number}")), "{remembered}");
}

/// A number that the volume's disk had, and that is a stranger's by now, says nothing of the volume.
#[test]
fn a_number_that_was_given_away_is_not_the_volumes() {
    needs!(pods);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    let number = number_of(&volume.letter());
    // The machine remembers the number and is not told of the unmount.
    run("umount", &[volume.global().to_str().unwrap()]);
    node.verb(&["local", "yank", &volume.id]).unwrap();
    remembers(&node, &volume, number);
    let stranger = Stranger::takes(number, &node, ("ext4", "64M"));
    let told = node.verb(&["status"]).unwrap();
    assert!(!told.to_lowercase().contains("ambiguous"), "{told}");
    stranger.goes();
    node.must(volume.unstage());
    node.must(volume.detach());
}

/// The disk that has the number since is gone as well, with its mount: it has another file system. Where that
/// cannot be seen the mount may be the volume's.
#[test]
fn a_dead_mount_of_a_later_disk_of_the_number_is_not_the_volumes() {
    needs!(pods);
    let scene = scene().idle().start();
    let (node, volume) = (&scene.node, &scene.volume);
    let number = number_of(&volume.letter());
    node.verb(&["local", "yank", &volume.id]).unwrap();
    node.must(volume.attach());
    remembers(node, volume, number);
    let backing = volume.image();
    let shown = [("loop/backing_file", backing.to_str().unwrap())];
    // Of the stranger's disk this has nothing, as if it were pulled.
    let made_up = MadeUp::alone(&scene, &volume.letter(), &shown);
    // An xfs tells no id, but its kind is another one.
    for (kind, size, covered) in [("ext4", "64M", "covered"), ("xfs", "320M", "ok")] {
        let stranger = Stranger::takes(number, node, (kind, size));
        let (health, because) = made_up.health(&scene);
        assert_eq!(health, "ok", "{kind}: {because}");
        run("mount", &["-t", "tmpfs", "over it", stranger.folder.to_str().unwrap()]);
        let (health, because) = made_up.health(&scene);
        assert_eq!(health, covered, "{kind}: {because}");
        run("umount", &[stranger.folder.to_str().unwrap()]);
        stranger.goes();
    }
    fs::remove_dir_all(&made_up.root).unwrap();
    scene.ends();
}
