//! Whether a pod has a file system: its processes, and what is mounted where they live.

use super::namespaces::{PATIENCE, Unread, are_one, closed_table, own_namespace, table_of};
use super::pod_processes::CgroupTrees;
use super::proc::{Proc, Task, has_ended};
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Result};
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{Holder, NamespaceId, PodUsers};
use crate::model::mount::mountinfo::MountTable;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

/// More rounds than a pod's start or end takes; one takes about a millisecond.
const ROUNDS: usize = 64;

/// What is asked about a pod.
pub(super) struct Question<'a> {
    pub(super) proc: &'a Proc,
    pub(super) pod: &'a ConsumerId,
    /// The file systems.
    pub(super) numbers: &'a [DeviceNumber],
    /// The namespace whose processes do not count.
    pub(super) except: NamespaceId,
    /// The mounts of this thread's namespace.
    pub(super) own: &'a MountTable,
}

impl Question<'_> {
    /// The pod's processes that have one of the file systems. None is only answered after two
    /// rounds with the same processes: one that was started between the reading of the list and
    /// the reading of its starter is in the next list.
    pub(super) fn answer(&self, trees: &CgroupTrees) -> Result<PodUsers> {
        let mut last = None;
        for _ in 0..ROUNDS {
            let called = trees
                .of_pod(self.proc, self.pod)
                .map_err(|error| Error::io("list the pod's processes", &error))?;
            let holders = self.among(&called.pids)?;
            if !holders.is_empty() || last.as_ref() == Some(&called) {
                return Ok(PodUsers { holders, has_cgroup: called.has_folder });
            }
            last = Some(called);
        }
        Err(Error::refused(format!(
            "the pod's processes change too fast to list: they were others in each of {ROUNDS} looks"
        )))
    }

    fn among(&self, pids: &BTreeSet<u32>) -> Result<Vec<Holder>> {
        let end = Instant::now() + PATIENCE;
        let mut by_namespace: BTreeMap<NamespaceId, Vec<Task>> = BTreeMap::new();
        let mut holders = Vec::new();
        let mut tasks = Vec::new();
        for pid in pids {
            let threads = self.proc.tasks(*pid);
            tasks.extend(threads.map_err(|error| Error::io("list a process's threads", &error))?);
        }
        for task in tasks {
            match self.proc.namespace(task) {
                Ok(id) if id == self.except => {}
                Ok(id) => by_namespace.entry(id).or_default().push(task),
                Err(error) if has_ended(&error) => {}
                Err(_) => {
                    if let Some(table) =
                        closed_table(self.proc, task, end).map_err(Unread::into_error)?
                        && !(self.except == own_namespace(self.proc)? && are_one(self.own, &table))
                    {
                        self.add(&mut holders, &[task], &table)?;
                    }
                }
            }
        }
        for (id, tasks) in by_namespace {
            if let Some(table) = table_of(self.proc, id, &tasks, end)
                .map_err(|unread| unread.of_those(self.proc, &tasks))?
            {
                self.add(&mut holders, &tasks, &table)?;
            }
        }
        Ok(holders)
    }

    /// Adds the processes of a namespace with these mounts, if any is of the file systems.
    fn add(&self, holders: &mut Vec<Holder>, tasks: &[Task], table: &MountTable) -> Result<()> {
        let is_asked = |number: &DeviceNumber| self.numbers.contains(number);
        let mounts = table.mounts().iter().filter(|mount| is_asked(&mount.number));
        let places: Vec<PathBuf> = mounts.map(|mount| mount.target.clone()).collect();
        if places.is_empty() {
            return Ok(());
        }
        let mut pids: Vec<u32> = tasks.iter().map(|task| task.pid).collect();
        pids.dedup();
        for pid in pids {
            let process = self.proc.describe(pid);
            let process = process.map_err(|error| Error::io("tell whose a process is", &error))?;
            holders.push(Holder { process, places: places.clone() });
        }
        Ok(())
    }
}
