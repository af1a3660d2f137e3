//! The answer of a call that does its own work and breaks off by a fault of its memory: no other process
//! waits for it, so its own last act is to say that it failed.
#![allow(unsafe_code)]

use nix::libc::{self, c_int};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicUsize, Ordering};

/// What ends a process that asks for memory where there is none, or uses what is not its own.
const FAULTS: [Signal; 4] = [Signal::SIGABRT, Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGILL];

/// Enough for a handler that makes two system calls, and for all registers that a processor may have to keep.
static STACK: [AtomicU8; 64 << 10] = [const { AtomicU8::new(0) }; 64 << 10];

/// Where the answer goes; none if that is negative.
static TO: AtomicI32 = AtomicI32::new(-1);
static TEXT: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// From here on a fault is answered so.
pub fn are_answered(to: RawFd, text: String) {
    // It is needed until the process ends.
    let text = text.into_bytes().leak();
    LENGTH.store(text.len(), Ordering::SeqCst);
    TEXT.store(text.as_mut_ptr(), Ordering::SeqCst);
    TO.store(to, Ordering::SeqCst);
    // On a stack of its own, for the other one may be used up.
    let at = STACK.as_ptr().cast_mut().cast();
    let stack = libc::stack_t { ss_sp: at, ss_flags: 0, ss_size: STACK.len() };
    // SAFETY: that memory is the handler's alone.
    let _ = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
    let flags = SaFlags::SA_ONSTACK | SaFlags::SA_RESETHAND;
    let action = SigAction::new(SigHandler::Handler(answer), flags, SigSet::empty());
    for signal in FAULTS {
        // SAFETY: the handler makes two system calls, with memory that was there before.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

/// The answer is given, or another process gives it: a fault ends this one as usual.
pub fn are_not_answered() {
    // The handler comes back then, and is no handler any more: what was at fault is done once again.
    TO.store(-1, Ordering::SeqCst);
}

extern "C" fn answer(_: c_int) {
    let to = TO.swap(-1, Ordering::SeqCst);
    if to < 0 {
        return;
    }
    let (text, length) = (TEXT.load(Ordering::SeqCst), LENGTH.load(Ordering::SeqCst));
    // SAFETY: the text lives as long as the process; both calls may be made in a handler.
    unsafe {
        let written = libc::write(to, text.cast(), length);
        libc::_exit(i32::from(written < 0));
    }
}
