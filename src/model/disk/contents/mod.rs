//! What stands on a disk, judged from bytes that were read without an error.
//!
//! "Blank" is the dangerous answer, for only a blank disk is ever formatted. So it is given only
//! when every byte that was looked at is zero; whatever is not recognised counts as data.

pub mod blank;
mod btrfs;
mod ext;
pub mod leftover;
pub mod places;
mod proofs;
mod signatures;
mod xfs;

use std::fmt;

/// A file system that this driver makes and mounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FsType {
    /// The journalled predecessor of ext4.
    Ext3,
    /// The default.
    #[default]
    Ext4,
    /// The other one in wide use.
    Xfs,
    /// The one with checksums and snapshots.
    Btrfs,
}

/// All of them.
const FS_TYPES: [FsType; 4] = [FsType::Ext3, FsType::Ext4, FsType::Xfs, FsType::Btrfs];

impl FsType {
    /// The name that mount(2) and the orchestrator use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FsType::Ext3 => "ext3",
            FsType::Ext4 => "ext4",
            FsType::Xfs => "xfs",
            FsType::Btrfs => "btrfs",
        }
    }

    /// The type of this name, if we have it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        FS_TYPES.into_iter().find(|kind| kind.name() == name)
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
    /// How often it was ever mounted to be written, where it counts that.
    pub mounts: Option<u16>,
    /// Whether it asks for a check before it is mounted.
    pub wants_check: bool,
    /// Whether it asks for a panic of the whole machine after an error.
    pub asks_for_panic: bool,
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

/// Bytes that were read from a disk at one place.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Where.
    pub offset: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// The disk, as far as it was read.
#[derive(Debug, Clone)]
pub struct Read<'a> {
    /// The whole disk's size.
    pub size: u64,
    /// What was read; the first sample begins at offset 0.
    pub samples: &'a [Sample],
}

/// Judges what was read.
#[must_use]
pub fn judge(read: &Read<'_>) -> Contents {
    let head = read.samples.first().filter(|sample| sample.offset == 0);
    let Some(head) = head.map(|sample| sample.bytes.as_slice()) else {
        return Contents::Unknown("a beginning that was not read".to_owned());
    };
    let file_system =
        ext::recognise(head).or_else(|| xfs::recognise(head)).or_else(|| btrfs::recognise(read));
    match file_system {
        // A file system that lies in a container (one half of a mirror) looks like one on the bare
        // disk; mounted there it would drift apart from its other half.
        Some(Contents::FileSystem(found)) => {
            let mut marks = signatures::containers(read);
            return match marks.find(|mark| proofs::outweighs(*mark, &found, read)) {
                Some(mark) => Contents::Foreign(format!(
                    "{mark}, and {} {}; if the mark is a leftover, wipefs --offset {} DISK takes it away",
                    article(found.kind),
                    found.kind,
                    mark.offset
                )),
                None => Contents::FileSystem(found),
            };
        }
        Some(found) => return found,
        None => {}
    }
    if let Some(signature) = signatures::first(read) {
        return Contents::Foreign(signature.to_string());
    }
    let unknown = |sample: &Sample| unknown(sample.offset, &sample.bytes);
    read.samples.iter().find_map(unknown).unwrap_or(Contents::Blank)
}

/// What bytes of no known mark are that were read at an offset; nothing if all are zero.
#[must_use]
pub fn unknown(offset: u64, bytes: &[u8]) -> Option<Contents> {
    let at = bytes.iter().position(|byte| *byte != 0)?;
    let end = (at + 8).min(bytes.len());
    Some(Contents::Unknown(format!(
        "unknown data: the first bytes that are not zero stand at offset {} ({})",
        offset + at as u64,
        hex(&bytes[at..end]),
    )))
}

fn article(kind: FsType) -> &'static str {
    match kind {
        FsType::Btrfs => "a",
        FsType::Ext3 | FsType::Ext4 | FsType::Xfs => "an",
    }
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

/// The sixteen bytes of a UUID as people write it.
#[must_use]
pub fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Sixteen bytes as people write a UUID.
#[must_use]
pub fn uuid_text(bytes: &[u8]) -> String {
    let digits = hex(bytes);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Vec<u8> {
        vec![0; usize::try_from(places::TAIL).unwrap()]
    }

    fn judge_head(bytes: Vec<u8>) -> Contents {
        judge(&Read { size: 1 << 40, samples: &[Sample { offset: 0, bytes }] })
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
        let judged = |samples: &[Sample]| judge(&Read { size: 1 << 40, samples });
        assert!(matches!(judged(&samples), Contents::Unknown(text) if text.contains("1073741833")));
        assert!(matches!(judged(&samples[1..]), Contents::Unknown(_)), "no head, no verdict");
        assert!(matches!(judged(&[]), Contents::Unknown(_)));
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
            let _ = judge(&Read { size: 1 << 30, samples: &[Sample { offset: 0, bytes }] });
        }
    }
}
