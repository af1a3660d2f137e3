//! Waits for the worker, and ends it when it is told to end, or does not end by itself.
//!
//! On SIGTERM kubelet waits ten seconds and then crashes if the driver still lives
//! (kubernetes/utils issue 291). So the process that was called does nothing but wait, for the
//! worker, for signals and for the deadline; it passes the worker's answer on, or answers in its
//! place and ends. Whatever was under way is as after a kill: the next call goes on from there.

use crate::channel::{self, AnswerReader, Channel};
use crate::flexvolume::reply::{self, Reply};
use crate::host::faults;
use crate::host::left_behind::{self, LeftProcess};
use crate::host::worker::parent::{self, News, Terms, Worker};
use crate::host::worker::progress::Progress;
use crate::host::worker::{self, late};
use crate::model::error::{Error, Kind, Result};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::wait::WaitStatus;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long after its deadline a call may still answer with its own words.
const GRACE: Duration = Duration::from_secs(2);

/// How long a call may take before it has read how long it may take.
const AT_FIRST: Duration = Duration::from_secs(30);

/// How long a person at a terminal waits for the first answer of any service.
const SILENCE: Duration = Duration::from_secs(10);

/// How long an answer that was begun may take to be read once a signal came.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How long what is written down of a call that was given up may take: disks may hang here too.
const PAPERWORK: Duration = Duration::from_secs(2);

/// Who the answer would be about.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The call word.
    pub action: String,
    /// The volume.
    pub object: String,
    /// The call's id.
    pub call_id: String,
}

impl Subject {
    /// The answer that the call failed.
    #[must_use]
    pub fn failure(&self, error: &Error) -> Reply {
        Reply::failure(&self.action, &self.object, error, &self.call_id)
    }
}

/// The line of a reply as this reader's `send` takes it.
#[must_use]
pub fn line_for(reader: AnswerReader, reply: &Reply) -> String {
    match reader {
        AnswerReader::Person => reply.line_for_person(),
        AnswerReader::Program | AnswerReader::PersonWithJson => reply.line(),
    }
}

/// Answers a call with this line; says whether the exit status is 0.
#[must_use]
pub fn send(channel: &Channel, line: &str) -> bool {
    let sent = channel.send(&shown(channel, line));
    tell(channel, line);
    sent && is_well(channel, line)
}

/// What the reader of the channel is shown of the line.
fn shown<'a>(channel: &Channel, line: &'a str) -> Cow<'a, str> {
    match channel.reader() {
        AnswerReader::Person => sentence(line).map_or(Cow::Borrowed(line), Cow::Owned),
        AnswerReader::Program | AnswerReader::PersonWithJson => Cow::Borrowed(line),
    }
}

/// Whether the exit status is 0: a program reads the status of the call in the line.
fn is_well(channel: &Channel, line: &str) -> bool {
    channel.reader() == AnswerReader::Program || reply::is_success(line)
}

fn tell(channel: &Channel, line: &str) {
    if let Some(sentence) = sentence(line) {
        channel.tell(&sentence);
    }
}

fn sentence(line: &str) -> Option<String> {
    Some(format!("disk: {}\n", reply::sentence(line)?))
}

/// Lets a worker do a call, which gives its answer by `worker::out`, and passes it on; says
/// whether an answer got out. `given_up` writes down what the worker cannot any more.
#[must_use]
pub fn call(
    channel: &Channel,
    subject: &Subject,
    work: impl FnOnce(),
    given_up: impl FnOnce(&Error),
) -> bool {
    let started = Worker::start(TERMS, || {
        work();
        0
    });
    attend(channel, subject, started, given_up)
}

const TERMS: Terms = Terms { at_first: Some(AT_FIRST), grace: GRACE, has_own_signals: true };

/// What becomes of that which a call has to tell beside its answer.
#[derive(Debug)]
pub struct BesideAnswer<T> {
    /// Keeps it in memory, if it can; for a call that found all as it should be.
    pub keep: fn(&T) -> bool,
    /// Writes it to its disk, once the answer is sent.
    pub write: fn(T),
}

/// The same of a call that mostly finds all as it should be: this process does the work itself, until something
/// that can hang comes, and has a worker from there on, which begins with `first`. `work` answers the line, and
/// what else is to be told.
#[must_use]
pub fn look<T>(
    channel: Channel,
    subject: &Subject,
    work: impl FnOnce() -> (String, T),
    told: &BesideAnswer<T>,
    given_up: impl FnOnce(&Error) + 'static,
    first: fn(),
) -> bool {
    // A worker's process never comes back to the end of what it is in.
    let channel: &'static Channel = Box::leak(Box::new(channel));
    let files = channel.files();
    let broken = Error::new(Kind::Bug, "the call's process broke off by a fault of its memory")
        .hint("the next call goes on from there");
    if let Some(to) = files.first() {
        let line = line_for(channel.reader(), &subject.failure(&broken));
        faults::are_answered(*to, shown(channel, &line).into_owned());
    }
    let of_the_worker = subject.clone();
    let waits = move |started: Result<Worker>| {
        i32::from(!attend(channel, &of_the_worker, started, given_up))
    };
    parent::without_worker(TERMS, &files, Box::new(waits), first);
    let (line, rest) = work();
    // A reader that is slow is waited for beside signals.
    if !channel.has_room() {
        late::may_hang();
    }
    // As the last thing before the answer: what is kept is told, whatever becomes of this process.
    if late::is_alone() && !(told.keep)(&rest) {
        late::may_hang();
    }
    if late::end() {
        faults::are_not_answered();
        return send(channel, &line);
    }
    let _ = worker::out().write_all(line.as_bytes());
    (told.write)(rest);
    parent::end_of_worker()
}

/// Waits for the worker of a call, and passes its answer on.
fn attend(
    channel: &Channel,
    subject: &Subject,
    started: Result<Worker>,
    given_up: impl FnOnce(&Error),
) -> bool {
    let answer = |error: &Error| line_for(channel.reader(), &subject.failure(error));
    let mut worker = match started {
        Ok(worker) => worker,
        Err(error) => return send(channel, &answer(&error)),
    };
    let mut reply = Vec::new();
    let mut progress = Progress::on(channel.terminal());
    let mut is_silent = false;
    loop {
        // A signal that comes together with the answer comes too late.
        let why = match worker.next(progress.next_look()) {
            Some(News::Output(bytes)) => {
                progress.erase();
                reply.extend(bytes);
                if reply.ends_with(b"\n") {
                    break;
                }
                continue;
            }
            Some(News::Complaint(_)) => continue,
            None => {
                progress.renew(&worker);
                let Some(error) = unanswered(&worker) else { continue };
                is_silent = true;
                error
            }
            Some(News::Signal(signal)) => {
                Error::new(Kind::Busy, format!("{signal} ended the call"))
                    .hint("the next call goes on from where it stood")
            }
            Some(News::Hangs) => {
                let seconds = worker.total().as_secs();
                Error::new(Kind::Timeout, format!("not done within {seconds} s"))
            }
            Some(News::Ended(status)) => {
                Error::new(Kind::Bug, format!("the call's process {}", ended(status)))
                    .hint("its log has the last step; the next call goes on from there")
            }
        };
        progress.erase();
        let does = worker.does();
        let left = worker.end();
        let why = named(why, &left, does);
        let sent = send(channel, &answer(&why));
        worker.settle(&left, PAPERWORK, || given_up(&why));
        return sent && !is_silent;
    }
    let sent = match channel.begin() {
        Some(stdout) => {
            let line = String::from_utf8_lossy(&reply);
            let shown = shown(channel, &line);
            let sent = worker.write(stdout.as_fd(), shown.as_bytes(), LAST_WORDS).is_ok();
            tell(channel, &line);
            sent && is_well(channel, &line)
        }
        None => false,
    };
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
    sent
}

/// Why a person need not wait any longer; nothing once a service has answered. Only at a terminal is the worker looked
/// at while it works, so kubelet's calls keep their deadline.
fn unanswered(worker: &Worker) -> Option<Error> {
    worker.silence().filter(|silence| *silence >= SILENCE)?;
    let (whom, ..) = worker.waits_for()?;
    let seconds = SILENCE.as_secs();
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
    /// The words.
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

/// How long a person's verb is waited for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Patience {
    /// A worker that is in one and the same call on a disk or a folder for so long is given up.
    pub with_hanging: Option<Duration>,
}

/// How long a worker may take to end by a signal.
const BY_SIGNAL: Duration = Duration::from_secs(1);

/// How often it is looked whether a worker hangs.
const LOOK: Duration = Duration::from_millis(500);

/// Lets a worker do what a person asks for, which speaks by `worker::out` and
/// `worker::complaints`; answers the exit status.
#[must_use]
pub fn verb(patience: Patience, failing: Failing, work: impl FnOnce() -> u8) -> u8 {
    let fail = |error: &Error| failing.say(error, &mut std::io::stdout(), &mut std::io::stderr());
    let terms = Terms { at_first: None, grace: GRACE, has_own_signals: false };
    let mut worker = match Worker::start(terms, || i32::from(work())) {
        Ok(worker) => worker,
        Err(error) => return fail(&error),
    };
    let mut failed = false;
    let mut asked_to_end: Option<(Signal, Instant)> = None;
    let mut same_call = SameCall::default();
    let mut progress = Progress::on(channel::terminal());
    loop {
        let look = patience.with_hanging.map(|_| Instant::now() + LOOK);
        let look = [look, progress.next_look()].into_iter().flatten().min();
        let until = asked_to_end.map(|(_, until)| until).or(look);
        let news = worker.next(until);
        worker.tell_columns();
        match &news {
            Some(_) => progress.erase(),
            None => progress.renew(&worker),
        }
        let signal = match news {
            Some(News::Output(bytes)) => {
                match worker.write(std::io::stdout().as_fd(), &bytes, BY_SIGNAL) {
                    Ok(signal) => signal,
                    Err(error) => {
                        failed |= error.kind() != std::io::ErrorKind::BrokenPipe;
                        worker.do_not_listen();
                        None
                    }
                }
            }
            Some(News::Complaint(bytes)) => {
                let _ = std::io::stderr().write_all(&bytes);
                None
            }
            Some(News::Signal(signal)) => Some(signal),
            Some(News::Ended(WaitStatus::Exited(_, status))) => {
                // Something that it started may be left.
                let left = worker.end();
                if !left.is_empty() {
                    worker.settle(&left, PAPERWORK, || {});
                }
                return match u8::try_from(status) {
                    Ok(status) if !failed => status,
                    _ => failing.status,
                };
            }
            Some(News::Ended(status)) => {
                let left = worker.end();
                worker.settle(&left, PAPERWORK, || {});
                if let WaitStatus::Signaled(_, signal, _) = status
                    && (asked_to_end.is_some() || !failing.is_answer)
                {
                    end_by(signal);
                }
                return fail(&Error::new(
                    Kind::Bug,
                    format!("the verb's process {}", ended(status)),
                ));
            }
            Some(News::Hangs) => {
                let seconds = worker.total().as_secs();
                let why = Error::new(Kind::Timeout, format!("not done within {seconds} s"));
                return fail(&given_up(&mut worker, why));
            }
            None => None,
        };
        if let Some(signal) = signal {
            worker.signal(signal);
            asked_to_end.get_or_insert((signal, Instant::now() + BY_SIGNAL));
        }
        if let Some((signal, until)) = asked_to_end
            && Instant::now() >= until
        {
            let why = Error::new(Kind::Busy, format!("ended by {signal}"));
            return fail(&given_up(&mut worker, why));
        }
        let Some(limit) = patience.with_hanging else { continue };
        if same_call.lasts(&worker, limit) {
            return fail(&given_up(&mut worker, waits_in_the_kernel()));
        }
    }
}

/// It is in one system call for too long. What is left of it is told in place of the hint.
fn waits_in_the_kernel() -> Error {
    Error::new(Kind::Timeout, "not done: it waits in the kernel").hint(
        "what it waits for does not answer; nothing of it is left, and the next try begins anew",
    )
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
    /// What it said.
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
    /// In all.
    pub in_all: Duration,
    /// In one and the same system call.
    pub with_hanging: Option<Duration>,
    /// After a signal.
    pub after_a_signal: Duration,
}

/// Lets a worker do a part, which speaks by `worker::out`; this process must have one thread.
#[must_use]
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
    let mut same_call = SameCall::default();
    let mut end: Option<Instant> = None;
    let why = loop {
        match worker.next(Some(Instant::now() + LOOK)) {
            Some(News::Output(bytes)) => part.said.extend(bytes),
            Some(News::Complaint(bytes)) => {
                let _ = std::io::stderr().write_all(&bytes);
            }
            Some(News::Signal(signal)) => {
                part.signal.get_or_insert(signal);
                end.get_or_insert(Instant::now() + patience.after_a_signal);
            }
            Some(News::Ended(WaitStatus::Exited(_, 0))) => break None,
            Some(News::Ended(status)) => {
                break Some(Error::new(Kind::Bug, format!("its process {}", ended(status))));
            }
            Some(News::Hangs) => {
                let seconds = patience.in_all.as_secs();
                break Some(Error::new(Kind::Timeout, format!("not done within {seconds} s")));
            }
            None => {}
        }
        if let (Some(signal), true) = (part.signal, end.is_some_and(|end| Instant::now() >= end)) {
            break Some(Error::new(Kind::Busy, format!("ended by {signal}")));
        }
        if patience.with_hanging.is_some_and(|limit| same_call.lasts(&worker, limit)) {
            break Some(waits_in_the_kernel());
        }
    };
    let does = worker.does();
    part.left = worker.end();
    part.volume = worker.volume();
    part.given_up = why.map(|why| named(why, &part.left, does));
    worker.settle(&part.left, PAPERWORK, || {});
    part
}

fn given_up(worker: &mut Worker, why: Error) -> Error {
    let does = worker.does();
    let left = worker.end();
    worker.settle(&left, PAPERWORK, || {});
    named(why, &left, does)
}

/// Ends this process as the signal would have, for a shell that looks at how its programs end.
fn end_by(signal: Signal) {
    let mut alone = SigSet::empty();
    alone.add(signal);
    let _ = alone.thread_unblock();
    let _ = raise(signal);
}
