//! Detached mounts of the new file system, each with the properties of the old one that it is to
//! replace.

use super::attributes::{self, ID_MAPPED};
use super::inside::{clone, failed, open_below};
use crate::host::kernel::{MountChange, change_mount, owner_of_namespace};
use crate::model::error::{Error, Result};
use crate::model::mountinfo::Mount;
use crate::model::switch::Propagation;
use nix::errno::Errno;
use nix::mount::MsFlags;
use rustix::fs::ResolveFlags;
use rustix::mount::OpenTreeFlags;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A detached mount that is what the old one was. Made in the namespace of the source: the kernel
/// copies no mount of another one.
pub(super) fn of(fresh: impl AsFd, old: &Mount, namespace: Option<&File>) -> Result<OwnedFd> {
    let root = &old.root;
    let deleted = || Error::refused(format!("its folder {} no longer exists", root.display()));
    // So the kernel marks the root of a mount that was removed from its folder.
    if root.as_os_str().as_bytes().ends_with(b"//deleted") {
        return Err(deleted());
    }
    let below = root.strip_prefix("/").unwrap_or(root);
    let tree = if below == Path::new("") {
        clone(fresh, OpenTreeFlags::empty())
    } else {
        // The names in it are the tenant's: a link that stands there now must not lead out.
        let place =
            open_below(fresh, below, ResolveFlags::NO_XDEV).map_err(|errno| match errno {
                rustix::io::Errno::NOENT => deleted(),
                errno => failed(format!("open {} on the new disk", root.display()), errno),
            })?;
        clone(place, OpenTreeFlags::empty())
    }
    .map_err(|errno| failed("copy the mount of the new disk", errno))?;
    let owners = owners(old, namespace)?;
    let (set, clear) = attributes::of(&old.options);
    // The copy of a shared mount is its peer: what is attached in it would come out there too. A
    // slave only follows.
    let kind = if Propagation::of(old).is_slave { MsFlags::MS_SLAVE } else { MsFlags::MS_PRIVATE };
    let change = MountChange {
        set: if owners.is_some() { set | ID_MAPPED } else { set },
        clear,
        propagation: kind.bits(),
        owners: owners.as_ref(),
    };
    change_mount(&tree, change).map_err(|errno| match (errno, &owners) {
        (Errno::ENOSYS, _) => {
            Error::refused("this kernel cannot give a mount its flags while nobody sees it")
                .hint("Linux 5.12 can; a restart of the container helps")
        }
        (errno, Some(_)) => failed("map the owners of the files as before", errno),
        (errno, None) => failed("give the new mount its flags", errno),
    })?;
    Ok(tree)
}

/// The user namespace that maps the owners of an id-mapped mount's files: that of its container,
/// as runtimes have it. Without it the mount would show files of people that are not there.
fn owners(old: &Mount, namespace: Option<&File>) -> Result<Option<File>> {
    if !attributes::is_id_mapped(&old.options) {
        return Ok(None);
    }
    let namespace = namespace.ok_or_else(|| {
        Error::refused("its owners are mapped, and by which user namespace is not known")
    })?;
    owner_of_namespace(namespace)
        .map(Some)
        .map_err(|errno| failed("find the user namespace that maps its owners", errno))
}
