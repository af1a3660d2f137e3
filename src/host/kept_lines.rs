//! What calls leave that only looked and found all as it should be: lines in a file of the run folder, which is in
//! memory, so that none of those calls waits for a disk. A later call that may wait takes them to where they belong.

use super::files::{self, LockedFile};
use nix::fcntl::OFlag;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// When there is more, a call takes it to the disk, and has none of its own to wait for.
const MOST: u64 = 64 << 10;

/// So much is taken at once; what no call could take for so long is more than anybody needs.
const LONGEST: u64 = 4 << 20;

/// Another call renames, or writes, just now.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// What became of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// They are in memory.
    Yes,
    /// They belong on the disk: there are enough of them, or here they cannot be.
    No,
}

/// Lines that are kept in memory.
#[derive(Debug)]
pub struct KeptLines {
    /// Those that are added to.
    pub place: PathBuf,
    /// Those that are being taken.
    pub taken: PathBuf,
}

/// Lines that no other call takes as long as this lives.
#[derive(Debug)]
pub struct TakenLines {
    /// All of them.
    pub lines: Vec<u8>,
    /// They are removed if they are still there.
    place: PathBuf,
    _lock: LockedFile,
}

impl KeptLines {
    /// In the files `NAME.EXTENSION` and `NAME.taken.EXTENSION`.
    #[must_use]
    pub fn below(run_dir: &Path, name: &str, extension: &str) -> Self {
        let of = |name: &str| run_dir.join(format!("{name}.{extension}"));
        Self { place: of(name), taken: of(&format!("{name}.taken")) }
    }

    /// Keeps the lines of a call, in one write.
    #[must_use]
    pub fn keep(&self, lines: &[u8]) -> Keeping {
        for _ in 0..3 {
            let Ok(mut file) = open(&self.place) else { return Keeping::No };
            // A call that takes them renames the file first, and then waits for the calls that write to it.
            if file.try_lock_shared().is_err() {
                continue;
            }
            let Ok(found) = file.metadata() else { return Keeping::No };
            // What was taken is never added to, also where who took it was killed.
            if !fs::symlink_metadata(&self.place).is_ok_and(|named| named.ino() == found.ino()) {
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

    /// Takes all of them, or those that a killed call had taken.
    #[must_use]
    pub fn take(&self) -> Option<TakenLines> {
        // In the place of what another call takes just now no other file may come.
        let renamed = renameat_with(CWD, &self.place, CWD, &self.taken, RenameFlags::NOREPLACE);
        if renamed.is_err() && files::is_missing(&self.taken) {
            return None;
        }
        let file = files::open_regular(&self.taken).ok()?;
        let is_ours = (0..TRIES).any(|_| match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(PAUSE);
                false
            }
            Err(TryLockError::Error(_)) => false,
        });
        if !is_ours {
            return None;
        }
        let file = LockedFile::of(file);
        // Another call has taken them meanwhile.
        if !file.metadata().is_ok_and(|found| found.nlink() > 0) {
            return None;
        }
        let mut lines = Vec::new();
        (&*file).take(LONGEST).read_to_end(&mut lines).ok()?;
        Some(TakenLines { lines, place: self.taken.clone(), _lock: file })
    }
}

impl TakenLines {
    /// They are where they belong.
    pub fn are_written(self) {
        let _ = fs::remove_file(&self.place);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(folder: &Path) -> KeptLines {
        KeptLines::below(folder, "looks", "jsonl")
    }

    #[test]
    fn what_is_kept_is_taken_once_whatever_happens_at_the_same_time() {
        const CALLS: usize = 8;
        const LINES: usize = 50;
        let folder = tempfile::tempdir().unwrap();
        let kept = kept(folder.path());
        let log = std::sync::Mutex::new(Vec::new());
        let take_all = || {
            if let Some(taken) = kept.take() {
                log.lock().unwrap().extend_from_slice(&taken.lines);
                taken.are_written();
            }
        };
        std::thread::scope(|scope| {
            for call in 0..CALLS {
                let kept = &kept;
                scope.spawn(move || {
                    for line in 0..LINES {
                        let text = format!("{call} {line}\n");
                        while kept.keep(text.as_bytes()) == Keeping::No {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            for _ in 0..3 {
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
        let kept = kept(&folder.path().join("run"));
        assert_eq!(kept.keep(b"one\n"), Keeping::Yes);
        assert_eq!(kept.take().unwrap().lines, b"one\n");
        assert_eq!(kept.keep(b"two\n"), Keeping::Yes);
        let mut seen = Vec::new();
        while let Some(taken) = kept.take() {
            seen.extend_from_slice(&taken.lines);
            taken.are_written();
        }
        assert_eq!(seen, b"one\ntwo\n");
        let many = vec![b'x'; usize::try_from(MOST).unwrap() + 1];
        assert_eq!(kept.keep(&many), Keeping::Yes);
        assert_eq!(kept.keep(b"three\n"), Keeping::No);
        fs::remove_file(&kept.place).unwrap();
        std::os::unix::fs::symlink("elsewhere", &kept.place).unwrap();
        assert_eq!(kept.keep(b"four\n"), Keeping::No, "a link leads anywhere");
    }

    #[test]
    fn to_what_was_taken_nothing_is_added() {
        let folder = tempfile::tempdir().unwrap();
        let kept = kept(folder.path());
        assert_eq!(kept.keep(b"one\n"), Keeping::Yes);
        drop(kept.take().unwrap());
        assert_eq!(kept.keep(b"two\n"), Keeping::Yes);
        assert_eq!(
            kept.take().unwrap().lines,
            b"one\n",
            "what a killed call had taken comes first"
        );
    }
}
