//! What no tool of a Debian makes here, from bytes: each the signature of its format at its
//! place, no more.

use super::image::{Image, by_hand};
use super::variant::Variant::{FirstHalf, WithoutFirstPage, WithoutFirstSector};
use crate::files;
use std::path::Path;

/// A row of bytes at an offset.
macro_rules! bytes {
    ($shows:literal, $($offset:expr => $bytes:expr),+) => {
        by_hand(64, $shows, |disk: &Path| { $(files::write_at(disk, $offset, $bytes);)+ })
    };
}

/// A signature in the first sector, and nothing else.
fn in_first_sector(image: Image) -> Image {
    image.blank_when(&[WithoutFirstSector, WithoutFirstPage])
}

/// A signature in the sectors after the first one, up to 4 KiB.
fn in_first_page(image: Image) -> Image {
    image.blank_when(&[WithoutFirstPage])
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

images! {
    ceph_bluestore: in_first_sector(bytes!("ceph_bluestore", 0 => b"bluestore block device\n"));
    oracle_asm: in_first_sector(bytes!("oracleasm", 32 => b"ORCLDISK"));
    /// The first byte stands just behind the first MiB.
    vmfs_member: bytes!("VMFS_volume_member", MIB => b"\x0d\xd0\x01\xc0\x05\0\0\0");
    vmfs: bytes!(
        "VMFS_volume_member",
        MIB => b"\x0d\xd0\x01\xc0\x05\0\0\0",
        2 * MIB => b"\x5e\xf1\xab\x2f\x05\0\0\0"
    );
    zfs: by_hand(64, "zfs_member", put_zfs);
    /// Of the copy at the end alone, as after an overwritten beginning.
    zfs_without_its_beginning: by_hand(64, "", |disk| {
        put_zfs(disk);
        files::write_at(disk, 0, &vec![0; 512 * 1024]);
    }).blank_when(&[FirstHalf]);
    stratis: bytes!(
        "",
        516 => b"!Stra0tis\x86\xff\x02^\x41rh",
        4096 + 516 => b"!Stra0tis\x86\xff\x02^\x41rh"
    );
    vdo: in_first_sector(bytes!("vdo", 0 => b"dmvdo001"));
    bcachefs_superblock: bytes!(
        "",
        4096 + 24 => b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"
    );
    dm_integrity: in_first_sector(bytes!("DM_integrity", 0 => b"integrt\0\x05"));
    dm_snapshot: in_first_sector(bytes!("DM_snapshot_cow", 0 => b"SnAp\x01\0\0\0"));
    lvm_1: in_first_sector(bytes!("LVM1_member", 0 => b"HM\x01\0"));
    bitlocker: in_first_sector(bytes!("", 0 => b"\xeb\x58\x90-FVE-FS-", 510 => b"\x55\xaa"));
    refs: in_first_sector(bytes!("", 0 => b"\0\0\0ReFS\0\0\0\0\0"));
    windows_dynamic_disk: in_first_page(
        bytes!("", 510 => b"\x55\xaa", 6 * 512 => b"PRIVHEAD\0\x02\0\x0c"),
    );
    vxfs: in_first_page(bytes!("vxfs", KIB => b"\xf5\xfc\x01\xa5\x06\0\0\0"));
    hfsplus_header: in_first_page(bytes!("", KIB => b"H+\0\x04\x80\0\x21\0"));
    hpfs: bytes!("", 8 * KIB => b"\x49\xe8\x95\xf9");
    suspended_machine: in_first_page(bytes!("swsuspend", 4086 => b"S1SUSPEND"));
    swap_of_old: in_first_page(bytes!("swap", 4086 => b"SWAP-SPACE"));
    /// Nothing but the backup of a boot sector, at the very end.
    last_sector: by_hand(64, "", |disk| {
        files::write_at(disk, 64 * MIB - 512, b"\xeb\x52\x90NTFS    ");
    }).blank_when(&[FirstHalf]);
}

/// Two labels at the beginning and two at the end, each of 256 KiB, with uberblocks in the second
/// half of each.
fn put_zfs(disk: &Path) {
    const LABEL: u64 = 256 * KIB;
    let end = 64 * MIB;
    for label in [0, LABEL, end - 2 * LABEL, end - LABEL] {
        // An nvlist in XDR: the pool's version.
        files::write_at(disk, label + 16 * KIB, b"\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\0\0\x24");
        for uberblock in 0..8_u64 {
            let mut bytes = 0x00ba_b10c_u64.to_le_bytes().to_vec();
            bytes.extend(5000_u64.to_le_bytes());
            bytes.extend((uberblock + 1).to_le_bytes());
            files::write_at(disk, label + LABEL / 2 + uberblock * KIB, &bytes);
        }
    }
}
