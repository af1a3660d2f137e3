//! Members of RAID arrays, from bytes: `mdadm --create` makes no superblock without the kernel's
//! md driver, and the others are made by firmware.
//!
//! Those at the end of a disk leave its beginning to what is in the array: a mirror's member
//! looks like the file system itself. Mounted alone, the members drift apart.

use super::image::{Image, by_hand};
use super::variant::Variant::{FirstHalf, WithoutFirstPage, WithoutFirstSector};
use crate::files;
use crate::holders::run;
use std::fs;
use std::path::Path;

/// udev gives such disks to mdadm, which keeps them.
fn member(shows: &'static str, write: fn(&Path)) -> Image {
    by_hand(64, shows, write).grabbed_by_udev()
}

images! {
    md_0_90: member("linux_raid_member", put_md_0_90).blank_when(&[FirstHalf]);
    md_1_0: member("linux_raid_member", put_md_1_0).blank_when(&[FirstHalf]);
    md_1_1: member("linux_raid_member", |disk| put_md_1(disk, 1, 0))
        .blank_when(&[WithoutFirstSector, WithoutFirstPage]);
    md_1_2: member("linux_raid_member", |disk| put_md_1(disk, 2, 8));
    md_0_90_with_an_ext4: member("linux_raid_member", |disk| {
        put_ext4(disk);
        put_md_0_90(disk);
    });
    md_1_0_with_an_ext4: member("linux_raid_member", |disk| {
        put_ext4(disk);
        put_md_1_0(disk);
    });
    imsm: member("isw_raid_member", put_imsm).blank_when(&[FirstHalf]);
    imsm_with_an_ext4: member("isw_raid_member", |disk| {
        put_ext4(disk);
        put_imsm(disk);
    });
    ddf: member("ddf_raid_member", put_ddf).blank_when(&[FirstHalf]);
    ddf_with_an_ext4: member("ddf_raid_member", |disk| {
        put_ext4(disk);
        put_ddf(disk);
    });
    promise: member("promise_fasttrack_raid_member", |disk| {
        files::write_at(disk, size(disk) - 63 * 512, b"Promise Technology, Inc.");
    }).blank_when(&[FirstHalf]);
    highpoint: member("hpt37x_raid_member", |disk| {
        files::write_at(disk, 9 * 512 + 32, &0x5a78_16f0_u32.to_le_bytes());
    });
}

/// In the first 48 MiB.
fn put_ext4(disk: &Path) {
    run("mkfs.ext4", &["-q", disk.to_str().unwrap(), "48M"]);
}

fn size(disk: &Path) -> u64 {
    fs::metadata(disk).unwrap().len()
}

/// A block of little-endian numbers at their places.
struct Block(Vec<u8>);

impl Block {
    fn new(length: usize) -> Self {
        Self(vec![0; length])
    }

    fn bytes(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn u32(self, at: usize, number: u32) -> Self {
        self.bytes(at, &number.to_le_bytes())
    }

    fn u64(self, at: usize, number: u64) -> Self {
        self.bytes(at, &number.to_le_bytes())
    }

    /// All 32-bit numbers together.
    fn sum(&self) -> u64 {
        let words = self.0.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        words.map(u64::from).sum()
    }

    /// The sum as md folds it.
    fn folded_sum(&self) -> u32 {
        let sum = self.sum();
        u32::try_from((sum & 0xffff_ffff) + (sum >> 32)).unwrap()
    }
}

const MD_MAGIC: u32 = 0xa92b_4efc;
const UUID: &[u8; 16] = b"incloud-disk-md!";

/// `struct mdp_superblock_s`, in 64 KiB blocks the last whole one: half of a mirror whose other
/// half is missing.
fn put_md_0_90(disk: &Path) {
    let sb = Block::new(4096)
        .u32(0, MD_MAGIC)
        .u32(8, 90)
        .bytes(20, &UUID[..4])
        .bytes(52, &UUID[4..])
        // Made now or then; level, KiB per member, members.
        .u32(24, 1_700_000_000)
        .u32(28, 1)
        .u32(32, 65_408)
        .u32(36, 1)
        .u32(40, 2)
        // Changed, clean, of 1 active and working member, 1 failed.
        .u32(128, 1_700_000_000)
        .u32(132, 1)
        .u32(136, 1)
        .u32(140, 1)
        .u32(144, 1)
        .u32(156, 1)
        // Member 0, and that this is it: on device 8:16, active and in sync.
        .u32(512 + 4, 8)
        .u32(512 + 8, 16)
        .u32(512 + 16, 6)
        .u32(3968 + 4, 8)
        .u32(3968 + 8, 16)
        .u32(3968 + 16, 6);
    let sum = sb.folded_sum();
    let last = size(disk) / 65_536 * 65_536 - 65_536;
    files::write_at(disk, last, &sb.u32(152, sum).0);
}

/// At least 8 KiB before the end, at a multiple of 4 KiB.
fn put_md_1_0(disk: &Path) {
    let sectors = size(disk) / 512;
    put_md_1(disk, 0, (sectors - 16) / 8 * 8);
}

/// `struct mdp_superblock_1`; the data begins at 0 if the superblock stands at the end.
fn put_md_1(disk: &Path, minor: u32, at_sector: u64) {
    let data = if minor == 0 { 0 } else { 2048 };
    let sectors = size(disk) / 512 - 2048;
    let sb = Block::new(256 + 4)
        .u32(0, MD_MAGIC)
        .u32(4, 1)
        .bytes(16, UUID)
        .bytes(32, b"corpus")
        .u64(64, 1_700_000_000)
        .u32(72, 1)
        .u64(80, sectors)
        .u32(92, 2)
        .u64(128, data)
        .u64(136, sectors)
        .u64(144, at_sector)
        .bytes(168, UUID)
        .u64(192, 1_700_000_000)
        .u64(200, 1)
        .u64(208, u64::MAX)
        // Two roles: this is member 0, the other one is missing.
        .u32(220, 2)
        .u32(256, 0xfffe_0000);
    let sum = sb.folded_sum();
    files::write_at(disk, at_sector * 512, &sb.u32(216, sum).0);
}

/// Intel's: the anchor stands in the last sector but one.
fn put_imsm(disk: &Path) {
    let sectors = u32::try_from(size(disk) / 512).unwrap();
    let anchor = Block::new(512)
        .bytes(0, b"Intel Raid ISM Cfg Sig. 1.0.00")
        .u32(36, 264)
        .u32(40, 0x1234_5678)
        .u32(44, 1)
        // One disk, no array: a spare, configured and usable.
        .bytes(56, &[1])
        .bytes(216, b"CORPUS-1")
        .u32(232, sectors)
        .u32(240, 0x5);
    let sum = u32::try_from(anchor.sum() & 0xffff_ffff).unwrap();
    files::write_at(disk, size(disk) - 1024, &anchor.u32(32, sum).0);
}

/// The industry's Disk Data Format: an anchor in the last sector, which leads to a header. Its
/// numbers are big-endian.
fn put_ddf(disk: &Path) {
    let header_at = size(disk) / 512 - 2048;
    let header = |kind: u8| {
        Block::new(512)
            .bytes(0, &0xde11_de11_u32.to_be_bytes())
            .bytes(8, b"Linux-MDincloud-disk-cor")
            .bytes(32, b"02.00.00")
            .bytes(96, &header_at.to_be_bytes())
            .bytes(104, &u64::MAX.to_be_bytes())
            .bytes(112, &[kind])
            .0
    };
    // Type 0 is the anchor, 1 the primary header.
    files::write_at(disk, size(disk) - 512, &header(0));
    files::write_at(disk, header_at * 512, &header(1));
}
