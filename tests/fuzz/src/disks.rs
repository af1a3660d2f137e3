//! What stands on a disk: any tenant writes it. A disk is made of patches, so that a short input reaches each
//! place of a large one.

use incloud_disk::model::cloud::iso9660;
use incloud_disk::model::disk::contents::{Contents, Read, ReadSample, judge, places};
use incloud_disk::model::disk::journal::log_walk::{JOURNAL_SUPERBLOCK, JournalSuperblock, LogWalk};
use incloud_disk::model::disk::journal::one_moment::Sameness;
use incloud_disk::model::disk::journal::place::{
    ExtSuperblock, ExtentNode, JournalBlocks, SUPERBLOCK, Stretch,
};
use incloud_disk::model::disk::journal::xfs_log::{LogSector, LogStretch};
use incloud_disk::model::disk::journal::xfs_moment::{
    XfsKernel, XfsMark, XfsMounted, XfsSight, compare_logs, mark, stretch_around,
};
use incloud_disk::model::disk::journal::xfs_place::{SECTOR, XFS_SUPERBLOCK, XFS_UUID, log_place};

/// A disk: its size, and bytes at places.
struct PatchedDisk<'a> {
    size: u64,
    patches: Vec<(u64, &'a [u8])>,
}

impl<'a> PatchedDisk<'a> {
    /// The first byte is the size; then come patches: four bytes for the place, the highest bit counts from the
    /// end; one for the length; the bytes.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (shape, mut rest) = bytes.split_first()?;
        let size = (1_u64 << (9 + shape % 36)) + u64::from(shape / 36) * 512;
        let mut patches = Vec::new();
        while let [a, b, c, d, length, after @ ..] = rest {
            let place = u32::from_le_bytes([*a, *b, *c, *d]);
            let far = u64::from(place & 0x7fff_ffff);
            let at = if place >> 31 == 0 { far } else { size.wrapping_sub(far) };
            let (patch, next) = after.split_at(usize::from(*length).min(after.len()));
            if at < size {
                let room = usize::try_from(size - at).unwrap_or(usize::MAX);
                patches.push((at, &patch[..patch.len().min(room)]));
            }
            rest = next;
        }
        Some(Self { size, patches })
    }

    fn read(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let end = at + length as u64;
        for (place, patch) in &self.patches {
            let (from, to) = ((*place).max(at), (place + patch.len() as u64).min(end));
            if from < to {
                let index = |number: u64| usize::try_from(number).unwrap();
                bytes[index(from - at)..index(to - at)]
                    .copy_from_slice(&patch[index(from - place)..index(to - place)]);
            }
        }
        bytes
    }

    /// As the driver reads a disk first.
    fn samples(&self, places: &[(u64, u64)]) -> Vec<ReadSample> {
        let stretches = places::stretches(places);
        let sample = |(from, to): &(u64, u64)| {
            let to = (*to).min(self.size);
            let bytes = self.read(*from, usize::try_from(to - from).unwrap());
            ReadSample { offset: *from, bytes }
        };
        stretches.iter().map(sample).collect()
    }
}

pub fn disk(bytes: &[u8]) {
    let Some(disk) = PatchedDisk::of(bytes) else { return };
    let samples = disk.samples(&places::of_marks(disk.size));
    assert!(samples.iter().all(|one| one.offset + one.bytes.len() as u64 <= disk.size));
    let contents = judge(&Read { size: disk.size, samples: &samples });
    let is_zero = samples.iter().all(|one| one.bytes.iter().all(|byte| *byte == 0));
    // The one answer after which a disk may be formatted.
    assert_eq!(contents == Contents::Blank, is_zero, "{contents:?}");
    if let Contents::FileSystem(found) = &contents {
        assert!(!format!("{found:?}").contains('\n'));
    }
}

/// The journal of an ext4, as it is read of a disk that came back.
pub fn journal(bytes: &[u8]) {
    let Some(disk) = PatchedDisk::of(bytes) else { return };
    let read = |(at, length): Stretch| {
        assert!(length <= 1 << 16, "{length} bytes at once");
        let fits = at.checked_add(length as u64).is_some_and(|end| end <= disk.size);
        fits.then(|| disk.read(at, length))
    };
    let _ = walked(&read);
}

fn walked(read: &impl Fn(Stretch) -> Option<Vec<u8>>) -> Option<()> {
    let superblock = ExtSuperblock::parse(&read(SUPERBLOCK)?).ok()?;
    let _ = superblock.tells_too_little();
    let block_size = superblock.block_size().ok()?;
    let descriptor = read(superblock.descriptor().ok()?)?;
    let inode = read(superblock.inode(&descriptor).ok()?)?;
    let root = ExtentNode::in_inode(&inode).ok()?;
    let mut blocks = JournalBlocks::default();
    blocks.add(&root);
    for block in root.more.iter().take(4) {
        let node = read((block.checked_mul(block_size)?, usize::try_from(block_size).ok()?))?;
        blocks.add(&ExtentNode::parse(&node).ok()?);
    }
    let (at, _) = blocks.at(0)?;
    let journal = JournalSuperblock::parse(&read((at.checked_mul(block_size)?, JOURNAL_SUPERBLOCK))?).ok()?;
    // What the driver does not read on with.
    if journal.block_size() != block_size {
        return None;
    }
    let mut walk = LogWalk::of(&journal);
    let mut taken = 0_u32;
    while let Some(block) = walk.wants() {
        let (at, _) = blocks.at(block)?;
        let block = read((at.checked_mul(block_size)?, usize::try_from(block_size).ok()?))?;
        walk.take(&block);
        taken += 1;
    }
    let end = walk.end();
    assert!(u32::try_from(end.beginnings.len()).is_ok_and(|count| count <= taken + 1));
    Some(())
}

/// The log of an xfs around the kernel's place. The first bytes are what the kernel tells and what is remembered
/// of the mount; the patches are of the superblock, and behind it of what is read of the log.
pub fn xfs_log(bytes: &[u8]) {
    const BEHIND: u64 = 4096;
    let Some((told, rest)) = bytes.split_first_chunk::<32>() else { return };
    let Some(disk) = PatchedDisk::of(rest) else { return };
    let superblock = disk.read(0, XFS_SUPERBLOCK);
    let Ok((uuid, place)) = log_place(&superblock) else { return };
    let number = |at: usize| u32::from_le_bytes(told[at..at + 4].try_into().unwrap());
    let kernel = XfsKernel {
        head: (number(0), number(4)),
        tail: (number(8), number(12)),
        buffer: Some(u64::from(number(16))),
        written: Some(u64::from(number(24))),
        in_flight: 0,
    };
    let Ok((begin, count)) = stretch_around(&place, kernel.head) else { return };
    let length = usize::try_from(count * SECTOR).unwrap();
    let log = LogStretch::parse(&disk.read(BEHIND, length), &place, begin, &superblock[XFS_UUID]);
    let sector = |position: u64| log.at(position).copied();
    let remembered = XfsMark {
        place,
        head: begin + u64::from(number(20)) % count,
        first: number(28),
        buffer: u64::from(number(16)),
        counted_from: Some(begin),
    };
    let at_head = sector(remembered.head);
    let at_tail = sector(place.position_of(kernel.tail));
    let before = Some(XfsKernel { head: kernel.tail, written: Some(0), ..kernel });
    let mounted = Some(XfsMounted { kernel, before, log, at_tail, at_head });
    let sight = XfsSight { uuid, place, mounted };
    if let Ok(mark) = mark(&sight) {
        assert!(mark.head < place.position_of(kernel.head));
    }
    // Only what a mount has written, with its checksum, is the same.
    if compare_logs(&sight, &remembered) == Sameness::Same {
        let is_whole = |sector: &LogSector| matches!(sector, LogSector::Record(one) if one.is_whole == Some(true));
        assert!(sight.mounted.unwrap().log.sectors.iter().any(is_whole));
    }
}

pub fn config_drive(bytes: &[u8]) {
    let Some(disk) = PatchedDisk::of(bytes) else { return };
    let read = |at: u64, length: usize| {
        let fits = at.checked_add(length as u64).is_some_and(|end| end <= disk.size);
        fits.then(|| disk.read(at, length))
    };
    let _ = iso9660::read_file(read, "openstack/latest/meta_data.json");
}
