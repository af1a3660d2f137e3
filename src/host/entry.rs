//! The way out of a container: into the namespaces in which another process lives, and below its root.

use crate::files;
use crate::model::error::{Error, Kind, Result};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The namespaces that decide what is seen of a machine: its name, its network, its cgroups, its mounts.
/// The mounts come last, for the others are found by them.
const NAMESPACES: [(&str, CloneFlags); 5] = [
    ("uts", CloneFlags::CLONE_NEWUTS),
    ("ipc", CloneFlags::CLONE_NEWIPC),
    ("net", CloneFlags::CLONE_NEWNET),
    ("cgroup", CloneFlags::CLONE_NEWCGROUP),
    ("mnt", CloneFlags::CLONE_NEWNS),
];

/// A process by its folder in /proc, which stays its own: another one with its number is not mistaken for it.
#[derive(Debug)]
pub struct HeldProcess {
    pid: u32,
    folder: File,
}

impl HeldProcess {
    /// Holds it, if it lives.
    pub fn of(pid: u32) -> Result<Self> {
        let failed = |error: &std::io::Error| Error::io(format!("hold process {pid}"), error);
        let folder = File::open(format!("/proc/{pid}")).map_err(|error| failed(&error))?;
        Ok(Self { pid, folder })
    }

    /// Where it shows itself.
    pub fn folder(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd()))
    }
}

/// Goes to where that process lives. Only a process of one thread can.
pub fn enter(held: &HeldProcess) -> Result<()> {
    let (pid, process) = (held.pid, held.folder());
    let failed = |what: &str, errno: Errno| {
        let cause = format!("{what} of process {pid}: {}", errno.desc());
        let error = Error::new(Kind::Host, cause);
        match errno {
            Errno::EPERM | Errno::EACCES => error.hint(
                "only root may, and in a container only a privileged one (securityContext.privileged)",
            ),
            _ => error,
        }
    };
    let as_errno = |error: &std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
    let mut namespaces = Vec::new();
    for (name, flag) in NAMESPACES {
        match File::open(process.join("ns").join(name)) {
            Ok(file) => namespaces.push((name, flag, file)),
            // A kernel may have been built without one of them.
            Err(error) if error.kind() == ErrorKind::NotFound && name != "mnt" => {}
            Err(error) => {
                return Err(failed(&format!("open the {name} namespace"), as_errno(&error)));
            }
        }
    }
    let root = File::open(process.join("root"))
        .map_err(|error| failed("open the root folder", as_errno(&error)))?;
    for (name, flag, file) in &namespaces {
        if !is_our_own(name, file) {
            setns(file, *flag)
                .map_err(|errno| failed(&format!("enter the {name} namespace"), errno))?;
        }
    }
    // setns(2) leads to the namespace's root, which in a chroot is another one.
    nix::unistd::fchdir(&root)
        .and_then(|()| nix::unistd::chroot("."))
        .and_then(|()| nix::unistd::chdir("/"))
        .map_err(|errno| failed("enter the root folder", errno))
}

fn is_our_own(name: &str, namespace: &File) -> bool {
    let own = files::place(&Path::new("/proc/self/ns").join(name));
    let other = namespace.metadata().map(|found| (found.dev(), found.ino()));
    own.is_ok_and(|own| other.is_ok_and(|other| own == other))
}

/// Begins this program again with other words and other variables, where this process is now; comes back
/// only with an error.
pub fn begin_again(words: &[String], environment: Vec<(OsString, OsString)>) -> Error {
    // By the kernel's own link: the path leads nowhere below another root.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("disk").args(words).env_clear().envs(environment);
    Error::io("start this program there", &command.exec())
}
