//! All mount namespaces of the machine, each read once.

use super::proc::{Proc, Task, has_ended};
use super::{inside, parallel, unowned_namespaces};
use crate::model::deadline::Deadline;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{Keeper, NamespaceId, Untold};
use crate::model::mount::mountinfo::{Mount, MountTable};
use nix::fcntl::OFlag;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

/// One mount namespace.
#[derive(Debug)]
pub(super) struct Namespace {
    /// Which; unknown if the links of all its processes are closed to us.
    pub(super) id: Option<NamespaceId>,
    /// One thread of each process that lives there.
    pub(super) tasks: Vec<Task>,
    /// Its mounts.
    pub(super) table: MountTable,
    /// What keeps it alive without a process.
    pub(super) keepers: Vec<Keeper>,
}

impl Namespace {
    pub(super) fn new(id: Option<NamespaceId>, tasks: Vec<Task>, table: MountTable) -> Self {
        Self { id, tasks, table, keepers: Vec::new() }
    }

    /// The mounts of these file systems.
    pub(super) fn mounts_of(&self, numbers: &[DeviceNumber]) -> impl Iterator<Item = &Mount> {
        self.table.mounts().iter().filter(|mount| numbers.contains(&mount.number))
    }
}

/// Who is read first, and until when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Haste<'a> {
    pub(super) first: &'a BTreeSet<ConsumerId>,
    pub(super) deadline: Deadline,
}

impl Haste<'_> {
    /// Where a namespace stands in the row, by some of those who live there.
    fn place_of(&self, proc: &Proc, tasks: &[Task]) -> u8 {
        /// A pod's namespace has its processes, and perhaps a watcher or two.
        const ASKED: usize = 4;
        let pods = tasks.iter().take(ASKED).map(|task| proc.describe(task.pid).owner.pod);
        let place = |pod: Option<ConsumerId>| match pod {
            Some(pod) if self.first.contains(&pod) => 0,
            Some(_) => 1,
            None => 2,
        };
        pods.map(place).min().unwrap_or(2)
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Atlas {
    /// This thread's.
    pub(super) own: NamespaceId,
    /// Every one, this thread's first.
    pub(super) namespaces: Vec<Namespace>,
    /// What could not be read.
    pub(super) untold: Vec<Untold>,
    /// All that were looked at, with or without success.
    looked_at: HashSet<NamespaceId>,
}

impl Atlas {
    /// Reads them all. `walk` is whether the kernel may be asked for those where nobody lives.
    pub(super) fn read(
        proc: &Proc,
        pids: &[u32],
        numbers: &[DeviceNumber],
        walk: bool,
        haste: Option<Haste<'_>>,
    ) -> Result<Self> {
        let own = own_namespace(proc)?;
        let (mut by_id, closed) = by_namespace(proc, pids);
        let tasks = by_id.remove(&own).unwrap_or_default();
        let first = Namespace::new(Some(own), tasks, proc.own_table()?);
        let mut atlas = Self {
            own,
            namespaces: vec![first],
            untold: Vec::new(),
            looked_at: by_id.keys().copied().chain([own]).collect(),
        };
        let mut others: Vec<_> = by_id.into_iter().collect();
        if let Some(haste) = &haste {
            others.sort_by_cached_key(|(_, tasks)| haste.place_of(proc, tasks));
        }
        let late = || haste.is_some_and(|haste| haste.deadline.over());
        let tables = parallel::each(&others, 16, |others| {
            let table = |(id, tasks): &(NamespaceId, Vec<Task>)| {
                if late() {
                    return Err(Error::new(Kind::Timeout, "no time was left to look at it"));
                }
                table_of(proc, *id, tasks)
            };
            others.iter().map(table).collect::<Vec<_>>()
        });
        for ((id, tasks), table) in others.into_iter().zip(tables.into_iter().flatten()) {
            match table {
                Ok(Some(table)) => atlas.namespaces.push(Namespace::new(Some(id), tasks, table)),
                Ok(None) => {}
                Err(error) => atlas.miss(format!("mount namespace {id}"), error.cause),
            }
        }
        if late() {
            atlas.miss("where no process lives".to_owned(), "no time was left to look");
            return Ok(atlas);
        }
        unowned_namespaces::add(&mut atlas, proc, numbers, walk, &late);
        for task in closed {
            atlas.place_closed(proc, task);
        }
        Ok(atlas)
    }

    /// Notes something that could not be read.
    pub(super) fn miss(&mut self, what: String, why: impl Into<String>) {
        self.untold.push(Untold { what, why: why.into() });
    }

    /// Whether a namespace was looked at.
    pub(super) fn knows(&self, id: NamespaceId) -> bool {
        self.looked_at.contains(&id)
    }

    /// Adds one that was found by other means than its processes, with its mounts if they could
    /// be read.
    pub(super) fn add(&mut self, id: NamespaceId, table: std::result::Result<MountTable, String>) {
        self.looked_at.insert(id);
        match table {
            Ok(table) => self.namespaces.push(Namespace::new(Some(id), Vec::new(), table)),
            Err(why) => self.miss(format!("mount namespace {id}"), why),
        }
    }

    /// Every mount of the machine by its id, which is unique among all namespaces.
    pub(super) fn by_mount(&self) -> HashMap<u32, &Mount> {
        let mounts = self.namespaces.iter().flat_map(|namespace| namespace.table.mounts());
        mounts.map(|mount| (mount.id, mount)).collect()
    }

    /// A process with a closed link lives where its mounts are: each is in one namespace only.
    fn place_closed(&mut self, proc: &Proc, task: Task) {
        match closed_table(proc, task) {
            Ok(Some(table)) => {
                match self.namespaces.iter_mut().find(|other| are_one(&other.table, &table)) {
                    Some(namespace) => namespace.tasks.push(task),
                    None => self.namespaces.push(Namespace::new(None, vec![task], table)),
                }
            }
            Ok(None) => {}
            Err(error) => {
                self.miss(
                    format!("the mounts of process {}", proc.describe(task.pid)),
                    error.cause,
                );
            }
        }
    }
}

/// The processes by their namespaces, and those whose links are closed to us.
fn by_namespace(proc: &Proc, pids: &[u32]) -> (BTreeMap<NamespaceId, Vec<Task>>, Vec<Task>) {
    let mut by_id: BTreeMap<NamespaceId, Vec<Task>> = BTreeMap::new();
    let mut closed = Vec::new();
    for pid in pids {
        match proc.living(*pid) {
            Ok(Some((task, id))) => by_id.entry(id).or_default().push(task),
            Ok(None) => {}
            Err(_) => closed.push(Task::first_of(*pid)),
        }
    }
    (by_id, closed)
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

/// The mounts of a process whose links are closed to us: its list of them is open to everybody.
/// Nothing if it has ended.
pub(super) fn closed_table(proc: &Proc, task: Task) -> Result<Option<MountTable>> {
    match proc.table(task) {
        Ok(text) => MountTable::parse(&text).map(Some),
        Err(error) if has_ended(&error) => Ok(None),
        Err(error) => Err(Error::io("read its mountinfo", &error)),
    }
}

/// The mounts of the namespace in which these live; nothing if all of them have ended.
///
/// A process whose root is a folder further down sees only what is mounted below that. So one at
/// the namespace's own root is asked; where there is none, we go in and look.
pub(super) fn table_of(proc: &Proc, id: NamespaceId, tasks: &[Task]) -> Result<Option<MountTable>> {
    let mut further_down = Vec::new();
    for task in tasks {
        match proc.link(&format!("{task}/root")) {
            // For a process of another namespace the kernel spells the path from the root of that.
            Ok(root) if root == Path::new("/") => match proc.table(*task) {
                Ok(text) => return MountTable::parse(&text).map(Some),
                Err(error) if has_ended(&error) => {}
                Err(error) => return Err(Error::io("read its mountinfo", &error)),
            },
            Err(error) if has_ended(&error) => {}
            Ok(_) | Err(_) => further_down.push(*task),
        }
    }
    for task in further_down {
        let door = match proc.open(format!("{task}/ns/mnt"), OFlag::O_RDONLY) {
            // Its number may be another process's by now.
            Ok(door) if proc.namespace(task).is_ok_and(|now| now == id) => door,
            Ok(_) => continue,
            Err(error) if has_ended(&error) => continue,
            Err(error) => return Err(Error::io("open it", &error)),
        };
        let text = inside::table(proc, &door).map_err(|error| {
            let root = "all who live there have another root than it, and entering it failed";
            Error::io(root, &error)
        })?;
        return MountTable::parse(&text).map(Some);
    }
    Ok(None)
}
