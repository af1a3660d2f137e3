//! Which files a child process keeps open.
#![allow(unsafe_code)]

use nix::libc;
use std::fs::File;
use std::os::fd::RawFd;

/// Closes these numbers. It makes system calls alone, for it is done in forked children.
pub(super) fn close_range(first: RawFd, last: RawFd) {
    if last < first {
        return;
    }
    // SAFETY: closing files is always allowed; nothing in the child uses them any more.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
            // Before Linux 5.9 one by one.
            for descriptor in first..=last.min(4095) {
                libc::close(descriptor);
            }
        }
    }
}

/// Closes all files but these. It allocates nothing, for another thread may have held the allocator's
/// lock at the fork.
pub(super) fn close_all_but(kept: &(impl Iterator<Item = RawFd> + Clone)) {
    let mut first = 0;
    while let Some(next) = kept.clone().filter(|one| *one >= first).min() {
        close_range(first, next - 1);
        first = next + 1;
    }
    close_range(first, RawFd::MAX);
}

/// Puts nothing in the place of those of the three streams that are closed: a file that is opened gets the lowest
/// number that is free.
pub(super) fn open_nothing() {
    for number in 0..3 {
        // SAFETY: it is only asked whether there is such a file.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } != -1 {
            continue;
        }
        let nothing = File::options().read(true).write(true).open("/dev/null");
        // Without a /dev/null a pipe without a reader: the next two numbers are taken as well then.
        let file = nothing.or_else(|_| {
            let (read, write) = nix::unistd::pipe()?;
            std::mem::forget(write);
            Ok::<_, std::io::Error>(File::from(read))
        });
        std::mem::forget(file);
    }
}
