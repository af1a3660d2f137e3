//! The one way out of a call: stdout as it was at the start, for exactly one line.
//!
//! kubelet reads stdout and stderr as one JSON value. So both are pointed at nothing before
//! anything else happens; what a library prints, a panic says, or a child leaves behind cannot
//! reach kubelet. The reply is written to the saved descriptor, once.

use nix::unistd::{dup, dup2_stderr, dup2_stdout, pipe};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// The saved stdout.
#[derive(Debug)]
pub struct Channel {
    stdout: Option<File>,
    used: AtomicBool,
}

impl Channel {
    /// Takes stdout over and silences both streams.
    #[must_use]
    pub fn claim() -> Self {
        // std opens every file close-on-exec, but dup does not set that flag: a child would keep
        // the pipe open, and kubelet waits for its end.
        let stdout = dup(std::io::stdout()).ok().and_then(|copy| {
            use nix::fcntl::{FcntlArg, FdFlag, fcntl};
            fcntl(&copy, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok()?;
            Some(File::from(copy))
        });
        if let Some(nothing) = nothing() {
            let _ = dup2_stdout(&nothing);
            let _ = dup2_stderr(&nothing);
        }
        Self { stdout, used: AtomicBool::new(false) }
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
}

/// Where unwanted output goes: `/dev/null`, or in a root without one a pipe without a reader.
fn nothing() -> Option<OwnedFd> {
    match OpenOptions::new().write(true).open("/dev/null") {
        Ok(file) => Some(file.into()),
        Err(_) => pipe().ok().map(|(_unread, written)| written),
    }
}
