//! All mount namespaces of the machine: this machine's and those of pods first, those that ordinary users made last.

use super::answers::named_by;
use super::proc::{Proc, Task};
use super::question::{Door, Excerpt, Filter, Found, Question, Why};
use super::roster::{Roster, in_order};
use super::scan::{Asked, Class, Party, Response, Scan};
use super::unread::{Unread, is_shortage};
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Result};
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{NamespaceId, NamespaceKeeper};
use crate::model::mount::mountinfo::{Mount, MountTable};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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
    /// Whose share pays for questions about it.
    pub(super) owner: Party,
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
    pub(super) own: NamespaceId,
    /// Every one, this thread's first.
    pub(super) all: Vec<Namespace>,
    /// What could not be read.
    pub(super) unread: Unread,
    /// The processes of this look.
    pub(super) roster: Roster,
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

/// So many of the processes that live in a namespace are tried in order to read its mounts.
const MOST_TRIED: usize = 64;

/// One look at all namespaces.
#[derive(Debug, Default)]
struct Look {
    unread: Unread,
    roster: Roster,
    residents: Residents,
    /// Processes that are placed by their mounts, because their links are closed or do not answer.
    closed: Vec<(u32, Why)>,
    /// The namespaces that the kernel lists, with the ordinary user who made each; none before Linux 6.12.
    listed: Option<BTreeMap<u64, Option<u32>>>,
}

impl Reader<'_> {
    pub(super) fn namespaces(&mut self) -> Result<Namespaces> {
        let own = own_namespace(self.proc)?;
        let mut unread = Unread::of(self.comes_again);
        let mut roster = Roster::default();
        unread.unclassified(roster.add_new(self.proc)?);
        let mut look = Look { unread, roster, ..Look::default() };
        let (users, others): (Vec<_>, Vec<_>) = look
            .roster
            .in_order()
            .into_iter()
            .partition(|(owner, _)| owner.class() == Class::Users);
        self.place(&mut look, &others)?;
        // Asked before users' processes use up the budget of users: root's namespaces are among those listed.
        self.list(&mut look, own)?;
        self.place(&mut look, &users)?;
        let tasks = look.residents.remove(&own).unwrap_or_default();
        let table = self.proc.own_table()?;
        let first = table.mounts().first().map_or(0, |mount| mount.id);
        let own_one = Namespace {
            id: Some(own),
            tasks,
            table,
            first,
            user: None,
            keepers: vec![],
            owner: Party::Root,
        };
        let all = vec![own_one];
        let mut every =
            Namespaces { own, all, unread: Unread::default(), roster: Roster::default() };
        let mut known: HashSet<NamespaceId> = look.residents.keys().copied().collect();
        known.insert(own);
        self.inhabited(&mut every, &mut look)?;
        self.uninhabited(&mut every, known, &mut look)?;
        if let Some(pid) = self.place_closed(&mut every, &mut look)? {
            self.mark_unexamined(&mut every, &look, pid);
        }
        (every.unread, every.roster) = (look.unread, look.roster);
        Ok(every)
    }

    fn ask(&mut self, asked: Vec<Asked>) -> Result<Vec<Response>> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let told = self.scan.ask(self.proc, self.filter, asked);
        told.map_err(|error| Error::io("read other processes", &error))
    }

    /// Finds out where processes live.
    fn place(&mut self, look: &mut Look, processes: &[(Party, u32)]) -> Result<()> {
        let asked = processes.iter().map(|(owner, pid)| Asked {
            question: Question::Place { task: Task::first_of(*pid), or_another: true },
            owner: Some(owner.clone()),
        });
        let asked = asked.collect();
        for ((owner, pid), told) in processes.iter().zip(self.ask(asked)?) {
            match told.result() {
                Ok(found) => {
                    if let Some((task, id)) = found.iter().find_map(placed) {
                        look.residents.entry(id).or_default().push(task);
                    }
                }
                Err(why)
                    if is_shortage(owner, &why)
                        || *owner == Party::Root && matches!(why, Why::Late) =>
                {
                    look.unread.later(format!("where process {pid} lives"), &why);
                }
                Err(why) => look.closed.push((*pid, why)),
            }
        }
        Ok(())
    }

    /// Has the kernel list the namespaces in which none of the machine's own processes and of pods' live. Users can make
    /// as many as they like, so their budget pays for it.
    fn list(&mut self, look: &mut Look, own: NamespaceId) -> Result<()> {
        if !self.walks {
            return Ok(());
        }
        let these = look.residents.keys().chain([&own]).map(|id| id.0).collect();
        let question = Question::List { these, is_only: false };
        let told = self.ask(vec![Asked { question, owner: Some(Party::Users) }])?.pop();
        let Some(told) = told else { return Ok(()) };
        let mut listed = BTreeMap::new();
        for found in &told.found {
            match found {
                Found::Maker { namespace, user } => drop(listed.insert(*namespace, *user)),
                Found::More(count) => {
                    let users: Vec<u32> = listed.values().copied().flatten().collect();
                    look.unread.uninhabited(*count, Some(&users), &Why::Skipped);
                }
                _ => {}
            }
        }
        match told.result() {
            Ok(_) => {}
            Err(why) if why.is_lack() => {
                look.unread.later("where no process lives".to_owned(), &why);
            }
            // Before Linux 6.12.
            Err(Why::Failed(_)) => return Ok(()),
            Err(why) => {
                let users: Vec<u32> = listed.values().copied().flatten().collect();
                look.unread.unlisted(&users, &why);
            }
        }
        look.listed = Some(listed);
        Ok(())
    }

    /// Reads the mounts where processes live: first of the machine's own namespaces, then of pods', then of users'.
    fn inhabited(&mut self, every: &mut Namespaces, look: &mut Look) -> Result<()> {
        let is_roots = |id: &NamespaceId| {
            look.listed.as_ref().and_then(|listed| listed.get(&id.0)) == Some(&None)
        };
        let residents = std::mem::take(&mut look.residents).into_iter().map(|(id, tasks)| {
            let owner = owner_of(&look.roster, &tasks);
            // Users cannot make one of those, however many of their processes live there.
            let is_roots = owner.class() == Class::Users && is_roots(&id);
            (if is_roots { Party::Root } else { owner }, (id, tasks))
        });
        let mut residents = in_order(residents);
        let is_first = |owner: &Party| matches!(owner, Party::Pod(pod) if self.first.contains(pod));
        residents.sort_by_key(|(owner, _)| (owner.class(), !is_first(owner)));
        let asked = residents.iter().map(|(owner, (id, tasks))| {
            let tasks = tasks.iter().take(MOST_TRIED).copied().collect();
            Asked {
                question: Question::Table { namespace: id.0, tasks },
                owner: Some(owner.clone()),
            }
        });
        let asked = asked.collect();
        for ((owner, (id, tasks)), told) in residents.into_iter().zip(self.ask(asked)?) {
            match told.result() {
                Ok(found) => {
                    // Those that were tried may have ended.
                    let others = tasks.iter().skip(MOST_TRIED).map(|task| (task.pid, Why::Skipped));
                    let others: Vec<_> = others.collect();
                    match namespace_in(&found, Some(id), tasks, owner)? {
                        Some(one) => every.all.push(one),
                        None => look.closed.extend(others),
                    }
                }
                // Those who live there are placed by their mounts, which they tell.
                Err(why @ (Why::Stalled | Why::Skipped)) => {
                    look.closed.extend(tasks.iter().map(|task| (task.pid, why.clone())));
                }
                Err(why) => {
                    // A pod that has nothing to do with the volume can make any look late.
                    let is_awaited = self.comes_again && (owner == Party::Root || is_first(&owner));
                    let known = (self.proc, &look.roster);
                    look.unread.namespace((id, &owner, is_awaited), &tasks, known, &why);
                }
            }
        }
        Ok(())
    }

    /// Reads the mounts where no process is known to live. Of those that mount one of the file systems it is also found
    /// out what keeps them.
    fn uninhabited(
        &mut self,
        every: &mut Namespaces,
        mut known: HashSet<NamespaceId>,
        look: &mut Look,
    ) -> Result<()> {
        let first = every.all.len();
        let Some(listed) = look.listed.take() else {
            return self.uninhabited_by_references(every, &mut known, look);
        };
        let unknown = listed.into_iter().filter(|(id, _)| !known.contains(&NamespaceId(*id)));
        let (roots, users): (Vec<_>, Vec<_>) = unknown.partition(|(_, user)| user.is_none());
        if !roots.is_empty() || !users.is_empty() {
            let _turn = super::turns::take(self.turns, self.scan.time_for_a_turn());
            self.enter(every, roots, &Party::Root, look)?;
            self.enter(every, users, &Party::Users, look)?;
        }
        let numbers = &self.filter.numbers;
        let is_asked = |one: &Namespace| one.mounts_of(numbers).next().is_some();
        if every.all[first..].iter().any(is_asked) {
            for (id, reference) in self.references(every, look)? {
                self.explain(every, (first, look), id, &reference);
            }
            // What only a look kept ended with it.
            let is_kept = |one: &Namespace| !one.tasks.is_empty() || !one.keepers.is_empty();
            let unkept = every.all[first..].iter().filter(|one| is_asked(one) && !is_kept(one));
            let unkept: BTreeSet<u64> = unkept.filter_map(|one| Some(one.id?.0)).collect();
            let gone = self.gone(unkept)?;
            every.all.retain(|one| one.id.is_none_or(|id| !gone.contains(&id.0)));
        }
        Ok(())
    }

    /// Those of these that the kernel lists no more.
    fn gone(&mut self, mut these: BTreeSet<u64>) -> Result<BTreeSet<u64>> {
        if these.is_empty() {
            return Ok(these);
        }
        let question = Question::List { these: these.iter().copied().collect(), is_only: true };
        let told = self.ask(vec![Asked { question, owner: Some(Party::Users) }])?.pop();
        let is_whole = |found: &[Found]| !found.iter().any(|one| matches!(one, Found::More(_)));
        match told.map(Response::result) {
            Some(Ok(found)) if is_whole(&found) => {
                for one in found {
                    if let Found::Maker { namespace, .. } = one {
                        these.remove(&namespace);
                    }
                }
                Ok(these)
            }
            _ => Ok(BTreeSet::new()),
        }
    }

    /// Where no process is known to live, one that was not examined may.
    fn mark_unexamined(&self, every: &mut Namespaces, look: &Look, pid: u32) {
        let Ok(process) = look.roster.describe(self.proc, pid) else { return };
        for one in every.all.iter_mut().filter(|one| one.tasks.is_empty() && one.keepers.is_empty())
        {
            one.keepers.push(NamespaceKeeper::Unexamined(process.clone()));
        }
    }

    fn enter(
        &mut self,
        every: &mut Namespaces,
        all: Vec<(u64, Option<u32>)>,
        owner: &Party,
        look: &mut Look,
    ) -> Result<()> {
        if all.is_empty() {
            return Ok(());
        }
        let question = Question::Enter(all.iter().map(|(id, _)| *id).collect());
        let mut left: BTreeMap<u64, Option<u32>> = all.into_iter().collect();
        let told = self.ask(vec![Asked { question, owner: Some(owner.clone()) }])?;
        let Some(told) = told.into_iter().next() else { return Ok(()) };
        for found in split(&told.found) {
            match found.last() {
                Some(Found::Unread { namespace, why }) => {
                    left.remove(namespace);
                    let (id, why) = (NamespaceId(*namespace), Why::Failed(why.clone()));
                    let is_awaited = self.comes_again && *owner == Party::Root;
                    let known = (self.proc, &look.roster);
                    look.unread.namespace((id, owner, is_awaited), &[], known, &why);
                }
                Some(Found::Table { namespace: Some(id), .. }) => {
                    left.remove(id);
                    let id = Some(NamespaceId(*id));
                    every.all.extend(namespace_in(found, id, Vec::new(), owner.clone())?);
                }
                _ => {}
            }
        }
        if let Err(why) = told.result() {
            let users: Vec<u32> = left.values().copied().flatten().collect();
            let users = (*owner == Party::Users).then_some(users.as_slice());
            look.unread.uninhabited(left.len(), users, &why);
        }
        Ok(())
    }

    /// Finds them before Linux 6.12, where only a reference leads there; and one may be mounted in another.
    fn uninhabited_by_references(
        &mut self,
        every: &mut Namespaces,
        known: &mut HashSet<NamespaceId>,
        look: &mut Look,
    ) -> Result<()> {
        let first = every.all.len();
        let _turn = super::turns::take(self.turns, self.scan.time_for_a_turn());
        loop {
            let references = self.references(every, look)?;
            let mut doors: BTreeMap<NamespaceId, Vec<Door>> = BTreeMap::new();
            for (id, reference) in references.iter().filter(|(id, _)| !known.contains(id)) {
                doors.entry(*id).or_default().extend(reference.door(every));
            }
            if doors.is_empty() {
                for (id, reference) in references {
                    self.explain(every, (first, look), id, &reference);
                }
                return Ok(());
            }
            known.extend(doors.keys());
            let asked = doors.iter().map(|(id, doors)| {
                let question = Question::EnterBy { namespace: id.0, doors: doors.clone() };
                Asked { question, owner: Some(Party::Users) }
            });
            let asked = asked.collect();
            for (id, told) in doors.keys().zip(self.ask(asked)?) {
                match told.result() {
                    Ok(found) => {
                        every.all.extend(namespace_in(&found, Some(*id), vec![], Party::Users)?);
                    }
                    Err(why @ Why::Skipped) => look.unread.uninhabited(1, Some(&[]), &why),
                    Err(why) => {
                        let known = (self.proc, &look.roster);
                        look.unread.namespace((*id, &Party::Users, false), &[], known, &why);
                    }
                }
            }
        }
    }

    /// Everything that keeps a mount namespace. Processes are looked at anew: one that was not there
    /// before may have made it.
    fn references(
        &mut self,
        every: &Namespaces,
        look: &mut Look,
    ) -> Result<Vec<(NamespaceId, Reference)>> {
        let mut found = Vec::new();
        look.unread.unclassified(look.roster.add_new(self.proc)?);
        // What this process has open it has for looking.
        let mut processes = look.roster.in_order();
        processes.retain(|(_, pid)| *pid != std::process::id());
        let asked = processes.iter().map(|(owner, pid)| Asked {
            question: Question::References(*pid),
            owner: Some(owner.clone()),
        });
        let asked = asked.collect();
        for ((owner, pid), told) in processes.iter().zip(self.ask(asked)?) {
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
                Err(why) if is_shortage(owner, &why) => {
                    let what = "what keeps mount namespaces where no process lives";
                    look.unread.later(what.to_owned(), &why);
                }
                // What is closed to us leaves no trace.
                Err(Why::Failed(failure)) if !failure.is_lack() => {}
                Ok(_) => {}
                Err(why) => look.unread.process(pid, &why),
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
        (first, look): (usize, &mut Look),
        id: NamespaceId,
        reference: &Reference,
    ) {
        let within = |at: usize| every.all[at].id;
        if !every.all[first..].iter().any(|one| one.id == Some(id)) {
            return;
        }
        let keeper = match reference {
            Reference::Mounted { place, within: at } => {
                Some(NamespaceKeeper::MountedAt { place: place.clone(), within: within(*at) })
            }
            Reference::Open { pid, descriptor } => match look.roster.describe(self.proc, *pid) {
                Ok(process) => Some(NamespaceKeeper::OpenIn { process, descriptor: *descriptor }),
                Err(error) => {
                    let why = Why::Failed(error.into());
                    look.unread.later(format!("whose process {pid} is"), &why);
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

    /// A process with a closed link lives where its mounts are: each is in one namespace only. Returns a process that
    /// stays without a place.
    fn place_closed(&mut self, every: &mut Namespaces, look: &mut Look) -> Result<Option<u32>> {
        let (mut unplaced, own) = (None, Arc::clone(&every.all[0].table));
        let why: HashMap<u32, Why> = std::mem::take(&mut look.closed).into_iter().collect();
        let processes = in_order(why.keys().map(|pid| (look.roster.party(*pid), *pid)));
        let asked = processes.iter().map(|(owner, pid)| Asked {
            question: Question::Listed(Task::first_of(*pid)),
            owner: Some(owner.clone()),
        });
        let asked = asked.collect();
        for ((owner, pid), told) in processes.into_iter().zip(self.ask(asked)?) {
            let is_closed = |why: &Why| matches!(why, Why::Failed(_)) && !why.is_lack();
            let unread = why.get(&pid).filter(|why| !is_closed(why));
            if let Some(why) = unread {
                look.unread.process(pid, why);
            }
            let found = match told.result() {
                Ok(found) => found,
                Err(why) => {
                    look.unread.mounts_of(pid, (self.proc, &owner), &why);
                    unplaced = unplaced.or(unread.map(|_| pid));
                    continue;
                }
            };
            let Some((first, table)) = found.iter().find_map(excerpt_of).transpose()? else {
                continue;
            };
            look.unread.servers(pid, &table, &own);
            let task = Task::first_of(pid);
            let ids = || table.mounts().iter().map(|mount| mount.id).chain([first]);
            match every.all.iter_mut().find(|one| one.has_any(ids())) {
                Some(one) => {
                    one.tasks.push(task);
                    if one.first == first {
                        look.unread.seen(pid);
                    }
                }
                None => every.all.push(Namespace {
                    id: None,
                    tasks: vec![task],
                    table: Arc::new(table),
                    first,
                    user: None,
                    keepers: Vec::new(),
                    owner,
                }),
            }
        }
        Ok(unplaced)
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
                Door::Mounted { within, place: place.into() }
            }
        })
    }
}

/// This thread's mount namespace.
pub(super) fn own_namespace(proc: &Proc) -> Result<NamespaceId> {
    proc.namespace_at("thread-self")
        .map_err(|error| Error::io("look up this process's mount namespace", &error))
}

/// Whose a namespace is, by those who live there: a pod's has its processes, and perhaps a watcher or two.
fn owner_of(roster: &Roster, tasks: &[Task]) -> Party {
    let owners = tasks.iter().map(|task| roster.party(task.pid));
    owners
        .min_by_key(|owner| match owner {
            Party::Pod(_) => 0,
            Party::Container(_) => 1,
            Party::Root => 2,
            Party::User(_) | Party::Users => 3,
        })
        .unwrap_or(Party::Root)
}

pub(super) fn placed(found: &Found) -> Option<(Task, NamespaceId)> {
    match found {
        Found::Namespace { task, namespace } => Some((*task, NamespaceId(*namespace))),
        _ => None,
    }
}

pub(super) fn excerpt_of(found: &Found) -> Option<Result<(u32, MountTable)>> {
    match found {
        Found::Table { table: Excerpt { lines, first }, .. } => {
            Some(MountTable::parse(lines).map(|table| (*first, table)))
        }
        _ => None,
    }
}

pub(super) fn namespace_in(
    found: &[Found],
    id: Option<NamespaceId>,
    tasks: Vec<Task>,
    owner: Party,
) -> Result<Option<Namespace>> {
    let Some((first, table)) = found.iter().find_map(excerpt_of).transpose()? else {
        return Ok(None);
    };
    let user = found.iter().find_map(|one| match one {
        // A runtime that gives a container users of its own is root when it makes that one.
        Found::Maker { user, .. } => user.filter(|user| *user != 0),
        _ => None,
    });
    let (table, keepers) = (Arc::new(table), Vec::new());
    Ok(Some(Namespace { id, tasks, table, first, user, keepers, owner }))
}

/// What was told of each namespace: who made it, and then its mounts or why they could not be read.
fn split(found: &[Found]) -> impl Iterator<Item = &[Found]> {
    found.split_inclusive(|one| matches!(one, Found::Table { .. } | Found::Unread { .. }))
}
