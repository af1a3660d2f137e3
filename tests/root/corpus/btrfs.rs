//! btrfs: its superblock stands at 64 KiB, with a mirror at 64 MiB.

use super::image::made;
use incloud_disk::model::disk::contents::FsType::Btrfs;

images! {
    btrfs_plain: made(128, "btrfs", "mkfs.btrfs -q -r tree disk").mounts_as(Btrfs);
    btrfs_with_sha256: made(128, "btrfs", "mkfs.btrfs -q --csum sha256 -n 65536 -r tree disk")
        .may_mount_as(Btrfs);
    btrfs_first_of_two: made(
        128,
        "btrfs",
        "truncate -s 128M other && mkfs.btrfs -q -d raid1 -m raid1 disk other",
    );
}
