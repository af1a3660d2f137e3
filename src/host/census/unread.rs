//! What a scan could not read: whose it is, for which volumes it counts, and what ends it.

use super::answers::is_of_a_server;
use super::proc::{Proc, Task};
use super::question::Why;
use super::roster::Roster;
use super::scan::{Class, Party};
use crate::files;
use crate::model::disk::device::DeviceNumber;
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{NamespaceId, Untold, plain};
use crate::model::mount::mountinfo::{Mount, MountTable};
use nix::errno::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where the kernel lists connections to FUSE servers (fusectl).
const CONNECTIONS: &str = "/sys/fs/fuse/connections";
/// So many ways out are named.
const MOST_WAYS: usize = 3;

/// What was not read, as it is found.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// Whether who asks comes again for what took too long, and until then goes on without it.
    comes_again: bool,
    untold: Vec<Untold>,
    later: Vec<Untold>,
    processes: BTreeMap<u32, Why>,
    /// Those of them whose mounts are known all the same.
    seen: BTreeSet<u32>,
    /// What ends the wait for a server, by the process that may wait for it.
    servers: BTreeMap<u32, Vec<String>>,
}

impl Unread {
    pub(super) fn of(comes_again: bool) -> Self {
        Self { comes_again, ..Self::default() }
    }

    /// A later look may tell it.
    pub(super) fn later(&mut self, what: String, why: &Why) {
        self.later.push(Untold::of_unknown(what, why.text()));
    }

    /// Processes of which it is not known whose they are.
    pub(super) fn unclassified(&mut self, processes: Vec<(u32, Why)>) {
        for (pid, why) in processes {
            self.later(format!("the owner of process {pid}"), &why);
        }
    }

    /// A process, or all that it holds.
    pub(super) fn process(&mut self, pid: u32, why: &Why) {
        self.processes.insert(pid, why.clone());
    }

    /// A process lists its mounts, and they are all that its namespace has: then it hides none.
    pub(super) fn seen(&mut self, pid: u32) {
        self.seen.insert(pid);
    }

    /// The mounts of a process that is placed by them.
    pub(super) fn mounts_of(&mut self, pid: u32, (proc, owner): (&Proc, &Party), why: &Why) {
        let is_shortage = is_shortage(owner, why);
        if self.processes.contains_key(&pid) && !is_shortage {
            return;
        }
        let process = proc.describe(pid).map_or_else(|_| pid.to_string(), |one| one.to_string());
        let what = format!("the mounts of process {process}");
        if is_shortage {
            self.later(what, why);
        } else {
            self.untold.push(Untold::of_unknown(what, why.text()));
        }
    }

    /// A namespace of this owner, where these processes live; `is_awaited` is whether a later look is worth its time.
    pub(super) fn namespace(
        &mut self,
        (id, owner, is_awaited): (NamespaceId, &Party, bool),
        tasks: &[Task],
        (proc, roster): (&Proc, &Roster),
        why: &Why,
    ) {
        let mut what = format!("mount namespace {id}");
        let mut way_out = None;
        if let Some(first) = tasks.first() {
            let first = roster.describe(proc, first.pid);
            let Ok(first) = first else {
                return self.later(format!("whose process {} is", tasks[0].pid), why);
            };
            what += &format!(" of process {first}");
            way_out = end_of_process(first.pid, owner, why);
        }
        if is_shortage(owner, why) || matches!(why, Why::Late) && is_awaited {
            return self.later(what, why);
        }
        let owners: BTreeSet<Party> = tasks.iter().map(|task| roster.party(task.pid)).collect();
        self.untold.push(Untold { way_out, ..untold(what, why.text(), &owners, false) });
    }

    /// Namespaces where no process lives; and the ordinary users who made them.
    pub(super) fn uninhabited(&mut self, count: usize, users: Option<&[u32]>, why: &Why) {
        let what = match count {
            0 => return,
            1 => "a mount namespace where no process lives".to_owned(),
            count => format!("{count} mount namespaces where no process lives"),
        };
        let Some(users) = users else {
            if why.is_lack() || self.comes_again {
                return self.later(what, why);
            }
            return self.untold.push(Untold::of_unknown(what, why.text()));
        };
        let what = format!("{what}, made by ordinary users");
        let way_out = most_frequent(users).map(end_of_all);
        self.untold.push(Untold { way_out, ..Untold::of_unknown(what, why.text()) });
    }

    /// The kernel's list of namespaces was not read to its end.
    pub(super) fn unlisted(&mut self, users: &[u32], why: &Why) {
        let what = "mount namespaces where no process lives".to_owned();
        let way_out = most_frequent(users).map(end_of_all);
        self.untold.push(Untold { way_out, ..Untold::of_unknown(what, why.text()) });
    }

    /// Servers for which a process may wait, as its mounts show them.
    pub(super) fn servers(&mut self, pid: u32, table: &MountTable, own: &MountTable) {
        let ways = table.mounts().iter().filter(|mount| is_of_a_server(mount));
        let ways = ways.filter_map(|mount| end_of_wait(mount, own));
        self.servers.insert(pid, ways.collect());
    }

    /// All of it: what counts as it is, and what a later look may tell.
    pub(super) fn told(mut self, proc: &Proc, roster: &Roster) -> (Vec<Untold>, Vec<Untold>) {
        let mut by_owner: BTreeMap<Party, Vec<(u32, Why)>> = BTreeMap::new();
        for (pid, why) in std::mem::take(&mut self.processes) {
            by_owner.entry(roster.party(pid)).or_default().push((pid, why));
        }
        let all_count = !by_owner.is_empty() && !has_pods(proc, roster);
        for (owner, mut processes) in by_owner {
            // What stalled itself is worth more than what was skipped for it.
            processes.sort_by_key(|(_, why)| !matches!(why, Why::Stalled));
            let (first, why) = &processes[0];
            let Ok(first) = roster.describe(proc, *first) else {
                self.later(format!("whose process {first} is"), why);
                continue;
            };
            let more = match processes.len() - 1 {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            let all = processes.iter().filter_map(|(pid, _)| self.servers.get(pid)).flatten();
            let ways: BTreeSet<&String> = all.collect();
            let ways = ways.into_iter().map(String::as_str).take(MOST_WAYS);
            let (what, kill) = match (&owner, why) {
                (Party::User(user), Why::Skipped) if processes.len() > 1 => {
                    let what = format!("{} processes of user {user}", processes.len());
                    (what, Some(end_of_all(*user)))
                }
                _ => (format!("process {first}{more}"), end_of_process(first.pid, &owner, why)),
            };
            // A server may be one that others use too: so that comes last.
            let way_out = kill.map(|kill| {
                let ways: Vec<&str> = ways.collect();
                // A killed process that is still there waits uninterruptibly: another signal does not end that.
                let kill = (ways.is_empty() || !proc.is_killed(first.pid)).then_some(kill.as_str());
                kill.into_iter().chain(ways).collect::<Vec<&str>>().join(", or ")
            });
            let text = match why {
                Why::Late if owner == Party::Root => "timed out before it was read".to_owned(),
                why => why.text(),
            };
            let hides = processes.iter().any(|(pid, _)| !self.seen.contains(pid));
            let owners = if hides { BTreeSet::from([owner]) } else { BTreeSet::new() };
            self.untold.push(Untold { way_out, ..untold(what, text, &owners, hides && all_count) });
        }
        (self.untold, self.later)
    }
}

/// For which volumes it counts: a pod's for those that the pod has or had, a container's for all. Of all else the exclusive
/// open of the disk decides, unless containers cannot be told from other processes here.
fn untold(what: String, why: String, owners: &BTreeSet<Party>, all_count: bool) -> Untold {
    let pods: BTreeSet<ConsumerId> = owners
        .iter()
        .filter_map(|owner| if let Party::Pod(pod) = owner { Some(pod.clone()) } else { None })
        .collect();
    let is_containers = owners.iter().any(|owner| matches!(owner, Party::Container(_)));
    let is_anyones = all_count || is_containers && pods.is_empty();
    Untold { what, why, is_anyones, pods, way_out: None }
}

/// Whether this process lacked something to read it. What a pod or user made can cause most such errors too, as a mount
/// table does for which the kernel has no memory: then later looks fail alike.
pub(super) fn is_shortage(owner: &Party, why: &Why) -> bool {
    let Why::Failed(failure) = why else { return false };
    failure.is(Errno::EMFILE)
        || failure.is(Errno::EINTR)
        || failure.is_lack() && owner.class() == Class::Root
}

/// What ends the wait for a server that does not answer; none if no request waits for it, or if the file system is not
/// mounted on this machine itself: paths of other namespaces are chosen by users.
fn end_of_wait(mount: &Mount, own: &MountTable) -> Option<String> {
    if !mount.fs_type.starts_with("fuse") {
        let ours = own.of(mount.number).next()?;
        return Some(format!("umount -f {}", plain(&ours.target)));
    }
    let DeviceNumber { major: 0, minor } = mount.number else { return None };
    let connection = Path::new(CONNECTIONS).join(minor.to_string());
    let waiting = fs::read_to_string(connection.join("waiting")).ok()?;
    (waiting.trim() != "0").then(|| format!("echo 1 > {}", connection.join("abort").display()))
}

fn most_frequent(users: &[u32]) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for user in users {
        *counts.entry(*user).or_default() += 1;
    }
    // A runtime that gives a container users of its own is root when it makes that one.
    counts.remove(&0);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(user, _)| user)
}

/// Ends a process that kept itself from being read. That the call had no time for the machine's own processes is not
/// their doing, and the first process of a machine is not to be ended.
fn end_of_process(pid: u32, owner: &Party, why: &Why) -> Option<String> {
    let is_its_doing = match why {
        Why::Failed(_) => false,
        Why::Stalled => true,
        Why::Late | Why::Skipped => owner.class() != Class::Root,
    };
    (is_its_doing && pid != 1).then(|| format!("kill {pid}"))
}

/// Ends what a user started in sessions. Containers may run as the same user: `pkill -u` would end them too.
fn end_of_all(user: u32) -> String {
    format!("loginctl kill-user --signal=KILL {user}")
}

/// Whether this machine has cgroups of pods: without them a container's process cannot be told from another one.
fn has_pods(proc: &Proc, roster: &Roster) -> bool {
    let trees = proc.own_table().unwrap_or_default();
    let trees = trees.mounts().iter().filter(|mount| mount.fs_type.starts_with("cgroup"));
    let is_kubelets = |name: String| name.starts_with("kubepods");
    trees.into_iter().any(|tree| files::names_in(&tree.target).into_iter().any(is_kubelets))
        || roster.has_pods()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_process_of_the_machine_is_to_be_ended_because_the_call_had_no_time() {
        let kill = |pid: u32| Some(format!("kill {pid}"));
        for (pid, owner, why, way_out) in [
            (7, Party::User(1000), Why::Late, kill(7)),
            (7, Party::User(1000), Why::Skipped, kill(7)),
            (7, Party::Container("c".to_owned()), Why::Late, kill(7)),
            (7, Party::Root, Why::Stalled, kill(7)),
            (7, Party::Root, Why::Late, None),
            (7, Party::Root, Why::Skipped, None),
            (1, Party::Root, Why::Stalled, None),
        ] {
            assert_eq!(end_of_process(pid, &owner, &why), way_out, "{pid} {owner:?} {why:?}");
        }
    }
}
