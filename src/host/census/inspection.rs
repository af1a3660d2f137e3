//! One question: what was read to answer it, and what could not be read.

use super::proc::{Proc, Task};
use super::question::{Filter, Found, KernelError, Question, Why};
use super::scan::{Party, Response, Scan};
use crate::model::cgroup::Owner;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Result};
use crate::model::face::Faces;
use crate::model::mount::disk_users::{
    NamespaceId, NamespaceKeeper, NamespaceUse, Process, Untold,
};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::ownership::{Machine, beneath};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};

/// Where to look, and how.
#[derive(Debug, Clone)]
pub(super) struct CensusSetting {
    pub(super) proc: PathBuf,
    pub(super) sysfs: PathBuf,
    pub(super) dev: PathBuf,
    /// Whether the kernel may be asked for its list of mount namespaces.
    pub(super) walks_namespaces: bool,
    pub(super) faces: Faces,
    /// Whose cgroups are believed.
    pub(super) trusted: u32,
    /// Where calls take turns to enter namespaces that no process keeps alive.
    pub(super) turns: Option<PathBuf>,
}

/// One mount namespace.
#[derive(Debug)]
pub(super) struct Namespace {
    /// Which; unknown if the links of all its processes are closed to us.
    pub(super) id: Option<NamespaceId>,
    /// One thread of each process that lives there.
    pub(super) tasks: Vec<Task>,
    /// Of this thread's namespace all mounts, of others those that the filter asks for.
    pub(super) table: Arc<MountTable>,
    /// The id of the first mount of all.
    pub(super) first: u32,
    /// The ordinary user who made it.
    pub(super) user: Option<u32>,
    /// What keeps it alive without a process.
    pub(super) keepers: Vec<NamespaceKeeper>,
    /// Whose share pays for questions about it.
    pub(super) owner: Party,
}

impl Namespace {
    /// The mounts of these file systems.
    pub(super) fn mounts_of(&self, numbers: &[DeviceNumber]) -> impl Iterator<Item = &Mount> {
        self.table.mounts().iter().filter(|mount| numbers.contains(&mount.number))
    }

    /// Whether one of these mounts is in it: their ids are unique among all namespaces.
    pub(super) fn has_any(&self, mut ids: impl Iterator<Item = u32>) -> bool {
        ids.any(|id| self.first == id || self.table.mounts().iter().any(|mount| mount.id == id))
    }
}

/// What was not read, as it is found.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// Whether who asks comes again for what took too long, and until then goes on without it.
    pub(super) comes_again: bool,
    pub(super) untold: Vec<Untold>,
    pub(super) later: Vec<Untold>,
    /// Processes, or all that they hold.
    pub(super) processes: BTreeMap<u32, Why>,
    /// Those of them that list their mounts, which are all that their namespaces have: they hide none.
    pub(super) seen: BTreeSet<u32>,
}

impl Unread {
    /// A later look may tell it.
    pub(super) fn later(&mut self, what: String, why: &Why) {
        self.later.push(Untold::of_unknown(what, why.text()));
    }
}

pub(super) struct Inspection<'a> {
    pub(super) setting: &'a CensusSetting,
    pub(super) proc: Proc,
    pub(super) filter: Filter,
    pub(super) scan: MutexGuard<'a, Scan>,
    /// Every process with its owner. Each is classified once: ordinary users may have as many as the kernel allows. The
    /// next look starts over, because a process can be moved into a pod's cgroup at any time.
    pub(super) processes: BTreeMap<u32, Process>,
    /// The mount namespaces, this thread's first.
    pub(super) all: Vec<Namespace>,
    pub(super) unread: Unread,
}

impl Inspection<'_> {
    pub(super) fn ask(&mut self, asked: &[(Party, Question)]) -> Result<Vec<Response>> {
        let told = self.scan.ask(&self.filter, asked);
        told.map_err(|error| Error::io("read other processes", &error))
    }

    /// Lists the processes, and adds those that were not there before.
    pub(super) fn add_new_processes(&mut self) -> Result<()> {
        let pids = self.proc.pids();
        for pid in pids.map_err(|error| Error::io("list this machine's processes", &error))? {
            if self.processes.contains_key(&pid) {
                continue;
            }
            match self.proc.process(pid) {
                Ok(process) => drop(self.processes.insert(pid, process)),
                Err(error) => {
                    let why = Why::Failed(KernelError::from(error));
                    self.unread.later(format!("the owner of process {pid}"), &why);
                }
            }
        }
        Ok(())
    }

    /// The machine's own processes, then those of pods and containers, then those of ordinary users.
    pub(super) fn in_order(&self) -> Vec<(Party, u32)> {
        in_order(self.processes.iter().map(|(pid, process)| (Party::of(process), *pid)))
    }

    /// A process that could not be classified, or has ended, counts as the machine's own.
    pub(super) fn party(&self, pid: u32) -> Party {
        self.processes.get(&pid).map_or(Party::Root, Party::of)
    }

    pub(super) fn process(&self, pid: u32) -> Process {
        let unknown =
            || Process { pid, command: String::new(), owner: Owner::default(), user: None };
        self.processes.get(&pid).cloned().unwrap_or_else(unknown)
    }

    /// Every namespace but this thread's that mounts one of the file systems.
    pub(super) fn uses(&self) -> Vec<NamespaceUse> {
        let numbers = &self.filter.numbers;
        let machine = Machine::new(self.setting.faces, &self.all[0].table, None, numbers);
        let mut uses = Vec::new();
        for one in &self.all[1..] {
            let mounts: Vec<_> = one.mounts_of(numbers).cloned().collect();
            if mounts.is_empty() {
                continue;
            }
            let served = machine.pod_served(&one.table);
            let process = |pid: u32| {
                let mut process = self.process(pid);
                // Its container runs in no cgroup of the pod's.
                process.owner.pod = process.owner.pod.or_else(|| served.clone());
                process
            };
            uses.push(NamespaceUse {
                id: one.id,
                beneath: beneath(&mounts, &one.table),
                mounts,
                processes: one.tasks.iter().map(|task| process(task.pid)).collect(),
                keepers: one.keepers.clone(),
                user: one.user,
            });
        }
        uses
    }
}

/// Sorts by class, and within a class so that each owner has one before any has two: an owner of many delays no other.
pub(super) fn in_order<T>(all: impl Iterator<Item = (Party, T)>) -> Vec<(Party, T)> {
    let mut counts: HashMap<Party, usize> = HashMap::new();
    let mut numbered: Vec<(usize, (Party, T))> = all
        .map(|(owner, one)| {
            let count = counts.entry(owner.clone()).or_default();
            *count += 1;
            (*count, (owner, one))
        })
        .collect();
    numbered.sort_by_key(|(count, (owner, _))| (owner.class(), *count));
    numbered.into_iter().map(|(_, one)| one).collect()
}

pub(super) fn namespace_in(
    found: &[Found],
    id: Option<NamespaceId>,
    tasks: Vec<Task>,
    owner: Party,
) -> Result<Option<Namespace>> {
    let excerpt = found.iter().find_map(|one| match one {
        Found::Table { lines, first, .. } => Some((lines, *first)),
        _ => None,
    });
    let Some((lines, first)) = excerpt else { return Ok(None) };
    let user = found.iter().find_map(|one| match one {
        // A runtime that gives a container users of its own is root when it makes that one.
        Found::Maker { user, .. } => user.filter(|user| *user != 0),
        _ => None,
    });
    let (table, keepers) = (Arc::new(MountTable::parse(&lines.get())?), Vec::new());
    Ok(Some(Namespace { id, tasks, table, first, user, keepers, owner }))
}
