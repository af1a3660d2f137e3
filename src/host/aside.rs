//! Files that are written beside a call's work, the log and the metrics: their disk may hang, under the
//! very load that begins an incident, and the work does not wait for it.
//!
//! A thread writes. It is waited for, so that what was written is there whatever becomes of the process;
//! but only for so long in all. A thread that hangs then is written down below the run folder, and later
//! calls write nothing there as long as it does: each would leave one more behind.

use super::left_behind::{self, LeftProcess};
use super::worker::late;
use nix::unistd::gettid;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long a process waits for all that it writes at one place.
const LONGEST: Duration = Duration::from_secs(1);

/// The stack of the thread: it opens, writes and renames files.
const STACK: usize = 512 << 10;

type Task = Box<dyn FnOnce() + Send>;

/// What writes at one place.
#[derive(Debug)]
pub struct AsideWriter {
    tasks: mpsc::Sender<Task>,
    note: Arc<HangingNote>,
    /// How many milliseconds were waited, of those that may be.
    waited: AtomicU64,
}

impl AsideWriter {
    /// Begins to write at this place; nothing if an earlier process hangs there, or a thread cannot be had.
    #[must_use]
    pub fn at(place: &Path, run_dir: &Path) -> Option<Self> {
        late::may_hang();
        let notes = run_dir.join("aside.lock");
        let place = place.display().to_string();
        let left = left_behind::of_lock(&notes);
        if left.iter().any(|one| one.file.as_ref() == Some(&place)) {
            return None;
        }
        let note = Arc::new(HangingNote {
            notes,
            place,
            thread: AtomicI32::new(0),
            is_written: AtomicBool::new(false),
        });
        let (tasks, todo) = mpsc::channel::<Task>();
        let of_the_thread = Arc::clone(&note);
        let builder = std::thread::Builder::new().name("aside".to_owned()).stack_size(STACK);
        let started = builder.spawn(move || {
            of_the_thread.thread.store(gettid().as_raw(), Ordering::SeqCst);
            for task in todo {
                task();
                of_the_thread.is_over();
            }
        });
        started.ok()?;
        Some(Self { tasks, note, waited: AtomicU64::new(0) })
    }

    /// Lets the thread do this; nothing if it is not done in time, and may be done later.
    pub fn write<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (done, told) = mpsc::channel();
        let task = Box::new(move || drop(done.send(task())));
        self.tasks.send(task).ok()?;
        let begin = Instant::now();
        let before = Duration::from_millis(self.waited.load(Ordering::SeqCst));
        let answer = told.recv_timeout(LONGEST.saturating_sub(before));
        let waited = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.waited.fetch_add(waited, Ordering::SeqCst);
        if answer.is_err() && before < LONGEST {
            self.note.write();
        }
        answer.ok()
    }
}

/// That a thread hangs, for later calls. All of them stand in one file, which is no volume's.
#[derive(Debug)]
struct HangingNote {
    notes: PathBuf,
    place: String,
    thread: AtomicI32,
    is_written: AtomicBool,
}

impl HangingNote {
    fn write(&self) {
        let thread = self.thread.load(Ordering::SeqCst);
        let Some(one) = LeftProcess::of(thread, "", 0) else { return };
        left_behind::note(&self.notes, &[LeftProcess { file: Some(self.place.clone()), ..one }]);
        self.is_written.store(true, Ordering::SeqCst);
    }

    fn is_over(&self) {
        if self.is_written.swap(false, Ordering::SeqCst) {
            left_behind::forget(&self.notes, self.thread.load(Ordering::SeqCst));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_waited_for_once_and_no_later_call_begins_there() {
        let folder = tempfile::tempdir().unwrap();
        let (run, place) = (folder.path(), Path::new("/var/log/ours"));
        let writer = AsideWriter::at(place, run).unwrap();
        assert_eq!(writer.write(|| 7), Some(7));
        let (release, held) = mpsc::channel::<()>();
        assert_eq!(writer.write(move || held.recv().is_ok()), None);
        assert!(AsideWriter::at(place, run).is_none(), "one more would hang there");
        assert!(AsideWriter::at(Path::new("/elsewhere"), run).is_some());
        // Its time is over: what comes now is not waited for, and not lost.
        let (said, heard) = mpsc::channel();
        assert_eq!(writer.write(move || said.send(8).unwrap()), None);
        release.send(()).unwrap();
        assert_eq!(heard.recv(), Ok(8));
        // What hung was done before that.
        assert!(AsideWriter::at(place, run).is_some());
    }
}
