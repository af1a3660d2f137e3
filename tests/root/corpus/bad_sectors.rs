//! Blank disks with a sector that cannot be read: what stood there is unknown.

use crate::checks::{digest, layers_at, nothing_is_left};
use crate::support::{FailingDisk, private_mounts_and_fuse};
use crate::volume::{Volume, make_folder};
use regex_lite::Regex;
use std::fs;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SIZE: u64 = 256 * MIB;

/// How much is read in one go at most: a place that is named must be as near.
const NEAR: u64 = MIB;

/// The offset in a message that says where a disk cannot be read.
#[track_caller]
fn place_in(message: &str) -> u64 {
    assert!(message.contains("unreadable"), "{message}");
    let offset = Regex::new(r"offset (\d+)").unwrap().captures(message);
    offset.unwrap_or_else(|| panic!("no offset: {message}"))[1].parse().unwrap()
}

#[track_caller]
fn is_refused_with_a_bad_sector_at(offset: u64) {
    let (node, volume) = Volume::on_a_node("ext4", &SIZE.to_string());
    let disk = FailingDisk::over(&volume.image());
    disk.fail_reads(offset..offset + 512);
    node.must(volume.attach());
    make_folder(&volume.global());
    let before = digest(&disk.below());
    for wish in ["ext4", "", "xfs"] {
        let message = node.fails(volume.stage_as(wish));
        let named = place_in(&message);
        assert!(named <= offset && offset < named + NEAR, "not {offset}: {message}");
        assert_eq!(layers_at(&volume.global()), 0);
    }
    let counts = disk.counts();
    assert_eq!((counts.writes, counts.discards), (0, 0), "it was written to");
    assert_eq!(digest(&disk.below()), before, "the image changed");
    assert!(volume.record()["formatting"].is_null());

    // The disk is well again: the same call formats it.
    disk.heal();
    node.must(volume.stage());
    volume.take_away();
    drop(disk);
    fs::remove_file(volume.image()).unwrap();
    nothing_is_left(&node, &[&volume]);
}

macro_rules! places {
    ($($name:ident: $offset:expr;)*) => {
        $(
            #[test]
            fn $name() {
                if private_mounts_and_fuse(stringify!($name)) {
                    is_refused_with_a_bad_sector_at($offset);
                }
            }
        )*
    };
}

places! {
    the_first_sector: 0;
    a_sector_of_the_first_mib: 300 * KIB;
    the_last_sector_of_the_first_mib: MIB - 512;
    the_backup_superblock_of_an_ext_with_1k_blocks: 8193 * KIB;
    the_backup_superblock_of_an_ext_with_2k_blocks: 16_384 * 2 * KIB;
    the_backup_superblock_of_an_ext_with_4k_blocks: 32_768 * 4 * KIB;
    the_mirror_superblock_of_a_btrfs: 64 * MIB;
    a_sector_of_the_last_mib: SIZE - 300 * KIB;
    the_last_sector: SIZE - 512;
}

/// The same with a file system that could be mounted, were its superblock readable.
#[test]
fn the_superblock_of_an_ext4() {
    needs!(fuse);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    volume.take_away();
    let before = digest(&volume.image());
    let disk = FailingDisk::over(&volume.image());
    disk.fail_reads(1024..1536);
    node.must(volume.attach());
    make_folder(&volume.global());
    for wish in ["ext4", "", "xfs"] {
        assert!(place_in(&node.fails(volume.stage_as(wish))) <= 1024);
    }
    assert_eq!(digest(&disk.below()), before, "the image changed");
    disk.heal();
    node.must(volume.stage());
    volume.take_away();
    drop(disk);
    volume.must_be_sound();
    nothing_is_left(&node, &[&volume]);
}
