//! The door of a mount namespace, and who made it.

use super::proc::Proc;
use super::{namespaces, unowned_namespaces};
use crate::host::kernel;
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::disk_users::{Keeper, NamespaceUse};
use nix::fcntl::OFlag;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// Opens a namespace that was found, for setns(2).
pub(super) fn open(proc: &Proc, namespace: &NamespaceUse) -> Result<File> {
    let gone = || Error::new(Kind::Host, "the mount namespace is gone");
    let wanted = namespace.id.ok_or_else(|| {
        Error::refused("the links of all processes in the mount namespace are closed to us")
    })?;
    let by_process = namespace.processes.iter().map(|process| format!("{}/ns/mnt", process.pid));
    let by_keeper = namespace.keepers.iter().filter_map(|keeper| match keeper {
        Keeper::OpenIn { process, descriptor } => Some(format!("{}/fd/{descriptor}", process.pid)),
        Keeper::MountedAt { .. } => None,
    });
    let own = namespaces::own_namespace(proc)?;
    let by_mount = namespace.keepers.iter().filter_map(|keeper| match keeper {
        Keeper::MountedAt { place, within } if *within == Some(own) => File::open(place).ok(),
        _ => None,
    });
    by_process
        .chain(by_keeper)
        .filter_map(|path| proc.open(&path, OFlag::O_RDONLY).ok())
        .chain(by_mount)
        .find(|door| door.metadata().is_ok_and(|found| found.ino() == wanted.0))
        .map_or_else(|| unowned_namespaces::open(proc, wanted).ok().flatten().ok_or_else(gone), Ok)
}

/// The ordinary user who made the namespace. A runtime that gives a container users of its own is
/// root when it makes that one.
pub(super) fn of(proc: &Proc, namespace: &NamespaceUse) -> Option<u32> {
    let door = open(proc, namespace).ok()?;
    let user = kernel::user_of_namespace(&door).ok()?;
    (user != 0).then_some(user)
}
