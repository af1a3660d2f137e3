//! `/proc`, read with few system calls: a machine may have thousands of processes.

use super::cgroups::Makers;
use crate::files::{self, LONGEST_OF_KERNEL, read_rest};
use crate::kernel;
use crate::model::cgroup::{Owner, Step};
use crate::model::error::{Error, Result};
use crate::model::mount::disk_users::{NamespaceId, Process};
use crate::model::mount::mountinfo::{MountTable, mount_of_descriptor};
use crate::mount_tables;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// `PROC_USER_INIT_INO` of `linux/proc_ns.h`: the user namespace of the machine itself. Capabilities in another one are
/// none towards the machine's processes.
pub(super) const INITIAL_USERS: u64 = 0xEFFF_FFFD;

/// One thread, in whose place most of `/proc` can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Task {
    /// The process.
    pub(super) pid: u32,
    /// The thread, if it is not the first one.
    thread: Option<u32>,
}

impl Task {
    /// The first thread of a process.
    pub(super) fn first_of(pid: u32) -> Self {
        Self { pid, thread: None }
    }
}

/// Its folder below `/proc`.
impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pid)?;
        self.thread.map_or(Ok(()), |thread| write!(f, "/task/{thread}"))
    }
}

/// A tree such as `/proc`, held open: it stays this one in whatever namespace a thread enters.
///
/// Each question of the census opens one of its own, and what is kept here is kept for that question alone.
#[derive(Debug)]
pub(super) struct Proc {
    pub(super) root: PathBuf,
    folder: File,
    /// Whose cgroups are believed.
    pub(super) trusted: u32,
    /// The mounts of the thread that asks, read once.
    own: OnceLock<Arc<MountTable>>,
    makers: OnceLock<Makers>,
}

impl Proc {
    pub(super) fn at(root: &Path, trusted: u32) -> Result<Self> {
        let io = |error| Error::io(format!("open {}", root.display()), &error);
        let folder = File::open(root).map_err(io)?;
        let (own, makers) = (OnceLock::new(), OnceLock::new());
        Ok(Self { root: root.to_owned(), folder, trusted, own, makers })
    }

    /// Whether root made a folder of a cgroup tree, and all above it.
    pub(super) fn is_made_by_root(&self, step: Step<'_>) -> bool {
        let makers = || Makers::new(&self.own_table().unwrap_or_default(), self.trusted);
        self.makers.get_or_init(makers).is_roots(step)
    }

    /// The processes of this moment.
    pub(super) fn pids(&self) -> io::Result<Vec<u32>> {
        numbers_in(&self.root)
    }

    /// The descriptors of a process.
    pub(super) fn descriptors(&self, task: Task) -> io::Result<Vec<u32>> {
        numbers_in(&self.root.join(format!("{task}/fd")))
    }

    /// The mount that a descriptor was opened through.
    pub(super) fn mount_of(&self, information: &str) -> io::Result<Option<u32>> {
        // It is in the first lines.
        let mut text = [0; 512];
        let length = self.open(information, OFlag::O_RDONLY)?.read(&mut text)?;
        Ok(mount_of_descriptor(&text[..length]))
    }

    /// The threads of a process; none if it has ended.
    pub(super) fn tasks(&self, pid: u32) -> io::Result<Vec<Task>> {
        let task = |thread| Task { pid, thread: (thread != pid).then_some(thread) };
        match numbers_in(&self.root.join(format!("{pid}/task"))) {
            Ok(threads) => Ok(threads.into_iter().map(task).collect()),
            Err(error) if has_ended(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The mount namespace of what a folder in `/proc` stands for.
    pub(super) fn namespace(&self, folder: impl fmt::Display) -> io::Result<NamespaceId> {
        let link = self.link(&format!("{folder}/ns/mnt"))?;
        named_by(&link).ok_or_else(|| io::Error::other(link.display().to_string()))
    }

    /// The number of this process's namespace of a kind.
    pub(super) fn own_number(&self, kind: &str) -> Option<u64> {
        number_of_link(self.link(&format!("self/ns/{kind}")).ok()?.to_str()?, kind)
    }

    /// The mounts that a thread sees.
    pub(super) fn table(&self, task: Task, end: Instant) -> io::Result<Vec<u8>> {
        self.read_table(&format!("{task}/mountinfo"), Some(end)).map_err(|error| {
            match error.raw_os_error() {
                // Of a process that has ended and was not waited for.
                Some(nix::libc::EINVAL) => io::Error::from_raw_os_error(nix::libc::ESRCH),
                _ => error,
            }
        })
    }

    /// The mounts of this thread's own namespace. One question reads them once: all that it looks at, it looks at
    /// after that, and its answer is no older than the question. Who must know what came since asks again.
    pub(super) fn own_table(&self) -> Result<Arc<MountTable>> {
        if self.own.get().is_none() {
            let path = "thread-self/mountinfo";
            let io = |error| Error::io(format!("read {}", self.root.join(path).display()), &error);
            let text = self.read_table(path, None).map_err(io)?;
            let _ = self.own.set(Arc::new(MountTable::parse(&text)?));
        }
        Ok(self.own.get().cloned().unwrap_or_default())
    }

    /// The whole of a mount table; a long one is given up after this moment.
    pub(super) fn read_table(&self, path: &str, end: Option<Instant>) -> io::Result<Vec<u8>> {
        mount_tables::read_until(self.open(path, OFlag::O_RDONLY)?, end)
    }

    /// Whether the process was killed and has not ended.
    pub(super) fn is_killed(&self, pid: u32) -> bool {
        const KILL: u64 = 1 << (nix::libc::SIGKILL - 1);
        let status = self.text(pid, "status").unwrap_or_default();
        let mut pending = ["SigPnd:", "ShdPnd:"]
            .into_iter()
            .filter_map(|name| u64::from_str_radix(fact_of(&status, name)?, 16).ok());
        pending.any(|mask| mask & KILL != 0)
    }

    /// The whole of a file.
    pub(super) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        read_rest(self.open(path, OFlag::O_RDONLY)?, LONGEST_OF_KERNEL, 16 << 10)
    }

    pub(super) fn open(&self, path: impl AsRef<Path>, how: OFlag) -> io::Result<File> {
        Ok(openat(&self.folder, path.as_ref(), how | OFlag::O_CLOEXEC, Mode::empty())?.into())
    }

    pub(super) fn link(&self, path: &str) -> io::Result<PathBuf> {
        Ok(readlinkat(&self.folder, path)?.into())
    }

    pub(super) fn place(&self, path: &str) -> io::Result<kernel::FileLocation> {
        Ok(kernel::place_of(&self.folder, path)?)
    }

    /// The process that traces a thread and has stopped it.
    pub(super) fn tracer_that_stops(&self, task: Task) -> Option<u32> {
        let status = self.text(task, "status").ok()?;
        // proc(5): `t (tracing stop)`. Who traces is a thread too.
        let is_stopped = fact_of(&status, "State:").is_some_and(|state| state.starts_with('t'));
        let tracer =
            fact_of(&status, "TracerPid:").filter(|tracer| is_stopped && *tracer != "0")?;
        fact_of(&self.text(tracer, "status").ok()?, "Tgid:")?.parse().ok()
    }

    /// A process as people know it. Anything that is closed to us, or gone, is left out.
    pub(super) fn process(&self, pid: u32) -> io::Result<Process> {
        let owner = Owner::of(&self.text(pid, "cgroup")?, |step| self.is_made_by_root(step));
        // The kernel prints `status` in ten times the time of `comm`, and containers have many processes.
        if owner.pod.is_some() || owner.container.is_some() {
            let command = self.text(pid, "comm")?.trim_end_matches('\n').to_owned();
            return Ok(Process { pid, command, owner, user: None });
        }
        let status = self.text(pid, "status")?;
        let command = fact_of(&status, "Name:").unwrap_or_default().to_owned();
        let users = fact_of(&status, "Uid:");
        let user = users.and_then(|users| users.split_whitespace().next()?.parse().ok());
        Ok(Process { pid, command, owner, user })
    }

    fn text(&self, task: impl fmt::Display, file: &str) -> io::Result<String> {
        let bytes = files::unless_lack(self.read(&format!("{task}/{file}")))?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// What a line of `/proc/PID/status` says.
pub(super) fn fact_of<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Whether an error means that there is no such process any more, or that it has ended and was
/// not waited for: then it has no program, no namespace and no files.
pub(super) fn has_ended(error: &io::Error) -> bool {
    use nix::libc::{ENOENT, ESRCH};
    matches!(error.raw_os_error(), Some(ENOENT | ESRCH))
}

/// The mount namespace that a link names.
pub(super) fn named_by(link: &Path) -> Option<NamespaceId> {
    number_of_link(link.to_str()?, "mnt").map(NamespaceId)
}

/// The number in a link such as `mnt:[4026531841]`.
fn number_of_link(text: &str, kind: &str) -> Option<u64> {
    text.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
}

fn numbers_in(folder: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        numbers
            .extend(std::str::from_utf8(name.as_bytes()).ok().and_then(|n| n.parse::<u32>().ok()));
    }
    Ok(numbers)
}
