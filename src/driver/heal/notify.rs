//! After a heal: make processes release the lost disk, as configured.

use crate::context::Context;
use crate::heal::diagnosis::StaleMounts;
use crate::heal::outcome::Healed;
use crate::lookup::lost_disks::users_of_lost;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::after_heal::{After, Wakeup};
use crate::model::mount::disk_users::{Answer, DeviceUses, Process};
use crate::model::pauses::Steps;
use crate::ports::host::HELD_AT_ONCE;
use crate::ports::store::what_ends_it;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// How long the call waits for the operator's hook.
const HOOK_LIMIT: Duration = Duration::from_secs(10);

/// How long a process may take to end after SIGTERM, and after SIGKILL.
const ENDS: Duration = Duration::from_secs(10);
const DIES: Duration = Duration::from_secs(5);

/// Runs the configured action. The heal is complete, so failures are only logged.
pub(crate) fn care_after(
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &Device,
    stale: &StaleMounts,
    healed: &Healed,
    users: &Answer<DeviceUses>,
) {
    let holders = pod_processes(users);
    let done = match cx.policy.after {
        After::Nothing => return,
        After::Signal(_) if holders.is_empty() => return,
        After::Signal(signal) => {
            send_signal(cx, id, &stale.dead, &holders, (*signal, "as heal.after says"))
        }
        After::Hook(program) => call_hook(cx, program, id, disk, healed, &holders),
    };
    if let Err(error) = done {
        tracing::warn!(volume = %id, %error, "heal.after failed");
    }
}

/// Processes of the volume's pods with open files on these disks. Leaves other pods alone: another driver's volume may
/// have got the number.
pub(crate) fn holders_of(
    cx: &Context<'_>,
    id: &VolumeId,
    dead: &[DeviceNumber],
) -> Result<BTreeMap<u32, Process>> {
    let record = cx.store.records.load(id);
    match users_of_lost(cx.host.census, cx.host.devices, dead) {
        Answer::Told(users) => {
            let processes = users.files.into_iter().map(|one| one.process);
            let of_pods = processes
                .filter(|one| one.owner.pod.as_ref().is_some_and(|pod| record.mounts.knows(pod)));
            Ok(of_pods.map(|one| (one.pid, one)).collect())
        }
        Answer::CannotTell(why) => Err(Error::refused(format!(
            "cannot determine which processes have files of the lost disk open: {why}"
        ))),
    }
}

/// Ends these processes, so that kubelet restarts their containers. A container's first process ignores SIGTERM unless
/// it handles it, so SIGKILL follows.
pub(crate) fn end_holders(
    cx: &Context<'_>,
    id: &VolumeId,
    dead: &[DeviceNumber],
) -> Result<Vec<Process>> {
    let found = holders_of(cx, id, dead)?;
    let mut left: BTreeSet<u32> = found.keys().copied().collect();
    for (signal, patience) in [(Wakeup::Term, ENDS), (Wakeup::Kill, DIES)] {
        send_signal(cx, id, dead, &left, (signal, "as a person asked"))?;
        let until = cx.deadline.at_most(patience);
        for step in Steps::between(Duration::from_millis(5), Duration::from_millis(200)) {
            let still = holders_of(cx, id, dead)?;
            left.retain(|pid| still.contains_key(pid));
            if left.is_empty() {
                return Ok(found.into_values().collect());
            }
            if !until.pause(step) {
                break;
            }
        }
    }
    let left: Vec<_> = left.iter().filter_map(|pid| found.get(pid)).collect();
    let left: Vec<_> = left.iter().map(ToString::to_string).collect();
    let message = format!("processes still have files of the lost disk open: {}", left.join("; "));
    Err(Error::new(Kind::Busy, message).hint(what_ends_it()))
}

/// A process id may have been reused. So pin the processes, search again, and signal those that are pinned and still
/// hold the lost disk.
fn send_signal(
    cx: &Context<'_>,
    id: &VolumeId,
    dead: &[DeviceNumber],
    holders: &BTreeSet<u32>,
    (signal, why): (Wakeup, &str),
) -> Result<()> {
    let holders: Vec<_> = holders.iter().copied().collect();
    for some in holders.chunks(HELD_AT_ONCE) {
        let pinned: Vec<_> =
            some.iter().filter_map(|pid| Some((*pid, cx.host.processes.pin(*pid).ok()?))).collect();
        let still = pod_processes(&users_of_lost(cx.host.census, cx.host.devices, dead));
        for (pid, pin) in pinned.into_iter().filter(|(pid, _)| still.contains(pid)) {
            tracing::warn!(volume = %id, pid, ?signal, "it holds the dead disk: signalled, {why}");
            cx.host.processes.signal(&pin, signal)?;
        }
    }
    Ok(())
}

fn call_hook(
    cx: &Context<'_>,
    program: &Path,
    id: &VolumeId,
    disk: &Device,
    healed: &Healed,
    holders: &BTreeSet<u32>,
) -> Result<()> {
    let name = cx.store.records.load(id).name.map(|name| name.to_string()).unwrap_or_default();
    let places: Vec<_> = healed.places.iter().map(|(place, _)| place.as_str()).collect();
    let pids: Vec<_> = holders.iter().map(ToString::to_string).collect();
    let facts = [
        ("INCLOUD_DISK_VOLUME", id.to_string()),
        ("INCLOUD_DISK_NAME", name),
        ("INCLOUD_DISK_DEVICE", disk.kernel_node().display().to_string()),
        ("INCLOUD_DISK_HEALED", places.join("\n")),
        ("INCLOUD_DISK_LEFT", healed.left.join("\n")),
        ("INCLOUD_DISK_HOLDERS", pids.join(" ")),
    ];
    let said = cx.host.processes.run(program, &facts, cx.deadline.at_most(HOOK_LIMIT))?;
    tracing::info!(volume = %id, program = %program.display(), said, "heal.after was run");
    Ok(())
}

/// Processes of pods that have a file open. No other process is signalled.
fn pod_processes(users: &Answer<DeviceUses>) -> BTreeSet<u32> {
    let Answer::Told(users) = users else { return BTreeSet::new() };
    let of_pods = users.files.iter().filter(|one| one.process.owner.pod.is_some());
    of_pods.map(|one| one.process.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cgroup::Owner;
    use crate::model::ids::ConsumerId;
    use crate::model::mount::disk_users::{FileUse, Tie};

    #[test]
    fn only_processes_of_pods_are_signalled() {
        let file = |pid, pod: Option<&str>| {
            let owner =
                Owner { pod: pod.map(|pod| ConsumerId::parse(pod).unwrap()), ..Owner::default() };
            FileUse {
                process: Process { owner, ..Process::of_a_test(pid) },
                tie: Tie::WorkingFolder,
                path: "/data".into(),
                number: DeviceNumber { major: 254, minor: 16 },
            }
        };
        let files = vec![file(7, Some("a")), file(8, None), file(9, Some("b")), file(7, Some("a"))];
        let users = DeviceUses { files, ..DeviceUses::default() };
        assert_eq!(pod_processes(&Answer::Told(users)), BTreeSet::from([7, 9]));
        assert!(pod_processes(&Answer::CannotTell("no /proc".to_owned())).is_empty());
    }
}
