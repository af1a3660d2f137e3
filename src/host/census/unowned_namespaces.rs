//! Mount namespaces where no process lives, and what keeps them alive: a mount of them, an open
//! descriptor, or a thread that left its process's namespace.

use super::inside;
use super::namespaces::{Namespace, Namespaces, Unread};
use super::proc::{Proc, Task, number_of_link};
use crate::host::kernel::{Direction, mount_namespace_beside};
use crate::model::disk::device::DeviceNumber;
use crate::model::mount::disk_users::{NamespaceId, NamespaceKeeper};
use crate::model::mount::mountinfo::MountTable;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Something that keeps a namespace alive and leads to it.
enum Trace {
    Thread(Task),
    Open { task: Task, descriptor: u32 },
    Mounted { place: PathBuf, within: usize },
}

/// Adds the namespaces that none of the others' processes live in. Of those that mount one of the
/// file systems it is also found out what keeps them.
pub(super) fn add(
    every: &mut Namespaces,
    proc: &Proc,
    numbers: &[DeviceNumber],
    walk: bool,
    late: &dyn Fn() -> bool,
) {
    let first = every.all.len();
    let unknown = if walk { beside(proc, |id| !every.knows(id)) } else { Err(Errno::ENOTTY) };
    if let Ok(doors) = unknown {
        for (id, door) in doors {
            if late() {
                every.miss(format!("mount namespace {id}"), "no time was left to look at it");
                return;
            }
            enter(every, proc, id, Ok(door));
        }
        let is_asked = |namespace: &Namespace| namespace.mounts_of(numbers).next().is_some();
        if every.all[first..].iter().any(is_asked) {
            for (id, trace) in traces(every, proc) {
                explain(&mut every.all, first, proc, id, trace);
            }
        }
        return;
    }
    // Before Linux 6.12 only a trace leads there; and one may be mounted in another.
    loop {
        if late() {
            every.miss("where no process lives".to_owned(), "no time was left to look");
            return;
        }
        let before = every.all.len();
        let traces = traces(every, proc);
        for (id, trace) in &traces {
            if !every.knows(*id) {
                let door = door(every, proc, trace);
                enter(every, proc, *id, door);
            }
        }
        if every.all.len() == before {
            for (id, trace) in traces {
                explain(&mut every.all, first, proc, id, trace);
            }
            return;
        }
    }
}

/// Opens a namespace that nobody needs to live in; nothing if there is no such one.
pub(super) fn open(proc: &Proc, wanted: NamespaceId) -> nix::Result<Option<File>> {
    Ok(beside(proc, |id| id == wanted)?.pop().map(|(_, door)| door))
}

/// The mount namespaces but this thread's that are asked for, by the kernel's own list.
fn beside(
    proc: &Proc,
    is_asked: impl Fn(NamespaceId) -> bool,
) -> nix::Result<Vec<(NamespaceId, File)>> {
    let errno = |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
    let mut found = Vec::new();
    for direction in [Direction::Next, Direction::Previous] {
        let mut here = proc.open("thread-self/ns/mnt", OFlag::O_RDONLY).map_err(errno)?;
        loop {
            here = match mount_namespace_beside(&here, direction) {
                Ok(next) => next,
                Err(Errno::ENOENT) => break,
                Err(errno) => return Err(errno),
            };
            let id = NamespaceId(here.metadata().map_err(errno)?.ino());
            if is_asked(id) {
                found.push((id, here.try_clone().map_err(errno)?));
            }
        }
    }
    Ok(found)
}

fn enter(every: &mut Namespaces, proc: &Proc, id: NamespaceId, door: io::Result<File>) {
    let looked = door
        .and_then(|door| inside::table(proc, &door))
        .map_err(|error| Unread::io("enter it", &error))
        .and_then(|text| MountTable::parse(&text).map_err(Unread::of));
    every.add(id, looked);
}

/// Everything that keeps a mount namespace. Processes are looked at anew: one that was not there
/// before may have made it.
fn traces(every: &Namespaces, proc: &Proc) -> Vec<(NamespaceId, Trace)> {
    let mut found = Vec::new();
    for pid in proc.pids().unwrap_or_default() {
        for task in proc.tasks(pid) {
            found.extend(proc.namespace(task).ok().map(|id| (id, Trace::Thread(task))));
        }
        if pid == std::process::id() {
            // What this process has open it has for looking.
            continue;
        }
        let task = Task::first_of(pid);
        for descriptor in proc.descriptors(task).unwrap_or_default() {
            let link = proc.link(&format!("{task}/fd/{descriptor}"));
            let id = link.ok().and_then(|link| named_by(&link));
            found.extend(id.map(|id| (id, Trace::Open { task, descriptor })));
        }
    }
    for (within, namespace) in every.all.iter().enumerate() {
        for mount in namespace.table.mounts().iter().filter(|mount| mount.fs_type == "nsfs") {
            let place = mount.target.clone();
            found.extend(named_by(&mount.root).map(|id| (id, Trace::Mounted { place, within })));
        }
    }
    found
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
fn explain(namespaces: &mut [Namespace], first: usize, proc: &Proc, id: NamespaceId, trace: Trace) {
    let Some(at) = namespaces.iter().skip(first).position(|namespace| namespace.id == Some(id))
    else {
        return;
    };
    let keeper = match trace {
        Trace::Thread(task) => {
            let tasks = &mut namespaces[first + at].tasks;
            if tasks.iter().all(|other| other.pid != task.pid) {
                tasks.push(task);
            }
            return;
        }
        Trace::Open { task, descriptor } => {
            NamespaceKeeper::OpenIn { process: proc.describe(task.pid), descriptor }
        }
        Trace::Mounted { place, within } => {
            NamespaceKeeper::MountedAt { place, within: namespaces[within].id }
        }
    };
    namespaces[first + at].keepers.push(keeper);
}
