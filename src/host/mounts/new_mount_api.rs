//! Mounts through the kernel's newer calls (fsopen(2) and its family, Linux 5.2): the kernel says
//! in words what it refuses, and what is mounted is looked at before any process can reach it.

use super::disk_mount;
use super::failure::{Failure, failed};
use super::place;
use crate::model::error::{Error, Kind};
use crate::model::mount::mount_options::Flag;
use crate::model::mount::mountinfo::Mount;
use crate::ports::host::MountRequest;
use crate::{failpoints, kernel};
use nix::errno::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The path of a descriptor itself.
const EMPTY: &str = "";

/// `mount_setattr(2)`: the mount refuses writes.
const READ_ONLY: u64 = 1;

/// Mounts a disk; `source` is a node of it.
pub(super) fn mount(request: &MountRequest<'_>, source: &Path) -> std::result::Result<(), Failure> {
    let kind = request.kind.name();
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).map_err(unsupported_or(request))?;
    let prepared = prepare(&context, request, source);
    let mount = prepared
        .and_then(|()| fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes(request)))
        .map_err(|errno| refused(request, errno, &messages(context)))?;
    let folder = place::open(request.target)?;
    failpoints::effect("mounts.attach")?;
    attach(&mount, &folder).map_err(|errno| refused(request, errno, ""))?;
    place::must_be_seen(&mount, request.target)
}

fn prepare(context: &OwnedFd, request: &MountRequest<'_>, source: &Path) -> rustix::io::Result<()> {
    fsconfig_set_string(context, "source", source)?;
    if request.disk.device().read_only || request.untouched {
        fsconfig_set_flag(context, "ro")?;
    }
    for (key, value) in disk_mount::data_of(request) {
        match value {
            Some(value) => fsconfig_set_string(context, key, value)?,
            None => fsconfig_set_flag(context, key)?,
        }
    }
    for flag in &request.options.flags {
        match flag {
            Flag::LazyTime => fsconfig_set_flag(context, "lazytime")?,
            Flag::Sync => fsconfig_set_flag(context, "sync")?,
            _ => {}
        }
    }
    fsconfig_create(context)
}

fn attributes(request: &MountRequest<'_>) -> MountAttrFlags {
    let mut all = MountAttrFlags::empty();
    if request.disk.device().read_only || request.untouched {
        all |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    for flag in &request.options.flags {
        all |= match flag {
            Flag::NoSuid => MountAttrFlags::MOUNT_ATTR_NOSUID,
            Flag::NoDev => MountAttrFlags::MOUNT_ATTR_NODEV,
            Flag::NoExec => MountAttrFlags::MOUNT_ATTR_NOEXEC,
            Flag::NoAtime => MountAttrFlags::MOUNT_ATTR_NOATIME,
            Flag::StrictAtime => MountAttrFlags::MOUNT_ATTR_STRICTATIME,
            Flag::NoDirAtime => MountAttrFlags::MOUNT_ATTR_NODIRATIME,
            // The kernel's default, and options of the file system.
            Flag::RelAtime | Flag::LazyTime | Flag::Sync => MountAttrFlags::empty(),
        };
    }
    all
}

/// Binds a folder, so that the bind is not seen before it refuses writes.
pub(super) fn bind(
    source: &Mount,
    target: &Path,
    read_only: bool,
) -> std::result::Result<(), Failure> {
    let doing = |errno: rustix::io::Errno| match errno {
        rustix::io::Errno::NOSYS => Failure::Unsupported,
        errno => Failure::Error(failed(
            format!("bind {} to {}", source.target.display(), target.display()),
            Errno::from_raw(errno.raw_os_error()),
        )),
    };
    let tree = clone(&place::open_mount(source)?).map_err(doing)?;
    if read_only {
        // Linux 5.12; before that it is done in two steps.
        kernel::set_mount_attributes(&tree, READ_ONLY)
            .map_err(|errno| doing(rustix::io::Errno::from_raw_os_error(errno as i32)))?;
    }
    let folder = place::open(target)?;
    failpoints::effect("mounts.bind.attach")?;
    attach(&tree, &folder).map_err(doing)?;
    place::must_be_seen(&tree, target)
}

/// A detached copy of a mount.
pub(super) fn copy_of(mount: &Mount) -> Option<OwnedFd> {
    clone(&place::open_mount(mount).ok()?).ok()
}

fn clone(root: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(root, EMPTY, flags)
}

/// Attaches a copy at a place, as `bind` does: its path must lead to it then.
pub(super) fn put_back(copy: &OwnedFd, target: &Path) -> std::result::Result<(), Failure> {
    attach(copy, &place::open(target)?).map_err(|errno| {
        let errno = Errno::from_raw(errno.raw_os_error());
        failed(format!("put the mount back at {}", target.display()), errno)
    })?;
    place::must_be_seen(copy, target)
}

fn attach(mount: &OwnedFd, folder: &OwnedFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, EMPTY, folder, EMPTY, flags)
}

fn unsupported_or(request: &MountRequest<'_>) -> impl FnOnce(rustix::io::Errno) -> Failure {
    let kind = request.kind;
    let disk = request.disk.device().kernel_name.clone();
    move |errno| match errno {
        rustix::io::Errno::NOSYS | rustix::io::Errno::PERM => Failure::Unsupported,
        rustix::io::Errno::NODEV => Failure::Error(
            Error::new(Kind::Host, format!("this kernel has no {kind}, which {disk} holds"))
                .hint("load the file system's module"),
        ),
        errno => Failure::Error(failed(
            format!("begin to mount the {kind} of {disk}"),
            Errno::from_raw(errno.raw_os_error()),
        )),
    }
}

fn refused(request: &MountRequest<'_>, errno: rustix::io::Errno, words: &str) -> Failure {
    Failure::Error(disk_mount::refused(request, Errno::from_raw(errno.raw_os_error()), words))
}

/// What the kernel said, one message for each read: `e ext4: …`.
fn messages(context: OwnedFd) -> String {
    const MOST: usize = 8;
    let mut file = std::fs::File::from(context);
    let mut all = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = file.read(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]);
        let text = text.trim();
        all.push(text.split_once(' ').map_or(text, |(_, words)| words).to_owned());
        if all.len() == MOST {
            break;
        }
    }
    all.join("; ")
}
