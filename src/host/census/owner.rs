//! The door of a mount namespace, and by what it is known again.

use super::inspection::Inspection;
use super::proc::Task;
use super::question::{Door, Found, Question};
use super::scan::Party;
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::disk_users::{NamespaceId, NamespaceKeeper, NamespaceUse};
use crate::model::record::NamespaceSign;
use crate::{files, kernel};
use nix::fcntl::OFlag;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

impl Inspection<'_> {
    /// Opens a namespace that was found, for setns(2).
    pub(super) fn open(&mut self, namespace: &NamespaceUse) -> Result<File> {
        let own = self.own_namespace()?;
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
        match self.scan.open(wanted, by_process.chain(by_keeper).collect()) {
            Ok(door) => door.ok_or_else(|| Error::new(Kind::Host, "the mount namespace is gone")),
            Err(error) => Err(Error::io("open the mount namespace", &error)),
        }
    }

    /// Opens a namespace by what it is known again. Before Linux 6.12 one without a process is not found, and
    /// nothing is missed by that.
    pub(super) fn find_signed(&mut self, sign: &NamespaceSign) -> Result<Option<File>> {
        let wanted = NamespaceId(sign.namespace);
        self.add_new_processes()?;
        let tasks = self.first_tasks();
        self.read_homes(tasks)?;
        if let Some(lack) = self.unread.later.first() {
            return Err(Error::new(Kind::Host, lack.to_string()));
        }
        let read = self.all.iter().filter(|one| one.id == Some(wanted)).flat_map(|one| &one.tasks);
        let unread =
            self.unread.namespaces.get(&wanted).into_iter().flat_map(|(_, tasks, _)| tasks);
        let doors = read.chain(unread).map(|task| Door::Task(*task)).collect();
        let door = self.scan.open(wanted, doors);
        let door =
            door.map_err(|error| Error::io(format!("look for mount namespace {wanted}"), &error))?;
        let Some(door) = door else { return Ok(None) };
        // A later one may have its number.
        let count = if sign.count.is_some() { count_of(&door)? } else { None };
        let began = match sign.dweller {
            Some((pid, _)) => match self.one(&Question::Home(Task::first_of(pid)))? {
                Some(Found::Home(_, namespace)) if namespace == wanted => self.began(pid)?,
                _ => None,
            },
            None => None,
        };
        Ok(sign.is_of(count, began).then_some(door))
    }

    /// By what a namespace is known again; this thread's own if none.
    pub(super) fn sign_of(&mut self, namespace: Option<&NamespaceUse>) -> Result<NamespaceSign> {
        let door = match namespace {
            Some(namespace) => self.open(namespace)?,
            None => self
                .proc
                .open("thread-self/ns/mnt", OFlag::O_RDONLY)
                .map_err(|error| unread(&error))?,
        };
        let number = door.metadata().map_err(|error| unread(&error))?.ino();
        let count = if self.setting.walks_namespaces { count_of(&door)? } else { None };
        let mut dweller = None;
        let processes = namespace.filter(|_| count.is_none()).map(|namespace| &namespace.processes);
        for process in processes.into_iter().flatten() {
            if let Some(began) = self.began(process.pid)? {
                dweller = Some((process.pid, began));
                break;
            }
        }
        Ok(NamespaceSign { namespace: number, count, dweller })
    }

    /// When a process began; nothing if it has ended, or does not answer.
    fn began(&mut self, pid: u32) -> Result<Option<u64>> {
        match self.one(&Question::Began(pid))? {
            Some(Found::Began(began)) => Ok(Some(began)),
            _ => Ok(None),
        }
    }

    /// What one question finds; nothing if it finds nothing or has no answer.
    fn one(&mut self, question: &Question) -> Result<Option<Found>> {
        match self.ask_one(Party::Root, question)?.result() {
            Err(why) if why.is_lack() => Err(unread(&why.into())),
            found => Ok(found.ok().and_then(|found| found.into_iter().next())),
        }
    }
}

/// The kernel's count of a namespace; none before Linux 6.11.
fn count_of(door: &File) -> Result<Option<u64>> {
    files::unless_lack(kernel::id_of_mount_namespace(door).map_err(io::Error::from))
        .map_err(|error| unread(&error))
}

fn unread(error: &io::Error) -> Error {
    Error::io("read by what a mount namespace is known again", error)
}
