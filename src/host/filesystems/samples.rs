//! Stretches of a disk, read: whole or an error that says where reading fails.

use crate::failpoints;
use crate::model::disk::contents::ReadSample;
use crate::model::disk::device::Device;
use crate::model::error::{Error, Kind, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Each place for itself, for only what is asked for must be whole.
pub(super) fn sampled(
    disk: &File,
    device: &Device,
    places: &[(u64, u64)],
) -> Result<Vec<ReadSample>> {
    places.iter().map(|(offset, length)| sample(disk, device, *offset, *length)).collect()
}

pub(super) fn sample(disk: &File, device: &Device, offset: u64, length: u64) -> Result<ReadSample> {
    failpoints::effect("filesystems.read").map_err(unread)?;
    read(disk, device, offset, length)
}

fn read(disk: &File, device: &Device, offset: u64, length: u64) -> Result<ReadSample> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    disk.read_exact_at(&mut bytes, offset).map_err(|error| {
        let at = first_unreadable(disk, offset, length).unwrap_or(offset);
        let name = &device.kernel_name;
        unread(Error::io(format!("{name} is unreadable at offset {at}"), &error))
    })?;
    Ok(ReadSample { offset, bytes })
}

/// A disk that cannot be read is not a blank disk.
pub(super) fn unread(error: Error) -> Error {
    Error { kind: Kind::Refused, ..error }
        .hint("nothing was changed; look at the disk's health in the kernel's log")
}

/// Where in a stretch reading begins to fail.
fn first_unreadable(disk: &File, offset: u64, length: u64) -> Option<u64> {
    const STEP: usize = 4096;
    let mut block = [0; STEP];
    (offset..offset + length).step_by(STEP).find(|at| {
        let left = usize::try_from(offset + length - at).unwrap_or(STEP).min(STEP);
        disk.read_exact_at(&mut block[..left], *at).is_err()
    })
}
