//! What this kernel can do, found out by doing it: distributions give old version numbers new
//! abilities.

use super::namespace::{self, Inside, failed};
use crate::kernel::{MountChange, change_mount};
use crate::model::error::Result;
use crate::model::mount::replacement::Method;
use crate::safe_path::Way;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsmount, fsopen,
};
use std::fs::create_dir;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

/// A mount that every machine has, also in a chroot, where "/" may be none.
const STAGE: &str = "/proc";

/// The best method, found out once by each process that has something to replace: it takes a few
/// thousandths of a second at most, and what another one wrote down could be of another sandbox.
pub(in crate::remount) fn best() -> Method {
    static BEST: OnceLock<Method> = OnceLock::new();
    *BEST.get_or_init(|| {
        let method = tried(by_newer_calls).or_else(|| tried(by_mount)).unwrap_or(Method::Stack);
        tracing::debug!(%method, "how this kernel can replace a mount");
        method
    })
}

/// Why nothing can be tried here. Without the right to mount every attempt fails, whatever the kernel can do.
pub(in crate::remount) fn obstacle() -> Option<String> {
    alone(|| Ok(()))?.err().map(|error| error.cause)
}

/// Tries in a namespace of its own, which ends with the thread.
fn alone<T: Send + 'static>(attempt: fn() -> Result<T>) -> Option<Result<T>> {
    let trying = move || {
        unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| failed("leave the namespace", errno))?;
        propagate(Path::new(STAGE), MsFlags::MS_PRIVATE)?;
        attempt()
    };
    thread::Builder::new().spawn(trying).ok()?.join().ok()
}

fn tried(attempt: fn() -> Result<Method>) -> Option<Method> {
    let tried = alone(attempt)?;
    tried.inspect_err(|error| tracing::debug!(%error, "a way to replace mounts is not there")).ok()
}

fn by_newer_calls() -> Result<Method> {
    let wrong = |errno| failed("try the newer mount calls", errno);
    let ground = throw_away().map_err(wrong)?;
    // The kernel that has the best method has openat2(2); others need not.
    let way = Way::OnFoot;
    namespace::attach(&ground, &way.open(Path::new(STAGE))?, MoveMountFlags::empty())
        .map_err(wrong)?;
    let top = way.open(Path::new(STAGE))?;
    let clone = namespace::clone(&top, OpenTreeFlags::empty()).map_err(wrong)?;
    let private = MountChange { propagation: MsFlags::MS_PRIVATE.bits(), ..MountChange::default() };
    let can_change = change_mount(&clone, private).is_ok();
    let beneath = namespace::attach(&clone, &top, MoveMountFlags::MOVE_MOUNT_BENEATH);
    let can_walk = Way::InOneCall.open(Path::new(STAGE)).is_ok();
    Ok(best_of(beneath.is_ok(), can_change, can_walk))
}

/// By what a kernel with the newer calls can do: put a mount beneath another one, change a detached one, walk in one call.
fn best_of(beneath: bool, can_change: bool, can_walk: bool) -> Method {
    match (beneath, can_change && can_walk) {
        (true, true) => Method::Beneath,
        (false, true) => Method::Tuck,
        (_, false) => Method::TuckRemounted,
    }
}

fn throw_away() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Lets a mount come to a place where another one is, and looks which is on top.
fn by_mount() -> Result<Method> {
    let inside = Inside::here(Way::OnFoot)?;
    let base = Path::new(STAGE);
    let folder = |path: &Path| {
        create_dir(path).map_err(|error| failed(format!("make {}", path.display()), error))
    };
    tmpfs(base)?;
    let (one, other) = (base.join("one"), base.join("other"));
    folder(&one)?;
    folder(&other)?;
    tmpfs(&one)?;
    let place = one.join("place");
    folder(&place)?;
    tmpfs(&place)?;
    propagate(&one, MsFlags::MS_SHARED)?;
    inside.bind(&inside.way.open(&one)?, &inside.way.open(&other)?, MsFlags::empty())?;
    let was = inside.table()?.top_at(&place).map(|mount| mount.id);
    tmpfs(&other.join("place"))?;
    let table = inside.table()?;
    let (now, layers) = (table.top_at(&place).map(|mount| mount.id), table.at(&place).count());
    // Before Linux 4.11 it came to lie on the one that was there, or beside it.
    let method = if came_beneath(was, now, layers) { Method::TuckByMount } else { Method::Stack };
    Ok(method)
}

fn came_beneath(was_on_top: Option<u32>, is_on_top: Option<u32>, layers: usize) -> bool {
    was_on_top.is_some() && was_on_top == is_on_top && layers == 2
}

fn tmpfs(place: &Path) -> Result<()> {
    mount(Some("none"), place, Some("tmpfs"), MsFlags::empty(), None::<&str>)
        .map_err(|errno| failed("mount a tmpfs", errno))
}

fn propagate(place: &Path, how: MsFlags) -> Result<()> {
    mount(None::<&str>, place, None::<&str>, how, None::<&str>)
        .map_err(|errno| failed("change the propagation of a mount", errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_method_follows_from_what_a_kernel_can_do() {
        assert_eq!(best_of(true, true, true), Method::Beneath);
        assert_eq!(best_of(false, true, true), Method::Tuck);
        for (beneath, can_change, can_walk) in
            [(true, false, true), (true, true, false), (false, false, true), (false, true, false)]
        {
            assert_eq!(best_of(beneath, can_change, can_walk), Method::TuckRemounted);
        }
        assert!(came_beneath(Some(5), Some(5), 2));
        assert!(!came_beneath(Some(5), Some(6), 2), "it came on top");
        assert!(!came_beneath(Some(5), Some(5), 1), "it did not come");
        assert!(!came_beneath(None, None, 2));
    }

    /// By its version a kernel of kernel.org has these; distributions may give an older one more.
    #[test]
    fn the_best_method_is_found_by_trying() {
        let uname = nix::sys::utsname::uname().unwrap();
        let release = uname.release().to_string_lossy().into_owned();
        let mut parts = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        let version = (parts.next().unwrap(), parts.next().unwrap());
        if !nix::unistd::geteuid().is_root() || version < (5, 12) {
            return;
        }
        let found = tried(by_newer_calls);
        let is_newest = found == Some(Method::Beneath);
        assert!(is_newest || (version < (6, 5) && found == Some(Method::Tuck)), "{found:?}");
    }

    /// This kernel has a better one; that is no reason not to find the older one.
    #[test]
    fn the_older_method_is_found_by_trying() {
        if nix::unistd::geteuid().is_root() {
            assert_eq!(tried(by_mount), Some(Method::TuckByMount));
        }
    }
}
