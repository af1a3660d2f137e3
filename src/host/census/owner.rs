//! The door of a mount namespace, and who made it.

use super::proc::Proc;
use super::{namespaces, unowned_namespaces};
use crate::host::{files, kernel, machine};
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::disk_users::{NamespaceId, NamespaceKeeper, NamespaceUse};
use crate::model::record::NamespaceSign;
use nix::fcntl::OFlag;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Opens a namespace that was found, for setns(2).
pub(super) fn open(proc: &Proc, namespace: &NamespaceUse) -> Result<File> {
    let wanted = namespace.id.ok_or_else(|| {
        Error::refused("the links of all processes in the mount namespace are closed to us")
    })?;
    let own = namespaces::own_namespace(proc)?;
    match door_to(wanted, proc, namespace, own) {
        Ok(door) => door.ok_or_else(|| Error::new(Kind::Host, "the mount namespace is gone")),
        Err(error) => Err(Error::io("open the mount namespace", &error)),
    }
}

/// Its door, by whatever leads there; nothing if it is gone.
fn door_to(
    wanted: NamespaceId,
    proc: &Proc,
    namespace: &NamespaceUse,
    own: NamespaceId,
) -> io::Result<Option<File>> {
    let by_process = namespace.processes.iter().map(|process| format!("{}/ns/mnt", process.pid));
    let by_keeper = namespace.keepers.iter().filter_map(|keeper| match keeper {
        NamespaceKeeper::OpenIn { process, descriptor } => {
            Some(format!("{}/fd/{descriptor}", process.pid))
        }
        NamespaceKeeper::MountedAt { .. } => None,
    });
    let by_mount = namespace.keepers.iter().filter_map(|keeper| match keeper {
        NamespaceKeeper::MountedAt { place, within } if *within == Some(own) => {
            Some(File::open(place))
        }
        _ => None,
    });
    let doors = by_process.chain(by_keeper).map(|path| proc.open(&path, OFlag::O_RDONLY));
    let mut lack = None;
    for door in doors.chain(by_mount) {
        match files::unless_lack(door.and_then(|door| Ok((door.metadata()?.ino(), door)))) {
            Ok(Some((number, door))) if number == wanted.0 => return Ok(Some(door)),
            Ok(_) => {}
            Err(error) => lack = Some(error),
        }
    }
    match files::unless_lack(unowned_namespaces::open(proc, wanted))?.flatten() {
        Some(door) => Ok(Some(door)),
        None => lack.map_or(Ok(None), Err),
    }
}

/// Opens a namespace by its number. Before Linux 6.12 one without a process is not found, and
/// nothing is missed by that.
pub(super) fn find(proc: &Proc, pids: &[u32], wanted: NamespaceId) -> io::Result<Option<File>> {
    for pid in pids {
        let living = files::unless_lack(proc.living(*pid))?.flatten();
        let Some((task, _)) = living.filter(|(_, found)| *found == wanted) else { continue };
        let door = proc.open(format!("{task}/ns/mnt"), OFlag::O_RDONLY);
        match files::unless_lack(door.and_then(|door| Ok((door.metadata()?.ino(), door))))? {
            Some((number, door)) if number == wanted.0 => return Ok(Some(door)),
            _ => {}
        }
    }
    Ok(files::unless_lack(unowned_namespaces::open(proc, wanted))?.flatten())
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
    let read = |error| Error::io("read by what a mount namespace is known again", &error);
    let count = if counts { count_of(&door).map_err(read)? } else { None };
    let mut dweller = None;
    let processes = namespace.filter(|_| count.is_none()).map(|namespace| &namespace.processes);
    for process in processes.into_iter().flatten() {
        if let Some(began) = began(proc, process.pid).map_err(read)? {
            dweller = Some((process.pid, began));
            break;
        }
    }
    Ok(NamespaceSign { namespace: found.ino(), count, dweller })
}

/// Whether an open namespace is the one that was noted: not a later one of its number.
pub(super) fn is_signed(proc: &Proc, door: &File, sign: &NamespaceSign) -> io::Result<bool> {
    let count = if sign.count.is_some() { count_of(door)? } else { None };
    let began = match sign.dweller {
        Some((pid, _)) => match files::unless_lack(proc.living(pid))?.flatten() {
            Some((_, lives_in)) if lives_in.0 == sign.namespace => began(proc, pid)?,
            _ => None,
        },
        None => None,
    };
    Ok(sign.is_of(count, began))
}

/// The kernel's count of a namespace; none before Linux 6.11.
fn count_of(door: &File) -> io::Result<Option<u64>> {
    files::unless_lack(kernel::id_of_mount_namespace(door).map_err(io::Error::from))
}

/// When a process began; nothing if it has ended.
fn began(proc: &Proc, pid: u32) -> io::Result<Option<u64>> {
    let text = files::unless_lack(proc.read(&format!("{pid}/stat")))?;
    Ok(text.and_then(|text| machine::state_in(&text)).map(|(_, began)| began))
}

/// The ordinary user who made the namespace. A runtime that gives a container users of its own is
/// root when it makes that one.
pub(super) fn of(
    proc: &Proc,
    namespace: &NamespaceUse,
    own: NamespaceId,
) -> io::Result<Option<u32>> {
    let Some(wanted) = namespace.id else { return Ok(None) };
    let Some(door) = door_to(wanted, proc, namespace, own)? else { return Ok(None) };
    let user = kernel::user_of_namespace(&door).map_err(io::Error::from);
    Ok(files::unless_lack(user)?.filter(|user| *user != 0))
}
