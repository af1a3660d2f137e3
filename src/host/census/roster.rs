//! The processes of one look, by their owners.
//!
//! Each process is classified once, and not again in the same look: ordinary users may have as many as the kernel allows.
//! The next look starts over, because a process can be moved into a pod's cgroup at any time.

use super::proc::{Proc, pids};
use super::question::{KernelError, Why};
use super::scan::Party;
use crate::model::error::Result;
use crate::model::mount::disk_users::Process;
use std::collections::{BTreeMap, HashMap};
use std::io;

/// Every process with its owner, without its command.
#[derive(Debug, Default)]
pub(super) struct Roster(BTreeMap<u32, Process>);

impl Roster {
    /// Lists the processes, and adds those that were not there before. Returns those that could not be classified.
    pub(super) fn add_new(&mut self, proc: &Proc) -> Result<Vec<(u32, Why)>> {
        let mut failed = Vec::new();
        for pid in pids(proc)? {
            if self.0.contains_key(&pid) {
                continue;
            }
            match proc.classify(pid) {
                Ok(process) => drop(self.0.insert(pid, process)),
                Err(error) => {
                    failed.push((pid, Why::Failed(KernelError::from(error))));
                }
            }
        }
        Ok(failed)
    }

    /// A process that could not be classified, or has ended, counts as the machine's own.
    pub(super) fn party(&self, pid: u32) -> Party {
        self.0.get(&pid).map_or(Party::Root, Party::of)
    }

    /// The machine's own processes, then those of pods and containers, then those of ordinary users.
    pub(super) fn in_order(&self) -> Vec<(Party, u32)> {
        in_order(self.0.iter().map(|(pid, process)| (Party::of(process), *pid)))
    }

    pub(super) fn has_pods(&self) -> bool {
        self.0.values().any(|process| process.owner.pod.is_some())
    }

    /// The process as people know it. Only the owner of an ordinary user's process is taken from this look.
    pub(super) fn describe(&self, proc: &Proc, pid: u32) -> io::Result<Process> {
        match self.0.get(&pid) {
            Some(known) if known.ordinary_user().is_some() => {
                Ok(Process { command: proc.command(pid)?, ..known.clone() })
            }
            _ => proc.describe(pid),
        }
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
