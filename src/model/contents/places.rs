//! Where a disk is read before it may be called blank.

/// How much of the end of a disk is read: all that marks it from there.
pub const TAIL: u64 = 1024 * 1024;

/// How much of its beginning: what was written to a disk of any kind left something there, even if
/// the first MiB was lost.
pub const HEAD: u64 = 16 * 1024 * 1024;

/// How much is read at each other place.
pub const BLOCK: u64 = 4096;

/// How many places, spread evenly over the disk, are read besides.
const SPREAD: u64 = 256;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// Places between the edges where copies of superblocks stand although the first one is gone.
const COPIES: [u64; 20] = [
    // ext2/3/4: the first block of group 1, with blocks of 2, 4 and 64 KiB.
    16384 * 2 * KIB,
    32768 * 4 * KIB,
    65528 * 64 * KIB,
    // … and of groups 3, 5 and 7 with blocks of 4 KiB.
    3 * 32768 * 4 * KIB,
    5 * 32768 * 4 * KIB,
    7 * 32768 * 4 * KIB,
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
    // The first partition that older and newer tools make, and where a volume manager puts data.
    32 * MIB,
    128 * MIB,
];

/// Where version 0.90 of Linux' RAID has its mark: in the last whole 64 KiB but one.
pub(super) fn old_raid(size: u64) -> Option<u64> {
    const UNIT: u64 = 64 * KIB;
    (size & !(UNIT - 1)).checked_sub(UNIT)
}

/// Offset and length of the few places that tell a file system of ours, and the marks of what it
/// may be a part of. The first begins at 0.
#[must_use]
pub fn of_marks(size: u64) -> Vec<(u64, u64)> {
    /// ext and xfs, LUKS, LVM, newer RAIDs, GPT.
    const FIRST: u64 = 20 * KIB;
    /// btrfs
    const SUPERBLOCK: (u64, u64) = (64 * KIB, BLOCK);
    /// RAIDs of all kinds.
    const LAST: u64 = 16 * KIB;
    /// … and one from before.
    const PROMISE: u64 = 63 * 512;
    let at_end = |offset: u64, length: u64| Some((size.checked_sub(offset)?, length));
    let first = (0, FIRST.min(size));
    let others = [
        Some(SUPERBLOCK),
        at_end(LAST, LAST),
        at_end(PROMISE, 512),
        old_raid(size).map(|place| (place, 512)),
    ];
    let fits = |(offset, length): &(u64, u64)| offset + length <= size;
    let mut places: Vec<_> =
        std::iter::once(first).chain(others.into_iter().flatten().filter(fits)).collect();
    places.sort_unstable();
    places
}

/// Begin and end of stretches of moderate length that have these places, which are in order: a disk
/// answers one long read sooner than two short ones.
#[must_use]
pub fn stretches(places: &[(u64, u64)]) -> Vec<(u64, u64)> {
    const LONGEST: u64 = 128 * KIB;
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    for (offset, length) in places {
        let end = offset + length;
        match stretches.last_mut() {
            Some(last) if end <= last.0 + LONGEST => last.1 = last.1.max(end),
            _ => stretches.push((*offset, end)),
        }
    }
    stretches
}

/// Offset and length of the disk's head and tail.
#[must_use]
pub fn edges(size: u64) -> [(u64, u64); 2] {
    let tail = TAIL.min(size);
    [(0, HEAD.min(size)), (size - tail, tail)]
}

/// The offsets between head and tail of a disk of this size, in order: copies of superblocks, xfs'
/// allocation groups, and a spread.
#[must_use]
pub fn between_edges(size: u64) -> Vec<u64> {
    let mut places: Vec<u64> = COPIES.to_vec();
    // mkfs.xfs makes four groups of a small disk, and each begins with a superblock; of larger ones
    // a group for each TiB.
    for groups in [2, 4, 8, 16, 32] {
        let length = (size / BLOCK).div_ceil(groups) * BLOCK;
        places.push(length);
        // It rounds down where the groups are aligned to a RAID's stripes.
        places.push(size / BLOCK / groups * BLOCK);
    }
    places.extend((1..SPREAD).map(|n| (size / SPREAD * n) & !(BLOCK - 1)));
    places.retain(|place| *place >= HEAD && place + BLOCK <= size.saturating_sub(TAIL));
    places.sort_unstable();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_hold_every_place() {
        for size in [0, 512, 20 * KIB, 64 * KIB, 100 * KIB, 200 * KIB, MIB, GIB, GIB + 512] {
            let places = of_marks(size);
            assert_eq!(places[0].0, 0);
            let stretches = stretches(&places);
            for (offset, length) in places {
                let holds = |(begin, end): &(u64, u64)| *begin <= offset && offset + length <= *end;
                assert_eq!(stretches.iter().filter(|one| holds(one)).count(), 1, "{offset}");
            }
        }
        assert_eq!(stretches(&of_marks(GIB)).len(), 2, "a disk's two ends");
    }

    #[test]
    fn places_lie_between_the_edges_of_any_disk() {
        for size in [0, 512, TAIL, 3 * TAIL, 40 * MIB + 512, GIB, 3 * 1024 * GIB + 4096, u64::MAX] {
            let places = between_edges(size);
            assert!(places.is_sorted());
            for place in places {
                assert!(place >= HEAD && place + BLOCK <= size - TAIL, "{place} of {size}");
            }
        }
        assert!(between_edges(GIB).contains(&(64 * MIB)));
        assert!(between_edges(GIB).contains(&(GIB / 4)));
    }
}
