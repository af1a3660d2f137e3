//! The mount table of a process, read from the kernel.

use super::btrfs;
use crate::failpoints;
use crate::model::error::{Error, Result};
use crate::model::face::Faces;
use crate::model::mount::mountinfo::MountTable;
use crate::mount_tables;
use std::fs::File;

/// The mounts of this thread's namespace, with the disk of each btrfs that is in a folder of ours.
pub(super) fn read_table_with_disks(faces: Faces) -> Result<MountTable> {
    let mut table = read_table()?;
    btrfs::find_disks(&mut table, faces)?;
    Ok(table)
}

/// The mounts of this thread's namespace.
pub(crate) fn read_table() -> Result<MountTable> {
    // `thread-self`, not `self`: the latter shows the namespace of the main thread.
    let path = "/proc/thread-self/mountinfo";
    failpoints::effect("mounts.table")?;
    let failed = |error| Error::io(format!("read {path}"), &error);
    let file = File::open(path).map_err(failed)?;
    MountTable::parse(&mount_tables::read(&file).map_err(failed)?)
}
