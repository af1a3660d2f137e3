//! Reads what a file system wrote last, from a disk past all caches, and what the kernel has of it without a wait.

use super::direct::{Direct, confined, strange};
use super::{seldom, xfs_log};
use crate::aligned_memory::ALIGNMENT;
use crate::model::disk::device::Device;
use crate::model::disk::journal::log_walk::{JOURNAL_SUPERBLOCK, JournalSuperblock, LogWalk};
use crate::model::disk::journal::one_moment::{self, DiskSight, KernelSight};
use crate::model::disk::journal::place::{
    ExtSuperblock, ExtentNode, JournalBlocks, SUPERBLOCK, Stretch,
};
use crate::model::disk::journal::sights::JournalSights;
use crate::model::disk::journal::xfs_place::{XFS_SUPERBLOCK, is_xfs};
use crate::model::error::{Error, Kind, Result};
use crate::ports::clock::Deadline;
use crate::ports::host::AboveDisk;
use crate::{device_nodes, files, kernel, worker};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How much of a journal is read at once.
const AT_ONCE: u32 = 1 << 20;

/// How many of the log's last blocks are looked for in memory.
const LAST_BLOCKS: usize = 64;

/// What a file system wrote last to this disk, and what the kernel has of it.
pub(super) fn sights(
    disk: &Device,
    above: &AboveDisk<'_>,
    deadline: Deadline,
) -> Result<JournalSights> {
    let file = device_nodes::open_past_cache(disk)?;
    let _doing = worker::doing(&format_args!("read the journal on {}", disk.kernel_name));
    let direct = Direct { file, disk };
    let begin = direct.read((0, XFS_SUPERBLOCK))?;
    let mounts = above.map_above().map_or_else(|| Ok(Vec::new()), seldom::mounts_of)?;
    if let Some(why) = seldom::why_seldom(&mounts)? {
        return Err(Error::new(Kind::Host, why));
    }
    if is_xfs(&begin) {
        let sight = xfs_log::sight(&direct, &begin, (above, &mounts), deadline)?;
        return Ok(JournalSights::Xfs(Box::new(sight)));
    }
    let sight = on_disk(&direct, deadline)?;
    if let AboveDisk::WorkingMap(map) = above {
        keep_in_memory(map, &sight)?;
    }
    let kernel =
        above.map_above().map_or(Ok(KernelSight::default()), |map| in_memory(map, &sight))?;
    Ok(JournalSights::Ext4(Box::new(sight), Box::new(kernel)))
}

/// What an ext4 wrote last to this disk.
fn on_disk(direct: &Direct<'_>, deadline: Deadline) -> Result<DiskSight> {
    let disk = direct.disk;
    let bytes = direct.read(SUPERBLOCK)?;
    let (superblock, block_size, place) = confined(disk, || {
        let superblock = ExtSuperblock::parse(&bytes)?;
        if let Some(why) = superblock.tells_too_little()? {
            return Err(why.to_owned());
        }
        let (size, place) = (superblock.block_size()?, superblock.descriptor()?);
        Ok((superblock, size, place))
    })?;
    let descriptor = direct.read(place)?;
    let inode = direct.read(confined(disk, || superblock.inode(&descriptor))?)?;
    let mut blocks = JournalBlocks::default();
    let root = confined(disk, || ExtentNode::in_inode(&inode))?;
    blocks.add(&root);
    for block in root.more.iter().take(4) {
        let at = block.checked_mul(block_size).ok_or_else(|| strange(disk, BEYOND))?;
        let node = direct.read((at, length_of(block_size)))?;
        blocks.add(&confined(disk, || ExtentNode::parse(&node))?);
    }
    let place = |block: u32| {
        let (at, run) = blocks.at(block)?;
        Some((at.checked_mul(block_size)?, run))
    };
    let (at, _) = place(0).ok_or_else(|| strange(disk, BEYOND))?;
    let journal_at = (at, JOURNAL_SUPERBLOCK);
    let bytes = direct.read(journal_at)?;
    let journal = confined(disk, || JournalSuperblock::parse(&bytes))?;
    if journal.block_size() != block_size {
        return Err(strange(disk, "its journal has blocks of another size"));
    }
    let mut walk = LogWalk::of(&journal);
    let mut last_blocks = Vec::new();
    while let Some(first) = walk.wants() {
        if deadline.over() {
            return Err(Error::new(Kind::Timeout, "the journal could not be read in time"));
        }
        let (at, run) = place(first).ok_or_else(|| strange(disk, BEYOND))?;
        let count = run.min(AT_ONCE / u32::try_from(block_size).unwrap_or(AT_ONCE).max(1)).max(1);
        let bytes = direct.read((at, count as usize * length_of(block_size)))?;
        let taken = confined(disk, || {
            let mut taken = Vec::new();
            while let Some(into) = walk.wants().and_then(|next| next.checked_sub(first))
                && into < count
            {
                let begin = into as usize * length_of(block_size);
                let block = &bytes[begin..begin + length_of(block_size)];
                walk.take(block);
                taken.push((at + begin as u64, block.to_vec()));
                if walk.wants().is_none() {
                    // It is the log's end, and none of its blocks.
                    taken.pop();
                }
            }
            Ok(taken)
        })?;
        last_blocks.extend(taken);
        let surplus = last_blocks.len().saturating_sub(LAST_BLOCKS);
        last_blocks.drain(..surplus);
    }
    Ok(DiskSight { superblock, journal, journal_at, log: walk.end(), last_blocks })
}

/// Of a journal whose blocks are not listed.
const BEYOND: &str = "its journal is not where it should be";

fn length_of(block_size: u64) -> usize {
    usize::try_from(block_size).unwrap_or(ALIGNMENT)
}

/// Reads through a map that works what is to be in memory later: from then on it stays there, for the file
/// system keeps both blocks.
fn keep_in_memory(map: &Device, disk: &DiskSight) -> Result<()> {
    let file = device_nodes::open_to_read(map)?;
    for (at, length) in [SUPERBLOCK, disk.journal_at] {
        file.read_exact_at(&mut vec![0; length], at)
            .map_err(|error| Error::io(format!("read {}", map.kernel_name), &error))?;
    }
    Ok(())
}

/// What the kernel has in memory of the file system that is mounted from this map. Nothing is read that is not
/// there: the map may wait for its disk, and a reader would, too.
fn in_memory(map: &Device, disk: &DiskSight) -> Result<KernelSight> {
    let file = device_nodes::open_to_read(map)?;
    let name = &map.kernel_name;
    let inode = disk.superblock.journal_inode().map_err(|why| strange(map, &why))?;
    let other = disk.last_blocks.iter().find(|(at, block)| {
        cached(&file, (*at, block.len())).is_some_and(|in_memory| in_memory != *block)
    });
    Ok(KernelSight {
        superblock: cached(&file, SUPERBLOCK),
        journal: cached(&file, disk.journal_at),
        finished: finished(Path::new(&format!("/proc/fs/jbd2/{name}-{inode}/info"))),
        other_block: other.map(|(at, _)| *at),
    })
}

/// What tells the superblock that the kernel has in memory, without a wait.
pub(super) fn superblock(map: &Device) -> Result<Option<String>> {
    let bytes = cached(&device_nodes::open_to_read(map)?, SUPERBLOCK);
    Ok(bytes.map(|bytes| one_moment::fingerprint(&bytes)))
}

/// A stretch of a disk, if it is in memory.
fn cached(file: &File, (at, length): Stretch) -> Option<Vec<u8>> {
    kernel::in_memory(file, at, length).unwrap_or_else(|errno| {
        tracing::debug!(at, length, %errno, "whether it is in memory cannot be told");
        None
    })
}

/// How many transactions the kernel has finished since the mount: `42 transactions (40 requested), …`.
fn finished(info: &Path) -> Option<u32> {
    let text = files::read_proc(&info.to_string_lossy()).ok()?;
    let text = String::from_utf8(text).ok()?;
    let (count, rest) = text.split_once(' ')?;
    // It has more bits than a transaction's number, which begins anew.
    let count: u64 = count.parse().ok()?;
    rest.starts_with("transactions").then_some(u32::try_from(count & u64::from(u32::MAX)).ok()?)
}
