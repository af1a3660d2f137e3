//! Who uses a file system or its disk: processes, mount namespaces, the kernel itself.
//!
//! | question | by |
//! | --- | --- |
//! | can every process be seen from here | `visibility` |
//! | the processes of a pod, and what is mounted where they live | `pod_processes`, `cgroups`, `pods` |
//! | all mount namespaces, also those without a process | `inspection`, `namespaces`, `owner`, `turns` |
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
mod inspection;
mod kernel_users;
mod namespaces;
mod owner;
mod pod_processes;
mod pods;
mod proc;
mod question;
pub mod reader;
mod scan;
#[cfg(test)]
mod tests;
mod turns;
mod unread;
mod visibility;

pub use self::scan::Budget;

use super::worker::waiting_process;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Result};
use crate::model::face::Faces;
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{
    Answer, DeviceUses, FileUse, NamespaceId, NamespaceUse, NamespaceUses, NodeUse, PodUsers,
    Process, Tie, Untold,
};
use crate::model::mount::label;
use crate::model::record::NamespaceSign;
use crate::ports::clock::Deadline;
use crate::ports::host::Census;
use inspection::{CensusSetting, Inspection, Unread};
use namespaces::own_namespace;
use proc::Proc;
use question::{Filter, Found, Question};
use scan::{Scan, Start};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The census that the kernel gives: `/proc`, the cgroup trees that are mounted, `/sys`.
#[derive(Debug, Clone)]
pub struct KernelCensus {
    setting: CensusSetting,
    start: Start,
    budget: Budget,
    /// What this call has read of other processes: all its questions share one budget.
    scan: Arc<Mutex<Scan>>,
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
        let (faces, walks_namespaces, trusted, turns) = (Faces::default(), true, 0, None);
        let setting = CensusSetting { proc, sysfs, dev, walks_namespaces, faces, trusted, turns };
        let (start, budget) = (Start::Here, Budget::USUAL);
        let scan = Scan::new(start.clone(), &setting.proc, trusted, budget);
        Self { setting, start, budget, scan: Arc::new(Mutex::new(scan)) }
    }

    /// With this program, a `disk`, as its reader.
    #[must_use]
    pub fn read_by(self, program: PathBuf) -> Self {
        Self { start: Start::Program(program), ..self }.of_another_call()
    }

    /// Where this user is who root is elsewhere.
    #[must_use]
    pub fn trusting(mut self, trusted: u32) -> Self {
        self.setting.trusted = trusted;
        self.of_another_call()
    }

    /// With the directories of orchestrators that are known.
    #[must_use]
    pub fn with_faces(mut self, faces: Faces) -> Self {
        self.setting.faces = faces;
        self
    }

    /// With no more time than this, and the driver's directory for turns.
    #[must_use]
    pub fn within(mut self, budget: Budget, run_dir: &Path) -> Self {
        self.setting.turns = Some(run_dir.to_path_buf());
        Self { budget, ..self }.of_another_call()
    }

    /// With a budget of its own, for another call.
    #[must_use]
    pub fn of_another_call(&self) -> Self {
        let CensusSetting { proc, trusted, .. } = &self.setting;
        let scan = Scan::new(self.start.clone(), proc, *trusted, self.budget);
        Self { scan: Arc::new(Mutex::new(scan)), ..self.clone() }
    }

    /// As before Linux 6.12, which has no list of all mount namespaces.
    #[must_use]
    pub fn without_the_list_of_namespaces(mut self) -> Self {
        self.setting.walks_namespaces = false;
        self
    }

    fn proc(&self) -> Result<Proc> {
        Proc::at(&self.setting.proc, self.setting.trusted)
    }

    fn scan(&self) -> MutexGuard<'_, Scan> {
        self.scan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to look for mounts of these file systems.
    fn look(&self, numbers: &[DeviceNumber]) -> Result<Inspection<'_>> {
        let container_files = self.setting.faces.container_files().map(str::to_owned).collect();
        let (numbers, label) = (numbers.to_vec(), None);
        Ok(Inspection {
            setting: &self.setting,
            proc: self.proc()?,
            filter: Filter { numbers, label, container_files },
            scan: self.scan(),
            processes: BTreeMap::new(),
            all: Vec::new(),
            unread: Unread::default(),
        })
    }

    /// Answers a question about these file systems that needs to see every process.
    fn seeing<T>(
        &self,
        numbers: &[DeviceNumber],
        answer: impl FnOnce(&mut Inspection<'_>) -> Result<T>,
    ) -> Answer<T> {
        let answered = self.look(numbers).and_then(|mut look| {
            let own = look.proc.own_table()?;
            match visibility::obstacle(&look.proc, &own) {
                Some(obstacle) => Err(Error::refused(obstacle)),
                None => answer(&mut look),
            }
        });
        match answered {
            Ok(answer) => Answer::Told(answer),
            Err(error) => Answer::CannotTell(error.cause),
        }
    }
}

impl Inspection<'_> {
    fn whole_uses(&mut self) -> Result<NamespaceUses> {
        let (untold, later) = (self.must_be_whole()?, Vec::new());
        Ok(NamespaceUses { namespaces: self.uses(), untold, later })
    }

    /// What processes hold of the file systems; what could not be read is noted.
    fn files(&mut self) -> Result<Vec<(Process, Found)>> {
        // This process, and the one that waits for it.
        let ours = [Some(std::process::id()), waiting_process()];
        let mut processes = self.in_order();
        processes.retain(|(_, pid)| !ours.contains(&Some(*pid)));
        let asked = processes.iter().map(|(owner, pid)| (owner.clone(), Question::Files(*pid)));
        let asked: Vec<_> = asked.collect();
        let mut all = Vec::new();
        for ((_, pid), told) in processes.into_iter().zip(self.ask(&asked)?) {
            all.extend(told.found.iter().map(|found| (self.process(pid), found.clone())));
            if let Err(why) = told.result() {
                self.unread.processes.insert(pid, why);
            }
        }
        Ok(all)
    }
}

impl Census for KernelCensus {
    fn sight(&self) -> Answer<()> {
        self.seeing(&[], |_| Ok(()))
    }

    fn allow(&self, time: Duration) {
        self.scan().allow(time);
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
        self.seeing(numbers, |look| look.pod_users(pod, except))
    }

    fn namespaces_with(&self, numbers: &[DeviceNumber]) -> Answer<NamespaceUses> {
        self.seeing(numbers, |look| {
            look.read_namespaces(&BTreeSet::new())?;
            look.whole_uses()
        })
    }

    fn namespaces_in_time(
        &self,
        numbers: &[DeviceNumber],
        first: &BTreeSet<ConsumerId>,
        deadline: Deadline,
    ) -> Answer<NamespaceUses> {
        self.seeing(numbers, |look| {
            look.unread.comes_again = true;
            let rest = look.scan.hold_back(deadline.remaining());
            let read = look.read_namespaces(first).and_then(|()| look.report_unread());
            look.scan.give_back(rest);
            let (untold, later) = read?;
            Ok(NamespaceUses { namespaces: look.uses(), untold, later })
        })
    }

    fn namespaces_of(&self, numbers: &[DeviceNumber], sources: &Path) -> Answer<NamespaceUses> {
        self.seeing(numbers, |look| {
            look.filter.label = Some(sources.to_owned());
            look.read_namespaces(&BTreeSet::new())?;
            let mounts = look.all.iter().flat_map(|one| one.table.mounts());
            let named = mounts.filter(|mount| {
                label::is_labelled(mount) && Path::new(&mount.source).starts_with(sources)
            });
            let named = named.map(|mount| mount.number).chain(numbers.iter().copied());
            look.filter.numbers = named.collect::<BTreeSet<_>>().into_iter().collect();
            // Mounts of these under another label.
            if look.filter.numbers.iter().any(|number| !numbers.contains(number)) {
                look.unread = Unread::default();
                look.read_namespaces(&BTreeSet::new())?;
            }
            look.whole_uses()
        })
    }

    fn device_users(&self, numbers: &[DeviceNumber]) -> Answer<DeviceUses> {
        self.seeing(numbers, |look| {
            look.read_namespaces(&BTreeSet::new())?;
            let found = look.files()?;
            let mut uses = DeviceUses::default();
            look.add_kernel_users(&mut uses)?;
            for (process, one) in found {
                match one {
                    Found::File { tie, path, number } => {
                        let one = FileUse { process, tie, path: path.into(), number };
                        let is_possible = tie == Tie::Undescribed;
                        if is_possible { &mut uses.possible } else { &mut uses.files }.push(one);
                    }
                    Found::Node { descriptor, path } => {
                        uses.nodes.push(NodeUse { process, descriptor, path: path.into() });
                    }
                    Found::Unknown { what: link, why } => {
                        let what = format!("what process {process} holds");
                        uses.untold.push(Untold::of_unknown(what, format!("{link}: {why}")));
                    }
                    _ => {}
                }
            }
            uses.untold.extend(look.must_be_whole()?);
            uses.namespaces = look.uses();
            Ok(uses)
        })
    }

    fn tracers_that_stop(&self, pid: u32) -> Vec<Process> {
        let Ok(proc) = self.proc() else { return Vec::new() };
        let tasks = proc.tasks(pid).unwrap_or_default();
        let tracers: BTreeSet<u32> =
            tasks.into_iter().filter_map(|task| proc.tracer_that_stops(task)).collect();
        tracers.into_iter().filter_map(|tracer| proc.process(tracer).ok()).collect()
    }

    fn ext_file_system_ids(&self) -> Answer<BTreeMap<DeviceNumber, u64>> {
        self.seeing(&[], |look| {
            look.read_namespaces(&BTreeSet::new())?;
            look.must_be_whole()?;
            let asked = look.all.iter().enumerate().map(|(at, one)| {
                let tasks = if at == 0 { Vec::new() } else { one.tasks.clone() };
                (one.owner.clone(), Question::ExtIds(tasks))
            });
            let asked: Vec<_> = asked.collect();
            let mut ids = BTreeMap::new();
            for ((owner, _), told) in asked.iter().zip(look.ask(&asked)?) {
                match told.result() {
                    Ok(found) => ids.extend(found.into_iter().filter_map(|one| match one {
                        Found::ExtId(number, id) => Some((number, id)),
                        _ => None,
                    })),
                    Err(why) if !unread::is_shortage(owner, &why) => {}
                    Err(why) => {
                        let error = std::io::Error::other(why.text());
                        return Err(Error::io(
                            "ask the mounted file systems for their ids",
                            &error,
                        ));
                    }
                }
            }
            Ok(ids)
        })
    }

    fn open_namespace(&self, namespace: &NamespaceUse) -> Result<File> {
        self.look(&[])?.open(namespace)
    }

    fn sign_of(&self, namespace: Option<&NamespaceUse>) -> Result<NamespaceSign> {
        self.look(&[])?.sign_of(namespace)
    }

    fn find_namespace(&self, sign: &NamespaceSign) -> Result<Option<File>> {
        self.look(&[])?.find_signed(sign)
    }
}
