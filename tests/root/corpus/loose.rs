//! Files that were written straight to a disk: images of virtual machines, and backups.

use super::image::made;
use super::variant::Variant::WithoutFirstPage;

images! {
    qcow2: made(16, "", "qemu-img create -q -f qcow2 out 16M && put out");
    vhd: made(16, "", "qemu-img create -q -f vpc out 16M && put out")
        .blank_when(&[WithoutFirstPage]);
    tar: made(8, "", "tar cf out tree && put out");
    tar_gz: made(8, "", "tar czf out tree && put out");
    zstd: made(8, "", "zstd -q tree/large -o out && put out");
}
