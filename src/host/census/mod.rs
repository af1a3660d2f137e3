//! Who uses a file system or its disk: processes, mount namespaces, the kernel itself.
//!
//! | question | by |
//! | --- | --- |
//! | can every process be seen from here | `visibility` |
//! | the processes of a pod, and what is mounted where they live | `pod_processes`, `cgroups`, `pods` |
//! | all mount namespaces, also those without a process | `all_namespaces`, `namespaces`, `inside`, `unowned_namespaces` |
//! | open files, maps, working and root folders, open nodes | `files`, `timeout`, `parallel` |
//! | loop devices, swap areas, devices made of the disk | `kernel_users` |
//!
//! Some users cannot be named: a socket bound to a file, a layer of an overlay, an exported
//! folder, a descriptor on its way between two processes. So at the end stands an exclusive open
//! ([`Devices::exclusive_open`](super::Devices::exclusive_open)), which the kernel refuses while
//! anything uses the disk.

mod all_namespaces;
mod cgroups;
mod files;
mod ids;
mod inside;
mod kernel_users;
mod namespaces;
mod owner;
mod parallel;
mod pod_processes;
mod pods;
mod proc;
#[cfg(test)]
mod tests;
mod timeout;
mod unowned_namespaces;
mod visibility;

use super::worker::{late, waiting_process};
use super::{Census, device_nodes};
use crate::host::clock::Deadline;
use crate::model::cgroup::Owner;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result, errno_text};
use crate::model::face::Faces;
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{
    Answer, DeviceUses, FileUse, NamespaceId, NamespaceUse, NamespaceUses, NodeUse, PodUsers,
    Process, Untold,
};
use crate::model::mount::mountinfo::MountTable;
use crate::model::mount::ownership::{Machine, beneath};
use crate::model::record::NamespaceSign;
use all_namespaces::Haste;
use namespaces::{Namespace, Namespaces};
use pod_processes::CgroupTrees;
use proc::{Proc, Task};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The census that the kernel gives: `/proc`, the cgroup trees that are mounted, `/sys`.
#[derive(Debug, Clone)]
pub struct KernelCensus {
    proc: PathBuf,
    sysfs: PathBuf,
    dev: PathBuf,
    walks_namespaces: bool,
    faces: Faces,
    /// Whose cgroups are believed.
    trusted: u32,
}

impl Default for KernelCensus {
    fn default() -> Self {
        Self::at("/proc".into(), "/sys".into(), "/dev".into())
    }
}

impl KernelCensus {
    /// The census of other trees than the usual ones. Where the cgroup trees are is in
    /// `thread-self/mountinfo` of the first.
    #[must_use]
    pub fn at(proc: PathBuf, sysfs: PathBuf, dev: PathBuf) -> Self {
        Self { proc, sysfs, dev, walks_namespaces: true, faces: Faces::default(), trusted: 0 }
    }

    /// The same where this user is who root is elsewhere.
    #[must_use]
    pub fn trusting(self, trusted: u32) -> Self {
        Self { trusted, ..self }
    }

    /// The same, with the folders of orchestrators that are known.
    #[must_use]
    pub fn with_faces(self, faces: Faces) -> Self {
        Self { faces, ..self }
    }

    /// The same as before Linux 6.12, which has no list of all mount namespaces.
    #[must_use]
    pub fn without_the_list_of_namespaces(self) -> Self {
        Self { walks_namespaces: false, ..self }
    }

    /// What is asked of other processes may wait for them: they may hold what it takes, and hang.
    fn proc(&self) -> Result<Arc<Proc>> {
        late::may_hang();
        Proc::at(&self.proc, self.trusted).map(Arc::new)
    }

    /// Answers a question that needs to see every process.
    fn seeing<T>(&self, answer: impl FnOnce(&Arc<Proc>, &MountTable) -> Result<T>) -> Answer<T> {
        let answered = self.proc().and_then(|proc| {
            let own = proc.own_table()?;
            if let Some(obstacle) = visibility::obstacle(&proc, &own) {
                return Err(Error::refused(obstacle));
            }
            answer(&proc, &own)
        });
        match answered {
            Ok(answer) => Answer::Told(answer),
            Err(error) => Answer::CannotTell(error.cause),
        }
    }

    fn namespaces(
        &self,
        proc: &Proc,
        pids: &[u32],
        numbers: &[DeviceNumber],
    ) -> Result<Namespaces> {
        all_namespaces::read(proc, pids, numbers, self.walks_namespaces, None)
    }

    /// Those that mount one of the file systems, in words.
    fn uses(&self, proc: &Proc, every: Namespaces, numbers: &[DeviceNumber]) -> NamespaceUses {
        let mut words = Words::of(proc, self.faces);
        let namespaces = words.namespaces(&every, numbers);
        let mut later = every.later;
        later.append(&mut words.later);
        NamespaceUses { namespaces, untold: every.untold, later }
    }
}

/// What hides where we could not look for want of a descriptor may be what is looked for. A heal, which
/// takes nothing from those it does not see, goes on; all others are told nothing.
fn told_whole(later: &[Untold]) -> Result<()> {
    later.first().map_or(Ok(()), |first| Err(Error::new(Kind::Host, first.to_string())))
}

fn pids(proc: &Proc) -> Result<Vec<u32>> {
    proc.pids().map_err(|error| Error::io("list this machine's processes", &error))
}

impl Census for KernelCensus {
    fn sight(&self) -> Answer<()> {
        self.seeing(|_, _| Ok(()))
    }

    fn own_namespace(&self) -> Result<NamespaceId> {
        namespaces::own_namespace(&*self.proc()?)
    }

    fn pod_users(
        &self,
        pod: &ConsumerId,
        numbers: &[DeviceNumber],
        except: NamespaceId,
    ) -> Answer<PodUsers> {
        self.seeing(|proc, own| {
            let trees = CgroupTrees::here(proc, own)
                .map_err(|error| Error::io("read this process's cgroups", &error))?;
            pods::Question { proc, pod, numbers, except, own }.answer(&trees)
        })
    }

    fn namespaces_with(&self, numbers: &[DeviceNumber]) -> Answer<NamespaceUses> {
        self.seeing(|proc, _| {
            let every = self.namespaces(proc, &pids(proc)?, numbers)?;
            let uses = self.uses(proc, every, numbers);
            told_whole(&uses.later).map(|()| uses)
        })
    }

    fn namespaces_in_time(
        &self,
        numbers: &[DeviceNumber],
        first: &BTreeSet<ConsumerId>,
        deadline: Deadline,
    ) -> Answer<NamespaceUses> {
        self.seeing(|proc, _| {
            let haste = Some(Haste { first, deadline });
            let pids = pids(proc)?;
            let every = all_namespaces::read(proc, &pids, numbers, self.walks_namespaces, haste)?;
            Ok(self.uses(proc, every, numbers))
        })
    }

    fn namespaces_of(&self, numbers: &[DeviceNumber], sources: &Path) -> Answer<NamespaceUses> {
        self.seeing(|proc, _| {
            let every = self.namespaces(proc, &pids(proc)?, numbers)?;
            let tables = every.all.iter().flat_map(|one| one.table.mounts());
            let named = tables.filter(|mount| {
                device_nodes::is_labelled(mount) && Path::new(&mount.source).starts_with(sources)
            });
            let mut all: Vec<_> = named.map(|mount| mount.number).chain(numbers.to_vec()).collect();
            all.sort_unstable();
            all.dedup();
            let uses = self.uses(proc, every, &all);
            told_whole(&uses.later).map(|()| uses)
        })
    }

    fn device_users(&self, numbers: &[DeviceNumber]) -> Answer<DeviceUses> {
        self.seeing(|proc, _| {
            let pids = pids(proc)?;
            let mut every = self.namespaces(proc, &pids, numbers)?;
            // This process, and the one that waits for it.
            let ours = [Some(std::process::id()), waiting_process()];
            let others: Vec<u32> =
                pids.into_iter().filter(|pid| !ours.contains(&Some(*pid))).collect();
            let found = files::Search::new(proc, &every, numbers).among(&others);
            let (sysfs, dev) = (self.sysfs.as_path(), self.dev.as_path());
            let kernel = kernel_users::Kernel { proc, sysfs, dev, every: &every, numbers }.users();
            let mut words = Words::of(proc, self.faces);
            let mut untold = std::mem::take(&mut every.untold);
            untold.extend(kernel.untold);
            untold.extend(found.closed.into_iter().map(|(pid, why)| {
                Untold::of_unknown(format!("what process {} holds", words.process(pid)), why)
            }));
            let file = |(pid, tie, path, number)| FileUse {
                process: words.process(pid),
                tie,
                path,
                number,
            };
            let files = found.files.into_iter().map(file).collect();
            let node =
                |(pid, descriptor, path)| NodeUse { process: words.process(pid), descriptor, path };
            let nodes = found.nodes.into_iter().map(node).collect();
            let namespaces = words.namespaces(&every, numbers);
            told_whole(&every.later)?;
            told_whole(&words.later)?;
            Ok(DeviceUses { namespaces, files, nodes, kernel: kernel.uses, untold })
        })
    }

    fn tracers_that_stop(&self, pid: u32) -> Vec<Process> {
        let Ok(proc) = self.proc() else { return Vec::new() };
        let tasks = proc.tasks(pid).unwrap_or_default();
        let tracers: BTreeSet<u32> =
            tasks.into_iter().filter_map(|task| proc.tracer_that_stops(task)).collect();
        tracers.into_iter().filter_map(|tracer| proc.describe(tracer).ok()).collect()
    }

    fn ext_file_system_ids(&self) -> Answer<BTreeMap<DeviceNumber, u64>> {
        self.seeing(|proc, _| {
            let every = self.namespaces(proc, &pids(proc)?, &[])?;
            told_whole(&every.later)?;
            ids::by_number(proc, &every)
                .map_err(|error| Error::io("ask the mounted file systems for their ids", &error))
        })
    }

    fn open_namespace(&self, namespace: &NamespaceUse) -> Result<File> {
        owner::open(&*self.proc()?, namespace)
    }

    fn sign_of(&self, namespace: Option<&NamespaceUse>) -> Result<NamespaceSign> {
        owner::sign_of(&*self.proc()?, namespace, self.walks_namespaces)
    }

    fn find_namespace(&self, sign: &NamespaceSign) -> Result<Option<File>> {
        let proc = self.proc()?;
        let id = NamespaceId(sign.namespace);
        let found = owner::find(&proc, &pids(&proc)?, id).and_then(|door| match door {
            Some(door) => Ok(owner::is_signed(&proc, &door, sign)?.then_some(door)),
            None => Ok(None),
        });
        found.map_err(|error| Error::io(format!("look for mount namespace {id}"), &error))
    }
}

/// Processes in words, each looked up once.
struct Words<'a> {
    proc: &'a Proc,
    faces: Faces,
    known: HashMap<u32, Process>,
    /// What this process lacked to say.
    later: Vec<Untold>,
}

impl<'a> Words<'a> {
    fn of(proc: &'a Proc, faces: Faces) -> Self {
        Self { proc, faces, known: HashMap::new(), later: Vec::new() }
    }

    fn process(&mut self, pid: u32) -> Process {
        let later = &mut self.later;
        let describe = || {
            self.proc.describe(pid).unwrap_or_else(|error| {
                later.push(Untold::of_unknown(format!("process {pid}"), errno_text(&error)));
                Process { pid, command: String::new(), owner: Owner::default(), user: None }
            })
        };
        self.known.entry(pid).or_insert_with(describe).clone()
    }

    /// Every namespace but this thread's that mounts one of the file systems.
    fn namespaces(&mut self, every: &Namespaces, numbers: &[DeviceNumber]) -> Vec<NamespaceUse> {
        let mut uses = Vec::new();
        let own = every.all.iter().find(|one| one.id == Some(every.own));
        let machine = own.map(|own| Machine::new(self.faces, &own.table, None, numbers));
        for namespace in &every.all {
            let mounts: Vec<_> = namespace.mounts_of(numbers).cloned().collect();
            if namespace.id == Some(every.own) || mounts.is_empty() {
                continue;
            }
            let Namespace { id, tasks, keepers, table } = namespace;
            let served = machine.as_ref().and_then(|machine| machine.pod_served(table));
            let process = |task: &Task| {
                let mut process = self.process(task.pid);
                // Its container runs in no cgroup of the pod's.
                process.owner.pod = process.owner.pod.or_else(|| served.clone());
                process
            };
            let mut one = NamespaceUse {
                id: *id,
                beneath: beneath(&mounts, table),
                mounts,
                processes: tasks.iter().map(process).collect(),
                keepers: keepers.clone(),
                user: None,
            };
            match owner::of(self.proc, &one, every.own) {
                Ok(maker) => one.user = maker,
                Err(error) => {
                    let what = format!("who made mount namespace {}", one.id.unwrap_or(every.own));
                    self.later.push(Untold::of_unknown(what, errno_text(&error)));
                }
            }
            uses.push(one);
        }
        uses
    }
}
