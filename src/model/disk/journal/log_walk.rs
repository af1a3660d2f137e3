//! A walk through a journal, from where it begins to the last transaction that is whole: as the kernel walks
//! before it replays one.

use super::bytes::{Parsed, be16, be32, part};
use crc32c::{crc32c, crc32c_append};

const MAGIC: u32 = 0xc03b_3998;
/// How long the head of each block is: the magic number, the kind, the transaction.
const HEAD: usize = 12;

// Kinds of blocks.
const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const SUPERBLOCK: u32 = 4;
const REVOKE: u32 = 5;

// Features that the kernel must know.
const HAS_REVOKES: u32 = 0x1;
const HAS_64_BITS: u32 = 0x2;
const HAS_CHECKSUMS_V2: u32 = 0x8;
const HAS_CHECKSUMS_V3: u32 = 0x10;

/// A journal's own superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalSuperblock {
    bytes: Vec<u8>,
    block_size: u32,
    end: u32,
    first: u32,
    features: u32,
    /// The oldest transaction that may have to be replayed; where there is none, the one before the next.
    pub sequence: u32,
    /// The block where it begins; 0 if there is none.
    pub start: u32,
}

/// How much of its block the superblock has.
pub const JOURNAL_SUPERBLOCK: usize = 1024;

// Places in it.
const SEQUENCE: usize = 0x18;
const START: usize = 0x1c;
const FEATURES: usize = 0x28;
const HEAD_BLOCK: usize = 0x58;
const CHECKSUM: usize = 0xfc;

/// What the kernel writes there when the log's oldest transaction is another one.
const OF_THE_TAIL: [usize; 4] = [SEQUENCE, START, HEAD_BLOCK, CHECKSUM];

/// What it sets at a mount: features, and the kind of checksums.
const OF_THE_MOUNT: [usize; 4] = [0x24, FEATURES, 0x2c, 0x50];

impl JournalSuperblock {
    /// Reads the block, or its beginning.
    pub fn parse(block: &[u8]) -> Parsed<Self> {
        let bytes = block.get(..JOURNAL_SUPERBLOCK).ok_or("a block was cut short")?;
        if (be32(bytes, 0)?, be32(bytes, 4)?) != (MAGIC, SUPERBLOCK) {
            return Err("its journal has no superblock".to_owned());
        }
        let known = HAS_REVOKES | HAS_64_BITS | HAS_CHECKSUMS_V2 | HAS_CHECKSUMS_V3;
        let features = be32(bytes, FEATURES)?;
        if features & !known != 0 {
            return Err(format!(
                "its journal has features that are not understood ({features:#x})"
            ));
        }
        if be32(bytes, 0x20)? != 0 {
            return Err("its journal was given up after an error".to_owned());
        }
        let superblock = Self {
            bytes: bytes.to_vec(),
            block_size: be32(bytes, 0xc)?,
            end: be32(bytes, 0x10)?,
            first: be32(bytes, 0x14)?,
            features,
            sequence: be32(bytes, SEQUENCE)?,
            start: be32(bytes, START)?,
        };
        let Self { end, first, start, .. } = superblock;
        if first == 0 || end <= first || (start != 0 && !(first..end).contains(&start)) {
            return Err("its journal's superblock contradicts itself".to_owned());
        }
        Ok(superblock)
    }

    /// How long its blocks are, which are the file system's.
    pub fn block_size(&self) -> u64 {
        u64::from(self.block_size)
    }

    /// Where the one on the disk differs from this one in memory, but for what the kernel has in memory first:
    /// where the log begins, that there are revokes, and before the first transaction of a mount all features.
    pub fn differs_at(&self, on_disk: &Self, is_before_the_first: bool) -> Option<usize> {
        let features = if is_before_the_first { &OF_THE_MOUNT[..] } else { &[] };
        let exempt = OF_THE_TAIL.iter().chain(features);
        let is_exempt = |at: usize| exempt.clone().any(|field| (*field..*field + 4).contains(&at));
        let mut known = on_disk.bytes.clone();
        if self.features == on_disk.features | HAS_REVOKES {
            known[FEATURES..FEATURES + 4].copy_from_slice(&self.features.to_be_bytes());
        }
        (0..JOURNAL_SUPERBLOCK).find(|at| self.bytes[*at] != known[*at] && !is_exempt(*at))
    }

    fn has_checksums(&self) -> bool {
        self.features & (HAS_CHECKSUMS_V2 | HAS_CHECKSUMS_V3) != 0
    }

    /// The checksum of a block whose own place for it is at `at`.
    fn checksum(&self, block: &[u8], at: usize) -> Parsed<u32> {
        let uuid: [u8; 16] = part(&self.bytes, 0x30)?;
        let after = block.get(at + 4..).ok_or("a block was cut short")?;
        let sum = crc32c_append(crc32c(&uuid), &block[..at]);
        // The kernel does not invert what it has in the end.
        Ok(!crc32c_append(crc32c_append(sum, &[0; 4]), after))
    }

    fn is_whole(&self, block: &[u8], at: usize) -> Parsed<bool> {
        Ok(!self.has_checksums() || be32(block, at)? == self.checksum(block, at)?)
    }

    /// How many blocks follow a descriptor.
    fn described(&self, block: &[u8]) -> Parsed<u32> {
        const UUID: usize = 16;
        const SAME_UUID: u32 = 2;
        const LAST: u32 = 8;
        let is_v3 = self.features & HAS_CHECKSUMS_V3 != 0;
        let is_v2 = self.features & HAS_CHECKSUMS_V2 != 0;
        let has_64_bits = self.features & HAS_64_BITS != 0;
        let length =
            if is_v3 { 16 } else { 8 + 2 * usize::from(is_v2) + 4 * usize::from(has_64_bits) };
        let end = block.len() - if self.has_checksums() { 4 } else { 0 };
        let (mut at, mut count) = (HEAD, 0);
        while at + length <= end {
            let flags = if is_v3 { be32(block, at + 4)? } else { u32::from(be16(block, at + 6)?) };
            count += 1;
            at += length + if flags & SAME_UUID == 0 { UUID } else { 0 };
            if flags & LAST != 0 {
                break;
            }
        }
        Ok(count)
    }
}

/// Where a transaction begins: its number and its first block.
pub type Beginning = (u32, u32);

/// A walk through a journal.
#[derive(Debug, Clone)]
pub struct LogWalk {
    superblock: JournalSuperblock,
    at: u32,
    next: u32,
    walked: u32,
    is_over: bool,
    beginnings: Vec<Beginning>,
}

impl LogWalk {
    /// One that begins where the superblock says.
    pub fn of(superblock: &JournalSuperblock) -> Self {
        let JournalSuperblock { sequence, start, .. } = *superblock;
        Self {
            superblock: superblock.clone(),
            at: start,
            next: sequence,
            walked: 0,
            is_over: start == 0,
            beginnings: vec![(sequence, start)],
        }
    }

    /// The block of the journal that is to be read next; nothing at the end.
    pub fn wants(&self) -> Option<u32> {
        (!self.is_over).then_some(self.at)
    }

    /// Takes the block that it wants. What is not the next one of the log is its end, and no error: an older
    /// log, or a transaction that was not finished.
    pub fn take(&mut self, block: &[u8]) {
        let is_next = self.is_next(block).unwrap_or(false);
        self.is_over |= !is_next;
    }

    fn is_next(&mut self, block: &[u8]) -> Parsed<bool> {
        /// Where a commit has its checksum.
        const OF_A_COMMIT: usize = 16;
        let is_its = block.len() as u64 == self.superblock.block_size()
            && (be32(block, 0)?, be32(block, 8)?) == (MAGIC, self.next);
        if !is_its {
            return Ok(false);
        }
        let tail = block.len() - 4;
        match be32(block, 4)? {
            DESCRIPTOR if self.superblock.is_whole(block, tail)? => {
                self.goes_on(1 + self.superblock.described(block)?);
            }
            REVOKE if self.superblock.is_whole(block, tail)? => self.goes_on(1),
            COMMIT if self.superblock.is_whole(block, OF_A_COMMIT)? => {
                self.goes_on(1);
                self.next = self.next.wrapping_add(1);
                self.beginnings.push((self.next, self.at));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn goes_on(&mut self, blocks: u32) {
        let JournalSuperblock { first, end, .. } = self.superblock;
        let length = end - first;
        self.walked = self.walked.saturating_add(blocks);
        // One that goes around twice has no end.
        self.is_over |= self.walked > length;
        let place = u64::from(self.at - first) + u64::from(blocks);
        let place = u32::try_from(place % u64::from(length)).unwrap_or(0);
        self.at = first + place;
    }

    /// What was found, after the end.
    pub fn end(self) -> LogEnd {
        LogEnd { next: self.next, beginnings: self.beginnings }
    }
}

/// What a walk has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// The number after that of the last transaction that is whole.
    pub next: u32,
    /// Where each begins, and where the next one would.
    pub beginnings: Vec<Beginning>,
}

#[cfg(any(test, debug_assertions))]
pub(super) mod test_values {
    use super::{MAGIC, SEQUENCE, START, SUPERBLOCK};

    pub(in crate::disk::journal) const BLOCK: usize = 1024;

    pub(super) fn put(bytes: &mut [u8], at: usize, number: u32) {
        bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }

    /// A journal of 16 blocks, the first of the log is 1.
    pub(in crate::disk::journal) fn superblock(
        features: u32,
        sequence: u32,
        start: u32,
    ) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        for (at, number) in
            [(0, MAGIC), (4, SUPERBLOCK), (0xc, 1024), (0x10, 16), (0x14, 1), (0x28, features)]
        {
            put(&mut bytes, at, number);
        }
        put(&mut bytes, SEQUENCE, sequence);
        put(&mut bytes, START, start);
        bytes[0x30..0x40].fill(7);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::test_values::{BLOCK, put, superblock};
    use super::*;

    fn head(kind: u32, transaction: u32) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 4, kind);
        put(&mut bytes, 8, transaction);
        bytes
    }

    /// With the checksum, which was worked out by hand for one of them below.
    fn summed(journal: &JournalSuperblock, mut block: Vec<u8>) -> Vec<u8> {
        let at = if be32(&block, 4) == Ok(COMMIT) { 16 } else { BLOCK - 4 };
        if journal.has_checksums() {
            let sum = journal.checksum(&block, at).unwrap();
            put(&mut block, at, sum);
        }
        block
    }

    /// A transaction that logs so many blocks.
    fn transaction(journal: &JournalSuperblock, number: u32, blocks: usize) -> Vec<Vec<u8>> {
        let mut descriptor = head(DESCRIPTOR, number);
        let mut at = HEAD;
        for block in 0..blocks {
            let flags = if block == 0 { 0 } else { 2 } | if block + 1 == blocks { 8 } else { 0 };
            if journal.features & HAS_CHECKSUMS_V3 != 0 {
                put(&mut descriptor, at + 4, flags);
                at += 16;
            } else {
                put(&mut descriptor, at + 4, flags);
                let more = if journal.features & HAS_CHECKSUMS_V2 != 0 { 2 } else { 0 };
                let high = if journal.features & HAS_64_BITS != 0 { 4 } else { 0 };
                at += 8 + more + high;
            }
            at += if block == 0 { 16 } else { 0 };
        }
        let mut all = vec![summed(journal, descriptor)];
        all.extend(vec![vec![0xee; BLOCK]; blocks]);
        all.push(summed(journal, head(REVOKE, number)));
        all.push(summed(journal, head(COMMIT, number)));
        all
    }

    /// A log with these blocks, from its beginning on and around.
    fn walked(journal: &JournalSuperblock, blocks: &[Vec<u8>]) -> LogEnd {
        let mut log = vec![vec![0; BLOCK]; 16];
        for (place, block) in blocks.iter().enumerate() {
            let at = (journal.start as usize - 1 + place) % 15 + 1;
            log[at].clone_from(block);
        }
        let mut walk = LogWalk::of(journal);
        while let Some(at) = walk.wants() {
            walk.take(&log[at as usize]);
        }
        walk.end()
    }

    const KINDS: [u32; 5] = [
        0,
        HAS_REVOKES | HAS_64_BITS,
        HAS_CHECKSUMS_V2,
        HAS_CHECKSUMS_V2 | HAS_64_BITS,
        HAS_CHECKSUMS_V3 | HAS_64_BITS,
    ];

    #[test]
    fn a_walk_ends_after_the_last_whole_transaction_also_around_the_end() {
        for features in KINDS {
            let journal = JournalSuperblock::parse(&superblock(features, 41, 9)).unwrap();
            let mut blocks = transaction(&journal, 41, 3);
            blocks.extend(transaction(&journal, 42, 1));
            let found = walked(&journal, &blocks);
            assert_eq!(found.next, 43, "{features:#x}");
            // Block 9 and five after it; the second goes from 15 to 1, 2 and 3.
            assert_eq!(found.beginnings, [(41, 9), (42, 15), (43, 4)]);
            // One that has no commit, one of another number, an older one.
            assert_eq!(walked(&journal, &blocks[..9]).next, 42);
            assert_eq!(walked(&journal, &transaction(&journal, 42, 1)).next, 41);
            assert_eq!(walked(&journal, &[]).next, 41);
        }
    }

    #[test]
    fn a_block_whose_checksum_is_wrong_is_the_end() {
        for features in KINDS {
            let journal = JournalSuperblock::parse(&superblock(features, 5, 1)).unwrap();
            for torn in [0, 3, 4] {
                let mut blocks = transaction(&journal, 5, 2);
                // At a place that nothing but the checksum covers.
                blocks[torn][BLOCK - 9] ^= 1;
                let next = walked(&journal, &blocks).next;
                assert_eq!(next == 5, journal.has_checksums(), "{features:#x} {torn}");
            }
        }
    }

    #[test]
    fn an_empty_log_is_not_walked_and_an_endless_one_ends() {
        let empty = JournalSuperblock::parse(&superblock(0, 77, 0)).unwrap();
        assert_eq!(LogWalk::of(&empty).wants(), None);
        assert_eq!(LogWalk::of(&empty).end().next, 77);
        let journal = JournalSuperblock::parse(&superblock(0, 1, 1)).unwrap();
        let mut walk = LogWalk::of(&journal);
        let mut taken = 0;
        while walk.wants().is_some() {
            walk.take(&head(REVOKE, 1));
            taken += 1;
        }
        assert_eq!(taken, 16);
    }

    #[test]
    fn a_superblock_that_cannot_be_right_is_an_error() {
        assert!(JournalSuperblock::parse(&superblock(0, 1, 15)).is_ok());
        assert!(JournalSuperblock::parse(&superblock(0, 1, 16)).is_err());
        // asynchronous commits, fast commits
        for features in [0x4, 0x20] {
            assert!(JournalSuperblock::parse(&superblock(features, 1, 1)).is_err());
        }
        for (at, number) in [(0, 1), (4, 3), (0x10, 1), (0x14, 0), (0x20, 5)] {
            let mut bytes = superblock(0, 1, 0);
            put(&mut bytes, at, number);
            assert!(JournalSuperblock::parse(&bytes).is_err(), "{at:#x}");
        }
        assert!(JournalSuperblock::parse(&superblock(0, 1, 1)[..1023]).is_err());
    }

    #[test]
    fn where_the_log_begins_is_told_from_all_else() {
        let parse = |bytes: &[u8]| JournalSuperblock::parse(bytes).unwrap();
        let one = superblock(0, 1, 1);
        for is_before_the_first in [false, true] {
            let same =
                |other: &[u8]| parse(&one).differs_at(&parse(other), is_before_the_first).is_none();
            assert!(same(&superblock(0, 9, 12)));
            let mut other = one.clone();
            other[0x40] = 1;
            assert!(!same(&other));
            // What a kernel adds at a mount.
            assert_eq!(same(&superblock(HAS_CHECKSUMS_V3, 1, 1)), is_before_the_first);
        }
        // And with the first revoke; on the disk alone it is another's.
        let revokes = parse(&superblock(HAS_REVOKES, 1, 1));
        assert_eq!(revokes.differs_at(&parse(&one), false), None);
        assert_eq!(parse(&one).differs_at(&revokes, false), Some(0x2b));
    }

    proptest::proptest! {
        #[test]
        fn no_block_makes_the_walk_panic(
            features in proptest::sample::select(KINDS.to_vec()),
            block in proptest::collection::vec(0_u8.., BLOCK),
            kind in 0_u32..6,
        ) {
            let journal = JournalSuperblock::parse(&superblock(features, 3, 2)).unwrap();
            let mut block = block;
            block[..HEAD].copy_from_slice(&head(kind, 3)[..HEAD]);
            let mut walk = LogWalk::of(&journal);
            walk.take(&summed(&journal, block));
            if let Some(at) = walk.wants() {
                proptest::prop_assert!((1..16).contains(&at));
            }
        }
    }
}
