//! A mkfs that is tried in memory first: options decide what it makes, and the disk is not asked.

use super::make;
use crate::files;
use crate::model::disk::contents::{self, Contents, FsType, Read, ReadSample, places};
use crate::model::error::{Error, Result};
use crate::ports::clock::Deadline;
use crate::ports::host::NewFileSystem;
use std::os::unix::fs::FileExt;

/// What is made depends on the options and not on the size, and some options fill as much memory as this.
const LARGEST: u64 = 1 << 30;

/// What this mkfs makes. Only that of ext has options that change what it is, and they differ between
/// machines (`-T`, mke2fs.conf).
pub(super) fn rehearse(
    size: u64,
    plan: &NewFileSystem,
    deadline: Deadline,
) -> Result<Option<Contents>> {
    if plan.options.is_empty() || !matches!(plan.kind, FsType::Ext3 | FsType::Ext4) {
        return Ok(None);
    }
    let failed = |error: std::io::Error| Error::io("make a file system in memory", &error);
    let file = files::in_memory("mkfs").map_err(failed)?;
    let size = size.min(LARGEST);
    file.set_len(size).map_err(failed)?;
    // Of a file mkfs asks whether it is meant.
    let plan = NewFileSystem { force: true, ..plan.clone() };
    if let Err(error) = make::make_copy(&file, &plan, deadline) {
        // It may be an option that fits a larger disk alone; the same mkfs on the disk tells.
        tracing::debug!(%error, "mkfs was not tried in memory");
        return Ok(None);
    }
    let mut samples = Vec::new();
    for (offset, length) in places::of_marks(size) {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        samples.push(ReadSample { offset, bytes });
    }
    Ok(Some(contents::judge(&Read { size, samples: &samples })))
}
