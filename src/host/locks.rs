//! One lock for each volume: a file that the kernel frees when its holder dies.
//!
//! The file names its holder for people and vanishes with the lock. So a process that gets the lock
//! looks whether the name still leads to the file that it locked; if not, the file was removed in
//! between, and the process tries again.

use super::left_behind::{self, LeftProcess};
use super::{files, worker};
use crate::failpoints;
use crate::model::advice::Advice;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::pauses::Steps;
use crate::ports::clock::Deadline;
use crate::ports::store::{self, HeldLock, Locked, StuckProcess};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder of all locks.
#[derive(Debug, Clone)]
pub struct LockFiles {
    folder: PathBuf,
    patience: Option<Duration>,
    is_volumes: bool,
}

/// Who has a lock that is not given back.
#[derive(Debug)]
struct LockHolder {
    pid: i32,
    operation: String,
    /// Since when, in seconds.
    seconds: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Works,
    Stopped,
    /// The process, as it hangs in the kernel.
    Hangs(LeftProcess),
    /// There is no such process to be seen.
    Unseen,
}

impl LockHolder {
    /// Whether it does nothing more by itself.
    fn hangs(&self) -> bool {
        !matches!(self.state, State::Works)
    }

    fn end(&self) -> Advice {
        let pid = self.pid;
        match &self.state {
            State::Works => format!(
                "it ends by itself; `kill -9 {pid}` ends it now, and the next call goes on from there"
            )
            .into(),
            State::Stopped => {
                format!("`kill -CONT {pid}` lets it go on, `kill -9 {pid}` ends it").into()
            }
            State::Hangs(_) => store::what_ends_it(),
            State::Unseen => {
                "its process cannot be seen from here: `lsof` of the lock's file shows it".into()
            }
        }
    }
}

impl std::fmt::Display for LockHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pid, operation, seconds, state } = self;
        write!(f, "process {pid} ({operation}), which has the lock for {seconds} s")?;
        match state {
            State::Works | State::Unseen => Ok(()),
            State::Stopped => write!(f, " and is stopped"),
            State::Hangs(left) => write!(f, ": {left}"),
        }
    }
}

/// The file of a held lock.
#[derive(Debug)]
struct LockFile {
    path: PathBuf,
    file: File,
}

impl HeldLock for LockFile {}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Removed while still held: a waiter then locks a file without a name and tries again.
        let _ = fs::remove_file(&self.path);
        // The process that waits for this one has the same lock: closing our file frees nothing.
        let _ = self.file.unlock();
    }
}

/// Removes the file of a lock that is held, if it is still the one of its name.
pub fn remove(lock: &File, path: &Path) {
    if is_still_named(lock, path) {
        let _ = fs::remove_file(path);
    }
}

/// How long to read the kernel's table of all locks. Users can make it arbitrarily long, each page takes longer
/// than the one before, and no process can take a lock meanwhile.
const TABLE: Duration = Duration::from_millis(100);

/// So often a lock must not be found to be free.
const LOOKS: u32 = 3;

/// Whether a line of `/proc/locks` or `fdinfo` describes a lock on this file:
/// `1: FLOCK  ADVISORY  WRITE 4242 00:1a:77 0 EOF`; with `->` it is one who waits.
fn is_lock_on(line: &str, file: &str) -> bool {
    let mut words = line.split_whitespace().skip(1);
    words.next() == Some("FLOCK") && words.nth(3) == Some(file)
}

/// Whether this process holds a lock on the file. `fdinfo` lists only the locks on the open file itself.
fn is_held_by(pid: i32, file: &str) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    open.filter_map(|one| fs::read_to_string(one.path()).ok()).any(|text| {
        let mut locks = text.lines().filter_map(|line| line.strip_prefix("lock:"));
        locks.any(|line| is_lock_on(line, file))
    })
}

/// Whether a lock on this file is in the first part of the kernel's table. Other locks may go between two reads, and
/// the next read then skips one for each of them: so a read has room for all that the kernel returns at once.
fn is_in_the_kernels_table(file: &str) -> std::io::Result<bool> {
    let (mut text, mut room) = (Vec::new(), vec![0; 64 << 10]);
    let (mut table, until) = (File::open("/proc/locks")?, Deadline::after(TABLE));
    loop {
        let length = table.read(&mut room)?;
        text.extend_from_slice(&room[..length]);
        if length == 0 || until.over() {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&text).lines().any(|line| is_lock_on(line, file)))
}

impl LockFiles {
    /// Locks below the run folder.
    pub fn below(run_dir: &Path) -> Self {
        Self { is_volumes: true, ..Self::in_folder(&run_dir.join("locks")) }
    }

    /// Locks in exactly this folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), patience: None, is_volumes: false }
    }

    /// The same, with no lock waited for longer than so.
    #[must_use]
    pub fn with_patience(self, patience: Option<Duration>) -> Self {
        Self { patience, ..self }
    }

    /// Makes the folder. Between two steps of it other calls may take it away, or its parent; where no
    /// folder can be it looks the same each time.
    fn make_folder(&self) -> std::io::Result<()> {
        for _ in 1..64 {
            match files::private_folder(&self.folder) {
                Err(error) if has_gone(&error) => {}
                made => return made,
            }
        }
        files::private_folder(&self.folder)
    }
}

impl store::Locks for LockFiles {
    fn files(&self) -> Vec<VolumeId> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| VolumeId::parse(name.strip_suffix(".lock")?).ok()).collect()
    }

    fn holder(&self, id: &VolumeId) -> Option<String> {
        let path = self.folder.join(format!("{id}.lock"));
        let found = fs::metadata(&path).ok()?;
        let (major, minor) =
            (nix::sys::stat::major(found.dev()), nix::sys::stat::minor(found.dev()));
        let file = format!("{major:02x}:{minor:02x}:{}", found.ino());
        let signed = LockHolder::signed(&path);
        // A table of more than a page is told in parts, so that a lock may be missed once.
        let is_held = signed.as_ref().is_some_and(|(pid, _)| is_held_by(*pid, &file))
            || (0..LOOKS).any(|_| is_in_the_kernels_table(&file).unwrap_or(false));
        let holder = files::read_text(&path).unwrap_or_default();
        let holder = holder.trim();
        let holder = if holder.is_empty() { "an unknown call" } else { holder };
        is_held.then(|| holder.to_owned())
    }

    fn hanging_holder(&self, id: &VolumeId) -> Option<String> {
        let holder = LockHolder::of(&self.folder.join(format!("{id}.lock")))?;
        holder.hangs().then(|| holder.to_string())
    }

    fn stuck(&self, id: &VolumeId) -> Vec<StuckProcess> {
        let left = left_behind::of_lock(&self.folder.join(format!("{id}.lock")));
        left.into_iter().map(LeftProcess::into_stuck).collect()
    }

    fn take(&self, id: &VolumeId, operation: &str, deadline: Deadline) -> Result<Locked> {
        let deadline = self.patience.map_or(deadline, |patience| deadline.at_most(patience));
        let path = self.folder.join(format!("{id}.lock"));
        let steps = Steps::between(Duration::from_millis(1), Duration::from_millis(50));
        let (mut waits, mut is_late, mut again) = (None, false, 0..16);
        for step in steps {
            // std opens every file close-on-exec: children do not keep the lock.
            let file = match files::open_shared(&path) {
                Ok(file) => file,
                // The first lock of all, or the empty folder was removed: that may happen again.
                Err(error) if error.kind() == ErrorKind::NotFound && !is_late => {
                    is_late = deadline.over();
                    match self.make_folder() {
                        Ok(()) => {}
                        Err(error)
                            if has_gone(&error)
                                && again.next().is_some()
                                && deadline.pause(step) => {}
                        Err(error) => {
                            let doing = format!("make the folder {}", self.folder.display());
                            return Ok(Locked::Impossible(Error::io(doing, &error)));
                        }
                    }
                    continue;
                }
                Err(error) => {
                    let doing = format!("open {}", path.display());
                    return Ok(Locked::Impossible(Error::io(doing, &error)));
                }
            };
            match file.try_lock() {
                Ok(()) if is_still_named(&file, &path) => {
                    sign(&file, operation);
                    worker::holds(&file, &path, self.is_volumes);
                    return Ok(Locked::Held(Box::new(LockFile { path, file })));
                }
                Ok(()) => continue,
                Err(TryLockError::WouldBlock) if waits.is_some() => {}
                Err(TryLockError::WouldBlock) => {
                    let at_most = deadline.remaining();
                    waits = Some(worker::waits_for(&format_args!("the lock of {id}"), at_most));
                    failpoints::step("locks.waits");
                }
                Err(TryLockError::Error(error)) => {
                    return Err(Error::io(format!("lock {}", path.display()), &error));
                }
            }
            if !deadline.pause(step) {
                break;
            }
        }
        let (holder, end) = match LockHolder::of(&path) {
            Some(holder) => (holder.to_string(), holder.end()),
            None => ("an unknown call".to_owned(), "it is repeated by kubelet".into()),
        };
        Err(Error::new(Kind::Busy, format!("another call works on the volume: {holder}")).hint(end))
    }
}

/// Its parent was removed, or it was there itself and is not any more.
fn has_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists)
}

impl LockHolder {
    /// How it signed the lock, and what the kernel says of it now.
    fn of(path: &Path) -> Option<Self> {
        let (pid, operation) = Self::signed(path)?;
        let signed = fs::metadata(path).and_then(|found| found.modified()).ok();
        let age = signed.and_then(|signed| signed.elapsed().ok()).unwrap_or_default();
        Some(Self { pid, operation, seconds: age.as_secs(), state: State::of(pid) })
    }

    /// The process and the operation in the lock's file.
    fn signed(path: &Path) -> Option<(i32, String)> {
        let text = fs::read_to_string(path).ok()?;
        let (pid, rest) = text.trim().strip_prefix("process ")?.split_once(" (")?;
        Some((pid.parse().ok()?, rest.trim_end_matches(')').to_owned()))
    }
}

impl State {
    /// A call that works sleeps in the kernel too, but not in each of many looks.
    fn of(pid: i32) -> Self {
        const LOOKS: u32 = 20;
        const BETWEEN: Duration = Duration::from_millis(10);
        for _ in 0..LOOKS {
            match left_behind::state_of(pid) {
                None => return Self::Unseen,
                Some(('T' | 't', _)) => return Self::Stopped,
                Some(_) if !left_behind::hangs(pid) => return Self::Works,
                Some(_) => std::thread::sleep(BETWEEN),
            }
        }
        match LeftProcess::of(pid, "", 0) {
            Some(mut left) => {
                left.look();
                Self::Hangs(left)
            }
            None => Self::Unseen,
        }
    }
}

fn is_still_named(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(named)) => ours.ino() == named.ino() && ours.dev() == named.dev(),
        _ => false,
    }
}

/// Writes who holds the lock: for people only, so a full disk is no failure.
fn sign(mut file: &File, operation: &str) {
    let _ = file.set_len(0);
    let _ = file.write_all(format!("process {} ({operation})\n", std::process::id()).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::store::Locks as _;
    use std::sync::atomic::Ordering::SeqCst;

    fn id() -> VolumeId {
        VolumeId::parse("v1").unwrap()
    }

    fn soon() -> Deadline {
        Deadline::after(Duration::from_millis(30))
    }

    #[test]
    fn where_no_folder_can_be_that_is_said_before_the_time_is_over() {
        let deadline = Deadline::after(Duration::from_secs(60));
        let taken = LockFiles::below(Path::new("/proc/none/of/it")).take(&id(), "attach", deadline);
        assert!(matches!(taken, Ok(Locked::Impossible(_))), "{taken:?}");
        assert!(!deadline.over());
    }

    #[test]
    fn the_second_taker_learns_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let locks = LockFiles::below(folder.path());
        let held = locks.take(&id(), "attach", soon()).unwrap().required().unwrap();
        let error = locks.take(&id(), "detach", soon()).unwrap_err();
        assert_eq!(error.kind, Kind::Busy);
        let holder = format!("process {} (attach)", std::process::id());
        assert_eq!(locks.holder(&id()), Some(holder.clone()));
        assert!(error.cause.contains(&holder), "{error}");
        drop(held);
        assert_eq!(locks.holder(&id()), None);
        assert_eq!(fs::read_dir(folder.path().join("locks")).unwrap().count(), 0);
        assert!(matches!(locks.take(&id(), "detach", soon()).unwrap(), Locked::Held(_)));
    }

    /// Where the kernel's table was read as any file is, one look in some hundred did not find it.
    #[test]
    fn a_holder_is_seen_while_other_locks_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let locks = LockFiles::below(folder.path());
        let held = locks.take(&id(), "attach", soon()).unwrap().required().unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let others = LockFiles::below(&folder.path().join("others"));
                while !is_over.load(SeqCst) {
                    let ids = (0..20).map(|n| VolumeId::parse(&format!("other-{n}")).unwrap());
                    let taken: Vec<_> = ids.map(|id| others.take(&id, "test", soon())).collect();
                    drop(taken);
                }
            });
            let missed = (0..2000).filter(|_| locks.holder(&id()).is_none()).count();
            is_over.store(true, SeqCst);
            assert_eq!(missed, 0);
        });
        drop(held);
    }

    /// Each page of the kernel's table takes longer than the one before: the whole of this one takes minutes.
    #[test]
    fn locks_of_others_hold_up_no_look() {
        use nix::fcntl::{FcntlArg, fcntl};
        let folder = tempfile::tempdir().unwrap();
        let locks = LockFiles::below(folder.path());
        let held = locks.take(&id(), "attach", soon()).unwrap().required().unwrap();
        let mut others = Vec::new();
        for _ in 0..400 {
            let file = tempfile::tempfile_in(folder.path()).unwrap();
            for at in (0..500).rev() {
                let one = nix::libc::flock {
                    l_type: i16::try_from(nix::libc::F_WRLCK).unwrap(),
                    l_whence: 0,
                    l_start: at * 2,
                    l_len: 1,
                    l_pid: 0,
                };
                fcntl(&file, FcntlArg::F_OFD_SETLK(&one)).unwrap();
            }
            others.push(file);
        }
        let begin = std::time::Instant::now();
        assert!(locks.holder(&id()).is_some());
        let path = folder.path().join("locks").join("v1.lock");
        fs::write(path, "").unwrap();
        let _ = locks.holder(&id());
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        drop((held, others));
    }

    #[test]
    fn many_takers_are_never_two_holders() {
        let folder = tempfile::tempdir().unwrap();
        let inside = std::sync::atomic::AtomicU32::new(0);
        let entered = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let locks = LockFiles::below(folder.path());
                        let deadline = Deadline::after(Duration::from_secs(60));
                        let lock = locks.take(&id(), "test", deadline).unwrap().required().unwrap();
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        entered.fetch_add(1, SeqCst);
                        inside.fetch_sub(1, SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(entered.into_inner(), 400);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let locked = LockFiles::below(&file).take(&id(), "attach", soon()).unwrap();
        assert!(locked.required().is_err());
    }
}
