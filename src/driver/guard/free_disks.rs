//! The one rule by which a volume is gone from this node: its disk is free.
//!
//! An unstage succeeds, a detach goes on and the mark in the cloud is removed only if the kernel lets the disk be
//! opened exclusively, or if the disk is gone. A mount table proves nothing: a lazily unmounted file system, a copy in
//! an invisible namespace or a device on top of the disk all keep it busy without a mount of ours.

use crate::context::Context;
use crate::guard::{end_users, refusal};
use crate::lookup::locking;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::disk::exclusive_open::ExclusiveOpen;
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{
    Answer, DeviceUses, NamespaceKeeper, NamespaceUse, Process, plain,
};
use crate::model::mount::staleness::Presence;
use crate::model::report::tear_down::TearDown;
use crate::ownership::words::{self, named};
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long to wait for a disk whose users are about to release it: an exiting process, a call that just closed it, a
/// helper that holds a lost file system.
pub(crate) const LETS_GO: Duration = Duration::from_secs(2);

/// How long a disk may take to become free if the question is asked again later; the kernel releases a process's files
/// shortly after its end.
pub(crate) const MOMENT: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DiskState {
    /// It was opened exclusively, or is gone.
    Free,
    /// It is in use, or that is uncertain: why, and what ends it.
    Held(String),
    /// It is not accessible from here, and no user of it was found.
    Unseen {
        why: String,
        /// Whether everything that could use it was examined.
        is_looked_at: bool,
        /// A process that may use it but cannot be examined.
        hidden: Option<String>,
    },
}

/// Whether the disk is free, after a short wait for users that are about to release it. `numbers` are the anonymous
/// device numbers of its file systems.
pub(crate) fn disk_state(
    cx: &Context<'_>,
    disk: &Device,
    numbers: &[DeviceNumber],
    patience: Duration,
) -> DiskState {
    let until = cx.deadline.at_most(patience);
    let held = |why: String| DiskState::Held(format!("disk {} {why}", disk.kernel_name));
    loop {
        match cx.host.devices.exclusive_open(disk) {
            Ok(ExclusiveOpen::Free) => return DiskState::Free,
            Ok(ExclusiveOpen::InUse) => {
                if until.pause(Duration::from_millis(10)) {
                    continue;
                }
                let who = who_has(cx, disk, numbers);
                return held(format!("is in use{who}"));
            }
            Ok(ExclusiveOpen::Unseen(why)) => {
                // A lost disk has no node any more, or an empty one.
                if cx.host.devices.is_gone(disk.number).unwrap_or(false) {
                    return DiskState::Free;
                }
                return match cx.host.census.device_users(&all_numbers(disk, numbers)) {
                    Answer::Told(users) if is_used(&users) => {
                        let who = who_has(cx, disk, numbers);
                        held(format!("is in use{who}"))
                    }
                    Answer::Told(users) => {
                        let mut hidden = users.untold.iter();
                        let hidden = hidden.find(|one| one.way_out.is_some());
                        let hidden = hidden.map(ToString::to_string);
                        DiskState::Unseen { why, is_looked_at: users.untold.is_empty(), hidden }
                    }
                    Answer::CannotTell(_) => {
                        DiskState::Unseen { why, is_looked_at: false, hidden: None }
                    }
                };
            }
            Err(error) => {
                return held(format!(
                    "is not proven free, for it cannot be asked: {}",
                    error.cause
                ));
            }
        }
    }
}

/// The state of the first disk that is not free.
pub(crate) fn state_of_all(
    cx: &Context<'_>,
    disks: &[Device],
    numbers: &[DeviceNumber],
    patience: Duration,
) -> DiskState {
    let mut all = DiskState::Free;
    for disk in disks {
        match disk_state(cx, disk, numbers, patience) {
            DiskState::Free => {}
            held @ DiskState::Held(_) => return held,
            unseen @ DiskState::Unseen { .. } => all = unseen,
        }
    }
    all
}

/// The attached disks from which the volume is or was mounted: those of its mounts, its current one, and those in its
/// record. A number that now belongs to another disk is not among them.
pub(crate) fn disks_of(snapshot: &Snapshot<'_>, mounted: &[DeviceNumber]) -> Result<Vec<Device>> {
    let cx = snapshot.cx;
    let mut numbers: BTreeSet<_> = mounted.iter().copied().collect();
    if let Some(id) = snapshot.id {
        let wanted = cx.cloud.identity(id);
        let boot = cx.host.environment.boot_id();
        for number in cx.store.records.load(id).disk.former_numbers(&boot) {
            let presence = cx.host.devices.presence(number, &wanted)?;
            if matches!(presence, Presence::Own | Presence::Halted(_)) {
                numbers.insert(number);
            }
        }
        // Two disks with one serial are left to the next attach.
        numbers.extend(snapshot.disk().ok().flatten().map(|disk| disk.number));
    }
    let mut disks = Vec::new();
    for number in numbers {
        disks.extend(cx.host.devices.disk_at(number)?);
    }
    Ok(disks)
}

/// After a final unmount: fails unless the disk is free, naming its users. Returns whether that is proven.
pub(crate) fn must_be_free(
    snapshot: &Snapshot<'_>,
    disks: &[Device],
    numbers: &[DeviceNumber],
) -> Result<bool> {
    const WHAT: &TearDown = &TearDown::Unstage;
    let Snapshot { cx, id, .. } = *snapshot;
    match state_of_all(cx, disks, numbers, LETS_GO) {
        DiskState::Free => {
            refusal::passed(snapshot, WHAT);
            Ok(true)
        }
        DiskState::Held(reason) => {
            let (hangs, way) = (locking::what_hangs(cx, id), end_users::way_out_of_users(cx, id));
            let reason = format!("unmounted here, but {reason}{hangs}{way}");
            refusal::refuse(snapshot, WHAT, &reason).map(|()| false)
        }
        DiskState::Unseen { why, hidden: Some(hidden), .. } => {
            let reason = format!(
                "unmounted here, but the disk cannot be opened ({why}), and a process that may use it cannot be \
                 examined: {hidden}"
            );
            refusal::refuse(snapshot, WHAT, &reason).map(|()| false)
        }
        DiskState::Unseen { why, is_looked_at, hidden: None } => {
            tracing::warn!(
                why,
                is_looked_at,
                "the disk cannot be opened from here: that it is free is not proven"
            );
            refusal::passed(snapshot, WHAT);
            Ok(is_looked_at)
        }
    }
}

/// Before a detach: returns whether the disk is proven to be free, by the kernel or by a complete examination.
pub(crate) fn must_let_go(snapshot: &Snapshot<'_>, disk: &Device) -> Result<bool> {
    const WHAT: &TearDown = &TearDown::Detach;
    let Snapshot { cx, id, .. } = *snapshot;
    match disk_state(cx, disk, &[], LETS_GO) {
        DiskState::Free => {
            refusal::passed(snapshot, WHAT);
            Ok(true)
        }
        DiskState::Held(reason) => {
            let reason =
                reason + &locking::what_hangs(cx, id) + &end_users::way_out_of_users(cx, id);
            refusal::refuse(snapshot, WHAT, &reason).map(|()| true)
        }
        DiskState::Unseen { why, .. } => {
            let volume = id.map(tracing::field::display);
            tracing::info!(
                volume,
                why,
                "the disk cannot be seen from here: the mark in the cloud is asked"
            );
            Ok(false)
        }
    }
}

/// Whether nothing on this node uses the volume any more, so that the mark in the cloud may go.
pub(crate) fn has_departed(cx: &Context<'_>, id: &VolumeId) -> bool {
    let disks = match disks_of(&Snapshot::of(cx, Some(id)), &[]) {
        Ok(disks) => disks,
        Err(error) => {
            tracing::debug!(volume = %id, %error, "whether the volume is free cannot be told");
            return false;
        }
    };
    match state_of_all(cx, &disks, &[], MOMENT) {
        DiskState::Free => true,
        DiskState::Unseen { why, is_looked_at, .. } => {
            tracing::debug!(volume = %id, why, "the disk cannot be opened from here");
            is_looked_at
        }
        DiskState::Held(reason) => {
            tracing::info!(volume = %id, reason, "the cloud's mark stays");
            false
        }
    }
}

/// Who uses a disk, with the commands that end them. Takes longer than finding out whether it is in use.
pub(crate) fn who_has(cx: &Context<'_>, disk: &Device, numbers: &[DeviceNumber]) -> String {
    let numbers = all_numbers(disk, numbers);
    let mut all = Vec::new();
    if let Ok(table) = cx.host.mounts.table() {
        let on_disk = table.mounts().iter().filter(|mount| numbers.contains(&mount.disk));
        all.extend(
            on_disk
                .map(|mount| format!("mounted on this machine (umount {})", plain(&mount.target))),
        );
    }
    let told = match cx.host.census.device_users(&numbers) {
        Answer::Told(users) => {
            all.extend(words(&users));
            if all.is_empty() {
                let unexamined = users.untold.iter().filter(|one| one.way_out.is_some());
                all.extend(unexamined.map(|one| format!("possibly by {one}")));
            }
            None
        }
        Answer::CannotTell(why) => Some(why),
    };
    all_named(&all, told, &disk.kernel_name)
}

/// The known users of a disk.
fn all_named(all: &[String], untold: Option<String>, disk: &str) -> String {
    match (all, untold) {
        ([], None) => format!(
            ": by what cannot be seen (fuser -v /dev/{disk}; lsblk /dev/{disk}; else a restart of the machine ends it)"
        ),
        ([], Some(why)) => words::users_untold(&why),
        _ => format!(": {}", named(all, Clone::clone)),
    }
}

fn all_numbers(disk: &Device, numbers: &[DeviceNumber]) -> Vec<DeviceNumber> {
    let all: BTreeSet<_> = numbers.iter().copied().chain([disk.number]).collect();
    all.into_iter().collect()
}

/// An open node alone is no use: udev and smartd read every disk.
fn is_used(users: &DeviceUses) -> bool {
    !(users.namespaces.is_empty() && users.files.is_empty() && users.kernel.is_empty())
}

fn words(users: &DeviceUses) -> Vec<String> {
    let kernel = users.kernel.iter().map(|one| {
        let way = one.ended_by();
        format!("{} ({way})", words::kernel_use(one))
    });
    let ends = |process: &Process| format!("kill {}", process.pid);
    let files =
        users.files.iter().map(|one| format!("{} ({})", words::file_use(one), ends(&one.process)));
    let mut all: Vec<_> =
        kernel.chain(users.namespaces.iter().map(mounted_in)).chain(files).collect();
    // Each of these may be the user, and none has to be.
    if all.is_empty() {
        let nodes = users.nodes.iter().map(|one| {
            let (process, way) = (&one.process, ends(&one.process));
            format!("{process} may have opened its node exclusively ({way})")
        });
        let possible = users.possible.iter();
        let possible =
            possible.map(|one| format!("{} ({})", words::file_use(one), ends(&one.process)));
        all.extend(nodes.chain(possible));
    }
    all
}

fn mounted_in(one: &NamespaceUse) -> String {
    let place = one.mounts.first().map_or_else(String::new, |mount| plain(&mount.target));
    match (one.processes.first(), one.keepers.first()) {
        (Some(process), _) => {
            format!("{process} has it mounted (nsenter -t {} -m umount {place})", process.pid)
        }
        (None, Some(NamespaceKeeper::MountedAt { place, .. })) => {
            format!("a mount namespace where no process lives has it (umount {})", plain(place))
        }
        (None, Some(NamespaceKeeper::OpenIn { process, .. })) => {
            format!("a mount namespace has it that {process} has open (kill {})", process.pid)
        }
        (None, Some(NamespaceKeeper::Unexamined(process))) => format!(
            "a mount namespace has it at {place}, where process {process} may live, which could not be examined (kill {})",
            process.pid
        ),
        (None, None) => format!(
            "a mount namespace has it at {place} (nothing was found that keeps it; a restart of the machine ends it)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::mount::disk_users::{FileUse, KernelUse, NodeUse, Tie};
    use crate::model::mount::mountinfo::Mount;

    fn number(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 254, minor }
    }

    fn namespace(processes: Vec<Process>, keepers: Vec<NamespaceKeeper>) -> NamespaceUse {
        let mounts = vec![Mount::of_a_test("254:16", "/data", "")];
        NamespaceUse { keepers, ..NamespaceUse::of_a_test(mounts, processes) }
    }

    fn file(pid: u32) -> FileUse {
        let (tie, path) = (Tie::Map, "/data/f".into());
        FileUse { process: Process::of_a_test(pid), tie, path, number: number(16) }
    }

    fn swap() -> KernelUse {
        KernelUse::Swap("/data/swap".into())
    }

    #[test]
    fn mounts_files_and_the_kernel_use_a_disk_and_an_open_node_does_not() {
        let node =
            NodeUse { process: Process::of_a_test(7), descriptor: 3, path: "/dev/vdb".into() };
        assert!(!is_used(&DeviceUses::default()));
        assert!(!is_used(&DeviceUses { nodes: vec![node], ..DeviceUses::default() }));
        assert!(is_used(&DeviceUses { files: vec![file(7)], ..DeviceUses::default() }));
        assert!(is_used(&DeviceUses { kernel: vec![swap()], ..DeviceUses::default() }));
        let namespaces = vec![namespace(vec![], vec![])];
        assert!(is_used(&DeviceUses { namespaces, ..DeviceUses::default() }));
    }

    #[test]
    fn who_has_a_disk_is_told_with_what_ends_it() {
        let node =
            NodeUse { process: Process::of_a_test(7), descriptor: 3, path: "/dev/vdb".into() };
        let only_nodes = DeviceUses { nodes: vec![node], ..DeviceUses::default() };
        let told = "7 (sh) may have opened its node exclusively (kill 7)";
        assert_eq!(words(&only_nodes), [told]);
        let possible = vec![FileUse { tie: Tie::Undescribed, ..file(9) }];
        let both = words(&DeviceUses { possible, ..only_nodes.clone() });
        assert_eq!(both[0], told);
        assert!(both[1].starts_with("9 (sh) keeps files in"), "{both:?}");
        let all = DeviceUses { files: vec![file(8)], kernel: vec![swap()], ..only_nodes };
        let [kernel, files] = words(&all).try_into().unwrap();
        assert!(kernel.contains("/data/swap"), "{kernel}");
        assert_eq!(files, "8 (sh) holds /data/f in its memory (kill 8)");
    }

    #[test]
    fn who_keeps_a_namespace_is_told_with_what_ends_it() {
        let told = |processes, keepers| mounted_in(&namespace(processes, keepers));
        assert_eq!(
            told(vec![Process::of_a_test(7)], vec![]),
            "7 (sh) has it mounted (nsenter -t 7 -m umount /data)"
        );
        assert!(told(vec![], vec![]).contains("nothing was found that keeps it"));
    }

    #[test]
    fn the_first_who_have_a_disk_are_named_and_who_cannot_be_seen_is_said() {
        let all = |count: u32| (0..count).map(|n| format!("p{n}")).collect::<Vec<_>>();
        assert!(all_named(&all(0), None, "vdb").starts_with(": by what cannot be seen (fuser"));
        let why = || Some("no /proc".to_owned());
        assert_eq!(
            all_named(&all(0), why(), "vdb"),
            ": by whom cannot be told from here: no /proc"
        );
        assert_eq!(all_named(&all(2), why(), "vdb"), ": p0; p1");
        assert_eq!(all_named(&all(6), None, "vdb"), ": p0; p1; p2; p3; and 2 more");
    }

    #[test]
    fn a_number_is_asked_for_once() {
        let disk = crate::fakes::FakeDevices::default().with("vdb", 1, "v-1").disks[0].0.clone();
        let others = [number(32), disk.number, number(16)];
        let all = all_numbers(&disk, &others);
        assert_eq!(all, [disk.number, number(16), number(32)]);
    }
}
