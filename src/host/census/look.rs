//! One question: what was read to answer it, and what could not be read.

use super::KernelCensus;
use super::namespaces::Namespace;
use super::proc::Proc;
use super::question::{Filter, KernelError, Question, Why};
use super::scan::{Party, Response, Scan};
use super::unread::Unread;
use crate::model::cgroup::Owner;
use crate::model::error::{Error, Result};
use crate::model::mount::disk_users::{NamespaceUse, Process};
use crate::model::mount::ownership::{Machine, beneath};
use std::collections::{BTreeMap, HashMap};
use std::sync::MutexGuard;

pub(super) struct Look<'a> {
    pub(super) census: &'a KernelCensus,
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

impl Look<'_> {
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
        let machine = Machine::new(self.census.faces, &self.all[0].table, None, numbers);
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
