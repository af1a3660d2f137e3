//! Supervises the worker: waits for it, and ends it when a signal or the deadline says so, or when it hangs.
//!
//! On SIGTERM kubelet waits ten seconds and then crashes if the driver still lives
//! (kubernetes/utils issue 291). So the process that was called does nothing but wait, for the
//! worker, for signals and for the deadline; it passes the worker's answer on, or answers in its
//! place and ends. Whatever was under way is as after a kill: the next call goes on from there.

use crate::channel;
use crate::host::left_behind::{self, LeftProcess};
use crate::host::worker::parent::{News, Terms, Worker};
use crate::host::worker::progress::Progress;
use crate::model::error::{Error, Kind};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::wait::WaitStatus;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long after its deadline a call may still answer with its own words.
const GRACE: Duration = Duration::from_secs(2);

/// How long a call may take before it has read how long it may take.
const AT_FIRST: Duration = Duration::from_secs(30);

/// How long a person at a terminal waits for the first answer of any service.
const SILENCE: Duration = Duration::from_secs(10);

/// How long a worker may take to end by a signal, where it gets the signal too.
const BY_SIGNAL: Duration = Duration::from_secs(1);

/// How often it is checked whether a worker hangs.
const LOOK: Duration = Duration::from_millis(500);

/// How long what is written down of a call that was given up may take: disks may hang here too.
const PAPERWORK: Duration = Duration::from_secs(2);

/// When a worker is given up, besides at its deadline.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// After so long in one and the same system call.
    with_hanging: Option<Duration>,
    /// So long after a signal.
    after_a_signal: Duration,
    /// Whether the worker gets the signal too.
    passes_signals: bool,
    /// When no service has answered for so long, and a person waits at a terminal.
    with_silence: Option<Duration>,
}

/// How a worker came to its end.
#[derive(Debug)]
enum End {
    /// It said what was waited for.
    Answered,
    Ended(WaitStatus),
    GivenUp(Error),
    /// No service answered a person.
    Unanswered(Error),
}

/// What follows from something that a worker said.
enum Next {
    Wait,
    Stop,
    /// The signal came while what it said was passed on.
    Signal(Signal),
}

/// Waits for a worker, and hands over what it says; returns how it ended, and the first signal that came.
fn supervise(
    worker: &mut Worker,
    limits: Limits,
    mut progress: Progress,
    mut hear: impl FnMut(&mut Worker, Vec<u8>) -> Next,
) -> (End, Option<Signal>) {
    let mut asked_to_end: Option<(Signal, Instant)> = None;
    let mut same_call = SameCall::default();
    let end = loop {
        let look = limits.with_hanging.map(|_| Instant::now() + LOOK);
        let look = [look, progress.next_look()].into_iter().flatten().min();
        let news = worker.next(asked_to_end.map(|(_, until)| until).or(look));
        worker.tell_columns();
        match &news {
            Some(_) => progress.erase(),
            None => progress.renew(worker),
        }
        let signal = match news {
            Some(News::Output(bytes)) => match hear(worker, bytes) {
                // A signal that comes together with the answer comes too late.
                Next::Stop => break End::Answered,
                Next::Wait => None,
                Next::Signal(signal) => Some(signal),
            },
            Some(News::Complaint(bytes)) => {
                let _ = std::io::stderr().write_all(&bytes);
                None
            }
            Some(News::Signal(signal)) => Some(signal),
            Some(News::Ended(status)) => break End::Ended(status),
            Some(News::Hangs) => {
                let seconds = worker.total().as_secs();
                break End::GivenUp(Error::new(
                    Kind::Timeout,
                    format!("not done within {seconds} s"),
                ));
            }
            None => None,
        };
        if let Some(signal) = signal {
            if limits.passes_signals {
                worker.signal(signal);
            }
            asked_to_end.get_or_insert((signal, Instant::now() + limits.after_a_signal));
        }
        if let Some((signal, until)) = asked_to_end
            && Instant::now() >= until
        {
            let why = Error::new(Kind::Busy, format!("{signal} ended the call"));
            break End::GivenUp(why.hint("the next call goes on from where it stood"));
        }
        if limits.with_hanging.is_some_and(|limit| same_call.lasts(worker, limit)) {
            break End::GivenUp(waits_in_the_kernel());
        }
        if let Some(error) = limits.with_silence.and_then(|limit| unanswered(worker, limit)) {
            break End::Unanswered(error);
        }
    };
    (end, asked_to_end.map(|(signal, _)| signal))
}

/// What a call does with its answer.
#[derive(Debug)]
pub struct Answering<D, F, G> {
    /// The terminal of the person who waits, if one does.
    pub terminal: Option<File>,
    /// Passes the worker's answer on; returns whether the exit status is 0.
    pub deliver: D,
    /// Answers in the worker's place; returns the same.
    pub fail: F,
    /// Writes down what the worker cannot any more.
    pub given_up: G,
}

/// Lets a worker do a call, which gives its answer by `worker::out` as one line; returns whether the exit status is 0.
pub fn call(
    answering: Answering<
        impl FnOnce(&mut Worker, &str) -> bool,
        impl FnOnce(&Error) -> bool,
        impl FnOnce(&Error),
    >,
    work: impl FnOnce(),
) -> bool {
    let Answering { terminal, deliver, fail, given_up } = answering;
    let terms = Terms { at_first: Some(AT_FIRST), grace: GRACE, has_own_signals: true };
    let started = Worker::start(terms, || {
        work();
        0
    });
    let mut worker = match started {
        Ok(worker) => worker,
        Err(error) => return fail(&error),
    };
    let limits = Limits {
        with_hanging: None,
        after_a_signal: Duration::ZERO,
        passes_signals: false,
        with_silence: terminal.as_ref().map(|_| SILENCE),
    };
    let mut reply = Vec::new();
    let (end, _) = supervise(&mut worker, limits, Progress::on(terminal), |_, bytes| {
        reply.extend(bytes);
        if reply.ends_with(b"\n") { Next::Stop } else { Next::Wait }
    });
    let is_unanswered = matches!(end, End::Unanswered(_));
    let why = match end {
        End::Answered => {
            let sent = deliver(&mut worker, &String::from_utf8_lossy(&reply));
            // What is written after the answer, as the metrics are, is waited for; a thread that hangs is not.
            while !matches!(worker.next(None), Some(News::Ended(_) | News::Hangs)) {}
            let left = worker.end();
            if !left.is_empty() {
                worker.settle(&left, PAPERWORK, || {
                    for one in &left {
                        tracing::warn!(process = one.pid, what = %one, "left behind");
                    }
                });
            }
            return sent;
        }
        End::Ended(status) => {
            Error::new(Kind::Bug, format!("the call's process {}", ended(status)))
                .hint("its log has the last step; the next call goes on from there")
        }
        End::GivenUp(why) | End::Unanswered(why) => why,
    };
    let does = worker.does();
    let left = worker.end();
    let why = named(why, &left, does);
    let sent = fail(&why);
    worker.settle(&left, PAPERWORK, || given_up(&why));
    sent && !is_unanswered
}

/// Why a person need not wait any longer; nothing once a service has answered. Only at a terminal is the worker looked
/// at while it works, so kubelet's calls keep their deadline.
fn unanswered(worker: &Worker, limit: Duration) -> Option<Error> {
    worker.silence().filter(|silence| *silence >= limit)?;
    let (whom, ..) = worker.waits_for()?;
    let seconds = limit.as_secs();
    let error = Error::new(Kind::Timeout, format!("{whom} has not answered within {seconds} s"));
    Some(error.hint(
        "check the address of the cloud and the network of this machine, and repeat the command",
    ))
}

/// The error, with the processes that are left behind and what ends them.
fn named(mut error: Error, left: &[LeftProcess], does: Option<String>) -> Error {
    if left.is_empty() {
        if let Some(does) = does {
            error.cause = format!("{} ({does})", error.cause);
        }
        if error.kind == Kind::Timeout && error.hint.is_none() {
            error = error.hint("something of the machine is slow: see the log for the last step");
        }
        return error;
    }
    let all: Vec<_> = left.iter().map(ToString::to_string).collect();
    error.cause = format!("{}; {}", error.cause, all.join("; "));
    error.hint(left_behind::what_ends(left))
}

fn ended(status: WaitStatus) -> String {
    match status {
        WaitStatus::Signaled(_, signal, _) => format!("was ended by {signal}"),
        WaitStatus::Exited(_, status) => format!("ended without an answer, with status {status}"),
        _ => "ended without an answer".to_owned(),
    }
}

/// What is said of a verb that came to nothing.
#[derive(Debug, Clone, Copy)]
pub struct Failing {
    /// The exit status, also where what was said got lost.
    pub status: u8,
    pub text: fn(&Error) -> String,
    /// Whether they are the verb's answer, which a program reads, and no complaint beside it.
    pub is_answer: bool,
}

impl Failing {
    /// Says it on the stream where it belongs; answers the exit status.
    pub fn say(self, error: &Error, out: &mut dyn Write, complaints: &mut dyn Write) -> u8 {
        let text = (self.text)(error);
        let _ = if self.is_answer {
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        } else {
            complaints.write_all(text.as_bytes())
        };
        self.status
    }
}

/// Lets a worker do what a person asks for, which speaks by `worker::out` and
/// `worker::complaints`; returns the exit status. One that is `with_hanging` for so long in one and the same system call
/// is given up.
pub fn verb(with_hanging: Option<Duration>, failing: Failing, work: impl FnOnce() -> u8) -> u8 {
    let fail = |error: &Error| failing.say(error, &mut std::io::stdout(), &mut std::io::stderr());
    let terms = Terms { at_first: None, grace: GRACE, has_own_signals: false };
    let mut worker = match Worker::start(terms, || i32::from(work())) {
        Ok(worker) => worker,
        Err(error) => return fail(&error),
    };
    let limits = Limits {
        with_hanging,
        after_a_signal: BY_SIGNAL,
        passes_signals: true,
        with_silence: None,
    };
    let mut is_lost = false;
    let progress = Progress::on(channel::terminal());
    let (end, signal) = supervise(&mut worker, limits, progress, |worker, bytes| {
        match worker.write(std::io::stdout().as_fd(), &bytes, BY_SIGNAL) {
            Ok(signal) => signal.map_or(Next::Wait, Next::Signal),
            Err(error) => {
                is_lost |= error.kind() != ErrorKind::BrokenPipe;
                worker.do_not_listen();
                Next::Wait
            }
        }
    });
    let does = worker.does();
    let left = worker.end();
    if !left.is_empty() || !matches!(end, End::Ended(WaitStatus::Exited(..))) {
        worker.settle(&left, PAPERWORK, || {});
    }
    match end {
        End::Ended(WaitStatus::Exited(_, status)) => match u8::try_from(status) {
            Ok(status) if !is_lost => status,
            _ => failing.status,
        },
        End::Ended(WaitStatus::Signaled(_, by, _)) if signal.is_some() || !failing.is_answer => {
            end_by(by);
            failing.status
        }
        End::Ended(status) => {
            fail(&Error::new(Kind::Bug, format!("the verb's process {}", ended(status))))
        }
        End::GivenUp(why) | End::Unanswered(why) => fail(&named(why, &left, does)),
        End::Answered => failing.status,
    }
}

/// It is in one system call for too long. If a process is left behind, what ends that replaces the hint.
fn waits_in_the_kernel() -> Error {
    Error::new(Kind::Timeout, "not done: it waits in the kernel")
        .hint("what it waits for does not answer; no process of it is left, and it can be repeated")
}

/// The system calls that a worker and its children were in at the last look, and since when.
#[derive(Debug, Default)]
struct SameCall(BTreeMap<i32, (String, Instant)>);

impl SameCall {
    /// Whether one of them is in one and the same for so long.
    fn lasts(&mut self, worker: &Worker, limit: Duration) -> bool {
        let children =
            worker.children().into_iter().map(|pid| (pid, left_behind::deaf_call_of(pid)));
        let all = children.chain([(worker.pid(), left_behind::call_of(worker.pid()))]);
        let before = std::mem::take(&mut self.0);
        for (pid, call) in all {
            let Some(call) = call else { continue };
            let since = match before.get(&pid) {
                Some((same, since)) if *same == call => *since,
                _ => Instant::now(),
            };
            self.0.insert(pid, (call, since));
        }
        self.0.values().any(|(_, since)| since.elapsed() >= limit)
    }
}

/// What came of a part of the work of a verb that stays, or that must come to the end of a list: each
/// part has a worker of its own.
#[derive(Debug)]
pub struct Part {
    pub said: Vec<u8>,
    /// Why it was given up, if it was.
    pub given_up: Option<Error>,
    /// What it left behind, which hangs.
    pub left: Vec<LeftProcess>,
    /// The volume that it worked on then.
    pub volume: Option<String>,
    /// A signal that came meanwhile.
    pub signal: Option<Signal>,
}

/// How a part is waited for.
#[derive(Debug, Clone, Copy)]
pub struct PartPatience {
    pub in_all: Duration,
    /// In one and the same system call.
    pub with_hanging: Option<Duration>,
    /// After a signal.
    pub after_a_signal: Duration,
}

/// Lets a worker do a part, which speaks by `worker::out`; this process must have one thread.
pub fn part(patience: PartPatience, work: impl FnOnce()) -> Part {
    let mut part =
        Part { said: Vec::new(), given_up: None, left: Vec::new(), volume: None, signal: None };
    let terms =
        Terms { at_first: Some(patience.in_all), grace: Duration::ZERO, has_own_signals: true };
    let started = Worker::start(terms, || {
        work();
        0
    });
    let mut worker = match started {
        Ok(worker) => worker,
        Err(error) => return Part { given_up: Some(error), ..part },
    };
    let limits = Limits {
        with_hanging: patience.with_hanging,
        after_a_signal: patience.after_a_signal,
        passes_signals: false,
        with_silence: None,
    };
    let (end, signal) = supervise(&mut worker, limits, Progress::on(None), |_, bytes| {
        part.said.extend(bytes);
        Next::Wait
    });
    let why = match end {
        End::Answered | End::Ended(WaitStatus::Exited(_, 0)) => None,
        End::Ended(status) => Some(Error::new(Kind::Bug, format!("its process {}", ended(status)))),
        End::GivenUp(why) | End::Unanswered(why) => Some(why),
    };
    let does = worker.does();
    part.left = worker.end();
    part.signal = signal;
    part.volume = worker.volume();
    part.given_up = why.map(|why| named(why, &part.left, does));
    worker.settle(&part.left, PAPERWORK, || {});
    part
}

/// Ends this process as the signal would have, for a shell that looks at how its programs end.
fn end_by(signal: Signal) {
    let mut alone = SigSet::empty();
    alone.add(signal);
    let _ = alone.thread_unblock();
    let _ = raise(signal);
}
