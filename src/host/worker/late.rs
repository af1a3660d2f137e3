//! A call that begins without a worker: the process that was called does it itself, as long as nothing that it
//! does can hang. Right before the first thing that can it splits: from there on a worker goes on with the
//! work, in the middle of it, and this process waits.
//!
//! What cannot hang: system calls on `/proc`, on `/sys` but for what a disk itself is asked, on `/dev`, on the
//! run folder if that is in memory, and what the kernel has in memory of any other file (`host/at_hand.rs`).

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Makes the worker. It comes back in the worker alone.
pub(super) type Split = Box<dyn FnOnce(Alone)>;

/// What a call without a worker has come to.
#[derive(Debug, Default)]
pub(super) struct Alone {
    /// The locks that it has.
    pub(super) locks: Vec<HeldLock>,
    /// How long it may take in all, if it knows that by now.
    pub(super) total: Option<Duration>,
    /// A folder in memory.
    in_memory: Option<PathBuf>,
}

/// A lock that was taken before there was a worker.
#[derive(Debug)]
pub(super) struct HeldLock {
    file: RawFd,
    pub(super) path: PathBuf,
    pub(super) is_volumes: bool,
}

thread_local! {
    /// Of the one thread that such a process has.
    static ALONE: RefCell<Option<(Alone, Split)>> = const { RefCell::new(None) };
}

/// Begins the work of a call without a worker.
pub(super) fn begin(split: Split) {
    ALONE.set(Some((Alone::default(), split)));
}

/// The work is done; whether it was done without a worker.
#[must_use]
pub fn end() -> bool {
    ALONE.take().is_some()
}

/// Whether this process does the work of a call without a worker.
#[must_use]
pub fn is_alone() -> bool {
    ALONE.with_borrow(Option::is_some)
}

fn with(note: impl FnOnce(&mut Alone)) {
    ALONE.with_borrow_mut(|alone| {
        if let Some((alone, _)) = alone {
            note(alone);
        }
    });
}

/// How long all may take, in place of what was allowed at first.
pub(super) fn may_take(total: Duration) {
    with(|alone| alone.total = Some(total));
}

/// This folder is in memory: what lies below it needs no disk.
pub(crate) fn is_in_memory(folder: &Path) {
    with(|alone| alone.in_memory = Some(folder.to_path_buf()));
}

/// Whether there is one.
#[must_use]
pub(crate) fn has_memory() -> bool {
    ALONE.with_borrow(|alone| alone.as_ref().is_some_and(|(alone, _)| alone.in_memory.is_some()))
}

/// Whether a path is of a file system that has no disk.
#[must_use]
pub(crate) fn has_no_disk(path: &Path) -> bool {
    const WITHOUT: [&str; 3] = ["/proc", "/sys", "/dev"];
    WITHOUT.iter().any(|folder| path.starts_with(folder))
        || ALONE.with_borrow(|alone| {
            let folder = alone.as_ref().and_then(|(alone, _)| alone.in_memory.as_deref());
            folder.is_some_and(|folder| path.starts_with(folder))
        })
}

/// A lock was taken.
pub(super) fn holds(file: &File, path: &Path, is_volumes: bool) {
    let file = file.as_raw_fd();
    with(|alone| alone.locks.push(HeldLock { file, path: path.to_path_buf(), is_volumes }));
}

/// A lock is about to be given back.
pub(super) fn gives_back(file: &File) {
    with(|alone| alone.locks.retain(|lock| lock.file != file.as_raw_fd()));
}

/// Right before a system call that can hang, a wait, or the start of a thread or a child: from here on a worker
/// does the work, if none does it yet. Only the worker comes back from here.
pub fn may_hang() {
    if let Some((alone, split)) = ALONE.take() {
        split(alone);
    }
}

impl HeldLock {
    /// The same file once more.
    #[allow(unsafe_code)]
    pub(super) fn file(&self) -> std::io::Result<File> {
        // SAFETY: it is open for as long as the lock is held, which ends with this process or the worker.
        let held = unsafe { BorrowedFd::borrow_raw(self.file) };
        Ok(held.try_clone_to_owned()?.into())
    }
}
