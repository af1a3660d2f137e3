//! Numbers among bytes of a file system: an ext4's own are little-endian, those of its journal and of an xfs are
//! big-endian.

/// Bytes that are asked for and not there are a fault of the disk, and said as such.
pub(super) type Parsed<T> = Result<T, String>;

pub(super) fn part<const N: usize>(bytes: &[u8], at: usize) -> Parsed<[u8; N]> {
    let part = at.checked_add(N).and_then(|end| bytes.get(at..end));
    part.and_then(|part| part.try_into().ok()).ok_or_else(|| "a block was cut short".to_owned())
}

pub(super) fn le16(bytes: &[u8], at: usize) -> Parsed<u16> {
    part(bytes, at).map(u16::from_le_bytes)
}

pub(super) fn le32(bytes: &[u8], at: usize) -> Parsed<u32> {
    part(bytes, at).map(u32::from_le_bytes)
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Parsed<u16> {
    part(bytes, at).map(u16::from_be_bytes)
}

pub(super) fn be32(bytes: &[u8], at: usize) -> Parsed<u32> {
    part(bytes, at).map(u32::from_be_bytes)
}

pub(super) fn be64(bytes: &[u8], at: usize) -> Parsed<u64> {
    part(bytes, at).map(u64::from_be_bytes)
}
