//! Mount namespaces and their mounts, as they were read.

use super::inside;
use super::proc::{Proc, Task, has_ended};
use crate::host::files;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{NamespaceId, NamespaceKeeper, Process, Untold};
use crate::model::mount::mountinfo::{Mount, MountTable};
use nix::fcntl::OFlag;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One mount namespace.
#[derive(Debug)]
pub(super) struct Namespace {
    /// Which; unknown if the links of all its processes are closed to us.
    pub(super) id: Option<NamespaceId>,
    /// One thread of each process that lives there.
    pub(super) tasks: Vec<Task>,
    /// Its mounts.
    pub(super) table: Arc<MountTable>,
    /// What keeps it alive without a process.
    pub(super) keepers: Vec<NamespaceKeeper>,
}

impl Namespace {
    pub(super) fn new(
        id: Option<NamespaceId>,
        tasks: Vec<Task>,
        table: impl Into<Arc<MountTable>>,
    ) -> Self {
        Self { id, tasks, table: table.into(), keepers: Vec::new() }
    }

    /// The mounts of these file systems.
    pub(super) fn mounts_of(&self, numbers: &[DeviceNumber]) -> impl Iterator<Item = &Mount> {
        self.table.mounts().iter().filter(|mount| numbers.contains(&mount.number))
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Namespaces {
    /// This thread's.
    pub(super) own: NamespaceId,
    /// Every one, this thread's first.
    pub(super) all: Vec<Namespace>,
    /// What could not be read.
    pub(super) untold: Vec<Untold>,
    /// All that were looked at, with or without success.
    looked_at: HashSet<NamespaceId>,
    /// What there was no time to read, or no descriptor: a later look may tell it.
    pub(super) later: Vec<Untold>,
    /// Whether who asks comes again for what took too long to read, and until then goes on without it.
    comes_again: bool,
}

/// So long a look reads tables that are long; all others are read in any case. What mounts lie in them is
/// up to those who live there, and no reason to hold up others.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Why the mounts of a namespace could not be read.
#[derive(Debug)]
pub(super) struct Unread {
    error: Error,
    later: Later,
}

/// What a later look may tell of what could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Later {
    /// No more: it is closed to us.
    Same,
    /// More: this process lacked something, or time, which says nothing of the namespace.
    More,
    /// The same, unless it has more time.
    MoreWithTime,
}

impl Unread {
    pub(super) fn io(doing: impl std::fmt::Display, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::TimedOut {
            let why = "its mounts are so many, or lie so deep on each other, that reading them was given up";
            return Self { error: Error::new(Kind::Timeout, why), later: Later::MoreWithTime };
        }
        let later = if files::is_lack(error) { Later::More } else { Later::Same };
        Self { error: Error::io(doing, error), later }
    }

    pub(super) fn of(error: Error) -> Self {
        Self { error, later: Later::Same }
    }

    pub(super) fn in_time() -> Self {
        let error = Error::new(Kind::Timeout, "no time was left to look at it");
        Self { error, later: Later::More }
    }

    /// Whether it may be read in more time.
    pub(super) fn took_too_long(&self) -> bool {
        self.later == Later::MoreWithTime
    }

    pub(super) fn into_error(self) -> Error {
        self.error
    }

    /// The same of where these processes live.
    pub(super) fn of_those(mut self, proc: &Proc, tasks: &[Task]) -> Error {
        let first = tasks.iter().find_map(|task| proc.describe(task.pid).ok());
        if let Some(first) = first.filter(|_| self.took_too_long()) {
            self = self.ended_by(&first);
            self.error.cause = format!("process {first}: {}", self.error.cause);
        }
        self.error
    }

    /// With the command that ends it, if it took too long.
    fn ended_by(mut self, process: &Process) -> Self {
        if self.took_too_long() {
            self.error.cause += &format!(" (kill {})", process.pid);
        }
        self
    }
}

impl Namespaces {
    /// This thread's, and the ids of those that are about to be read.
    pub(super) fn beginning_with(
        own: NamespaceId,
        first: Namespace,
        others: impl Iterator<Item = NamespaceId>,
        comes_again: bool,
    ) -> Self {
        let looked_at = others.chain([own]).collect();
        let (untold, later) = (Vec::new(), Vec::new());
        Self { own, all: vec![first], untold, looked_at, later, comes_again }
    }

    /// Notes something that could not be read.
    pub(super) fn miss(&mut self, what: String, unread: Unread) {
        self.miss_of(what, unread, BTreeSet::new());
    }

    /// The same of where these processes live.
    pub(super) fn miss_where_they_live(
        &mut self,
        proc: &Proc,
        id: NamespaceId,
        tasks: &[Task],
        mut unread: Unread,
    ) {
        let mut what = format!("mount namespace {id}");
        let known: Vec<_> = tasks.iter().filter_map(|task| proc.describe(task.pid).ok()).collect();
        if let Some(first) = known.first() {
            what += &format!(" of process {first}");
            unread = unread.ended_by(first);
        }
        let pods = known.into_iter().filter_map(|process| process.owner.pod).collect();
        self.miss_of(what, unread, pods);
    }

    fn miss_of(&mut self, what: String, unread: Unread, pods: BTreeSet<ConsumerId>) {
        let untold = Untold { what, why: unread.error.cause, pods };
        let noted = match unread.later {
            Later::More => &mut self.later,
            Later::MoreWithTime if self.comes_again => &mut self.later,
            Later::MoreWithTime | Later::Same => &mut self.untold,
        };
        if !noted.contains(&untold) {
            noted.push(untold);
        }
    }

    /// Whether a namespace was looked at.
    pub(super) fn knows(&self, id: NamespaceId) -> bool {
        self.looked_at.contains(&id)
    }

    /// Adds one that was found by other means than its processes, with its mounts if they could
    /// be read.
    pub(super) fn add(&mut self, id: NamespaceId, table: std::result::Result<MountTable, Unread>) {
        self.looked_at.insert(id);
        match table {
            Ok(table) => self.all.push(Namespace::new(Some(id), Vec::new(), table)),
            Err(unread) => self.miss(format!("mount namespace {id}"), unread),
        }
    }

    /// Every mount of the machine by its id, which is unique among all namespaces.
    pub(super) fn by_mount(&self) -> HashMap<u32, &Mount> {
        let mounts = self.all.iter().flat_map(|namespace| namespace.table.mounts());
        mounts.map(|mount| (mount.id, mount)).collect()
    }

    /// A process with a closed link lives where its mounts are: each is in one namespace only.
    pub(super) fn place_closed(&mut self, proc: &Proc, task: Task, end: Instant) {
        match closed_table(proc, task, end) {
            Ok(Some(table)) => {
                match self.all.iter_mut().find(|other| are_one(&other.table, &table)) {
                    Some(namespace) => namespace.tasks.push(task),
                    None => self.all.push(Namespace::new(None, vec![task], table)),
                }
            }
            Ok(None) => {}
            Err(unread) => {
                let process = proc
                    .describe(task.pid)
                    .map_or_else(|_| task.pid.to_string(), |it| it.to_string());
                self.miss(format!("the mounts of process {process}"), unread);
            }
        }
    }
}

/// This thread's mount namespace.
pub(super) fn own_namespace(proc: &Proc) -> Result<NamespaceId> {
    proc.namespace_at("thread-self")
        .map_err(|error| Error::io("look up this process's mount namespace", &error))
}

/// Whether two tables are of one namespace.
pub(super) fn are_one(one: &MountTable, other: &MountTable) -> bool {
    let ids: HashSet<_> = one.mounts().iter().map(|mount| mount.id).collect();
    other.mounts().iter().any(|mount| ids.contains(&mount.id))
}

/// The mounts of a namespace; nothing if all who lived there have ended.
pub(super) type Looked = std::result::Result<Option<MountTable>, Unread>;

/// The mounts of a process whose links are closed to us: its list of them is open to all.
/// Nothing if it has ended.
pub(super) fn closed_table(proc: &Proc, task: Task, end: Instant) -> Looked {
    match proc.table(task, end) {
        Ok(text) => MountTable::parse(&text).map(Some).map_err(Unread::of),
        Err(error) if has_ended(&error) => Ok(None),
        Err(error) => Err(Unread::io("read its mountinfo", &error)),
    }
}

/// The mounts of the namespace in which these live; nothing if all of them have ended.
///
/// A process whose root is a folder further down sees only what is mounted below that. So one at
/// the namespace's own root is asked; where there is none, we go in and look. A long table is given up
/// after `end`.
pub(super) fn table_of(proc: &Proc, id: NamespaceId, tasks: &[Task], end: Instant) -> Looked {
    let mut further_down = Vec::new();
    for task in tasks {
        match proc.link(&format!("{task}/root")) {
            // For a process of another namespace the kernel spells the path from the root of that.
            Ok(root) if root == Path::new("/") => match proc.table(*task, end) {
                Ok(text) => return MountTable::parse(&text).map(Some).map_err(Unread::of),
                Err(error) if has_ended(&error) => {}
                Err(error) => return Err(Unread::io("read its mountinfo", &error)),
            },
            Err(error) if has_ended(&error) => {}
            Ok(_) | Err(_) => further_down.push(*task),
        }
    }
    for task in further_down {
        let door = proc.open(format!("{task}/ns/mnt"), OFlag::O_RDONLY);
        let door = match door.and_then(|door| Ok((door, proc.namespace(task)?))) {
            // Its number may be another process's by now.
            Ok((door, now)) if now == id => door,
            Ok(_) => continue,
            Err(error) if has_ended(&error) => continue,
            Err(error) => return Err(Unread::io("open it", &error)),
        };
        let text = inside::table(proc, &door, end).map_err(|error| {
            let root = "all who live there have another root than it, and entering it failed";
            Unread::io(root, &error)
        })?;
        return MountTable::parse(&text).map(Some).map_err(Unread::of);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is closed to us is told, and what hides there keeps the disk in use. What we lacked may be
    /// the very one that is looked for.
    #[test]
    fn what_this_process_lacks_is_for_a_later_look() {
        use nix::libc::{EACCES, EINVAL, EMFILE, ENOMEM, EPERM};
        let read = |errno| {
            let own = Namespace::new(None, Vec::new(), MountTable::default());
            let mut every =
                Namespaces::beginning_with(NamespaceId(1), own, std::iter::empty(), false);
            let error = io::Error::from_raw_os_error(errno);
            every.add(NamespaceId(5), Err(Unread::io("open it", &error)));
            (every.untold.len(), every.later.len())
        };
        for errno in [EACCES, EPERM, EINVAL] {
            assert_eq!(read(errno), (1, 0));
        }
        for errno in [EMFILE, ENOMEM] {
            assert_eq!(read(errno), (0, 1));
        }
    }
}
