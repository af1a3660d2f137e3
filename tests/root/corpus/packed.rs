//! File systems that are made whole and only read, and those of flash memory.

use super::image::made;

images! {
    squashfs: made(8, "squashfs", "mksquashfs tree out -quiet -no-progress && put out");
    squashfs_xz: made(8, "squashfs", "mksquashfs tree out -comp xz -quiet -no-progress && put out");
    erofs: made(8, "erofs", "mkfs.erofs out tree && put out");
    erofs_lz4: made(8, "erofs", "mkfs.erofs -zlz4 out tree && put out");
    cramfs: made(8, "cramfs", "mkfs.cramfs tree out && put out");
    cramfs_of_the_other_byte_order: made(8, "cramfs", "mkfs.cramfs -N big tree out && put out");
    romfs: made(8, "romfs", "genromfs -f out -d tree && put out");
    iso9660: made(8, "iso9660", "genisoimage -quiet -o out tree && put out");
    iso9660_with_long_names: made(8, "iso9660", "genisoimage -quiet -R -J -o out tree && put out");
    iso9660_with_udf: made(8, "udf", "genisoimage -quiet -udf -o out tree && put out");
    iso9660_with_hfs: made(8, "iso9660", "genisoimage -quiet -hfs -o out tree && put out");
    iso9660_with_hfsplus:
        made(8, "iso9660", "xorriso -as mkisofs -quiet -hfsplus -o out tree && put out");
    iso9660_of_makefs: made(8, "iso9660", "makefs -t cd9660 out tree && put out");
    jffs2: made(8, "", "mkfs.jffs2 -r tree -o out && put out");
    jffs2_of_the_other_byte_order: made(8, "", "mkfs.jffs2 -b -p -r tree -o out && put out");
    ubifs: made(16, "ubifs", "mkfs.ubifs -r tree -m 2048 -e 126976 -c 100 -o out && put out");
    ubi: made(
        16,
        "ubi",
        "printf '%s\\n' '[v]' mode=ubi image=u vol_id=0 vol_type=dynamic vol_name=v >ini &&
         mkfs.ubifs -r tree -m 2048 -e 126976 -c 100 -o u &&
         ubinize -o out -m 2048 -p 128KiB ini && put out",
    );
}
