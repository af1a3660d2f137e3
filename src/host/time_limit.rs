//! A system call that any signal ends, ended by one when its time is over. This process goes on, and may put right what
//! the call has left: of a process that is killed amid it nothing can.
#![allow(unsafe_code)]

use nix::errno::Errno;
use nix::libc::c_int;
use nix::sys::signal::{
    SaFlags, SigAction, SigEvent, SigHandler, SigSet, SigevNotify, SigmaskHow, Signal,
    pthread_sigmask, sigaction,
};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use nix::unistd::gettid;
use std::time::Duration;

/// One that ends no process where nothing waits for it.
const SIGNAL: Signal = Signal::SIGURG;

/// From the limit on, for the first one may come right before the call.
const ONCE_MORE: Duration = Duration::from_millis(50);

extern "C" fn nothing(_: c_int) {}

/// Makes the call, which answers `EINTR` when it has not ended within this time.
pub(super) fn within<T>(limit: Duration, call: impl FnOnce() -> T) -> Result<T, Errno> {
    let event =
        SigevNotify::SigevThreadId { signal: SIGNAL, thread_id: gettid().as_raw(), si_value: 0 };
    let mut timer = Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(event))?;
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing.
    let before = unsafe { sigaction(SIGNAL, &action) }?;
    let (mut ours, mut mask) = (SigSet::empty(), SigSet::empty());
    ours.add(SIGNAL);
    let _ = pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&ours), Some(&mut mask));
    let (first, then) = (TimeSpec::from_duration(limit), TimeSpec::from_duration(ONCE_MORE));
    let begun = timer.set(Expiration::IntervalDelayed(first, then), TimerSetTimeFlags::empty());
    let answer = begun.map(|()| call());
    // What was sent comes before the end of this.
    drop(timer);
    let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&mask), None);
    // SAFETY: it was so before.
    let _ = unsafe { sigaction(SIGNAL, &before) };
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{pipe, read, write};
    use std::time::Instant;

    #[test]
    fn a_call_that_does_not_end_is_interrupted_and_one_that_does_has_its_answer() {
        let (from, to) = pipe().unwrap();
        let mut byte = [0];
        let limit = Duration::from_millis(30);
        let begun = Instant::now();
        assert_eq!(within(limit, || read(&from, &mut byte)), Ok(Err(Errno::EINTR)));
        assert!(begun.elapsed() >= limit);
        write(&to, b"a").unwrap();
        assert_eq!(within(Duration::from_secs(60), || read(&from, &mut byte)), Ok(Ok(1)));
        // The next call is not ended by what was meant for this one.
        std::thread::sleep(limit);
        assert_eq!(within(limit, || read(&from, &mut byte)), Ok(Err(Errno::EINTR)));
    }
}
