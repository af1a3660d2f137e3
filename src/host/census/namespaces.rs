//! All mount namespaces of the machine: this machine's and those of pods first, those that ordinary users made last.

use super::answers::named_by;
use super::inspection::{Inspection, Namespace, in_order, namespace_in};
use super::proc::{Proc, Task};
use super::question::{Door, Found, Question, Why};
use super::scan::{Class, Party, Response};
use super::unread::is_shortage;
use crate::model::error::{Error, Result};
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{NamespaceId, NamespaceKeeper};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

type Residents = BTreeMap<NamespaceId, Vec<Task>>;
/// Processes that are placed by their mounts, because their links are closed or do not answer.
type Closed = BTreeMap<u32, Why>;
/// The namespaces that the kernel lists, with the ordinary user who made each.
type Listed = BTreeMap<u64, Option<u32>>;

/// So many of the processes that live in a namespace are tried in order to read its mounts.
const MOST_TRIED: usize = 64;

impl Inspection<'_> {
    /// Reads them: of namespaces of pods those of these pods first.
    pub(super) fn read_namespaces(&mut self, pods: &BTreeSet<ConsumerId>) -> Result<()> {
        let own = own_namespace(&self.proc)?;
        self.add_new_processes()?;
        let (users, others): (Vec<_>, Vec<_>) =
            self.in_order().into_iter().partition(|(owner, _)| owner.class() == Class::Users);
        let (mut residents, mut closed) = (Residents::new(), Closed::new());
        self.place(&others, &mut residents, &mut closed)?;
        // Asked before users' processes use up the budget of users: root's namespaces are among those listed.
        let listed = self.list(residents.keys().chain([&own]).map(|id| id.0).collect())?;
        self.place(&users, &mut residents, &mut closed)?;
        let tasks = residents.remove(&own).unwrap_or_default();
        let table = self.proc.own_table()?;
        let first = table.mounts().first().map_or(0, |mount| mount.id);
        let (id, keepers, owner) = (Some(own), Vec::new(), Party::Root);
        self.all = vec![Namespace { id, tasks, table, first, user: None, keepers, owner }];
        let known = residents.keys().copied().chain([own]).collect();
        self.inhabited(residents, pods, listed.as_ref(), &mut closed)?;
        match listed {
            Some(listed) => self.uninhabited(&known, listed)?,
            None => self.uninhabited_by_references(known)?,
        }
        self.place_closed(&closed)
    }

    /// Finds out where processes live.
    fn place(
        &mut self,
        processes: &[(Party, u32)],
        residents: &mut Residents,
        closed: &mut Closed,
    ) -> Result<()> {
        let place = |pid: u32| Question::Place(Task::first_of(pid));
        let asked = processes.iter().map(|(owner, pid)| (owner.clone(), place(*pid)));
        let asked: Vec<_> = asked.collect();
        for ((owner, pid), told) in processes.iter().zip(self.ask(&asked)?) {
            match told.result() {
                Ok(found) => {
                    if let Some((task, id)) = found.iter().find_map(placed) {
                        residents.entry(id).or_default().push(task);
                    }
                }
                Err(why)
                    if is_shortage(owner, &why)
                        || *owner == Party::Root && matches!(why, Why::Late) =>
                {
                    self.unread.later(format!("where process {pid} lives"), &why);
                }
                Err(why) => drop(closed.insert(*pid, why)),
            }
        }
        Ok(())
    }

    /// Has the kernel list the namespaces but these, in which the machine's own processes and those of pods live. Users
    /// can make as many as they like, so their budget pays for it. None before Linux 6.12.
    fn list(&mut self, but: Vec<u64>) -> Result<Option<Listed>> {
        if !self.setting.walks_namespaces {
            return Ok(None);
        }
        let question = Question::List { these: but, is_only: false };
        let Some(told) = self.ask(&[(Party::Users, question)])?.pop() else { return Ok(None) };
        let listed = makers(&told.found);
        let users: Vec<u32> = listed.values().copied().flatten().collect();
        for found in &told.found {
            if let Found::More(count) = found {
                self.unread_uninhabited(Some(*count), Some(&users), &Why::Skipped);
            }
        }
        match told.result() {
            Ok(_) => {}
            Err(why) if why.is_lack() => {
                self.unread.later("where no process lives".to_owned(), &why);
            }
            Err(Why::Failed(_)) => return Ok(None),
            Err(why) => self.unread_uninhabited(None, Some(&users), &why),
        }
        Ok(Some(listed))
    }

    /// Reads the mounts where processes live: first of the machine's own namespaces, then of pods', then of users'.
    fn inhabited(
        &mut self,
        residents: Residents,
        pods: &BTreeSet<ConsumerId>,
        listed: Option<&Listed>,
        closed: &mut Closed,
    ) -> Result<()> {
        let is_roots =
            |id: &NamespaceId| listed.and_then(|listed| listed.get(&id.0)) == Some(&None);
        let mut residents = in_order(residents.into_iter().map(|(id, tasks)| {
            let owner = self.owner_of(&tasks);
            // Users cannot make one of those, however many of their processes live there.
            let is_roots = owner.class() == Class::Users && is_roots(&id);
            (if is_roots { Party::Root } else { owner }, (id, tasks))
        }));
        let is_first = |owner: &Party| matches!(owner, Party::Pod(pod) if pods.contains(pod));
        residents.sort_by_key(|(owner, _)| (owner.class(), !is_first(owner)));
        let table = |(owner, (id, tasks)): &(Party, (NamespaceId, Vec<Task>))| {
            let doors = tasks.iter().take(MOST_TRIED).map(|task| Door::Task(*task)).collect();
            (owner.clone(), Question::Table { namespace: id.0, doors })
        };
        let asked: Vec<_> = residents.iter().map(table).collect();
        for ((owner, (id, tasks)), told) in residents.into_iter().zip(self.ask(&asked)?) {
            match told.result() {
                Ok(found) => match namespace_in(&found, Some(id), tasks.clone(), owner)? {
                    Some(one) => self.all.push(one),
                    // Those that were tried have ended.
                    None => closed
                        .extend(tasks.iter().skip(MOST_TRIED).map(|one| (one.pid, Why::Skipped))),
                },
                // Those who live there are placed by their mounts, which they tell.
                Err(why @ (Why::Stalled | Why::Skipped)) => {
                    closed.extend(tasks.iter().map(|task| (task.pid, why.clone())));
                }
                Err(why) => {
                    // A pod that has nothing to do with the volume can make any look late.
                    let is_awaited = owner == Party::Root || is_first(&owner);
                    self.unread_namespace((id, &owner, is_awaited), &tasks, &why);
                }
            }
        }
        Ok(())
    }

    /// Whose a namespace is, by those who live there: a pod's has its processes, and perhaps a watcher or two.
    fn owner_of(&self, tasks: &[Task]) -> Party {
        let owners = tasks.iter().map(|task| self.party(task.pid));
        let order = |owner: &Party| match owner {
            Party::Pod(_) => 0,
            Party::Container(_) => 1,
            Party::Root => 2,
            Party::User(_) | Party::Users => 3,
        };
        owners.min_by_key(order).unwrap_or(Party::Root)
    }

    /// Reads the mounts where no process is known to live. Of those that mount one of the file systems it is also found
    /// out what keeps them.
    fn uninhabited(&mut self, known: &HashSet<NamespaceId>, listed: Listed) -> Result<()> {
        let first = self.all.len();
        let unknown = listed.into_iter().filter(|(id, _)| !known.contains(&NamespaceId(*id)));
        let (roots, users): (Listed, Listed) = unknown.partition(|(_, user)| user.is_none());
        if !roots.is_empty() || !users.is_empty() {
            let _turn =
                super::turns::take(self.setting.turns.as_ref(), self.scan.time_for_a_turn());
            self.enter(roots, &Party::Root)?;
            self.enter(users, &Party::Users)?;
        }
        let numbers = self.filter.numbers.clone();
        let is_asked = |one: &Namespace| one.mounts_of(&numbers).next().is_some();
        if self.all[first..].iter().any(is_asked) {
            let references = self.references()?;
            self.explain(first, references);
            // What only a look kept ended with it.
            let is_kept = |one: &Namespace| !one.tasks.is_empty() || !one.keepers.is_empty();
            let unkept = self.all[first..].iter().filter(|one| is_asked(one) && !is_kept(one));
            let gone = self.gone(unkept.filter_map(|one| Some(one.id?.0)).collect())?;
            self.all.retain(|one| one.id.is_none_or(|id| !gone.contains(&id.0)));
        }
        Ok(())
    }

    /// Those of these that the kernel lists no more.
    fn gone(&mut self, mut these: BTreeSet<u64>) -> Result<BTreeSet<u64>> {
        if these.is_empty() {
            return Ok(these);
        }
        let question = Question::List { these: these.iter().copied().collect(), is_only: true };
        let told = self.ask(&[(Party::Users, question)])?.pop().map(Response::result);
        match told {
            Some(Ok(found)) if !found.iter().any(|one| matches!(one, Found::More(_))) => {
                let listed = makers(&found);
                these.retain(|id| !listed.contains_key(id));
                Ok(these)
            }
            _ => Ok(BTreeSet::new()),
        }
    }

    fn enter(&mut self, mut left: Listed, owner: &Party) -> Result<()> {
        if left.is_empty() {
            return Ok(());
        }
        let question = Question::Enter(left.keys().copied().collect());
        let Some(told) = self.ask(&[(owner.clone(), question)])?.pop() else { return Ok(()) };
        // Of each namespace it is told who made it, and then its mounts or why they could not be read.
        let is_end = |one: &Found| matches!(one, Found::Table { .. } | Found::Unread { .. });
        for found in told.found.split_inclusive(is_end) {
            match found.last() {
                Some(Found::Unread { namespace, why }) => {
                    left.remove(namespace);
                    let (id, why) = (NamespaceId(*namespace), Why::Failed(why.clone()));
                    self.unread_namespace((id, owner, *owner == Party::Root), &[], &why);
                }
                Some(Found::Table { namespace: Some(id), .. }) => {
                    left.remove(id);
                    let id = Some(NamespaceId(*id));
                    self.all.extend(namespace_in(found, id, Vec::new(), owner.clone())?);
                }
                _ => {}
            }
        }
        if let Err(why) = told.result() {
            let users: Vec<u32> = left.values().copied().flatten().collect();
            let users = (*owner == Party::Users).then_some(users.as_slice());
            self.unread_uninhabited(Some(left.len()), users, &why);
        }
        Ok(())
    }

    /// Finds them before Linux 6.12, where only a reference leads there; and one may be mounted in another.
    fn uninhabited_by_references(&mut self, mut known: HashSet<NamespaceId>) -> Result<()> {
        let first = self.all.len();
        let _turn = super::turns::take(self.setting.turns.as_ref(), self.scan.time_for_a_turn());
        loop {
            let references = self.references()?;
            let mut doors: BTreeMap<NamespaceId, Vec<Door>> = BTreeMap::new();
            for (id, reference) in references.iter().filter(|(id, _)| !known.contains(id)) {
                doors.entry(*id).or_default().extend(self.door(reference));
            }
            if doors.is_empty() {
                self.explain(first, references);
                return Ok(());
            }
            known.extend(doors.keys());
            let table = |(id, doors): (&NamespaceId, &Vec<Door>)| {
                (Party::Users, Question::Table { namespace: id.0, doors: doors.clone() })
            };
            let asked: Vec<_> = doors.iter().map(table).collect();
            for (id, told) in doors.keys().zip(self.ask(&asked)?) {
                match told.result() {
                    Ok(found) => {
                        self.all.extend(namespace_in(&found, Some(*id), vec![], Party::Users)?);
                    }
                    Err(why @ Why::Skipped) => self.unread_uninhabited(Some(1), Some(&[]), &why),
                    Err(why) => self.unread_namespace((*id, &Party::Users, false), &[], &why),
                }
            }
        }
    }

    /// Everything that keeps a mount namespace. Processes are listed again: one that was not there before may have made
    /// it.
    fn references(&mut self) -> Result<Vec<(NamespaceId, Reference)>> {
        let mut found = Vec::new();
        self.add_new_processes()?;
        // What this process has open it has for looking.
        let mut processes = self.in_order();
        processes.retain(|(_, pid)| *pid != std::process::id());
        let asked =
            processes.iter().map(|(owner, pid)| (owner.clone(), Question::References(*pid)));
        let asked: Vec<_> = asked.collect();
        for ((owner, pid), told) in processes.into_iter().zip(self.ask(&asked)?) {
            found.extend(told.found.iter().filter_map(|one| match one {
                Found::Namespace { task, namespace } => {
                    Some((NamespaceId(*namespace), Reference::Thread(*task)))
                }
                Found::Descriptor { descriptor, namespace } => {
                    let descriptor = *descriptor;
                    Some((NamespaceId(*namespace), Reference::Open { pid, descriptor }))
                }
                _ => None,
            }));
            match told.result() {
                Err(why) if is_shortage(&owner, &why) => {
                    let what = "what keeps mount namespaces where no process lives";
                    self.unread.later(what.to_owned(), &why);
                }
                // What is closed to us leaves no trace.
                Err(Why::Failed(failure)) if !failure.is_lack() => {}
                Ok(_) => {}
                Err(why) => drop(self.unread.processes.insert(pid, why)),
            }
        }
        for (within, namespace) in self.all.iter().enumerate() {
            for mount in namespace.table.mounts().iter().filter(|mount| mount.fs_type == "nsfs") {
                let place = mount.target.clone();
                let id = named_by(&mount.root);
                found.extend(id.map(|id| (id, Reference::Mounted { place, within })));
            }
        }
        Ok(found)
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

    /// Notes what keeps the namespaces that were added last.
    fn explain(&mut self, first: usize, references: Vec<(NamespaceId, Reference)>) {
        for (id, reference) in references {
            let keeper = match &reference {
                Reference::Mounted { place, within } => Some(NamespaceKeeper::MountedAt {
                    place: place.clone(),
                    within: self.all[*within].id,
                }),
                Reference::Open { pid, descriptor } => Some(NamespaceKeeper::OpenIn {
                    process: self.process(*pid),
                    descriptor: *descriptor,
                }),
                Reference::Thread(_) => None,
            };
            let Some(one) = self.all[first..].iter_mut().find(|one| one.id == Some(id)) else {
                continue;
            };
            one.keepers.extend(keeper);
            if let Reference::Thread(task) = reference
                && one.tasks.iter().all(|other| other.pid != task.pid)
            {
                one.tasks.push(task);
            }
        }
    }

    /// A process with a closed link lives where its mounts are: each is in one namespace only. One that stays without a
    /// place may live wherever no process is known to live.
    fn place_closed(&mut self, closed: &Closed) -> Result<()> {
        let mut unplaced = None;
        let processes = in_order(closed.keys().map(|pid| (self.party(*pid), *pid)));
        let listed =
            |(owner, pid): &(Party, u32)| (owner.clone(), Question::Listed(Task::first_of(*pid)));
        let asked: Vec<_> = processes.iter().map(listed).collect();
        for ((owner, pid), told) in processes.into_iter().zip(self.ask(&asked)?) {
            let is_closed = |why: &Why| matches!(why, Why::Failed(_)) && !why.is_lack();
            let unread = closed.get(&pid).filter(|why| !is_closed(why));
            if let Some(why) = unread {
                self.unread.processes.insert(pid, why.clone());
            }
            let found = match told.result() {
                Ok(found) => found,
                Err(why) => {
                    self.unread_mounts(pid, &owner, &why);
                    unplaced = unplaced.or(unread.map(|_| pid));
                    continue;
                }
            };
            let Some(mut one) = namespace_in(&found, None, vec![Task::first_of(pid)], owner)?
            else {
                continue;
            };
            let ids = || one.table.mounts().iter().map(|mount| mount.id).chain([one.first]);
            match self.all.iter_mut().find(|known| known.has_any(ids())) {
                Some(known) => {
                    known.tasks.append(&mut one.tasks);
                    if known.first == one.first {
                        self.unread.seen.insert(pid);
                    }
                }
                None => self.all.push(one),
            }
        }
        if let Some(pid) = unplaced {
            let process = self.process(pid);
            for one in &mut self.all {
                if one.tasks.is_empty() && one.keepers.is_empty() {
                    one.keepers.push(NamespaceKeeper::Unexamined(process.clone()));
                }
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

/// This thread's mount namespace.
pub(super) fn own_namespace(proc: &Proc) -> Result<NamespaceId> {
    proc.namespace_at("thread-self")
        .map_err(|error| Error::io("look up this process's mount namespace", &error))
}

pub(super) fn placed(found: &Found) -> Option<(Task, NamespaceId)> {
    match found {
        Found::Namespace { task, namespace } => Some((*task, NamespaceId(*namespace))),
        _ => None,
    }
}

fn makers(found: &[Found]) -> Listed {
    let maker = |one: &Found| match one {
        Found::Maker { namespace, user } => Some((*namespace, *user)),
        _ => None,
    };
    found.iter().filter_map(maker).collect()
}
