//! All mount namespaces of the machine: this machine's and those of pods first, those that ordinary users made last.

use super::answers::named_by;
use super::proc::{Proc, Task, pids};
use super::question::{Door, Excerpt, Filter, Found, Question};
use super::scan::{Asked, Party, Response, Scan, Why};
use super::unread::Unread;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Result};
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{NamespaceId, NamespaceKeeper};
use crate::model::mount::mountinfo::{Mount, MountTable};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::Arc;

/// One mount namespace.
#[derive(Debug)]
pub(super) struct Namespace {
    /// Which; unknown if the links of all its processes are closed to us.
    pub(super) id: Option<NamespaceId>,
    /// One thread of each process that lives there.
    pub(super) tasks: Vec<Task>,
    /// Of this thread's namespace all mounts, of others those that the filter asks for.
    pub(super) table: Arc<MountTable>,
    /// The id of the first mount of all.
    pub(super) first: u32,
    /// The ordinary user who made it.
    pub(super) user: Option<u32>,
    /// What keeps it alive without a process.
    pub(super) keepers: Vec<NamespaceKeeper>,
}

impl Namespace {
    /// The mounts of these file systems.
    pub(super) fn mounts_of(&self, numbers: &[DeviceNumber]) -> impl Iterator<Item = &Mount> {
        self.table.mounts().iter().filter(|mount| numbers.contains(&mount.number))
    }

    /// Whether one of these mounts is in it: their ids are unique among all namespaces.
    pub(super) fn has_any(&self, mut ids: impl Iterator<Item = u32>) -> bool {
        ids.any(|id| self.first == id || self.table.mounts().iter().any(|mount| mount.id == id))
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Namespaces {
    /// This thread's.
    pub(super) own: NamespaceId,
    /// Every one, this thread's first.
    pub(super) all: Vec<Namespace>,
    /// What could not be read.
    pub(super) unread: Unread,
}

/// Reads them.
pub(super) struct Reader<'a> {
    pub(super) scan: &'a mut Scan,
    pub(super) proc: &'a Proc,
    pub(super) filter: &'a Filter,
    /// Whether the kernel may be asked for those without a process.
    pub(super) walks: bool,
    /// The pods that are read before others.
    pub(super) first: &'a BTreeSet<ConsumerId>,
    /// Whether who asks comes again for what took too long.
    pub(super) comes_again: bool,
    /// Where calls take turns to enter namespaces that no process keeps alive.
    pub(super) turns: Option<&'a PathBuf>,
}

type Residents = BTreeMap<NamespaceId, Vec<Task>>;

impl Reader<'_> {
    pub(super) fn namespaces(&mut self) -> Result<Namespaces> {
        let own = own_namespace(self.proc)?;
        let mut unread = Unread::of(self.comes_again);
        let mut closed = Vec::new();
        let mut residents = self.residents(&mut unread, &mut closed)?;
        let tasks = residents.remove(&own).unwrap_or_default();
        let table = self.proc.own_table()?;
        let first = table.mounts().first().map_or(0, |mount| mount.id);
        let own_one = Namespace { id: Some(own), tasks, table, first, user: None, keepers: vec![] };
        let mut every = Namespaces { own, all: vec![own_one], unread: Unread::default() };
        let mut known: HashSet<NamespaceId> = residents.keys().copied().collect();
        known.insert(own);
        self.inhabited(&mut every, residents, &mut closed, &mut unread)?;
        self.uninhabited(&mut every, &mut known, &mut unread)?;
        self.place_closed(&mut every, closed, &mut unread)?;
        every.unread = unread;
        Ok(every)
    }

    fn ask(&mut self, users: bool, asked: Vec<Asked>) -> Result<Vec<Response>> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let told = self.scan.ask(self.proc, self.filter, users, asked);
        told.map_err(|error| Error::io("read other processes", &error))
    }

    /// Where processes live. Those whose links are closed, or do not answer, are placed by their mounts.
    fn residents(
        &mut self,
        unread: &mut Unread,
        closed: &mut Vec<(u32, Why)>,
    ) -> Result<Residents> {
        let pids = pids(self.proc)?;
        let place = |pid| Question::Place { task: Task::first_of(pid), or_another: true };
        let asked = pids.iter().map(|pid| Asked { question: place(*pid), owner: None }).collect();
        let mut residents = Residents::new();
        for (pid, told) in pids.iter().zip(self.ask(false, asked)?) {
            match told.result() {
                Ok(found) => {
                    if let Some((task, id)) = found.iter().find_map(placed) {
                        residents.entry(id).or_default().push(task);
                    }
                }
                Err(why) if why.is_lack() || matches!(why, Why::Late) => {
                    unread.later(format!("where process {pid} lives"), &why);
                }
                Err(why) => closed.push((*pid, why)),
            }
        }
        Ok(residents)
    }

    /// Those where processes live: first those that root made.
    fn inhabited(
        &mut self,
        every: &mut Namespaces,
        residents: Residents,
        closed: &mut Vec<(u32, Why)>,
        unread: &mut Unread,
    ) -> Result<()> {
        let mut others: Vec<_> = residents.into_iter().collect();
        if !self.first.is_empty() {
            others.sort_by_cached_key(|(_, tasks)| {
                let pods =
                    tasks.iter().filter_map(|task| self.proc.describe(task.pid).ok()?.owner.pod);
                pods.map(|pod| !self.first.contains(&pod)).min().unwrap_or(true)
            });
        }
        let foreign = self.tables(every, others, (true, false), closed, unread)?;
        let of = |tasks: &[Task]| owner_of_some(self.proc, tasks);
        let foreign: Vec<_> =
            foreign.into_iter().map(|(id, tasks)| (of(&tasks), (id, tasks))).collect();
        let is_contained = |owner: &Party| matches!(owner, Party::Pod(_) | Party::Container(_));
        let (contained, users): (Vec<_>, Vec<_>) =
            in_turns(foreign).into_iter().partition(|(owner, _)| is_contained(owner));
        for (all, is_users) in [(contained, false), (users, true)] {
            let all = all.into_iter().map(|(_, one)| one).collect();
            self.tables(every, all, (false, is_users), closed, unread)?;
        }
        Ok(())
    }

    /// Reads their tables; answers those that root did not make, if they are not asked for.
    fn tables(
        &mut self,
        every: &mut Namespaces,
        residents: Vec<(NamespaceId, Vec<Task>)>,
        (if_initial, users): (bool, bool),
        closed: &mut Vec<(u32, Why)>,
        unread: &mut Unread,
    ) -> Result<Vec<(NamespaceId, Vec<Task>)>> {
        let asked = residents.iter().map(|(id, tasks)| {
            // Some of many are enough to find one at the namespace's root.
            let tasks: Vec<Task> = tasks.clone();
            let owner = (!if_initial).then(|| owner_of_some(self.proc, &tasks));
            Asked { question: Question::Table { namespace: id.0, tasks, if_initial }, owner }
        });
        let asked = asked.collect();
        let mut foreign = Vec::new();
        for ((id, tasks), told) in residents.into_iter().zip(self.ask(users, asked)?) {
            match told.result() {
                Ok(found) => {
                    let is_foreign =
                        found.iter().any(|one| matches!(one, Found::Maker { user: Some(_), .. }));
                    match namespace_in(&found, Some(id), tasks.clone())? {
                        Some(one) => every.all.push(one),
                        None if is_foreign && if_initial => foreign.push((id, tasks)),
                        None => {}
                    }
                }
                // Those who live there are placed by their mounts, which they tell.
                Err(why @ (Why::Stalled | Why::Skipped)) => {
                    closed.extend(tasks.iter().map(|task| (task.pid, why.clone())));
                }
                Err(why) => unread.namespace(Some(id), &tasks, self.proc, &why),
            }
        }
        Ok(foreign)
    }

    /// Those that none of the others' processes live in. Of those that mount one of the file systems it
    /// is also found out what keeps them.
    fn uninhabited(
        &mut self,
        every: &mut Namespaces,
        known: &mut HashSet<NamespaceId>,
        unread: &mut Unread,
    ) -> Result<()> {
        const WHERE: &str = "where no process lives";
        let first = every.all.len();
        if !self.walks {
            return self.uninhabited_by_references(every, known, unread);
        }
        let mut turn = None;
        let listed = loop {
            let question = Question::Others { known: known.iter().map(|id| id.0).collect() };
            let told = self.ask(false, vec![Asked { question, owner: Some(Party::Root) }])?;
            match told.into_iter().next().map(Response::result) {
                Some(Ok(found)) if !found.is_empty() && turn.is_none() => {
                    // What waited for its turn may be gone: so they are listed again.
                    turn = Some(super::turns::take(self.turns, self.scan.time_for_a_turn()));
                }
                Some(Ok(found)) => break found,
                Some(Err(why)) if why.is_lack() || !matches!(why, Why::Failed(_)) => {
                    unread.later(WHERE.to_owned(), &why);
                    return Ok(());
                }
                // Before Linux 6.12.
                _ => return self.uninhabited_by_references(every, known, unread),
            }
        };
        for is_users in [false, true] {
            let ids: Vec<u64> = listed
                .iter()
                .filter_map(|one| match one {
                    Found::Maker { namespace, user } if user.is_some() == is_users => {
                        Some(*namespace)
                    }
                    _ => None,
                })
                .collect();
            self.enter(every, ids, is_users, unread)?;
        }
        drop(turn);
        let numbers = &self.filter.numbers;
        let is_asked = |one: &Namespace| one.mounts_of(numbers).next().is_some();
        if every.all[first..].iter().any(is_asked) {
            for (id, reference) in self.references(every, unread)? {
                self.explain(every, (first, unread), id, &reference);
            }
            // What only a look kept ended with it.
            let is_kept = |one: &Namespace| !one.tasks.is_empty() || !one.keepers.is_empty();
            let unkept = every.all[first..].iter().filter(|one| is_asked(one) && !is_kept(one));
            let unkept: Vec<_> = unkept.filter_map(|one| one.id).collect();
            let is_gone = |id: &NamespaceId| matches!(self.scan.open(id.0, vec![], true), Ok(None));
            let gone: HashSet<_> = unkept.into_iter().filter(is_gone).collect();
            every.all.retain(|one| one.id.is_none_or(|id| !gone.contains(&id)));
        }
        Ok(())
    }

    fn enter(
        &mut self,
        every: &mut Namespaces,
        ids: Vec<u64>,
        users: bool,
        unread: &mut Unread,
    ) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let question = Question::Enter(ids.clone());
        let told = self.ask(users, vec![Asked { question, owner: None }])?;
        let Some(told) = told.into_iter().next() else { return Ok(()) };
        let mut left: BTreeSet<u64> = ids.into_iter().collect();
        for found in split(&told.found) {
            match found.last() {
                Some(Found::Unread { namespace, why }) => {
                    left.remove(namespace);
                    let why = Why::Failed(why.clone());
                    unread.namespace(Some(NamespaceId(*namespace)), &[], self.proc, &why);
                }
                Some(Found::Table { namespace: Some(id), .. }) => {
                    left.remove(id);
                    every.all.extend(namespace_in(found, Some(NamespaceId(*id)), Vec::new())?);
                }
                _ => {}
            }
        }
        if let Err(why) = told.result() {
            unread.uninhabited(&left, users, &why);
        }
        Ok(())
    }

    /// Finds them before Linux 6.12, where only a reference leads there; and one may be mounted in another.
    fn uninhabited_by_references(
        &mut self,
        every: &mut Namespaces,
        known: &mut HashSet<NamespaceId>,
        unread: &mut Unread,
    ) -> Result<()> {
        let first = every.all.len();
        let _turn = super::turns::take(self.turns, self.scan.time_for_a_turn());
        loop {
            let references = self.references(every, unread)?;
            let mut doors: BTreeMap<NamespaceId, Vec<Door>> = BTreeMap::new();
            for (id, reference) in references.iter().filter(|(id, _)| !known.contains(id)) {
                doors.entry(*id).or_default().extend(reference.door(every));
            }
            if doors.is_empty() {
                for (id, reference) in references {
                    self.explain(every, (first, unread), id, &reference);
                }
                return Ok(());
            }
            known.extend(doors.keys());
            let asked = doors.iter().map(|(id, doors)| {
                let question = Question::EnterBy { namespace: id.0, doors: doors.clone() };
                Asked { question, owner: None }
            });
            let asked = asked.collect();
            for (id, told) in doors.keys().zip(self.ask(true, asked)?) {
                match told.result() {
                    Ok(found) => every.all.extend(namespace_in(&found, Some(*id), Vec::new())?),
                    Err(why) => unread.namespace(Some(*id), &[], self.proc, &why),
                }
            }
        }
    }

    /// Everything that keeps a mount namespace. Processes are looked at anew: one that was not there
    /// before may have made it.
    fn references(
        &mut self,
        every: &Namespaces,
        unread: &mut Unread,
    ) -> Result<Vec<(NamespaceId, Reference)>> {
        let mut found = Vec::new();
        // What this process has open it has for looking.
        let others = pids(self.proc)?.into_iter().filter(|pid| *pid != std::process::id());
        for (users, processes) in by_owner(self.proc, others) {
            let asked = processes.iter().map(|(owner, pid)| Asked {
                question: Question::References(*pid),
                owner: Some(owner.clone()),
            });
            let asked = asked.collect();
            for ((_, pid), told) in processes.iter().zip(self.ask(users, asked)?) {
                let pid = *pid;
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
                    Err(why) if why.is_lack() => {
                        unread.later(
                            "what keeps mount namespaces where no process lives".to_owned(),
                            &why,
                        );
                    }
                    // What is closed to us leaves no trace.
                    Ok(_) | Err(Why::Failed(_)) => {}
                    Err(why) => unread.process(pid, &why),
                }
            }
        }
        for (within, namespace) in every.all.iter().enumerate() {
            for mount in namespace.table.mounts().iter().filter(|mount| mount.fs_type == "nsfs") {
                let place = mount.target.clone();
                let id = named_by(&mount.root);
                found.extend(id.map(|id| (id, Reference::Mounted { place, within })));
            }
        }
        Ok(found)
    }

    /// Notes what keeps a namespace, if it is one of those that were added last.
    fn explain(
        &self,
        every: &mut Namespaces,
        (first, unread): (usize, &mut Unread),
        id: NamespaceId,
        reference: &Reference,
    ) {
        let within = |at: usize| every.all[at].id;
        let keeper = match reference {
            Reference::Mounted { place, within: at } => {
                Some(NamespaceKeeper::MountedAt { place: place.clone(), within: within(*at) })
            }
            Reference::Open { pid, descriptor } => match self.proc.describe(*pid) {
                Ok(process) => Some(NamespaceKeeper::OpenIn { process, descriptor: *descriptor }),
                Err(error) => {
                    unread.later(format!("whose process {pid} is"), &Why::Failed(error.into()));
                    None
                }
            },
            Reference::Thread(_) => None,
        };
        let Some(one) = every.all.iter_mut().skip(first).find(|one| one.id == Some(id)) else {
            return;
        };
        one.keepers.extend(keeper);
        if let Reference::Thread(task) = *reference
            && one.tasks.iter().all(|other| other.pid != task.pid)
        {
            one.tasks.push(task);
        }
    }

    /// A process with a closed link lives where its mounts are: each is in one namespace only.
    fn place_closed(
        &mut self,
        every: &mut Namespaces,
        closed: Vec<(u32, Why)>,
        unread: &mut Unread,
    ) -> Result<()> {
        let why: HashMap<u32, Why> = closed.into_iter().collect();
        for (users, processes) in by_owner(self.proc, why.keys().copied()) {
            let asked = processes.iter().map(|(owner, pid)| Asked {
                question: Question::Listed(Task::first_of(*pid)),
                owner: Some(owner.clone()),
            });
            let asked = asked.collect();
            for ((_, pid), told) in processes.iter().zip(self.ask(users, asked)?) {
                let found = told.result();
                if let Some(why) = why.get(pid).filter(|why| !matches!(why, Why::Failed(_))) {
                    unread.process(*pid, why);
                }
                let found = match found {
                    Ok(found) => found,
                    Err(why) => {
                        unread.mounts_of(*pid, self.proc, &why);
                        continue;
                    }
                };
                let Some((first, table)) = found.iter().find_map(excerpt_of).transpose()? else {
                    continue;
                };
                unread.servers(*pid, &table);
                let task = Task::first_of(*pid);
                let ids = || table.mounts().iter().map(|mount| mount.id).chain([first]);
                match every.all.iter_mut().find(|one| one.has_any(ids())) {
                    Some(one) => {
                        one.tasks.push(task);
                        if one.first == first {
                            unread.seen(*pid);
                        }
                    }
                    None => every.all.push(Namespace {
                        id: None,
                        tasks: vec![task],
                        table: Arc::new(table),
                        first,
                        user: None,
                        keepers: Vec::new(),
                    }),
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

impl Reference {
    /// The way there. A place in a namespace where no process lives is no way.
    fn door(&self, every: &Namespaces) -> Option<Door> {
        Some(match self {
            Self::Thread(task) => Door::Task(*task),
            Self::Open { pid, descriptor } => {
                Door::Descriptor { pid: *pid, descriptor: *descriptor }
            }
            Self::Mounted { place, within } => {
                let namespace = &every.all[*within];
                let is_own = namespace.id == Some(every.own);
                let task = namespace.tasks.first().copied();
                let within = if is_own { None } else { Some(task?) };
                Door::Mounted { within, place: place.clone() }
            }
        })
    }
}

/// This thread's mount namespace.
pub(super) fn own_namespace(proc: &Proc) -> Result<NamespaceId> {
    proc.namespace_at("thread-self")
        .map_err(|error| Error::io("look up this process's mount namespace", &error))
}

/// Processes with their owners: this machine's, then those of pods and containers, then ordinary users'; and
/// whether they are those.
pub(super) fn by_owner(
    proc: &Proc,
    pids: impl Iterator<Item = u32>,
) -> [(bool, Vec<(Party, u32)>); 3] {
    let [mut root, mut contained, mut users] = [const { Vec::new() }; 3];
    for pid in pids {
        let owner = proc.describe(pid).map_or(Party::Root, |process| Party::of(&process));
        let of = match owner {
            Party::Root => &mut root,
            Party::Pod(_) | Party::Container(_) => &mut contained,
            Party::User(_) => &mut users,
        };
        of.push((owner, pid));
    }
    [(false, root), (false, in_turns(contained)), (true, in_turns(users))]
}

/// In an order in which each owner has one before any has two: one owner of many holds up no other.
fn in_turns<O: Clone + Eq + Hash, T>(all: Vec<(O, T)>) -> Vec<(O, T)> {
    let mut counts: HashMap<O, usize> = HashMap::new();
    let mut numbered: Vec<(usize, (O, T))> = Vec::with_capacity(all.len());
    for (owner, one) in all {
        let count = counts.entry(owner.clone()).or_default();
        *count += 1;
        numbered.push((*count, (owner, one)));
    }
    numbered.sort_by_key(|(count, _)| *count);
    numbered.into_iter().map(|(_, one)| one).collect()
}

/// Whose a namespace is, by some of those who live there: a pod's has its processes, and perhaps a watcher or two.
fn owner_of_some(proc: &Proc, tasks: &[Task]) -> Party {
    let owners = tasks.iter().take(4).filter_map(|task| proc.describe(task.pid).ok());
    owners
        .map(|process| Party::of(&process))
        .min_by_key(|owner| match owner {
            Party::Pod(_) => 0,
            Party::Container(_) => 1,
            Party::User(_) => 2,
            Party::Root => 3,
        })
        .unwrap_or(Party::Root)
}

pub(super) fn placed(found: &Found) -> Option<(Task, NamespaceId)> {
    match found {
        Found::Namespace { task, namespace } => Some((*task, NamespaceId(*namespace))),
        _ => None,
    }
}

fn excerpt_of(found: &Found) -> Option<Result<(u32, MountTable)>> {
    match found {
        Found::Table { table: Excerpt { lines, first }, .. } => {
            Some(MountTable::parse(&lines.bytes()).map(|table| (*first, table)))
        }
        _ => None,
    }
}

pub(super) fn namespace_in(
    found: &[Found],
    id: Option<NamespaceId>,
    tasks: Vec<Task>,
) -> Result<Option<Namespace>> {
    let Some((first, table)) = found.iter().find_map(excerpt_of).transpose()? else {
        return Ok(None);
    };
    let user = found.iter().find_map(|one| match one {
        // A runtime that gives a container users of its own is root when it makes that one.
        Found::Maker { user, .. } => user.filter(|user| *user != 0),
        _ => None,
    });
    Ok(Some(Namespace { id, tasks, table: Arc::new(table), first, user, keepers: Vec::new() }))
}

/// What was told of each namespace: who made it, and then its mounts or why they could not be read.
fn split(found: &[Found]) -> impl Iterator<Item = &[Found]> {
    found.split_inclusive(|one| matches!(one, Found::Table { .. } | Found::Unread { .. }))
}
