//! How wide a terminal is.

use rustix::termios::tcgetwinsize;
use std::os::fd::AsFd;

/// How many columns a terminal has; nothing for what is none, or does not tell.
pub(super) fn columns_of(terminal: &impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
