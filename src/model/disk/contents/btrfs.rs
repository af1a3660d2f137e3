//! The superblock of btrfs, 64 KiB from the beginning.

use super::bytes::{le64, uuid_text};
use super::samples::{Contents, Read};
use super::signatures;
use crate::disk::file_system::{FileSystem, FsType};

const OFFSET: u64 = 0x1_0000;

pub(in crate::disk::contents) fn recognise(read: &Read<'_>) -> Option<Contents> {
    let sb = signatures::bytes_at(read, OFFSET, 0x1000)?;
    if &sb[0x40..0x48] != b"_BHRfS_M" {
        return None;
    }
    if le64(sb, 0x88) != 1 {
        return Some(Contents::Foreign("one of the disks of a btrfs".to_owned()));
    }
    Some(Contents::FileSystem(FileSystem {
        kind: FsType::Btrfs,
        uuid: uuid_text(&sb[0x20..0x30]),
        size: le64(sb, 0x70),
        mounts: None,
        wants_check: false,
        asks_for_panic: false,
        // mkfs.btrfs writes its magic last: with another one in its place until all is there.
        is_unfinished: false,
    }))
}
