//! What the kernel has in memory of files on a disk, asked for so that it waits for no disk: a call that does
//! its own work must not hang on one (`worker/late.rs`). What is not in memory is no answer here.

use super::worker::late;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatfs, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// A mount or a rename anywhere on the machine can make a walk begin anew, which this one does not.
const TRIES: usize = 3;

/// Looks whether a folder is in memory itself: then nothing below it needs a disk.
pub fn look_for_memory(folder: &Path) {
    if late::is_alone() && is_in_memory(folder) {
        late::is_in_memory(folder);
    }
}

/// Whether a folder is in memory itself.
#[must_use]
pub fn is_in_memory(folder: &Path) -> bool {
    let place = walk(folder, OFlags::PATH, ResolveFlags::empty());
    place.is_some_and(|place| place.is_ok_and(|place| is_memory(&place)))
}

fn is_memory(place: impl AsFd) -> bool {
    fstatfs(place).is_ok_and(|found| found.f_type == nix::libc::TMPFS_MAGIC)
}

/// Whether there is such a folder.
#[must_use]
pub fn has_memory() -> bool {
    late::has_memory()
}

/// The path itself, if it is a folder's whole and only name, without a link in it, as the kernel has in memory.
#[must_use]
pub fn straight(folder: &Path) -> Option<PathBuf> {
    let straight = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    let found = late::is_alone() && folder.is_absolute() && folder.components().all(is_plain);
    let place = found.then(|| walk(folder, OFlags::PATH | OFlags::DIRECTORY, straight));
    place.flatten()?.is_ok().then(|| folder.components().collect())
}

/// Opens a place; nothing if the way to it is not in memory.
pub(super) fn walk(
    path: &Path,
    how: OFlags,
    along: ResolveFlags,
) -> Option<rustix::io::Result<OwnedFd>> {
    let cached = along | ResolveFlags::CACHED;
    for _ in 0..TRIES {
        match openat2(CWD, path, how | OFlags::CLOEXEC, Mode::empty(), cached) {
            // Linux before 5.12 does not know the wish, and before 5.6 not the call.
            Err(Errno::INVAL | Errno::NOSYS) => return None,
            Err(Errno::AGAIN) => {}
            opened => return Some(opened),
        }
    }
    None
}

/// The way to a place is in memory, as long as this lives: what is asked of the place itself needs no disk.
#[derive(Debug)]
#[must_use]
pub struct Reached {
    place: Option<OwnedFd>,
}

impl Reached {
    /// Whether what was reached there stays in memory: of nothing, nothing does.
    #[must_use]
    pub fn stays(&self) -> bool {
        self.place.is_some() || !late::is_alone()
    }
}

/// Goes to a place, the last part of whose path may be a link; if the way is not in memory, a worker goes on.
pub fn reach(path: &Path) -> Reached {
    reached(path, OFlags::PATH)
}

/// The same, and the link itself is the place.
pub fn reach_link(path: &Path) -> Reached {
    reached(path, OFlags::PATH | OFlags::NOFOLLOW)
}

fn reached(path: &Path, how: OFlags) -> Reached {
    if !late::is_alone() || late::has_no_disk(path) {
        return Reached { place: None };
    }
    let place = walk(path, how, ResolveFlags::empty());
    if place.is_none() {
        late::may_hang();
    }
    Reached { place: place.and_then(Result::ok) }
}

/// All bytes of a regular file that is not longer than `most`; nothing if the kernel would wait for its disk.
pub(super) fn read(path: &Path, most: u64) -> Option<io::Result<Vec<u8>>> {
    // To note the time of a read is a write.
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOATIME;
    let file = match walk(path, how, ResolveFlags::empty())? {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Some(Err(Errno::NOENT.into())),
        Err(_) => return None,
    };
    let found = file.metadata().ok().filter(|found| found.is_file() && found.len() <= most)?;
    let length = usize::try_from(found.len()).ok()?;
    // One byte more than it should have: a file that has grown is another one by now.
    let mut bytes = vec![0; length + 1];
    let into = &mut [io::IoSliceMut::new(&mut bytes)];
    let got = match preadv2(&file, into, 0, ReadWriteFlags::NOWAIT) {
        // A tmpfs does not know the wish, and has no disk.
        Err(Errno::OPNOTSUPP) if is_memory(&file) => {
            preadv2(&file, into, 0, ReadWriteFlags::empty())
        }
        got => got,
    };
    let got = got.ok()?;
    bytes.truncate(got);
    (got == length).then_some(Ok(bytes))
}
