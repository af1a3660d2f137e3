//! The door of a mount namespace, and by what it is known again.

use super::namespaces::placed;
use super::proc::{Proc, Task};
use super::question::{Door, Filter, Found, Question, Why};
use super::roster::Roster;
use super::scan::{Asked, Scan};
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::disk_users::{NamespaceId, NamespaceKeeper, NamespaceUse};
use crate::model::record::NamespaceSign;
use crate::{files, kernel};
use nix::fcntl::OFlag;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Opens a namespace that was found, for setns(2).
pub(super) fn open(scan: &mut Scan, namespace: &NamespaceUse, own: NamespaceId) -> Result<File> {
    let wanted = namespace.id.ok_or_else(|| {
        Error::refused("the links of all processes in the mount namespace are closed to us")
    })?;
    let by_process = namespace.processes.iter().map(|one| Door::Task(Task::first_of(one.pid)));
    let by_keeper = namespace.keepers.iter().filter_map(|keeper| match keeper {
        NamespaceKeeper::OpenIn { process, descriptor } => {
            Some(Door::Descriptor { pid: process.pid, descriptor: *descriptor })
        }
        NamespaceKeeper::MountedAt { place, within } if *within == Some(own) => {
            Some(Door::Mounted { within: None, place: place.into() })
        }
        NamespaceKeeper::MountedAt { .. } | NamespaceKeeper::Unexamined(_) => None,
    });
    match scan.open(wanted.0, by_process.chain(by_keeper).collect(), true) {
        Ok(door) => door.ok_or_else(|| Error::new(Kind::Host, "the mount namespace is gone")),
        Err(error) => Err(Error::io("open the mount namespace", &error)),
    }
}

/// Opens a namespace by its number. Before Linux 6.12 one without a process is not found, and
/// nothing is missed by that.
pub(super) fn find(scan: &mut Scan, proc: &Proc, wanted: NamespaceId) -> Result<Option<File>> {
    let mut roster = Roster::default();
    // Of those that cannot be classified it is not known where they live either.
    roster.add_new(proc)?;
    let asked = roster.in_order().into_iter().map(|(owner, pid)| Asked {
        question: Question::Place { task: Task::first_of(pid), or_another: true },
        owner: Some(owner),
    });
    let look = |error| Error::io(format!("look for mount namespace {wanted}"), &error);
    let mut doors = Vec::new();
    for told in scan.ask(proc, &Filter::default(), asked).map_err(look)? {
        match told.result() {
            Ok(found) => {
                let placed = found.iter().find_map(placed).filter(|(_, id)| *id == wanted);
                doors.extend(placed.map(|(task, _)| Door::Task(task)));
            }
            Err(Why::Failed(failure)) if failure.is_lack() => return Err(look(failure.into())),
            Err(_) => {}
        }
    }
    scan.open(wanted.0, doors, true).map_err(look)
}

/// By what a namespace is known again; this thread's own if none. `counts` is whether the kernel may
/// be asked for its count.
pub(super) fn sign_of(
    scan: &mut Scan,
    proc: &Proc,
    namespace: Option<&NamespaceUse>,
    (own, counts): (NamespaceId, bool),
) -> Result<NamespaceSign> {
    let door = match namespace {
        Some(namespace) => open(scan, namespace, own)?,
        None => proc
            .open("thread-self/ns/mnt", OFlag::O_RDONLY)
            .map_err(|error| Error::io("open this process's mount namespace", &error))?,
    };
    let found = door.metadata().map_err(|error| Error::io("look at a mount namespace", &error))?;
    let read = |error| Error::io("read by what a mount namespace is known again", &error);
    let count = if counts { count_of(&door).map_err(read)? } else { None };
    let mut dweller = None;
    let processes = namespace.filter(|_| count.is_none()).map(|namespace| &namespace.processes);
    for process in processes.into_iter().flatten() {
        if let Some(began) = began(scan, proc, process.pid).map_err(read)? {
            dweller = Some((process.pid, began));
            break;
        }
    }
    Ok(NamespaceSign { namespace: found.ino(), count, dweller })
}

/// Whether an open namespace is the one that was noted: not a later one of its number.
pub(super) fn is_signed(
    scan: &mut Scan,
    proc: &Proc,
    door: &File,
    sign: &NamespaceSign,
) -> io::Result<bool> {
    let count = if sign.count.is_some() { count_of(door)? } else { None };
    let began = match sign.dweller {
        Some((pid, _)) => {
            let question = Question::Place { task: Task::first_of(pid), or_another: true };
            let found = one(scan, proc, question)?;
            let lives_there =
                found.iter().find_map(placed).is_some_and(|(_, id)| id.0 == sign.namespace);
            if lives_there { began(scan, proc, pid)? } else { None }
        }
        None => None,
    };
    Ok(sign.is_of(count, began))
}

/// The kernel's count of a namespace; none before Linux 6.11.
fn count_of(door: &File) -> io::Result<Option<u64>> {
    files::unless_lack(kernel::id_of_mount_namespace(door).map_err(io::Error::from))
}

/// When a process began; nothing if it has ended, or does not answer.
fn began(scan: &mut Scan, proc: &Proc, pid: u32) -> io::Result<Option<u64>> {
    Ok(state_of(scan, proc, pid)?.map(|(_, began)| began))
}

/// The state of a process, and when it began; nothing if it has ended, or does not answer.
pub(super) fn state_of(scan: &mut Scan, proc: &Proc, pid: u32) -> io::Result<Option<(char, u64)>> {
    let found = one(scan, proc, Question::State(pid))?;
    Ok(found.into_iter().find_map(|one| match one {
        Found::State(state, began) => Some((state, began)),
        _ => None,
    }))
}

/// What one question finds; nothing if it finds nothing or has no answer.
fn one(scan: &mut Scan, proc: &Proc, question: Question) -> io::Result<Vec<Found>> {
    let asked = vec![Asked { question, owner: None }];
    match scan.ask(proc, &Filter::default(), asked)?.pop().map(super::scan::Response::result) {
        Some(Err(Why::Failed(failure))) if failure.is_lack() => Err(failure.into()),
        Some(Ok(found)) => Ok(found),
        _ => Ok(Vec::new()),
    }
}
