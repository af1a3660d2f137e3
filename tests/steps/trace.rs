//! A process that is watched at each system call that changes or asks something, in all its threads
//! and children; and what happens to it at one of them.

use super::calls::{call_named, call_of, errors_at};
use super::objects::{Objects, program};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The process that was called is killed, and the one that is at the point.
    Kill,
    /// The process that was called is asked to end.
    Term,
    /// The process at the point stands still until the call's deadline is over.
    Stop,
    /// The kernel does not do it, and says why.
    Error(Errno),
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Kill => f.write_str("SIGKILL"),
            Kind::Term => f.write_str("SIGTERM"),
            Kind::Stop => f.write_str("SIGSTOP"),
            Kind::Error(errno) => write!(f, "{errno:?}"),
        }
    }
}

/// The how many-th time that a program makes a system call about the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub program: String,
    pub call: &'static str,
    pub object: String,
    pub nth: usize,
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}({})/{}", self.program, self.call, self.object, self.nth)
    }
}

impl Point {
    /// As a line of a file, and back.
    pub fn line(&self) -> String {
        format!("{}\t{}\t{}\t{}", self.program, self.call, self.object, self.nth)
    }

    pub fn of_line(line: &str) -> Option<Self> {
        let mut parts = line.split('\t');
        let program = parts.next()?.to_owned();
        let call = call_named(parts.next()?)?;
        let object = parts.next()?.to_owned();
        Some(Self { program, call, object, nth: parts.next()?.parse().ok()? })
    }

    /// All that can happen there.
    pub fn kinds(&self) -> Vec<Kind> {
        let errors = errors_at(self.call, &self.object).iter().copied().map(Kind::Error);
        [Kind::Kill, Kind::Term, Kind::Stop].into_iter().chain(errors).collect()
    }
}

/// What became of a call.
#[derive(Debug, Default)]
pub struct Traced {
    /// The points that it came to.
    pub points: Vec<Point>,
    /// Whether it came to the point at which something was to happen.
    pub is_struck: bool,
    /// What it printed.
    pub text: String,
    /// Its exit status, unless a signal ended it.
    pub status: Option<i32>,
    /// How long it took.
    pub time: Duration,
}

/// How long one that stands still does so: a little longer than the deadline of its call.
const STANDS: Duration = Duration::from_millis(1600);

/// No call lasts longer.
const LONGEST: Duration = Duration::from_secs(90);

/// Runs the command to its end, with something that happens at one point. What the run alone has
/// is below `base`.
#[allow(unsafe_code)]
#[allow(clippy::zombie_processes, reason = "it is waited for with all that it starts")]
pub fn run(mut command: Command, base: &str, strike: Option<(&Point, Kind)>) -> Traced {
    let (mut output, writer) = std::io::pipe().expect("a pipe");
    command.stdin(Stdio::null());
    command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
    // SAFETY: the child makes one system call before its exec.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let begin = Instant::now();
    let child = command.spawn().expect("a child");
    drop(command);
    let main = Pid::from_raw(i32::try_from(child.id()).expect("a PID"));
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = output.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut traced = Watch::new(main, base, strike).through();
    traced.time = begin.elapsed();
    traced.text = reader.join().expect("a reader");
    traced
}

struct Watch<'t> {
    main: Pid,
    strike: Option<(&'t Point, Kind)>,
    objects: Objects,
    /// How often each call was made about the same.
    counts: BTreeMap<(String, &'static str, String), usize>,
    traced: Traced,
    /// Those that live, each with its program.
    all: BTreeMap<Pid, String>,
    /// Those that have reported themselves.
    known: BTreeSet<Pid>,
    is_set: bool,
    /// Who will be told that its call failed.
    failing: Option<(Pid, Errno)>,
    /// Who stands still, and until when.
    standing: Option<(Pid, Instant)>,
    end: Instant,
}

impl<'t> Watch<'t> {
    fn new(main: Pid, base: &str, strike: Option<(&'t Point, Kind)>) -> Self {
        Self {
            main,
            strike,
            objects: Objects::in_folder(base),
            counts: BTreeMap::new(),
            traced: Traced::default(),
            all: BTreeMap::from([(main, String::new())]),
            known: BTreeSet::from([main]),
            is_set: false,
            failing: None,
            standing: None,
            end: Instant::now() + LONGEST,
        }
    }

    fn through(mut self) -> Traced {
        // Only this thread's: others have children too, those of the cloud's server.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
        let signals = SigSet::from(Signal::SIGCHLD);
        let _ = signals.thread_block();
        // This thread has children that are not watched: containers.
        while !self.all.is_empty() {
            if let Some((pid, until)) = self.standing
                && Instant::now() >= until
            {
                self.standing = None;
                self.go_on(pid, None);
            }
            if Instant::now() >= self.end {
                for pid in self.all.keys() {
                    let _ = kill(*pid, Signal::SIGKILL);
                }
            }
            match waitpid(None::<Pid>, Some(flags)) {
                Ok(WaitStatus::StillAlive) => wait_for_child(&signals),
                Ok(status) => self.see(status),
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        self.traced
    }

    /// Once all has happened nothing more is counted.
    fn go_on(&self, pid: Pid, signal: Option<Signal>) {
        let is_over =
            self.traced.is_struck && self.failing.is_none_or(|(failing, _)| failing != pid);
        // It may be dead by now.
        let _ = if is_over { ptrace::cont(pid, signal) } else { ptrace::syscall(pid, signal) };
    }

    fn see(&mut self, status: WaitStatus) {
        let (pid, signal) = match status {
            WaitStatus::PtraceSyscall(pid) => {
                if self.at_call(pid) {
                    return;
                }
                (pid, None)
            }
            WaitStatus::Stopped(pid, Signal::SIGTRAP) if pid == self.main && !self.is_set => {
                self.is_set = true;
                self.all.insert(pid, program(pid));
                let options = Options::PTRACE_O_TRACESYSGOOD
                    | Options::PTRACE_O_TRACECLONE
                    | Options::PTRACE_O_TRACEFORK
                    | Options::PTRACE_O_TRACEVFORK
                    | Options::PTRACE_O_TRACEEXEC
                    | Options::PTRACE_O_EXITKILL;
                ptrace::setoptions(pid, options).expect("a process that can be watched");
                (pid, None)
            }
            WaitStatus::PtraceEvent(pid, _, libc::PTRACE_EVENT_EXEC) => {
                self.all.insert(pid, program(pid));
                (pid, None)
            }
            WaitStatus::PtraceEvent(pid, ..) => {
                let child = ptrace::getevent(pid).ok().and_then(|child| i32::try_from(child).ok());
                let child = child.map(Pid::from_raw).filter(|child| !self.known.contains(child));
                if let Some(child) = child {
                    self.all.insert(child, self.all.get(&pid).cloned().unwrap_or_default());
                }
                (pid, None)
            }
            WaitStatus::Stopped(pid, Signal::SIGSTOP) if self.known.insert(pid) => {
                self.all.insert(pid, program(pid));
                (pid, None)
            }
            WaitStatus::Stopped(pid, signal) => (pid, Some(signal)),
            WaitStatus::Exited(pid, status) => {
                self.all.remove(&pid);
                if pid == self.main {
                    self.traced.status = Some(status);
                }
                return;
            }
            WaitStatus::Signaled(pid, ..) => {
                self.all.remove(&pid);
                return;
            }
            _ => return,
        };
        self.go_on(pid, signal);
    }

    /// At the begin or the end of a system call; answers whether it stands still there.
    #[allow(unsafe_code)]
    fn at_call(&mut self, pid: Pid) -> bool {
        let Ok(info) = ptrace::syscall_info(pid) else { return false };
        if info.op == libc::PTRACE_SYSCALL_INFO_EXIT {
            if let Some((failing, errno)) = self.failing
                && failing == pid
            {
                self.failing = None;
                answer(pid, errno);
            }
            return false;
        }
        if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY || self.traced.is_struck {
            return false;
        }
        // SAFETY: the kernel says which of the union's structures it wrote; all are integers.
        let entry = unsafe { info.u.entry };
        let Some((_, name, about, _)) = call_of(entry.nr.cast_signed()) else { return false };
        let Some(object) = self.objects.of(pid, *about, &entry.args) else { return false };
        let program = self.all.get(&pid).cloned().unwrap_or_default();
        let nth = self.counts.entry((program.clone(), name, object.clone())).or_default();
        *nth += 1;
        let point = Point { program, call: name, object, nth: *nth };
        let kind = self.strike.filter(|(at, _)| **at == point).map(|(_, kind)| kind);
        if self.strike.is_none() {
            self.traced.points.push(point);
        }
        kind.is_some_and(|kind| self.strike(pid, kind))
    }

    /// Answers whether the process stands still now.
    fn strike(&mut self, pid: Pid, kind: Kind) -> bool {
        self.traced.is_struck = true;
        match kind {
            Kind::Kill => {
                let _ = kill(self.main, Signal::SIGKILL);
                let _ = kill(pid, Signal::SIGKILL);
            }
            Kind::Term => drop(kill(self.main, Signal::SIGTERM)),
            Kind::Stop => {
                self.standing = Some((pid, Instant::now() + STANDS));
                return true;
            }
            Kind::Error(errno) => {
                set_number(pid, u64::MAX);
                self.failing = Some((pid, errno));
            }
        }
        false
    }
}

/// Until a child has something to tell, or for two milliseconds: another thread may get the signal.
#[allow(unsafe_code)]
fn wait_for_child(signals: &SigSet) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    // SAFETY: a set and a time that live until it returns; what arrived is not asked for.
    unsafe { libc::sigtimedwait(signals.as_ref(), std::ptr::null_mut(), &raw const time) };
}

/// A call without a number is one that the kernel does not do.
fn set_number(pid: Pid, number: u64) {
    if let Ok(registers) = ptrace::getregs(pid) {
        let _ = ptrace::setregs(pid, libc::user_regs_struct { orig_rax: number, ..registers });
    }
}

fn answer(pid: Pid, errno: Errno) {
    if let Ok(registers) = ptrace::getregs(pid) {
        let rax = (-i64::from(errno as i32)).cast_unsigned();
        let _ = ptrace::setregs(pid, libc::user_regs_struct { rax, ..registers });
    }
}
