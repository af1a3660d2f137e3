//! File systems that are made whole and only read, and those of flash memory.

use super::image::made;

images! {
    squashfs: made(8, "squashfs", "mksquashfs tree out -quiet -no-progress && put out");
    erofs: made(8, "erofs", "mkfs.erofs out tree && put out");
    cramfs: made(8, "cramfs", "mkfs.cramfs tree out && put out");
    romfs: made(8, "romfs", "genromfs -f out -d tree && put out");
    iso9660: made(8, "iso9660", "genisoimage -quiet -o out tree && put out");
    jffs2: made(8, "", "mkfs.jffs2 -r tree -o out && put out");
    ubifs: made(16, "ubifs", "mkfs.ubifs -r tree -m 2048 -e 126976 -c 100 -o out && put out");
    ubi: made(
        16,
        "ubi",
        "printf '%s\\n' '[v]' mode=ubi image=u vol_id=0 vol_type=dynamic vol_name=v >ini &&
         mkfs.ubifs -r tree -m 2048 -e 126976 -c 100 -o u &&
         ubinize -o out -m 2048 -p 128KiB ini && put out",
    );
}
