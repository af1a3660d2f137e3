//! File systems of other systems.

use super::image::made;
use super::variant::Variant;

images! {
    ntfs: made(64, "ntfs", "mkfs.ntfs -q -Q -F disk");
    exfat: made(64, "exfat", "mkfs.exfat disk");
    fat12: made(4, "vfat", "mkfs.vfat -F 12 disk")
        .blank_when(&[Variant::WithoutFirstPage]);
    fat32: made(64, "vfat", "mkfs.vfat -F 32 disk");
    fat_of_atari: made(32, "", "mkfs.vfat -A disk");
    hfs: made(16, "hfs", "hformat -l corpus disk");
    // Not in every Debian.
    hfsplus: made(64, "hfsplus", "mkfs.hfsplus disk");
    apfs: made(600, "apfs", "mkapfs disk");
    udf: made(64, "udf", "mkudffs --utf8 -b 512 disk");
    ufs_2: made(16, "ufs", "makefs -t ffs -s 16m -o version=2 disk tree");
    cpm: made(4, "", "mkfs.cpm -f ibm-3740 out && put out");
}
