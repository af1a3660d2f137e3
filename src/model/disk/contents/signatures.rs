//! Marks by which disks show whose they are. Without a mark of this list a disk with any other byte
//! than zero is refused all the same: the list makes the refusal say what was found.

use super::places;
use super::samples::Read;
use std::fmt;

/// From which end a mark's place is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Start,
    End,
    /// Where version 0.90 of Linux' RAID stands.
    OldRaid,
    /// Where version 1.0 stands: at least 8 KiB before the end, at a multiple of 4 KiB.
    NewRaid,
}

/// What stands around a mark, and can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::disk::contents) enum Shape {
    /// Nothing that is known here.
    Mark,
    Raid0 {
        big_endian: bool,
    },
    Raid1,
    Ddf,
    Intel,
    Drbd,
    Bcache,
    Gpt,
    Luks2,
    Zfs,
}

struct Known {
    what: &'static str,
    from: From,
    offset: u64,
    mark: &'static [u8],
    /// Of a container: a file system may lie inside, and be recognised although the disk is not its
    /// own.
    container: Option<Shape>,
}

impl Known {
    fn offset(&self, size: u64) -> Option<u64> {
        match self.from {
            From::Start => Some(self.offset),
            From::End => size.checked_sub(self.offset),
            From::OldRaid => places::old_raid(size),
            From::NewRaid => Some(((size / 512).checked_sub(16)? & !7) * 512),
        }
    }

    fn on(&self, read: &Read<'_>) -> Option<Signature> {
        let offset = self.offset(read.size)?;
        let is_there = bytes_at(read, offset, self.mark.len()) == Some(self.mark);
        let shape = self.container.unwrap_or(Shape::Mark);
        is_there.then_some(Signature { what: self.what, offset, shape })
    }
}

/// A mark that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::disk::contents) struct Signature {
    pub(in crate::disk::contents) what: &'static str,
    pub(in crate::disk::contents) offset: u64,
    pub(in crate::disk::contents) shape: Shape,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (its mark stands at offset {})", self.what, self.offset)
    }
}

const fn data(what: &'static str, offset: u64, mark: &'static [u8]) -> Known {
    Known { what, from: From::Start, offset, mark, container: None }
}

const fn container(what: &'static str, from: From, offset: u64, mark: &'static [u8]) -> Known {
    shaped(Shape::Mark, what, from, offset, mark)
}

const fn shaped(
    shape: Shape,
    what: &'static str,
    from: From,
    offset: u64,
    mark: &'static [u8],
) -> Known {
    Known { what, from, offset, mark, container: Some(shape) }
}

const RAID: &[u8] = b"\xfc\x4e\x2b\xa9";
const RAID_BIG_ENDIAN: &[u8] = b"\xa9\x2b\x4e\xfc";

/// Containers first, then the marks that say most; the boot sector's, which many share, last.
const KNOWN: &[Known] = &[
    container("a LUKS encrypted volume", From::Start, 0, b"LUKS\xba\xbe"),
    shaped(
        Shape::Luks2,
        "a LUKS encrypted volume (second header)",
        From::Start,
        0x4000,
        b"SKUL\xba\xbe",
    ),
    container("an LVM physical volume", From::Start, 512, b"LABELONE"),
    container("an LVM physical volume", From::Start, 0, b"LABELONE"),
    container("an LVM physical volume", From::Start, 1024, b"LABELONE"),
    container("an LVM physical volume", From::Start, 1536, b"LABELONE"),
    container("an LVM1 physical volume", From::Start, 0, b"HM\x01\0"),
    shaped(Shape::Raid1, "a member of a Linux RAID (version 1.1)", From::Start, 0, RAID),
    shaped(Shape::Raid1, "a member of a Linux RAID (version 1.2)", From::Start, 4096, RAID),
    shaped(Shape::Raid1, "a member of a Linux RAID (version 1.0)", From::NewRaid, 0, RAID),
    shaped(Shape::Raid1, "a member of a Linux RAID (version 1.0)", From::End, 12288, RAID),
    shaped(
        Shape::Raid0 { big_endian: false },
        "a member of a Linux RAID (version 0.90)",
        From::OldRaid,
        0,
        RAID,
    ),
    shaped(
        Shape::Raid0 { big_endian: true },
        "a member of a Linux RAID (version 0.90)",
        From::OldRaid,
        0,
        RAID_BIG_ENDIAN,
    ),
    shaped(Shape::Ddf, "a member of a RAID (DDF)", From::End, 512, b"\xde\x11\xde\x11"),
    shaped(
        Shape::Intel,
        "a member of a RAID (Intel)",
        From::End,
        1024,
        b"Intel Raid ISM Cfg Sig. ",
    ),
    container("a member of a RAID (Promise)", From::End, 63 * 512, b"Promise Technology, Inc."),
    container("a member of a RAID (NVIDIA)", From::End, 1024, b"NVIDIA"),
    shaped(
        Shape::Bcache,
        "a bcache device",
        From::Start,
        4096 + 24,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    ),
    shaped(Shape::Drbd, "the metadata of DRBD", From::End, 4096 - 60, b"\x83\x74\x02\x6b"),
    container("a disk of Stratis", From::Start, 512 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    container("a disk of VDO", From::Start, 0, b"dmvdo001"),
    shaped(Shape::Gpt, "a GPT partition table", From::Start, 512, b"EFI PART"),
    shaped(Shape::Gpt, "a GPT partition table", From::Start, 4096, b"EFI PART"),
    container("a dm-verity hash area", From::Start, 0, b"verity\0\0"),
    container("a dm-integrity volume", From::Start, 0, b"integrt\0"),
    // The first pair of the label's list.
    shaped(Shape::Zfs, "a zfs member", From::Start, 16 * 1024 + 24, b"version\0"),
    container("a BitLocker volume", From::Start, 3, b"-FVE-FS-"),
    data("a snapshot store of device mapper", 0, b"SnAp"),
    Known {
        what: "the end of a GPT partition table",
        from: From::End,
        offset: 512,
        mark: b"EFI PART",
        container: None,
    },
    data("swap space", 4086, b"SWAPSPACE2"),
    data("swap space", 4086, b"SWAP-SPACE"),
    data("swap space", 8182, b"SWAPSPACE2"),
    data("swap space", 16374, b"SWAPSPACE2"),
    data("swap space", 32758, b"SWAPSPACE2"),
    data("swap space", 65526, b"SWAPSPACE2"),
    data("a hibernated system's memory", 4086, b"S1SUSPEND"),
    data("a hibernated system's memory", 4086, b"LINHIB0001"),
    data("a Ceph BlueStore disk", 0, b"bluestore block device"),
    data("an Oracle ASM disk", 32, b"ORCLDISK"),
    data("an f2fs file system", 1024, b"\x10\x20\xf5\xf2"),
    data("a jfs file system", 32768, b"JFS1"),
    data("a reiserfs file system", 65536 + 52, b"ReIsEr"),
    data("a reiserfs file system", 8192 + 52, b"ReIsEr"),
    data("a reiser4 file system", 65536, b"ReIsEr4"),
    data("a nilfs2 file system", 1024 + 6, b"\x34\x34"),
    data(
        "a bcachefs file system",
        4096 + 24,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    data("an hfsplus file system", 1024, b"H+\0\x04"),
    data("an hfsplus file system", 1024, b"HX\0\x05"),
    data("an hfs file system", 1024, b"BD"),
    data("a gfs2 file system", 65536, b"\x01\x16\x19\x70"),
    data("an ocfs2 file system", 4096, b"OCFSV2"),
    data("an ocfs2 file system", 8192, b"OCFSV2"),
    data("an ocfs2 file system", 2048, b"OCFSV2"),
    data("an ocfs2 file system", 1024, b"OCFSV2"),
    data("an apfs container", 32, b"NXSB"),
    data("an erofs image", 1024, b"\xe2\xe1\xf5\xe0"),
    data("a squashfs image", 0, b"hsqs"),
    data("a cramfs image", 0, b"\x45\x3d\xcd\x28"),
    data("a romfs image", 0, b"-rom1fs-"),
    data("an ISO 9660 image", 32769, b"CD001"),
    data("a UDF file system", 32769, b"BEA01"),
    data("a minix file system", 1024 + 16, b"\x7f\x13"),
    data("a minix file system", 1024 + 16, b"\x8f\x13"),
    data("a minix file system", 1024 + 16, b"\x68\x24"),
    data("a minix file system", 1024 + 16, b"\x78\x24"),
    data("a minix file system", 1024 + 24, b"\x5a\x4d"),
    data("a ufs file system", 8192 + 1372, b"\x54\x19\x01\x00"),
    data("a ufs file system", 65536 + 1372, b"\x19\x01\x54\x19"),
    data("a VMFS volume", 1024 * 1024, b"\x0d\xd0\x01\xc0"),
    data("an ntfs file system", 3, b"NTFS    "),
    data("an exfat file system", 3, b"EXFAT   "),
    data("a FAT file system", 82, b"FAT32"),
    data("a FAT file system", 54, b"FAT1"),
    data("an Apple partition map", 0, b"ER"),
    data("an Apple partition map", 512, b"PM\0\0"),
    data("a BSD disk label", 64, b"\x57\x45\x56\x82"),
    data("a BSD disk label", 512, b"\x57\x45\x56\x82"),
    data("a Sun disk label", 508, b"\xda\xbe"),
    data("an SGI disk label", 0, b"\x0b\xe5\xa9\x41"),
    data("an Atari partition table", 510, b"\x12\x34"),
    data("a partition table or boot sector", 510, b"\x55\xaa"),
];

/// A zfs label holds a ring of blocks from 128 KiB on, each marked in either byte order.
const ZFS_RING: std::ops::Range<u64> = 128 * 1024..256 * 1024;
const ZFS_STEP: usize = 1024;
const ZFS_MARKS: [&[u8]; 2] = [b"\x0c\xb1\xba\0\0\0\0\0", b"\0\0\0\0\0\xba\xb1\x0c"];

/// The first mark of the list that stands on the disk.
pub(in crate::disk::contents) fn first(read: &Read<'_>) -> Option<Signature> {
    KNOWN.iter().find_map(|known| known.on(read)).or_else(|| zfs(read))
}

/// Every mark of a container.
pub(in crate::disk::contents) fn containers<'a>(
    read: &'a Read<'_>,
) -> impl Iterator<Item = Signature> + 'a {
    KNOWN.iter().filter(|known| known.container.is_some()).filter_map(|known| known.on(read))
}

fn zfs(read: &Read<'_>) -> Option<Signature> {
    let mut places = ZFS_RING.step_by(ZFS_STEP);
    let offset = places.find(|offset| {
        bytes_at(read, *offset, 8).is_some_and(|bytes| ZFS_MARKS.contains(&bytes))
    })?;
    Some(Signature { what: "a zfs member", offset, shape: Shape::Mark })
}

/// What was read there; nothing if it was not.
pub(in crate::disk::contents) fn bytes_at<'a>(
    read: &Read<'a>,
    offset: u64,
    length: usize,
) -> Option<&'a [u8]> {
    read.samples.iter().find_map(|sample| {
        let at = usize::try_from(offset.checked_sub(sample.offset)?).ok()?;
        sample.bytes.get(at..at.checked_add(length)?)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Contents, ReadSample, judge};
    use super::*;

    fn disk(offset: u64, mark: &[u8]) -> (u64, Vec<ReadSample>) {
        let size: u64 = 8 << 20;
        let mut whole = vec![0u8; usize::try_from(size).unwrap()];
        let at = usize::try_from(offset).unwrap();
        whole[at..at + mark.len()].copy_from_slice(mark);
        (size, vec![ReadSample { offset: 0, bytes: whole }])
    }

    #[test]
    fn every_mark_is_found_and_named() {
        for known in KNOWN {
            let size: u64 = 8 << 20;
            let offset = known.offset(size).unwrap();
            let (size, samples) = disk(offset, known.mark);
            let contents = judge(&Read { size, samples: &samples });
            let Contents::Foreign(text) = contents else { panic!("{}: {contents:?}", known.what) };
            assert!(text.contains(&format!("offset {offset})")), "{}: {text}", known.what);
        }
    }

    #[test]
    fn any_block_of_the_ring_of_zfs_is_found() {
        for (offset, is_found) in
            [(128, true), (133, true), (255, true), (127, false), (256, false)]
        {
            for mark in ZFS_MARKS {
                let (size, samples) = disk(offset * 1024, mark);
                let contents = judge(&Read { size, samples: &samples });
                let is_zfs =
                    matches!(&contents, Contents::Foreign(text) if text.contains("a zfs member"));
                assert_eq!(is_zfs, is_found, "{offset}: {contents:?}");
            }
        }
    }

    #[test]
    fn a_file_system_in_a_mirror_is_not_mounted_from_one_half() {
        let (size, mut samples) = disk((8 << 20) - 8192, RAID);
        samples[0].bytes[1024 + 0x38..1024 + 0x3a].copy_from_slice(&0xef53u16.to_le_bytes());
        samples[0].bytes[1024 + 0x60] = 0x40;
        let contents = judge(&Read { size, samples: &samples });
        assert!(
            matches!(&contents, Contents::Foreign(text) if text.contains("RAID") && text.contains("ext4")),
            "{contents:?}"
        );
    }
}
