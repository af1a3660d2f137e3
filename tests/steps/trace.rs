//! A process that is watched at each system call that changes or asks something, in all its threads
//! and children; and what happens to it at one of them.

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use Errno::{EACCES, EAGAIN, EBUSY, EINTR, EIO, EMFILE, ENOMEM, ENOSPC, EROFS};

const OPENS: &[Errno] = &[EIO, ENOSPC, EACCES, EROFS, EMFILE, EINTR, ENOMEM];
const ASKS: &[Errno] = &[EIO, EACCES, ENOMEM];
const READS: &[Errno] = &[EIO, EINTR];
const WRITES: &[Errno] = &[EIO, ENOSPC, EINTR];
const NAMES: &[Errno] = &[EIO, ENOSPC, EACCES, EROFS, EBUSY];
const MOUNTS: &[Errno] = &[EBUSY, EIO, ENOMEM, EACCES, EROFS];
const STARTS: &[Errno] = &[EAGAIN, ENOMEM];
const NETWORK: &[Errno] = &[EACCES, EMFILE, ENOMEM, EINTR];

/// Every call that changes or asks something, and how it can fail. All else (memory, time, signals,
/// threads that wait for each other) is passed over.
const CALLS: &[(i64, &str, &[Errno])] = &[
    (libc::SYS_openat, "openat", OPENS),
    (libc::SYS_openat2, "openat2", OPENS),
    (libc::SYS_read, "read", READS),
    (libc::SYS_pread64, "pread64", READS),
    (libc::SYS_readv, "readv", READS),
    (libc::SYS_write, "write", WRITES),
    (libc::SYS_pwrite64, "pwrite64", WRITES),
    (libc::SYS_statx, "statx", ASKS),
    (libc::SYS_newfstatat, "newfstatat", ASKS),
    (libc::SYS_fstat, "fstat", ASKS),
    (libc::SYS_statfs, "statfs", ASKS),
    (libc::SYS_fstatfs, "fstatfs", ASKS),
    (libc::SYS_readlinkat, "readlinkat", ASKS),
    (libc::SYS_faccessat, "faccessat", ASKS),
    (libc::SYS_getdents64, "getdents64", READS),
    (libc::SYS_ioctl, "ioctl", &[EIO, EACCES, EINTR, EBUSY]),
    (libc::SYS_flock, "flock", &[EINTR, ENOMEM]),
    (libc::SYS_fcntl, "fcntl", &[EMFILE, EAGAIN]),
    (libc::SYS_fsync, "fsync", &[EIO, ENOSPC]),
    (libc::SYS_fdatasync, "fdatasync", &[EIO, ENOSPC]),
    (libc::SYS_syncfs, "syncfs", &[EIO, ENOSPC]),
    (libc::SYS_ftruncate, "ftruncate", &[EIO, ENOSPC]),
    (libc::SYS_fallocate, "fallocate", &[EIO, ENOSPC]),
    (libc::SYS_mkdirat, "mkdirat", NAMES),
    (libc::SYS_unlinkat, "unlinkat", NAMES),
    (libc::SYS_renameat, "renameat", NAMES),
    (libc::SYS_renameat2, "renameat2", NAMES),
    (libc::SYS_symlinkat, "symlinkat", NAMES),
    (libc::SYS_mknodat, "mknodat", NAMES),
    (libc::SYS_fchmod, "fchmod", NAMES),
    (libc::SYS_mount, "mount", MOUNTS),
    (libc::SYS_umount2, "umount2", MOUNTS),
    (libc::SYS_open_tree, "open_tree", MOUNTS),
    (libc::SYS_move_mount, "move_mount", MOUNTS),
    (libc::SYS_mount_setattr, "mount_setattr", MOUNTS),
    (libc::SYS_fsopen, "fsopen", MOUNTS),
    (libc::SYS_fsconfig, "fsconfig", MOUNTS),
    (libc::SYS_fsmount, "fsmount", MOUNTS),
    (libc::SYS_setns, "setns", &[ENOMEM]),
    (libc::SYS_unshare, "unshare", &[ENOMEM, ENOSPC]),
    (libc::SYS_clone, "clone", STARTS),
    (libc::SYS_clone3, "clone3", STARTS),
    (libc::SYS_execve, "execve", &[EIO, EACCES, ENOMEM]),
    (libc::SYS_wait4, "wait4", &[EINTR]),
    (libc::SYS_waitid, "waitid", &[EINTR]),
    (libc::SYS_pidfd_open, "pidfd_open", &[EMFILE, ENOMEM]),
    (libc::SYS_kill, "kill", &[]),
    (libc::SYS_pipe2, "pipe2", &[EMFILE]),
    (libc::SYS_eventfd2, "eventfd2", &[EMFILE, ENOMEM]),
    (libc::SYS_memfd_create, "memfd_create", &[EMFILE, ENOMEM]),
    (libc::SYS_socket, "socket", NETWORK),
    (libc::SYS_socketpair, "socketpair", NETWORK),
    (libc::SYS_bind, "bind", NETWORK),
    (libc::SYS_connect, "connect", NETWORK),
    (libc::SYS_sendto, "sendto", &[ENOMEM, EINTR]),
    (libc::SYS_sendmsg, "sendmsg", &[ENOMEM, EINTR]),
    (libc::SYS_recvfrom, "recvfrom", &[EINTR]),
    (libc::SYS_recvmsg, "recvmsg", &[EINTR]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_fork, "fork", STARTS),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_vfork, "vfork", STARTS),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, "open", OPENS),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_stat, "stat", ASKS),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_readlink, "readlink", ASKS),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, "mkdir", NAMES),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rmdir, "rmdir", NAMES),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, "unlink", NAMES),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, "rename", NAMES),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_symlink, "symlink", NAMES),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, "mknod", NAMES),
];

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

/// All that can happen at a call of this name.
pub fn kinds_at(name: &str) -> impl Iterator<Item = Kind> {
    let errors = CALLS.iter().find(|(_, known, _)| *known == name).map_or(&[][..], |call| call.2);
    [Kind::Kill, Kind::Term, Kind::Stop].into_iter().chain(errors.iter().copied().map(Kind::Error))
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
    /// How long it took.
    pub time: Duration,
}

/// A system call of a process: the how many-th of that name.
pub type Point = (&'static str, usize);

/// How long one that stands still does so.
const STANDS: Duration = Duration::from_secs(3);

/// No call lasts longer.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs the command to its end, with something that happens at one point.
#[allow(unsafe_code)]
#[allow(clippy::zombie_processes, reason = "it is waited for with all that it starts")]
pub fn run(mut command: Command, strike: Option<(Point, Kind)>) -> Traced {
    let (mut output, writer) = std::io::pipe().expect("a pipe");
    command.stdin(Stdio::null());
    command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
    // SAFETY: the child makes one system call before its exec.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = command.spawn().expect("a child");
    drop(command);
    let main = Pid::from_raw(i32::try_from(child.id()).expect("a PID"));
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = output.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let begin = Instant::now();
    let mut traced = Watch::new(main, strike).through();
    traced.time = begin.elapsed();
    traced.text = reader.join().expect("a reader");
    traced
}

struct Watch {
    main: Pid,
    strike: Option<(Point, Kind)>,
    /// How often each call was made.
    counts: BTreeMap<&'static str, usize>,
    traced: Traced,
    /// Those that live.
    all: BTreeSet<Pid>,
    has_begun: bool,
    is_set: bool,
    /// Who will be told that its call failed.
    failing: Option<(Pid, Errno)>,
    /// Who stands still, and until when.
    standing: Option<(Pid, Instant)>,
    end: Instant,
}

impl Watch {
    fn new(main: Pid, strike: Option<(Point, Kind)>) -> Self {
        Self {
            main,
            strike,
            counts: BTreeMap::new(),
            traced: Traced::default(),
            all: BTreeSet::from([main]),
            has_begun: false,
            is_set: false,
            failing: None,
            standing: None,
            end: Instant::now() + LONGEST,
        }
    }

    fn through(mut self) -> Traced {
        loop {
            if let Some((pid, until)) = self.standing
                && Instant::now() >= until
            {
                self.standing = None;
                let _ = ptrace::syscall(pid, None);
            }
            if Instant::now() >= self.end {
                for pid in &self.all {
                    let _ = kill(*pid, Signal::SIGKILL);
                }
            }
            let status = waitpid(None::<Pid>, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG));
            match status {
                Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_micros(20)),
                Ok(status) => self.see(status),
                Err(Errno::EINTR) => {}
                // None of them is left.
                Err(_) => return self.traced,
            }
        }
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
                let options = Options::PTRACE_O_TRACESYSGOOD
                    | Options::PTRACE_O_TRACECLONE
                    | Options::PTRACE_O_TRACEFORK
                    | Options::PTRACE_O_TRACEVFORK
                    | Options::PTRACE_O_TRACEEXEC
                    | Options::PTRACE_O_EXITKILL;
                ptrace::setoptions(pid, options).expect("a process that can be watched");
                (pid, None)
            }
            WaitStatus::PtraceEvent(pid, ..) => (pid, None),
            WaitStatus::Stopped(pid, Signal::SIGSTOP) if self.all.insert(pid) => (pid, None),
            WaitStatus::Stopped(pid, signal) => (pid, Some(signal)),
            WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => {
                self.all.remove(&pid);
                return;
            }
            _ => return,
        };
        // It may be dead by now.
        let _ = ptrace::syscall(pid, signal);
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
        if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
            return false;
        }
        // SAFETY: the kernel says which of the union's structures it wrote; all are integers.
        let number = unsafe { info.u.entry }.nr.cast_signed();
        // What comes before is the loader's; the first thing that a program in Rust does is to ask
        // whether its standard streams are open.
        self.has_begun |= number == libc::SYS_poll;
        let Some((_, name, _)) = CALLS.iter().find(|(known, ..)| *known == number) else {
            return false;
        };
        if !self.has_begun {
            return false;
        }
        let count = self.counts.entry(name).or_default();
        *count += 1;
        let point = (*name, *count);
        self.traced.points.push(point);
        let Some((_, kind)) = self.strike.filter(|(at, _)| *at == point) else { return false };
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
