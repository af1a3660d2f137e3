//! What tells that a disk is as it was left, of each file system that tells it.

use super::one_moment::{self, DiskSight, KernelSight, Sameness};
use super::xfs_moment::{self, XfsMark, XfsSight};
use serde::{Deserialize, Serialize};

/// What is remembered of a journal at a mount: counted on from there, a disk that comes back is known to be as it was
/// left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JournalMark {
    /// The number of the first transaction that an ext4 made after it.
    FirstTransaction(u32),
    /// Where an xfs began to write, and with what.
    XfsLog(XfsMark),
}

/// A journal on a disk, and what the kernel has of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalSights {
    Ext4(Box<DiskSight>, Box<KernelSight>),
    Xfs(Box<XfsSight>),
}

impl JournalSights {
    /// The UUID of the file system on the disk.
    pub fn uuid(&self) -> String {
        match self {
            Self::Ext4(disk, _) => disk.superblock.uuid(),
            Self::Xfs(sight) => sight.uuid.clone(),
        }
    }

    /// Whether the kernel has it mounted.
    pub fn is_mounted(&self) -> bool {
        match self {
            Self::Ext4(_, kernel) => kernel.finished.is_some(),
            Self::Xfs(sight) => sight.mounted.is_some(),
        }
    }

    /// The stretch of the disk whose writes are to be counted, in sectors: where it begins, and how many.
    pub fn counted(&self) -> Option<(u64, u64)> {
        match self {
            Self::Ext4(..) => None,
            Self::Xfs(sight) => Some(sight.place.stretch()),
        }
    }

    /// What a mount of this disk will be remembered by, which nothing has mounted. Of an xfs only the mount tells it.
    pub fn before_mount(&self) -> Option<JournalMark> {
        match self {
            Self::Ext4(disk, _) => {
                Some(JournalMark::FirstTransaction(one_moment::first_after_mount(disk)))
            }
            Self::Xfs(_) => None,
        }
    }

    /// What a mount is remembered by, if both sights agree on it, as they must when the disk is back one day.
    /// `before` are the sights of a moment ago. An error says why there is nothing.
    pub fn agreed(
        &self,
        known: Option<&JournalMark>,
        before: Option<&Self>,
    ) -> Result<JournalMark, String> {
        let (disk, kernel) = match self {
            Self::Ext4(disk, kernel) => (disk, kernel),
            Self::Xfs(sight) => return xfs_moment::mark(sight).map(JournalMark::XfsLog),
        };
        // One that ended between the two looks would be counted on one side alone.
        let is_still = match before {
            Some(Self::Ext4(disk_before, kernel_before)) => {
                (disk_before.log.next, kernel_before.finished) == (disk.log.next, kernel.finished)
            }
            _ => false,
        };
        let told = || {
            let first = one_moment::first_of_mounted(disk, kernel.finished.filter(|_| is_still)?);
            first.map(JournalMark::FirstTransaction)
        };
        let mark = known.cloned().or_else(told);
        let mark = mark.ok_or("which was its first transaction is not told")?;
        match self.compare(&mark, &[]) {
            Sameness::Same => Ok(mark),
            Sameness::Differs(why) | Sameness::Unknown(why) => Err(why),
        }
    }

    /// Whether both are of one moment, of a mount of which this is remembered, and whose superblocks were seen in
    /// memory.
    pub fn compare(&self, mark: &JournalMark, superblocks: &[String]) -> Sameness {
        match (self, mark) {
            (Self::Ext4(disk, kernel), JournalMark::FirstTransaction(first)) => {
                one_moment::compare(disk, kernel, *first, superblocks)
            }
            (Self::Xfs(sight), JournalMark::XfsLog(mark)) => xfs_moment::compare_logs(sight, mark),
            _ => Sameness::Differs(OTHER_KIND.to_owned()),
        }
    }
}

const OTHER_KIND: &str = "it has a file system of another kind than what was mounted";

#[cfg(any(test, debug_assertions))]
impl JournalSights {
    /// Of an ext4 that was mounted before transaction 101, or is not mounted: so many the kernel has finished, and the
    /// log on the disk ends before this one.
    pub fn of_a_test(finished: Option<u32>, next: u32) -> Self {
        use super::one_moment::test_values::{disk, kernel};
        let begin = (next, 0);
        let in_memory = finished.map(|finished| kernel(begin, finished)).unwrap_or_default();
        Self::Ext4(Box::new(disk(begin, next)), Box::new(in_memory))
    }
}
