//! The waiting process's side.

use super::activity::{Board, now_in_milliseconds, share};
use super::caller;
use super::messages::{self, Word};
use crate::descriptors::{close_all_but, open_nothing};
use crate::failpoints;
use crate::left_behind::{self, LeftProcess};
use crate::model::error::{Error, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, killpg, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a killed process may take to end before it counts as one that hangs.
const DYING: Duration = Duration::from_millis(300);

/// How long the end of a worker is waited for that has done its work.
const ENDING: Duration = Duration::from_millis(30);

/// How long a worker that has done its work may take to write what is left of its log.
const LINGERING: Duration = Duration::from_secs(5);

/// A worker, as the process that waits for it has it.
#[derive(Debug)]
pub struct Worker {
    pid: Pid,
    line: Option<OwnedFd>,
    signals: SignalFd,
    board: &'static Board,
    locks: Vec<Lock>,
    status: Option<WaitStatus>,
    began: Instant,
    /// When the work must be done; nothing if it may take for ever.
    end: Option<Instant>,
    total: Duration,
    grace: Duration,
    /// The exit status of a worker that has said its last, and until when its end is waited for.
    last: Option<(Instant, i32)>,
}

/// A lock that the worker took.
#[derive(Debug)]
struct Lock {
    file: File,
    path: PathBuf,
    /// Whether it is a volume's, beside which notes are kept.
    is_volumes: bool,
}

/// What happened.
#[derive(Debug)]
pub enum News {
    /// The work has something to say.
    Output(Vec<u8>),
    /// Something is wrong.
    Complaint(Vec<u8>),
    /// A signal came for the process that was called.
    Signal(Signal),
    /// The worker ended so, or will, for it has done its work.
    Ended(WaitStatus),
    /// Its time is over.
    Hangs,
}

/// How a worker is watched.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How long it may take until it says itself how long.
    pub at_first: Option<Duration>,
    /// How much longer it is waited for.
    pub grace: Duration,
    /// Whether signals of a terminal and of a service manager come to this process alone.
    pub has_own_signals: bool,
}

/// Signals that would end a process without a word.
const THAT_END: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGALRM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Signals that wait until they are read.
#[derive(Debug)]
pub struct HeldSignals(SigSet);

/// Holds the signals that would end this process: the first thing that it does, for a call answers
/// whenever it is told to end.
pub fn hold_signals() -> HeldSignals {
    let (mut held, mut before) = (SigSet::empty(), SigSet::empty());
    held.extend(THAT_END);
    let _ = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&held), Some(&mut before));
    HeldSignals(before)
}

/// Signals that would end a process that stays, for the time between two workers.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// From here on none of them ends the process by itself.
    pub fn of_the_end() -> Result<Self> {
        let mut watched = SigSet::empty();
        watched.extend(THAT_END);
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        as_result(watched.thread_block())?;
        as_result(SignalFd::with_flags(&watched, flags)).map(Self)
    }

    pub fn came(&mut self) -> Option<Signal> {
        let info = self.0.read_signal().ok()??;
        i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok())
    }
}

impl Signals {
    /// One that comes within this time.
    pub fn within(&mut self, time: Duration) -> Option<Signal> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1));
            let mut waited = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut waited, timeout.unwrap_or(PollTimeout::MAX));
            let came = self.came();
            if came.is_some() || Instant::now() >= end {
                return came;
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl HeldSignals {
    /// As it was before: a person ends a program that only speaks at once.
    pub fn release(self) {
        let _ = self.0.thread_set_mask();
    }
}

impl Worker {
    /// Begins to watch, and lets a child do the work; its answer is the exit status. This process
    /// must have one thread only.
    #[allow(unsafe_code)]
    pub fn start(terms: Terms, work: impl FnOnce() -> i32) -> Result<Self> {
        caller::note();
        reap_earlier();
        let board = as_result(share())?;
        board.clear();
        board.is_seen_in(caller::columns_of_stdout());
        let mut watched = SigSet::empty();
        watched.extend(THAT_END.into_iter().chain([Signal::SIGCHLD]));
        let mut before = SigSet::empty();
        as_result(pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&watched), Some(&mut before)))?;
        let signals = as_result(SignalFd::with_flags(
            &watched,
            SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
        ))?;
        let flags = SockFlag::SOCK_CLOEXEC;
        let (own, workers) =
            as_result(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags))?;
        let parent = getpid();
        // SAFETY: there is one thread, so the child may do whatever this process could.
        match as_result(unsafe { fork() })? {
            ForkResult::Child => {
                drop((own, signals));
                if begin(parent, workers, terms, &before).is_err() {
                    ended_work(1)
                }
                match catch_unwind(AssertUnwindSafe(work)) {
                    Ok(status) => ended_work(status),
                    // Its status would pass for the work's own.
                    Err(_) => std::process::abort(),
                }
            }
            ForkResult::Parent { child } => {
                let began = Instant::now();
                // It waits, and keeps no folder in use: the worker has the folder.
                let _ = nix::unistd::chdir("/");
                Ok(Self {
                    pid: child,
                    line: Some(own),
                    signals,
                    board,
                    locks: Vec::new(),
                    status: None,
                    began,
                    end: terms.at_first.map(|first| began + first + terms.grace),
                    total: terms.at_first.unwrap_or_default(),
                    grace: terms.grace,
                    last: None,
                })
            }
        }
    }

    /// Whom it waits for, for how long it has, and for how long it will at most, in seconds.
    pub fn waits_for(&self) -> Option<(String, u64, u64)> {
        let entry = self.board.wait.read();
        let (at_most, whom) = entry.text.split_once(' ')?;
        let so_far = now_in_milliseconds().saturating_sub(entry.since) / 1000;
        Some((whom.to_owned(), so_far, at_most.parse().ok()?))
    }

    /// How long no service has answered the worker, if it asked any.
    pub fn silence(&self) -> Option<Duration> {
        self.board.silence()
    }

    /// A person may change the width of the terminal at any time.
    pub fn tell_columns(&self) {
        self.board.is_seen_in(caller::columns_of_stdout());
    }

    /// How long the work may take in all.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The worker's process.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Waits for the next thing to happen, until this moment at the latest.
    pub fn next(&mut self, at_most: Option<Instant>) -> Option<News> {
        loop {
            if let Some(news) = self.heard() {
                return Some(news);
            }
            if let Some(status) = self.status {
                return Some(News::Ended(status));
            }
            // What is done is done, however long its process takes to end.
            if let Some((until, status)) = self.last
                && Instant::now() >= until
            {
                return Some(News::Ended(WaitStatus::Exited(self.pid, status)));
            }
            let limit = self.last.map(|(until, _)| until).or(self.end);
            if limit.is_some_and(|limit| Instant::now() >= limit) {
                return Some(News::Hangs);
            }
            if at_most.is_some_and(|at_most| Instant::now() >= at_most) {
                return None;
            }
            let until = [limit, at_most].into_iter().flatten().min();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            // Rounded up: what is left of a millisecond would be waited for in circles.
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            let mut waited = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            waited.extend(
                self.line.as_ref().map(|line| PollFd::new(line.as_fd(), PollFlags::POLLIN)),
            );
            let _ = poll(&mut waited, timeout);
            if let Some(signal) = self.signalled() {
                return Some(News::Signal(signal));
            }
        }
    }

    /// What the worker said, if it said anything.
    fn heard(&mut self) -> Option<News> {
        loop {
            match messages::receive(self.line.as_ref()?) {
                Ok(Some(Word::Output(bytes))) => return Some(News::Output(bytes)),
                Ok(Some(Word::Complaint(bytes))) => return Some(News::Complaint(bytes)),
                Ok(Some(Word::Time(milliseconds))) => {
                    self.total = Duration::from_millis(milliseconds);
                    self.end = self.began.checked_add(self.total + self.grace);
                }
                Ok(Some(Word::Lock(file, path, is_volumes))) => {
                    let path = PathBuf::from(std::ffi::OsString::from_vec(path));
                    self.locks.push(Lock { file: file.into(), path, is_volumes });
                }
                Ok(Some(Word::End(status))) => {
                    self.last = Some((Instant::now() + failpoints::patience(ENDING), status));
                }
                Ok(None) => return None,
                Ok(Some(Word::Closed)) | Err(_) => {
                    self.line = None;
                    return None;
                }
            }
        }
    }

    /// A signal that came; the end of the worker is noted.
    fn signalled(&mut self) -> Option<Signal> {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let signal = i32::try_from(info.ssi_signo).ok().and_then(|n| Signal::try_from(n).ok());
            match signal {
                Some(Signal::SIGCHLD) => self.reap(),
                Some(signal) => return Some(signal),
                None => {}
            }
        }
        None
    }

    fn reap(&mut self) {
        if self.status.is_some() {
            return;
        }
        match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
            Ok(status) => self.status = Some(status),
            Err(_) => self.status = Some(WaitStatus::Exited(self.pid, 1)),
        }
    }

    /// Writes to a stream of the caller's, which may be slow, or stopped by its reader: a signal
    /// that comes meanwhile gives it so much longer, and is answered then.
    pub fn write(
        &mut self,
        to: BorrowedFd<'_>,
        bytes: &[u8],
        patience: Duration,
    ) -> std::io::Result<Option<Signal>> {
        /// What a pipe takes whole when it takes anything.
        const PIECE: usize = 4096;
        let mut came = None;
        let mut until = None;
        let mut out = File::from(to.try_clone_to_owned()?);
        for piece in bytes.chunks(PIECE) {
            loop {
                let timeout = until.map_or(PollTimeout::NONE, |until: Instant| {
                    let left = until.saturating_duration_since(Instant::now());
                    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
                });
                let mut waited = [
                    PollFd::new(to, PollFlags::POLLOUT),
                    PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                ];
                let _ = poll(&mut waited, timeout);
                if waited[0].revents().is_some_and(|now| !now.is_empty()) {
                    break;
                }
                if let Some(signal) = self.signalled() {
                    came = Some(signal);
                    until.get_or_insert_with(|| Instant::now() + patience);
                }
                if until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(came);
                }
            }
            out.write_all(piece)?;
        }
        Ok(came)
    }

    /// What the worker says is not read any more, and it learns that when it says something.
    pub fn do_not_listen(&mut self) {
        if let Some(line) = &self.line {
            let _ = nix::sys::socket::shutdown(line.as_raw_fd(), nix::sys::socket::Shutdown::Read);
        }
    }

    /// Sends the worker a signal.
    pub fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            let _ = kill(self.pid, signal);
        }
    }

    /// The processes that it has started and waits for.
    pub fn children(&self) -> Vec<i32> {
        let pids = self.board.children.iter().map(|slot| slot.read().pid);
        pids.filter(|pid| *pid > 0).collect()
    }

    /// The volume whose lock it took last.
    pub fn volume(&self) -> Option<String> {
        let last = self.locks.iter().rfind(|lock| lock.is_volumes)?;
        Some(last.path.file_stem()?.to_string_lossy().into_owned())
    }

    /// What the worker does now, for people.
    pub fn does(&self) -> Option<String> {
        Some(self.board.own.read().text).filter(|text| !text.is_empty())
    }

    /// Ends the worker, unless it has done its work, and what it started. Those that do not end hang in the kernel:
    /// they are returned with what they do.
    pub fn end(&mut self) -> Vec<LeftProcess> {
        let is_done = self.last.is_some();
        if self.status.is_none() && !is_done {
            let _ = kill(self.pid, Signal::SIGKILL);
        }
        let until = Instant::now() + DYING;
        while self.status.is_none() && !is_done && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            self.reap();
        }
        let mut left = Vec::new();
        if self.status.is_none() && !is_done {
            let own = self.board.own.read();
            left.extend(LeftProcess::of(self.pid.as_raw(), &own.text, own.since));
        }
        for slot in &self.board.children {
            let one = slot.read();
            if one.pid > 0 {
                let _ = kill(Pid::from_raw(one.pid), Signal::SIGKILL);
                // A program has a group of its own.
                let _ = killpg(Pid::from_raw(one.pid), Signal::SIGKILL);
                left.extend(LeftProcess::of(one.pid, &one.text, one.since));
            }
        }
        let until = Instant::now() + DYING;
        while !left.is_empty() && Instant::now() < until {
            left.retain(LeftProcess::is_alive);
            std::thread::sleep(Duration::from_millis(2));
        }
        let disk = self.board.disk();
        let file = Some(self.board.file.read().text).filter(|file| !file.is_empty());
        for one in &mut left {
            if let (Some(file), true) = (&file, one.pid == self.pid.as_raw()) {
                one.file = Some(file.clone());
                one.look();
                continue;
            }
            one.disk = disk.map(|((major, minor), _)| format!("{major}:{minor}"));
            one.sequence = disk.and_then(|(_, sequence)| sequence);
            one.look();
        }
        left
    }

    /// Does what may hang as well, now that the caller has its answer: in a child, which is waited
    /// for so long. Then the worker's locks are free.
    #[allow(unsafe_code)]
    pub fn settle(&self, left: &[LeftProcess], patience: Duration, work: impl FnOnce()) {
        // SAFETY: as above.
        match unsafe { fork() } {
            Ok(ForkResult::Child) => {
                // The locks' files stay open, and locked by the parent's until all is done. Nothing
                // else: this one may hang as well, and kubelet waits until no process has its pipe.
                close_all_but(&self.locks.iter().map(|lock| lock.file.as_raw_fd()));
                open_nothing();
                for lock in &self.locks {
                    if lock.is_volumes {
                        left_behind::note(&lock.path, left);
                    }
                    crate::locks::remove(&lock.file, &lock.path);
                }
                work();
                crate::aside::linger(patience / 2);
                // SAFETY: as above.
                unsafe { nix::libc::_exit(0) }
            }
            Ok(ForkResult::Parent { child }) => {
                let until = Instant::now() + patience;
                while Instant::now() < until {
                    match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
                        Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(1)),
                        _ => break,
                    }
                }
                let _ = kill(child, Signal::SIGKILL);
            }
            Err(_) => {}
        }
        for lock in &self.locks {
            let _ = lock.file.unlock();
        }
    }
}

/// Reaps earlier workers of this process that lingered for their log. A process that starts a worker has no other
/// children.
fn reap_earlier() {
    while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status.pid().is_some()) {}
}

/// The work of a worker is done, or cannot be begun. The process that waits ends now; this one has all the time that a
/// slow log needs.
#[allow(unsafe_code)]
fn ended_work(status: i32) -> ! {
    let _ = nix::sys::prctl::set_pdeathsig(None);
    let _ = messages::send(b'x', &status.to_le_bytes(), None);
    failpoints::step("worker.said");
    crate::aside::linger(LINGERING);
    // SAFETY: no code of this process is left to run.
    unsafe { nix::libc::_exit(status) }
}

/// In the child, before its work.
fn begin(parent: Pid, line: OwnedFd, terms: Terms, before: &SigSet) -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The parent may have died before the wish was heard.
    if getppid() != parent {
        return Err(Errno::ESRCH);
    }
    close_all_but(&std::iter::once(line.as_raw_fd()));
    open_nothing();
    messages::open(line);
    failpoints::this_is_a_worker();
    let mut mask = *before;
    if terms.has_own_signals {
        mask.extend(THAT_END);
    }
    mask.remove(Signal::SIGCHLD);
    mask.thread_set_mask()
}

fn wrong(errno: nix::errno::Errno) -> Error {
    Error::io("start the worker's process", &errno.into())
}

fn as_result<T>(done: nix::Result<T>) -> Result<T> {
    done.map_err(wrong)
}
