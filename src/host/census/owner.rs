//! The door of a mount namespace, and by what it is known again.

use super::inspection::Inspection;
use super::namespaces::{own_namespace, placed};
use super::proc::Task;
use super::question::{Door, Found, Question, Why};
use super::scan::{Party, Response};
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::disk_users::{NamespaceId, NamespaceKeeper, NamespaceUse};
use crate::model::record::NamespaceSign;
use crate::{files, kernel};
use nix::fcntl::OFlag;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

impl Inspection<'_> {
    /// Opens a namespace that was found, for setns(2).
    pub(super) fn open(&mut self, namespace: &NamespaceUse) -> Result<File> {
        let own = own_namespace(&self.proc)?;
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
        match self.scan.open(wanted.0, by_process.chain(by_keeper).collect()) {
            Ok(door) => door.ok_or_else(|| Error::new(Kind::Host, "the mount namespace is gone")),
            Err(error) => Err(Error::io("open the mount namespace", &error)),
        }
    }

    /// Opens a namespace by what it is known again. Before Linux 6.12 one without a process is not found, and
    /// nothing is missed by that.
    pub(super) fn find_signed(&mut self, sign: &NamespaceSign) -> Result<Option<File>> {
        let wanted = NamespaceId(sign.namespace);
        let failed = |error| Error::io(format!("look for mount namespace {wanted}"), &error);
        self.read_namespaces(&BTreeSet::new())?;
        self.must_be_whole()?;
        let found = self.all.iter().find(|one| one.id == Some(wanted));
        let doors =
            found.into_iter().flat_map(|one| one.tasks.iter().map(|task| Door::Task(*task)));
        let doors = doors.collect();
        let Some(door) = self.scan.open(wanted.0, doors).map_err(failed)? else { return Ok(None) };
        let is_signed = self.is_signed(&door, sign).map_err(failed)?;
        Ok(is_signed.then_some(door))
    }

    /// By what a namespace is known again; this thread's own if none.
    pub(super) fn sign_of(&mut self, namespace: Option<&NamespaceUse>) -> Result<NamespaceSign> {
        let door = match namespace {
            Some(namespace) => self.open(namespace)?,
            None => self
                .proc
                .open("thread-self/ns/mnt", OFlag::O_RDONLY)
                .map_err(|error| Error::io("open this process's mount namespace", &error))?,
        };
        let read = |error| Error::io("read by what a mount namespace is known again", &error);
        let number = door.metadata().map_err(read)?.ino();
        let counts = self.setting.walks_namespaces;
        let count = if counts { count_of(&door).map_err(read)? } else { None };
        let mut dweller = None;
        let processes = namespace.filter(|_| count.is_none()).map(|namespace| &namespace.processes);
        for process in processes.into_iter().flatten() {
            if let Some(began) = self.began(process.pid).map_err(read)? {
                dweller = Some((process.pid, began));
                break;
            }
        }
        Ok(NamespaceSign { namespace: number, count, dweller })
    }

    /// Whether an open namespace is the one that was noted: not a later one of its number.
    fn is_signed(&mut self, door: &File, sign: &NamespaceSign) -> io::Result<bool> {
        let count = if sign.count.is_some() { count_of(door)? } else { None };
        let Some((pid, _)) = sign.dweller else { return Ok(sign.is_of(count, None)) };
        let place = self.one(Question::Place(Task::first_of(pid)))?.as_ref().and_then(placed);
        let lives_there = place.is_some_and(|(_, id)| id.0 == sign.namespace);
        let began = if lives_there { self.began(pid)? } else { None };
        Ok(sign.is_of(count, began))
    }

    /// When a process began; nothing if it has ended, or does not answer.
    fn began(&mut self, pid: u32) -> io::Result<Option<u64>> {
        Ok(self.one(Question::Began(pid))?.and_then(|one| match one {
            Found::Began(began) => Some(began),
            _ => None,
        }))
    }

    /// What one question finds; nothing if it finds nothing or has no answer.
    fn one(&mut self, question: Question) -> io::Result<Option<Found>> {
        let told = self.scan.ask(&self.filter, &[(Party::Root, question)])?.pop();
        match told.map(Response::result) {
            Some(Err(Why::Failed(failure))) if failure.is_lack() => Err(failure.into()),
            Some(Ok(found)) => Ok(found.into_iter().next()),
            _ => Ok(None),
        }
    }
}

/// The kernel's count of a namespace; none before Linux 6.11.
fn count_of(door: &File) -> io::Result<Option<u64>> {
    files::unless_lack(kernel::id_of_mount_namespace(door).map_err(io::Error::from))
}
