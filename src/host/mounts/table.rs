//! The mount table of a process, read from the kernel.

use super::btrfs;
use crate::failpoints;
use crate::host::mount_tables;
use crate::model::error::{Error, Result};
use crate::model::face::Faces;
use crate::model::mount::mountinfo::MountTable;
use std::fs::File;

/// The mounts of this thread's namespace, with the disk of each btrfs that is in a folder of ours.
pub(super) fn read_table_with_disks(faces: Faces) -> Result<MountTable> {
    let mut table = read_table()?;
    btrfs::find_disks(&mut table, faces)?;
    Ok(table)
}

/// The mounts of this thread's namespace.
pub(super) fn read_table() -> Result<MountTable> {
    // `thread-self`, not `self`: the latter shows the namespace of the main thread.
    let path = "/proc/thread-self/mountinfo";
    failpoints::effect("mounts.table")?;
    let text = File::open(path).and_then(mount_tables::read);
    let text = text.map_err(|error| Error::io(format!("read {path}"), &error))?;
    MountTable::parse(&text)
}
