//! The mount table of a process, read from the kernel.

use super::btrfs;
use crate::failpoints;
use crate::model::error::{Error, Result};
use crate::model::face::Faces;
use crate::model::mount::mountinfo::MountTable;
use crate::mount_tables;
use crate::worker::late;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

/// A table that was read, its file, and whose it is: of which process and which namespace.
struct LastTable {
    file: File,
    of: (u32, u64),
    table: MountTable,
}

thread_local! {
    static LAST: RefCell<Option<LastTable>> = const { RefCell::new(None) };
}

fn whose() -> Option<(u32, u64)> {
    let namespace = std::fs::metadata("/proc/thread-self/ns/mnt").ok()?;
    Some((std::process::id(), namespace.ino()))
}

/// The same as was read before, if the kernel says that nothing was mounted or unmounted since: for a call
/// that does so itself (`worker/late.rs`), and is over in the next moment.
pub(super) fn unchanged(faces: Faces) -> Result<MountTable> {
    let last = LAST.with_borrow(|last| {
        let last = last.as_ref().filter(|last| late::is_alone() && Some(last.of) == whose())?;
        let mut asked = [PollFd::new(last.file.as_fd(), PollFlags::POLLPRI)];
        let is_same = matches!(poll(&mut asked, PollTimeout::ZERO), Ok(0));
        is_same.then(|| last.table.clone())
    });
    match last {
        Some(mut table) => {
            btrfs::find_disks(&mut table, faces)?;
            Ok(table)
        }
        None => read_table_with_disks(faces),
    }
}

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
    let table = MountTable::parse(&mount_tables::read(&file).map_err(failed)?)?;
    let of = whose().filter(|_| late::is_alone());
    LAST.set(of.map(|of| LastTable { file, of, table: table.clone() }));
    Ok(table)
}
