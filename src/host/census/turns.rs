//! Calls take turns to enter namespaces that no process keeps alive.
//!
//! Who is inside keeps the namespace, and every disk in it. Were a new call to go in before the last one is out, a
//! namespace that all have left would never end.

use crate::model::pauses::Steps;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than some calls together are inside.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits for this call's turn, for as long as it can: after that it goes in beside the others. The lock is on the
/// driver's own directory, which no user can open.
pub(super) fn take(directory: Option<&PathBuf>, at_most: Duration) -> Option<File> {
    let lock = File::open(directory?).ok()?;
    let end = Instant::now() + PATIENCE.min(at_most);
    for step in Steps::between(Duration::from_millis(1), Duration::from_millis(20)) {
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Some(lock);
        }
        if Instant::now() > end {
            break;
        }
        thread::sleep(step);
    }
    None
}
