//! Whether a disk that came back is as the file system left it that the kernel still has mounted.
//!
//! Nothing proves it whole: what is written past the file system leaves no trace in either. What is compared is
//! what each mount, each check and each transaction changes.

use super::log_walk::{Beginning, JournalSuperblock, LogEnd};
use super::place::{ExtSuperblock, Stretch};
use crate::hexadecimal::digits_of;
use ring::digest::{SHA256, digest};

/// What an ext4 wrote last to a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSight {
    pub superblock: ExtSuperblock,
    pub journal: JournalSuperblock,
    /// Where that one stands on the disk.
    pub journal_at: Stretch,
    /// What a walk through the journal found.
    pub log: LogEnd,
    /// The last blocks of the log that tell of transactions, and where they stand on the disk.
    pub last_blocks: Vec<(u64, Vec<u8>)>,
}

/// What the kernel has in memory of the same file system, which it has mounted. What is not there was not waited
/// for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelSight {
    pub superblock: Option<Vec<u8>>,
    pub journal: Option<Vec<u8>>,
    /// How many transactions it has finished since the mount.
    pub finished: Option<u32>,
    /// The place of a block of the log that it has in memory, and that is another one on the disk.
    pub other_block: Option<u64>,
}

/// Whether both are of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sameness {
    /// They are, in all that is compared.
    Same,
    /// They are not: why.
    Differs(String),
    /// It cannot be told: why.
    Unknown(String),
}

/// What the kernel changes in memory and writes to its place later, or with the journal: the counts of free
/// blocks and inodes, where it was mounted last (told by the first file that is opened), the first orphan, and the
/// checksum over all. Each mount elsewhere changes other bytes too.
const CHANGES_IN_MEMORY: [(usize, usize); 7] =
    [(0xc, 4), (0x10, 4), (0x88, 64), (0xe8, 4), (0x158, 4), (0x178, 8), (0x3fc, 4)];

/// What tells one superblock from another, whatever of it the kernel changes in memory all the time.
pub fn fingerprint(superblock: &[u8]) -> String {
    let mut told = superblock.to_vec();
    for (begin, length) in CHANGES_IN_MEMORY {
        for byte in told.iter_mut().skip(begin).take(length) {
            *byte = 0;
        }
    }
    digits_of(digest(&SHA256, &told).as_ref())
}

/// The number of the first transaction that the kernel makes after a mount of this disk, which nothing has mounted.
pub fn first_after_mount(disk: &DiskSight) -> u32 {
    // The one after the last is left out: no old block of the log may be taken for one of the new mount's.
    disk.log.next.wrapping_add(1)
}

/// The same of a disk that is mounted, and on which the kernel has finished so many; nothing if that cannot be told.
pub fn first_of_mounted(disk: &DiskSight, finished: u32) -> Option<u32> {
    let is_told = disk.journal.start != 0 || finished > 0;
    is_told.then(|| disk.log.next.wrapping_sub(finished))
}

/// Whether the count of transactions fits, which the kernel keeps by itself: on a disk that is mounted, and that
/// nothing but this mount has written.
pub fn count_fits(disk: &DiskSight, first: u32, finished: u32) -> bool {
    let next = first.wrapping_add(finished);
    // An empty log has the number before the next, or the next one itself after all was replayed.
    let is_before =
        disk.journal.start == 0 && finished == 0 && disk.log.next == first.wrapping_sub(1);
    disk.log.next == next || is_before
}

/// Compares a disk that came with what the kernel has, whose first transaction had this number. What the kernel writes to
/// the superblock, once an hour and when it grows, goes to the journal first, and to its place half a minute later: there
/// may stand one that was `seen` in memory before.
pub fn compare(disk: &DiskSight, kernel: &KernelSight, first: u32, seen: &[String]) -> Sameness {
    let (Some(superblock), Some(journal), Some(finished)) =
        (&kernel.superblock, &kernel.journal, kernel.finished)
    else {
        return Sameness::Unknown(
            "what the kernel wrote last is not in its memory any more".to_owned(),
        );
    };
    if let Some(at) = first_difference(disk.superblock.bytes(), superblock)
        && !seen.contains(&fingerprint(disk.superblock.bytes()))
    {
        return Sameness::Differs(format!(
            "its superblock was written elsewhere (byte {at:#x} of it)"
        ));
    }
    let in_memory = match JournalSuperblock::parse(journal) {
        Ok(in_memory) => in_memory,
        Err(why) => return Sameness::Unknown(format!("in the kernel's memory: {why}")),
    };
    let is_before_the_first = disk.journal.start == 0 && finished == 0;
    if let Some(at) = in_memory.differs_at(&disk.journal, is_before_the_first) {
        return Sameness::Differs(format!(
            "its journal was written elsewhere (byte {at:#x} of its superblock)"
        ));
    }
    let next = first.wrapping_add(finished);
    if !count_fits(disk, first, finished) && !has_the_one_in_flight(disk, &in_memory, next) {
        let found = disk.log.next;
        return Sameness::Differs(if (1..u32::MAX / 2).contains(&found.wrapping_sub(next)) {
            format!(
                "its journal goes on to {found}, and the kernel's to {next}: it was written elsewhere"
            )
        } else {
            format!(
                "its journal ends before {found}, and the kernel's before {next}: it was set back to an \
                 earlier state, or has lost what it had confirmed"
            )
        });
    }
    if !is_on_the_way(disk, &in_memory, (next, finished)) {
        return Sameness::Differs("its journal begins elsewhere than the kernel's".to_owned());
    }
    match kernel.other_block {
        Some(at) => Sameness::Differs(format!("a block of its journal is another one (at {at})")),
        None => Sameness::Same,
    }
}

/// Whether the disk has one transaction more, whole, and the kernel has not been told yet that it is there: the disk
/// went between the two. Only a mount makes a transaction, and each mount elsewhere changes the superblocks, which
/// are the same: so it is the kernel's own, which is sent once more.
fn has_the_one_in_flight(disk: &DiskSight, in_memory: &JournalSuperblock, next: u32) -> bool {
    let was_walked = disk.journal.start != 0 && in_memory.start != 0;
    was_walked && disk.log.next == next.wrapping_add(1)
}

/// Where a byte differs that the kernel does not change in memory alone.
fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    let is_exempt = |at: usize| {
        CHANGES_IN_MEMORY.iter().any(|(begin, length)| (*begin..begin + length).contains(&at))
    };
    if one.len() != other.len() {
        return Some(one.len().min(other.len()));
    }
    (0..one.len()).find(|at| one[*at] != other[*at] && !is_exempt(*at))
}

/// Whether the kernel's log begins where the disk's does, or further on in it: to write that down is not waited for
/// by anything, so it may not have come to the disk.
fn is_on_the_way(
    disk: &DiskSight,
    in_memory: &JournalSuperblock,
    (next, finished): (u32, u32),
) -> bool {
    let begins: Beginning = (in_memory.sequence, in_memory.start);
    if begins == (disk.journal.sequence, disk.journal.start) {
        return true;
    }
    match (disk.journal.start, in_memory.start) {
        // The first transaction is about to be written.
        (0, _) => finished == 0,
        // All are at their places.
        (_, 0) => in_memory.sequence == next,
        (_, _) => disk.log.beginnings.contains(&begins),
    }
}

#[cfg(any(test, debug_assertions))]
#[allow(clippy::unwrap_used, clippy::wildcard_imports, reason = "they are of tests")]
pub(super) mod test_values {
    use super::super::log_walk::test_values::superblock as journal_block;
    use super::*;

    pub(super) fn superblock(changes: &[(usize, u8)]) -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        (bytes[0x38], bytes[0x39]) = (0x53, 0xef);
        for (at, byte) in changes {
            bytes[*at] = *byte;
        }
        bytes
    }

    /// A disk whose log begins with this transaction at this block, and ends before another.
    pub(in crate::disk::journal) fn disk(begin: Beginning, next: u32) -> DiskSight {
        let beginnings = (begin.0..=next).map(|one| (one, begin.1 + 2 * (one - begin.0))).collect();
        DiskSight {
            superblock: ExtSuperblock::parse(&superblock(&[])).unwrap(),
            journal: JournalSuperblock::parse(&journal_block(0, begin.0, begin.1)).unwrap(),
            journal_at: (0, 1024),
            log: LogEnd { next, beginnings },
            last_blocks: Vec::new(),
        }
    }

    pub(in crate::disk::journal) fn kernel(begin: Beginning, finished: u32) -> KernelSight {
        KernelSight {
            superblock: Some(superblock(&[])),
            journal: Some(journal_block(0, begin.0, begin.1)),
            finished: Some(finished),
            other_block: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::log_walk::test_values::superblock as journal_block;
    use super::test_values::{disk, kernel, superblock};
    use super::*;

    fn compare(disk: &DiskSight, kernel: &KernelSight, first: u32) -> Sameness {
        super::compare(disk, kernel, first, &[])
    }

    #[track_caller]
    fn differs(sameness: &Sameness, words: &str) {
        match sameness {
            Sameness::Differs(why) => assert!(why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_disk_is_as_it_was_left_after_as_many_transactions() {
        // Mounted when the log was empty before 100, so the first one is 101.
        let before = disk((100, 0), 100);
        assert_eq!(first_after_mount(&before), 101);
        assert_eq!(compare(&before, &kernel((100, 0), 0), 101), Sameness::Same);
        // After four of them it begins with the third still.
        let after = disk((103, 5), 105);
        assert_eq!(compare(&after, &kernel((103, 5), 4), 101), Sameness::Same);
        assert_eq!(first_of_mounted(&after, 4), Some(101));
        // All were written to their places: the log is empty, and begins with the next.
        assert_eq!(compare(&disk((105, 0), 105), &kernel((105, 0), 4), 101), Sameness::Same);
        assert_eq!(first_of_mounted(&disk((105, 0), 105), 4), Some(101));
        assert_eq!(first_of_mounted(&before, 0), None, "100 may have been replayed, or not");
        // Numbers begin anew after the largest.
        let around = disk((u32::MAX, 0), u32::MAX);
        assert_eq!(first_after_mount(&around), 0);
        assert_eq!(compare(&around, &kernel((u32::MAX, 0), 0), 0), Sameness::Same);
    }

    #[test]
    fn a_snapshot_that_was_rolled_back_ends_earlier() {
        let older = disk((103, 5), 104);
        differs(&compare(&older, &kernel((103, 5), 4), 101), "an earlier state");
        let empty = disk((100, 0), 100);
        differs(&compare(&empty, &kernel((100, 0), 4), 101), "an earlier state");
    }

    #[test]
    fn what_a_stranger_mounted_goes_on_or_begins_elsewhere() {
        differs(&compare(&disk((103, 5), 107), &kernel((103, 5), 4), 101), "written elsewhere");
        differs(&compare(&disk((110, 0), 110), &kernel((103, 5), 4), 101), "written elsewhere");
        // By chance as many, from another place.
        differs(&compare(&disk((103, 1), 105), &kernel((103, 5), 4), 101), "begins elsewhere");
        let mounted =
            KernelSight { superblock: Some(superblock(&[(0x34, 1)])), ..kernel((103, 5), 4) };
        differs(&compare(&disk((103, 5), 105), &mounted, 101), "byte 0x34");
        let mut block = journal_block(0, 103, 5);
        block[0x43] = 9;
        let other = KernelSight { journal: Some(block), ..kernel((103, 5), 4) };
        differs(&compare(&disk((103, 5), 105), &other, 101), "journal was written elsewhere");
        let other = KernelSight { other_block: Some(4096), ..kernel((103, 5), 4) };
        differs(&compare(&disk((103, 5), 105), &other, 101), "at 4096");
    }

    #[test]
    fn what_the_kernel_changes_in_memory_alone_is_no_difference() {
        for at in [0xc, 0x13, 0x88, 0xc7, 0xe8, 0x158, 0x3ff] {
            let kernel =
                KernelSight { superblock: Some(superblock(&[(at, 1)])), ..kernel((100, 0), 0) };
            assert_eq!(compare(&disk((100, 0), 100), &kernel, 101), Sameness::Same, "{at:#x}");
        }
        // Where the log begins may not have come to the disk.
        let disk = disk((103, 5), 105);
        assert_eq!(compare(&disk, &kernel((104, 7), 4), 101), Sameness::Same);
        assert_eq!(compare(&disk, &kernel((105, 0), 4), 101), Sameness::Same);
        differs(&compare(&disk, &kernel((104, 0), 4), 101), "begins elsewhere");
    }

    #[test]
    fn one_transaction_more_is_the_kernels_own_if_all_else_is_the_same() {
        let one_more = disk((103, 5), 105);
        assert_eq!(compare(&one_more, &kernel((103, 5), 3), 101), Sameness::Same);
        differs(&compare(&one_more, &kernel((103, 5), 2), 101), "written elsewhere");
        let mounted =
            KernelSight { superblock: Some(superblock(&[(0x34, 1)])), ..kernel((103, 5), 3) };
        differs(&compare(&one_more, &mounted, 101), "byte 0x34");
        differs(&compare(&one_more, &kernel((103, 7), 3), 101), "begins elsewhere");
        let other = KernelSight { other_block: Some(4096), ..kernel((103, 5), 3) };
        differs(&compare(&one_more, &other, 101), "at 4096");
        // Another who empties the log writes its end down there, and the kernel has not begun one.
        differs(&compare(&disk((105, 0), 105), &kernel((103, 5), 3), 101), "written elsewhere");
        differs(&compare(&disk((105, 0), 105), &kernel((104, 0), 3), 101), "written elsewhere");
    }

    #[test]
    fn in_doubt_it_is_not_known() {
        let disk = disk((103, 5), 105);
        for kernel in [
            KernelSight { superblock: None, ..kernel((103, 5), 4) },
            KernelSight { journal: None, ..kernel((103, 5), 4) },
            KernelSight { finished: None, ..kernel((103, 5), 4) },
        ] {
            assert!(matches!(compare(&disk, &kernel, 101), Sameness::Unknown(_)), "{kernel:?}");
        }
    }

    #[test]
    fn a_superblock_that_was_in_memory_before_may_still_be_at_its_place() {
        const WRITTEN_AT: usize = 0x30;
        let now = KernelSight {
            superblock: Some(superblock(&[(WRITTEN_AT, 7), (0xc, 1)])),
            ..kernel((103, 5), 4)
        };
        let disk = disk((103, 5), 105);
        let seen = |changes: &[(usize, u8)]| [fingerprint(&superblock(changes))];
        assert_eq!(super::compare(&disk, &now, 101, &seen(&[(0xc, 9)])), Sameness::Same);
        // A mount elsewhere, and what another program wrote at another time.
        for other in [&[(0x34, 1)][..], &[(WRITTEN_AT, 6)], &[(WRITTEN_AT, 7)]] {
            differs(&super::compare(&disk, &now, 101, &seen(other)), "byte 0x30");
        }
        differs(&super::compare(&disk, &now, 101, &[]), "byte 0x30");
    }
}
