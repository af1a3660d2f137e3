//! The door of a mount namespace, and who made it.

use super::proc::Proc;
use super::{namespaces, unowned_namespaces};
use crate::host::{kernel, machine};
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::disk_users::{NamespaceKeeper, NamespaceUse};
use crate::model::record::NamespaceSign;
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
        NamespaceKeeper::OpenIn { process, descriptor } => {
            Some(format!("{}/fd/{descriptor}", process.pid))
        }
        NamespaceKeeper::MountedAt { .. } => None,
    });
    let own = namespaces::own_namespace(proc)?;
    let by_mount = namespace.keepers.iter().filter_map(|keeper| match keeper {
        NamespaceKeeper::MountedAt { place, within } if *within == Some(own) => {
            File::open(place).ok()
        }
        _ => None,
    });
    by_process
        .chain(by_keeper)
        .filter_map(|path| proc.open(&path, OFlag::O_RDONLY).ok())
        .chain(by_mount)
        .find(|door| door.metadata().is_ok_and(|found| found.ino() == wanted.0))
        .map_or_else(|| unowned_namespaces::open(proc, wanted).ok().flatten().ok_or_else(gone), Ok)
}

/// By what a namespace is known again; this thread's own if none. `counts` is whether the kernel may
/// be asked for its count.
pub(super) fn sign_of(
    proc: &Proc,
    namespace: Option<&NamespaceUse>,
    counts: bool,
) -> Result<NamespaceSign> {
    let own = || {
        let door = proc.open("thread-self/ns/mnt", OFlag::O_RDONLY);
        door.map_err(|error| Error::io("open this process's mount namespace", &error))
    };
    let door = namespace.map_or_else(own, |namespace| open(proc, namespace))?;
    let found = door.metadata().map_err(|error| Error::io("look at a mount namespace", &error))?;
    let count = counts.then(|| kernel::id_of_mount_namespace(&door).ok()).flatten();
    let dweller = || {
        let processes = &namespace?.processes;
        processes.iter().find_map(|process| Some((process.pid, began(proc, process.pid)?)))
    };
    let dweller = if count.is_none() { dweller() } else { None };
    Ok(NamespaceSign { namespace: found.ino(), count, dweller })
}

/// Whether an open namespace is the one that was noted: not a later one of its number.
pub(super) fn is_signed(proc: &Proc, door: &File, sign: &NamespaceSign) -> bool {
    let count = sign.count.and_then(|_| kernel::id_of_mount_namespace(door).ok());
    let began = sign.dweller.and_then(|(pid, _)| {
        let (_, lives_in) = proc.living(pid).ok().flatten()?;
        (lives_in.0 == sign.namespace).then(|| began(proc, pid))?
    });
    sign.is_of(count, began)
}

/// When a process began.
fn began(proc: &Proc, pid: u32) -> Option<u64> {
    machine::state_in(&proc.read(&format!("{pid}/stat")).ok()?).map(|(_, began)| began)
}

/// The ordinary user who made the namespace. A runtime that gives a container users of its own is
/// root when it makes that one.
pub(super) fn of(proc: &Proc, namespace: &NamespaceUse) -> Option<u32> {
    let door = open(proc, namespace).ok()?;
    let user = kernel::user_of_namespace(&door).ok()?;
    (user != 0).then_some(user)
}
