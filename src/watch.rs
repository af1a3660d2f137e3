//! Ends a call that is told to end, or that does not end by itself.
//!
//! On SIGTERM kubelet waits ten seconds and then crashes if the driver still lives
//! (kubernetes/utils issue 291). So a thread waits for signals and for the deadline; it answers
//! in place of the call, kills the call's children, and ends the process. Whatever was under way
//! is as after a kill: the next call goes on from there.

use crate::channel::Channel;
use crate::flexvolume::reply::Reply;
use crate::host::metrics::Report;
use crate::host::tool;
use crate::model::error::{Error, Kind, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long after its deadline a call may still answer with its own words.
const GRACE: Duration = Duration::from_secs(2);

/// How long an answer that was begun may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Who the answer would be about.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The call word.
    pub action: String,
    /// The volume.
    pub object: String,
    /// The call's id.
    pub call_id: String,
    /// When the call began.
    pub begin: Instant,
    /// What the metrics are told, if they are told anything.
    pub report: Option<Report>,
}

/// Begins to watch. The signals are blocked in this thread and in all that it starts later;
/// children start with them open again, as std resets the mask.
pub fn start(channel: Arc<Channel>, subject: Subject, deadline: Duration) -> Result<()> {
    let wrong = |errno: nix::errno::Errno| Error::io("watch for signals", &errno.into());
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block().map_err(wrong)?;
    let descriptor = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).map_err(wrong)?;
    let end = Instant::now() + deadline + GRACE;
    std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || {
            let why = wait(&descriptor, end, deadline);
            give_up(&channel, &subject, &why);
        })
        .map_err(|error| Error::io("start the watching thread", &error))?;
    Ok(())
}

fn wait(descriptor: &SignalFd, end: Instant, deadline: Duration) -> Error {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Error::new(Kind::Timeout, format!("not done within {} s", deadline.as_secs()))
                .hint("something of the machine hangs: see the log for the last step");
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut waited = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
        if matches!(poll(&mut waited, timeout), Ok(ready) if ready > 0)
            && let Ok(Some(info)) = descriptor.read_signal()
        {
            let signal = i32::try_from(info.ssi_signo).ok().and_then(|n| Signal::try_from(n).ok());
            let name = signal.map_or("a signal", Signal::as_str);
            return Error::new(Kind::Busy, format!("{name} ended the call"))
                .hint("the next call goes on from where it stood");
        }
    }
}

#[allow(clippy::exit, reason = "the call's own thread may hang in the kernel: only this ends it")]
fn give_up(channel: &Channel, subject: &Subject, why: &Error) -> ! {
    if channel.is_used() {
        // The call is giving its own answer this very moment, perhaps to a slow reader: it ends
        // by itself, or is ended before kubelet loses its patience.
        std::thread::sleep(LAST_WORDS);
        std::process::exit(0);
    }
    let reply = Reply::failure(&subject.action, &subject.object, why, &subject.call_id);
    tracing::error!(call = subject.call_id, reason = %why, "end: given up");
    // First the answer, then the children: the call would take a killed child for its own trouble
    // and answer with that.
    let sent = channel.send(&reply.line());
    tool::kill_all();
    if let Some(mut report) = subject.report.clone() {
        why.kind.word().clone_into(&mut report.sample.outcome);
        report.sample.seconds = subject.begin.elapsed().as_secs_f64();
        report.write();
    }
    std::process::exit(i32::from(!sent));
}
