//! What a word says to the person who gave it, and how it ends.

use crate::host::worker;
use crate::model::error::Error;
use crate::model::text::visible;
use std::io::Write;

/// Where a word speaks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Console {
    /// Warnings come with the rest: what is repeated is compared as a whole.
    pub is_one_stream: bool,
}

impl Console {
    /// A step of the work.
    pub fn say(self, text: &str) {
        // To a person who may have gone: what is done does not depend on it.
        let mut out = worker::out();
        let _ = out.write_all(format!("==> {text}\n").as_bytes()).and_then(|()| out.flush());
    }

    /// What the person must know, and what does not end the work.
    pub fn warn(self, text: &str) {
        let text = format!("disk: {text}\n");
        let mut out = if self.is_one_stream { worker::out() } else { worker::complaints() };
        let _ = out.write_all(text.as_bytes());
    }
}

/// Why a word ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// What was found and what ends it; each line is one that is shown.
    pub text: String,
    pub status: u8,
}

/// What a step of a word answers.
pub type NodeResult<T = ()> = std::result::Result<T, Stop>;

impl Stop {
    /// A failure.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), status: 1 }
    }

    /// The word itself is wrong: nothing was looked at.
    pub(super) fn misused(text: impl Into<String>) -> Self {
        let text = format!("{}\nRun ./install.sh help for the words it knows.", text.into());
        Self { text, status: 2 }
    }

    /// A failure with a line for each thing that was found.
    pub(super) fn with_lines(heading: &str, found: &[String]) -> Self {
        Self::new(format!("{heading}{}", lines(found)))
    }
}

/// Each on a line of its own, whatever signs are in it.
pub(super) fn lines(found: &[String]) -> String {
    let lines: Vec<_> = found.iter().map(|line| format!("\n  {}", visible(line))).collect();
    lines.concat()
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::new(error.to_string())
    }
}
