//! All mount namespaces of the machine: this machine's and those of pods first, those that ordinary users made last.

use super::inspection::{Inspection, Namespace, in_order};
use super::proc::{Task, named_by};
use super::question::{Door, Found, Question, Why};
use super::scan::{Class, Party};
use super::unread::is_shortage;
use crate::model::error::{Error, Result};
use crate::model::mount::disk_users::{NamespaceId, NamespaceKeeper};
use crate::model::pauses::Steps;
use crate::model::sorting::sort_by_key;
use rustix::fs::{FlockOperation, flock};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Processes that are placed by their mounts, because their links are closed or do not answer.
type Closed = BTreeMap<Task, Why>;
/// The namespaces that the kernel lists, with the ordinary user who made each.
pub(super) type Listed = BTreeMap<NamespaceId, Option<u32>>;

impl Inspection<'_> {
    pub(super) fn read_namespaces(&mut self) -> Result<()> {
        self.add_new_processes()?;
        let mut all = self.first_tasks();
        sort_by_key(&mut all, |(owner, _)| (owner.class(), !self.is_awaited(owner)));
        let (users, others) = all.into_iter().partition(|(owner, _)| owner.class() == Class::Users);
        let mut closed = self.read_homes(others)?;
        // Asked before users' processes use up the budget of users. Users cannot make one of root's, however many of
        // their processes live there.
        let listed = self.list()?;
        let of_root = listed.iter().flatten().filter(|(_, user)| user.is_none());
        self.enter(of_root.map(|(id, user)| (*id, *user)).collect(), &Party::Root)?;
        closed.extend(self.add_homes(users)?);
        match listed {
            Some(listed) => self.uninhabited(listed)?,
            None => self.uninhabited_by_references()?,
        }
        self.place_closed(closed)
    }

    /// Reads those where these live.
    pub(super) fn read_homes_of(&mut self, tasks: Vec<(Party, Task)>) -> Result<()> {
        let closed = self.read_homes(tasks)?;
        self.place_closed(closed)
    }

    /// The first thread of each process, in order.
    pub(super) fn first_tasks(&self) -> Vec<(Party, Task)> {
        self.in_order().into_iter().map(|(owner, pid)| (owner, Task::first_of(pid))).collect()
    }

    pub(super) fn own_namespace(&self) -> Result<NamespaceId> {
        let own = self.proc.namespace("thread-self");
        own.map_err(|error| Error::io("look up this process's mount namespace", &error))
    }

    /// This thread's namespace, and those where these live.
    pub(super) fn read_homes(&mut self, tasks: Vec<(Party, Task)>) -> Result<Closed> {
        let (id, table) = (self.own_namespace()?, self.proc.own_table()?);
        let first = table.mounts().first().map_or(0, |mount| mount.id);
        self.filter.known = BTreeSet::from([id]);
        let (id, keepers) = (Some(id), Vec::new());
        self.all = vec![Namespace { id, tasks: Vec::new(), table, first, user: None, keepers }];
        self.add_homes(tasks)
    }

    /// Those where these live, and those of these that are to be placed by their mounts.
    fn add_homes(&mut self, tasks: Vec<(Party, Task)>) -> Result<Closed> {
        let mut closed = Closed::new();
        for (owner, task, told) in self.ask(tasks, |task| Question::Home(*task))? {
            match told.result() {
                Ok(found) => self.add(&found, &owner)?,
                Err(why)
                    if is_shortage(&owner, &why)
                        || owner == Party::Root && matches!(why, Why::Late) =>
                {
                    self.unread.later(format!("where process {} lives", task.pid), &why);
                }
                Err(why) => drop(closed.insert(task, why)),
            }
        }
        Ok(closed)
    }

    /// Adds namespaces and who lives there.
    fn add(&mut self, found: &[Found], owner: &Party) -> Result<()> {
        for one in found {
            match one {
                Found::Table(excerpt) => self.all.push(Namespace::of(excerpt)?),
                Found::Unread(namespace, why) => {
                    let unread = (owner.clone(), Vec::new(), why.clone());
                    self.unread.namespaces.insert(*namespace, unread);
                }
                _ => {}
            }
        }
        if let Some(Found::Home(task, namespace)) = found.first() {
            if let Some(one) = self.all.iter_mut().find(|one| one.id == Some(*namespace)) {
                one.tasks.push(*task);
            } else if let Some((_, tasks, _)) = self.unread.namespaces.get_mut(namespace) {
                tasks.push(*task);
            }
        }
        Ok(())
    }

    /// Has the kernel list the namespaces that are not known. Users can make as many as they like, so their budget pays
    /// for it. None before Linux 6.12.
    fn list(&mut self) -> Result<Option<Listed>> {
        if !self.setting.walks_namespaces {
            return Ok(None);
        }
        let question = Question::List { these: self.filter.known.clone(), is_only: false };
        let told = self.ask_one(Party::Users, &question)?;
        let listed = listed_in(&told.found);
        match told.result() {
            Ok(_) => {}
            Err(why) if why.is_lack() => {
                self.unread.later("where no process lives".to_owned(), &why);
            }
            Err(why) if why.is_closed() => return Ok(None),
            Err(_) => self.unread_uninhabited(0, &Party::Users, &listed, &Why::Skipped),
        }
        Ok(Some(listed))
    }

    /// Reads the mounts where no process is known to live. Of those that mount one of the file systems it is also found
    /// out what keeps them.
    fn uninhabited(&mut self, mut listed: Listed) -> Result<()> {
        listed.retain(|id, user| user.is_some() && !self.filter.known.contains(id));
        self.enter(listed, &Party::Users)?;
        let numbers = self.filter.numbers.clone();
        let is_asked =
            |one: &&Namespace| one.tasks.is_empty() && one.mounts_of(&numbers).next().is_some();
        if self.all[1..].iter().any(|one| is_asked(&one)) {
            let references = self.references()?;
            self.explain(references);
            // What only a look kept ended with it.
            let unkept = self.all[1..].iter().filter(|one| is_asked(one) && one.keepers.is_empty());
            let these: BTreeSet<_> = unkept.filter_map(|one| one.id).collect();
            let question = Question::List { these: these.clone(), is_only: true };
            if !these.is_empty()
                && let Ok(found) = self.ask_one(Party::Users, &question)?.result()
            {
                let listed = listed_in(&found);
                let is_gone = |id: &NamespaceId| these.contains(id) && !listed.contains_key(id);
                self.all.retain(|one| !one.id.as_ref().is_some_and(is_gone));
            }
        }
        Ok(())
    }

    fn enter(&mut self, mut listed: Listed, owner: &Party) -> Result<()> {
        if listed.is_empty() {
            return Ok(());
        }
        let _turn = self.take_turn();
        let question = Question::Enter(listed.keys().copied().collect());
        let told = self.ask_one(owner.clone(), &question)?;
        self.add(&told.found, owner)?;
        if let Err(why) = told.result() {
            listed.retain(|id, _| !self.filter.known.contains(id));
            self.unread_uninhabited(listed.len(), owner, &listed, &why);
        }
        Ok(())
    }

    /// Waits for this call's turn to enter namespaces that no process keeps alive, for as long as it can: after that it
    /// goes in beside the others. Who is inside keeps the namespace, and every disk in it: were a new call to go in
    /// before the last one is out, a namespace that all have left would never end. The lock is on the driver's own
    /// directory, which no user can open.
    fn take_turn(&self) -> Option<File> {
        let lock = File::open(self.setting.turns.as_ref()?).ok()?;
        let end = Instant::now() + self.scan.time_for_a_turn();
        for step in Steps::between(Duration::from_millis(1), Duration::from_millis(20)) {
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Some(lock);
            }
            if Instant::now() > end {
                break;
            }
            thread::sleep(step);
        }
        None
    }

    /// Finds them before Linux 6.12, where only a reference leads there; and one may be mounted in another.
    fn uninhabited_by_references(&mut self) -> Result<()> {
        let _turn = self.take_turn();
        loop {
            let references = self.references()?;
            let mut doors: BTreeMap<NamespaceId, Vec<Door>> = BTreeMap::new();
            for (id, reference) in
                references.iter().filter(|(id, _)| !self.filter.known.contains(id))
            {
                doors.entry(*id).or_default().extend(self.door(reference));
            }
            if doors.is_empty() {
                self.explain(references);
                return Ok(());
            }
            self.filter.known.extend(doors.keys());
            let doors = doors.into_iter().map(|one| (Party::Users, one)).collect();
            let question = |(id, doors): &(NamespaceId, Vec<Door>)| Question::EnterBy {
                namespace: *id,
                doors: doors.clone(),
            };
            for (owner, (id, _), told) in self.ask(doors, question)? {
                match told.result() {
                    Ok(found) => self.add(&found, &owner)?,
                    Err(why @ Why::Skipped) => {
                        self.unread_uninhabited(1, &owner, &Listed::new(), &why);
                    }
                    Err(why) => {
                        self.unread.namespaces.insert(id, (owner, Vec::new(), why));
                    }
                }
            }
        }
    }

    /// Everything that keeps a mount namespace. Processes are listed again: one that was not there before may have made
    /// it.
    fn references(&mut self) -> Result<Vec<(NamespaceId, Reference)>> {
        let mut all = Vec::new();
        self.add_new_processes()?;
        // What this process has open it has for looking.
        let mut processes = self.in_order();
        processes.retain(|(_, pid)| *pid != std::process::id());
        for (owner, pid, told) in self.ask(processes, |pid| Question::References(*pid))? {
            all.extend(told.found.iter().filter_map(|one| match *one {
                Found::Home(task, namespace) => Some((namespace, Reference::Thread(task))),
                Found::Descriptor(descriptor, namespace) => {
                    Some((namespace, Reference::Open { pid, descriptor }))
                }
                _ => None,
            }));
            match told.result() {
                Err(why) if is_shortage(&owner, &why) => {
                    let what = "what keeps mount namespaces where no process lives";
                    self.unread.later(what.to_owned(), &why);
                }
                // What is closed to us leaves no trace.
                Err(why) if why.is_closed() => {}
                Ok(_) => {}
                Err(why) => drop(self.unread.processes.insert(pid, why)),
            }
        }
        for (within, namespace) in self.all.iter().enumerate() {
            for mount in namespace.table.mounts().iter().filter(|mount| mount.fs_type == "nsfs") {
                let place = mount.target.clone();
                let id = named_by(&mount.root);
                all.extend(id.map(|id| (id, Reference::Mounted { place, within })));
            }
        }
        Ok(all)
    }

    /// The way there. A place in a namespace where no process lives is no way.
    fn door(&self, reference: &Reference) -> Option<Door> {
        Some(match reference {
            Reference::Thread(task) => Door::Task(*task),
            Reference::Open { pid, descriptor } => {
                Door::Descriptor { pid: *pid, descriptor: *descriptor }
            }
            Reference::Mounted { place, within } => {
                let task = self.all[*within].tasks.first().copied();
                let within = if *within == 0 { None } else { Some(task?) };
                Door::Mounted { within, place: place.into() }
            }
        })
    }

    /// Notes what keeps the namespaces where no process is known to live.
    fn explain(&mut self, references: Vec<(NamespaceId, Reference)>) {
        let unexplained = self.all[1..].iter().filter(|one| one.tasks.is_empty());
        let unexplained: BTreeSet<NamespaceId> = unexplained.filter_map(|one| one.id).collect();
        for (id, reference) in references.into_iter().filter(|(id, _)| unexplained.contains(id)) {
            let Some(at) = self.all.iter().position(|one| one.id == Some(id)) else { continue };
            let keeper = match reference {
                Reference::Mounted { place, within } => {
                    NamespaceKeeper::MountedAt { place, within: self.all[within].id }
                }
                Reference::Open { pid, descriptor } => {
                    NamespaceKeeper::OpenIn { process: self.process(pid), descriptor }
                }
                Reference::Thread(task) => {
                    if self.all[at].tasks.iter().all(|other| other.pid != task.pid) {
                        self.all[at].tasks.push(task);
                    }
                    continue;
                }
            };
            self.all[at].keepers.push(keeper);
        }
    }

    /// A process with a closed link lives where its mounts are. One that stays without a place may live wherever no
    /// process is known to live.
    fn place_closed(&mut self, mut closed: Closed) -> Result<()> {
        let mut unplaced = None;
        let tasks = in_order(closed.keys().map(|task| (self.party(task.pid), *task)));
        for (owner, task, told) in self.ask(tasks, |task| Question::Listed(*task))? {
            let told = told.result();
            // It has ended.
            if told.as_ref().is_ok_and(Vec::is_empty) {
                continue;
            }
            let unread = closed.remove(&task).filter(|why| !why.is_closed());
            if let Err(why) = &told {
                self.unread_mounts(task.pid, &owner, why);
                unplaced = unplaced.or(unread.is_some().then_some(task.pid));
            }
            self.unread.processes.extend(unread.map(|why| (task.pid, why)));
            let Some(Found::Table(excerpt)) = told.iter().flatten().next() else { continue };
            let mut one = Namespace::of(excerpt)?;
            one.tasks.push(task);
            let ids = one.table.mounts().iter().map(|mount| mount.id).chain([one.first]).collect();
            match self.all.iter_mut().find(|known| known.has_any(&ids)) {
                Some(known) => {
                    known.tasks.append(&mut one.tasks);
                    if known.first == one.first {
                        self.unread.seen.insert(task.pid);
                    }
                }
                None => self.all.push(one),
            }
        }
        let unplaced = unplaced.map(|pid| NamespaceKeeper::Unexamined(self.process(pid)));
        for one in &mut self.all {
            one.tasks.sort_unstable();
            if one.tasks.is_empty() && one.keepers.is_empty() {
                one.keepers.extend(unplaced.clone());
            }
        }
        Ok(())
    }
}

/// Something that keeps a namespace alive and leads to it.
#[derive(Debug, Clone)]
enum Reference {
    Thread(Task),
    Open { pid: u32, descriptor: u32 },
    Mounted { place: PathBuf, within: usize },
}

fn listed_in(found: &[Found]) -> Listed {
    let listed = |one: &Found| match *one {
        Found::Listed(namespace, user) => Some((namespace, user)),
        _ => None,
    };
    found.iter().filter_map(listed).collect()
}
