//! What stands on a disk, judged from bytes that were read without an error.
//!
//! "Blank" is the dangerous answer, for only a blank disk is ever formatted. So it is given only
//! when every byte that was looked at is zero; whatever is not recognised counts as data.

pub mod blank;
mod btrfs;
mod bytes;
mod ext;
pub mod places;
mod proofs;
mod samples;
mod signatures;
mod xfs;

pub use self::bytes::uuid_text;
pub use self::samples::{Contents, Read, ReadSample};
pub use super::file_system::{FileSystem, FsType};

use self::bytes::first_not_zero;
use crate::hexadecimal::digits_of;

/// Judges what was read.
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
    let unknown = |sample: &ReadSample| unknown(sample.offset, &sample.bytes);
    read.samples.iter().find_map(unknown).unwrap_or(Contents::Blank)
}

/// What bytes of no known mark are that were read at an offset; nothing if all are zero.
pub fn unknown(offset: u64, bytes: &[u8]) -> Option<Contents> {
    let at = first_not_zero(bytes)?;
    let end = (at + 8).min(bytes.len());
    Some(Contents::Unknown(format!(
        "unknown data: the first bytes that are not zero stand at offset {} ({})",
        offset + at as u64,
        digits_of(&bytes[at..end]),
    )))
}

fn article(kind: FsType) -> &'static str {
    match kind {
        FsType::Btrfs => "a",
        FsType::Ext3 | FsType::Ext4 | FsType::Xfs => "an",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Vec<u8> {
        vec![0; usize::try_from(places::TAIL).unwrap()]
    }

    fn judge_head(bytes: Vec<u8>) -> Contents {
        judge(&Read { size: 1 << 40, samples: &[ReadSample { offset: 0, bytes }] })
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
    fn of_unknown_data_the_first_eight_bytes_are_told() {
        let mut bytes = vec![0; 64];
        bytes[9..64].fill(0xab);
        let Some(Contents::Unknown(text)) = unknown(100, &bytes) else { panic!("it is data") };
        assert!(text.ends_with("at offset 109 (abababababababab)"), "{text}");
    }

    /// With this number of disks, 64 KiB from the beginning.
    fn btrfs_of(disks: u64) -> Vec<u8> {
        let mut bytes = head();
        let at = |field: usize| 0x1_0000 + field;
        bytes[at(0x40)..at(0x48)].copy_from_slice(b"_BHRfS_M");
        bytes[at(0x20)..at(0x30)].fill(0x11);
        bytes[at(0x70)..at(0x78)].copy_from_slice(&(1_u64 << 32).to_le_bytes());
        bytes[at(0x88)..at(0x90)].copy_from_slice(&disks.to_le_bytes());
        bytes
    }

    #[test]
    fn a_btrfs_of_one_disk_is_read_and_one_of_several_is_foreign() {
        let Contents::FileSystem(found) = judge_head(btrfs_of(1)) else { panic!("it is a btrfs") };
        assert_eq!((found.kind, found.size), (FsType::Btrfs, 1 << 32));
        assert_eq!(found.uuid, "11111111-1111-1111-1111-111111111111");
        let foreign = Contents::Foreign("one of the disks of a btrfs".to_owned());
        assert_eq!(judge_head(btrfs_of(2)), foreign);
        assert_eq!(judge_head(btrfs_of(1 << 40)), foreign);
    }

    #[test]
    fn an_xfs_whose_log_is_elsewhere_is_foreign() {
        let xfs = |log: u8, in_progress: u8| {
            let mut bytes = head();
            bytes[..4].copy_from_slice(b"XFSB");
            bytes[55] = log;
            bytes[126] = in_progress;
            judge_head(bytes)
        };
        assert!(matches!(xfs(1, 0), Contents::FileSystem(found) if !found.is_unfinished));
        assert!(matches!(xfs(0, 0), Contents::Foreign(text) if text.contains("another device")));
        assert!(matches!(xfs(0, 1), Contents::FileSystem(found) if found.is_unfinished));
    }

    #[test]
    fn a_container_and_the_file_system_in_it_are_both_named() {
        let mut bytes = btrfs_of(1);
        bytes[..6].copy_from_slice(b"LUKS\xba\xbe");
        let Contents::Foreign(text) = judge_head(bytes) else { panic!("a mark before its data") };
        assert!(text.contains("and a btrfs;"), "{text}");
        let mut bytes = head();
        bytes[..6].copy_from_slice(b"LUKS\xba\xbe");
        bytes[1024 + 0x38..1024 + 0x3a].copy_from_slice(&0xef53u16.to_le_bytes());
        bytes[1024 + 0x60] = 0x40;
        let Contents::Foreign(text) = judge_head(bytes) else { panic!("a mark before its data") };
        assert!(text.contains("and an ext4;"), "{text}");
    }

    #[test]
    fn a_byte_in_any_sample_is_data() {
        let mut tail = vec![0; 4096];
        tail[9] = 7;
        let samples =
            [ReadSample { offset: 0, bytes: head() }, ReadSample { offset: 1 << 30, bytes: tail }];
        let judged = |samples: &[ReadSample]| judge(&Read { size: 1 << 40, samples });
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
        assert_eq!((fs.kind, fs.size, fs.is_unfinished), (FsType::Xfs, 409_600, true));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_judge_panic(bytes in proptest::collection::vec(0u8.., 0..3000)) {
            let _ = judge(&Read { size: 1 << 30, samples: &[ReadSample { offset: 0, bytes }] });
        }
    }
}
