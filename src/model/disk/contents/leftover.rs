//! What a mkfs that was killed leaves behind, told from everything else: only that is overwritten.
//!
//! The maker of xfs and that of btrfs put the file system's UUID and a checksum into each structure,
//! and nothing else is nonzero. The maker of ext does not, but writes the same bytes each time it is
//! told the same: there the disk is compared with what it makes now.

use super::bytes::{first_not_zero, le16, le32};
use super::ext;
use crate::disk::file_system::FsType;
use crate::error::Result;

/// Reads so many bytes of the disk from an offset.
pub type ReadAt<'a> = dyn FnMut(u64, usize) -> Result<Vec<u8>> + 'a;

/// The smallest piece that a disk writes.
const SECTOR: usize = 512;

/// How long the structures of xfs and btrfs may be: sectors, blocks, inodes, nodes. Each begins at a
/// multiple of its length.
const LENGTHS: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/// Structures of xfs (version 5): magic, and where UUID and checksum stand.
const XFS: [(&[u8], usize, usize); 11] = [
    (b"XFSB", 32, 224),
    (b"XAGF", 64, 216),
    (b"XAGI", 296, 312),
    (b"XAFL", 8, 32),
    (b"AB3B", 32, 52),
    (b"AB3C", 32, 52),
    (b"IAB3", 32, 52),
    (b"FIB3", 32, 52),
    (b"RMB3", 32, 52),
    (b"R3FC", 32, 52),
    (b"IN", 160, 100),
];

/// The first byte of a stretch of the disk, not all zero, that the maker of this xfs or btrfs did not
/// write; nothing if it wrote all of it.
pub fn stranger_by_marks(
    kind: FsType,
    uuid: &[u8; 16],
    (at, bytes): (u64, &[u8]),
    size: u64,
    read: &mut ReadAt<'_>,
) -> Result<Option<u64>> {
    let mut position = 0;
    while position < bytes.len() {
        let sector = &bytes[position..bytes.len().min(position + SECTOR)];
        let Some(first) = first_not_zero(sector) else {
            position += SECTOR;
            continue;
        };
        let here = at + position as u64;
        let Some(end) = end_of_structure(kind, uuid, here, size, read)? else {
            return Ok(Some(here + first as u64));
        };
        position += usize::try_from(end - here).unwrap_or(usize::MAX);
    }
    Ok(None)
}

/// Where the structure ends that this sector is a part of.
fn end_of_structure(
    kind: FsType,
    uuid: &[u8; 16],
    here: u64,
    size: u64,
    read: &mut ReadAt<'_>,
) -> Result<Option<u64>> {
    for length in LENGTHS {
        let begin = here - here % length as u64;
        let end = begin + length as u64;
        if end > size {
            break;
        }
        let bytes = read(begin, length)?;
        let is_ours = match kind {
            FsType::Xfs => is_of_xfs(&bytes, uuid),
            FsType::Btrfs => is_of_btrfs(&bytes, uuid),
            FsType::Ext3 | FsType::Ext4 => false,
        };
        if is_ours {
            return Ok(Some(end));
        }
    }
    Ok(None)
}

fn is_of_xfs(bytes: &[u8], uuid: &[u8; 16]) -> bool {
    let is_checked = |(magic, id, checksum): &(&[u8], usize, usize)| {
        bytes.starts_with(magic)
            && bytes[*id..].starts_with(uuid)
            && le32(bytes, *checksum) == checksum_without(bytes, *checksum)
    };
    XFS.iter().any(is_checked) || is_empty_log(bytes, uuid)
}

fn checksum_without(bytes: &[u8], field: usize) -> u32 {
    let begin = crc32c::crc32c(&bytes[..field]);
    let begin = crc32c::crc32c_append(begin, &[0; 4]);
    crc32c::crc32c_append(begin, &bytes[field + 4..])
}

/// The log as it is made: one record, which says that the file system was unmounted.
fn is_empty_log(bytes: &[u8], uuid: &[u8; 16]) -> bool {
    /// The number of the round in place of an id, a length of 8, and the log's own client.
    const UNMOUNTED: [u8; 12] = [0, 0, 0, 1, 0, 0, 0, 8, 0xaa, 0x20, 0, 0];
    const MAGIC: u16 = 0x556e;
    if bytes.len() != 2 * SECTOR {
        return false;
    }
    let (header, record) = bytes.split_at(SECTOR);
    let is_zero = |bytes: &[u8]| first_not_zero(bytes).is_none();
    let magic = u16::from_ne_bytes([record[12], record[13]]);
    header.starts_with(&[0xfe, 0xed, 0xba, 0xbe])
        && header[304..].starts_with(uuid)
        && is_zero(&header[48..300])
        && is_zero(&header[324..])
        && record.starts_with(&UNMOUNTED)
        && magic == MAGIC
        && is_zero(&record[14..])
}

/// A superblock or a node.
fn is_of_btrfs(bytes: &[u8], uuid: &[u8; 16]) -> bool {
    bytes[32..].starts_with(uuid)
        && le32(bytes, 0) == crc32c::crc32c(&bytes[32..])
        && bytes[4..32].iter().all(|byte| *byte == 0)
}

/// Where the first inodes of an ext file system stand. Their checksums are the only bytes that its
/// maker writes more than once with different values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstInodes {
    table: u64,
    length: u64,
}

impl FirstInodes {
    /// Read from the beginning of a finished one; none where a superblock has a block size that no ext
    /// file system has.
    #[must_use]
    pub fn of(head: &[u8]) -> Option<Self> {
        const FIXED_LENGTH: u16 = 128;
        let sb = head.get(1024..2048).filter(|sb| le16(sb, 0x38) == 0xef53)?;
        let block = ext::block_size(sb)?;
        let groups = usize::try_from((u64::from(le32(sb, 0x14)) + 1) * block).ok()?;
        let table = u64::from(le32(head.get(groups..groups + 12)?, 8)) * block;
        Some(Self { table, length: u64::from(le16(sb, 0x58).max(FIXED_LENGTH)) })
    }

    fn is_checksum(self, at: u64) -> bool {
        const RESERVED: u64 = 11;
        const CHECKSUM: std::ops::Range<u64> = 124..126;
        at >= self.table
            && at < self.table + RESERVED * self.length
            && CHECKSUM.contains(&((at - self.table) % self.length))
    }
}

/// The first byte of a stretch that is neither zero nor as in the same ext file system, finished.
#[must_use]
pub fn stranger_by_copy(
    (at, bytes): (u64, &[u8]),
    finished: &[u8],
    inodes: FirstInodes,
) -> Option<u64> {
    /// What the maker changes by itself is whole fields, and zero before.
    const FIELD: usize = 16;
    let pieces = bytes.chunks(FIELD).zip(finished.chunks(FIELD)).enumerate();
    for (n, (found, wanted)) in pieces {
        if found == wanted || first_not_zero(found).is_none() {
            continue;
        }
        let begin = at + (n * FIELD) as u64;
        let mut places = (begin..).zip(found.iter().zip(wanted));
        let other = places.find(|(at, (one, two))| one != two && !inodes.is_checksum(*at));
        if let Some((at, _)) = other {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: [u8; 16] = *b"0123456789abcdef";

    fn stranger(kind: FsType, disk: &[u8]) -> Option<u64> {
        let mut read = |at: u64, length: usize| {
            let at = usize::try_from(at).unwrap();
            Ok(disk[at..at + length].to_vec())
        };
        stranger_by_marks(kind, &UUID, (0, disk), disk.len() as u64, &mut read).unwrap()
    }

    fn xfs_sector(magic: &[u8], id: usize, checksum: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        bytes[..magic.len()].copy_from_slice(magic);
        bytes[id..id + 16].copy_from_slice(&UUID);
        let sum = checksum_without(&bytes, checksum);
        bytes[checksum..checksum + 4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn structures_of_xfs_are_known_by_uuid_and_checksum() {
        for (magic, id, checksum) in XFS {
            for length in [512, 4096] {
                let mut disk = vec![0; 8192];
                disk[4096..4096 + length].copy_from_slice(&xfs_sector(magic, id, checksum, length));
                assert_eq!(stranger(FsType::Xfs, &disk), None);
                assert_eq!(stranger(FsType::Btrfs, &disk), Some(4096), "of another kind");
                for strange in [4096, 4096 + id, 4096 + length - 1] {
                    let mut disk = disk.clone();
                    disk[strange] ^= 1;
                    assert!(stranger(FsType::Xfs, &disk).is_some(), "{strange}");
                }
                disk[4096 - 1] = 1;
                assert_eq!(stranger(FsType::Xfs, &disk), Some(4095), "beside it");
            }
        }
    }

    /// The sum alone, or the mark alone, is not enough.
    #[test]
    fn a_structure_of_another_xfs_is_a_stranger() {
        let (magic, id, checksum) = XFS[1];
        let sum = |mut bytes: Vec<u8>| {
            let sum = checksum_without(&bytes, checksum);
            bytes[checksum..checksum + 4].copy_from_slice(&sum.to_le_bytes());
            bytes
        };
        let ours = xfs_sector(magic, id, checksum, 512);
        assert_eq!(stranger(FsType::Xfs, &ours), None);
        for strange in [0, id] {
            let mut other = ours.clone();
            other[strange] ^= 1;
            assert!(stranger(FsType::Xfs, &sum(other)).is_some(), "{strange}");
        }
    }

    #[test]
    fn what_stands_behind_a_structure_is_looked_at_once() {
        let (magic, id, checksum) = XFS[0];
        let mut disk = vec![0; 4096];
        disk[512..1024].copy_from_slice(&xfs_sector(magic, id, checksum, 512));
        disk[1100] = 1;
        let mut reads = Vec::new();
        let mut read = |at: u64, length: usize| {
            reads.push((at, length));
            let at = usize::try_from(at).unwrap();
            Ok(disk[at..at + length].to_vec())
        };
        let found = stranger_by_marks(FsType::Xfs, &UUID, (0, &disk), 4096, &mut read);
        assert_eq!(found, Ok(Some(1100)));
        let of_the_first = reads.iter().filter(|(at, length)| (*at, *length) == (512, 512)).count();
        assert_eq!(of_the_first, 1, "{reads:?}");
    }

    #[test]
    fn an_empty_log_is_known_by_all_of_its_bytes() {
        let mut log = vec![0; 1024];
        log[..4].copy_from_slice(&[0xfe, 0xed, 0xba, 0xbe]);
        log[304..320].copy_from_slice(&UUID);
        log[512..524].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 8, 0xaa, 0x20, 0, 0]);
        log[524..526].copy_from_slice(&0x556e_u16.to_ne_bytes());
        assert!(is_empty_log(&log, &UUID));
        assert_eq!(stranger(FsType::Xfs, &log), None);
        let with = |at: usize| {
            let mut log = log.clone();
            log[at] ^= 1;
            is_empty_log(&log, &UUID)
        };
        for free in [4, 47, 300, 320, 323] {
            assert!(with(free), "{free}");
        }
        for strange in [0, 48, 299, 304, 319, 324, 511, 512, 523, 524, 526, 1023] {
            assert!(!with(strange), "{strange}");
        }
        log.resize(2048, 0);
        assert!(!is_empty_log(&log, &UUID) && !is_empty_log(&log[..512], &UUID));
    }

    #[test]
    fn a_node_of_btrfs_is_known_from_any_part_of_it() {
        let mut node = vec![7; 16384];
        node[4..32].fill(0);
        node[32..48].copy_from_slice(&UUID);
        let sum = crc32c::crc32c(&node[32..]);
        node[..4].copy_from_slice(&sum.to_le_bytes());
        let mut disk = vec![0; 65536];
        disk[16384..32768].copy_from_slice(&node);
        assert_eq!(stranger(FsType::Btrfs, &disk), None);
        let whole = disk.clone();
        let mut read = |at: u64, length: usize| {
            let at = usize::try_from(at).unwrap();
            Ok(whole[at..at + length].to_vec())
        };
        let part = (20480, &whole[20480..24576]);
        let found = stranger_by_marks(FsType::Btrfs, &UUID, part, 65536, &mut read);
        assert_eq!(found, Ok(None));
        disk[20000] ^= 1;
        assert_eq!(stranger(FsType::Btrfs, &disk), Some(16384));
    }

    #[test]
    fn a_block_size_that_no_ext_has_leads_to_no_inodes() {
        let mut head = vec![0; 68 * 1024];
        head[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
        // The first group, and in it the table's block.
        head[1024 + 0x14..1024 + 0x18].fill(0xff);
        for shift in [7, 21, 22, 32, 53, 54, 63, 64, u32::MAX] {
            head[1024 + 0x18..1024 + 0x1c].copy_from_slice(&shift.to_le_bytes());
            assert_eq!(FirstInodes::of(&head), None, "{shift}");
        }
        head[1024 + 0x14..1024 + 0x18].fill(0);
        let tables = [(0, 1024), (2, 4096), (6, 65536)];
        for (shift, block) in tables {
            head[1024 + 0x18..1024 + 0x1c].copy_from_slice(&u32::to_le_bytes(shift));
            let groups = usize::try_from(block).unwrap();
            let before = head.clone();
            head[groups + 8..groups + 12].copy_from_slice(&5_u32.to_le_bytes());
            assert_eq!(FirstInodes::of(&head).unwrap().table, 5 * block, "{shift}");
            head = before;
        }
    }

    #[test]
    fn the_first_inodes_stand_where_the_first_group_says() {
        let mut head = vec![0; 8192];
        head[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
        head[1024 + 0x14] = 1;
        head[1024 + 0x58..1024 + 0x5a].copy_from_slice(&300_u16.to_le_bytes());
        head[2048 + 8] = 37;
        let inodes = FirstInodes { table: 37 * 1024, length: 300 };
        assert_eq!(FirstInodes::of(&head), Some(inodes));
        let begin = 37 * 1024;
        for (at, is_checksum) in [
            (begin + 123, false),
            (begin + 124, true),
            (begin + 125, true),
            (begin + 126, false),
            (begin + 10 * 300 + 124, true),
            (begin + 11 * 300 + 124, false),
            (begin - 300 + 124, false),
        ] {
            assert_eq!(inodes.is_checksum(at), is_checksum, "{at}");
        }
        head[1024 + 0x58..1024 + 0x5a].fill(0);
        assert_eq!(FirstInodes::of(&head).map(|inodes| inodes.length), Some(128), "of the oldest");
        head[1024 + 0x38] = 0;
        assert_eq!(FirstInodes::of(&head), None, "no ext");
    }

    #[test]
    fn an_ext_is_zero_or_as_its_copy_but_for_checksums() {
        let inodes = FirstInodes { table: 4096, length: 256 };
        let mut finished: Vec<u8> =
            (0..8192_u32).map(|n| u8::try_from(n % 250 + 1).unwrap()).collect();
        // What stands beside a checksum is zero in what the maker writes.
        finished[4096 + 256 + 112..4096 + 256 + 124].fill(0);
        finished[4096 + 256 + 126..4096 + 256 + 128].fill(0);
        let compare = |disk: &[u8]| stranger_by_copy((0, disk), &finished, inodes);
        assert_eq!(compare(&finished), None);
        let mut half = finished.clone();
        half[2048..6144].fill(0);
        assert_eq!(compare(&half), None);
        half[4096 + 256 + 124] = 9;
        assert_eq!(compare(&half), None, "a checksum of an inode that is not there yet");
        half[4096 + 256 + 126] = 9;
        assert_eq!(compare(&half), Some(4096 + 256 + 126));
        let mut other = finished.clone();
        other[5] ^= 1;
        assert_eq!(compare(&other), Some(5));
        let mut late = finished.clone();
        late[4096 + 11 * 256 + 124] ^= 1;
        assert_eq!(
            compare(&late),
            Some(4096 + 11 * 256 + 124),
            "the twelfth belongs to no structure"
        );
    }
}
