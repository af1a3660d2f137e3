//! The folder of a run, which goes with it: also when a person or a CI stops it, and at the latest
//! with the next run.

use nix::sys::signal::{SigSet, Signal};
use std::fs;
use std::path::Path;
use std::thread;
use tempfile::TempDir;

const PREFIX: &str = "incloud-disk-vm-";

/// A new folder. A socket's path has at most 107 bytes, so it is not in the cache.
pub(crate) fn folder() -> Result<TempDir, String> {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        // Of a run that was killed.
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("{PREFIX}{}-", std::process::id());
    TempDir::with_prefix(prefix).map_err(|error| error.to_string())
}

#[allow(clippy::exit, reason = "the signal was to end it")]
/// Removes a folder when a signal ends this program. Machines end with it by themselves.
pub(crate) fn remove_when_ended(folder: &Path) {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    // Before there are other threads: those have what their maker had.
    if signals.thread_block().is_err() {
        return;
    }
    let folder = folder.to_owned();
    thread::spawn(move || {
        if let Ok(signal) = signals.wait() {
            let _ = fs::remove_dir_all(&folder);
            std::process::exit(128 + signal as i32);
        }
    });
}
