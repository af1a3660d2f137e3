//! What a program asks of the kernel, counted: each system call of all its threads and children, from its exec
//! to its end. A number that does not wobble, in the place of a time.

use super::start;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelCall {
    /// Who made it.
    pub process: i32,
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// What it names, of those that name a path; with the folder that the path begins in, if it has one.
    pub path: Option<PathBuf>,
    /// Whether it opens what can be read: a mere place cannot.
    pub opens: bool,
    /// Its result, or an error below zero; nothing of one that did not come back.
    pub result: Option<i64>,
}

/// What a program did.
#[derive(Debug, Default)]
pub struct Counted {
    /// Its calls, in their order.
    pub calls: Vec<KernelCall>,
    /// Threads that it started, and children.
    pub threads: usize,
    pub children: usize,
    /// Page faults of all its processes that needed no disk.
    pub faults: i64,
    /// The most memory of one of them, in KiB.
    pub memory: i64,
    /// What it printed.
    pub text: String,
}

impl Counted {
    /// How often a file was opened, by its path.
    pub fn opened(&self) -> BTreeMap<PathBuf, usize> {
        let mut opened = BTreeMap::new();
        for call in self.calls.iter().filter(|call| call.opens && call.result >= Some(0)) {
            if let Some(path) = &call.path {
                *opened.entry(path.clone()).or_insert(0) += 1;
            }
        }
        opened
    }

    /// How often a network was used.
    pub fn sockets(&self) -> usize {
        self.calls.iter().filter(|call| call.number == libc::SYS_socket).count()
    }
}

/// Runs a program to its end. Nothing if programs cannot be watched here.
#[allow(unsafe_code)]
#[allow(clippy::zombie_processes, reason = "it is waited for with all its group")]
pub fn count(mut command: Command) -> Option<Counted> {
    let (mut output, writer) = std::io::pipe().expect("a pipe");
    command.stdin(Stdio::null());
    command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
    command.process_group(0);
    // SAFETY: one system call before its exec, which takes no memory.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = start(&mut command);
    drop(command);
    let main = Pid::from_raw(i32::try_from(child.id()).expect("a PID"));
    let mut counted = Counted::default();
    let is_possible = watch(main, &mut counted);
    output.read_to_string(&mut counted.text).expect("UTF-8");
    is_possible.then_some(counted)
}

fn watch(main: Pid, counted: &mut Counted) -> bool {
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXIT
        | Options::PTRACE_O_EXITKILL;
    let all = Pid::from_raw(-main.as_raw());
    let mut is_possible = false;
    // What the fork of this program had cost before the exec.
    let mut before = 0;
    // The call that each of them is in.
    let mut within: BTreeMap<i32, usize> = BTreeMap::new();
    loop {
        let status = match waitpid(all, Some(WaitPidFlag::__WALL)) {
            Ok(status) => status,
            Err(Errno::EINTR) => continue,
            Err(_) => return is_possible,
        };
        let (pid, signal) = match status {
            WaitStatus::PtraceSyscall(pid) => {
                at_call(pid, &mut within, counted);
                (pid, None)
            }
            WaitStatus::Stopped(pid, Signal::SIGTRAP) if pid == main && !is_possible => {
                is_possible = ptrace::setoptions(pid, options).is_ok();
                before = faults_of(pid);
                if !is_possible {
                    let _ = kill(main, Signal::SIGKILL);
                }
                (pid, None)
            }
            WaitStatus::PtraceEvent(pid, _, libc::PTRACE_EVENT_EXIT) => {
                if let Some(most) = most_memory_of(pid) {
                    counted.faults += faults_of(pid) - if pid == main { before } else { 0 };
                    counted.memory = counted.memory.max(most);
                }
                (pid, None)
            }
            WaitStatus::PtraceEvent(pid, _, event) => {
                if matches!(
                    event,
                    libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK
                ) {
                    let is_thread = within
                        .get(&pid.as_raw())
                        .is_some_and(|at| makes_a_thread(&counted.calls[*at], pid));
                    *(if is_thread { &mut counted.threads } else { &mut counted.children }) += 1;
                }
                (pid, None)
            }
            WaitStatus::Stopped(pid, Signal::SIGSTOP) => (pid, None),
            WaitStatus::Stopped(pid, signal) => (pid, Some(signal)),
            _ => continue,
        };
        let _ = ptrace::syscall(pid, signal);
    }
}

/// The page faults of a process that needed no disk.
fn faults_of(pid: Pid) -> i64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().nth(7).and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// The most memory that a process had, in KiB; nothing of a thread, which has none of its own.
fn most_memory_of(pid: Pid) -> Option<i64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<i64>().ok()
    };
    if field("Tgid")? == i64::from(pid.as_raw()) { field("VmHWM") } else { None }
}

/// A process stands before a call, or behind it.
#[allow(unsafe_code)]
fn at_call(pid: Pid, within: &mut BTreeMap<i32, usize>, counted: &mut Counted) {
    let Ok(info) = ptrace::syscall_info(pid) else { return };
    match info.op {
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            // SAFETY: the kernel says which of the union's structures it wrote; all are integers.
            let entry = unsafe { info.u.entry };
            let number = i64::try_from(entry.nr).unwrap_or(-1);
            let path = path_of(pid, number, &entry.args);
            within.insert(pid.as_raw(), counted.calls.len());
            counted.calls.push(KernelCall {
                process: pid.as_raw(),
                number,
                arguments: entry.args,
                path,
                opens: opens(pid, number, &entry.args),
                result: None,
            });
        }
        libc::PTRACE_SYSCALL_INFO_EXIT => {
            // SAFETY: as above.
            let exit = unsafe { info.u.exit };
            if let Some(at) = within.remove(&pid.as_raw()) {
                counted.calls[at].result = Some(exit.sval);
            }
        }
        _ => {}
    }
}

fn opens(pid: Pid, number: i64, arguments: &[u64; 6]) -> bool {
    let flags = match number {
        libc::SYS_openat => Some(arguments[2]),
        // They are the first word of a structure.
        libc::SYS_openat2 => word_at(pid, arguments[2]),
        _ => None,
    };
    flags.is_some_and(|flags| flags & u64::from(libc::O_PATH.unsigned_abs()) == 0)
}

fn makes_a_thread(call: &KernelCall, pid: Pid) -> bool {
    let flags = match call.number {
        libc::SYS_clone => call.arguments[0],
        // The flags are the first word of a structure.
        libc::SYS_clone3 => word_at(pid, call.arguments[0]).unwrap_or_default(),
        _ => return false,
    };
    flags & u64::from(libc::CLONE_THREAD.unsigned_abs()) != 0
}

#[allow(clippy::cast_possible_wrap)]
fn word_at(pid: Pid, address: u64) -> Option<u64> {
    ptrace::read(pid, address as ptrace::AddressType).ok().map(i64::cast_unsigned)
}

/// Where the path of a call stands among its arguments, and where the folder that it begins in.
fn places_of_path(number: i64) -> Option<(Option<usize>, usize)> {
    #[cfg(target_arch = "x86_64")]
    const OLD: &[i64] = &[
        libc::SYS_open,
        libc::SYS_stat,
        libc::SYS_lstat,
        libc::SYS_access,
        libc::SYS_readlink,
        libc::SYS_mkdir,
        libc::SYS_rmdir,
        libc::SYS_unlink,
        libc::SYS_rename,
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const OLD: &[i64] = &[];
    const BELOW: [i64; 11] = [
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_readlinkat,
        libc::SYS_mkdirat,
        libc::SYS_unlinkat,
        libc::SYS_renameat,
        libc::SYS_renameat2,
    ];
    if BELOW.contains(&number) {
        return Some((Some(0), 1));
    }
    (OLD.contains(&number) || number == libc::SYS_statfs).then_some((None, 0))
}

fn path_of(pid: Pid, number: i64, arguments: &[u64; 6]) -> Option<PathBuf> {
    let (folder, place) = places_of_path(number)?;
    let text = text_at(pid, arguments[place])?;
    let path = PathBuf::from(text);
    let Some(folder) = folder.filter(|_| path.is_relative()) else { return Some(path) };
    let number = i32::try_from(arguments[folder].cast_signed()).ok()?;
    if number < 0 {
        return Some(path);
    }
    let folder = std::fs::read_link(format!("/proc/{pid}/fd/{number}")).ok()?;
    Some(folder.join(path))
}

/// The text of another process at an address.
fn text_at(pid: Pid, address: u64) -> Option<String> {
    const LONGEST: u64 = 4096;
    let mut bytes = Vec::new();
    for at in (address..address + LONGEST).step_by(8) {
        let word = word_at(pid, at)?.to_ne_bytes();
        if let Some(end) = word.iter().position(|byte| *byte == 0) {
            bytes.extend_from_slice(&word[..end]);
            return String::from_utf8(bytes).ok();
        }
        bytes.extend_from_slice(&word);
    }
    None
}
