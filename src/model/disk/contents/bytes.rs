//! Numbers and UUIDs among the bytes of a disk.

use crate::hexadecimal::digits_of;
use uuid::Uuid;

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
#[must_use]
pub fn first_not_zero(bytes: &[u8]) -> Option<usize> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let is_zero = |block: &&[u8]| **block == ZEROS[..block.len()];
    let block = bytes.chunks(ZEROS.len()).position(|block| !is_zero(&block))? * ZEROS.len();
    Some(block + bytes[block..].iter().position(|byte| *byte != 0)?)
}

/// The sixteen bytes of a UUID as people write it.
#[must_use]
pub fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    Uuid::try_parse(&text.replace('-', "")).ok().map(Uuid::into_bytes)
}

/// Sixteen bytes as people write a UUID.
#[must_use]
pub fn uuid_text(bytes: &[u8]) -> String {
    let digits = digits_of(bytes);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_read_as_it_is_written() {
        let text = "00112233-4455-6677-8899-aabbccddeeff";
        let bytes = std::array::from_fn(|n| u8::try_from(n * 0x11).unwrap_or(0));
        assert_eq!(uuid_bytes(text), Some(bytes));
        assert_eq!(uuid_bytes(&text.to_uppercase()), Some(bytes));
        assert_eq!(uuid_text(&bytes), text);
        for other in [
            "",
            "0011",
            "00112233-4455-6677-8899-aabbccddeefg",
            "00112233-4455-6677-8899-aabbccddee+f",
            "{00112233-4455-6677-8899-aabbccddeeff}",
            &format!("{text}0"),
        ] {
            assert_eq!(uuid_bytes(other), None, "{other}");
        }
        // As many bytes as a UUID has digits, and not all of them are of ASCII.
        assert_eq!(uuid_bytes("0011223344556677889äabbccddeefff"), None);
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
