//! Mount namespaces where no process lives, and what keeps them alive: a mount of them, an open
//! descriptor, or a thread that left its process's namespace.

use super::inside;
use super::namespaces::{Namespace, Namespaces, Unread};
use super::proc::{Proc, Task, has_ended, number_of_link};
use crate::host::files;
use crate::host::kernel::{Direction, mount_namespace_beside};
use crate::model::disk::device::DeviceNumber;
use crate::model::mount::disk_users::{NamespaceId, NamespaceKeeper};
use crate::model::mount::mountinfo::MountTable;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Something that keeps a namespace alive and leads to it.
enum Trace {
    Thread(Task),
    Open { task: Task, descriptor: u32 },
    Mounted { place: PathBuf, within: usize },
}

/// The looks of one call at namespaces where no process lives: one call at a time looks at each.
struct Turns {
    /// After this moment a namespace is entered beside who looks: what holds it may be no call of ours.
    patience: Instant,
    /// After this one no long table is read.
    end: Instant,
    is_waiting: bool,
}

impl Turns {
    const NAP: Duration = Duration::from_millis(10);

    /// Half of the time is for waiting: what waits for the other look is looked at after it all the same.
    fn until(end: Instant) -> Self {
        let now = Instant::now();
        let patience = now + end.saturating_duration_since(now) / 2;
        Self { patience, end, is_waiting: false }
    }

    /// The mounts of an open namespace; nothing if it is not our turn.
    fn look(&mut self, proc: &Proc, door: &File) -> Option<io::Result<Vec<u8>>> {
        if Instant::now() > self.patience {
            return Some(inside::table(proc, door, self.end));
        }
        let table = inside::table_alone(proc, door, self.end).transpose();
        self.is_waiting |= table.is_none();
        table
    }

    /// Waits a moment if it was not our turn anywhere. Then all is to be looked up anew: what waited may be
    /// gone.
    fn come(&mut self) -> bool {
        let is_waiting = std::mem::take(&mut self.is_waiting);
        if is_waiting {
            thread::sleep(Self::NAP);
        }
        is_waiting
    }
}

/// Adds the namespaces that none of the others' processes live in. Of those that mount one of the
/// file systems it is also found out what keeps them.
pub(super) fn add(
    every: &mut Namespaces,
    proc: &Proc,
    numbers: &[DeviceNumber],
    walk: bool,
    late: &dyn Fn() -> bool,
    end: Instant,
) {
    let first = every.all.len();
    let mut turns = Turns::until(end);
    let listed = loop {
        let visit = |id, door: &File| {
            if !every.knows(id) {
                if late() {
                    every.miss(format!("mount namespace {id}"), Unread::in_time());
                    return ControlFlow::Break(());
                }
                if let Some(table) = turns.look(proc, door) {
                    enter(every, id, table);
                }
            }
            ControlFlow::Continue(())
        };
        let listed = if walk { walk_to(proc, visit) } else { Err(Errno::ENOTTY.into()) };
        if !matches!(listed, Ok(None)) || !turns.come() {
            break listed;
        }
    };
    match listed {
        Ok(Some(_)) => return,
        Ok(None) => {}
        Err(error) if files::is_lack(&error) => {
            let unread = Unread::io("go through the kernel's list of mount namespaces", &error);
            every.miss("where no process lives".to_owned(), unread);
        }
        Err(_) => return add_traced(every, proc, first, late, turns),
    }
    let is_asked = |namespace: &Namespace| namespace.mounts_of(numbers).next().is_some();
    if every.all[first..].iter().any(is_asked) {
        for (id, trace) in traces(every, proc) {
            explain(every, first, proc, id, trace);
        }
        let is_kept =
            |namespace: &Namespace| !namespace.tasks.is_empty() || !namespace.keepers.is_empty();
        let kept_by_none = every.all[first..].iter().filter(|it| is_asked(it) && !is_kept(it));
        // What only a look kept ended with it.
        let is_gone = |id: &NamespaceId| matches!(open(proc, *id), Ok(None));
        let gone: BTreeSet<_> = kept_by_none.filter_map(|it| it.id).filter(is_gone).collect();
        every.all.retain(|it| it.id.is_none_or(|id| !gone.contains(&id)));
    }
}

/// The same before Linux 6.12, where only a trace leads there; and one may be mounted in another.
fn add_traced(
    every: &mut Namespaces,
    proc: &Proc,
    first: usize,
    late: &dyn Fn() -> bool,
    mut turns: Turns,
) {
    loop {
        if late() {
            every.miss("where no process lives".to_owned(), Unread::in_time());
            return;
        }
        let before = every.all.len();
        let traces = traces(every, proc);
        let mut unknown: BTreeMap<NamespaceId, Vec<&Trace>> = BTreeMap::new();
        for (id, trace) in traces.iter().filter(|(id, _)| !every.knows(*id)) {
            unknown.entry(*id).or_default().push(trace);
        }
        for (id, traces) in unknown {
            if let Some(table) = table_by(&traces, id, every, proc, &mut turns) {
                enter(every, id, table);
            }
        }
        if every.all.len() == before && !turns.come() {
            for (id, trace) in traces {
                explain(every, first, proc, id, trace);
            }
            return;
        }
    }
}

/// The mounts of a namespace by the first trace that leads there; nothing if it is gone, or not our turn.
/// Another look at the machine has each namespace open for a moment, so one trace that is over says nothing.
fn table_by(
    traces: &[&Trace],
    id: NamespaceId,
    every: &Namespaces,
    proc: &Proc,
    turns: &mut Turns,
) -> Option<io::Result<Vec<u8>>> {
    let mut failure = None;
    for trace in traces {
        let door = door(every, proc, trace).and_then(|door| Ok((door.metadata()?.ino(), door)));
        let table = match door {
            Ok((number, door)) if number == id.0 => turns.look(proc, &door)?,
            // The number of a process or of a descriptor is another one's by now.
            Ok(_) => continue,
            Err(error) if has_ended(&error) && !matches!(trace, Trace::Mounted { .. }) => continue,
            Err(error) => Err(error),
        };
        match table {
            Ok(table) => return Some(Ok(table)),
            Err(error) => failure = Some(Err(error)),
        }
    }
    failure
}

/// Opens a namespace that needs no process; nothing if there is no such one.
pub(super) fn open(proc: &Proc, wanted: NamespaceId) -> io::Result<Option<File>> {
    let is_it = |id| if id == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    walk_to(proc, |id, _| is_it(id))
}

/// Goes through the mount namespaces but this thread's, by the kernel's own list, and returns the door
/// at which the visitor stopped. One door at a time: there may be more of them than a process may have
/// descriptors.
fn walk_to(
    proc: &Proc,
    mut visit: impl FnMut(NamespaceId, &File) -> ControlFlow<()>,
) -> io::Result<Option<File>> {
    for direction in [Direction::Next, Direction::Previous] {
        let mut here = proc.open("thread-self/ns/mnt", OFlag::O_RDONLY)?;
        loop {
            here = match mount_namespace_beside(&here, direction) {
                Ok(next) => next,
                Err(Errno::ENOENT) => break,
                Err(errno) => return Err(errno.into()),
            };
            let id = NamespaceId(here.metadata()?.ino());
            if visit(id, &here).is_break() {
                return Ok(Some(here));
            }
        }
    }
    Ok(None)
}

fn enter(every: &mut Namespaces, id: NamespaceId, table: io::Result<Vec<u8>>) {
    let looked = table
        .map_err(|error| Unread::io("enter it", &error))
        .and_then(|text| MountTable::parse(&text).map_err(Unread::of));
    every.add(id, looked);
}

/// Everything that keeps a mount namespace. Processes are looked at anew: one that was not there
/// before may have made it.
fn traces(every: &mut Namespaces, proc: &Proc) -> Vec<(NamespaceId, Trace)> {
    let mut found = Vec::new();
    let mut lack = None;
    for pid in told(proc.pids(), &mut lack).unwrap_or_default() {
        for task in told(proc.tasks(pid), &mut lack).unwrap_or_default() {
            let id = told(proc.namespace(task), &mut lack);
            found.extend(id.map(|id| (id, Trace::Thread(task))));
        }
        if pid == std::process::id() {
            // What this process has open it has for looking.
            continue;
        }
        let task = Task::first_of(pid);
        for descriptor in told(proc.descriptors(task), &mut lack).unwrap_or_default() {
            let link = told(proc.link(&format!("{task}/fd/{descriptor}")), &mut lack);
            let id = link.and_then(|link| named_by(&link));
            found.extend(id.map(|id| (id, Trace::Open { task, descriptor })));
        }
    }
    for (within, namespace) in every.all.iter().enumerate() {
        for mount in namespace.table.mounts().iter().filter(|mount| mount.fs_type == "nsfs") {
            let place = mount.target.clone();
            found.extend(named_by(&mount.root).map(|id| (id, Trace::Mounted { place, within })));
        }
    }
    if let Some(error) = lack {
        let what = "what keeps mount namespaces where no process lives".to_owned();
        every.miss(what, Unread::io("look for it", &error));
    }
    found
}

/// What was told. What is closed to us, or gone, leaves no trace; a lack is kept.
fn told<T>(found: io::Result<T>, lack: &mut Option<io::Error>) -> Option<T> {
    files::unless_lack(found).unwrap_or_else(|error| {
        lack.get_or_insert(error);
        None
    })
}

fn named_by(link: &Path) -> Option<NamespaceId> {
    number_of_link(link.to_str()?, "mnt").map(NamespaceId)
}

/// Opens what a trace leads to.
fn door(every: &Namespaces, proc: &Proc, trace: &Trace) -> io::Result<File> {
    match trace {
        Trace::Thread(task) => proc.open(format!("{task}/ns/mnt"), OFlag::O_RDONLY),
        Trace::Open { task, descriptor } => {
            proc.open(format!("{task}/fd/{descriptor}"), OFlag::O_RDONLY)
        }
        Trace::Mounted { place, within } => {
            let namespace = &every.all[*within];
            if namespace.id == Some(every.own) {
                return File::open(place);
            }
            let task = namespace.tasks.first().ok_or_else(|| {
                let place = place.display();
                io::Error::other(format!("it is mounted at {place} where no process lives"))
            })?;
            let way = place.strip_prefix("/").unwrap_or(place);
            proc.open(Path::new(&format!("{task}/root")).join(way), OFlag::O_RDONLY)
        }
    }
}

/// Notes what keeps a namespace, if it is one of those that were added last.
fn explain(every: &mut Namespaces, first: usize, proc: &Proc, id: NamespaceId, trace: Trace) {
    let Some(at) = every.all.iter().skip(first).position(|namespace| namespace.id == Some(id))
    else {
        return;
    };
    let keeper = match trace {
        Trace::Thread(task) => {
            let tasks = &mut every.all[first + at].tasks;
            if tasks.iter().all(|other| other.pid != task.pid) {
                tasks.push(task);
            }
            return;
        }
        Trace::Open { task, descriptor } => {
            let process = match proc.describe(task.pid) {
                Ok(process) => process,
                Err(error) => {
                    let unread = Unread::io("tell whose it is", &error);
                    return every.miss(format!("process {}", task.pid), unread);
                }
            };
            NamespaceKeeper::OpenIn { process, descriptor }
        }
        Trace::Mounted { place, within } => {
            NamespaceKeeper::MountedAt { place, within: every.all[within].id }
        }
    };
    every.all[first + at].keepers.push(keeper);
}
