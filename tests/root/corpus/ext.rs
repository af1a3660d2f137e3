//! ext2, ext3 and ext4, in the layouts that change where things stand.

use super::image::made;
use super::variant::Variant;
use incloud_disk::model::disk::contents::FsType::{Ext3, Ext4};

images! {
    ext2_1k: made(64, "ext2", "mkfs.ext2 -q -b 1024 -d tree disk");
    ext3_4k: made(64, "ext3", "mkfs.ext3 -q -b 4096 -d tree disk").mounts_as(Ext3);
    ext4_1k: made(64, "ext4", "mkfs.ext4 -q -b 1024 -d tree disk").mounts_as(Ext4);
    ext4_4k: made(300, "ext4", "mkfs.ext4 -q -b 4096 -d tree disk").mounts_as(Ext4);
    // Larger blocks than pages are a new thing in the kernel.
    ext4_64k: made(300, "ext4", "mkfs.ext4 -q -F -b 65536 -d tree disk").may_mount_as(Ext4);
    ext4_bigalloc:
        made(256, "ext4", "mkfs.ext4 -q -O bigalloc -C 65536 -d tree disk").mounts_as(Ext4);
    ext4_mmp: made(64, "ext4", "mkfs.ext4 -q -O mmp -d tree disk").mounts_as(Ext4);
    ext4_without_journal:
        made(64, "ext4", "mkfs.ext4 -q -O ^has_journal -d tree disk").mounts_as(Ext4);
    ext4_with_two_backups:
        made(300, "ext4", "mkfs.ext4 -q -O sparse_super2 -d tree disk").mounts_as(Ext4);
    ext4_meta_bg:
        made(300, "ext4", "mkfs.ext4 -q -O meta_bg,^resize_inode -d tree disk").mounts_as(Ext4);
    ext4_casefold:
        made(64, "ext4", "mkfs.ext4 -q -O casefold -E encoding=utf8 -d tree disk")
            .may_mount_as(Ext4);
    ext4_smaller_than_the_disk:
        made(64, "ext4", "mkfs.ext4 -q -b 1024 -d tree disk 40M").mounts_as(Ext4);
    ext4_journal_device: made(64, "jbd", "mke2fs -q -F -O journal_dev disk")
        .blank_when(&[Variant::WithoutFirstPage]);
    // Its journal is on another disk: mke2fs takes that only as a block device.
    ext4_with_a_journal_elsewhere: made(
        64,
        "ext4",
        "truncate -s 16M journal && mke2fs -q -F -O journal_dev -b 4096 journal &&
         journal=$(losetup --find --show \"$PWD/journal\") &&
         mkfs.ext4 -q -b 4096 -d tree -J device=\"$journal\" disk
         set -- $? && losetup -d \"$journal\" && exit \"$1\"",
    );
}
