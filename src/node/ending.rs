//! A change that a signal ends leaves nothing of itself: what it has under hidden names goes with it. From the
//! rename to its note the signal waits.

use nix::sys::signal::{SigSet, Signal, raise};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What goes if a signal ends the change.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Taken while a signal must wait.
static HELD: Mutex<()> = Mutex::new(());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on a signal that ends this process removes what is unfinished first.
pub(super) fn watch() {
    let mut ends = SigSet::empty();
    ends.extend([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    if ends.thread_block().is_err() {
        return;
    }
    let watcher = std::thread::Builder::new().spawn(move || {
        let Ok(signal) = ends.wait() else { return };
        let _held = hold();
        for path in unfinished().iter() {
            let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
        }
        let _ = ends.thread_unblock();
        let _ = raise(signal);
    });
    if watcher.is_err() {
        // Without it a signal must still end this.
        let _ = ends.thread_unblock();
    }
}

/// This is unfinished until it has its name.
pub(super) fn begin(path: &Path) {
    unfinished().push(path.to_path_buf());
}

/// This is not there any more under that name.
pub(super) fn end(path: &Path) {
    unfinished().retain(|one| one != path);
}

/// A signal waits while this is held: what is renamed is noted too.
pub(super) fn hold() -> MutexGuard<'static, ()> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}
