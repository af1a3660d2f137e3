//! A process that is watched at the system calls which matter, in all its threads and children: killed at
//! one of those that change something, or on a kernel that has not all of them. It stops at no other call: a
//! look at a disk makes ten thousands of them.

use super::seccomp::{self, ANSWER, JUMP, LOAD, NUMBER, THIRD, number, step};
use super::start;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What became of it.
#[derive(Debug)]
pub struct Traced {
    /// The changing calls that it came to, by name.
    pub changes: Vec<&'static str>,
    /// Whether it was killed.
    pub is_killed: bool,
    /// What it printed.
    pub text: String,
}

/// Calls that change the machine, this process's place in it, or what is remembered.
const CHANGES: &[(i64, &str)] = &[
    (libc::SYS_mount, "mount"),
    (libc::SYS_umount2, "umount2"),
    (libc::SYS_open_tree, "open_tree"),
    (libc::SYS_move_mount, "move_mount"),
    (libc::SYS_mount_setattr, "mount_setattr"),
    (libc::SYS_fsopen, "fsopen"),
    (libc::SYS_fsconfig, "fsconfig"),
    (libc::SYS_fsmount, "fsmount"),
    (libc::SYS_setns, "setns"),
    (libc::SYS_unshare, "unshare"),
    (libc::SYS_chroot, "chroot"),
    (libc::SYS_mkdirat, "mkdirat"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_renameat2, "renameat2"),
    (libc::SYS_renameat, "renameat"),
    (libc::SYS_mknodat, "mknodat"),
    (libc::SYS_symlinkat, "symlinkat"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_fsync, "fsync"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, "mkdir"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rmdir, "rmdir"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, "unlink"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, "rename"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, "mknod"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_symlink, "symlink"),
];

/// What happens to it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fate<'a> {
    /// Writes below this folder count as changes, but for logs.
    pub written: Option<&'a Path>,
    /// At which of its changing calls it is killed, before the kernel does it.
    pub killed_at: Option<usize>,
    /// Calls that the kernel does not have.
    pub without: &'a [i64],
    /// Not all changes count, but the writes of a child of this name, and it alone is killed. The
    /// thread that watches has no other child then.
    pub child: Option<&'a str>,
}

/// Whether processes can be watched here.
pub fn tracing_is_possible(test: &str) -> bool {
    let probe = run(Command::new("true"), Fate::default());
    if probe.is_none() {
        super::skip(test, "needs ptrace(2)");
    }
    probe.is_some()
}

/// Runs the command to its end. Nothing if processes cannot be watched here.
#[allow(unsafe_code)]
#[allow(clippy::zombie_processes, reason = "it is waited for with all its group")]
pub fn run(mut command: Command, fate: Fate<'_>) -> Option<Traced> {
    let (mut output, writer) = std::io::pipe().expect("a pipe");
    command.stdin(Stdio::null());
    command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
    // A group of its own, to wait for all of it and for nothing else.
    command.process_group(0);
    let filter = filter(fate);
    // SAFETY: the child makes three system calls before its exec, and takes no memory.
    unsafe { command.pre_exec(move || be_watched(&filter).map_err(Into::into)) };
    let child = start(&mut command);
    drop(command);
    let main = Pid::from_raw(i32::try_from(child.id()).expect("a PID"));
    let mut traced = Traced { changes: Vec::new(), is_killed: false, text: String::new() };
    let is_possible = watch(main, fate, &mut traced);
    output.read_to_string(&mut traced.text).expect("UTF-8");
    is_possible.then_some(traced)
}

/// In the child: its parent watches it, at these calls.
fn be_watched(filter: &[libc::sock_filter]) -> nix::Result<()> {
    ptrace::traceme()?;
    seccomp::install(filter)
}

/// The kernel's filter (seccomp) that stops at the calls which `change` and `forbid` ask for.
fn filter(fate: Fate<'_>) -> Vec<libc::sock_filter> {
    let mut calls: Vec<_> = match fate.child {
        None => CHANGES.iter().map(|(call, _)| *call).collect(),
        Some(_) => vec![libc::SYS_pwrite64],
    };
    calls.extend(fate.without);
    calls.extend(fate.written.map(|_| libc::SYS_write));
    let mut program = vec![step(LOAD, NUMBER, 0, 0)];
    for (place, call) in calls.iter().enumerate() {
        program.push(step(JUMP | libc::BPF_JEQ, number(*call), calls.len() - place + 3, 0));
    }
    program.extend([
        step(JUMP | libc::BPF_JEQ, number(libc::SYS_openat), 0, 2),
        step(LOAD, THIRD, 0, 0),
        step(JUMP | libc::BPF_JSET, libc::O_CREAT.unsigned_abs(), 1, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(ANSWER, libc::SECCOMP_RET_TRACE, 0, 0),
    ]);
    program
}

fn watch(main: Pid, fate: Fate<'_>, traced: &mut Traced) -> bool {
    let options = Options::PTRACE_O_TRACESECCOMP
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_EXITKILL;
    // A child of a name may be in a group of its own; then all that this thread has is waited for.
    let (all, flags) = match fate.child {
        None => (Pid::from_raw(-main.as_raw()), WaitPidFlag::__WALL),
        Some(_) => (Pid::from_raw(-1), WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD),
    };
    let mut is_possible = false;
    loop {
        let status = match waitpid(all, Some(flags)) {
            Ok(status) => status,
            Err(Errno::EINTR) => continue,
            // No process of it is left.
            Err(_) => return is_possible,
        };
        let (pid, signal) = match status {
            WaitStatus::PtraceEvent(pid, _, libc::PTRACE_EVENT_SECCOMP) => {
                if let Some(call) = entered(pid) {
                    if fate.without.contains(&call.0) {
                        forbid(pid);
                    } else if let Some(name) = counted(pid, call, fate) {
                        if fate.killed_at == Some(traced.changes.len()) {
                            traced.is_killed = true;
                            // A child of it may be the one that came to the call.
                            if fate.child.is_none() {
                                let _ = kill(main, Signal::SIGKILL);
                            }
                            let _ = kill(pid, Signal::SIGKILL);
                        }
                        traced.changes.push(name);
                    }
                }
                (pid, None)
            }
            // Its exec; a new thread or child begins with a stop of its own.
            WaitStatus::Stopped(pid, Signal::SIGTRAP) if pid == main && !is_possible => {
                is_possible = ptrace::setoptions(pid, options).is_ok();
                if !is_possible {
                    let _ = kill(main, Signal::SIGKILL);
                }
                (pid, None)
            }
            WaitStatus::Stopped(pid, Signal::SIGSTOP) | WaitStatus::PtraceEvent(pid, ..) => {
                (pid, None)
            }
            WaitStatus::Stopped(pid, signal) => (pid, Some(signal)),
            _ => continue,
        };
        // It may be dead by now.
        let _ = ptrace::cont(pid, signal);
    }
}

/// Whether calls can be forbidden on this kind of machine.
pub const CAN_FORBID: bool = cfg!(target_arch = "x86_64");

/// A call without a number is one that the kernel does not have: it answers ENOSYS.
fn forbid(pid: Pid) {
    #[cfg(target_arch = "x86_64")]
    if let Ok(registers) = ptrace::getregs(pid) {
        let none = libc::user_regs_struct { orig_rax: u64::MAX, ..registers };
        let _ = ptrace::setregs(pid, none);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pid;
}

/// The call that a process is about to make, with its arguments.
#[allow(unsafe_code)]
fn entered(pid: Pid) -> Option<(i64, [u64; 6])> {
    let info = ptrace::syscall_info(pid).ok()?;
    if info.op != libc::PTRACE_SYSCALL_INFO_SECCOMP {
        return None;
    }
    // SAFETY: the kernel says which of the union's structures it wrote; all are integers.
    let entry = unsafe { info.u.seccomp };
    Some((i64::try_from(entry.nr).ok()?, entry.args))
}

/// The name of a call that counts.
fn counted(pid: Pid, call: (i64, [u64; 6]), fate: Fate<'_>) -> Option<&'static str> {
    let Some(child) = fate.child else { return change(pid, call, fate.written) };
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    (call.0 == libc::SYS_pwrite64 && name.trim_end() == child).then_some("pwrite64")
}

/// The name of a call that changes something.
fn change(
    pid: Pid,
    (number, arguments): (i64, [u64; 6]),
    written: Option<&Path>,
) -> Option<&'static str> {
    if let Some((_, name)) = CHANGES.iter().find(|(known, _)| *known == number) {
        return Some(name);
    }
    let makes = |flags: u64| flags & u64::from(libc::O_CREAT.unsigned_abs()) != 0;
    match number {
        libc::SYS_openat if makes(arguments[2]) => Some("openat"),
        libc::SYS_write => {
            let file = std::fs::read_link(format!("/proc/{pid}/fd/{}", arguments[0])).ok()?;
            let is_log = file.extension().is_some_and(|extension| extension == "log");
            (file.starts_with(written?) && !is_log).then_some("write")
        }
        _ => None,
    }
}
