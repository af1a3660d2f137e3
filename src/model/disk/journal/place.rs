//! Where an ext4 has its journal.

use super::bytes::{Parsed, le16, le32};
use crate::disk::contents::uuid_text;

/// A stretch of the disk: where it begins, and how many bytes it has.
pub type Stretch = (u64, usize);

/// Where the superblock stands, whatever the block size.
pub const SUPERBLOCK: Stretch = (1024, 1024);

/// The superblock of an ext4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtSuperblock {
    bytes: Vec<u8>,
}

// Places in it.
const FIRST_BLOCK: usize = 0x14;
const BLOCK_SHIFT: usize = 0x18;
const INODES_PER_GROUP: usize = 0x28;
const MAGIC: usize = 0x38;
const INODE_SIZE: usize = 0x58;
const COMPAT: usize = 0x5c;
const INCOMPAT: usize = 0x60;
const UUID: usize = 0x68;
const JOURNAL_INODE: usize = 0xe0;
const JOURNAL_DEVICE: usize = 0xe4;
const DESCRIPTOR_SIZE: usize = 0xfe;

const COMPAT_JOURNAL: u32 = 0x4;
/// Small changes go into the journal without a transaction: their number tells nothing of these.
const COMPAT_FAST_COMMIT: u32 = 0x400;
const INCOMPAT_64BIT: u32 = 0x80;
/// A thread of the kernel writes to the disk beside the journal.
const INCOMPAT_MMP: u32 = 0x100;

impl ExtSuperblock {
    /// Reads the 1,024 bytes.
    pub fn parse(bytes: &[u8]) -> Parsed<Self> {
        let is_ext = bytes.len() == SUPERBLOCK.1 && le16(bytes, MAGIC)? == 0xef53;
        let is_possible = is_ext && le32(bytes, BLOCK_SHIFT)? <= 6;
        let superblock = Self { bytes: bytes.to_vec() };
        if is_possible { Ok(superblock) } else { Err("it has no superblock of an ext4".to_owned()) }
    }

    /// As it was read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Why the journal does not tell what was written last; nothing if it does.
    pub fn tells_too_little(&self) -> Parsed<Option<&'static str>> {
        let (compat, incompat) = (le32(&self.bytes, COMPAT)?, le32(&self.bytes, INCOMPAT)?);
        Ok(if compat & COMPAT_JOURNAL == 0 {
            Some("it has no journal")
        } else if le32(&self.bytes, JOURNAL_DEVICE)? != 0 {
            Some("its journal is on another device")
        } else if compat & COMPAT_FAST_COMMIT != 0 {
            Some("it has the feature fast_commit")
        } else if incompat & INCOMPAT_MMP != 0 {
            Some("it has the feature mmp")
        } else {
            None
        })
    }

    pub fn uuid(&self) -> String {
        uuid_text(&self.bytes[UUID..UUID + 16])
    }

    /// How long a block is.
    pub fn block_size(&self) -> Parsed<u64> {
        Ok(1024 << le32(&self.bytes, BLOCK_SHIFT)?)
    }

    /// The number of the journal's inode.
    pub fn journal_inode(&self) -> Parsed<u32> {
        le32(&self.bytes, JOURNAL_INODE)
    }

    fn has_64_bits(&self) -> Parsed<bool> {
        Ok(le32(&self.bytes, INCOMPAT)? & INCOMPAT_64BIT != 0)
    }

    /// Where the descriptor of the first group stands, which has the journal's inode.
    pub fn descriptor(&self) -> Parsed<Stretch> {
        let block = self.block_size()?;
        let length = match le16(&self.bytes, DESCRIPTOR_SIZE)? {
            size if self.has_64_bits()? => usize::from(size),
            _ => 32,
        };
        if !(32..=1024).contains(&length) {
            return Err(format!("its groups have descriptors of {length} bytes"));
        }
        Ok(((u64::from(le32(&self.bytes, FIRST_BLOCK)?) + 1) * block, length))
    }

    /// Where the journal's inode stands, by that descriptor.
    pub fn inode(&self, descriptor: &[u8]) -> Parsed<Stretch> {
        const TABLE: usize = 0x8;
        const TABLE_HIGH: usize = 0x28;
        let number = self.journal_inode()?;
        if number == 0 || number > le32(&self.bytes, INODES_PER_GROUP)? {
            return Err(format!("its journal's inode is {number}"));
        }
        let size = le16(&self.bytes, INODE_SIZE)?;
        if !(128..=4096).contains(&size) {
            return Err(format!("its inodes have {size} bytes"));
        }
        let has_high = self.has_64_bits()? && descriptor.len() >= 64;
        let high = if has_high { u64::from(le32(descriptor, TABLE_HIGH)?) } else { 0 };
        let table = u64::from(le32(descriptor, TABLE)?) | high << 32;
        let at = table.checked_mul(self.block_size()?);
        let at = at.and_then(|at| at.checked_add(u64::from(number - 1) * u64::from(size)));
        at.map(|at| (at, 128)).ok_or_else(|| "its inodes are nowhere".to_owned())
    }
}

/// A run of blocks of a file: its first block there, how many, and where they stand on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockRun {
    first: u32,
    count: u32,
    on_disk: u64,
}

/// A node of the tree that says where a file's blocks are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentNode {
    runs: Vec<BlockRun>,
    /// Blocks of the disk that have more.
    pub more: Vec<u64>,
}

impl ExtentNode {
    pub fn in_inode(inode: &[u8]) -> Parsed<Self> {
        const FLAGS: usize = 0x20;
        const BLOCKS: std::ops::Range<usize> = 0x28..0x28 + 60;
        const HAS_EXTENTS: u32 = 0x8_0000;
        if le32(inode, FLAGS)? & HAS_EXTENTS == 0 {
            return Err("its journal is listed block by block".to_owned());
        }
        Self::parse(inode.get(BLOCKS).unwrap_or_default())
    }

    /// One that a block has. A tree of more than two floors is not read.
    pub fn parse(bytes: &[u8]) -> Parsed<Self> {
        const LENGTH: usize = 12;
        if le16(bytes, 0)? != 0xf30a {
            return Err("what says where its journal is cannot be read".to_owned());
        }
        let (count, depth) = (usize::from(le16(bytes, 2)?), le16(bytes, 6)?);
        let mut node = Self { runs: Vec::new(), more: Vec::new() };
        for at in (1..=count).map(|one| one * LENGTH) {
            match depth {
                0 => {
                    let count = le16(bytes, at + 4)?;
                    // A longer one is of blocks that were never written.
                    if count == 0 || count > 0x8000 {
                        return Err("its journal has blocks that were never written".to_owned());
                    }
                    let high = u64::from(le16(bytes, at + 6)?) << 32;
                    node.runs.push(BlockRun {
                        first: le32(bytes, at)?,
                        count: u32::from(count),
                        on_disk: high | u64::from(le32(bytes, at + 8)?),
                    });
                }
                1 => {
                    let high = u64::from(le16(bytes, at + 8)?) << 32;
                    node.more.push(high | u64::from(le32(bytes, at + 4)?));
                }
                _ => return Err("its journal is in too many pieces".to_owned()),
            }
        }
        Ok(node)
    }
}

/// Where the journal's blocks stand on the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalBlocks {
    runs: Vec<BlockRun>,
}

impl JournalBlocks {
    /// The blocks of a node are the journal's.
    pub fn add(&mut self, node: &ExtentNode) {
        self.runs.extend(&node.runs);
    }

    /// Where a block of the journal stands on the disk, and how many follow it there, itself included.
    pub fn at(&self, block: u32) -> Option<(u64, u32)> {
        self.runs.iter().find_map(|run| {
            let into = block.checked_sub(run.first).filter(|into| *into < run.count)?;
            Some((run.on_disk.checked_add(u64::from(into))?, run.count - into))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The superblock of a usual ext4, and what is different in it.
    fn superblock(changes: &[(usize, &[u8])]) -> ExtSuperblock {
        let mut bytes = vec![0; 1024];
        let usual: [(usize, &[u8]); 8] = [
            (BLOCK_SHIFT, &[2]),
            (INODES_PER_GROUP, &[0, 32]),
            (MAGIC, &[0x53, 0xef]),
            (INODE_SIZE, &[0, 1]),
            (COMPAT, &COMPAT_JOURNAL.to_le_bytes()),
            (INCOMPAT, &(0x40 | INCOMPAT_64BIT).to_le_bytes()),
            (JOURNAL_INODE, &[8]),
            (DESCRIPTOR_SIZE, &[64]),
        ];
        for (at, change) in usual.iter().chain(changes) {
            bytes[*at..at + change.len()].copy_from_slice(change);
        }
        ExtSuperblock::parse(&bytes).unwrap()
    }

    #[test]
    fn the_journals_inode_is_found_by_the_first_group() {
        let usual = superblock(&[]);
        assert_eq!(usual.descriptor(), Ok((4096, 64)));
        let mut descriptor = vec![0; 64];
        descriptor[8] = 9;
        assert_eq!(usual.inode(&descriptor), Ok((9 * 4096 + 7 * 256, 128)));
        descriptor[0x28] = 1;
        assert_eq!(usual.inode(&descriptor), Ok((((1_u64 << 32) + 9) * 4096 + 7 * 256, 128)));
        // The upper half is something else where there are no 64 bits, and descriptors are short there.
        let short =
            superblock(&[(INCOMPAT, &[0x40, 0, 0, 0]), (FIRST_BLOCK, &[1]), (BLOCK_SHIFT, &[0])]);
        assert_eq!(short.descriptor(), Ok((2048, 32)));
        assert_eq!(short.inode(&descriptor), Ok((9 * 1024 + 7 * 256, 128)));
        for wrong in [(JOURNAL_INODE, &[0][..]), (JOURNAL_INODE, &[1, 32]), (INODE_SIZE, &[0, 64])]
        {
            assert!(superblock(&[wrong]).inode(&descriptor).is_err(), "{wrong:?}");
        }
        assert!(superblock(&[(DESCRIPTOR_SIZE, &[8])]).descriptor().is_err());
    }

    #[test]
    fn a_journal_that_tells_too_little_is_named() {
        let of = |at, bytes: &[u8]| superblock(&[(at, bytes)]).tells_too_little().unwrap();
        assert_eq!(superblock(&[]).tells_too_little(), Ok(None));
        assert_eq!(of(COMPAT, &[0]), Some("it has no journal"));
        assert_eq!(of(COMPAT, &[4, 4]), Some("it has the feature fast_commit"));
        assert_eq!(of(INCOMPAT, &[0x40, 1]), Some("it has the feature mmp"));
        assert_eq!(of(JOURNAL_DEVICE, &[1]), Some("its journal is on another device"));
        assert!(ExtSuperblock::parse(&[0; 1024]).is_err());
        assert!(ExtSuperblock::parse(&superblock(&[]).bytes()[..1023]).is_err());
    }

    /// A node: on which floor it stands, and its entries.
    fn node(depth: u8, entries: &[[u8; 12]]) -> Vec<u8> {
        let count = u8::try_from(entries.len()).unwrap();
        let mut bytes = vec![0x0a, 0xf3, count, 0, 4, 0, depth, 0, 0, 0, 0, 0];
        bytes.extend(entries.iter().flatten());
        bytes
    }

    #[test]
    fn a_block_of_the_journal_is_found_in_its_run() {
        let first = [0, 0, 0, 0, 100, 0, 0, 0, 0, 1, 0, 0];
        let second = [100, 0, 0, 0, 0, 128, 1, 0, 7, 0, 0, 0];
        let mut blocks = JournalBlocks::default();
        blocks.add(&ExtentNode::parse(&node(0, &[first, second])).unwrap());
        assert_eq!(blocks.at(0), Some((256, 100)));
        assert_eq!(blocks.at(99), Some((355, 1)));
        assert_eq!(blocks.at(100), Some(((1 << 32) + 7, 0x8000)));
        assert_eq!(blocks.at(100 + 0x8000), None);
        let index = [0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0];
        let above = ExtentNode::parse(&node(1, &[index])).unwrap();
        assert_eq!(above.more, [(1 << 32) + 9]);
        assert!(ExtentNode::parse(&node(2, &[index])).is_err());
        let unwritten = [0, 0, 0, 0, 1, 128, 0, 0, 0, 1, 0, 0];
        assert!(ExtentNode::parse(&node(0, &[unwritten])).is_err());
        assert!(ExtentNode::parse(&node(0, &[first])[..20]).is_err(), "cut short");
        let mut inode = vec![0; 128];
        assert!(ExtentNode::in_inode(&inode).is_err());
        inode[0x22] = 8;
        let inside = node(0, &[first]);
        inode[0x28..0x28 + inside.len()].copy_from_slice(&inside);
        assert_eq!(ExtentNode::in_inode(&inode), ExtentNode::parse(&inside));
    }
}
