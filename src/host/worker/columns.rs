//! How wide a terminal is.

use nix::libc;
use std::os::fd::{AsFd, AsRawFd};

#[allow(unsafe_code)]
mod requests {
    nix::ioctl_read_bad!(window_size, nix::libc::TIOCGWINSZ, nix::libc::winsize);
}

/// How many columns a terminal has; nothing for what is none, or does not tell.
#[allow(unsafe_code)]
pub(super) fn columns_of(terminal: &impl AsFd) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel fills in the structure that it is given.
    unsafe { requests::window_size(terminal.as_fd().as_raw_fd(), &raw mut size) }.ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
