//! Where a disk is read first: the marks of what stands on it, and its two ends.

/// How much of the end of a disk is read: all that marks it from there.
pub const TAIL: u64 = 1024 * 1024;

/// How much of its beginning: what was written to a disk of any kind left something there, even if
/// the first MiB was lost.
pub const HEAD: u64 = 16 * 1024 * 1024;

/// How much is read at each other place.
pub const BLOCK: u64 = 4096;

const KIB: u64 = 1024;

/// Where version 0.90 of Linux' RAID has its mark: in the last whole 64 KiB but one.
pub(in crate::disk::contents) fn old_raid(size: u64) -> Option<u64> {
    const UNIT: u64 = 64 * KIB;
    (size & !(UNIT - 1)).checked_sub(UNIT)
}

/// Offset and length of the few places that tell a file system of ours, and the marks of what it
/// may be a part of. The first begins at 0.
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
        old_raid(size).map(|place| (place, BLOCK)),
    ];
    let fits = |(offset, length): &(u64, u64)| offset + length <= size;
    let mut places: Vec<_> =
        std::iter::once(first).chain(others.into_iter().flatten().filter(fits)).collect();
    places.sort_unstable();
    places
}

/// Begin and end of stretches of moderate length that have these places, which are in order: a disk
/// answers one long read sooner than two short ones.
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
pub fn edges(size: u64) -> [(u64, u64); 2] {
    let tail = TAIL.min(size);
    [(0, HEAD.min(size)), (size - tail, tail)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * KIB;
    const GIB: u64 = 1024 * MIB;

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
    fn the_edges_are_the_first_sixteen_and_the_last_mib() {
        assert_eq!(edges(GIB), [(0, 16 * MIB), (GIB - MIB, MIB)]);
        assert_eq!(edges(512 * KIB), [(0, 512 * KIB); 2], "one that is smaller is read wholly");
    }

    /// In the last whole 64 KiB but one, as the kernel's own code for it counts.
    #[test]
    fn an_old_raid_has_its_mark_before_the_last_64_kib() {
        let small = [(0, None), (63 * KIB, None), (64 * KIB, Some(0)), (127 * KIB, Some(0))];
        let large = [(128 * KIB, Some(64 * KIB)), (GIB + 512, Some(GIB - 64 * KIB))];
        for (size, place) in small.into_iter().chain(large) {
            assert_eq!(old_raid(size), place, "{size}");
        }
        assert!(of_marks(GIB).contains(&(GIB - 64 * KIB, BLOCK)));
    }
}
