//! One life of a volume, with kubelet's exact arguments and every call made twice.

use crate::checks::{
    backing_file, mounts_like, nothing_is_left, number_of, only_mount_at, random_bytes,
};
use crate::files;
use crate::letters::attach_under_another_letter;
use crate::volume::{Call, POD, Volume, make_folder};
use std::fs;
use std::path::Path;

#[test]
fn an_ext4_volume_lives_twice_under_two_letters() {
    needs!(mounts);
    live("ext4", "64M", "ext4");
}

#[test]
fn an_xfs_volume_lives_twice_under_two_letters() {
    needs!(mounts);
    live("xfs", "320M", "xfs");
}

#[test]
fn a_btrfs_volume_lives_twice_under_two_letters() {
    needs!(mounts);
    live("btrfs", "256M", "btrfs");
}

fn live(fs_type: &'static str, size: &str, becomes: &str) {
    let (node, volume) = Volume::on_a_node(fs_type, size);
    let data = random_bytes(3 << 20);

    assert_eq!(twice(&volume, &volume.is_attached())["attached"], false);
    let first = up(&volume, becomes);
    files::write_synced(&volume.pod(POD).join("data"), &data);
    down(&volume, &first);

    // Meanwhile another disk takes the letter.
    let taken = attach_under_another_letter(&volume, &first);
    let second = up(&volume, becomes);
    assert_ne!(first, second);
    assert!(files::read(volume.pod(POD).join("data")).unwrap() == data, "the data is another");
    down(&volume, &second);
    drop(taken);

    volume.must_be_sound();
    nothing_is_left(&node, &[&volume]);
}

/// Everything until the pod runs; answers the letter.
fn up(volume: &Volume, fs_type: &str) -> String {
    let link = volume.link();
    assert_eq!(twice(volume, &volume.attach())["device"], link.to_str().unwrap());
    let letter = volume.letter();
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("/dev").join(&letter));
    assert_eq!(backing_file(&letter), volume.image().to_str().unwrap());
    assert_eq!(twice(volume, &volume.is_attached())["attached"], true);
    // kubelet may remember nothing, something old, or the truth.
    for hint in ["", "/dev/vdz", link.to_str().unwrap()] {
        assert_eq!(twice(volume, &volume.wait(hint))["device"], link.to_str().unwrap());
    }

    make_folder(&volume.global());
    twice(volume, &volume.stage());
    let disk = Path::new("/dev").join(&letter);
    assert_eq!(fs::read_link(volume.label()).unwrap(), disk, "what `df` shows leads to the disk");
    make_folder(&volume.pod(POD));
    twice(volume, &volume.publish(POD));
    for place in [volume.global(), volume.pod(POD)] {
        let mount = only_mount_at(&place);
        // A btrfs shows a number of its own.
        if fs_type != "btrfs" {
            assert_eq!(mount.number, number_of(&letter));
        }
        assert_eq!((mount.fs_type.as_str(), mount.root.as_path()), (fs_type, Path::new("/")));
        assert_eq!(mount.source, volume.label().to_str().unwrap());
        assert!(!mount.is_read_only() && !mount.is_super_read_only());
    }
    // One more would make kubelet refuse to unmount the device.
    assert_eq!(mounts_like(&volume.global()), 2, "the global folder and the pod's");
    assert_eq!(volume.record()["published"][POD], volume.pod(POD).to_str().unwrap());
    assert_eq!(volume.record()["staged"]["fs_type"], fs_type);
    assert_eq!(volume.record()["staged"]["uuid"], volume.id, "the file system is called after it");
    // After a restart kubelet asks again for a volume that is mounted and in use.
    twice(volume, &volume.wait(link.to_str().unwrap()));
    letter
}

/// Everything back, with what kubelet does and checks in between.
fn down(volume: &Volume, letter: &str) {
    twice(volume, &volume.unpublish(POD));
    fs::remove_dir(volume.pod(POD)).expect("kubelet's rmdir of the pod's folder");
    twice(volume, &volume.unpublish(POD));
    assert!(volume.record()["published"].is_null());

    twice(volume, &volume.unstage());
    fs::remove_dir(volume.global()).expect("kubelet's rmdir of the global folder");
    twice(volume, &volume.unstage());
    assert!(volume.record()["staged"].is_null());
    assert!(fs::symlink_metadata(volume.label()).is_err(), "the link outlives the mount");
    assert!(files::can_be_opened_alone(&volume.link()), "kubelet would call the device busy");

    twice(volume, &volume.detach());
    assert!(fs::symlink_metadata(volume.link()).is_err(), "the link is left");
    assert_ne!(backing_file(letter), volume.image().to_str().unwrap());
    assert!(!volume.record_path().exists(), "a volume that left is remembered");
    assert_eq!(twice(volume, &volume.is_attached())["attached"], false);
}

#[track_caller]
fn twice(volume: &Volume, call: &Call) -> serde_json::Value {
    let first = volume.node.must(call);
    assert_eq!(first, volume.node.must(call), "the second answer to {call:?}");
    first
}

#[test]
fn without_a_wish_what_is_there_is_mounted() {
    needs!(mounts);
    for (there, size) in [("ext3", "64M"), ("xfs", "320M")] {
        let (_, volume) = Volume::on_a_node("", size);
        crate::holders::run(&format!("mkfs.{there}"), &["-q", volume.image().to_str().unwrap()]);
        volume.bring();
        assert_eq!(only_mount_at(&volume.global()).fs_type, there);
        volume.ends();
    }
}

#[test]
fn ext3_serves_where_ext4_is_asked_for() {
    needs!(mounts);
    let (_, volume) = Volume::on_a_node("ext4", "64M");
    crate::holders::run("mkfs.ext3", &["-q", volume.image().to_str().unwrap()]);
    volume.bring();
    assert_eq!(only_mount_at(&volume.global()).fs_type, "ext3");
    volume.ends();
}

#[test]
fn a_file_system_with_errors_is_mended_before_it_is_mounted() {
    needs!(mounts);
    let (_, volume) = Volume::on_a_node("ext4", "64M");
    let image = volume.image();
    let image = image.to_str().unwrap();
    crate::holders::run("mkfs.ext4", &["-q", image]);
    // What the kernel writes when it finds an error: bit 1 of the state.
    crate::holders::run("debugfs", &["-w", "-R", "set_super_value state 2", image]);
    crate::holders::run("debugfs", &["-w", "-R", "set_super_value free_blocks_count 7", image]);
    volume.bring();
    volume.ends();
    volume.must_be_sound();
}

/// The root of kubelet's folders may be a link, as on nodes with a data disk.
#[test]
fn a_life_below_a_linked_kubelet_root() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    fs::rename(node.kubelet_root(), node.own().join("data")).unwrap();
    std::os::unix::fs::symlink("data", node.kubelet_root()).unwrap();
    volume.bring_to_pod();
    let real = fs::canonicalize(volume.pod(POD)).unwrap();
    assert_eq!(only_mount_at(&real).number, number_of(&volume.letter()));
    volume.ends();
}
