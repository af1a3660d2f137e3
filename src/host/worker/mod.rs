//! A call's work is done by a child process, the worker; the process that was called only waits for
//! it, and answers in its place when it does not come back.
//!
//! Any system call on a disk may hang for good: mount, umount, a flush, a read, an open, a look at a
//! folder. A thread that waits so cannot be ended, and while it lives neither can its process, nor
//! are its files closed: kubelet would wait for the end of its pipe, and the next call for the lock.
//! So the process that has kubelet's pipe makes no such call. The worker has no file of the caller's;
//! a lock that it takes is given to the waiting process too, which can free it.
//!
//! A worker that hangs was killed: what it waits for is the last thing that it does. So all is as
//! after `kill -9`, which every call can go on from. What is left is written down (`left_behind.rs`), and
//! a later call does not begin the same on the same disk.

mod activity;
mod caller;
mod columns;
mod messages;
pub mod parent;
pub mod progress;

pub use self::caller::{caller, columns, is_seen};

use crate::model::disk::device::DeviceNumber;
use activity::Slot;
use nix::unistd::{Pid, getpid, getppid};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// The process that waits for this worker, if this is one.
pub fn waiting_process() -> Option<u32> {
    messages::is_open().then(|| u32::try_from(getppid().as_raw()).unwrap_or(0))
}

/// What this worker does until the guard is dropped: for people, should it hang.
pub fn doing(what: &std::fmt::Arguments<'_>) -> Doing {
    activity::board().own.write(&what.to_string());
    Doing { _private: () }
}

/// Something is being done.
#[derive(Debug)]
pub struct Doing {
    _private: (),
}

impl Drop for Doing {
    fn drop(&mut self) {
        activity::board().own.write("");
    }
}

/// The file of the driver's own (a setting, a record, the log) that is used until the guard is
/// dropped: should that hang, its disk is meant, and not the volume's.
pub fn uses(file: &Path) -> Using {
    activity::board().file.write(&file.to_string_lossy());
    Using { _private: () }
}

/// A file is being used.
#[derive(Debug)]
pub struct Using {
    _private: (),
}

impl Drop for Using {
    fn drop(&mut self) {
        activity::board().file.write("");
    }
}

/// The service or the lock that is waited for until the guard is dropped, and how long at most: for a
/// person who waits as well.
pub fn waits_for(what: &std::fmt::Arguments<'_>, at_most: Duration) -> Waiting {
    activity::board().wait.write(&format!("{} {what}", at_most.as_millis().div_ceil(1000)));
    Waiting { _private: () }
}

/// Notes a request to a service: a call at a terminal ends if none of them answers.
pub fn service_is_asked() {
    activity::board().service_is_asked();
}

/// A service has answered, whatever it said.
pub fn service_answered() {
    activity::board().service_answered();
}

/// Something is waited for.
#[derive(Debug)]
pub struct Waiting {
    _private: (),
}

impl Drop for Waiting {
    fn drop(&mut self) {
        activity::board().wait.write("");
    }
}

/// The disk that this call works on.
pub fn works_on(number: DeviceNumber, sequence: Option<u64>) {
    activity::board().works_on((number.major, number.minor), sequence);
}

/// A place on the board for a child of this process.
#[derive(Debug)]
pub struct Child {
    slot: Option<&'static Slot>,
    maker: Pid,
}

/// Writes down what a child will do that is about to be made.
pub fn child(what: &str) -> Child {
    let slot = activity::board().reserve();
    if let Some(slot) = slot {
        slot.write(what);
    }
    Child { slot, maker: getpid() }
}

impl Child {
    /// In the child, before its work; false if its parent does not wait for it any more, and it must end. It
    /// makes only system calls.
    pub fn begins(&self) -> bool {
        if let Some(slot) = self.slot {
            slot.belongs_to(getpid().as_raw());
        }
        getppid() == self.maker
    }

    /// In the parent, for a child that runs another program.
    pub fn is(&self, pid: i32) {
        if let Some(slot) = self.slot {
            slot.belongs_to(pid);
        }
    }

    /// It hangs: it stays written down.
    pub fn is_left(mut self) {
        self.slot = None;
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // In the child itself nothing is dropped, for it ends at once.
        if let Some(slot) = self.slot {
            slot.clear();
        }
    }
}

/// Tells the waiting process how long all may take.
pub fn may_take(total: Duration) {
    let milliseconds = u64::try_from(total.as_millis()).unwrap_or(u64::MAX);
    let _ = messages::send(b't', &milliseconds.to_le_bytes(), None);
}

/// Gives a lock that was taken to the waiting process too; beside a volume's it is written down what
/// is left behind.
pub fn holds(lock: &File, path: &Path, is_volumes: bool) {
    let kind = if is_volumes { b'l' } else { b'm' };
    let _ = messages::send(kind, path.as_os_str().as_bytes(), Some(lock.as_raw_fd()));
}

/// What this process prints: for a worker that is what the waiting process prints.
pub fn out() -> Out {
    Out { kind: b'o' }
}

/// The same for complaints.
pub fn complaints() -> Out {
    Out { kind: b'e' }
}

/// A stream of the process that was called.
#[derive(Debug, Clone, Copy)]
pub struct Out {
    kind: u8,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if messages::is_open() {
            messages::send(self.kind, bytes, None)?;
            return Ok(bytes.len());
        }
        match self.kind {
            b'o' => std::io::stdout().write(bytes),
            _ => std::io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if messages::is_open() { Ok(()) } else { std::io::stdout().flush() }
    }
}
