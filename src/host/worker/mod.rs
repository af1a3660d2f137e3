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
//! after `kill -9`, which every call can go on from. What is left is written down (`left.rs`), and
//! a later call does not begin the same on the same disk.

mod board;
mod line;
mod watched;

pub use watched::{Held, News, Signals, Terms, Worker, hold_signals};

use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Result};
use board::Slot;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, getpid, getppid};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// Who called the process that has the worker.
static CALLER: OnceLock<Pid> = OnceLock::new();
/// Whether stdout of that process is a terminal.
static IS_TERMINAL: OnceLock<bool> = OnceLock::new();

/// Who called this program: for a worker that is not its parent.
#[must_use]
pub fn caller() -> Pid {
    CALLER.get().copied().unwrap_or_else(getppid)
}

/// The process that waits for this worker, if this is one.
#[must_use]
pub fn waiting_process() -> Option<u32> {
    line::is_open().then(|| u32::try_from(getppid().as_raw()).unwrap_or(0))
}

/// Whether what is printed is seen by a person.
#[must_use]
pub fn is_seen() -> bool {
    use std::io::IsTerminal;
    IS_TERMINAL.get().copied().unwrap_or_else(|| std::io::stdout().is_terminal())
}

/// Milliseconds since the machine's start.
fn now_in_milliseconds() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| u64::try_from(now.num_milliseconds()).unwrap_or(0))
}

/// What this worker does until the guard is dropped: for people, should it hang.
#[must_use]
pub fn doing(what: &std::fmt::Arguments<'_>) -> Doing {
    board::board().own.write(&what.to_string());
    Doing { _private: () }
}

/// Something is being done.
#[derive(Debug)]
pub struct Doing {
    _private: (),
}

impl Drop for Doing {
    fn drop(&mut self) {
        board::board().own.write("");
    }
}

/// The file of the driver's own (a setting, a record, the log) that is used until the guard is
/// dropped: should that hang, its disk is meant, and not the volume's.
#[must_use]
pub fn uses(file: &Path) -> Using {
    board::board().file.write(&file.to_string_lossy());
    Using { _private: () }
}

/// A file is being used.
#[derive(Debug)]
pub struct Using {
    _private: (),
}

impl Drop for Using {
    fn drop(&mut self) {
        board::board().file.write("");
    }
}

/// The disk that this call works on.
pub fn works_on(number: DeviceNumber, sequence: Option<u64>) {
    board::board().works_on((number.major, number.minor), sequence);
}

/// A place on the board for a child of this process.
#[derive(Debug)]
pub struct Child {
    slot: Option<&'static Slot>,
    maker: Pid,
}

/// Writes down what a child will do that is about to be made.
#[must_use]
pub fn child(what: &str) -> Child {
    let slot = board::board().reserve();
    if let Some(slot) = slot {
        slot.write(what);
    }
    Child { slot, maker: getpid() }
}

impl Child {
    /// In the child, before its work; false if nobody waits for it any more, and it must end. It
    /// makes only system calls.
    #[must_use]
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
    let _ = line::send(b't', &milliseconds.to_le_bytes(), None);
}

/// Gives a lock that was taken to the waiting process too; beside a volume's it is written down what
/// is left behind.
pub fn holds(lock: &File, path: &Path, is_volumes: bool) {
    let kind = if is_volumes { b'l' } else { b'm' };
    let _ = line::send(kind, path.as_os_str().as_bytes(), Some(lock.as_raw_fd()));
}

/// What this process prints: for a worker that is what the waiting process prints.
#[must_use]
pub fn out() -> Out {
    Out { kind: b'o' }
}

/// The same for complaints.
#[must_use]
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
        if line::is_open() {
            line::send(self.kind, bytes, None)?;
            return Ok(bytes.len());
        }
        match self.kind {
            b'o' => std::io::stdout().write(bytes),
            _ => std::io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if line::is_open() { Ok(()) } else { std::io::stdout().flush() }
    }
}

/// Closes all files but these.
fn close_all_but(kept: impl IntoIterator<Item = RawFd>) {
    let mut kept: Vec<_> = kept.into_iter().collect();
    kept.sort_unstable();
    let mut first = 0;
    for one in kept {
        super::child::close_range(first, one - 1);
        first = one + 1;
    }
    super::child::close_range(first, RawFd::MAX);
}

/// Puts nothing in the place of the three streams, which are closed.
fn open_nothing() {
    for _ in 0..3 {
        let nothing = File::options().read(true).write(true).open("/dev/null");
        // Without a /dev/null a pipe of nobody's: the next two numbers are taken as well then.
        let file = nothing.or_else(|_| {
            let (read, write) = nix::unistd::pipe()?;
            std::mem::forget(write);
            Ok::<_, std::io::Error>(File::from(read))
        });
        std::mem::forget(file);
    }
}

fn wrong(errno: nix::errno::Errno) -> Error {
    Error::io("start the worker's process", &errno.into())
}

fn as_result<T>(done: nix::Result<T>) -> Result<T> {
    done.map_err(wrong)
}
