//! Who called the process that has the worker, for the worker that is not its child.

use super::activity;
use super::columns::columns_of;
use nix::unistd::{Pid, getppid};
use std::io::IsTerminal;
use std::sync::OnceLock;

/// Who called the process that has the worker.
static CALLER: OnceLock<Pid> = OnceLock::new();
/// Whether stdout of that process is a terminal.
static IS_TERMINAL: OnceLock<bool> = OnceLock::new();

/// Notes who called this process, before the worker is made: the worker's own parent is this process.
pub(super) fn note() {
    let _ = CALLER.set(getppid());
    let _ = IS_TERMINAL.set(std::io::stdout().is_terminal());
}

/// How wide the terminal on stdout is now.
pub(super) fn columns_of_stdout() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    columns_of(&std::io::stdout()).or_else(told)
}

/// How many columns the terminal has on which what is printed is seen; nothing where it is none.
pub fn columns() -> Option<usize> {
    match IS_TERMINAL.get() {
        // A worker has no terminal: the waiting process tells it, again and again.
        Some(_) => activity::board().columns(),
        None => columns_of_stdout(),
    }
}

/// Who called this program: for a worker that is not its parent.
pub fn caller() -> Pid {
    CALLER.get().copied().unwrap_or_else(getppid)
}

/// Whether what is printed is seen by a person.
pub fn is_seen() -> bool {
    IS_TERMINAL.get().copied().unwrap_or_else(|| std::io::stdout().is_terminal())
}
