//! Files that are written beside a call's work, the log and the metrics: their disk may be slow or hang, under the
//! very load that begins an incident, and neither the work nor its answer waits for it.
//!
//! A thread writes. The process waits for it only for so long in all; what is left then is written after the answer,
//! while the process lingers. A thread that is waited for in vain is noted below the run folder, and where a few hang
//! already, later calls write nothing until they have ended: each would leave one more behind.

use super::files;
use super::left_behind::{self, LeftProcess};
use crate::failpoints;
use nix::unistd::gettid;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How long a process waits in all for what it writes at one place. The rest is written after its answer.
const PATIENCE: Duration = Duration::from_millis(50);

/// So many processes may hang at one place; a disk that is only slow loses few lines by that.
const MOST: usize = 4;

/// The stack of the thread: it opens, writes and renames files.
const STACK: usize = 512 << 10;

type Task = Box<dyn FnOnce() + Send>;

/// What writes at one place.
#[derive(Debug)]
pub struct AsideWriter {
    tasks: mpsc::Sender<Task>,
    thread: Arc<AtomicI32>,
    place: String,
    /// Where the thread is noted if it hangs. One file for all places: it is no volume's.
    notes: PathBuf,
    /// How many milliseconds of the patience are used up.
    waited: AtomicU64,
}

/// The threads that may have work left when their process has done its own.
static LINGERING: Mutex<Vec<mpsc::Sender<Task>>> = Mutex::new(Vec::new());

impl AsideWriter {
    /// Starts a thread that writes at this place. None if too many earlier processes hang there, or no thread can be
    /// started.
    pub fn at(place: &Path, run_dir: &Path) -> Option<Self> {
        let notes = run_dir.join("aside.lock");
        let place = place.display().to_string();
        let left = left_behind::of_lock(&notes);
        if left.iter().filter(|one| one.file.as_ref() == Some(&place)).count() >= MOST {
            return None;
        }
        let (tasks, todo) = mpsc::channel::<Task>();
        let thread = Arc::new(AtomicI32::new(0));
        let own = Arc::clone(&thread);
        let builder = std::thread::Builder::new().name("aside".to_owned()).stack_size(STACK);
        let started = builder.spawn(move || {
            own.store(gettid().as_raw(), Ordering::SeqCst);
            for task in todo {
                task();
            }
        });
        started.ok()?;
        LINGERING.lock().unwrap_or_else(PoisonError::into_inner).push(tasks.clone());
        Some(Self { tasks, thread, place, notes, waited: AtomicU64::new(0) })
    }

    /// Lets the thread do this; nothing if it is not done in time, and will be done later.
    pub fn write<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (done, told) = mpsc::channel();
        self.tasks.send(Box::new(move || drop(done.send(task())))).ok()?;
        let (begin, patience) = (Instant::now(), failpoints::patience(PATIENCE));
        let before = Duration::from_millis(self.waited.load(Ordering::SeqCst));
        let answer = told.recv_timeout(patience.saturating_sub(before));
        let waited = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.waited.fetch_add(waited, Ordering::SeqCst);
        if answer.is_err()
            && before < patience
            && let Some(slow) = LeftProcess::of(self.thread.load(Ordering::SeqCst), "", 0)
        {
            let slow = LeftProcess { file: Some(self.place.clone()), ..slow };
            let _ = self.notes.parent().map(files::make_private_folder);
            left_behind::note(&self.notes, &[slow]);
        }
        answer.ok()
    }
}

/// Whether this process must not outlive its work.
static ENDS_AT_ONCE: AtomicBool = AtomicBool::new(false);

/// A thread of this process may go on with the work: it ends with the process, which therefore does not linger.
pub(crate) fn ends_at_once() {
    ENDS_AT_ONCE.store(true, Ordering::SeqCst);
}

/// At the end of a process: waits until everything is written, at most so long.
pub fn linger(longest: Duration) {
    if ENDS_AT_ONCE.load(Ordering::SeqCst) {
        return;
    }
    let end = Instant::now() + longest;
    let all = std::mem::take(&mut *LINGERING.lock().unwrap_or_else(PoisonError::into_inner));
    for tasks in all {
        let (done, told) = mpsc::channel::<()>();
        let _ = tasks.send(Box::new(move || drop(done)));
        let _ = told.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_is_written_later_and_where_a_few_hang_no_later_call_begins() {
        let folder = tempfile::tempdir().unwrap();
        // Which no call has made yet.
        let run = &folder.path().join("run");
        let place = Path::new("/var/log/ours");
        let at = |place| AsideWriter::at(place, run);
        let writer = at(place).unwrap();
        assert_eq!(writer.write(|| 7), Some(7));
        let (said, heard) = mpsc::channel();
        let mut held = Vec::new();
        for _ in 0..MOST {
            let (release, hanging) = mpsc::channel::<()>();
            let (writer, said) = (at(place).expect("few hang yet"), said.clone());
            assert_eq!(writer.write(move || hanging.recv().is_ok()), None);
            // Its time is used up: what comes now is not waited for, and not lost.
            assert_eq!(writer.write(move || said.send(8).unwrap()), None);
            held.push((release, writer));
        }
        assert!(at(place).is_none(), "one more would hang there");
        assert!(at(Path::new("/elsewhere")).is_some());
        linger(Duration::from_millis(50));
        for (release, writer) in held {
            release.send(()).unwrap();
            assert_eq!(heard.recv(), Ok(8));
            drop(writer);
        }
        let is_free = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            at(place).is_some()
        });
        assert!(is_free, "the threads have ended");
    }
}
