//! Where a disk whose two ends are zeros is read before it may be called blank.
//!
//! Three sets of places, in this order. A fixed stride finds every long run of data for certain.
//! Then come places where copies of superblocks stand although the first one is gone: also those
//! of a file system in a partition, and the ends that the disk had before it grew. Random places
//! come last, as many as the time allows: data between the others cannot count on being missed.

use super::places::BLOCK;

/// At how many places of equal distance a disk is read at least.
const STRIDES: u64 = 16_384;

/// A smaller disk is read as a whole: that takes no longer than its places one by one, and misses nothing. It is
/// more than the smallest xfs.
const WHOLE: u64 = 512 * MIB;

/// How much of such a disk is read in one go: the kernel makes several requests of it, which are under way together.
const PIECE: u64 = 4 * MIB;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
const TIB: u64 = 1024 * GIB;
const SECTOR: u64 = 512;

/// Offset and length of a place.
pub type Extent = (u64, u64);

/// Where copies stand, counted from where their file system begins.
const COPIES: [u64; 26] = [
    // The first superblock, and that of btrfs.
    0,
    64 * KIB,
    // ext2/3/4: the first block of group 1, with blocks of 1, 2, 4 and 64 KiB.
    8193 * KIB,
    16_384 * 2 * KIB,
    32_768 * 4 * KIB,
    65_528 * 64 * KIB,
    // … and of groups 3, 5, 7, 9, 25, 27 and 49 with blocks of 4 KiB.
    3 * 128 * MIB,
    5 * 128 * MIB,
    7 * 128 * MIB,
    9 * 128 * MIB,
    25 * 128 * MIB,
    27 * 128 * MIB,
    49 * 128 * MIB,
    // btrfs
    64 * MIB,
    256 * GIB,
    // VMFS's file system.
    16 * MIB,
    18 * MIB,
    // OCFS2
    GIB,
    4 * GIB,
    16 * GIB,
    64 * GIB,
    1024 * GIB,
    // Ceph's BlueStore
    10 * GIB,
    100 * GIB,
    1000 * GIB,
    // Where a volume manager puts data.
    32 * MIB,
];

/// Where partitions begin: the whole disk, then what fdisk, parted, gdisk and installers of
/// systems make, the second and third one included.
const STARTS: [u64; 37] = [
    0,
    34 * SECTOR,
    40 * SECTOR,
    63 * SECTOR,
    64 * KIB,
    512 * KIB,
    MIB,
    2 * MIB,
    3 * MIB,
    4 * MIB,
    5 * MIB,
    8 * MIB,
    9 * MIB,
    16 * MIB,
    17 * MIB,
    32 * MIB,
    64 * MIB,
    // After the partition of the firmware or of /boot.
    100 * MIB,
    101 * MIB,
    106 * MIB,
    107 * MIB,
    111 * MIB,
    128 * MIB,
    129 * MIB,
    200 * MIB,
    201 * MIB,
    200 * MIB + 40 * SECTOR,
    256 * MIB,
    257 * MIB,
    301 * MIB,
    501 * MIB,
    512 * MIB,
    513 * MIB,
    514 * MIB,
    1025 * MIB,
    1026 * MIB,
    1537 * MIB,
];

/// How much a partition leaves free at the end of its disk: nothing, the copy of a GPT as different
/// tools count it, or the rest of a MiB.
const ENDS: [u64; 4] = [0, 33 * SECTOR, 34 * SECTOR, MIB];

/// The distance of the places that every disk is read at.
pub fn stride(size: u64) -> u64 {
    (size / STRIDES / BLOCK * BLOCK).max(BLOCK)
}

/// The places of equal distance, or the whole of a small disk.
pub fn fixed(size: u64) -> impl Iterator<Item = Extent> {
    let (step, length) = if size <= WHOLE { (PIECE, PIECE) } else { (stride(size), BLOCK) };
    (0..size.div_ceil(step)).map(move |n| (n * step, length.min(size - n * step)))
}

/// The places of copies, in order; each of them once.
pub fn copies(size: u64) -> Vec<Extent> {
    if size <= WHOLE {
        return Vec::new();
    }
    let mut places: Vec<Extent> = Vec::new();
    for start in STARTS {
        places.extend(COPIES.iter().map(|copy| (start + copy, BLOCK)));
        for end in ENDS {
            xfs(start, size.saturating_sub(start + end), &mut places);
        }
    }
    // A disk that grew keeps what marked its old end: RAIDs, and the copy of a GPT.
    for old_end in (GIB..=TIB).step_by(1 << 30).chain((10 * GIB..size).step_by(100 << 30)) {
        places.push((old_end - 64 * KIB, BLOCK));
        places.push((old_end - 12 * KIB, 12 * KIB));
    }
    // A disk need not be read at odd places, nor beyond its end.
    places.retain(|(offset, length)| offset.checked_add(*length).is_some_and(|end| end <= size));
    places.sort_unstable();
    places.dedup();
    places
}

/// Where the allocation groups of an xfs of this size begin: four of them, or one for each TiB.
/// Each begins with headers of five blocks or more; so a length that is rounded otherwise, down to
/// the stripes of a RAID for instance, is met too.
fn xfs(start: u64, size: u64, places: &mut Vec<Extent>) {
    let blocks = size / BLOCK;
    for groups in [2, 4, 8, 16, 32] {
        for group in [1, groups - 1] {
            places.push((start + blocks.div_ceil(groups) * BLOCK * group, BLOCK));
            places.push((start + blocks / groups * BLOCK * group, BLOCK));
        }
    }
    let whole = size / TIB;
    places.extend((1..=whole.min(16)).map(|group| (start + group * (TIB - BLOCK), 2 * BLOCK)));
}

/// A place at random in each of the stretches between two places of equal distance: one round. The
/// numbers are the dice, one for each stretch.
pub fn random(size: u64, dice: &[u64]) -> impl Iterator<Item = Extent> + '_ {
    let stride = stride(size);
    let blocks = stride / BLOCK;
    let stretch = (0u64..).step_by(usize::try_from(stride).unwrap_or(usize::MAX));
    stretch.zip(dice).filter_map(move |(begin, number)| {
        let offset = begin + number % blocks * BLOCK;
        (offset + BLOCK <= size).then_some((offset, BLOCK))
    })
}

/// How many stretches there are, and so dice to be thrown for a round; none where all was read.
pub fn stretches(size: u64) -> usize {
    if size <= WHOLE { 0 } else { usize::try_from(size.div_ceil(stride(size))).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u64; 10] = [
        0,
        512,
        40 * MIB + 512,
        WHOLE,
        WHOLE + 512,
        GIB,
        100 * GIB,
        TIB + 512,
        3 * TIB + 4096,
        16 * TIB,
    ];

    fn meets((offset, length): Extent, (begin, end): (u64, u64)) -> bool {
        offset < end && begin < offset + length
    }

    #[test]
    fn places_lie_on_the_disk() {
        for size in SIZES {
            let dice = vec![u64::MAX; stretches(size)];
            for (offset, length) in fixed(size).chain(copies(size)).chain(random(size, &dice)) {
                assert!(length > 0 && offset + length <= size, "{offset} of {size}");
            }
        }
    }

    #[test]
    fn a_run_of_a_stride_is_found_wherever_it_lies() {
        for size in SIZES.into_iter().filter(|size| *size >= GIB) {
            let run = size / STRIDES;
            for part in 0..97 {
                let begin = (size - run) / 97 * part + part;
                assert!(
                    fixed(size).any(|place| meets(place, (begin, begin + run))),
                    "{begin} of {size}"
                );
            }
            let count = fixed(size).count() as u64;
            assert!((STRIDES..STRIDES + STRIDES / 8).contains(&count), "{count} of {size}");
        }
    }

    #[test]
    fn a_small_disk_is_read_wholly() {
        for size in SIZES.into_iter().filter(|size| *size <= WHOLE) {
            let end = fixed(size).fold(0, |end, (offset, length)| {
                assert_eq!(offset, end);
                offset + length
            });
            assert_eq!((end, copies(size).len(), stretches(size)), (size, 0, 0));
        }
    }

    #[test]
    fn copies_shifted_by_a_partition_are_among_the_places() {
        let places = copies(TIB);
        for begin in [0, 63 * SECTOR, MIB, 4 * MIB, 513 * MIB] {
            for copy in [0, 128 * MIB, 3 * 128 * MIB, 64 * MIB] {
                let at = (begin + copy, begin + copy + SECTOR);
                assert!(places.iter().any(|place| meets(*place, at)), "{begin} {copy}");
            }
        }
        let group = (TIB - MIB - MIB) / 4;
        assert!(places.iter().any(|place| meets(*place, (MIB + group, MIB + group + SECTOR))));
        assert!(places.len() < 8192, "{}", places.len());
    }

    /// Worked out by hand: a disk of 26,214,403 blocks, which no number of groups divides.
    #[test]
    fn the_groups_of_an_xfs_are_among_the_places() {
        let places = copies(100 * GIB + 3 * BLOCK);
        let groups_of = [(13_107_201, 1), (13_107_202, 1), (6_553_600, 3), (6_553_601, 3)];
        for (blocks, last) in groups_of.into_iter().chain([(819_200, 31), (819_201, 31)]) {
            assert!(places.contains(&(blocks * BLOCK, BLOCK)), "{blocks}");
            assert!(places.contains(&(last * blocks * BLOCK, BLOCK)), "{last} times {blocks}");
        }
        // In a partition with a MiB before it and one behind it, which has 26,213,891 blocks.
        for blocks in [6_553_472, 6_553_473] {
            assert!(places.contains(&(MIB + blocks * BLOCK, BLOCK)), "{blocks}");
            assert!(places.contains(&(MIB + 3 * blocks * BLOCK, BLOCK)), "3 times {blocks}");
        }
        // A group is at most a TiB less one block.
        let mut places = Vec::new();
        xfs(0, 3 * TIB, &mut places);
        for group in 1..=3 {
            assert!(places.contains(&(group * (TIB - BLOCK), 2 * BLOCK)), "{group}");
        }
    }

    #[test]
    fn the_old_ends_of_a_disk_that_grew_are_among_the_places() {
        let places = copies(3 * TIB);
        for gib in [1, 2, 50, 1024, 1110, 3010] {
            assert!(places.contains(&(gib * GIB - 64 * KIB, BLOCK)), "{gib} GiB: a RAID");
            assert!(places.contains(&(gib * GIB - 12 * KIB, 12 * KIB)), "{gib} GiB: a GPT");
        }
    }

    #[test]
    fn every_stretch_gets_a_place_of_its_own() {
        assert!(stretches(GIB) >= 16_383, "{}", stretches(GIB));
        for size in [GIB, 100 * GIB, TIB] {
            let dice: Vec<u64> = (0..stretches(size) as u64).map(|n| n * 7919).collect();
            let all: Vec<_> = random(size, &dice).collect();
            for (n, (offset, _)) in all.iter().enumerate() {
                assert_eq!(offset / stride(size), n as u64);
                assert_eq!(offset % BLOCK, 0);
            }
            assert!(all.len() + 1 >= dice.len());
        }
    }
}
