//! Whether the file system on a returned disk may replace the lost one: a running program's caches must never meet
//! another file system.
//!
//! If this node already mounts it from this very disk, an earlier heal or staging did that, and a further mount joins
//! it. Its counters and marks on disk prove nothing then, and it must not be checked; it only has to be the same file
//! system.

use crate::context::Context;
use crate::failpoints;
use crate::lookup::{attachment_view, find_disk};
use crate::model::disk::contents::{Contents, FileSystem, FsType};
use crate::model::disk::device::Device;
use crate::model::error::{Error, Result};
use crate::model::ids::{ServerId, VolumeId};
use crate::model::mount::disk_users::Answer;
use crate::model::mount::label;
use crate::model::mount::mountinfo::Mount;
use crate::model::record::VolumeRecord;

fn refused(disk: &Device, why: impl std::fmt::Display) -> Error {
    Error::refused(format!("{}: {why}", disk.kernel_name))
        .hint("nothing was touched; restart the pods that use the volume")
}

/// The file system on the disk, after a check if it needs one.
pub(crate) fn fit_file_system(
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &Device,
) -> Result<FileSystem> {
    if let Some(verdict) = cx.host.file_systems.await_check(id, disk, cx.deadline)? {
        return Err(verdict);
    }
    let Contents::FileSystem(found) = cx.host.file_systems.look(disk, cx.deadline)? else {
        return Err(refused(disk, "it holds no file system that was mounted before"));
    };
    if found.kind == FsType::Btrfs {
        return Err(refused(
            disk,
            "a btrfs joins its disks by id, and cannot be mounted beside its dead self",
        ));
    }
    let record = cx.store.records.load(id);
    if let Some(staged) = record.mounts.mounted_as()
        && !staged.uuid.is_empty()
        && staged.uuid != found.uuid
    {
        return Err(refused(
            disk,
            format!("file system {} was mounted, {} is there now", staged.uuid, found.uuid),
        ));
    }
    refuse_if_it_was_elsewhere(cx, id, found.mounts.is_some())?;
    // First this namespace's mount table and the kernel's answer, which cost nothing. Search all namespaces only if
    // something else uses the disk.
    let is_in_use = !find_disk::is_free(cx, disk)?;
    if is_in_use && is_mounted_by_us(cx, id, disk)? {
        return Ok(found);
    }
    refuse_another_state(&record, disk, &found)?;
    if !found.wants_check {
        return Ok(found);
    }
    if is_in_use {
        // An invisible mount, or a process that reads the disk: do not check it.
        tracing::warn!(volume = %id, disk = %disk.kernel_name, "the file system asks for a check, but its disk is in use");
        return Ok(found);
    }
    // The check resets the counters.
    cx.store
        .records
        .update(id, |record| record.heal.is_healing(found.mounts, found.mounts.map(|_| 0)))?;
    cx.host.file_systems.check(find_disk::prove(cx, id, disk)?, found.kind, cx.deadline)?;
    failpoints::step("heal.checked");
    find_disk::prove(cx, id, disk)?;
    match cx.host.file_systems.look(disk, cx.deadline)? {
        Contents::FileSystem(now) => Ok(now),
        _ => Err(refused(disk, "it holds no file system after its check")),
    }
}

/// Whether the volume is mounted from this disk in any namespace. The kernel does not reuse the number of a mounted
/// disk, so number and label identify it.
fn is_mounted_by_us(cx: &Context<'_>, id: &VolumeId, disk: &Device) -> Result<bool> {
    let is_ours = |mount: &Mount| label::owner_of(mount).as_ref() == Some(id);
    if cx.host.mounts.table()?.of(disk.number).any(is_ours) {
        return Ok(true);
    }
    Ok(match cx.host.census.namespaces_with(&[disk.number]) {
        Answer::Told(uses) => {
            let mut mounts = uses.namespaces.iter().flat_map(|one| &one.mounts);
            mounts.any(is_ours)
        }
        Answer::CannotTell(_) => false,
    })
}

/// Refuses if another node has mounted the volume meanwhile: then the mark in the cloud is not this node's any more. A
/// file system that counts its mounts shows that itself; for others the attach generation counts.
fn refuse_if_it_was_elsewhere(cx: &Context<'_>, id: &VolumeId, counts_mounts: bool) -> Result<()> {
    let record = cx.store.records.load(id);
    let knows = record.mark.is_set || record.mark.attach_generation.is_some();
    if !cx.cloud.capabilities().keeps_marks || !knows {
        return Ok(());
    }
    let server = attachment_view::existing_server(cx, cx.this_node)?;
    let state = attachment_view::existing(cx, id)?;
    let tenures = (record.mark.attach_generation, state.tenure.map(|now| now.count));
    match was_elsewhere(&server, state.mounted_on, tenures, counts_mounts) {
        None => Ok(()),
        Some(how) => {
            Err(Error::refused(format!("volume {id} was {how} since it was mounted here"))
                .hint("nothing was touched; restart the pods that use the volume"))
        }
    }
}

/// The mount count of an ext file system after a mount that should have produced this count. If the disk was mounted
/// already, the mount was not counted; if a process only had it open for a moment, it was. The superblock tells.
pub(crate) fn mounts_counted(
    cx: &Context<'_>,
    expected: Option<u16>,
    disk: &Device,
    was_free: bool,
) -> Option<u16> {
    if was_free || expected.is_none() {
        return expected;
    }
    match cx.host.file_systems.look(disk, cx.deadline) {
        Ok(Contents::FileSystem(now)) => now.mounts,
        _ => expected,
    }
}

/// The mount count of an ext file system after a mount from a free disk: one more if the mount may write.
pub(crate) fn next_count(found: &FileSystem, disk: &Device, untouched: bool) -> Option<u16> {
    let counts = !untouched && !disk.read_only;
    found.mounts.map(|before| before.saturating_add(u16::from(counts)))
}

/// How another node had the volume since it was mounted here, according to the cloud: whose mark it has, and its attach
/// generation then and now.
fn was_elsewhere(
    own: &ServerId,
    marked: Option<ServerId>,
    tenures: (Option<u64>, Option<u64>),
    counts_mounts: bool,
) -> Option<String> {
    match (marked, tenures) {
        (Some(now), _) if now != *own => Some(format!("mounted on server {now}")),
        // Another node or process may have mounted and unmounted it.
        (_, (Some(then), Some(now))) if !counts_mounts && now != then => {
            Some("attached to another server".to_owned())
        }
        _ => None,
    }
}

/// Refuses a file system, not mounted on this node, that shows that others have used it.
fn refuse_another_state(record: &VolumeRecord, disk: &Device, found: &FileSystem) -> Result<()> {
    let Some(staged) = record.mounts.mounted_as() else { return Ok(()) };
    if let (Some(then), Some(now)) = (staged.mounts, found.mounts)
        && then != now
        && !record.heal.counted_by_a_heal(now)
    {
        return Err(refused(
            disk,
            format!(
                "the file system counts {now} mounts, and counted {then} when it was mounted here: it was mounted elsewhere since"
            ),
        ));
    }
    if disk.size < staged.disk.size {
        return Err(refused(
            disk,
            format!("it had {} bytes, and has {} now", staged.disk.size, disk.size),
        ));
    }
    if disk.read_only && !staged.untouched {
        return Err(refused(disk, "it refuses writes now"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{FakeCloud, FakeDevices, FakeFileSystems, MadeUp};
    use crate::model::disk::device::{DeviceNumber, Proof};
    use crate::model::record::{DiskMoment, Staged};
    use std::path::Path;

    const SIZE: u64 = 1 << 30;

    fn disk(size: u64, read_only: bool) -> Device {
        let number = DeviceNumber { major: 254, minor: 32 };
        let kernel_name = "vdc".to_owned();
        Device {
            kernel_name,
            number,
            size,
            read_only,
            sequence: None,
            proof: Proof::Whole,
            connection: None,
        }
    }

    /// A volume that was mounted with this count, and may have been written to.
    fn mounted(mounts: Option<u16>, untouched: bool) -> VolumeRecord {
        let number = DeviceNumber { major: 254, minor: 16 };
        let mut record = VolumeRecord::new(VolumeId::parse("v-1").unwrap());
        let disk = DiskMoment { number, sequence: None, size: SIZE, boot: "boot".to_owned() };
        let staged = Staged::new(Path::new("/k/global"), &disk, "ext4", "of-the-volume");
        record.is_staged(Staged { mounts, untouched, ..staged });
        record
    }

    fn found(mounts: Option<u16>) -> FileSystem {
        FileSystem { mounts, ..FileSystem::of_a_test("of-the-volume", SIZE) }
    }

    fn refusal(record: &VolumeRecord, disk: &Device, mounts: Option<u16>) -> Option<String> {
        refuse_another_state(record, disk, &found(mounts)).err().map(|error| error.cause)
    }

    #[test]
    fn a_file_system_that_counts_another_mount_was_mounted_elsewhere() {
        let (record, here) = (mounted(Some(7), false), disk(SIZE, false));
        assert_eq!(refusal(&record, &here, Some(7)), None);
        let why = "vdc: the file system counts 8 mounts, and counted 7 when it was mounted here: it was mounted elsewhere since";
        assert_eq!(refusal(&record, &here, Some(8)), Some(why.to_owned()));
        assert!(refusal(&record, &here, Some(6)).is_some(), "less: an older state of it");
        assert_eq!(refusal(&record, &here, None), None, "it counts none");
        assert_eq!(refusal(&mounted(None, false), &here, Some(8)), None);
        let mut healed = record;
        healed.heal.is_healing(Some(7), Some(8));
        assert_eq!(refusal(&healed, &here, Some(8)), None, "a heal that was killed has counted");
        assert!(refusal(&healed, &here, Some(9)).is_some());
    }

    #[test]
    fn a_disk_may_have_grown_and_may_not_have_shrunk() {
        let record = mounted(None, false);
        assert_eq!(refusal(&record, &disk(SIZE + 512, false), None), None);
        let why = format!("vdc: it had {SIZE} bytes, and has {} now", SIZE - 512);
        assert_eq!(refusal(&record, &disk(SIZE - 512, false), None), Some(why));
    }

    #[test]
    fn a_disk_that_refuses_writes_is_for_a_mount_that_wrote_nothing() {
        let why = Some("vdc: it refuses writes now".to_owned());
        assert_eq!(refusal(&mounted(None, false), &disk(SIZE, true), None), why);
        assert_eq!(refusal(&mounted(None, true), &disk(SIZE, true), None), None);
    }

    #[test]
    fn another_machines_mark_or_a_later_tenure_tells_that_a_volume_was_elsewhere() {
        let server = |name: &str| ServerId::parse(name).unwrap();
        let told = |marked: Option<&str>, then, now, counts_mounts| {
            was_elsewhere(&server("own"), marked.map(server), (then, now), counts_mounts)
        };
        let mounted = Some("mounted on server other".to_owned());
        let attached = Some("attached to another server".to_owned());
        assert_eq!(told(Some("other"), None, None, true), mounted);
        assert_eq!(told(Some("other"), Some(3), Some(3), false), mounted);
        assert_eq!(told(Some("own"), Some(3), Some(3), false), None);
        assert_eq!(told(Some("own"), Some(3), Some(4), false), attached);
        assert_eq!(told(None, Some(3), Some(4), false), attached);
        assert_eq!(told(None, Some(3), Some(4), true), None, "it counts its mounts by itself");
        for (then, now) in [(None, Some(4)), (Some(3), None)] {
            assert_eq!(told(None, then, now, false), None, "one of both is not known");
        }
    }

    #[test]
    fn of_a_volume_that_was_not_mounted_nothing_is_known() {
        let record = VolumeRecord::new(VolumeId::parse("v-1").unwrap());
        assert_eq!(refusal(&record, &disk(1, true), Some(9)), None);
    }

    /// The result of a check of the volume's disk, with this record.
    fn checked(
        cloud: &FakeCloud,
        devices: FakeDevices,
        mounts: u16,
        record: impl FnOnce(&mut VolumeRecord),
    ) -> Result<FileSystem> {
        let devices = devices.with("vdc", SIZE, "v-1");
        let file_systems = FakeFileSystems {
            holds: Some(Contents::FileSystem(found(Some(mounts)))).into(),
            ..FakeFileSystems::default()
        };
        let made_up = MadeUp { file_systems, ..MadeUp::with(cloud, &devices) };
        made_up.drive(|cx| {
            let id = VolumeId::parse("v-1").unwrap();
            let before = mounted(Some(3), false);
            cx.store
                .records
                .update(&id, |stored| {
                    *stored = before;
                    record(stored);
                })
                .unwrap();
            fit_file_system(cx, &id, &devices.disks[0].0)
        })
    }

    #[test]
    fn a_disk_that_others_have_mounted_is_refused_also_while_something_uses_it() {
        let used = |used: u32| FakeDevices { used: used.into(), ..FakeDevices::default() };
        let check = |used, mounts| checked(&FakeCloud::default(), used, mounts, |_| {});
        assert!(check(used(0), 3).is_ok() && check(used(u32::MAX), 3).is_ok());
        for used in [used(0), used(u32::MAX)] {
            let error = check(used, 4).unwrap_err();
            assert!(error.cause.contains("it was mounted elsewhere since"), "{error}");
        }
    }

    #[test]
    fn the_cloud_is_asked_who_had_the_volume_only_where_it_keeps_that_and_this_machine_knows() {
        let down =
            |keeps_marks| FakeCloud { keeps_marks, is_down: true.into(), ..FakeCloud::default() };
        let check = |keeps_marks, is_marked, tenure| {
            let record = |record: &mut VolumeRecord| {
                (record.mark.is_set, record.mark.attach_generation) = (is_marked, tenure);
            };
            checked(&down(keeps_marks), FakeDevices::default(), 3, record).is_ok()
        };
        assert!(
            check(false, true, Some(1)) && check(false, false, None) && check(true, false, None)
        );
        assert!(!check(true, true, None) && !check(true, false, Some(1)));
    }

    #[test]
    fn a_mount_that_may_write_is_counted_by_the_file_system() {
        let next =
            |untouched, read_only| next_count(&found(Some(7)), &disk(SIZE, read_only), untouched);
        assert_eq!([next(false, false), next(true, false)], [Some(8), Some(7)]);
        assert_eq!(
            [next(false, true), next_count(&found(None), &disk(SIZE, false), false)],
            [Some(7), None]
        );
    }

    #[test]
    fn the_count_after_a_mount_of_a_disk_in_use_is_what_the_superblock_shows() {
        let (cloud, devices) = (FakeCloud::default(), FakeDevices::default());
        for shown in [7, 8] {
            let counted = |expected, was_free| {
                let file_systems = FakeFileSystems {
                    holds: Some(Contents::FileSystem(found(Some(shown)))).into(),
                    ..FakeFileSystems::default()
                };
                MadeUp { file_systems, ..MadeUp::with(&cloud, &devices) }
                    .drive(|cx| mounts_counted(cx, expected, &disk(SIZE, false), was_free))
            };
            assert_eq!(counted(Some(8), true), Some(8));
            assert_eq!(counted(Some(8), false), Some(shown));
            assert_eq!(counted(None, false), None);
        }
    }
}
