//! The superblock of the ext family.

use super::bytes::{le16, le32, uuid_text};
use super::samples::Contents;
use crate::disk::file_system::{FileSystem, FsType};
use crate::mount::mount_options::MountOptions;

const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_JOURNAL_DEVICE: u32 = 0x8;
/// extents, 64bit, mmp, `flex_bg`, `ea_inode`, dirdata, `csum_seed`, largedir, `inline_data`, encrypt.
const INCOMPAT_EXT4: u32 =
    0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x1000 | 0x2000 | 0x4000 | 0x8000 | 0x1_0000;
/// `huge_file`, `gdt_csum`, `dir_nlink`, `extra_isize`, quota, bigalloc, `metadata_csum`.
const RO_COMPAT_EXT4: u32 = 0x8 | 0x10 | 0x20 | 0x40 | 0x100 | 0x200 | 0x400;
const COMPAT_JOURNAL: u32 = 0x4;
/// `s_errors`: panic after an error.
const ERRORS_PANIC: u16 = 3;
const STATE_CLEAN: u16 = 0x1;
const STATE_ERRORS: u16 = 0x2;

/// How long a block is: what the kernel mounts has at most 64 KiB, and no maker makes longer ones.
pub(in crate::disk::contents) fn block_size(sb: &[u8]) -> Option<u64> {
    const LARGEST: u32 = 6;
    let shift = le32(sb, 0x18);
    (shift <= LARGEST).then(|| 1024 << shift)
}

/// The superblock of the ext family begins at byte 1024, whatever the block size.
pub(in crate::disk::contents) fn recognise(head: &[u8]) -> Option<Contents> {
    let sb = head.get(1024..2048)?;
    if le16(sb, 0x38) != 0xef53 {
        return None;
    }
    let (compat, incompat, ro_compat) = (le32(sb, 0x5c), le32(sb, 0x60), le32(sb, 0x64));
    if incompat & INCOMPAT_JOURNAL_DEVICE != 0 {
        return Some(Contents::Foreign("the external journal of an ext file system".to_owned()));
    }
    let kind = if incompat & INCOMPAT_EXT4 != 0 || ro_compat & RO_COMPAT_EXT4 != 0 {
        FsType::Ext4
    } else if compat & COMPAT_JOURNAL != 0 {
        FsType::Ext3
    } else {
        return Some(Contents::Foreign("an ext2 file system".to_owned()));
    };
    if let Some(wish) = forbidden(sb) {
        return Some(Contents::Foreign(format!("an {kind} whose superblock {wish}")));
    }
    let Some(block) = block_size(sb) else {
        return Some(Contents::Foreign(format!(
            "an {kind} whose superblock has a block size that no ext file system has"
        )));
    };
    let high = if incompat & INCOMPAT_64BIT != 0 { u64::from(le32(sb, 0x150)) << 32 } else { 0 };
    let blocks = high | u64::from(le32(sb, 0x4));
    let state = le16(sb, 0x3a);
    Some(Contents::FileSystem(FileSystem {
        kind,
        uuid: uuid_text(&sb[0x68..0x78]),
        size: blocks.saturating_mul(block),
        mounts: Some(le16(sb, 0x34)),
        wants_check: state & STATE_CLEAN == 0 || state & STATE_ERRORS != 0,
        asks_for_panic: le16(sb, 0x3c) == ERRORS_PANIC,
        // mke2fs writes the superblock last.
        is_unfinished: false,
    }))
}

/// What the kernel would do at the mount because the superblock says so, and what no call may wish
/// by an option. (What it shall do after an error is overruled by an option of ours.)
fn forbidden(sb: &[u8]) -> Option<String> {
    /// A journal on another device, by the number of that device.
    const JOURNAL_DEVICE: usize = 0xe4;
    /// Options of the mount, as `tune2fs -E mount_opts=` leaves them: 64 bytes, ended by a zero.
    const OPTIONS: std::ops::Range<usize> = 0x200..0x240;
    if le32(sb, 0x5c) & COMPAT_JOURNAL != 0 && le32(sb, JOURNAL_DEVICE) != 0 {
        return Some(
            "keeps its journal on another device, which is never opened; tune2fs -f -O ^has_journal DISK, \
             then e2fsck -f DISK, takes that away"
                .to_owned(),
        );
    }
    let bytes = sb[OPTIONS].split(|byte| *byte == 0).next().unwrap_or_default();
    let options = String::from_utf8_lossy(bytes);
    let error = MountOptions::parse(&options).and_then(|wish| wish.check(FsType::Ext4)).err()?;
    Some(format!(
        "asks for what no volume may have: {}; tune2fs -E mount_opts= DISK takes that away",
        error.cause
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ext4 with a journal, and clean, of 1,000 blocks of 4 KiB; and what is different in it.
    fn disk(changes: &[(usize, &[u8])]) -> Vec<u8> {
        let mut disk = vec![0; 4096];
        let usual: [(usize, &[u8]); 7] = [
            (0x4, &1000_u32.to_le_bytes()),
            (0x18, &2_u32.to_le_bytes()),
            (0x34, &7_u16.to_le_bytes()),
            (0x38, &[0x53, 0xef]),
            (0x3a, &STATE_CLEAN.to_le_bytes()),
            (0x5c, &COMPAT_JOURNAL.to_le_bytes()),
            (0x60, &0x40_u32.to_le_bytes()),
        ];
        for (at, bytes) in usual.iter().chain(changes) {
            disk[1024 + at..][..bytes.len()].copy_from_slice(bytes);
        }
        disk
    }

    fn file_system(changes: &[(usize, &[u8])]) -> FileSystem {
        match recognise(&disk(changes)) {
            Some(Contents::FileSystem(found)) => found,
            other => panic!("{other:?}"),
        }
    }

    fn foreign(changes: &[(usize, &[u8])]) -> String {
        match recognise(&disk(changes)) {
            Some(Contents::Foreign(what)) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_superblock_says_which_kind_it_is_and_how_large() {
        let usual = file_system(&[]);
        assert_eq!((usual.kind, usual.size, usual.mounts), (FsType::Ext4, 4_096_000, Some(7)));
        // Any one mark of ext4 is enough, of either set.
        let none: (usize, &[u8]) = (0x60, &[0; 4]);
        assert_eq!(file_system(&[(0x60, &0x200_u32.to_le_bytes())]).kind, FsType::Ext4);
        assert_eq!(file_system(&[none, (0x64, &0x400_u32.to_le_bytes())]).kind, FsType::Ext4);
        // Marks that older ones have as well: filetype, sparse_super, large_file.
        assert_eq!(file_system(&[(0x60, &[2, 0]), (0x64, &[3, 0])]).kind, FsType::Ext3);
        assert!(foreign(&[none, (0x5c, &[0x38, 0])]).contains("ext2"));
        assert!(foreign(&[(0x60, &[8, 0])]).contains("external journal"));
        assert_eq!(recognise(&disk(&[(0x38, &[0x53, 0xee])])), None);
        // The upper half of the number of blocks counts only where the superblock says that it has one.
        let high: (usize, &[u8]) = (0x150, &[1, 0, 0, 0]);
        assert_eq!(file_system(&[high]).size, 4_096_000);
        let both = file_system(&[high, (0x60, &0xc0_u32.to_le_bytes())]);
        assert_eq!(both.size, ((1 << 32) + 1000) * 4096);
    }

    #[test]
    fn a_superblock_says_how_it_was_left() {
        let state = |state: u16| file_system(&[(0x3a, &state.to_le_bytes())]).wants_check;
        assert_eq!([0, 1, 2, 3, 4, 5].map(state), [true, false, true, true, true, false]);
        assert!(!file_system(&[]).asks_for_panic);
        assert!(file_system(&[(0x3c, &[3, 0])]).asks_for_panic);
    }

    #[test]
    fn what_a_superblock_may_not_ask_for_makes_it_a_stranger() {
        let elsewhere: (usize, &[u8]) = (0xe4, &[1, 8, 0, 0]);
        assert!(foreign(&[elsewhere]).contains("journal on another device"));
        // Without a journal nothing is read from that device.
        assert_eq!(file_system(&[elsewhere, (0x5c, &[0; 4])]).kind, FsType::Ext4);
        assert!(foreign(&[(0x200, b"journal_path=/dev/vda")]).contains("no volume may have"));
        assert_eq!(file_system(&[(0x200, b"noatime\0journal_path=/dev/vda")]).kind, FsType::Ext4);
    }
}
