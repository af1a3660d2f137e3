//! What this process keeps to itself before it reads anything: the configuration has a token, and so have
//! the replies of the cloud.

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::{Mode, umask};

/// No core of this process is written, whatever the caller left open: one that is piped to a program is written
/// whatever the limit is, and one of a process that is not dumpable is not. Nothing here can fail a call.
pub fn keep_to_itself() {
    let _ = nix::sys::prctl::set_dumpable(false);
}

/// The same of what it starts and makes, before it does: a program that is started is dumpable again, and has
/// the limit; and no file may be written by other users.
pub fn keep_from_others() {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    // A caller that allows less is heard. What others are to read gets its mode by name.
    let callers = umask(Mode::all());
    umask(callers | Mode::S_IWGRP | Mode::S_IWOTH);
}
