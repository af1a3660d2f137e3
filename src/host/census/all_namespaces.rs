//! Reads all mount namespaces of the machine: those of the pods that are asked for first, and last
//! those where no process lives.

use super::namespaces::{Looked, Namespace, Namespaces, PATIENCE, Unread, own_namespace, table_of};
use super::proc::{Proc, Task};
use super::{parallel, unowned_namespaces};
use crate::host::clock::Deadline;
use crate::host::files;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::Result;
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::NamespaceId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// So long each long table is read before the others had their turn.
const FIRST_SLICE: Duration = Duration::from_millis(250);

/// Who is read first, and until when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Haste<'a> {
    pub(super) first: &'a BTreeSet<ConsumerId>,
    pub(super) deadline: Deadline,
}

impl Haste<'_> {
    /// Where a namespace stands in the row, by some of those who live there.
    fn place_of(&self, proc: &Proc, tasks: &[Task]) -> u8 {
        /// A pod's namespace has its processes, and perhaps a watcher or two.
        const ASKED: usize = 4;
        let pod = |task: &Task| proc.describe(task.pid).ok()?.owner.pod;
        let pods = tasks.iter().take(ASKED).map(pod);
        let place = |pod: Option<ConsumerId>| match pod {
            Some(pod) if self.first.contains(&pod) => 0,
            Some(_) => 1,
            None => 2,
        };
        pods.map(place).min().unwrap_or(2)
    }
}

/// Reads them all. `walk` is whether the kernel may be asked for those without a process.
pub(super) fn read(
    proc: &Proc,
    pids: &[u32],
    numbers: &[DeviceNumber],
    walk: bool,
    haste: Option<Haste<'_>>,
) -> Result<Namespaces> {
    let own = own_namespace(proc)?;
    let Dwellers { mut by_id, closed, lacking } = dwellers(proc, pids);
    let tasks = by_id.remove(&own).unwrap_or_default();
    let first = Namespace::new(Some(own), tasks, proc.own_table()?);
    let mut every = Namespaces::beginning_with(own, first, by_id.keys().copied(), haste.is_some());
    for (pid, error) in lacking {
        every.miss(format!("where process {pid} lives"), Unread::io("read it", &error));
    }
    let mut others: Vec<_> = by_id.into_iter().collect();
    if let Some(haste) = &haste {
        others.sort_by_cached_key(|(_, tasks)| haste.place_of(proc, tasks));
    }
    let late = || haste.is_some_and(|haste| haste.deadline.over());
    let end = Instant::now() + haste.map_or(PATIENCE, |haste| haste.deadline.remaining());
    let read = |others: &[Others], at_a_time, end: &(dyn Fn() -> Instant + Sync)| {
        let tables = parallel::each(others, at_a_time, |others| {
            let table = |(id, tasks): &Others| {
                if late() {
                    return Err(Unread::in_time());
                }
                table_of(proc, *id, tasks, end())
            };
            others.iter().map(table).collect::<Vec<_>>()
        });
        tables.into_iter().flatten().collect::<Vec<_>>()
    };
    let tables = read(&others, 16, &|| end.min(Instant::now() + FIRST_SLICE));
    let long = add_read(&mut every, proc, others, tables);
    if late() {
        every.miss("where no process lives".to_owned(), Unread::in_time());
    } else {
        unowned_namespaces::add(&mut every, proc, numbers, walk, &late, end);
    }
    // What takes long is read last: it is to hold up nothing else.
    let (mut long, mut unread): (Vec<_>, Vec<_>) = long.into_iter().unzip();
    if Instant::now() < end {
        let tables = read(&long, 1, &|| end);
        (long, unread) = add_read(&mut every, proc, long, tables).into_iter().unzip();
    }
    for ((id, tasks), unread) in long.into_iter().zip(unread) {
        every.miss_where_they_live(proc, id, &tasks, unread);
    }
    for task in closed {
        every.place_closed(proc, task, end);
    }
    Ok(every)
}

/// A namespace, and one thread of each process that lives there.
type Others = (NamespaceId, Vec<Task>);

/// Adds what was read, and notes what was not; but for what took too long, which is answered.
fn add_read(
    every: &mut Namespaces,
    proc: &Proc,
    others: Vec<Others>,
    tables: Vec<Looked>,
) -> Vec<(Others, Unread)> {
    let mut long = Vec::new();
    for ((id, tasks), table) in others.into_iter().zip(tables) {
        match table {
            Ok(Some(table)) => every.all.push(Namespace::new(Some(id), tasks, table)),
            Ok(None) => {}
            Err(unread) if unread.took_too_long() => long.push(((id, tasks), unread)),
            Err(unread) => every.miss_where_they_live(proc, id, &tasks, unread),
        }
    }
    long
}

/// Where processes live.
#[derive(Default)]
struct Dwellers {
    by_id: BTreeMap<NamespaceId, Vec<Task>>,
    /// Those whose links are closed to us.
    closed: Vec<Task>,
    /// Those that this process could not look at for want of something.
    lacking: Vec<(u32, io::Error)>,
}

fn dwellers(proc: &Proc, pids: &[u32]) -> Dwellers {
    let mut found = Dwellers::default();
    for pid in pids {
        match proc.living(*pid) {
            Ok(Some((task, id))) => found.by_id.entry(id).or_default().push(task),
            Ok(None) => {}
            Err(error) if files::is_lack(&error) => found.lacking.push((*pid, error)),
            Err(_) => found.closed.push(Task::first_of(*pid)),
        }
    }
    found
}
