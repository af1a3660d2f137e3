//! The one way out of a call: stdout as it was at the start, for exactly one line.
//!
//! kubelet reads stdout and stderr as one JSON value. So both are pointed at nothing before
//! anything else happens; what a library prints, a panic says, or a child leaves behind cannot
//! reach kubelet. The reply is written to the saved descriptor, once.

use nix::unistd::{dup2_stderr, dup2_stdout, pipe};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Who reads the answer. kubelet and the controller-manager have no terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerReader {
    /// A program, which reads JSON; the exit status says only whether the answer was written.
    Program,
    /// A person at a terminal who asked for JSON; the exit status is that of the call.
    PersonWithJson,
    /// A person at a terminal; the exit status is that of the call.
    Person,
}

/// The saved stdout.
#[derive(Debug)]
pub struct Channel {
    stdout: Option<File>,
    /// The saved stderr, where a person reads it.
    terminal: Option<File>,
    reader: AnswerReader,
    used: AtomicBool,
}

impl Channel {
    /// Takes stdout over and silences both streams.
    pub fn claim(wants_json: bool) -> Self {
        let reader = match (std::io::stdout().is_terminal(), wants_json) {
            (false, _) => AnswerReader::Program,
            (true, true) => AnswerReader::PersonWithJson,
            (true, false) => AnswerReader::Person,
        };
        // Close-on-exec: a child would keep the pipe open, and kubelet waits for its end.
        let stdout = copy_of(std::io::stdout());
        let terminal = terminal();
        if let Some(nothing) = nothing() {
            let _ = dup2_stdout(&nothing);
            let _ = dup2_stderr(&nothing);
        }
        Self { stdout, terminal, reader, used: AtomicBool::new(false) }
    }

    /// Who reads the answer.
    pub fn reader(&self) -> AnswerReader {
        self.reader
    }

    /// The saved stdout, for the one who answers piece by piece; nothing if an answer was begun.
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
    pub fn terminal(&self) -> Option<File> {
        self.terminal.as_ref()?.try_clone().ok()
    }

    /// Tells a person what a program reads on stdout, if stderr is a terminal. kubelet has none.
    pub fn tell(&self, text: &str) {
        if let (AnswerReader::Program, Some(mut terminal)) = (self.reader, self.terminal.as_ref()) {
            let _ = terminal.write_all(text.as_bytes());
        }
    }
}

/// A copy of stderr, where a person reads it.
pub fn terminal() -> Option<File> {
    std::io::stderr().is_terminal().then(|| copy_of(std::io::stderr()))?
}

fn copy_of(stream: impl AsFd) -> Option<File> {
    Some(File::from(stream.as_fd().try_clone_to_owned().ok()?))
}

/// Where unwanted output goes: `/dev/null`, or in a root without one a pipe without a reader.
fn nothing() -> Option<OwnedFd> {
    match OpenOptions::new().write(true).open("/dev/null") {
        Ok(file) => Some(file.into()),
        Err(_) => pipe().ok().map(|(_unread, written)| written),
    }
}
