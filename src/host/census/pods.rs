//! Whether a pod has a file system: its processes, and what is mounted where they live.

use super::inspection::{Inspection, namespace_in};
use super::namespaces::{own_namespace, placed};
use super::pod_processes::PodProcesses;
use super::proc::{Proc, Task};
use super::question::{Door, Question, Why};
use super::scan::Party;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{Holder, NamespaceId, PodUsers};
use crate::model::mount::mountinfo::MountTable;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// More rounds than a pod's start or end takes; one takes about a millisecond.
const ROUNDS: usize = 64;

impl Inspection<'_> {
    /// The pod's processes that have one of the file systems; those in the namespace `except` do not count. None is only
    /// answered after two rounds with the same processes: one that was started between the reading of the list and the
    /// reading of its starter is in the next list.
    pub(super) fn pod_users(&mut self, pod: &ConsumerId, except: NamespaceId) -> Result<PodUsers> {
        let mut last = None;
        for _ in 0..ROUNDS {
            let called = PodProcesses::of(pod, &self.proc)
                .map_err(|error| Error::io("list the pod's processes", &error))?;
            let holders = self.among(pod, &called.pids, except)?;
            if !holders.is_empty() || last.as_ref() == Some(&called) {
                return Ok(PodUsers { holders, has_cgroup: called.has_folder });
            }
            last = Some(called);
        }
        Err(Error::refused(format!(
            "the pod's processes change too fast to list: they were others in each of {ROUNDS} looks"
        )))
    }

    fn among(
        &mut self,
        pod: &ConsumerId,
        pids: &BTreeSet<u32>,
        except: NamespaceId,
    ) -> Result<Vec<Holder>> {
        let mut tasks = Vec::new();
        for pid in pids {
            let threads = self.proc.tasks(*pid);
            tasks.extend(threads.map_err(|error| Error::io("list a process's threads", &error))?);
        }
        let of_pod = |question| (Party::Pod(pod.clone()), question);
        let place = |task: &Task| of_pod(Question::Place(*task));
        let asked: Vec<_> = tasks.iter().map(place).collect();
        let placed_at = self.ask(&asked)?;
        let mut by_namespace: BTreeMap<NamespaceId, Vec<Task>> = BTreeMap::new();
        let mut closed = Vec::new();
        for (task, told) in tasks.into_iter().zip(placed_at) {
            match told.result() {
                Ok(found) => match found.iter().find_map(placed) {
                    Some((_, id)) if id != except => {
                        by_namespace.entry(id).or_default().push(task);
                    }
                    _ => {}
                },
                Err(why) if why.is_lack() => return Err(unread(&self.proc, &[task], &why)),
                Err(why) => closed.push((task, why)),
            }
        }
        let mut holders = Vec::new();
        let table = |(id, tasks): (&NamespaceId, &Vec<Task>)| {
            let doors = tasks.iter().map(|task| Door::Task(*task)).collect();
            of_pod(Question::Table { namespace: id.0, doors })
        };
        let mut known = BTreeSet::new();
        let asked: Vec<_> = by_namespace.iter().map(table).collect();
        let tables = self.ask(&asked)?;
        for (tasks, told) in by_namespace.values().zip(tables) {
            let found = told.result().map_err(|why| unread(&self.proc, tasks, &why))?;
            if let Some(one) = namespace_in(&found, None, Vec::new(), Party::Root)? {
                self.add(&mut holders, tasks, &one.table)?;
                known.insert(one.first);
            }
        }
        let listed = closed.iter().map(|(task, _)| of_pod(Question::Listed(*task)));
        let asked: Vec<_> = listed.collect();
        let listed = self.ask(&asked)?;
        for ((task, why), told) in closed.iter().zip(listed) {
            let found = told.result().map_err(|why| unread(&self.proc, &[*task], &why))?;
            let Some(one) = namespace_in(&found, None, vec![*task], Party::Root)? else { continue };
            let own = self.proc.own_table()?;
            if except == own_namespace(&self.proc)?
                && one.has_any(own.mounts().iter().map(|mount| mount.id))
            {
                continue;
            }
            let before = holders.len();
            self.add(&mut holders, &[*task], &one.table)?;
            // It may live below a root of its own, and have mounts that it does not list.
            let hides = !matches!(why, Why::Failed(_)) && !known.contains(&one.first);
            if hides && holders.len() == before {
                return Err(unread(&self.proc, &[*task], why));
            }
        }
        Ok(holders)
    }

    /// Adds the processes of a namespace with these mounts, if any is of the file systems.
    fn add(&self, holders: &mut Vec<Holder>, tasks: &[Task], table: &MountTable) -> Result<()> {
        let numbers = &self.filter.numbers;
        let mounts = table.mounts().iter().filter(|mount| numbers.contains(&mount.number));
        let places: Vec<PathBuf> = mounts.map(|mount| mount.target.clone()).collect();
        if places.is_empty() {
            return Ok(());
        }
        let mut pids: Vec<u32> = tasks.iter().map(|task| task.pid).collect();
        pids.dedup();
        for pid in pids {
            let process = self.proc.process(pid);
            let process = process.map_err(|error| Error::io("tell whose a process is", &error))?;
            holders.push(Holder { process, places: places.clone() });
        }
        Ok(())
    }
}

/// Whose mounts could not be read, and what ends it.
fn unread(proc: &Proc, tasks: &[Task], why: &Why) -> Error {
    let process = tasks.iter().find_map(|task| proc.process(task.pid).ok());
    let process = process.map_or_else(String::new, |one| format!("process {one}: "));
    let kill = tasks.first().filter(|_| !matches!(why, Why::Failed(_)));
    let kill = kill.map_or_else(String::new, |task| format!("; to end it: kill {}", task.pid));
    Error::new(Kind::Host, format!("{process}{}{kill}", why.text()))
}
