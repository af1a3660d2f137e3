//! The lines of calls that only looked and found all as it should be: a file in the run folder, which is in
//! memory, so that none of those calls waits for a disk. The next call that writes to the log takes them there.

use crate::host::files;
use nix::fcntl::OFlag;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// When there is more, a call takes it to the log, and has none of its own to wait for.
const MOST: u64 = 64 << 10;

/// So much is taken at once; what no call could take for so long is more than a log needs.
const LONGEST: u64 = 4 << 20;

/// Another call renames, or writes, just now.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// What became of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    /// They are in memory.
    Yes,
    /// They belong into the log on the disk: there are enough of them, or here they cannot be.
    No,
}

/// Where they are: those that are added to, and those that are being taken.
#[must_use]
pub fn places(run_dir: &Path) -> [PathBuf; 2] {
    [run_dir.join("looks.taken.jsonl"), run_dir.join("looks.jsonl")]
}

/// Keeps the lines of a call.
pub(super) fn keep(run_dir: &Path, lines: &[u8]) -> Keeping {
    let [_, place] = places(run_dir);
    for _ in 0..3 {
        let Ok(mut file) = open(&place) else { return Keeping::No };
        // A call that takes them renames the file first, and then waits for the calls that write to it.
        if file.try_lock_shared().is_err() {
            continue;
        }
        let Ok(found) = file.metadata() else { return Keeping::No };
        if found.nlink() == 0 {
            continue;
        }
        if !found.is_file() || found.len() > MOST {
            return Keeping::No;
        }
        let written = file.write(lines);
        return if written.is_ok_and(|length| length == lines.len()) {
            Keeping::Yes
        } else {
            Keeping::No
        };
    }
    Keeping::No
}

fn open(place: &Path) -> std::io::Result<File> {
    const FLAGS: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY);
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(FLAGS.bits());
    match options.open(place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            files::make_private_folder(place.parent().unwrap_or(place))
                .map_err(std::io::Error::other)?;
            options.open(place)
        }
        opened => opened,
    }
}

/// Gives all lines that are kept to `write`, and keeps them no longer if that is well.
pub(super) fn take(run_dir: &Path, write: impl FnOnce(&[u8]) -> std::io::Result<()>) {
    let [taken, place] = places(run_dir);
    // What a killed call had taken comes first.
    if files::is_missing(&taken) && fs::rename(&place, &taken).is_err() {
        return;
    }
    let Ok(file) = files::open_regular(&taken) else { return };
    let is_ours = (0..TRIES).any(|_| match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => {
            std::thread::sleep(PAUSE);
            false
        }
        Err(TryLockError::Error(_)) => false,
    });
    // Another call has them, or has taken them.
    if !is_ours || !file.metadata().is_ok_and(|found| found.nlink() > 0) {
        return;
    }
    let mut lines = Vec::new();
    let read = (&file).take(LONGEST).read_to_end(&mut lines);
    if read.is_ok() && write(&lines).is_ok() {
        let _ = fs::remove_file(&taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_taken_once_whatever_happens_at_the_same_time() {
        const CALLS: usize = 8;
        const LINES: usize = 50;
        let folder = tempfile::tempdir().unwrap();
        let log = std::sync::Mutex::new(Vec::new());
        let take_all = || {
            take(folder.path(), |lines| {
                log.lock().unwrap().extend_from_slice(lines);
                Ok(())
            });
        };
        std::thread::scope(|scope| {
            for call in 0..CALLS {
                let folder = folder.path();
                scope.spawn(move || {
                    for line in 0..LINES {
                        let text = format!("{call} {line}\n");
                        while keep(folder, text.as_bytes()) == Keeping::No {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| (0..100).for_each(|_| take_all()));
            }
        });
        // A process that another test starts has the lock too, until it is another program.
        for _ in 0..100 {
            take_all();
            if fs::read_dir(folder.path()).unwrap().count() == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let text = String::from_utf8(log.into_inner().unwrap()).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!((lines.len(), text.lines().count()), (CALLS * LINES, CALLS * LINES));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_not_written_stays_and_what_is_too_much_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        assert_eq!(keep(&run, b"one\n"), Keeping::Yes);
        take(&run, |_| Err(std::io::ErrorKind::StorageFull.into()));
        assert_eq!(keep(&run, b"two\n"), Keeping::Yes);
        let mut seen = Vec::new();
        for _ in 0..2 {
            take(&run, |lines| {
                seen.extend_from_slice(lines);
                Ok(())
            });
        }
        assert_eq!(seen, b"one\ntwo\n");
        let many = vec![b'x'; usize::try_from(MOST).unwrap() + 1];
        assert_eq!(keep(&run, &many), Keeping::Yes);
        assert_eq!(keep(&run, b"three\n"), Keeping::No);
        let [_, place] = places(&run);
        fs::remove_file(&place).unwrap();
        std::os::unix::fs::symlink("elsewhere", &place).unwrap();
        assert_eq!(keep(&run, b"four\n"), Keeping::No, "a link leads anywhere");
    }
}
