//! A person ends a run, by Ctrl-C or a signal: what is played just now is broken off, what it left is taken away, and
//! what is known so far is told, as when the time is over.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The parts of a run look for this file: a signal does not come into their namespaces.
static FILE: OnceLock<CString> = OnceLock::new();

fn file(work: &Path) -> PathBuf {
    work.join("stop")
}

/// From here on a signal leaves the file, and ends nothing by itself.
pub fn await_signals(work: &Path) {
    let _ = std::fs::remove_file(file(work));
    if let Ok(path) = CString::new(file(work).as_os_str().as_bytes()) {
        let _ = FILE.set(path);
    }
    set(leave_file as *const () as libc::sighandler_t);
}

/// Whether the run is to end.
pub fn is_asked_for(work: &Path) -> bool {
    file(work).exists()
}

/// A part of the run does not end by the signals that its terminal sends to all.
pub fn keep_from(command: &mut Command) {
    before_exec(command, libc::SIG_IGN);
}

/// A test and what it starts know nothing of that.
pub fn give_back_to(command: &mut Command) {
    before_exec(command, libc::SIG_DFL);
}

fn before_exec(command: &mut Command, disposition: libc::sighandler_t) {
    // SAFETY: signal(2) alone is called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            set(disposition);
            Ok(())
        });
    }
}

fn set(disposition: libc::sighandler_t) {
    for signal in SIGNALS {
        // SAFETY: the handler does nothing but open and close.
        unsafe { libc::signal(signal, disposition) };
    }
}

extern "C" fn leave_file(_: libc::c_int) {
    let Some(path) = FILE.get() else { return };
    // SAFETY: two system calls that a signal handler may make, on a string that stays.
    unsafe {
        let descriptor =
            libc::open(path.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC, 0o600);
        if descriptor >= 0 {
            libc::close(descriptor);
        }
    }
}
