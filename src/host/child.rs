//! System calls that may hang for good, made in a child process: a thread that waits for a dead
//! disk cannot be ended, and while it lives neither can its process.
//!
//! The child has none of our files open. kubelet reads our output until every copy of it is
//! closed, and a child that hangs would keep it waiting.
#![allow(unsafe_code)]

use super::descriptors::{close_all_but, close_range};
use super::worker::{self, Child};
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::mountinfo::mount_of_descriptor;
use crate::model::pauses::Steps;
use crate::ports::clock::Deadline;
use crate::ports::host::Keeper;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe2};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// What the child does.
#[derive(Debug, Clone, Copy)]
pub enum ChildWork {
    /// Writes out the file system that is mounted at the path, if the mount of this id is what is
    /// there.
    Flush {
        /// The mount's id.
        mount: u32,
    },
    /// Unmounts the path, if the mount of this id is what is there.
    Unmount {
        /// The mount's id.
        mount: u32,
        flags: MntFlags,
    },
    /// Writes out the file system at the path inside a mount namespace that we have open, if the
    /// mount of this id is what is there.
    FlushInside {
        /// The namespace's descriptor.
        namespace: RawFd,
        /// The mount's id there.
        mount: u32,
    },
    /// Unmounts the path inside a mount namespace that we have open, if the mount of this id is
    /// what is there.
    UnmountInside {
        /// The namespace's descriptor.
        namespace: RawFd,
        /// The mount's id there.
        mount: u32,
    },
}

impl ChildWork {
    fn word(self) -> &'static str {
        match self {
            Self::Flush { .. } => "write out the file system at",
            Self::FlushInside { .. } => "write out, in another namespace, the file system at",
            Self::Unmount { .. } => "unmount",
            Self::UnmountInside { .. } => "unmount, in another namespace,",
        }
    }
}

/// How the work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Well.
    Done,
    /// With an error.
    Failed(Errno),
    /// It did not end in time. The child is left alone with it.
    Hangs,
}

/// Does the work at the path, which begins in this folder if one is given. Answers how it ended, and
/// the child's number.
pub fn run(
    work: ChildWork,
    folder: Option<&OwnedFd>,
    path: &Path,
    deadline: Deadline,
) -> Result<(Ended, i32)> {
    let child = worker::child(&format!("{} {}", work.word(), path.display()));
    let wrong = |errno: Errno| Error::io("start a child process", &errno.into());
    let path = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::new(Kind::Bug, "a path with a zero byte"))?;
    // SAFETY: the child makes system calls alone, with memory that was there before, and ends
    // without running anything else of this process.
    match unsafe { fork() }.map_err(wrong)? {
        ForkResult::Child => {
            if !child.begins() {
                // SAFETY: ends the process at once.
                unsafe { nix::libc::_exit(1) }
            }
            let status = match enter(work, folder).and_then(|()| in_child(work, &path)) {
                Ok(()) => 0,
                Err(errno) => errno as i32,
            };
            // SAFETY: ends the process at once.
            unsafe { nix::libc::_exit(status) }
        }
        ForkResult::Parent { child: pid } => Ok((wait(pid, child, deadline), pid.as_raw())),
    }
}

/// Into the namespace and the folder of the work, with no file left open.
fn enter(work: ChildWork, folder: Option<&OwnedFd>) -> nix::Result<()> {
    if let ChildWork::UnmountInside { namespace, .. } | ChildWork::FlushInside { namespace, .. } =
        work
    {
        // SAFETY: the parent holds the descriptor open, and so have we its copy.
        let namespace = unsafe { BorrowedFd::borrow_raw(namespace) };
        // One that is being torn down takes no process in: that is no failed write.
        setns(namespace, CloneFlags::CLONE_NEWNS).map_err(|errno| match work {
            ChildWork::FlushInside { .. } => Errno::ESTALE,
            _ => errno,
        })?;
    }
    if let Some(folder) = folder {
        nix::unistd::fchdir(folder)?;
    }
    close_range(0, RawFd::MAX);
    Ok(())
}

/// How a folder is opened to be written out.
const FOLDER: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

fn in_child(work: ChildWork, path: &CString) -> nix::Result<()> {
    match work {
        ChildWork::Flush { mount } => {
            must_be(mount, path)?;
            let folder = open(path.as_c_str(), FOLDER, Mode::empty())?;
            nix::unistd::syncfs(folder)
        }
        ChildWork::FlushInside { mount, .. } => {
            // Whatever is in the way is said by one error, which no flush has.
            let unreached = |_| Errno::ESTALE;
            must_be(mount, path).map_err(unreached)?;
            let folder = open(path.as_c_str(), FOLDER, Mode::empty()).map_err(unreached)?;
            nix::unistd::syncfs(folder)
        }
        ChildWork::Unmount { mount, flags } => {
            must_be(mount, path)?;
            umount2(path.as_c_str(), flags)
        }
        ChildWork::UnmountInside { mount, .. } => {
            // Those who live there may have moved something else to the path.
            must_be(mount, path)?;
            umount2(path.as_c_str(), MntFlags::UMOUNT_NOFOLLOW)
        }
    }
}

/// An error if the path leads to another mount.
fn must_be(mount: u32, path: &CString) -> nix::Result<()> {
    let found = match mount_id_of(path) {
        // A file system without handles.
        Err(Errno::EOPNOTSUPP) => mount_id_by_descriptor(path)?,
        found => found?,
    };
    if found == mount { Ok(()) } else { Err(Errno::ESTALE) }
}

/// The same by what the kernel tells of a descriptor, which is closed again: it would make an
/// unmount busy. Nothing is allocated.
fn mount_id_by_descriptor(path: &CString) -> nix::Result<u32> {
    use std::io::Write;
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let place = open(path.as_c_str(), flags, Mode::empty())?;
    let mut name = [0; 64];
    write!(&mut name[..], "/proc/self/fdinfo/{}\0", place.as_raw_fd()).map_err(|_| Errno::EBADF)?;
    let name = CStr::from_bytes_until_nul(&name).map_err(|_| Errno::EBADF)?;
    let told = open(name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    let mut text = [0; 512];
    let length = nix::unistd::read(&told, &mut text)?;
    mount_of_descriptor(&text[..length]).ok_or(Errno::ESTALE)
}

/// The id of the mount that a path leads to, without a request to its file system: a dead one
/// would answer none.
fn mount_id_of(path: &CString) -> nix::Result<u32> {
    /// `struct file_handle` with no room: the kernel says how much it would need, and the mount.
    #[repr(C)]
    struct NoHandle {
        bytes: u32,
        kind: i32,
    }
    let mut handle = NoHandle { bytes: 0, kind: 0 };
    let mut mount: i32 = 0;
    // SAFETY: both structures live until the call returns, and the kernel writes no more than the
    // room that the handle says it has.
    let result = unsafe {
        nix::libc::syscall(
            nix::libc::SYS_name_to_handle_at,
            nix::libc::AT_FDCWD,
            path.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            0,
        )
    };
    match Errno::result(result) {
        // What does not fit is the handle; the mount was told all the same.
        Ok(_) | Err(Errno::EOVERFLOW) => u32::try_from(mount).map_err(|_| Errno::ESTALE),
        Err(errno) => Err(errno),
    }
}

/// A process that has a place open, and by that keeps its file system from being let go of by
/// any other: the last one that lets go of a dead disk may wait for it for good.
#[derive(Debug)]
pub struct FileSystemKeeper {
    child: Option<(Pid, Child)>,
    /// Whose end the child waits for: also if this process is killed.
    line: Option<OwnedFd>,
}

/// Lets a child process keep this place.
pub fn keep(place: OwnedFd) -> Result<FileSystemKeeper> {
    let wrong = |errno: Errno| Error::io("start a child process", &errno.into());
    let (wait_for, line) = pipe2(OFlag::O_CLOEXEC).map_err(wrong)?;
    let kept = [place.as_raw_fd(), wait_for.as_raw_fd()];
    let child = worker::child("let go of the last mount of a dead disk");
    let hangs = crate::failpoints::wish("INCLOUD_DISK_KEEPER_HANGS").is_some();
    // SAFETY: as above.
    match unsafe { fork() }.map_err(wrong)? {
        ForkResult::Child => {
            if !child.begins() {
                // SAFETY: as above.
                unsafe { nix::libc::_exit(1) }
            }
            close_all_but(&kept.into_iter());
            let mut nothing = [0];
            while nix::unistd::read(&wait_for, &mut nothing) == Err(Errno::EINTR) || hangs {}
            // SAFETY: ends the process at once, and closes the place by that.
            unsafe { nix::libc::_exit(0) }
        }
        ForkResult::Parent { child: pid } => {
            drop(place);
            Ok(FileSystemKeeper { child: Some((pid, child)), line: Some(line) })
        }
    }
}

impl Keeper for FileSystemKeeper {
    fn release(mut self: Box<Self>, deadline: Deadline) -> bool {
        self.line = None;
        self.child.take().is_none_or(|(pid, child)| wait(pid, child, deadline) != Ended::Hangs)
    }

    fn pid(&self) -> i32 {
        self.child.as_ref().map_or(0, |(pid, _)| pid.as_raw())
    }
}

impl Drop for FileSystemKeeper {
    fn drop(&mut self) {
        self.line = None;
        if let Some((pid, child)) = self.child.take() {
            let _ = wait(pid, child, Deadline::after(Duration::ZERO));
        }
    }
}

fn wait(pid: Pid, child: Child, deadline: Deadline) -> Ended {
    for step in Steps::between(Duration::from_micros(100), Duration::from_millis(10)) {
        match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                if !deadline.pause(step) {
                    break;
                }
            }
            Ok(WaitStatus::Exited(_, 0)) => return Ended::Done,
            Ok(WaitStatus::Exited(_, status)) => return Ended::Failed(Errno::from_raw(status)),
            Ok(_) | Err(_) => return Ended::Failed(Errno::EINTR),
        }
    }
    let _ = kill(pid, Signal::SIGKILL);
    child.is_left();
    Ended::Hangs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(20))
    }

    #[test]
    fn the_childs_errors_come_back() {
        let unmount = ChildWork::Unmount { mount: 1, flags: MntFlags::UMOUNT_NOFOLLOW };
        let ended = run(unmount, None, Path::new("/no/such/folder"), soon()).unwrap().0;
        assert!(matches!(ended, Ended::Failed(Errno::ENOENT | Errno::EPERM)), "{ended:?}");
        let proc = std::fs::File::open("/proc").unwrap();
        let mount = crate::safe_path::mount_id(&proc).unwrap();
        let flush =
            |mount, path: &str| run(ChildWork::Flush { mount }, None, Path::new(path), soon());
        assert_eq!(flush(mount, "/proc").unwrap().0, Ended::Done);
        assert_eq!(flush(mount + 1, "/proc").unwrap().0, Ended::Failed(Errno::ESTALE));
        let root = OwnedFd::from(std::fs::File::open("/").unwrap());
        let flush = run(ChildWork::Flush { mount }, Some(&root), Path::new("proc"), soon());
        assert_eq!(flush.unwrap().0, Ended::Done);
        let path = CString::new("/proc").unwrap();
        assert_eq!(mount_id_by_descriptor(&path), Ok(mount));
    }
}
