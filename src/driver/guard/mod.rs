//! The guard: a volume is not torn down under a running pod.
//!
//! The orchestrator may be wrong about what runs: restarted under load, it asks to unmount the volumes of pods that
//! never stopped (kubernetes issues 120150, 113979). The processes are the truth. Every refusal ends with them or on a
//! person's word, never by a timeout.

pub mod end_users;
pub(crate) mod flush;
pub(crate) mod free_disks;
pub(crate) mod leaked_copies;
pub mod let_go_volumes;
pub(crate) mod letting_go;
pub(crate) mod orphans;
pub(crate) mod refusal;
pub mod remote_mark;
use crate::context::Context;
use crate::lookup::find_disk;
use crate::model::advice::{Remedy, advise};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{Answer, DeviceUses, FileUse, plain};
use crate::model::mount::mountinfo::Mount;
use crate::model::report::tear_down::TearDown;
use crate::ownership::words::{file_use, kernel_use, named, users_untold, way_to_end_users};
use crate::shield;
use crate::snapshot::Snapshot;

/// Whether the users of a disk are visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsersSeen {
    /// Processes, mounts and the disk are.
    Yes,
    /// They are not, from here.
    No,
}

/// Whether the volume may leave this node. The last check is an exclusive open, which the kernel refuses while anything
/// uses the disk. Where neither processes nor disk are visible, as in a controller's container, only the orchestrator's
/// order of calls protects the volume.
pub(super) fn guard_attachment(cx: &Context<'_>, id: &VolumeId) -> Result<UsersSeen> {
    if !cx.policy.guard.is_on() {
        // If the disk leaves under its map, users of the map wait; with an unused map nothing waits.
        if let Err(error) = cx.host.shield.take_off(cx, id) {
            tracing::info!(volume = %id, %error, "the volume's map stays");
        }
        return Ok(UsersSeen::Yes);
    }
    let mut snapshot = Snapshot::of(cx, Some(id));
    must_not_be_waited_for(&snapshot, id)?;
    let disk = match snapshot.disk() {
        Ok(Some(disk)) => disk.clone(),
        // Missing or invisible: a controller's container may have /sys but no /dev.
        Ok(None) => return Ok(UsersSeen::No),
        Err(error) if cx.host.devices.are_out_of_sight() => {
            tracing::info!(volume = %id, %error, "this machine's disks cannot be seen from here: detaching on the orchestrator's word");
            return Ok(UsersSeen::No);
        }
        Err(error) => return Err(error),
    };
    tracing::info!(volume = %id, disk = %disk.kernel_name, number = %disk.number, "its disk");
    cx.host.file_systems.await_check(id, &disk, cx.deadline)?;
    let mut mounts = snapshot.table()?.mounts().iter();
    if let Some(mount) = mounts.find(|mount| mount.disk == disk.number) {
        let place = mount.target.display();
        let before = cx.face.words.name(&TearDown::Unstage);
        let reason =
            format!("disk {} is mounted at {place}: {before} comes first", disk.kernel_name);
        refusal::refuse(&snapshot, &TearDown::Detach, &reason)?;
    }
    // A pod whose mount has lost its disk still uses the volume: a heal may fix it.
    let mut numbers = snapshot.dead_numbers();
    numbers.push(disk.number);
    match cx.host.census.namespaces_with(&numbers) {
        Answer::Told(uses) => {
            let views = leaked_copies::judge(&mut snapshot, &TearDown::Detach, &numbers, uses)?;
            leaked_copies::end_views(&snapshot, &TearDown::Detach, &numbers, &views)?;
        }
        Answer::CannotTell(why) => {
            tracing::info!(volume = %id, why, "who uses the disk cannot be told from here: the kernel is asked alone");
        }
    }
    if let Some(staged) = cx.store.records.load(id).mounts.mounted_as()
        && !find_disk::is_free(cx, &disk).unwrap_or(true)
    {
        leaked_copies::renew_in_doubt(cx, &staged.folder);
    }
    let is_told =
        free_disks::must_let_go(&snapshot, &disk)? && cx.host.census.sight() == Answer::Told(());
    take_off_map(&snapshot, id, &TearDown::Detach)?;
    Ok(if is_told { UsersSeen::Yes } else { UsersSeen::No })
}

/// Refuses while I/O waits in the volume's map. Its disk is away, or not under the map, so checking that disk proves
/// nothing.
fn must_not_be_waited_for(snapshot: &Snapshot<'_>, id: &VolumeId) -> Result<()> {
    let cx = snapshot.cx;
    let map = match shield::waited_for(cx, id) {
        Ok(Some(map)) => map,
        Ok(None) => return Ok(()),
        // A controller's container sees that there is a map, but cannot query it.
        Err(error) if cx.host.census.sight() != Answer::Told(()) => {
            tracing::info!(volume = %id, %error, "whether anything waits for the disk cannot be told from here");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let before = cx.face.words.name(&TearDown::Unstage);
    let reason = format!(
        "the map {} of volume {id} {}, and what has it open goes on when it is back: {before} comes first",
        map.kernel_name,
        map.state().words()
    );
    refusal::refuse(snapshot, &TearDown::Detach, &reason)
}

/// Removes the volume's map. A map in use is a refusal; if that is not enforced, the map stays, and its users wait once
/// the disk has left.
pub(super) fn take_off_map(
    snapshot: &Snapshot<'_>,
    id: &VolumeId,
    tear_down: &TearDown,
) -> Result<()> {
    let cx = snapshot.cx;
    let error = match cx.host.shield.take_off(cx, id) {
        Err(error) if error.kind == Kind::Refused => error,
        other => return other,
    };
    let reason = format!("{}, and keeps the disk", error.cause);
    refusal::refuse(snapshot, tear_down, &reason)?;
    tracing::warn!(volume = %id, %error, "the volume's map stays");
    Ok(())
}

/// What makes a mount busy and how to end that: mounts inside it, otherwise processes.
pub(super) fn busy(cx: &Context<'_>, id: Option<&VolumeId>, mount: &Mount, error: Error) -> Error {
    let on_it = cx.host.mounts.table().map(|table| table.standing_on(mount)).unwrap_or_default();
    let (who, end) = if on_it.is_empty() {
        let who = makes_busy(&cx.host.census.device_users(&[mount.number]), id);
        (who, "a process of this machine uses files below that folder: end it")
    } else {
        let words = |one: &Mount| format!("{} from {}", one.fs_type, one.source);
        let word = |one: &Mount| format!("{} (umount {})", words(one), plain(&one.target));
        (format!(": other mounts stand on it: {}", named(&on_it, word)), "take them off first")
    };
    let or_release = |id| advise("{}, or: {}", [end.into(), Remedy::Release.of(id)]);
    Error { cause: error.cause + &who, ..error }.hint(id.map_or_else(|| end.into(), or_release))
}

/// The orchestrator wants the volume again: ends the refusals of these tear-downs. The caller holds the volume's lock.
pub(super) fn wanted_again(cx: &Context<'_>, id: &VolumeId, tear_downs: &[TearDown]) {
    refusal::end_refusals(cx, id, tear_downs);
    flush::tell_losses_anew(cx, id);
}

/// The processes that make a mount busy, without those that only have the node of its disk open.
fn makes_busy(users: &Answer<DeviceUses>, id: Option<&VolumeId>) -> String {
    let users = match users {
        Answer::Told(users) => users,
        Answer::CannotTell(why) => return users_untold(why),
    };
    if !users.files.is_empty() {
        let is_users = |one: &FileUse| one.process.ordinary_user().is_some();
        let is_kept = users.files.iter().any(is_users);
        let way = if is_kept { way_to_end_users(id) } else { String::new() };
        return format!(": {}{way}", named(&users.files, file_use));
    }
    if !users.possible.is_empty() && users.kernel.is_empty() {
        return format!(": {}", named(&users.possible, file_use));
    }
    if !users.kernel.is_empty() {
        return format!(": {}", named(&users.kernel, kernel_use));
    }
    ": by whom cannot be seen".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeNamespaces, MadeUp};
    use crate::model::disk::device::DeviceNumber;
    use crate::model::mount::disk_users::{KernelUse, Process, Tie};

    #[test]
    fn disks_that_cannot_be_looked_at_let_no_volume_leave_but_where_there_is_no_dev() {
        let unread = |is_out_of_sight| {
            let why = Some("/dev: I/O error");
            let devices = FakeDevices { unread: why, is_out_of_sight, ..FakeDevices::default() };
            let cloud = FakeCloud::default().with("v-1", 1 << 30, &["here"]);
            let namespaces = FakeNamespaces { is_blind: true, ..FakeNamespaces::default() };
            MadeUp { namespaces, ..MadeUp::with(&cloud, &devices) }.detached()
        };
        assert_eq!(unread(true), (None, 1));
        assert_eq!(unread(false), (Some("/dev: I/O error".to_owned()), 0));
    }

    #[test]
    fn who_makes_a_mount_busy_is_named_with_what_ends_it() {
        let id = VolumeId::parse("v-1").unwrap();
        let told = |users: DeviceUses| makes_busy(&Answer::Told(users), Some(&id));
        let file = |user| FileUse {
            process: Process { user, ..Process::of_a_test(7) },
            tie: Tie::WorkingFolder,
            path: "/data".into(),
            number: DeviceNumber { major: 254, minor: 16 },
        };
        let files = |user| DeviceUses { files: vec![file(user)], ..DeviceUses::default() };
        assert_eq!(told(files(Some(0))), ": 7 (sh) holds /data as its working folder");
        let way = "; EndUsers v-1 ends what users keep";
        assert!(told(files(Some(1000))).ends_with(way), "{}", told(files(Some(1000))));
        let kernel = vec![KernelUse::Swap("/data/swap".into())];
        let swapped = DeviceUses { kernel, ..DeviceUses::default() };
        assert_eq!(told(swapped), ": /data/swap is swapped to");
        assert_eq!(told(DeviceUses::default()), ": by whom cannot be seen");
        let why = makes_busy(&Answer::CannotTell("no /proc".to_owned()), None);
        assert_eq!(why, ": by whom cannot be told from here: no /proc");
    }
}
