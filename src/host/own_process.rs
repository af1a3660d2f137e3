//! What this process keeps to itself before it reads anything: the configuration has a token, and so have
//! the replies of the cloud.

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::{Mode, umask};

/// No core is written, of this process or of its children, and no file that it makes may be written by other
/// users, whatever the caller left open. Nothing here can fail a call.
pub fn keep_to_itself() {
    // A core that is piped to a program is written whatever the limit is; one of a process that is not
    // dumpable is not. A program that is started is dumpable again, and has the limit.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = nix::sys::prctl::set_dumpable(false);
    // A caller that allows less is heard. What others are to read gets its mode by name.
    let callers = umask(Mode::all());
    umask(callers | Mode::S_IWGRP | Mode::S_IWOTH);
}
