//! xfs and its companions. mkfs.xfs takes no disk under 300 MiB.
//!
//! The device of a realtime section is not here: mkfs.xfs writes nothing to it, it is blank.

use super::image::made;
use super::variant::Variant;
use incloud_disk::model::disk::contents::FsType::Xfs;

images! {
    xfs_plain: made(300, "xfs", "mkfs.xfs -q -p proto disk").mounts_as(Xfs);
    // Larger blocks than pages are a new thing in the kernel.
    xfs_64k: made(320, "xfs", "mkfs.xfs -q -b size=65536 -p proto disk").may_mount_as(Xfs);
    xfs_with_sectors_of_4k:
        made(300, "xfs", "mkfs.xfs -q -s size=4096 -p proto disk").mounts_as(Xfs);
    xfs_without_crc: made(300, "xfs", "mkfs.xfs -q -m crc=0 -p proto disk").may_mount_as(Xfs);
    // The mount needs the other disk: the driver cannot give it.
    xfs_with_a_log_elsewhere:
        made(300, "xfs", "truncate -s 64M log && mkfs.xfs -q -l logdev=log -p proto disk");
    xfs_with_a_realtime_section_elsewhere:
        made(300, "xfs", "truncate -s 64M rt && mkfs.xfs -q -r rtdev=rt -p proto disk");
    // xfs_repair finds the copies of its superblock: one begins each allocation group.
    xfs_without_its_first_mib: made(
        300,
        "",
        "mkfs.xfs -q disk && dd if=/dev/zero of=disk bs=1M count=1 conv=notrunc status=none",
    );
    xfs_log: made(
        64,
        "xfs_external_log",
        "truncate -s 300M data && mkfs.xfs -q -l logdev=disk,size=64m data",
    ).blank_when(&[Variant::WithoutFirstPage]);
}
