//! One question: what was read to answer it, and what could not be read.

use super::proc::{Proc, Task};
use super::question::{Excerpt, Filter, Question, Why};
use super::scan::{Budget, Party, Response, Scan, Start};
use crate::model::cgroup::Owner;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Result};
use crate::model::face::Faces;
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{
    NamespaceId, NamespaceKeeper, NamespaceUse, NamespaceUses, Process, Untold,
};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::ownership::{Machine, beneath};
use crate::model::sorting::sort_by_key;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};

/// Where to look, and how.
#[derive(Debug, Clone)]
pub(super) struct CensusSetting {
    /// Where `proc`, `sys` and `dev` are. The cgroup trees are where `thread-self/mountinfo` says.
    pub(super) root: PathBuf,
    /// Whether the kernel may be asked for its list of mount namespaces.
    pub(super) walks_namespaces: bool,
    pub(super) faces: Faces,
    /// Whose cgroups are believed.
    pub(super) trusted: u32,
    /// Where calls take turns to enter namespaces that no process keeps alive.
    pub(super) turns: Option<PathBuf>,
    pub(super) start: Start,
    pub(super) budget: Budget,
}

impl Default for CensusSetting {
    fn default() -> Self {
        Self {
            root: "/".into(),
            walks_namespaces: true,
            faces: Faces::default(),
            trusted: 0,
            turns: None,
            #[cfg(not(test))]
            start: Start::Program("/proc/self/exe".into()),
            // The program of unit tests is no reader.
            #[cfg(test)]
            start: Start::Test(super::tests::read_here),
            budget: Budget::USUAL,
        }
    }
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
}

impl Namespace {
    pub(super) fn of(excerpt: &Excerpt) -> Result<Self> {
        let (table, first, id) = (Arc::new(excerpt.table()?), excerpt.first, excerpt.namespace);
        // A runtime that gives a container users of its own is root when it makes that one.
        let user = excerpt.user.filter(|user| *user != 0);
        Ok(Self { id, tasks: Vec::new(), table, first, user, keepers: Vec::new() })
    }

    /// The mounts of these file systems.
    pub(super) fn mounts_of(&self, numbers: &[DeviceNumber]) -> impl Iterator<Item = &Mount> {
        self.table.mounts().iter().filter(|mount| numbers.contains(&mount.number))
    }

    /// Whether one of these mounts is in it: their ids are unique among all namespaces.
    pub(super) fn has_any(&self, ids: &HashSet<u32>) -> bool {
        ids.contains(&self.first) || self.table.mounts().iter().any(|one| ids.contains(&one.id))
    }
}

/// What was not read, as it is found.
#[derive(Debug, Default)]
pub(super) struct Unread {
    pub(super) untold: Vec<Untold>,
    pub(super) later: Vec<Untold>,
    /// Namespaces, with their owners and those who live there.
    pub(super) namespaces: BTreeMap<NamespaceId, (Party, Vec<Task>, Why)>,
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
    /// Set if the caller comes again for what took too long, and goes on without it until then: the pods to read first.
    pub(super) awaited: Option<BTreeSet<ConsumerId>>,
}

impl<'a> Inspection<'a> {
    pub(super) fn new(
        setting: &'a CensusSetting,
        proc: Proc,
        scan: MutexGuard<'a, Scan>,
        numbers: &[DeviceNumber],
    ) -> Self {
        let container_files = setting.faces.container_files().map(str::to_owned).collect();
        let filter = Filter { numbers: numbers.to_vec(), container_files, ..Filter::default() };
        let (processes, all, unread) = (BTreeMap::new(), Vec::new(), Unread::default());
        Self { setting, proc, filter, scan, processes, all, unread, awaited: None }
    }

    /// Asks a question about each of these, in this order.
    pub(super) fn ask<T>(
        &mut self,
        all: Vec<(Party, T)>,
        question: impl Fn(&T) -> Question,
    ) -> Result<Vec<(Party, T, Response)>> {
        let asked = all.iter().map(|(owner, one)| (owner.clone(), question(one)));
        let told = self.scan.ask(&mut self.filter, &asked.collect::<Vec<_>>());
        let told = told.map_err(|error| Error::io("read other processes", &error))?;
        Ok(all.into_iter().zip(told).map(|((owner, one), told)| (owner, one, told)).collect())
    }

    pub(super) fn ask_one(&mut self, owner: Party, question: &Question) -> Result<Response> {
        let told = self.ask(vec![(owner, ())], |()| question.clone())?.pop();
        Ok(told.map_or_else(|| Response::nothing(Why::Skipped), |(_, (), told)| told))
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
                    let why = error.into();
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

    /// Whether the caller comes again for what is this owner's. For a pod that has nothing to do with the volume it does
    /// not, because such a pod can make any look late.
    pub(super) fn is_awaited(&self, owner: &Party) -> bool {
        let is_pods =
            |pods: &BTreeSet<ConsumerId>| matches!(owner, Party::Pod(pod) if pods.contains(pod));
        self.awaited.as_ref().is_some_and(|pods| *owner == Party::Root || is_pods(pods))
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

    pub(super) fn whole_uses(&mut self) -> Result<NamespaceUses> {
        let (untold, later) = (self.must_be_whole()?, Vec::new());
        Ok(NamespaceUses { namespaces: self.uses(), untold, later })
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
            let process = |task: &Task| {
                let mut process = self.process(task.pid);
                // Its container runs in no cgroup of the pod's.
                process.owner.pod = process.owner.pod.or_else(|| served.clone());
                process
            };
            uses.push(NamespaceUse {
                id: one.id,
                beneath: beneath(&mounts, &one.table),
                mounts,
                processes: one.tasks.iter().map(process).collect(),
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
    let numbered = all.map(|(owner, one)| {
        let count = counts.entry(owner.clone()).or_default();
        *count += 1;
        ((owner.class(), *count), (owner, one))
    });
    let mut all: Vec<_> = numbered.collect();
    sort_by_key(&mut all, |(key, _)| *key);
    all.into_iter().map(|(_, one)| one).collect()
}
