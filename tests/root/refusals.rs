//! Disks that are neither blank nor what is asked for: refused, and left as they are.

use crate::checks::{digest, layers_at, nothing_is_left};
use crate::files;
use crate::holders::run;
use crate::volume::{Volume, make_folder};
use std::fs::{self, OpenOptions};
use std::path::Path;

/// A volume with these contents: `mountdevice` must fail with this text, whatever file system is
/// asked for, and change no byte.
#[track_caller]
fn refused(size: &str, prepare: impl FnOnce(&Path), wishes: &[&str], text: &str) {
    let (node, volume) = Volume::on_a_node("", size);
    prepare(&volume.image());
    let before = digest(&volume.image());
    node.must(volume.attach());
    node.must(volume.wait(""));
    make_folder(&volume.global());
    for wish in wishes {
        // kubelet repeats the call until a person comes.
        for _ in 0..2 {
            let message = node.fails(volume.stage_as(wish));
            assert!(message.contains(text), "{message}");
            assert_eq!(layers_at(&volume.global()), 0);
        }
    }
    let record = volume.record();
    assert!(record["formatting"].is_null() && record["was_mounted"] == false, "{record}");
    node.must(volume.unstage());
    fs::remove_dir(volume.global()).unwrap();
    node.must(volume.detach());
    assert_eq!(digest(&volume.image()), before, "{text}: the image changed");
    nothing_is_left(&node, &[&volume]);
}

const MIB: u64 = 1 << 20;
const ANY: &[&str] = &["", "ext4", "xfs", "ext3"];

#[test]
fn a_partition_table_is_refused() {
    needs!(mounts);
    let write = |image: &Path| {
        // One entry of type Linux, from sector 2048.
        files::write_at(image, 446, &[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0x40, 0, 0]);
        files::write_at(image, 510, &[0x55, 0xaa]);
    };
    refused("16M", write, ANY, "partition table");
}

#[test]
fn a_single_byte_anywhere_in_the_first_or_last_mib_is_data() {
    needs!(mounts);
    for offset in [0, 511, MIB - 1, 15 * MIB, 16 * MIB - 1] {
        let text = format!("offset {offset} ");
        refused("16M", |image| files::write_at(image, offset, b"x"), ANY, &text);
    }
}

/// The first superblock of an ext4 was overwritten with zeros; its backups still stand.
#[test]
fn a_lost_superblock_with_a_backup_is_data() {
    needs!(mounts);
    for (block, size) in [("1024", "16M"), ("2048", "64M"), ("4096", "256M")] {
        let wipe = |image: &Path| {
            run("mkfs.ext4", &["-q", "-b", block, image.to_str().unwrap()]);
            files::write_at(image, 0, &vec![0; 1 << 20]);
        };
        refused(size, wipe, ANY, "unknown data");
    }
}

#[test]
fn another_file_system_than_asked_for_is_refused() {
    needs!(mounts);
    let mkfs = |kind: &'static str| {
        move |image: &Path| drop(run(&format!("mkfs.{kind}"), &["-q", image.to_str().unwrap()]))
    };
    refused("16M", mkfs("ext4"), &["xfs", "ext3"], "holds ext4, but");
    refused("16M", mkfs("ext3"), &["xfs"], "holds ext3, but");
    refused("320M", mkfs("xfs"), &["ext4", "ext3"], "holds xfs, but");
    refused("16M", mkfs("ext4"), &["ntfs", "ext2"], "is not supported");
    refused("16M", mkfs("ext4"), &["btrfs"], "holds ext4, but");
}

fn resize(image: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(image).unwrap().set_len(bytes).unwrap();
}

/// Then it is another's disk, or the cloud knows something that we do not.
#[test]
fn a_blank_disk_of_another_size_than_the_clouds_is_refused() {
    needs!(mounts);
    for bytes in [8 << 20, (16 << 20) + 4096, 32 << 20] {
        refused("16M", |image| resize(image, bytes), ANY, &bytes.to_string());
    }
}

#[test]
fn a_disk_smaller_than_its_file_system_is_refused() {
    needs!(mounts);
    let cut = |image: &Path| {
        run("mkfs.ext4", &["-q", image.to_str().unwrap()]);
        resize(image, 8 << 20);
    };
    refused("16M", cut, &["", "ext4"], "needs 16777216 bytes, the disk has 8388608");
}

/// A check that cannot mend everything by itself needs a person. It may have mended some.
#[test]
fn a_file_system_that_e2fsck_will_not_mend_alone_is_refused() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let image = volume.image();
    let image = image.to_str().unwrap();
    run("mkfs.ext4", &["-q", image]);
    run("debugfs", &["-w", "-R", "clri <2>", image]);
    run("debugfs", &["-w", "-R", "set_super_value state 2", image]);
    node.must(volume.attach());
    make_folder(&volume.global());
    for _ in 0..2 {
        let message = node.fails(volume.stage());
        assert!(message.contains("errors that it does not mend by itself"), "{message}");
        assert_eq!(layers_at(&volume.global()), 0);
    }
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// Blank although it held data: the wrong disk, or a cloud that lost the right one.
#[test]
fn a_blank_disk_that_was_mounted_before_is_not_formatted() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    node.must(volume.unstage());
    files::write_at(&Path::new("/dev").join(volume.letter()), 0, &vec![0; 16 << 20]);
    let before = digest(&volume.image());
    for _ in 0..2 {
        let message = node.fails(volume.stage());
        assert!(message.contains("mounted the volume before"), "{message}");
    }
    assert_eq!(digest(&volume.image()), before);
    volume.ends();
}
