//! Each structure is built whole, with sums that are worked out here in another way; then one thing at a time is
//! wrong, and everything else right.

use super::*;
use crate::disk::contents::ReadSample;

const SIZE: u64 = 1 << 20;

/// A disk, and what stands on it.
#[derive(Clone)]
struct Disk(Vec<ReadSample>);

impl Disk {
    /// With bytes that are no pattern, so that a sum over other bytes is another one.
    fn new() -> Self {
        let noise = (0..SIZE).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[2] | 0x80);
        Self(vec![ReadSample { offset: 0, bytes: noise.collect() }])
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = usize::try_from(at).unwrap();
        self.0[0].bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn part(&self, at: u64, length: usize) -> &[u8] {
        let at = usize::try_from(at).unwrap();
        &self.0[0].bytes[at..at + length]
    }

    fn read(&self) -> Read<'_> {
        Read { size: SIZE, samples: &self.0 }
    }

    fn is_whole(&self, shape: Shape, offset: u64) -> bool {
        is_whole(mark(shape, offset), &self.read()).unwrap_or(false)
    }
}

/// Bit by bit, as the standards write it.
fn crc(bytes: &[u8], polynomial: u32) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 };
        }
    }
    !crc
}

const ETHERNETS: u32 = 0xedb8_8320;
const CASTAGNOLIS: u32 = 0x82f6_3b78;

fn crc64(bytes: &[u8]) -> u64 {
    let mut crc = u64::MAX;
    for byte in bytes {
        crc ^= u64::from(*byte) << 56;
        for _ in 0..8 {
            let carry = crc >> 63 == 1;
            crc <<= 1;
            crc ^= if carry { 0x42f0_e1eb_a9ea_3693 } else { 0 };
        }
    }
    !crc
}

/// The sum of Linux' RAIDs over these bytes, whose own four are zero.
fn sum_of_raid(bytes: &[u8], is_big: bool) -> u32 {
    let mut sum = 0u128;
    for chunk in bytes.chunks(4) {
        let mut four = [0; 4];
        four[..chunk.len()].copy_from_slice(chunk);
        sum += u128::from(if is_big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) });
    }
    u32::try_from((sum % (1 << 32) + (sum >> 32)) % (1 << 32)).unwrap()
}

/// All is right, and then each of these things is wrong.
#[track_caller]
fn only_whole_is_believed<T: Copy + std::fmt::Debug>(
    is_believed: impl Fn(T) -> bool,
    right: &[T],
    wrong: &[T],
) {
    for one in right {
        assert!(is_believed(*one), "right: {one:?}");
    }
    for one in wrong {
        assert!(!is_believed(*one), "wrong: {one:?}");
    }
}

#[test]
fn a_member_of_a_newer_raid_is_whole_with_its_version_place_and_sum() {
    const AT: u64 = 4096;
    // Version, sector, how many roles, what is added to the sum.
    let is_believed = |(version, sector, roles, off): (u32, u64, u32, u32)| {
        let mut disk = Disk::new();
        disk.put(AT, b"\xfc\x4e\x2b\xa9");
        disk.put(AT + 4, &version.to_le_bytes());
        disk.put(AT + 144, &sector.to_le_bytes());
        disk.put(AT + 216, &[0; 4]);
        disk.put(AT + 220, &roles.to_le_bytes());
        let sum = sum_of_raid(disk.part(AT, 256 + 2 * roles as usize), false);
        disk.put(AT + 216, &sum.wrapping_add(off).to_le_bytes());
        disk.is_whole(Shape::Raid1, AT)
    };
    let right = [(1, 8, 3, 0), (1, 8, 4, 0), (1, 8, 1920, 0)];
    only_whole_is_believed(
        is_believed,
        &right,
        &[
            (2, 8, 3, 0),
            (0, 8, 3, 0),
            (1, 9, 3, 0),
            (1, 1 << 60, 3, 0),
            (1, 8, 1921, 0),
            (1, 8, 3, 1),
        ],
    );
}

#[test]
fn a_member_of_an_older_raid_is_whole_with_its_version_and_sum() {
    const AT: u64 = SIZE - 65536;
    for is_big in [false, true] {
        let number = |number: u32| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
        let is_believed = |(version, off): (u32, u32)| {
            let mut disk = Disk::new();
            disk.put(AT + 4, &number(version));
            disk.put(AT + 152, &[0; 4]);
            let sum = sum_of_raid(disk.part(AT, 4096), is_big);
            disk.put(AT + 152, &number(sum.wrapping_add(off)));
            disk.is_whole(Shape::Raid0 { big_endian: is_big }, AT)
        };
        only_whole_is_believed(is_believed, &[(0, 0)], &[(1, 0), (1 << 24, 0), (0, 1)]);
    }
}

#[test]
fn a_raid_of_ddf_is_whole_with_its_sum() {
    const AT: u64 = SIZE - 512;
    let is_believed = |off: u32| {
        let mut disk = Disk::new();
        disk.put(AT + 4, &[0xff; 4]);
        let sum = crc(disk.part(AT, 512), ETHERNETS);
        disk.put(AT + 4, &sum.wrapping_add(off).to_be_bytes());
        disk.is_whole(Shape::Ddf, AT)
    };
    only_whole_is_believed(is_believed, &[0], &[1, 1 << 24]);
}

#[test]
fn a_raid_of_intel_is_whole_with_its_size_and_sum() {
    const AT: u64 = SIZE - 1024;
    let is_believed = |(size, off): (u32, u32)| {
        let mut disk = Disk::new();
        disk.put(AT + 32, &[0; 4]);
        disk.put(AT + 36, &size.to_le_bytes());
        let sum = disk
            .part(AT, size.min(512) as usize)
            .chunks_exact(4)
            .fold(0u32, |sum, word| sum.wrapping_add(u32::from_le_bytes(word.try_into().unwrap())));
        disk.put(AT + 32, &sum.wrapping_add(off).to_le_bytes());
        disk.is_whole(Shape::Intel, AT)
    };
    // Of one of several sectors the sum is not worked out.
    let right = [(216, 0), (512, 0), (1024, 0), (1024, 1)];
    only_whole_is_believed(is_believed, &right, &[(212, 0), (216, 1), (512, 1)]);
}

#[test]
fn metadata_of_drbd_is_whole_with_a_size_that_lies_before_it() {
    const AT: u64 = SIZE - 4096;
    let is_believed = |(sectors, bits, unit): (u64, u32, u32)| {
        let mut disk = Disk::new();
        disk.put(AT, &sectors.to_be_bytes());
        disk.put(AT + 64, &bits.to_be_bytes());
        disk.put(AT + 80, &unit.to_be_bytes());
        disk.is_whole(Shape::Drbd, AT + 60)
    };
    let right = [(AT / 512, 1, 4096), (1, 9, 8192)];
    only_whole_is_believed(
        is_believed,
        &right,
        &[(AT / 512 + 1, 1, 4096), (u64::MAX, 1, 4096), (1, 0, 4096), (1, 1, 2048), (1, 1, 5000)],
    );
}

#[test]
fn a_bcache_is_whole_with_its_place_and_sum() {
    const AT: u64 = 4096;
    let is_believed = |(sector, keys, off): (u64, u16, u64)| {
        let mut disk = Disk::new();
        disk.put(AT + 8, &sector.to_le_bytes());
        disk.put(AT + 206, &keys.to_le_bytes());
        let sum = crc64(disk.part(AT + 8, 200 + 8 * usize::from(keys)));
        disk.put(AT, &sum.wrapping_add(off).to_le_bytes());
        disk.is_whole(Shape::Bcache, AT + 24)
    };
    only_whole_is_believed(is_believed, &[(8, 0, 0), (8, 5, 0)], &[(9, 5, 0), (8, 5, 1)]);
}

#[test]
fn a_gpt_is_whole_with_its_length_and_sum() {
    const AT: u64 = 512;
    let is_believed = |(length, off): (u32, u32)| {
        let mut disk = Disk::new();
        disk.put(AT + 12, &length.to_le_bytes());
        disk.put(AT + 16, &[0; 4]);
        let sum = crc(disk.part(AT, length.min(512) as usize), ETHERNETS);
        disk.put(AT + 16, &sum.wrapping_add(off).to_le_bytes());
        disk.is_whole(Shape::Gpt, AT)
    };
    only_whole_is_believed(is_believed, &[(92, 0), (512, 0)], &[(91, 0), (92, 1), (513, 0)]);
}

#[test]
fn a_second_header_of_luks_is_whole_with_its_version_place_and_size() {
    const AT: u64 = 0x4000;
    let is_believed = |(version, place, size): (u16, u64, u64)| {
        let mut disk = Disk::new();
        disk.put(AT + 6, &version.to_be_bytes());
        disk.put(AT + 8, &size.to_be_bytes());
        disk.put(AT + 256, &place.to_be_bytes());
        disk.is_whole(Shape::Luks2, AT)
    };
    let wrong = [(1, AT, AT), (2, AT + 1, AT), (2, AT, AT + 1)];
    only_whole_is_believed(is_believed, &[(2, AT, AT)], &wrong);
}

#[test]
fn a_label_of_zfs_is_whole_with_what_its_list_begins_with() {
    const AT: u64 = 16 * 1024;
    let is_believed = |(encoding, order, version, length): (u8, u8, u32, u32)| {
        let mut disk = Disk::new();
        disk.put(AT, &[encoding, order]);
        disk.put(AT + 8, &version.to_be_bytes());
        disk.put(AT + 20, &length.to_be_bytes());
        disk.is_whole(Shape::Zfs, AT + 24)
    };
    only_whole_is_believed(
        is_believed,
        &[(1, 1, 1, 7), (1, 0, 1, 7)],
        &[(0, 1, 1, 7), (1, 2, 1, 7), (1, 1, 2, 7), (1, 1, 1, 8)],
    );
}

/// An ext with a checksum.
fn summed_ext(off: u32) -> Disk {
    let mut disk = Disk::new();
    disk.put(1024 + 0x64, &0x442u32.to_le_bytes());
    let sum = !crc(disk.part(1024, 0x3fc), CASTAGNOLIS);
    disk.put(1024 + 0x3fc, &sum.wrapping_add(off).to_le_bytes());
    disk
}

#[test]
fn an_ext_proves_itself_by_its_sum() {
    let is_believed = |off| proves_itself(FsType::Ext4, &summed_ext(off).read());
    only_whole_is_believed(is_believed, &[0], &[1]);
}

#[test]
fn an_ext_without_a_sum_proves_itself_by_numbers_that_agree() {
    // How large a block is (as a power of two, from 1024 on), where the blocks begin, how many there are and in a
    // group, inodes in a group and in all.
    type Numbers = (u32, u32, u32, u32, u32, u32);
    let is_believed = |(shift, first, blocks, per_group, inodes, all): Numbers| {
        let mut disk = Disk::new();
        disk.put(1024 + 0x64, &0x42u32.to_le_bytes());
        for (at, number) in [
            (0, all),
            (0x4, blocks),
            (0x14, first),
            (0x18, shift),
            (0x20, per_group),
            (0x28, inodes),
        ] {
            disk.put(1024 + at, &number.to_le_bytes());
        }
        [FsType::Ext3, FsType::Ext4].map(|kind| proves_itself(kind, &disk.read())) == [true; 2]
    };
    let right =
        [(0, 1, 1 + 20, 8, 16, 48), (2, 0, 24, 8, 16, 48), (0, 1, 1 + 8, 8, 8 * 1024, 8 * 1024)];
    only_whole_is_believed(
        is_believed,
        &right,
        &[
            // Nothing in a group.
            (0, 1, 1 + 3, 0, 16, 48),
            (0, 1, 1 + 20, 8, 0, 0),
            // More inodes than a block has bits for.
            (0, 1, 1 + 8, 8, 8 * 1024 + 1, 8 * 1024 + 1),
            // It begins elsewhere.
            (0, 0, 20, 8, 16, 48),
            (2, 1, 1 + 24, 8, 16, 48),
            (0, 1, 0, 8, 16, 0),
            // Another number in all.
            (0, 1, 1 + 20, 8, 16, 49),
            // A block of no size that an ext has.
            (60, 0, 24, 8, 16, 48),
        ],
    );
}

#[test]
fn an_xfs_proves_itself_by_its_sum() {
    let is_believed = |(sector, off): (u16, u32)| {
        let mut disk = Disk::new();
        disk.put(100, &0xb4a5u16.to_be_bytes());
        disk.put(102, &sector.to_be_bytes());
        disk.put(224, &[0; 4]);
        let sum = crc(disk.part(0, usize::from(sector)), CASTAGNOLIS);
        disk.put(224, &sum.wrapping_add(off).to_le_bytes());
        proves_itself(FsType::Xfs, &disk.read())
    };
    only_whole_is_believed(is_believed, &[(512, 0), (4096, 0)], &[(512, 1), (256, 0)]);
}

#[test]
fn an_older_xfs_proves_itself_by_numbers_that_agree() {
    // A block, its logarithm, all blocks; those of a group, and how many groups.
    let is_believed = |(block, log, blocks, length, groups): (u32, u8, u64, u32, u32)| {
        let mut disk = Disk::new();
        disk.put(4, &block.to_be_bytes());
        disk.put(8, &blocks.to_be_bytes());
        disk.put(84, &length.to_be_bytes());
        disk.put(88, &groups.to_be_bytes());
        disk.put(100, &0xb4a4u16.to_be_bytes());
        disk.put(120, &[log]);
        proves_itself(FsType::Xfs, &disk.read())
    };
    let right = [(4096, 12, 400, 100, 4), (4096, 12, 301, 100, 4)];
    only_whole_is_believed(
        is_believed,
        &right,
        &[
            (4096, 12, 401, 100, 4),
            (4096, 12, 300, 100, 4),
            (4096, 11, 400, 100, 4),
            (4097, 0, 400, 100, 4),
        ],
    );
}

/// A btrfs whose sum is of this kind.
fn btrfs_disk(kind: u16, place: u64, off: u32) -> Disk {
    const AT: u64 = 65536;
    let mut disk = Disk::new();
    disk.put(AT + 0x30, &place.to_le_bytes());
    disk.put(AT + 0xc4, &kind.to_le_bytes());
    let sum = crc(disk.part(AT + 0x20, 0xfe0), CASTAGNOLIS);
    disk.put(AT, &sum.wrapping_add(off).to_le_bytes());
    disk
}

#[test]
fn a_btrfs_proves_itself_by_its_place_and_sum() {
    let is_believed = |(kind, place, off): (u16, u64, u32)| {
        proves_itself(FsType::Btrfs, &btrfs_disk(kind, place, off).read())
    };
    // The longer sums are not worked out.
    let right = [(0, 65536, 0), (1, 65536, 1)];
    only_whole_is_believed(is_believed, &right, &[(0, 65536, 1), (0, 65537, 0), (1, 65537, 1)]);
}

fn mark(shape: Shape, offset: u64) -> Signature {
    Signature { what: "a container", offset, shape }
}

fn found(kind: FsType, size: u64) -> FileSystem {
    FileSystem { kind, ..FileSystem::of_a_test("", size) }
}

/// A file may hold any mark: so its place decides, and whether the file system is one.
#[test]
fn a_mere_mark_counts_where_no_file_can_have_it() {
    let outweighs = |disk: &Disk, kind, size, offset| {
        super::outweighs(mark(Shape::Mark, offset), &found(kind, size), &disk.read())
    };
    let (ext, half) = (summed_ext(0), SIZE / 2);
    for (size, offset, counts) in [
        (half, 0, true),
        (half, 2047, true),
        (half, 2048, false),
        (half, half - 1, false),
        (half, half, true),
        (SIZE, half, false),
        // It covers more than the disk has.
        (SIZE + 1, half, true),
    ] {
        assert_eq!(outweighs(&ext, FsType::Ext4, size, offset), counts, "{size}, {offset}");
    }
    assert!(outweighs(&summed_ext(1), FsType::Ext4, half, 4096), "it does not prove itself");
    // Of a larger disk, as far as it was read.
    let btrfs = btrfs_disk(0, 65536, 0);
    let read = Read { size: 4 * SIZE, samples: &btrfs.0 };
    for (offset, counts) in [(4096, true), (SIZE - 1, true), (SIZE, false), (4 * SIZE, true)] {
        let found = found(FsType::Btrfs, 4 * SIZE);
        assert_eq!(super::outweighs(mark(Shape::Mark, offset), &found, &read), counts, "{offset}");
    }
}

/// A container that is whole counts, wherever it stands.
#[test]
fn a_whole_container_counts_amid_a_file_system() {
    const AT: u64 = 16 * 1024;
    let mut disk = summed_ext(0);
    disk.put(AT, &[1, 1]);
    disk.put(AT + 8, &1u32.to_be_bytes());
    disk.put(AT + 20, &7u32.to_be_bytes());
    let found = found(FsType::Ext4, SIZE);
    assert!(outweighs(mark(Shape::Zfs, AT + 24), &found, &disk.read()));
    assert!(!outweighs(mark(Shape::Mark, AT + 24), &found, &disk.read()));
}
