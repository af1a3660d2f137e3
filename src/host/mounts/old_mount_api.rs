//! Mounts through mount(2), for kernels and sandboxes without the newer calls.

use super::disk_mount::{data_of, refused};
use super::failure::failed;
use super::place;
use crate::failpoints;
use crate::model::error::Result;
use crate::model::mount::mount_options::Flag;
use crate::model::mount::mountinfo::Mount;
use crate::ports::host::MountRequest;
use nix::mount::{MsFlags, mount as mount2};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Mounts a disk; `source` is a node of it.
pub(super) fn mount(request: &MountRequest<'_>, source: &Path) -> Result<()> {
    failpoints::effect("mounts.mount2")?;
    let mut flags = MsFlags::empty();
    if request.disk.device().read_only || request.untouched {
        flags |= MsFlags::MS_RDONLY;
    }
    for flag in &request.options.flags {
        flags |= match flag {
            Flag::NoSuid => MsFlags::MS_NOSUID,
            Flag::NoDev => MsFlags::MS_NODEV,
            Flag::NoExec => MsFlags::MS_NOEXEC,
            Flag::NoAtime => MsFlags::MS_NOATIME,
            Flag::RelAtime => MsFlags::MS_RELATIME,
            Flag::StrictAtime => MsFlags::MS_STRICTATIME,
            Flag::NoDirAtime => MsFlags::MS_NODIRATIME,
            Flag::LazyTime => MsFlags::MS_LAZYTIME,
            Flag::Sync => MsFlags::MS_SYNCHRONOUS,
        };
    }
    let words: Vec<String> = data_of(request)
        .map(|(key, value)| value.map_or_else(|| key.to_owned(), |value| format!("{key}={value}")))
        .collect();
    let data = words.join(",");
    let data = (!data.is_empty()).then_some(data.as_str());
    let folder = place::open(request.target)?;
    mount2(Some(source), &place::path_of(&folder), Some(request.kind.name()), flags, data)
        .map_err(|errno| refused(request, errno, ""))
}

/// Binds a folder. Between the two steps of a read-only one it can be written to: a call that is
/// killed there is repeated, and makes it right.
pub(super) fn bind(source: &Mount, target: &Path, read_only: bool) -> Result<()> {
    let (from, to) = (place::open_mount(source)?, place::open(target)?);
    let (from, to) = (place::path_of(&from), place::path_of(&to));
    mount2(Some(&from), &to, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(|errno| {
        failed(format!("bind {} to {}", source.target.display(), target.display()), errno)
    })?;
    failpoints::step("mounts.bound");
    if read_only { refuse_writes(&place::open(target)?, target) } else { Ok(()) }
}

/// Makes a bind refuse writes.
pub(super) fn make_read_only(mount: &Mount) -> Result<()> {
    refuse_writes(&place::open_mount(mount)?, &mount.target)
}

fn refuse_writes(root: &OwnedFd, target: &Path) -> Result<()> {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    mount2(None::<&str>, &place::path_of(root), None::<&str>, flags, None::<&str>)
        .map_err(|errno| failed(format!("make {} read-only", target.display()), errno))
}

/// Binds a folder of the driver's own onto itself, and makes that share with no other one.
pub(super) fn seclude(folder: &Path) -> Result<()> {
    let none = None::<&str>;
    let by = |source, flags| mount2(source, folder, none, flags, none);
    by(Some(folder), MsFlags::MS_BIND)
        .and_then(|()| by(None, MsFlags::MS_PRIVATE))
        .map_err(|errno| failed(format!("make {} private", folder.display()), errno))
}
