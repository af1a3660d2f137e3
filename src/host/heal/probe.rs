//! What this kernel can do, found out by doing it: distributions give old version numbers new
//! abilities.

use super::inside::{self, failed};
use crate::model::error::Result;
use crate::model::switch::Method;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsmount, fsopen,
};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

/// The best method, found out once.
pub(super) fn best() -> Method {
    static BEST: OnceLock<Method> = OnceLock::new();
    *BEST.get_or_init(|| {
        // In a namespace of its own, which ends with the thread.
        let trying = thread::Builder::new().spawn(|| attempt().unwrap_or(Method::Stack));
        trying.ok().and_then(|thread| thread.join().ok()).unwrap_or(Method::Stack)
    })
}

fn attempt() -> Result<Method> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| failed("leave the namespace", errno))?;
    // A mount that every machine has, also in a chroot, where "/" may be none.
    let stage = Path::new("/proc");
    mount(None::<&str>, stage, None::<&str>, MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(|errno| failed("make a mount private", errno))?;
    let wrong = |errno| failed("try the newer mount calls", errno);
    let ground = throw_away().map_err(wrong)?;
    inside::attach(&ground, &inside::open(stage)?, MoveMountFlags::empty()).map_err(wrong)?;
    let top = inside::open(stage)?;
    let clone = inside::clone(&top, OpenTreeFlags::empty()).map_err(wrong)?;
    let beneath = inside::attach(&clone, &top, MoveMountFlags::MOVE_MOUNT_BENEATH);
    Ok(if beneath.is_ok() { Method::Beneath } else { Method::Tuck })
}

fn throw_away() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}
