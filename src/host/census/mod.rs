//! Who uses a file system or its disk: processes, mount namespaces, the kernel itself.
//!
//! | question | by |
//! | --- | --- |
//! | can every process be seen from here | `visibility` |
//! | the processes of a pod, and what is mounted where they live | `pod_processes`, `cgroups`, `pods` |
//! | all mount namespaces, also those without a process | `namespaces`, `owner`, `turns` |
//! | open files, maps, working and root directories, open nodes | `answers` |
//! | loop devices, swap areas, devices made of the disk | `kernel_users` |
//!
//! Entries of other processes, and paths of other namespaces, are read by a process of their own, for the kernel
//! may never answer (`scan`, `reader`, `question`). What could not be read is told by `unread`. This process
//! itself reads the entries that the kernel answers whatever the process does: `status`, `cgroup`, `comm` and
//! the lists `task` and `fd`.
//!
//! Some users cannot be named: a socket bound to a file, a layer of an overlay, an exported
//! directory. So at the end stands an exclusive open
//! ([`Devices::exclusive_open`](super::Devices::exclusive_open)), which the kernel refuses while
//! anything uses the disk.

mod answers;
mod cgroups;
mod kernel_users;
mod namespaces;
mod owner;
mod pod_processes;
mod pods;
mod proc;
mod question;
pub mod reader;
mod roster;
mod scan;
#[cfg(test)]
mod tests;
mod turns;
mod unread;
mod visibility;

pub use self::scan::Budget;

use super::worker::waiting_process;
use crate::model::cgroup::Owner;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result, errno_text};
use crate::model::face::Faces;
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{
    Answer, DeviceUses, FileUse, NamespaceId, NamespaceUse, NamespaceUses, NodeUse, PodUsers,
    Process, Tie, Untold,
};
use crate::model::mount::label;
use crate::model::mount::mountinfo::MountTable;
use crate::model::mount::ownership::{Machine, beneath};
use crate::model::record::NamespaceSign;
use crate::ports::clock::Deadline;
use crate::ports::host::Census;
use namespaces::{Namespace, Namespaces, own_namespace};
use pod_processes::CgroupTrees;
use proc::{Proc, Task};
use question::{Filter, Found, Question, Why};
use roster::Roster;
use scan::{Asked, Party, Scan, Start};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use unread::Unread;

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
    start: Start,
    budget: Budget,
    turns: Option<PathBuf>,
    /// What this call has read of other processes: all its questions share one budget.
    scan: Arc<Mutex<Option<Scan>>>,
}

impl Default for KernelCensus {
    fn default() -> Self {
        let census = Self::at("/proc".into(), "/sys".into(), "/dev".into());
        // The program of unit tests is no reader.
        if cfg!(test) { census } else { census.read_by("/proc/self/exe".into()) }
    }
}

impl KernelCensus {
    /// The census of other trees than the usual ones, read by this process itself. Where the cgroup trees are
    /// is in `thread-self/mountinfo` of the first.
    #[must_use]
    pub fn at(proc: PathBuf, sysfs: PathBuf, dev: PathBuf) -> Self {
        let (faces, scan) = (Faces::default(), Arc::default());
        let (walks_namespaces, trusted, budget) = (true, 0, Budget::USUAL);
        let (start, turns) = (Start::Here, None);
        Self { proc, sysfs, dev, walks_namespaces, faces, trusted, start, budget, turns, scan }
    }

    /// With this program, a `disk`, as its reader.
    #[must_use]
    pub fn read_by(self, program: PathBuf) -> Self {
        Self { start: Start::Program(program), ..self }
    }

    /// Where this user is who root is elsewhere.
    #[must_use]
    pub fn trusting(self, trusted: u32) -> Self {
        Self { trusted, ..self }
    }

    /// With the directories of orchestrators that are known.
    #[must_use]
    pub fn with_faces(self, faces: Faces) -> Self {
        Self { faces, ..self }
    }

    /// With no more time than this, and the driver's directory for turns.
    #[must_use]
    pub fn within(self, budget: Budget, run_dir: &Path) -> Self {
        Self { budget, turns: Some(run_dir.to_path_buf()), ..self }
    }

    /// With a budget of its own, for another call.
    #[must_use]
    pub fn of_another_call(&self) -> Self {
        Self { scan: Arc::default(), ..self.clone() }
    }

    /// As before Linux 6.12, which has no list of all mount namespaces.
    #[must_use]
    pub fn without_the_list_of_namespaces(self) -> Self {
        Self { walks_namespaces: false, ..self }
    }

    fn proc(&self) -> Result<Proc> {
        Proc::at(&self.proc, self.trusted)
    }

    fn scanning<T>(&self, work: impl FnOnce(&mut Scan) -> T) -> T {
        let mut scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Scan::new(self.start.clone(), &self.proc, self.trusted, self.budget);
        work(scan.get_or_insert_with(new))
    }

    /// Answers a question that needs to see every process.
    fn seeing<T>(&self, answer: impl FnOnce(&Proc, &MountTable) -> Result<T>) -> Answer<T> {
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

    fn mount_filter(&self, numbers: &[DeviceNumber], label: Option<&Path>) -> Filter {
        let container_files = self.faces.container_files().map(str::to_owned).collect();
        Filter { numbers: numbers.to_vec(), label: label.map(Path::to_path_buf), container_files }
    }

    fn namespaces(
        &self,
        proc: &Proc,
        filter: &Filter,
        (first, comes_again): (&BTreeSet<ConsumerId>, bool),
    ) -> Result<Namespaces> {
        self.scanning(|scan| {
            let (walks, turns) = (self.walks_namespaces, self.turns.as_ref());
            namespaces::Reader { scan, proc, filter, walks, first, comes_again, turns }.namespaces()
        })
    }

    /// Those that mount one of the file systems, in words.
    fn uses(&self, proc: &Proc, every: Namespaces, numbers: &[DeviceNumber]) -> NamespaceUses {
        let mut words = Words::of(proc, &every.roster, self.faces);
        let namespaces = words.namespaces(&every, numbers);
        let mut unknown = words.later;
        let (untold, mut later) = every.unread.told(proc, &every.roster);
        later.append(&mut unknown);
        NamespaceUses { namespaces, untold, later }
    }

    /// What processes hold of the file systems; what could not be read is noted.
    fn files(
        &self,
        proc: &Proc,
        (filter, every): (&Filter, &Namespaces),
        unread: &mut Unread,
    ) -> Result<Vec<(u32, Found)>> {
        let homes: HashMap<u32, Option<NamespaceId>> = every
            .all
            .iter()
            .flat_map(|one| one.tasks.iter().map(|task| (task.pid, one.id)))
            .collect();
        // This process, and the one that waits for it.
        let ours = [Some(std::process::id()), waiting_process()];
        let mut processes = every.roster.in_order();
        processes.retain(|(_, pid)| !ours.contains(&Some(*pid)));
        let asked = processes.iter().map(|(owner, pid)| {
            let namespace = homes.get(pid).copied().flatten().map(|id| id.0);
            let question = Question::Files { pid: *pid, namespace };
            Asked { question, owner: Some(owner.clone()) }
        });
        let told = self.scanning(|scan| scan.ask(proc, filter, asked));
        let told = told.map_err(|error| Error::io("read other processes", &error))?;
        let (mut all, mut stalled) = (Vec::new(), Vec::new());
        for ((owner, pid), told) in processes.into_iter().zip(told) {
            all.extend(told.found.iter().map(|found| (pid, found.clone())));
            if let Err(why) = told.result() {
                unread.process(pid, &why);
                if matches!(why, Why::Stalled) {
                    stalled.push((owner.clone(), pid));
                }
            }
        }
        self.servers(proc, (filter, every), stalled, unread)?;
        Ok(all)
    }

    /// Notes for which servers these processes may wait.
    fn servers(
        &self,
        proc: &Proc,
        (filter, every): (&Filter, &Namespaces),
        stalled: Vec<(Party, u32)>,
        unread: &mut Unread,
    ) -> Result<()> {
        if stalled.is_empty() {
            return Ok(());
        }
        let asked: Vec<Asked> = stalled
            .iter()
            .map(|(owner, pid)| Asked {
                question: Question::Listed(Task::first_of(*pid)),
                owner: Some(owner.clone()),
            })
            .collect();
        let told = self.scanning(|scan| scan.ask(proc, filter, asked));
        let told = told.map_err(|error| Error::io("read other processes", &error))?;
        for ((_, pid), told) in stalled.into_iter().zip(told) {
            let table = told.found.iter().find_map(namespaces::excerpt_of).transpose()?;
            if let Some((_, table)) = table {
                unread.servers(pid, &table, &every.all[0].table);
            }
        }
        Ok(())
    }
}

/// No pod is read before others, and who asks does not come again.
const NO_POD_FIRST: (&BTreeSet<ConsumerId>, bool) = (&BTreeSet::new(), false);

/// What hides where we could not look for want of a descriptor may be what is looked for. A heal, which
/// takes nothing from those it does not see, goes on; all others are told nothing.
fn told_whole(later: &[Untold]) -> Result<()> {
    later.first().map_or(Ok(()), |first| Err(Error::new(Kind::Host, first.to_string())))
}

impl Census for KernelCensus {
    fn sight(&self) -> Answer<()> {
        self.seeing(|_, _| Ok(()))
    }

    fn allow(&self, time: Duration) {
        self.scanning(|scan| scan.allow(time));
    }

    fn own_namespace(&self) -> Result<NamespaceId> {
        own_namespace(&self.proc()?)
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
            let filter = &self.mount_filter(numbers, None);
            self.scanning(|scan| {
                pods::PodQuestion { scan, proc, filter, pod, except, own }.answer(&trees)
            })
        })
    }

    fn namespaces_with(&self, numbers: &[DeviceNumber]) -> Answer<NamespaceUses> {
        self.seeing(|proc, _| {
            let every = self.namespaces(proc, &self.mount_filter(numbers, None), NO_POD_FIRST)?;
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
            let rest = self.scanning(|scan| scan.hold_back(deadline.remaining()));
            let every = self.namespaces(proc, &self.mount_filter(numbers, None), (first, true));
            self.scanning(|scan| scan.give_back(rest));
            Ok(self.uses(proc, every?, numbers))
        })
    }

    fn namespaces_of(&self, numbers: &[DeviceNumber], sources: &Path) -> Answer<NamespaceUses> {
        self.seeing(|proc, _| {
            let look = |numbers: &[DeviceNumber]| {
                self.namespaces(proc, &self.mount_filter(numbers, Some(sources)), NO_POD_FIRST)
            };
            let mut every = look(numbers)?;
            let tables = every.all.iter().flat_map(|one| one.table.mounts());
            let named = tables.filter(|mount| {
                label::is_labelled(mount) && Path::new(&mount.source).starts_with(sources)
            });
            let named = named.map(|mount| mount.number).chain(numbers.iter().copied());
            let all: Vec<_> = named.collect::<BTreeSet<_>>().into_iter().collect();
            // Mounts of these under another label.
            if all.iter().any(|number| !numbers.contains(number)) {
                every = look(&all)?;
            }
            let uses = self.uses(proc, every, &all);
            told_whole(&uses.later).map(|()| uses)
        })
    }

    fn device_users(&self, numbers: &[DeviceNumber]) -> Answer<DeviceUses> {
        self.seeing(|proc, _| {
            let filter = self.mount_filter(numbers, None);
            let mut every = self.namespaces(proc, &filter, NO_POD_FIRST)?;
            let mut unread = std::mem::take(&mut every.unread);
            let found = self.files(proc, (&filter, &every), &mut unread)?;
            let (sysfs, dev) = (self.sysfs.as_path(), self.dev.as_path());
            let kernel = self.scanning(|scan| {
                let (filter, every) = (&filter, &every);
                kernel_users::Kernel { scan, filter, proc, sysfs, dev, every, numbers }.users()
            });
            let kernel =
                kernel.map_err(|error| Error::io("look for the kernel's own uses", &error))?;
            let mut words = Words::of(proc, &every.roster, self.faces);
            let (mut files, mut possible, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
            let mut untold = kernel.untold;
            for (pid, one) in found {
                let process = words.process(pid);
                match one {
                    Found::File { tie, path, number } => {
                        let one = FileUse { process, tie, path: path.into(), number };
                        if tie == Tie::Undescribed { possible.push(one) } else { files.push(one) }
                    }
                    Found::Node { descriptor, path } => {
                        nodes.push(NodeUse { process, descriptor, path: path.into() });
                    }
                    Found::Unknown { what: link, why } => {
                        let what = format!("what process {process} holds");
                        untold.push(Untold::of_unknown(what, format!("{link}: {why}")));
                    }
                    _ => {}
                }
            }
            let namespaces = words.namespaces(&every, numbers);
            let (unread, later) = unread.told(proc, &every.roster);
            untold.extend(unread);
            told_whole(&later)?;
            told_whole(&words.later)?;
            Ok(DeviceUses { namespaces, files, possible, nodes, kernel: kernel.uses, untold })
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
            let mut every = self.namespaces(proc, &Filter::default(), NO_POD_FIRST)?;
            let unread = std::mem::take(&mut every.unread);
            told_whole(&unread.told(proc, &every.roster).1)?;
            let asked = every.all.iter().map(|one| {
                let is_own = one.id == Some(every.own);
                let tasks = if is_own { Vec::new() } else { one.tasks.clone() };
                Asked { question: Question::ExtIds(tasks), owner: Some(one.owner.clone()) }
            });
            let told = self.scanning(|scan| scan.ask(proc, &Filter::default(), asked));
            let wrong = |error| Error::io("ask the mounted file systems for their ids", &error);
            let mut ids = BTreeMap::new();
            for (one, told) in every.all.iter().zip(told.map_err(wrong)?) {
                match told.result() {
                    Ok(found) => ids.extend(found.into_iter().filter_map(|one| match one {
                        Found::ExtId(number, id) => Some((number, id)),
                        _ => None,
                    })),
                    Err(why) if !unread::is_shortage(&one.owner, &why) => {}
                    Err(why) => return Err(wrong(std::io::Error::other(why.text()))),
                }
            }
            Ok(ids)
        })
    }

    fn open_namespace(&self, namespace: &NamespaceUse) -> Result<File> {
        let own = self.own_namespace()?;
        self.scanning(|scan| owner::open(scan, namespace, own))
    }

    fn sign_of(&self, namespace: Option<&NamespaceUse>) -> Result<NamespaceSign> {
        let (own, proc) = (self.own_namespace()?, self.proc()?);
        self.scanning(|scan| owner::sign_of(scan, &proc, namespace, (own, self.walks_namespaces)))
    }

    fn find_namespace(&self, sign: &NamespaceSign) -> Result<Option<File>> {
        let proc = self.proc()?;
        let id = NamespaceId(sign.namespace);
        self.scanning(|scan| match owner::find(scan, &proc, id)? {
            Some(door) => {
                let is_it = owner::is_signed(scan, &proc, &door, sign);
                let look = |error| Error::io(format!("look for mount namespace {id}"), &error);
                Ok(is_it.map_err(look)?.then_some(door))
            }
            None => Ok(None),
        })
    }
}

/// Processes in words, each looked up once.
struct Words<'a> {
    proc: &'a Proc,
    roster: &'a Roster,
    faces: Faces,
    known: HashMap<u32, Process>,
    /// What this process lacked to say.
    later: Vec<Untold>,
}

impl<'a> Words<'a> {
    fn of(proc: &'a Proc, roster: &'a Roster, faces: Faces) -> Self {
        Self { proc, roster, faces, known: HashMap::new(), later: Vec::new() }
    }

    fn process(&mut self, pid: u32) -> Process {
        let later = &mut self.later;
        let describe = || {
            self.roster.describe(self.proc, pid).unwrap_or_else(|error| {
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
            let Namespace { id, tasks, keepers, table, user, .. } = namespace;
            let served = machine.as_ref().and_then(|machine| machine.pod_served(table));
            let process = |task: &Task| {
                let mut process = self.process(task.pid);
                // Its container runs in no cgroup of the pod's.
                process.owner.pod = process.owner.pod.or_else(|| served.clone());
                process
            };
            uses.push(NamespaceUse {
                id: *id,
                beneath: beneath(&mounts, table),
                mounts,
                processes: tasks.iter().map(process).collect(),
                keepers: keepers.clone(),
                user: *user,
            });
        }
        uses
    }
}
