//! Looking at a mount namespace from inside, where nothing of it is hidden.

use super::proc::Proc;
use nix::sched::{CloneFlags, setns, unshare};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io;
use std::thread;
use std::time::Instant;

/// The mounts of an open namespace; a long table is given up after this moment.
///
/// By a thread of its own, which ends there: the kernel lets no thread in that shares its root and
/// working folder with others (EINVAL), and no way back is needed.
pub(super) fn table(proc: &Proc, namespace: &File, end: Instant) -> io::Result<Vec<u8>> {
    thread::scope(|scope| {
        let look = || {
            unshare(CloneFlags::CLONE_FS)?;
            setns(namespace, CloneFlags::CLONE_NEWNS)?;
            proc.read_table("thread-self/mountinfo", Some(end))
        };
        let looking = thread::Builder::new().spawn_scoped(scope, look)?;
        looking.join().unwrap_or_else(|_| Err(io::Error::other("the thread in it panicked")))
    })
}

/// The same of a namespace that only those who look keep; nothing if another call looks just now.
///
/// A look keeps the namespace, and every disk in it. Were a new one to begin before the last one is over,
/// a namespace that all have left would never end. So there is one at a time, and who waits has no door open.
pub(super) fn table_alone(
    proc: &Proc,
    namespace: &File,
    end: Instant,
) -> io::Result<Option<Vec<u8>>> {
    match flock(namespace, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Ok(()) | Err(_) => table(proc, namespace, end).map(Some),
    }
}
