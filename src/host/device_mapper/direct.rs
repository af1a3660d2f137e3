//! A disk that is read past all caches, and whose bytes are judged where nothing else can be done.

use crate::aligned_memory::{ALIGNMENT, AlignedMemory};
use crate::confinement;
use crate::model::disk::device::Device;
use crate::model::disk::journal::place::Stretch;
use crate::model::error::{Error, Kind, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A disk that is read past all caches.
pub(super) struct Direct<'a> {
    pub(super) file: File,
    pub(super) disk: &'a Device,
}

impl Direct<'_> {
    pub(super) fn read(&self, (at, length): Stretch) -> Result<Vec<u8>> {
        let begin = at - at % ALIGNMENT as u64;
        let before = usize::try_from(at - begin).unwrap_or(0);
        let mut memory = AlignedMemory::default();
        let aligned = memory.bytes((before + length).next_multiple_of(ALIGNMENT));
        self.file.read_exact_at(aligned, begin).map_err(|error| {
            Error::io(format!("{} is unreadable at offset {begin}", self.disk.kernel_name), &error)
        })?;
        Ok(aligned[before..before + length].to_vec())
    }
}

/// What was wrong with bytes of a disk.
pub(super) fn strange(disk: &Device, why: &str) -> Error {
    Error::new(Kind::Host, format!("{}: {why}", disk.kernel_name))
}

/// Bytes of a disk are judged where nothing else can be done.
pub(super) fn confined<T: Send>(
    disk: &Device,
    judge: impl FnOnce() -> std::result::Result<T, String> + Send,
) -> Result<T> {
    confinement::judged(&disk.kernel_name, judge)?.map_err(|why| strange(disk, &why))
}
