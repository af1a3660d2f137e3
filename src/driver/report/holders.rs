//! The users of a volume, and this node's gauges.

use crate::context::Context;
use crate::lookup::lost_disks::users_of_lost;
use crate::model::disk::device::DeviceNumber;
use crate::model::ids::VolumeName;
use crate::model::mount::disk_users::{Answer, DeviceUses, FileUse, Process, Tie};
use crate::model::record::VolumeRecord;
use crate::model::report::facts::{HolderFact, MountedOn, ProcessFact, VolumeFacts};
use crate::model::report::metrics::{Absence, Gauges, LetGone, Refused, WaitingMap};
use crate::ownership::{self, words};
use crate::ports::clock;
use crate::report::facts::refusals_of;
use std::collections::{BTreeMap, BTreeSet};

/// All users of a volume.
#[derive(Debug)]
pub struct Holders {
    pub all: Vec<HolderFact>,
    /// What could not be read and may be a user.
    pub untold: Vec<String>,
}

/// Every process and part of the kernel that uses the volume, on its disk or on its former ones.
pub fn holders(cx: &Context<'_>, facts: &VolumeFacts) -> Answer<Holders> {
    let mut numbers: BTreeSet<DeviceNumber> =
        facts.mounts.iter().map(|mount| mount.number).collect();
    numbers.extend(facts.disk.proven().map(|disk| disk.number));
    // A former number may be another disk's by now.
    let is_gone = |number: &DeviceNumber| cx.host.devices.is_gone(*number).unwrap_or(false);
    numbers.extend(facts.record.former.iter().filter(|number| is_gone(number)));
    let (gone, alive): (Vec<_>, Vec<_>) = numbers.into_iter().partition(is_gone);
    let mut found = Holders { all: inside(facts, &gone), untold: Vec::new() };
    if let Answer::CannotTell(why) = cx.host.census.sight() {
        return Answer::CannotTell(why);
    }
    for (numbers, is_on_gone_disk) in [(alive, false), (gone, true)] {
        if numbers.is_empty() {
            continue;
        }
        let users = if is_on_gone_disk {
            users_of_lost(cx.host.census, cx.host.devices, &numbers)
        } else {
            cx.host.census.device_users(&numbers)
        };
        match users {
            Answer::Told(users) => add(&mut found, facts, &users, is_on_gone_disk),
            Answer::CannotTell(why) => return Answer::CannotTell(why),
        }
    }
    found.untold.sort();
    found.untold.dedup();
    Answer::Told(found)
}

/// This node's gauges. Other namespaces are searched only for lost disks, which is expensive. A disk without a mount
/// `before` has none now, since a lost disk can only be mounted from one of its mounts.
pub fn gauges(cx: &Context<'_>, before: &Gauges) -> Option<Gauges> {
    let records = cx.store.records.list().ok()?;
    let boot = cx.host.environment.boot_id();
    let is_same_boot = before.boot == boot;
    let mut gauges = Gauges { volumes: records.len() as u64, boot, ..Gauges::default() };
    let mut gone: BTreeMap<DeviceNumber, &str> = BTreeMap::new();
    for record in &records {
        let id = record.volume.as_str();
        let name = record.name.as_ref().map_or("", VolumeName::as_str);
        for refusal in refusals_of(cx, record).iter().filter(|refusal| refusal.is_current) {
            let pod = refusal.tear_down.consumer();
            let label = pod.and_then(|pod| record.mounts.consumers.get(pod));
            gauges.refused.push(Refused {
                volume: id.to_owned(),
                name: name.to_owned(),
                operation: refusal.operation.to_owned(),
                pod: pod.map(ToString::to_string).unwrap_or_default(),
                pod_name: label.cloned().unwrap_or_default(),
                since: refusal.since,
            });
        }
        let let_go = record.mounts.let_go.open(&gauges.boot);
        for (pod, one) in let_go.filter(|(pod, _)| ownership::may_have_it(cx, &record.volume, pod))
        {
            gauges.let_go.push(LetGone {
                volume: id.to_owned(),
                name: name.to_owned(),
                pod: pod.to_string(),
                pod_name: record.mounts.consumers.get(pod).cloned().unwrap_or_default(),
                since: one.at / 1000,
            });
        }
        gauges.waiting.extend(waiting(cx, record, before));
        let of_this_boot = record.disk.former.iter().filter(|former| former.boot == gauges.boot);
        for former in of_this_boot {
            if is_same_boot && before.left.contains(&former.number.to_string()) {
                gauges.left.insert(former.number.to_string());
            } else if cx.host.devices.is_gone(former.number).unwrap_or(false) {
                gone.insert(former.number, id);
            }
        }
    }
    count_stale(cx, &gone, &mut gauges);
    gauges.absent = absences(cx, &records, before, &gauges);
    Some(gauges)
}

/// Volumes with stale mounts and without a disk. This only checks the node's disks and does not ask the cloud.
fn absences(
    cx: &Context<'_>,
    records: &[VolumeRecord],
    before: &Gauges,
    now: &Gauges,
) -> Vec<Absence> {
    let is_absent = |record: &&VolumeRecord| {
        let found = || cx.host.devices.search(&cx.cloud.identity(&record.volume));
        cx.cloud.identity_doubt().is_none()
            && now.stale.contains_key(record.volume.as_str())
            && found().is_ok_and(|found| found.is_empty())
    };
    let absence = |record: &VolumeRecord| {
        let volume = record.volume.to_string();
        let known = before.absent.iter().find(|one| one.volume == volume);
        let known = known.filter(|_| before.boot == now.boot);
        let since = known.map_or_else(clock::seconds, |one| one.since);
        let name = record.name.as_ref().map(ToString::to_string).unwrap_or_default();
        Absence { volume, name, since }
    };
    records.iter().filter(is_absent).map(absence).collect()
}

fn count_stale(cx: &Context<'_>, gone: &BTreeMap<DeviceNumber, &str>, gauges: &mut Gauges) {
    let numbers: Vec<_> = gone.keys().copied().collect();
    if numbers.is_empty() {
        return;
    }
    let Ok(table) = cx.host.mounts.table() else { return };
    let elsewhere = match cx.host.census.namespaces_with(&numbers) {
        Answer::Told(uses) => Some(uses.namespaces),
        Answer::CannotTell(_) => None,
    };
    let inside = elsewhere.iter().flatten().flat_map(|one| &one.mounts);
    let all: Vec<_> = table.mounts().iter().chain(inside).collect();
    for (number, id) in gone {
        let count = all.iter().filter(|mount| mount.number == *number).count();
        if count > 0 {
            *gauges.stale.entry((*id).to_owned()).or_default() += count as u64;
        } else if elsewhere.is_some() {
            gauges.left.insert(number.to_string());
        }
    }
}

/// Whether the volume's map waits for its disk.
fn waiting(cx: &Context<'_>, record: &VolumeRecord, before: &Gauges) -> Option<WaitingMap> {
    let wait = record.shield.map_wait.as_ref()?;
    let now = cx.host.environment.uptime();
    let paused = now.since(&wait.since)?;
    let volume = record.volume.to_string();
    let known = before.waiting.iter().find(|one| one.volume == volume);
    let known = known.filter(|_| before.boot == now.boot);
    Some(WaitingMap {
        volume,
        name: record.name.as_ref().map(ToString::to_string).unwrap_or_default(),
        disk: wait.cause.word().to_owned(),
        since: known
            .map_or_else(|| clock::seconds().saturating_sub(paused.as_secs()), |one| one.since),
    })
}

/// The processes in other namespaces where the volume is mounted.
fn inside(facts: &VolumeFacts, gone: &[DeviceNumber]) -> Vec<HolderFact> {
    let mut all = Vec::new();
    for mount in facts.mounts.iter().filter(|mount| !mount.is_own()) {
        let holder = |process: Option<&ProcessFact>| HolderFact {
            pod_name: process.and_then(|process| pod_name(facts, process)),
            process: process.cloned(),
            how: "mount",
            what: mount.place.display().to_string(),
            is_on_gone_disk: mount.on == MountedOn::Gone || gone.contains(&mount.number),
            namespace: mount.namespace,
        };
        all.extend(mount.processes.iter().map(|process| holder(Some(process))));
        if mount.processes.is_empty() {
            // A namespace without a process still keeps the file system.
            all.push(holder(None));
        }
    }
    all
}

fn add(found: &mut Holders, facts: &VolumeFacts, users: &DeviceUses, is_on_gone_disk: bool) {
    let holder = |process: Option<&Process>, how, what| {
        let process = process.map(ProcessFact::from);
        HolderFact {
            pod_name: process.as_ref().and_then(|process| pod_name(facts, process)),
            process,
            how,
            what,
            is_on_gone_disk,
            namespace: None,
        }
    };
    found.all.extend(users.files.iter().map(|one| file_user(facts, one, is_on_gone_disk)));
    for one in &users.nodes {
        let what = format!("{} (descriptor {})", one.path.display(), one.descriptor);
        found.all.push(holder(Some(&one.process), "node", what));
    }
    found.all.extend(users.kernel.iter().map(|one| holder(None, "kernel", words::kernel_use(one))));
    found.untold.extend(users.untold.iter().map(ToString::to_string));
    found.untold.extend(users.possible.iter().map(words::file_use));
}

/// A process with a file of the volume.
pub(crate) fn file_user(facts: &VolumeFacts, one: &FileUse, is_on_gone_disk: bool) -> HolderFact {
    let process = ProcessFact::from(&one.process);
    let path = one.path.display();
    let (how, what) = match one.tie {
        Tie::Descriptor(number) => ("file", format!("{path} (descriptor {number})")),
        Tie::Map => ("map", path.to_string()),
        Tie::WorkingFolder => ("folder", path.to_string()),
        Tie::RootFolder => ("root", path.to_string()),
        Tie::Undescribed => ("maybe", path.to_string()),
    };
    HolderFact {
        pod_name: pod_name(facts, &process),
        process: Some(process),
        how,
        what,
        is_on_gone_disk,
        namespace: None,
    }
}

/// The name of a process's pod, if the volume's record has it.
fn pod_name(facts: &VolumeFacts, process: &ProcessFact) -> Option<String> {
    let uid = process.pod.as_ref()?;
    facts.pods.iter().find(|pod| pod.uid == *uid)?.name.clone()
}
