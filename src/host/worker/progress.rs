//! What is waited for, on the terminal of the person who waits: a line that is renewed, and erased.

use super::columns::columns_of;
use super::parent::Worker;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

/// How often the line is renewed.
const EVERY: Duration = Duration::from_secs(1);

/// What is over sooner needs no word.
const SHORTEST: u64 = 2;

/// The line; nothing is shown where there is no terminal.
#[derive(Debug)]
pub struct Progress {
    terminal: Option<File>,
    is_shown: bool,
}

impl Progress {
    /// A line on this terminal.
    pub fn on(terminal: Option<File>) -> Self {
        Self { terminal, is_shown: false }
    }

    /// When it is to be renewed.
    pub fn next_look(&self) -> Option<Instant> {
        self.terminal.as_ref().map(|_| Instant::now() + EVERY)
    }

    /// Shows what the worker waits for.
    pub fn renew(&mut self, worker: &Worker) {
        let Some(terminal) = &self.terminal else { return };
        match worker.waits_for().filter(|(_, so_far, _)| *so_far >= SHORTEST) {
            Some((whom, so_far, at_most)) => {
                let text = format!("waiting for {whom}, {so_far} s of {at_most}; Ctrl-C is safe");
                let columns = columns_of(terminal).unwrap_or(80);
                // A line that is broken into two could not be erased.
                let text: String = text.chars().take(columns.saturating_sub(1)).collect();
                self.write(&format!("\r\x1b[K{text}"));
                self.is_shown = true;
            }
            None => self.erase(),
        }
    }

    /// Takes the line away, before something else is said.
    pub fn erase(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.write("\r\x1b[K");
        }
    }

    fn write(&self, text: &str) {
        let Some(mut terminal) = self.terminal.as_ref() else { return };
        let _ = terminal.write_all(text.as_bytes());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.erase();
    }
}
