//! Reads one place of a disk after the other, into the same memory.

use super::samples::sample;
use crate::aligned_memory::AlignedMemory;
use crate::device_nodes;
use crate::model::disk::contents::blank::Extent;
use crate::model::disk::device::Device;
use crate::model::error::Result;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// How many reads the kernel is asked for at once: as many as the queues of most disks hold, so
/// that a disk far away is not waited for again with each.
const SHORT_AT_ONCE: usize = 256;

/// A long place keeps the disk's queue busy by itself.
const LONG_AT_ONCE: usize = 16;

/// Longer places are read past the page cache: what is read once, of hundreds of them, is put into the cache and
/// taken out again at more than the cost of the read.
const LONG: u64 = 64 << 10;

/// A disk that is read at many places.
pub(super) struct PlaceReader<'a> {
    pub(super) disk: &'a File,
    device: &'a Device,
    /// The same disk, past the page cache; nothing where it cannot be opened so.
    past_cache: Option<File>,
    memory: AlignedMemory,
}

impl<'a> PlaceReader<'a> {
    /// For places of this disk, which is open.
    pub(super) fn of(disk: &'a File, device: &'a Device, places: &[Extent]) -> Self {
        let has_long = places.iter().any(is_long);
        let past_cache = has_long.then(|| device_nodes::open_past_cache(device).ok()).flatten();
        Self { disk, device, past_cache, memory: AlignedMemory::default() }
    }

    /// How many of these places are read before the time is looked at.
    pub(super) fn at_once(places: &[Extent]) -> usize {
        if places.iter().any(is_long) { LONG_AT_ONCE } else { SHORT_AT_ONCE }
    }

    /// Tells the kernel what will be read.
    pub(super) fn announce(&self, places: &[Extent]) {
        let cached = |place: &&Extent| self.past_cache.is_none() || !is_long(place);
        for place in places.iter().filter(cached) {
            advise(self.disk, *place, PosixFadviseAdvice::POSIX_FADV_WILLNEED);
        }
    }

    /// What stands at a place.
    pub(super) fn read(&mut self, place: Extent) -> Result<&[u8]> {
        let (offset, length) = place;
        let room = self.memory.bytes(usize::try_from(length).unwrap_or(0));
        let from = self.past_cache.as_ref().filter(|_| is_long(&place)).unwrap_or(self.disk);
        if from.read_exact_at(room, offset).is_err() {
            // Once more, for where exactly it fails.
            room.copy_from_slice(&sample(self.disk, self.device, offset, length)?.bytes);
        }
        Ok(room)
    }
}

fn is_long((_, length): &Extent) -> bool {
    *length > LONG
}

/// Lets go of what the kernel keeps of a disk in memory.
pub(super) fn forget(disk: &File) {
    advise(disk, (0, 0), PosixFadviseAdvice::POSIX_FADV_DONTNEED);
}

/// A length of 0 means: to the end.
fn advise(disk: &File, (offset, length): Extent, advice: PosixFadviseAdvice) {
    if let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) {
        let _ = posix_fadvise(disk, offset, length, advice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::disk::device::{DeviceNumber, Proof};

    #[test]
    fn each_place_is_read_as_it_stands_whatever_was_read_before() {
        let size = 6 * LONG + 512;
        let bytes: Vec<u8> =
            (0..size).map(|at| u8::try_from(at * 7 / 512 % 251).unwrap()).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let disk = File::open(file.path()).unwrap();
        let device = Device {
            kernel_name: "no-disk".to_owned(),
            number: DeviceNumber { major: 0, minor: 0 },
            size,
            read_only: false,
            sequence: None,
            proof: Proof::Whole,
            connection: None,
        };
        let places = [(0, 4096), (4096, 2 * LONG), (LONG, 12 << 10), (2 * LONG, 4 * LONG + 512)];
        let mut reader = PlaceReader::of(&disk, &device, &places);
        assert_eq!((PlaceReader::at_once(&places), PlaceReader::at_once(&places[..1])), (16, 256));
        for (offset, length) in places {
            let (begin, end) =
                (usize::try_from(offset).unwrap(), usize::try_from(offset + length).unwrap());
            assert_eq!(reader.read((offset, length)).unwrap(), &bytes[begin..end], "{offset}");
        }
        let beyond = reader.read((size, 512)).unwrap_err();
        assert!(beyond.cause.contains("unreadable"), "{beyond}");
    }
}
