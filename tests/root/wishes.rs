//! What a volume's owner may wish: options of the mount and of the file system, readers alone, and
//! btrfs; and what lies in a folder before it is mounted on.

use crate::checks::{layers_at, nothing_is_left, only_mount_at};
use crate::files;
use crate::holders::run;
use crate::volume::{Call, POD, Volume, make_folder};
use std::fs;

/// A call with one more option of the `PersistentVolume`'s.
fn with(mut call: Call, key: &str, value: &str) -> Call {
    let options = call.iter_mut().find(|word| word.starts_with('{')).unwrap();
    *options = options.replace(",\"volumeID\"", &format!(",{key:?}:{value:?},\"volumeID\""));
    call
}

#[test]
fn a_mount_has_the_options_of_its_volume() {
    needs!(mounts);
    for (kind, size, data) in [("ext4", "64M", "commit=77"), ("xfs", "320M", "allocsize=64k")] {
        let (node, volume) = Volume::on_a_node(kind, size);
        node.must(volume.attach());
        make_folder(&volume.global());
        let wish = format!("noatime,nosuid,{data}");
        node.must(with(volume.stage(), "mountOptions", &wish));
        let mount = only_mount_at(&volume.global());
        for option in ["noatime", "nosuid"] {
            assert!(mount.options.split(',').any(|one| one == option), "{}", mount.options);
        }
        assert!(mount.super_options.contains(data), "{}", mount.super_options);
        assert!(!mount.options.contains("nodev"), "no hardening that was not asked for");
        assert!(volume.record()["staged"]["options"].as_str().unwrap().contains(data));
        volume.ends();
    }
}

#[test]
fn an_option_that_is_not_allowed_fails_before_anything_is_done() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    for (key, value) in [
        ("mountOptions", "journal_dev=2049"),
        ("mountOptions", "errors=panic"),
        ("mkfsOptions", "-E offset=1048576"),
        ("mkfsOptions", "-d /etc"),
    ] {
        let message = node.fails(with(volume.attach(), key, value));
        assert!(message.contains("not allowed"), "{message}");
    }
    node.must(volume.attach());
    make_folder(&volume.global());
    let message = node.fails(with(volume.stage(), "mountOptions", "allocsize=64k"));
    assert!(message.contains("ext4 has no mount option allocsize"), "{message}");
    // What could not be mounted is not made either.
    assert!(!node.log().contains("formatting"), "{}", node.log());
    assert_eq!(layers_at(&volume.global()), 0);
    volume.take_away();
}

#[test]
fn a_new_file_system_has_the_options_of_its_volume() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    node.must(volume.attach());
    make_folder(&volume.global());
    node.must(with(volume.stage(), "mkfsOptions", "-b 1024 -m 3 -O ^has_journal"));
    volume.take_away();
    let told = run("dumpe2fs", &["-h", volume.image().to_str().unwrap()]);
    assert!(told.contains("Block size:               1024"), "{told}");
    assert!(!told.contains("has_journal"), "{told}");
}

#[test]
fn options_that_make_another_thing_than_was_asked_for_are_refused_and_write_nothing() {
    needs!(mounts);
    for (kind, options) in [
        ("ext4", "-O journal_dev"),
        ("ext4", "-m 1 -O journal_dev"),
        ("ext4", "-O none"),
        ("ext4", "-T ext2 -O none,large_file"),
        ("ext3", "-O extent"),
        ("ext3", "-I 256 -O 64bit,extent"),
    ] {
        let (node, volume) = Volume::on_a_node(kind, "64M");
        node.must(volume.attach());
        make_folder(&volume.global());
        let before = crate::checks::digest(&volume.image());
        for _again in 0..2 {
            let message = node.fails(with(volume.stage(), "mkfsOptions", options));
            for words in [&format!("mkfs.{kind} with {options}")[..9], "makes ", "is asked for"] {
                assert!(message.contains(words), "{options}: {message}");
            }
            assert!(!message.contains("Foreign(") && !message.contains("{ "), "{message}");
        }
        let words = ["format", &volume.id, "--fs-type", kind, "--mkfs-options", options, "--yes"];
        let message = node.verb(&words).unwrap_err();
        assert!(message.contains("is asked for"), "{options}: {message}");
        assert_eq!(crate::checks::digest(&volume.image()), before, "{options}");
        assert_eq!(volume.record()["formatting"], serde_json::Value::Null, "{options}");
        // What the message says ends it.
        node.must(volume.stage());
        assert_eq!(only_mount_at(&volume.global()).fs_type, kind);
        node.must(volume.unstage());
        // It has its file system now, and is mounted whatever the PersistentVolume says.
        node.must(with(volume.stage(), "mkfsOptions", options));
        volume.take_away();
        nothing_is_left(&node, &[&volume]);
    }
}

#[test]
fn a_shared_volume_is_mounted_without_a_write_to_its_disk() {
    needs!(mounts);
    for (kind, size) in [("ext4", "64M"), ("xfs", "320M"), ("btrfs", "256M")] {
        let (node, volume) = Volume::on_a_node(kind, size);
        let shared = |call: Call| with(call, "share", "read-only");
        // Blank: no file system may be made of it.
        node.must(shared(volume.attach()));
        make_folder(&volume.global());
        let message = node.fails(shared(volume.stage()));
        assert!(message.contains("blank, and the volume is shared"), "{message}");
        node.must(volume.stage());
        files::write_synced(&volume.global().join("f"), b"kept");
        node.must(volume.unstage());

        let before = crate::checks::digest(&volume.image());
        node.must(shared(volume.stage()));
        assert!(only_mount_at(&volume.global()).is_super_read_only());
        make_folder(&volume.pod(POD));
        let message = node.fails(shared(volume.publish(POD)));
        assert!(message.contains("the pod wants to write"), "{message}");
        node.must(shared(volume.publish_as(POD, "ro")));
        assert_eq!(files::read(volume.pod(POD).join("f")).unwrap(), b"kept");
        volume.take_away();
        assert_eq!(crate::checks::digest(&volume.image()), before, "{kind}: a read wrote");
        nothing_is_left(&node, &[&volume]);
    }
}

#[test]
fn what_a_mount_hides_is_said_and_kept() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    make_folder(&volume.global().join("deep"));
    files::write_synced(&volume.global().join("deep/lost"), b"written while unmounted");
    volume.bring();
    let log = node.log();
    assert!(log.contains("will be hidden") && log.contains("files=1 bytes=23"), "{log}");
    node.must(volume.unstage());
    assert!(node.log().contains("they must be moved by hand"));
    assert_eq!(files::read(volume.global().join("deep/lost")).unwrap(), b"written while unmounted");
    fs::remove_dir_all(volume.global()).unwrap();
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// The pod's mount of the pulled disk lives on; xfs would refuse a second one of the same UUID.
#[test]
fn an_xfs_is_mounted_beside_its_own_dead_mount() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("xfs", "320M");
    volume.bring_to_pod();
    files::write_synced(&volume.global().join("f"), b"kept");
    node.verb(&["local", "yank", &volume.id]).unwrap();
    // The dead mount at the global folder goes, the pod's stays.
    node.must(volume.unstage());
    node.must(volume.attach());
    node.must(volume.stage());
    let mount = only_mount_at(&volume.global());
    assert!(mount.super_options.contains("nouuid"), "{}", mount.super_options);
    assert_eq!(files::read(volume.global().join("f")).unwrap(), b"kept");
    node.must(volume.unpublish(POD));
    volume.ends();
}
