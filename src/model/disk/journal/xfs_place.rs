//! Where an xfs has its log, by its superblock. All its numbers are big-endian.

use super::bytes::{Parsed, be16, be32, be64, part};
use crate::disk::contents::uuid_text;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The log counts in these.
pub const SECTOR: u64 = 512;

/// The sixteen bytes of the UUID in the superblock.
pub const XFS_UUID: Range<usize> = 0x20..0x30;

/// How much of the disk's beginning tells it.
pub const XFS_SUPERBLOCK: usize = 512;

const MAGIC: &[u8; 4] = b"XFSB";

// Places in the superblock.
const BLOCK_SIZE: usize = 0x4;
const LOG_START: usize = 0x30;
const GROUP_BLOCKS: usize = 0x54;
const GROUPS: usize = 0x58;
const LOG_BLOCKS: usize = 0x60;
const VERSION: usize = 0x64;
const GROUP_SHIFT: usize = 0x7c;
const INCOMPAT: usize = 0xd8;

/// No xfs has a longer log: so its places are numbers that can be counted with.
const LONGEST_LOG: u64 = 1 << 31;

/// Features that change nothing of the log: those that Linux 7 knows, without a repair that is due, and without
/// zones, whose writes go elsewhere.
const KNOWN_INCOMPAT: u32 = 0x1e7 | 0x8;

/// Where a log stands, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPlace {
    /// The byte of the disk where it begins.
    pub at: u64,
    /// How many sectors of 512 bytes it has.
    pub sectors: u64,
}

impl LogPlace {
    /// A place in the log as one number that only grows: the log is written around and around, and each time
    /// is a cycle.
    pub fn position_of(&self, (cycle, sector): (u32, u32)) -> u64 {
        u64::from(cycle) * self.sectors + u64::from(sector)
    }

    /// Where it stands on the disk, in sectors: the first one, and how many.
    pub fn stretch(&self) -> (u64, u64) {
        (self.at / SECTOR, self.sectors)
    }

    pub fn cycle_and_sector(&self, position: u64) -> (u64, u64) {
        (position / self.sectors, position % self.sectors)
    }
}

/// Whether a disk begins as one with an xfs does.
pub fn is_xfs(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The UUID of an xfs, and where its log is, from its superblock. An error if its log does not tell what was
/// written last.
pub fn log_place(bytes: &[u8]) -> Parsed<(String, LogPlace)> {
    if !is_xfs(bytes) {
        return Err("it has no superblock of an xfs".to_owned());
    }
    if be16(bytes, VERSION)? & 0xf != 5 {
        return Err("it is an xfs without checksums".to_owned());
    }
    let unknown = be32(bytes, INCOMPAT)? & !KNOWN_INCOMPAT;
    if unknown != 0 {
        return Err(format!("its xfs has features that are not known here ({unknown:#x})"));
    }
    let start = be64(bytes, LOG_START)?;
    if start == 0 {
        return Err("its journal is on another device".to_owned());
    }
    let block_size = u64::from(be32(bytes, BLOCK_SIZE)?);
    let blocks = u64::from(be32(bytes, LOG_BLOCKS)?);
    let (group_blocks, groups) = (be32(bytes, GROUP_BLOCKS)?, be32(bytes, GROUPS)?);
    let shift = u32::from(part::<1>(bytes, GROUP_SHIFT)?[0]);
    let strange = || "its journal is not where it should be".to_owned();
    if !block_size.is_power_of_two() || !(SECTOR..=65536).contains(&block_size) || shift > 31 {
        return Err(strange());
    }
    let (group, block) = (start >> shift, start & ((1 << shift) - 1));
    let is_within = group < u64::from(groups) && block + blocks <= u64::from(group_blocks);
    if !is_within {
        return Err(strange());
    }
    let length = blocks * block_size;
    let at = (group * u64::from(group_blocks) + block).checked_mul(block_size);
    let at = at.filter(|at| length <= LONGEST_LOG && at.checked_add(length).is_some());
    let place = LogPlace { at: at.ok_or_else(strange)?, sectors: length / SECTOR };
    Ok((uuid_text(&part::<16>(bytes, XFS_UUID.start)?), place))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Of four groups with 10,240 blocks of 4 KiB each, and a log of 4,096 blocks in the third.
    pub(in super::super) fn superblock() -> Vec<u8> {
        let mut bytes = vec![0; XFS_SUPERBLOCK];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, MAGIC);
        put(BLOCK_SIZE, &4096_u32.to_be_bytes());
        put(XFS_UUID.start, &[7; 16]);
        put(LOG_START, &(2_u64 << 14 | 6).to_be_bytes());
        put(GROUP_BLOCKS, &10_240_u32.to_be_bytes());
        put(GROUPS, &4_u32.to_be_bytes());
        put(LOG_BLOCKS, &4096_u32.to_be_bytes());
        put(VERSION, &0xb4a5_u16.to_be_bytes());
        put(GROUP_SHIFT, &[14]);
        put(INCOMPAT, &0xb_u32.to_be_bytes());
        bytes
    }

    #[test]
    fn the_log_of_an_xfs_is_found() {
        let (uuid, place) = log_place(&superblock()).unwrap();
        assert_eq!(uuid, "07070707-0707-0707-0707-070707070707");
        assert_eq!(place, LogPlace { at: (2 * 10_240 + 6) * 4096, sectors: 32_768 });
        assert_eq!(place.position_of((3, 5)), 3 * 32_768 + 5);
        assert_eq!(place.cycle_and_sector(3 * 32_768 + 5), (3, 5));
    }

    #[test]
    fn places_that_cannot_be_counted_with_are_refused() {
        let with = |changes: &[(usize, &[u8])]| {
            let mut superblock = superblock();
            for (at, bytes) in changes {
                superblock[*at..*at + bytes.len()].copy_from_slice(bytes);
            }
            log_place(&superblock)
        };
        let all = [0xff; 4];
        let of_two_gib = 0x8_0000_u32.to_be_bytes();
        let more = 0x8_0001_u32.to_be_bytes();
        assert!(with(&[(GROUP_BLOCKS, &all), (LOG_BLOCKS, &of_two_gib)]).is_ok());
        // The last group of as many as there may be, with blocks of 512 bytes to 64 KiB.
        let last = (0xffff_fffe_u64 << 31).to_be_bytes();
        let far: [(usize, &[u8]); 4] =
            [(GROUP_BLOCKS, &all), (GROUPS, &all), (GROUP_SHIFT, &[31]), (LOG_START, &last)];
        for changes in [
            [(GROUP_BLOCKS, &all[..]), (LOG_BLOCKS, &more)].to_vec(),
            far.to_vec(),
            [&far[..], &[(BLOCK_SIZE, &[0, 1, 0, 0])]].concat(),
        ] {
            assert!(with(&changes).unwrap_err().contains("not where"), "{changes:?}");
        }
    }

    #[test]
    fn an_xfs_whose_log_does_not_tell_is_refused() {
        for (at, bytes, words) in [
            (0, vec![0], "no superblock"),
            (VERSION, vec![0xb4, 0xa4], "without checksums"),
            (INCOMPAT, vec![0, 0, 0, 0x1b], "(0x10)"),
            (INCOMPAT, vec![0, 0, 2, 0xb], "(0x200)"),
            (LOG_START, vec![0; 8], "another device"),
            (LOG_START, vec![0xff; 8], "not where"),
            (BLOCK_SIZE, vec![0, 0, 0, 3], "not where"),
            (LOG_BLOCKS, vec![0xff; 4], "not where"),
            (GROUP_SHIFT, vec![64], "not where"),
        ] {
            let mut superblock = superblock();
            superblock[at..at + bytes.len()].copy_from_slice(&bytes);
            let why = log_place(&superblock).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
        assert!(log_place(b"XFSB").is_err());
    }
}
