//! File systems of other systems.

use super::image::made;
use super::variant::Variant;

images! {
    ntfs: made(64, "ntfs", "mkfs.ntfs -q -Q -F disk");
    ntfs_64k: made(64, "ntfs", "mkfs.ntfs -q -Q -F -c 65536 disk");
    exfat: made(64, "exfat", "mkfs.exfat disk");
    exfat_aligned: made(64, "exfat", "mkfs.exfat -c 32K -b 4M disk");
    fat12: made(4, "vfat", "mkfs.vfat -F 12 disk")
        .blank_when(&[Variant::WithoutFirstPage]);
    fat16: made(32, "vfat", "mkfs.vfat -F 16 disk");
    fat32: made(64, "vfat", "mkfs.vfat -F 32 disk");
    fat32_with_sectors_of_4k: made(300, "vfat", "mkfs.vfat -F 32 -S 4096 disk");
    fat_of_atari: made(32, "", "mkfs.vfat -A disk");
    fat_in_a_partition_table_of_itself: made(32, "vfat", "mkfs.vfat --mbr=yes disk");
    hfs: made(16, "hfs", "hformat -l corpus disk");
    // Not in every Debian.
    hfsplus: made(64, "hfsplus", "mkfs.hfsplus disk");
    apfs: made(600, "apfs", "mkapfs disk");
    udf: made(64, "udf", "mkudffs --utf8 -b 512 disk");
    udf_2k: made(64, "udf", "mkudffs -b 2048 disk");
    udf_of_a_cd: made(64, "udf", "mkudffs --media-type=cdr disk");
    udf_with_a_boot_sector: made(64, "udf", "mkudffs -b 4096 --bootarea=mbr disk");
    ufs_1: made(16, "ufs", "makefs -t ffs -s 16m -o version=1 disk tree");
    ufs_2: made(16, "ufs", "makefs -t ffs -s 16m -o version=2 disk tree");
    cpm: made(4, "", "mkfs.cpm -f ibm-3740 out && put out");
}
