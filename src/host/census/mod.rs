//! Who uses a file system or its disk: processes, mount namespaces, the kernel itself.
//!
//! | question | by |
//! | --- | --- |
//! | can every process be seen from here | `visibility` |
//! | the processes of a pod, and what is mounted where they live | `cgroups`, `pods` |
//! | all mount namespaces, also those without a process | `inspection`, `namespaces`, `owner` |
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
mod pods;
mod proc;
mod question;
pub mod reader;
mod scan;
#[cfg(test)]
mod tests;
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
use proc::Proc;
use question::{Found, Question};
use scan::{Party, Scan, Start};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The census that the kernel gives: `/proc`, the cgroup trees that are mounted, `/sys`.
#[derive(Debug, Clone)]
pub struct KernelCensus {
    setting: CensusSetting,
    /// What this call has read of other processes: all its questions share one budget.
    scan: Arc<Mutex<Scan>>,
}

impl Default for KernelCensus {
    fn default() -> Self {
        Self::of(CensusSetting::default())
    }
}

impl KernelCensus {
    fn of(setting: CensusSetting) -> Self {
        Self { scan: Arc::new(Mutex::new(Scan::new(&setting))), setting }
    }

    fn with(&self, change: impl FnOnce(&mut CensusSetting)) -> Self {
        let mut setting = self.setting.clone();
        change(&mut setting);
        Self::of(setting)
    }

    /// With this program, a `disk`, as its reader.
    #[must_use]
    pub fn read_by(&self, program: PathBuf) -> Self {
        self.with(|setting| setting.start = Start::Program(program))
    }

    /// With the directories of orchestrators that are known.
    #[must_use]
    pub fn with_faces(&self, faces: Faces) -> Self {
        self.with(|setting| setting.faces = faces)
    }

    /// With no more time than this, and the driver's directory for turns.
    #[must_use]
    pub fn within(&self, budget: Budget, run_dir: &Path) -> Self {
        self.with(|setting| (setting.budget, setting.turns) = (budget, Some(run_dir.to_owned())))
    }

    /// With a budget of its own, for another call.
    #[must_use]
    pub fn of_another_call(&self) -> Self {
        self.with(|_| ())
    }

    /// As before Linux 6.12, which has no list of all mount namespaces.
    #[must_use]
    pub fn without_the_list_of_namespaces(&self) -> Self {
        self.with(|setting| setting.walks_namespaces = false)
    }

    fn proc(&self) -> Result<Proc> {
        Proc::at(&self.setting.root.join("proc"), self.setting.trusted)
    }

    fn scan(&self) -> MutexGuard<'_, Scan> {
        self.scan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to look for mounts of these file systems.
    fn look(&self, numbers: &[DeviceNumber]) -> Result<Inspection<'_>> {
        Ok(Inspection::new(&self.setting, self.proc()?, self.scan(), numbers))
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

impl Census for KernelCensus {
    fn sight(&self) -> Answer<()> {
        self.seeing(&[], |_| Ok(()))
    }

    fn allow(&self, time: Duration) {
        self.scan().allow(time);
    }

    fn own_namespace(&self) -> Result<NamespaceId> {
        self.look(&[])?.own_namespace()
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
            look.read_namespaces()?;
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
            look.awaited = Some(first.clone());
            let rest = look.scan.hold_back(deadline.remaining());
            let read = look.read_namespaces().and_then(|()| look.report_unread());
            look.scan.give_back(rest);
            let (untold, later) = read?;
            Ok(NamespaceUses { namespaces: look.uses(), untold, later })
        })
    }

    fn namespaces_of(&self, numbers: &[DeviceNumber], sources: &Path) -> Answer<NamespaceUses> {
        self.seeing(numbers, |look| {
            look.filter.label = Some(sources.to_owned());
            look.read_namespaces()?;
            let mounts = look.all.iter().flat_map(|one| one.table.mounts());
            let named = mounts.filter(|mount| {
                label::is_labelled(mount) && Path::new(&mount.source).starts_with(sources)
            });
            let named = named.map(|mount| mount.number).chain(numbers.iter().copied());
            look.filter.numbers = named.collect::<BTreeSet<_>>().into_iter().collect();
            // Mounts of these under another label.
            if look.filter.numbers.iter().any(|number| !numbers.contains(number)) {
                look.unread = Unread::default();
                look.read_namespaces()?;
            }
            look.whole_uses()
        })
    }

    fn device_users(&self, numbers: &[DeviceNumber]) -> Answer<DeviceUses> {
        self.seeing(numbers, |look| {
            look.read_namespaces()?;
            let mut uses = DeviceUses::default();
            let mut processes = look.in_order();
            // This process, and the one that waits for it.
            let ours = [Some(std::process::id()), waiting_process()];
            processes.retain(|(_, pid)| !ours.contains(&Some(*pid)));
            for (_, pid, mut told) in look.ask(processes, |pid| Question::Files(*pid))? {
                for one in std::mem::take(&mut told.found) {
                    let process = look.process(pid);
                    match one {
                        Found::File(tie, path, number) => {
                            let one = FileUse { process, tie, path: path.into(), number };
                            let is_possible = tie == Tie::Undescribed;
                            if is_possible { &mut uses.possible } else { &mut uses.files }
                                .push(one);
                        }
                        Found::Node(descriptor, path) => {
                            uses.nodes.push(NodeUse { process, descriptor, path: path.into() });
                        }
                        Found::Unknown(why) => {
                            let what = format!("what process {process} holds");
                            uses.untold.push(Untold::of_unknown(what, why));
                        }
                        _ => {}
                    }
                }
                if let Err(why) = told.result() {
                    look.unread.processes.insert(pid, why);
                }
            }
            look.add_kernel_users(&mut uses)?;
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
            look.read_namespaces()?;
            let all = look.all.iter().enumerate().map(|(at, one)| {
                let tasks = if at == 0 { Vec::new() } else { one.tasks.clone() };
                (tasks.first().map_or(Party::Root, |task| look.party(task.pid)), tasks)
            });
            let all: Vec<(_, Vec<_>)> = all.collect();
            let mut ids = BTreeMap::new();
            for (owner, _, told) in look.ask(all, |tasks| Question::ExtIds(tasks.clone()))? {
                match told.result() {
                    Ok(found) => ids.extend(found.into_iter().filter_map(|one| match one {
                        Found::ExtId(number, id) => Some((number, id)),
                        _ => None,
                    })),
                    Err(why) if unread::is_shortage(&owner, &why) => {
                        look.unread.later("the ids of the mounted file systems".to_owned(), &why);
                    }
                    Err(_) => {}
                }
            }
            look.must_be_whole()?;
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
