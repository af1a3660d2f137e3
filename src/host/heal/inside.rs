//! One thread's stay in a mount namespace.
//!
//! Whoever lives there owns its paths: each is walked once, without links, and what it led to is
//! used by descriptor alone. Mounts are told by the ids in fdinfo, which asks no file system: a
//! dead one answers nothing.

use crate::model::error::{Error, Kind, Result};
use crate::model::mountinfo::{Mount, MountTable};
use nix::fcntl::{OFlag, openat as nix_openat};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode as NixMode;
use nix::unistd::{chroot, fchdir};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// No path element may lead elsewhere than it says.
pub(super) const STRAIGHT: ResolveFlags =
    ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

/// The path of a descriptor itself.
const EMPTY: &str = "";

pub(super) fn failed(doing: impl Display, error: impl Into<io::Error>) -> Error {
    Error::io(doing, &error.into())
}

/// The namespace that this thread is in.
#[derive(Debug)]
pub(super) struct Inside {
    /// The machine's own: a container's may be of another PID namespace, or none.
    proc: File,
    namespace: File,
    /// The root folder, where it need not be the namespace's root.
    root: Option<OwnedFd>,
}

impl Inside {
    /// Takes this thread into the namespace, for good; or keeps it where it is.
    ///
    /// The kernel lets no thread in that shares its root and working folder with others (EINVAL),
    /// and what a thread changes of those must not reach the others.
    pub(super) fn enter(namespace: Option<File>) -> Result<Self> {
        unshare(CloneFlags::CLONE_FS).map_err(|errno| failed("leave the common root", errno))?;
        let proc = File::open("/proc").map_err(|error| failed("open /proc", error))?;
        if let Some(namespace) = namespace {
            let inside = Self { proc, namespace, root: None };
            inside.back()?;
            return Ok(inside);
        }
        let path = "/proc/thread-self/ns/mnt";
        let namespace = File::open(path).map_err(|error| failed(format!("open {path}"), error))?;
        Ok(Self { proc, namespace, root: Some(open(Path::new("/"))?) })
    }

    /// Out of a scratch copy, which ends by that.
    pub(super) fn back(&self) -> Result<()> {
        let doing = "enter the mount namespace";
        setns(&self.namespace, CloneFlags::CLONE_NEWNS).map_err(|errno| failed(doing, errno))?;
        if let Some(root) = &self.root {
            // setns(2) leads to the namespace's root, which in a chroot is another one.
            let root = fchdir(root).and_then(|()| chroot("."));
            root.map_err(|errno| failed("come back to the root", errno))?;
        }
        Ok(())
    }

    /// Runs in a scratch copy of this namespace, of which nothing stays: its mounts end without
    /// propagation.
    pub(super) fn in_scratch<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        unshare(CloneFlags::CLONE_NEWNS)
            .map_err(|errno| failed("copy the mount namespace", errno))?;
        let done = work();
        self.back()?;
        done
    }

    /// The mounts here.
    pub(super) fn table(&self) -> Result<MountTable> {
        let path = "thread-self/mountinfo";
        MountTable::parse(&self.read(path).map_err(|error| failed(format!("read {path}"), error))?)
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let file: File = nix_openat(&self.proc, path, flags, NixMode::empty())?.into();
        let mut text = Vec::with_capacity(8 << 10);
        // Through `take`: a file that is asked for its size first costs two more calls.
        file.take(u64::MAX).read_to_end(&mut text)?;
        Ok(text)
    }

    /// The id of the mount that a descriptor was opened through.
    pub(super) fn mount_id(&self, place: &OwnedFd) -> Result<u32> {
        let path = format!("thread-self/fdinfo/{}", place.as_raw_fd());
        let text = self.read(&path).map_err(|error| failed(format!("read {path}"), error))?;
        let mut lines = text.split(|byte| *byte == b'\n');
        let id = lines.find_map(|line| line.strip_prefix(b"mnt_id:"));
        id.and_then(|id| std::str::from_utf8(id).ok()?.trim().parse().ok())
            .ok_or_else(|| Error::new(Kind::Host, format!("{path} tells no mount")))
    }

    /// Opens the root of a mount, if the way to it leads there.
    pub(super) fn pin(&self, mount: &Mount) -> Result<OwnedFd> {
        let place = open(&mount.target)?;
        let found = self.mount_id(&place)?;
        if found == mount.id {
            return Ok(place);
        }
        let target = mount.target.display();
        Err(Error::refused(format!("{target} leads to mount {found}, not to {}", mount.id)))
    }

    /// Calls with a path that is the descriptor: mount(2) and umount2(2) take no descriptors.
    fn by_path(
        &self,
        place: &OwnedFd,
        call: impl FnOnce(&str) -> nix::Result<()>,
    ) -> nix::Result<()> {
        fchdir(&self.proc)?;
        call(&format!("thread-self/fd/{}", place.as_raw_fd()))
    }

    /// Whether the mount came from a more privileged namespace with those around it. What lies
    /// under such a one must not be revealed: it cannot be taken off, nor anything put beneath.
    pub(super) fn is_locked(&self, place: &OwnedFd) -> bool {
        // The lock is asked for (EINVAL) before whether anybody uses the mount (EBUSY): and that
        // we do, by the descriptor, so that it is never taken off here.
        let asked = self.by_path(place, |path| umount2(path, MntFlags::MNT_EXPIRE));
        asked == Err(nix::errno::Errno::EINVAL)
    }

    /// Takes a mount off with all that is mounted in it, whoever uses it.
    pub(super) fn detach(&self, place: &OwnedFd) -> Result<()> {
        self.by_path(place, |path| umount2(path, MntFlags::MNT_DETACH))
            .map_err(|errno| failed("take the dead mount off", errno))
    }

    /// Changes whether and with whom a mount shares.
    pub(super) fn propagate(&self, place: &OwnedFd, how: MsFlags) -> Result<()> {
        self.by_path(place, |path| mount(None::<&str>, path, None::<&str>, how, None::<&str>))
            .map_err(|errno| failed("change the propagation of a mount", errno))
    }
}

/// Opens a place of the namespace that this thread is in.
pub(super) fn open(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), STRAIGHT)
        .map_err(|errno| failed(format!("open {}", path.display()), errno))
}

/// Opens a place below an open one.
pub(super) fn open_below(
    folder: impl AsFd,
    path: &Path,
    how: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    openat2(folder, path, flags, Mode::empty(), STRAIGHT | ResolveFlags::BENEATH | how)
}

/// A detached copy of the mount that a place is on, with the place as its root.
pub(super) fn clone(place: impl AsFd, also: OpenTreeFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(place, EMPTY, flags | also)
}

/// Attaches a detached mount at a place.
pub(super) fn attach(
    tree: &OwnedFd,
    place: &OwnedFd,
    how: MoveMountFlags,
) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, EMPTY, place, EMPTY, flags | how)
}
