//! What stands on a disk, judged from bytes that were read without an error.
//!
//! "Blank" is the dangerous answer, for only a blank disk is ever formatted. So it is given only
//! when every byte that was looked at is zero; whatever is not recognised counts as data.

use std::fmt;

/// A file system that this driver makes and mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsType {
    /// The journalled predecessor of ext4.
    Ext3,
    /// The default.
    Ext4,
    /// The other one in wide use.
    Xfs,
}

impl FsType {
    /// The name that mount(2) and the orchestrator use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FsType::Ext3 => "ext3",
            FsType::Ext4 => "ext4",
            FsType::Xfs => "xfs",
        }
    }

    /// The type of this name, if we have it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [FsType::Ext3, FsType::Ext4, FsType::Xfs].into_iter().find(|kind| kind.name() == name)
    }

    /// Whether a disk with `found` on it serves a wish for `self`: ext3 under ext4 is fine, for
    /// the ext4 driver of the kernel mounts both.
    #[must_use]
    pub fn accepts(self, found: FsType) -> bool {
        self == found || (self == FsType::Ext4 && found == FsType::Ext3)
    }
}

impl fmt::Display for FsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a superblock says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Its type.
    pub kind: FsType,
    /// Its UUID, as 32 hexadecimal digits with dashes.
    pub uuid: String,
    /// How many bytes of the device it covers.
    pub size: u64,
    /// Whether it asks for a check before it is mounted.
    pub wants_check: bool,
    /// How far its maker came.
    pub maker: Maker,
}

/// How far the program came that made a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// It was stopped: xfs marks that itself.
    Unfinished,
    /// It may have been stopped: ext has no mark, and was never mounted since.
    Unknown,
    /// It came to its end.
    Finished,
}

/// What stands on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// All that was read is zero.
    Blank,
    /// A file system that we can mount.
    FileSystem(FileSystem),
    /// Somebody's data of a known kind: never formatted, never mounted. The text says what.
    Foreign(String),
    /// Bytes that are not known: not formatted either, except that a format of ours which was
    /// killed leaves such bytes. The text says where.
    Unknown(String),
}

/// How much of the start and of the end of a disk is read to call it blank.
pub const EDGE: u64 = 1024 * 1024;

/// Places beyond the edges where copies of superblocks stand although the first one is gone:
/// ext2/3/4 with 1, 2 and 4 KiB blocks, btrfs' second mirror. Each is read for 4 KiB.
pub const BACKUP_PLACES: [u64; 4] = [8193 * 1024, 16384 * 2048, 32768 * 4096, 64 * 1024 * 1024];

/// Bytes that were read from a disk at one place.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Where.
    pub offset: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// Judges samples; the first must begin at offset 0.
#[must_use]
pub fn judge(samples: &[Sample]) -> Contents {
    let head = samples.first().filter(|sample| sample.offset == 0).map(|s| s.bytes.as_slice());
    let Some(head) = head else {
        return Contents::Unknown("a beginning that was not read".to_owned());
    };
    if let Some(known) = recognise(head) {
        return known;
    }
    for sample in samples {
        if let Some(at) = sample.bytes.iter().position(|byte| *byte != 0) {
            let end = (at + 8).min(sample.bytes.len());
            return Contents::Unknown(format!(
                "unknown data: the first bytes that are not zero stand at offset {} ({})",
                sample.offset + at as u64,
                hex(&sample.bytes[at..end]),
            ));
        }
    }
    Contents::Blank
}

fn recognise(head: &[u8]) -> Option<Contents> {
    if let Some(found) = ext(head) {
        return Some(found);
    }
    if let Some(found) = xfs(head) {
        return Some(Contents::FileSystem(found));
    }
    if head.get(0x1_0040..0x1_0048) == Some(b"_BHRfS_M") {
        return Some(Contents::Foreign("a btrfs file system".to_owned()));
    }
    if head.get(510..512) == Some(&[0x55, 0xaa]) {
        return Some(Contents::Foreign("a partition table or boot sector".to_owned()));
    }
    if head.get(..4) == Some(b"LUKS") {
        return Some(Contents::Foreign("a LUKS encrypted volume".to_owned()));
    }
    if head.get(512..520) == Some(b"LABELONE") {
        return Some(Contents::Foreign("an LVM physical volume".to_owned()));
    }
    None
}

const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_JOURNAL_DEVICE: u32 = 0x8;
/// extents, 64bit, mmp, `flex_bg`, `ea_inode`, dirdata, `csum_seed`, largedir, `inline_data`, encrypt.
const INCOMPAT_EXT4: u32 =
    0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x1000 | 0x2000 | 0x4000 | 0x8000 | 0x1_0000;
/// `huge_file`, `gdt_csum`, `dir_nlink`, `extra_isize`, quota, bigalloc, `metadata_csum`.
const RO_COMPAT_EXT4: u32 = 0x8 | 0x10 | 0x20 | 0x40 | 0x100 | 0x200 | 0x400;
const COMPAT_JOURNAL: u32 = 0x4;
const STATE_CLEAN: u16 = 0x1;
const STATE_ERRORS: u16 = 0x2;

/// The superblock of the ext family begins at byte 1024, whatever the block size.
fn ext(head: &[u8]) -> Option<Contents> {
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
    let high = if incompat & INCOMPAT_64BIT != 0 { u64::from(le32(sb, 0x150)) << 32 } else { 0 };
    let blocks = high | u64::from(le32(sb, 0x4));
    let state = le16(sb, 0x3a);
    Some(Contents::FileSystem(FileSystem {
        kind,
        uuid: uuid_text(&sb[0x68..0x78]),
        size: blocks.saturating_mul(1024u64.checked_shl(le32(sb, 0x18)).unwrap_or(0)),
        wants_check: state & STATE_CLEAN == 0 || state & STATE_ERRORS != 0,
        maker: if le32(sb, 0x2c) == 0 { Maker::Unknown } else { Maker::Finished },
    }))
}

fn xfs(head: &[u8]) -> Option<FileSystem> {
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
        wants_check: false,
        maker: if sb[126] == 0 { Maker::Finished } else { Maker::Unfinished },
    })
}

fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn uuid_text(bytes: &[u8]) -> String {
    let digits = hex(bytes);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Vec<u8> {
        vec![0; usize::try_from(EDGE).unwrap()]
    }

    fn judge_head(bytes: Vec<u8>) -> Contents {
        judge(&[Sample { offset: 0, bytes }])
    }

    #[test]
    fn only_zeros_are_blank() {
        assert_eq!(judge_head(head()), Contents::Blank);
        for at in [0, 511, 1023, 4096, 65_535, 1024 * 1024 - 1] {
            let mut bytes = head();
            bytes[at] = 1;
            let Contents::Unknown(text) = judge_head(bytes) else {
                panic!("blank with a byte at {at}")
            };
            assert!(text.contains(&format!("offset {at} ")), "{text}");
        }
    }

    #[test]
    fn a_byte_in_any_sample_is_data() {
        let mut tail = vec![0; 4096];
        tail[9] = 7;
        let samples =
            [Sample { offset: 0, bytes: head() }, Sample { offset: 1 << 30, bytes: tail }];
        assert!(matches!(judge(&samples), Contents::Unknown(text) if text.contains("1073741833")));
        assert!(matches!(judge(&samples[1..]), Contents::Unknown(_)), "no head, no verdict");
        assert!(matches!(judge(&[]), Contents::Unknown(_)));
    }

    #[test]
    fn an_ext4_superblock_is_read() {
        let mut bytes = head();
        bytes[1024 + 0x38..1024 + 0x3a].copy_from_slice(&0xef53u16.to_le_bytes());
        bytes[1024 + 0x3a] = 1;
        bytes[1024 + 0x4..1024 + 0x8].copy_from_slice(&262_144u32.to_le_bytes());
        bytes[1024 + 0x18] = 2;
        bytes[1024 + 0x60] = 0x40;
        let Contents::FileSystem(fs) = judge_head(bytes.clone()) else { panic!() };
        assert_eq!((fs.kind, fs.size, fs.wants_check), (FsType::Ext4, 1 << 30, false));
        bytes[1024 + 0x3a] = 3;
        assert!(matches!(judge_head(bytes), Contents::FileSystem(fs) if fs.wants_check));
    }

    #[test]
    fn an_unfinished_xfs_says_so() {
        let mut bytes = head();
        bytes[..4].copy_from_slice(b"XFSB");
        bytes[4..8].copy_from_slice(&4096u32.to_be_bytes());
        bytes[8..16].copy_from_slice(&100u64.to_be_bytes());
        bytes[126] = 1;
        let Contents::FileSystem(fs) = judge_head(bytes) else { panic!() };
        assert_eq!((fs.kind, fs.size, fs.maker), (FsType::Xfs, 409_600, Maker::Unfinished));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_judge_panic(bytes in proptest::collection::vec(0u8.., 0..3000)) {
            let _ = judge(&[Sample { offset: 0, bytes }]);
        }
    }
}
