//! What a scan could not read: whose it is, for which volumes it counts, and what ends it.

use super::answers::is_of_a_server;
use super::inspection::Inspection;
use super::namespaces::Listed;
use super::proc::Task;
use super::question::{Found, Question, Why};
use super::scan::{Class, Party};
use crate::files;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{Untold, plain};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::sorting::sort_by_key;
use nix::errno::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where the kernel lists connections to FUSE servers (fusectl).
const CONNECTIONS: &str = "/sys/fs/fuse/connections";
/// So many ways out are named.
const MOST_WAYS: usize = 3;

impl Inspection<'_> {
    fn note(&mut self, untold: Untold, owner: &Party, why: &Why) {
        let is_awaited = matches!(why, Why::Late) && self.is_awaited(owner);
        let is_later = is_awaited || is_shortage(owner, why);
        if is_later { &mut self.unread.later } else { &mut self.unread.untold }.push(untold);
    }

    /// Notes so many namespaces where no process lives; the listed ones show which user makes most of them.
    pub(super) fn unread_uninhabited(
        &mut self,
        count: usize,
        owner: &Party,
        listed: &Listed,
        why: &Why,
    ) {
        let mut what = match count {
            0 => "more mount namespaces".to_owned(),
            1 => "a mount namespace".to_owned(),
            count => format!("{count} mount namespaces"),
        } + " where no process lives";
        if *owner == Party::Users {
            what += ", made by ordinary users";
        }
        let way_out = most_frequent(listed.values().copied().flatten()).map(end_of_all);
        self.note(Untold { way_out, ..Untold::of_unknown(what, why.text()) }, owner, why);
    }

    /// The mounts of a process that is placed by them.
    pub(super) fn unread_mounts(&mut self, pid: u32, owner: &Party, why: &Why) {
        if is_shortage(owner, why) || !self.unread.processes.contains_key(&pid) {
            let what = format!("the mounts of process {}", self.process(pid));
            self.note(Untold::of_unknown(what, why.text()), owner, why);
        }
    }

    /// What ends the wait for servers for which processes may wait that stalled, by what their mounts show.
    fn ways_out(&mut self) -> Result<BTreeMap<u32, Vec<String>>> {
        let stalled = self.unread.processes.iter().filter(|(_, why)| matches!(why, Why::Stalled));
        let stalled = stalled.map(|(pid, _)| (self.party(*pid), *pid)).collect();
        let mut ways = BTreeMap::new();
        for (_, pid, told) in self.ask(stalled, |pid| Question::Listed(Task::first_of(*pid)))? {
            if let Some(Found::Table(excerpt)) = told.found.first() {
                let table = excerpt.table()?;
                let servers = table.mounts().iter().filter(|mount| is_of_a_server(mount));
                let servers = servers.filter_map(|mount| end_of_wait(mount, &self.all[0].table));
                ways.insert(pid, servers.collect());
            }
        }
        Ok(ways)
    }

    /// All of it: what counts as it is, and what a later look may tell.
    pub(super) fn report_unread(&mut self) -> Result<(Vec<Untold>, Vec<Untold>)> {
        let servers = self.ways_out()?;
        for (id, (owner, tasks, why)) in std::mem::take(&mut self.unread.namespaces) {
            let owners: BTreeSet<Party> = tasks.iter().map(|task| self.party(task.pid)).collect();
            let owner = owners.first().unwrap_or(&owner);
            let mut what = format!("mount namespace {id}");
            let mut way_out = None;
            if let Some(first) = tasks.first() {
                what += &format!(" of process {}", self.process(first.pid));
                way_out = end_of_process(first.pid, owner, &why);
            }
            let untold = untold(what, why.text(), &owners, false);
            self.note(Untold { way_out, ..untold }, owner, &why);
        }
        let mut unread = std::mem::take(&mut self.unread);
        let mut by_owner: BTreeMap<Party, Vec<(u32, Why)>> = BTreeMap::new();
        for (pid, why) in unread.processes {
            by_owner.entry(self.party(pid)).or_default().push((pid, why));
        }
        let all_count = !by_owner.is_empty() && !self.has_pods();
        for (owner, mut processes) in by_owner {
            // What stalled itself is worth more than what was skipped for it.
            sort_by_key(&mut processes, |(_, why)| !matches!(why, Why::Stalled));
            let (pid, why) = &processes[0];
            let (what, kill) = match (&owner, why, processes.len()) {
                (Party::User(user), Why::Skipped, count @ 2..) => {
                    (format!("{count} processes of user {user}"), Some(end_of_all(*user)))
                }
                (_, _, count) => {
                    let mut what = format!("process {}", self.process(*pid));
                    if count > 1 {
                        what += &format!(" and {} more", count - 1);
                    }
                    (what, end_of_process(*pid, &owner, why))
                }
            };
            let ways = processes.iter().filter_map(|(pid, _)| servers.get(pid)).flatten();
            let ways: BTreeSet<&String> = ways.collect();
            // A server may be one that others use too: so that comes last. A killed process that is still there waits
            // uninterruptibly: another signal does not end that.
            let way_out = kill.map(|kill| {
                let kill = (ways.is_empty() || !self.proc.is_killed(*pid)).then_some(&kill);
                let ways = ways.iter().copied().take(MOST_WAYS);
                let all: Vec<&str> = kill.into_iter().chain(ways).map(String::as_str).collect();
                all.join(", or ")
            });
            let text = match why {
                Why::Late if owner == Party::Root => "timed out before it was read".to_owned(),
                why => why.text(),
            };
            let hides = processes.iter().any(|(pid, _)| !unread.seen.contains(pid));
            let owners = if hides { BTreeSet::from([owner]) } else { BTreeSet::new() };
            let untold = untold(what, text, &owners, hides && all_count);
            unread.untold.push(Untold { way_out, ..untold });
        }
        Ok((unread.untold, unread.later))
    }

    /// What hides where we could not look for want of a descriptor may be what is looked for. A heal, which
    /// takes nothing from those it does not see, goes on; all others are told nothing.
    pub(super) fn must_be_whole(&mut self) -> Result<Vec<Untold>> {
        let (untold, later) = self.report_unread()?;
        later.first().map_or(Ok(untold), |first| Err(Error::new(Kind::Host, first.to_string())))
    }

    /// Whether this machine has cgroups of pods: without them a container's process cannot be told from another one.
    fn has_pods(&self) -> bool {
        let trees = self.all[0].table.mounts().iter();
        let mut trees = trees.filter(|mount| mount.fs_type.starts_with("cgroup"));
        let is_kubelets = |name: String| name.starts_with("kubepods");
        trees.any(|tree| files::names_in(&tree.target).into_iter().any(is_kubelets))
            || self.processes.values().any(|process| process.owner.pod.is_some())
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
    why.is(Errno::EMFILE) || why.is(Errno::EINTR) || why.is_lack() && owner.class() == Class::Root
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

fn most_frequent(users: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    // A runtime that gives a container users of its own is root when it makes that one.
    for user in users.filter(|user| *user != 0) {
        *counts.entry(user).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(user, _)| user)
}

/// Ends a process that kept itself from being read. That the call had no time for the machine's own processes is not
/// their doing, and the first process of a machine is not to be ended.
fn end_of_process(pid: u32, owner: &Party, why: &Why) -> Option<String> {
    let is_its_doing = match why {
        Why::Failed(..) => false,
        Why::Stalled => true,
        Why::Late | Why::Skipped => owner.class() != Class::Root,
    };
    (is_its_doing && pid != 1).then(|| format!("kill {pid}"))
}

/// Ends what a user started in sessions. Containers may run as the same user: `pkill -u` would end them too.
fn end_of_all(user: u32) -> String {
    format!("loginctl kill-user --signal=KILL {user}")
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
