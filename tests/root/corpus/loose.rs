//! Files that were written straight to a disk: images of virtual machines, and backups.

use super::image::made;
use super::variant::Variant::{WithoutFirstPage, WithoutFirstSector};

images! {
    qcow2: made(16, "", "qemu-img create -q -f qcow2 out 16M && put out");
    vmdk: made(16, "", "qemu-img create -q -f vmdk out 16M && put out");
    vdi: made(16, "", "qemu-img create -q -f vdi out 16M && put out")
        .blank_when(&[WithoutFirstPage]);
    vhd: made(16, "", "qemu-img create -q -f vpc out 16M && put out")
        .blank_when(&[WithoutFirstPage]);
    vhdx: made(16, "", "qemu-img create -q -f vhdx out 16M && put out");
    qed: made(16, "", "qemu-img create -q -f qed out 16M && put out")
        .blank_when(&[WithoutFirstSector, WithoutFirstPage]);
    parallels: made(16, "", "qemu-img create -q -f parallels out 16M && put out")
        .blank_when(&[WithoutFirstSector, WithoutFirstPage]);
    tar: made(8, "", "tar cf out tree && put out");
    tar_gz: made(8, "", "tar czf out tree && put out");
    cpio: made(8, "", "find tree | cpio -o --quiet >out && put out");
    zstd: made(8, "", "zstd -q tree/large -o out && put out");
}
