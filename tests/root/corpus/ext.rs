//! ext2, ext3 and ext4, in the layouts that change where things stand.

use super::image::made;
use super::variant::Variant;
use incloud_disk::model::disk::contents::FsType::{Ext3, Ext4};

images! {
    ext2_1k: made(64, "ext2", "mkfs.ext2 -q -b 1024 -d tree disk");
    ext2_2k: made(64, "ext2", "mkfs.ext2 -q -b 2048 -d tree disk");
    ext2_4k: made(64, "ext2", "mkfs.ext2 -q -b 4096 -d tree disk");
    ext2_of_genext2fs: made(16, "ext2", "genext2fs -d tree -b 8192 out && put out");
    ext2_of_hurd: made(64, "ext2", "mke2fs -q -o hurd disk");
    ext3_1k: made(64, "ext3", "mkfs.ext3 -q -b 1024 -d tree disk").mounts_as(Ext3);
    ext3_4k: made(64, "ext3", "mkfs.ext3 -q -b 4096 -d tree disk").mounts_as(Ext3);
    ext4_1k: made(64, "ext4", "mkfs.ext4 -q -b 1024 -d tree disk").mounts_as(Ext4);
    ext4_2k: made(64, "ext4", "mkfs.ext4 -q -b 2048 -d tree disk").mounts_as(Ext4);
    ext4_4k: made(300, "ext4", "mkfs.ext4 -q -b 4096 -d tree disk").mounts_as(Ext4);
    // Larger blocks than pages are a new thing in the kernel.
    ext4_64k: made(300, "ext4", "mkfs.ext4 -q -F -b 65536 -d tree disk").may_mount_as(Ext4);
    ext4_64bit: made(64, "ext4", "mkfs.ext4 -q -O 64bit -d tree disk").mounts_as(Ext4);
    ext4_32bit:
        made(64, "ext4", "mkfs.ext4 -q -O ^64bit,^metadata_csum -d tree disk").mounts_as(Ext4);
    ext4_bigalloc:
        made(256, "ext4", "mkfs.ext4 -q -O bigalloc -C 65536 -d tree disk").mounts_as(Ext4);
    ext4_mmp: made(64, "ext4", "mkfs.ext4 -q -O mmp -d tree disk").mounts_as(Ext4);
    ext4_without_journal:
        made(64, "ext4", "mkfs.ext4 -q -O ^has_journal -d tree disk").mounts_as(Ext4);
    ext4_with_backups_in_each_group:
        made(300, "ext4", "mkfs.ext4 -q -O ^sparse_super,^resize_inode -d tree disk")
            .mounts_as(Ext4);
    ext4_with_two_backups:
        made(300, "ext4", "mkfs.ext4 -q -O sparse_super2 -d tree disk").mounts_as(Ext4);
    ext4_meta_bg:
        made(300, "ext4", "mkfs.ext4 -q -O meta_bg,^resize_inode -d tree disk").mounts_as(Ext4);
    ext4_packed:
        made(64, "ext4", "mkfs.ext4 -q -E packed_meta_blocks=1 -d tree disk").mounts_as(Ext4);
    ext4_inline_data: made(64, "ext4", "mkfs.ext4 -q -O inline_data -d tree disk").mounts_as(Ext4);
    ext4_quota: made(64, "ext4", "mkfs.ext4 -q -O quota,project -d tree disk").may_mount_as(Ext4);
    ext4_large_dir_and_ea_inode:
        made(64, "ext4", "mkfs.ext4 -q -O large_dir,ea_inode -d tree disk").mounts_as(Ext4);
    ext4_encrypt:
        made(64, "ext4", "mkfs.ext4 -q -O encrypt,stable_inodes -d tree disk").may_mount_as(Ext4);
    ext4_verity: made(64, "ext4", "mkfs.ext4 -q -O verity -d tree disk").may_mount_as(Ext4);
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
