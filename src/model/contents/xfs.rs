//! The superblock of xfs.

use super::{FileSystem, FsType, Maker, uuid_text};

pub(super) fn recognise(head: &[u8]) -> Option<FileSystem> {
    let sb = head.get(..128)?;
    if &sb[..4] != b"XFSB" {
        return None;
    }
    let block = u64::from(u32::from_be_bytes(sb[4..8].try_into().ok()?));
    let blocks = u64::from_be_bytes(sb[8..16].try_into().ok()?);
    Some(FileSystem {
        kind: FsType::Xfs,
        uuid: uuid_text(&sb[32..48]),
        size: blocks.saturating_mul(block),
        mounts: None,
        wants_check: false,
        maker: if sb[126] == 0 { Maker::Finished } else { Maker::Unfinished },
    })
}
