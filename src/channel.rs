//! The one way out of a call: stdout as it was at the start, for exactly one line.
//!
//! kubelet reads stdout and stderr as one JSON value. So both are pointed at nothing before
//! anything else happens; what a library prints, a panic says, or a child leaves behind cannot
//! reach kubelet. The reply is written to the saved descriptor, once.

use nix::unistd::{dup, dup2_stderr, dup2_stdout, pipe};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The saved stdout.
#[derive(Debug)]
pub struct Channel {
    stdout: Option<File>,
    /// The saved stderr, where a person reads it.
    terminal: Option<File>,
    used: AtomicBool,
}

impl Channel {
    /// Takes stdout over and silences both streams.
    #[must_use]
    pub fn claim() -> Self {
        // std opens every file close-on-exec, but dup does not set that flag: a child would keep
        // the pipe open, and kubelet waits for its end.
        let stdout = copy_of(std::io::stdout());
        let terminal = terminal();
        if let Some(nothing) = nothing() {
            let _ = dup2_stdout(&nothing);
            let _ = dup2_stderr(&nothing);
        }
        Self { stdout, terminal, used: AtomicBool::new(false) }
    }

    /// The saved stdout, for the one who answers piece by piece; nothing if an answer was begun.
    #[must_use]
    pub fn begin(&self) -> Option<&File> {
        if self.used.swap(true, Ordering::SeqCst) {
            return None;
        }
        self.stdout.as_ref()
    }

    /// Writes the line, if none was written yet; says whether it got out.
    pub fn send(&self, line: &str) -> bool {
        if self.used.swap(true, Ordering::SeqCst) {
            return true;
        }
        let Some(mut stdout) = self.stdout.as_ref() else { return false };
        stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_ok()
    }

    /// The terminal of the person who called, if it is one.
    #[must_use]
    pub fn terminal(&self) -> Option<File> {
        self.terminal.as_ref()?.try_clone().ok()
    }

    /// Says something to a person at a terminal. kubelet has none.
    pub fn tell(&self, text: &str) {
        if let Some(mut terminal) = self.terminal.as_ref() {
            let _ = terminal.write_all(text.as_bytes());
        }
    }
}

/// A copy of stderr, where a person reads it.
#[must_use]
pub fn terminal() -> Option<File> {
    std::io::stderr().is_terminal().then(|| copy_of(std::io::stderr()))?
}

fn copy_of(stream: impl AsFd) -> Option<File> {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    let copy = dup(stream).ok()?;
    fcntl(&copy, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok()?;
    Some(File::from(copy))
}

/// Where unwanted output goes: `/dev/null`, or in a root without one a pipe without a reader.
fn nothing() -> Option<OwnedFd> {
    match OpenOptions::new().write(true).open("/dev/null") {
        Ok(file) => Some(file.into()),
        Err(_) => pipe().ok().map(|(_unread, written)| written),
    }
}
