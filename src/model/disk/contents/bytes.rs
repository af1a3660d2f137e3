//! Numbers and UUIDs among the bytes of a disk.

use crate::hexadecimal::digits_of;

/// What is behind the end reads as zero.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|found| found.try_into().ok()).unwrap_or([0; N])
}

pub(in crate::disk::contents) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

pub(in crate::disk::contents) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(in crate::disk::contents) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

pub(in crate::disk::contents) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

pub(in crate::disk::contents) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

pub(in crate::disk::contents) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(bytes, at))
}

/// Where the first byte stands that is not zero. Disks are mostly zero, so whole blocks of it are compared.
pub(in crate::disk::contents) fn first_not_zero(bytes: &[u8]) -> Option<usize> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let is_zero = |block: &&[u8]| **block == ZEROS[..block.len()];
    let block = bytes.chunks(ZEROS.len()).position(|block| !is_zero(&block))? * ZEROS.len();
    Some(block + bytes[block..].iter().position(|byte| *byte != 0)?)
}

/// Sixteen bytes as people write a UUID.
pub fn uuid_text(bytes: &[u8]) -> String {
    let digits = digits_of(bytes);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_in_five_groups() {
        let bytes: [u8; 16] = std::array::from_fn(|n| u8::try_from(n * 0x11).unwrap());
        assert_eq!(uuid_text(&bytes), "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn the_first_byte_that_is_not_zero_is_found_in_any_block() {
        let mut bytes = vec![0; 3 * 4096 + 5];
        assert_eq!(first_not_zero(&bytes), None);
        for at in [3 * 4096 + 4, 2 * 4096, 4097, 4095, 0] {
            bytes[at] = 1;
            assert_eq!(first_not_zero(&bytes), Some(at));
        }
    }
}
