//! The superblock of xfs.

use super::bytes::{be32, be64, uuid_text};
use super::samples::Contents;
use crate::disk::file_system::{FileSystem, FsType};

pub(in crate::disk::contents) fn recognise(head: &[u8]) -> Option<Contents> {
    let sb = head.get(..128)?;
    if &sb[..4] != b"XFSB" {
        return None;
    }
    let is_unfinished = sb[126] != 0;
    // Where its log begins: only one that is elsewhere begins at 0.
    if !is_unfinished && be64(sb, 48) == 0 {
        return Some(Contents::Foreign(
            "an xfs whose log is on another device, which is never opened".to_owned(),
        ));
    }
    Some(Contents::FileSystem(FileSystem {
        kind: FsType::Xfs,
        uuid: uuid_text(&sb[32..48]),
        size: be64(sb, 8).saturating_mul(u64::from(be32(sb, 4))),
        mounts: None,
        wants_check: false,
        asks_for_panic: false,
        is_unfinished,
    }))
}
