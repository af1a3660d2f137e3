//! One thread's stay in a mount namespace.
//!
//! The processes there own its paths: each is walked once, without links, and what it led to is
//! used by descriptor alone. Mounts are told by the ids in fdinfo, which asks no file system: a
//! dead one answers nothing.

use crate::files::{LONGEST_OF_KERNEL, read_rest};
use crate::kernel::owner_of_namespace;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::mountinfo::{Mount, MountTable, mount_of_descriptor};
use crate::mount_tables;
use crate::safe_path::Way;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat as nix_openat};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode as NixMode;
use nix::unistd::{chroot, fchdir};
use rustix::fs::{Dir, ResolveFlags, readlinkat};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The path of a descriptor itself.
const EMPTY: &str = "";

pub(in crate::remount) fn failed(doing: impl Display, error: impl Into<io::Error>) -> Error {
    Error::io(doing, &error.into())
}

/// The namespace that this thread is in.
#[derive(Debug)]
pub(in crate::remount) struct Inside {
    /// The machine's own: a container's may be of another PID namespace, or none.
    proc: File,
    namespace: File,
    /// The root folder, where it need not be the namespace's root.
    root: Option<OwnedFd>,
    pub(in crate::remount) way: Way,
}

impl Inside {
    /// Where this thread is, which from now on has a root and a working folder of its own, for
    /// good.
    ///
    /// The kernel lets no thread into another namespace that shares them with others (EINVAL), and
    /// what a thread changes of them must not reach the others.
    pub(in crate::remount) fn here(way: Way) -> Result<Self> {
        unshare(CloneFlags::CLONE_FS).map_err(|errno| failed("leave the common root", errno))?;
        let proc = File::open("/proc").map_err(|error| failed("open /proc", error))?;
        let namespace = namespace_of(&proc)?;
        Ok(Self { proc, namespace, root: Some(way.open(Path::new("/"))?), way })
    }

    /// Takes this thread into a namespace, for good.
    pub(in crate::remount) fn into(self, namespace: File) -> Result<Self> {
        let inside = Self { namespace, root: None, ..self };
        inside.back()?;
        Ok(inside)
    }

    /// The same in one step; without a namespace it stays where it is.
    pub(in crate::remount) fn enter(namespace: Option<File>, way: Way) -> Result<Self> {
        let here = Self::here(way)?;
        match namespace {
            Some(namespace) => here.into(namespace),
            None => Ok(here),
        }
    }

    /// Whether it is the namespace that the thread began in.
    pub(in crate::remount) fn is_own(&self) -> bool {
        self.root.is_some()
    }

    /// Out of a scratch copy, which ends by that.
    pub(in crate::remount) fn back(&self) -> Result<()> {
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
    pub(in crate::remount) fn in_scratch<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        unshare(CloneFlags::CLONE_NEWNS)
            .map_err(|errno| failed("copy the mount namespace", errno))?;
        let done = work();
        self.back()?;
        done
    }

    /// Steps out of a scratch copy, which goes on to be, and in again. Only where the root need not
    /// be another one than the namespace's.
    pub(in crate::remount) fn out_of_scratch<T>(
        &self,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let scratch = namespace_of(&self.proc)?;
        self.back()?;
        let done = work();
        setns(&scratch, CloneFlags::CLONE_NEWNS)
            .map_err(|errno| failed("enter the scratch namespace", errno))?;
        done
    }

    /// The namespace's owner, to tell whether it is this process's.
    pub(in crate::remount) fn is_of_our_users(&self) -> bool {
        let id = |namespace: &File| namespace.metadata().map(|found| found.ino()).ok();
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let own = nix_openat(&self.proc, "thread-self/ns/user", flags, NixMode::empty()).ok();
        let Some(own) = own.map(File::from).as_ref().and_then(id) else { return false };
        match owner_of_namespace(&self.namespace) {
            Ok(owner) => id(&owner) == Some(own),
            // Linux 4.9 is the first one that says it.
            Err(Errno::ENOTTY) => self.is_own() || self.dwellers_are_of(own).unwrap_or(false),
            Err(_) => false,
        }
    }

    /// Whether all processes that live here, and some do, are of these users.
    fn dwellers_are_of(&self, users: u64) -> io::Result<bool> {
        let here = self.namespace.metadata()?.ino();
        let mut found = false;
        for entry in Dir::read_from(&self.proc)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let number = |kind: &str| {
                let text = readlinkat(&self.proc, format!("{name}/ns/{kind}"), Vec::new()).ok()?;
                let text = text.to_str().ok()?.strip_suffix(']')?.to_owned();
                text.split_once('[')?.1.parse::<u64>().ok()
            };
            if !name.starts_with(|sign: char| sign.is_ascii_digit()) || number("mnt") != Some(here)
            {
                continue;
            }
            if number("user") != Some(users) {
                return Ok(false);
            }
            found = true;
        }
        Ok(found)
    }

    /// The mounts here.
    pub(in crate::remount) fn table(&self) -> Result<MountTable> {
        let path = "thread-self/mountinfo";
        let text = self.open(path).and_then(mount_tables::read);
        MountTable::parse(&text.map_err(|error| failed(format!("read {path}"), error))?)
    }

    fn open(&self, path: &str) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        Ok(nix_openat(&self.proc, path, flags, NixMode::empty())?.into())
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        read_rest(self.open(path)?, LONGEST_OF_KERNEL, 8 << 10)
    }

    /// The id of the mount that a descriptor was opened through.
    pub(in crate::remount) fn mount_id(&self, place: &OwnedFd) -> Result<u32> {
        let path = format!("thread-self/fdinfo/{}", place.as_raw_fd());
        let text = self.read(&path).map_err(|error| failed(format!("read {path}"), error))?;
        mount_of_descriptor(&text)
            .ok_or_else(|| Error::new(Kind::Host, format!("{path} tells no mount")))
    }

    /// Opens the root of a mount, if the way to it leads there.
    pub(in crate::remount) fn pin(&self, mount: &Mount) -> Result<OwnedFd> {
        let place = self.way.open(&mount.target)?;
        let found = self.mount_id(&place)?;
        if found == mount.id {
            return Ok(place);
        }
        let target = mount.target.display();
        Err(Error::refused(format!("{target} leads to mount {found}, not to {}", mount.id)))
    }

    /// Opens a place below an open one and on the same mount.
    pub(in crate::remount) fn below(
        &self,
        folder: &OwnedFd,
        path: &Path,
    ) -> rustix::io::Result<OwnedFd> {
        let place = self.way.below(folder, path, ResolveFlags::NO_XDEV)?;
        let mount = |place| self.mount_id(place).map_err(|_| rustix::io::Errno::XDEV);
        if self.way == Way::OnFoot && mount(&place)? != mount(folder)? {
            return Err(rustix::io::Errno::XDEV);
        }
        Ok(place)
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
    pub(in crate::remount) fn is_locked(&self, place: &OwnedFd) -> bool {
        // The lock is asked for (EINVAL) before whether any process uses the mount (EBUSY): and that
        // we do, by the descriptor, so that it is never taken off here.
        let asked = self.by_path(place, |path| umount2(path, MntFlags::MNT_EXPIRE));
        asked == Err(nix::errno::Errno::EINVAL)
    }

    /// Takes a mount off with all that is mounted in it, whatever uses it.
    pub(in crate::remount) fn detach(&self, place: &OwnedFd) -> Result<()> {
        self.by_path(place, |path| umount2(path, MntFlags::MNT_DETACH))
            .map_err(|errno| failed("take the dead mount off", errno))
    }

    /// Mounts something at a place: what it is made of is told by a path.
    pub(in crate::remount) fn mount(
        &self,
        place: &OwnedFd,
        source: &str,
        fs_type: &str,
        flags: MsFlags,
        data: Option<&str>,
    ) -> Result<()> {
        self.by_path(place, |path| mount(Some(source), path, Some(fs_type), flags, data))
            .map_err(|errno| failed(format!("mount {fs_type} of {source}"), errno))
    }

    /// Binds a place to another one.
    pub(in crate::remount) fn bind(
        &self,
        from: &OwnedFd,
        to: &OwnedFd,
        also: MsFlags,
    ) -> Result<()> {
        let source = format!("thread-self/fd/{}", from.as_raw_fd());
        let (source, none) = (Some(source.as_str()), None::<&str>);
        self.by_path(to, |path| mount(source, path, none, MsFlags::MS_BIND | also, none))
            .map_err(|errno| failed("bind a mount", errno))
    }

    /// Gives a mount these flags and no others.
    pub(in crate::remount) fn give_flags(&self, place: &OwnedFd, flags: MsFlags) -> Result<()> {
        let how = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags;
        self.by_path(place, |path| mount(None::<&str>, path, None::<&str>, how, None::<&str>))
            .map_err(|errno| failed("give the new mount its flags", errno))
    }

    /// Changes whether and with whom a mount shares.
    pub(in crate::remount) fn propagate(&self, place: &OwnedFd, how: MsFlags) -> Result<()> {
        self.by_path(place, |path| mount(None::<&str>, path, None::<&str>, how, None::<&str>))
            .map_err(|errno| failed("change the propagation of a mount", errno))
    }
}

/// Makes a folder the root of this thread, until it goes to a namespace.
pub(in crate::remount) fn take_root(folder: &OwnedFd) -> Result<()> {
    fchdir(folder).and_then(|()| chroot(".")).map_err(|errno| failed("take another root", errno))
}

fn namespace_of(proc: &File) -> Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    nix_openat(proc, "thread-self/ns/mnt", flags, NixMode::empty())
        .map(File::from)
        .map_err(|errno| failed("open this thread's mount namespace", errno))
}

/// A detached copy of the mount that a place is on, with the place as its root.
pub(in crate::remount) fn clone(
    place: impl AsFd,
    also: OpenTreeFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(place, EMPTY, flags | also)
}

/// Attaches a detached mount at a place.
pub(in crate::remount) fn attach(
    tree: &OwnedFd,
    place: &OwnedFd,
    how: MoveMountFlags,
) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, EMPTY, place, EMPTY, flags | how)
}

/// The file system that a place is on.
pub(in crate::remount) fn number_of(place: impl AsFd) -> Result<DeviceNumber> {
    let found = nix::sys::stat::fstat(place.as_fd())
        .map_err(|errno| failed("look at the new file system", errno))?;
    let part = |part: u64| u32::try_from(part).unwrap_or(u32::MAX);
    Ok(DeviceNumber {
        major: part(nix::sys::stat::major(found.st_dev)),
        minor: part(nix::sys::stat::minor(found.st_dev)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remount::tests::{apart, tmpfs};
    use std::process::{Command, Stdio};

    #[test]
    fn no_way_below_a_place_leads_into_another_mount() {
        let folder = tempfile::tempdir().unwrap();
        let (one, nested) = (folder.path().join("one"), folder.path().join("nested"));
        for path in [&one, &nested] {
            std::fs::create_dir(path).unwrap();
        }
        for way in [Way::OnFoot, Way::InOneCall] {
            apart(|| {
                let inside = Inside::here(way).unwrap();
                tmpfs(&nested);
                let base = inside.way.open(folder.path()).unwrap();
                let below = |name: &str| inside.below(&base, Path::new(name)).map(drop);
                assert_eq!(below("one"), Ok(()), "{way:?}");
                assert_eq!(below("nested"), Err(rustix::io::Errno::XDEV), "{way:?}");
                assert_eq!(below("none"), Err(rustix::io::Errno::NOENT), "{way:?}");
                assert_eq!(below("one/../nested"), Err(rustix::io::Errno::XDEV), "{way:?}");
            });
        }
    }

    #[test]
    fn the_machines_own_namespace_is_its_own_and_another_is_not() {
        let own = File::open("/proc/self/ns/mnt").unwrap();
        apart(|| {
            let inside = Inside::here(Way::OnFoot).unwrap();
            assert!(inside.is_own() && inside.is_of_our_users());
            let other = Inside::enter(Some(own), Way::OnFoot).unwrap();
            assert!(!other.is_own() && other.is_of_our_users());
        });
    }

    /// Before Linux 4.9 the kernel does not tell whose a namespace is.
    #[test]
    fn a_namespace_is_of_those_users_whose_processes_all_live_there() {
        let users = std::fs::metadata("/proc/self/ns/user").unwrap().ino();
        apart(|| {
            let inside = Inside::here(Way::OnFoot).unwrap();
            assert!(
                !inside.dwellers_are_of(users).unwrap(),
                "no process lives here, only a thread"
            );
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            let told = [users, users + 1].map(|users| inside.dwellers_are_of(users).unwrap());
            child.kill().and_then(|()| child.wait()).unwrap();
            assert_eq!(told, [true, false]);
        });
    }

    #[test]
    fn a_namespace_that_a_user_made_is_not_of_our_users() {
        let arguments = ["--user", "--map-root-user", "--mount", "sh", "-c", "echo; exec sleep 60"];
        let made = Command::new("unshare").args(arguments).stdout(Stdio::piped()).spawn();
        let mut child = made.unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(output), &mut line).unwrap();
        let theirs = File::open(format!("/proc/{}/ns/mnt", child.id()));
        let mut told = None;
        // Where users can make no namespaces there is nothing to tell apart.
        if !line.is_empty() {
            apart(|| {
                let inside = Inside::enter(Some(theirs.unwrap()), Way::OnFoot).unwrap();
                told = Some(inside.is_of_our_users());
            });
        }
        child.kill().and_then(|()| child.wait()).unwrap();
        assert_ne!(told, Some(true));
    }
}
