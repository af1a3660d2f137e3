//! Reads one place of a disk after the other, into the same memory.

use super::blank::advise;
use super::samples::sample;
use crate::host::device_nodes;
use crate::model::disk::contents::blank::Extent;
use crate::model::disk::device::Device;
use crate::model::error::Result;
use nix::fcntl::PosixFadviseAdvice;
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

/// What such a read's memory and offset must be a multiple of.
const ALIGNMENT: usize = 4096;

/// A disk that is read at many places.
pub(super) struct PlaceReader<'a> {
    disk: &'a File,
    device: &'a Device,
    /// The same disk, past the page cache; nothing where it cannot be opened so.
    past_cache: Option<File>,
    room: Vec<u8>,
}

impl<'a> PlaceReader<'a> {
    /// For places of this disk, which is open.
    pub(super) fn of(disk: &'a File, device: &'a Device, places: &[Extent]) -> Self {
        let has_long = places.iter().any(is_long);
        let past_cache = has_long.then(|| device_nodes::open_past_cache(device).ok()).flatten();
        Self { disk, device, past_cache, room: Vec::new() }
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

    /// Lets go of what the kernel keeps of it: megabytes that are not asked for again must not crowd out what is.
    pub(super) fn forget(&self) {
        advise(self.disk, (0, 0), PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }

    /// What stands at a place.
    pub(super) fn read(&mut self, place: Extent) -> Result<&[u8]> {
        let (offset, length) = place;
        let length = usize::try_from(length).unwrap_or(0);
        if self.room.len() < length + ALIGNMENT {
            self.room = vec![0; length + ALIGNMENT];
        }
        let begin = self.room.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let room = &mut self.room[begin..begin + length];
        let from = self.past_cache.as_ref().filter(|_| is_long(&place)).unwrap_or(self.disk);
        if from.read_exact_at(room, offset).is_err() {
            // Once more, for where exactly it fails.
            room.copy_from_slice(&sample(self.disk, self.device, offset, length as u64)?.bytes);
        }
        Ok(room)
    }
}

fn is_long((_, length): &Extent) -> bool {
    *length > LONG
}
