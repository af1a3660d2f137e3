//! Partition tables and disk labels.

use super::image::made;
use super::variant::Variant::{FirstHalf, WithoutFirstPage, WithoutFirstSector};

images! {
    mbr: made(16, "dos", "echo 'start=2048, type=83' | sfdisk -q disk")
        .blank_when(&[WithoutFirstSector, WithoutFirstPage]);
    mbr_without_partitions: made(16, "dos", "echo 'label: dos' | sfdisk -q disk")
        .blank_when(&[WithoutFirstSector, WithoutFirstPage]);
    gpt: made(16, "gpt", "echo 'start=2048' | sfdisk -q --label gpt disk");
    gpt_hybrid: made(16, "gpt", "sgdisk -n 1 -h 1 disk");
    sun: made(16, "sun", "echo 'label: sun' | sfdisk -q disk")
        .blank_when(&[WithoutFirstSector, WithoutFirstPage]);
    bsd: made(16, "", "parted -s disk mklabel bsd")
        .blank_when(&[WithoutFirstSector, WithoutFirstPage]);
    mac: made(16, "mac", "parted -s disk mklabel mac").blank_when(&[WithoutFirstPage]);
    // Only the copy at the end is left.
    gpt_without_its_beginning: made(
        16,
        "",
        "sgdisk -n 1 disk && dd if=/dev/zero of=disk bs=512 count=34 conv=notrunc status=none",
    ).blank_when(&[FirstHalf]);
}
