//! Which of two is believed where a disk shows a file system and the mark of a container (a RAID, a
//! volume manager, an encryption) at once.
//!
//! A mark of a few bytes may be a file's data, and a superblock may be left from before the
//! container was made. So a mark is believed when its whole structure is right: fields, place,
//! checksum. One that is not is believed where the file system cannot have written it: outside of
//! what it covers, before its first data, or if the file system does not prove itself.

use super::bytes::{be16, be32, be64, le16, le32, le64};
use super::samples::Read;
use super::signatures::{Shape, Signature, bytes_at};
use crate::disk::file_system::{FileSystem, FsType};
use crc::{CRC_32_ISO_HDLC, CRC_64_WE, Crc};
use crc32c::crc32c;

const ETHERNET: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
const BCACHE: Crc<u64> = Crc::<u64>::new(&CRC_64_WE);

/// Whether the mark says more about the disk than the file system that was found beside it.
pub(in crate::disk::contents) fn outweighs(
    mark: Signature,
    found: &FileSystem,
    read: &Read<'_>,
) -> bool {
    let first_data = match found.kind {
        // The boot block and the superblock; or the headers of the first allocation group.
        FsType::Ext3 | FsType::Ext4 | FsType::Xfs => 2048,
        FsType::Btrfs => 1024 * 1024,
    };
    let may_be_its_data =
        (first_data..found.size).contains(&mark.offset) && found.size <= read.size;
    is_whole(mark, read).unwrap_or(false) || !may_be_its_data || !proves_itself(found.kind, read)
}

/// Whether all of a container's structure is right, and not its mark alone.
fn is_whole(mark: Signature, read: &Read<'_>) -> Option<bool> {
    let at = |offset: u64, length: usize| bytes_at(read, offset, length);
    let here = |length: usize| at(mark.offset, length);
    Some(match mark.shape {
        Shape::Mark => false,
        Shape::Raid1 => {
            let sb = here(256)?;
            let length = 256 + 2 * usize::try_from(le32(sb, 220)).ok()?;
            let is_at_its_place = le64(sb, 144).checked_mul(512) == Some(mark.offset);
            le32(sb, 4) == 1
                && is_at_its_place
                && length <= 4096
                && le32(sb, 216) == raid_sum(here(length)?, 216, u32::from_le_bytes)
        }
        Shape::Raid0 { big_endian } => {
            let sb = here(4096)?;
            let number = if big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
            let word = |at: usize| number([sb[at], sb[at + 1], sb[at + 2], sb[at + 3]]);
            word(4) == 0 && word(152) == raid_sum(sb, 152, number)
        }
        Shape::Ddf => {
            let mut header = here(512)?.to_vec();
            let stored = be32(&header, 4);
            header[4..8].fill(0xff);
            ETHERNET.checksum(&header) == stored
        }
        Shape::Intel => {
            let anchor = here(512)?;
            let size = le32(anchor, 36);
            let sum = words(anchor.get(..usize::try_from(size).ok()?.min(512))?);
            let sum = sum.fold(0, u32::wrapping_add).wrapping_sub(le32(anchor, 32));
            // The rest of a longer one stands in other sectors.
            size >= 216 && (size > 512 || sum == le32(anchor, 32))
        }
        Shape::Drbd => {
            // The mark stands amid the block: behind the size and the generations.
            let block = at(mark.offset.checked_sub(60)?, 512)?;
            let (size, unit) = (be64(block, 0), be32(block, 80));
            size.checked_mul(512).is_some_and(|size| size <= mark.offset)
                && be32(block, 64) > 0
                && unit.is_power_of_two()
                && unit >= 4096
        }
        Shape::Bcache => {
            let sb = at(mark.offset.checked_sub(24)?, 208)?;
            let keys = usize::from(le16(sb, 206));
            let whole = at(mark.offset - 24, 208 + 8 * keys.min(256))?;
            le64(sb, 8) == 8 && BCACHE.checksum(&whole[8..]) == le64(sb, 0)
        }
        Shape::Gpt => {
            let header = here(512)?;
            let size = usize::try_from(le32(header, 12)).ok()?;
            let mut bytes = header.get(..size)?.to_vec();
            bytes.get_mut(16..20)?.fill(0);
            size >= 92 && ETHERNET.checksum(&bytes) == le32(header, 16)
        }
        Shape::Luks2 => {
            // The header names its own place; the checksum goes over more than is read.
            let header = here(512)?;
            be16(header, 6) == 2
                && be64(header, 256) == mark.offset
                && be64(header, 8).is_power_of_two()
        }
        Shape::Zfs => {
            // What the label's list begins with: its encoding, and the length of the first name.
            let list = at(mark.offset.checked_sub(24)?, 24)?;
            list[0] == 1 && list[1] <= 1 && be32(list, 8) == 1 && be32(list, 20) == 7
        }
    })
}

/// Whether a superblock is more than its magic number: by its checksum, or where it has none by
/// fields that agree with each other.
fn proves_itself(kind: FsType, read: &Read<'_>) -> bool {
    match kind {
        FsType::Ext3 | FsType::Ext4 => ext(read),
        FsType::Xfs => xfs(read),
        FsType::Btrfs => btrfs(read),
    }
    .unwrap_or(false)
}

fn ext(read: &Read<'_>) -> Option<bool> {
    const METADATA_CSUM: u32 = 0x400;
    let sb = bytes_at(read, 1024, 1024)?;
    if le32(sb, 0x64) & METADATA_CSUM != 0 {
        return Some(!crc32c(&sb[..0x3fc]) == le32(sb, 0x3fc));
    }
    let block = super::ext::block_size(sb)?;
    let (blocks, first) = (u64::from(le32(sb, 0x4)), u64::from(le32(sb, 0x14)));
    let (per_group, inodes) = (u64::from(le32(sb, 0x20)), u64::from(le32(sb, 0x28)));
    let groups = blocks.checked_sub(first)?.div_ceil(per_group.max(1));
    Some(
        per_group > 0
            && inodes > 0
            && inodes <= 8 * block
            && first == u64::from(block == 1024)
            && groups * inodes == u64::from(le32(sb, 0)),
    )
}

fn xfs(read: &Read<'_>) -> Option<bool> {
    let sb = bytes_at(read, 0, 512)?;
    let (block, sector) = (be32(sb, 4), usize::from(be16(sb, 102)));
    if be16(sb, 100) & 0xf == 5 {
        let mut sb = bytes_at(read, 0, sector)?.to_vec();
        let stored = le32(sb.get(..512)?, 224);
        sb[224..228].fill(0);
        return Some(crc32c(&sb) == stored);
    }
    let (blocks, length, groups) = (be64(sb, 8), be32(sb, 84), be32(sb, 88));
    let most = u64::from(length) * u64::from(groups);
    let is_log = u32::from(sb[120]) == block.trailing_zeros();
    Some(block.is_power_of_two() && is_log && blocks <= most && blocks > most - u64::from(length))
}

fn btrfs(read: &Read<'_>) -> Option<bool> {
    const AT: u64 = 0x1_0000;
    let sb = bytes_at(read, AT, 0x1000)?;
    let is_crc = le16(sb, 0xc4) == 0;
    let is_at_its_place = le64(sb, 0x30) == AT;
    // Other checksums of btrfs are long ones: the fields must do.
    Some(is_at_its_place && (!is_crc || crc32c(&sb[0x20..]) == le32(sb, 0)))
}

/// The sum of Linux' RAIDs: over all numbers but the sum itself, folded.
fn raid_sum(bytes: &[u8], sum_at: usize, number: fn([u8; 4]) -> u32) -> u32 {
    let mut sum: u64 = 0;
    for (_, word) in bytes.chunks(4).enumerate().filter(|(place, _)| place * 4 != sum_at) {
        // The last one may be half a number.
        let mut four = [0; 4];
        four[..word.len()].copy_from_slice(word);
        sum += u64::from(number(four));
    }
    let folded = (sum & 0xffff_ffff) + (sum >> 32);
    u32::try_from(folded & 0xffff_ffff).unwrap_or(0)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(|word| le32(word, 0))
}

#[cfg(test)]
#[path = "proofs_tests.rs"]
mod tests;
