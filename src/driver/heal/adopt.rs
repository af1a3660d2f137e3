//! Adopt mounts without a record: those of the predecessor, which mounted the disk by its device name at both of the
//! orchestrator's directories, or our own from before the records were lost.
//!
//! While its disk is attached, the disk proves whose the mount is, and it is recorded like one of ours. Once the disk
//! is gone, only the file system's own id identifies it, and nothing shows whether another node used the disk
//! meanwhile; so that takes a person's word.

use crate::context::Context;
use crate::guard::remote_mark;
use crate::lookup::other_kubelets::is_anothers;
use crate::lookup::{alias, attachment_view, disk_numbers, disk_owner, find_disk, locking, memory};
use crate::model::advice::{Remedy, advise};
use crate::model::disk::contents::{Contents, FsType};
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::{Error, Result};
use crate::model::face::Faces;
use crate::model::ids::{ConsumerId, VolumeId, VolumeName};
use crate::model::mount::attribution::id_by_statfs;
use crate::model::mount::label;
use crate::model::mount::layout::FolderKind;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::policy::HealMode;
use crate::model::record::{DiskMoment, Staged, VolumeRecord};
use crate::names;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A mount that was found without a record.
#[derive(Debug)]
pub struct FoundMount {
    /// The orchestrator's directory.
    pub folder: PathBuf,
    /// The volume it was adopted for, or why it was not.
    pub outcome: Result<VolumeId>,
}

/// Records every mount at a stage directory whose disk proves its volume.
pub fn adopt_found(cx: &Context<'_>) -> Result<Vec<FoundMount>> {
    let table = cx.host.mounts.table()?;
    let strays = strays(cx, &table)?;
    let found = strays.into_iter().filter_map(|(name, mount)| {
        let look = cx.host.mounts.standing_at(&mount.target);
        let seen = look.and_then(|look| look.top().map(|top| top.map(|top| top.id)));
        let outcome = match seen {
            Ok(Some(id)) if id == mount.id => adopt(cx, &name, mount, &table),
            // A twin of it is visible there, or it is gone.
            Ok(_) => return None,
            Err(error) => Err(error),
        };
        Some(FoundMount { folder: mount.target.clone(), outcome })
    });
    Ok(found.collect())
}

/// Before a heal, records mounts of this volume whose disk is attached and proves it. The caller holds the volume's
/// lock. Obstacles are logged and fail no call.
pub(crate) fn adopt_on_the_way(cx: &Context<'_>, id: &VolumeId) {
    if let Err(error) = adopt_locked(cx, id) {
        tracing::warn!(volume = %id, %error, "not adopted");
    }
}

fn adopt_locked(cx: &Context<'_>, id: &VolumeId) -> Result<()> {
    let table = cx.host.mounts.table()?;
    let strays = strays(cx, &table)?;
    if strays.is_empty() {
        return Ok(());
    }
    let Some(disk) = find_disk::find_disk(cx, id)? else { return Ok(()) };
    for (name, mount) in strays.into_iter().filter(|(_, mount)| mount.disk == disk.number) {
        let look = cx.host.mounts.standing_at(&mount.target)?;
        let is_seen = look.top()?.is_some_and(|top| top.id == mount.id);
        let (of, disk) = volume_behind(cx, &name, mount)?;
        if is_seen && of == *id {
            record(cx, &name, mount, &table, (id, &disk))?;
        }
    }
    Ok(())
}

/// Mounts at stage directories without a record.
fn strays<'t>(cx: &Context<'_>, table: &'t MountTable) -> Result<Vec<(VolumeName, &'t Mount)>> {
    let boot = cx.host.environment.boot_id();
    let places =
        table.mounts().iter().filter_map(|mount| match cx.faces.place_of(&mount.target)? {
            (FolderKind::Stage, _) if is_anothers(cx.faces, cx.host.kubelets, mount) => None,
            (FolderKind::Stage, name) => Some((name, mount)),
            (FolderKind::Consumer(_) | FolderKind::Part(_), _) => None,
        });
    // Of stacked mounts, the lowest.
    let is_below = |mount: &Mount| table.at(&mount.target).any(|m| m.parent == mount.id);
    let mut strays: Vec<_> = places.filter(|(_, mount)| !is_below(mount)).collect();
    if strays.is_empty() {
        return Ok(strays);
    }
    let records = cx.store.records.list()?;
    strays.retain(|(_, mount)| !records.iter().any(|record| tells_of(record, mount, &boot)));
    Ok(strays)
}

fn adopt(
    cx: &Context<'_>,
    name: &VolumeName,
    mount: &Mount,
    table: &MountTable,
) -> Result<VolumeId> {
    if cx.host.devices.is_gone(mount.disk)? {
        return Err(Error::refused(format!(
            "its disk {} is gone, and whose it was is not recorded",
            mount.disk
        ))
        .hint(advise(
            "when the volume is attached again and no other machine mounted it meanwhile: {}",
            [Remedy::Adopt.of(name)],
        )));
    }
    let (id, disk) = volume_behind(cx, name, mount)?;
    let _lock = locking::lock(cx, &id)?;
    record(cx, name, mount, table, (&id, &disk))?;
    Ok(id)
}

/// Records the mount for the volume, whose lock is held.
fn record(
    cx: &Context<'_>,
    name: &VolumeName,
    mount: &Mount,
    table: &MountTable,
    (id, disk): (&VolumeId, &Device),
) -> Result<()> {
    find_disk::prove(cx, id, disk)?;
    // Adopt the pods first: a recorded mount is not found again, and the call may be killed. Tell the cloud last, since
    // it may be slow.
    let pods = consumers_on(table, mount.number, name, cx.faces);
    cx.store.records.update(id, |record| {
        if !name.is(id) {
            record.name = Some(name.clone());
        }
        for (uid, folder) in pods {
            record.mounts.is_published(&uid, &folder, memory::face_of(cx, &folder), None);
        }
    })?;
    memory::remember_found(cx, id, disk, mount);
    remote_mark::mark_mounted(cx, id);
    alias::record_found_name(cx, id, name);
    let (folder, source) = (mount.target.display(), &mount.source);
    tracing::info!(volume = %id, %name, %folder, source, disk = %disk.kernel_name, "adopted: a mount that was not in the records");
    Ok(())
}

/// The volume whose disk is mounted there, found by the volume's identity: the directory's name only says which volume
/// was wanted, and the predecessor may have mounted another disk.
fn volume_behind(cx: &Context<'_>, name: &VolumeName, mount: &Mount) -> Result<(VolumeId, Device)> {
    let wanted = cx.store.records.named(name);
    let mut ids: BTreeSet<VolumeId> = wanted.iter().cloned().collect();
    ids.extend(name.as_volume_id());
    // Consider both: a disk that proves two volumes is refused.
    ids.extend(label::owner_of(mount));
    ids.extend(disk_owner::volume_on(cx, mount.disk)?);
    let mut proven = with_disk(cx, ids, mount.disk)?;
    if proven.is_empty() {
        // A truncated serial identifies a volume only among those attached here.
        let server = attachment_view::existing_server(cx, cx.this_node)?;
        let attached = cx.cloud.attached_to(&server, cx.deadline)?;
        let ids = attached.into_iter().map(|volume| volume.id).collect();
        proven = with_disk(cx, ids, mount.disk)?;
    }
    let number = mount.disk;
    let Some((id, disk)) = proven.pop() else {
        return Err(Error::refused(format!("disk {number} shows no volume of this machine")).hint(
            advise(
                "is it attached by the cloud's word? {} says what is known",
                [Remedy::Explain.into()],
            ),
        ));
    };
    if let Some((other, _)) = proven.pop() {
        return Err(Error::refused(format!("disk {number} shows both {id} and {other}")));
    }
    let named = match wanted {
        Some(wanted) => Some(wanted),
        None if name.is(&id) => Some(id.clone()),
        None => names::volume_named(cx, name, None)?,
    };
    match named {
        Some(other) if other != id => Err(Error::refused(format!(
            "the folder is volume {other}'s, and the disk {} volume {id}'s",
            disk.kernel_name
        ))
        .hint("the pod works on another volume's data: stop it, and look at both")),
        _ => Ok((id, disk)),
    }
}

/// The volumes whose disk has this number.
fn with_disk(
    cx: &Context<'_>,
    ids: BTreeSet<VolumeId>,
    number: DeviceNumber,
) -> Result<Vec<(VolumeId, Device)>> {
    let mut found = Vec::new();
    for id in ids {
        if let Some(disk) = find_disk::find_disk(cx, &id)?.filter(|disk| disk.number == number) {
            found.push((id, disk));
        }
    }
    Ok(found)
}

/// Adopts stale mounts whose file system has the id of the one on the volume's disk, on the word of a person who knows
/// that no other node mounted it meanwhile. Returns their device numbers. Records nothing if only the plan is
/// requested.
pub fn adopt_dead(cx: &Context<'_>, id: &VolumeId, mode: HealMode) -> Result<Vec<DeviceNumber>> {
    let _lock = locking::lock(cx, id)?;
    let disk = find_disk::disk(cx, id)?;
    let Contents::FileSystem(found) = cx.host.file_systems.look(&disk, cx.deadline)? else {
        return Err(Error::refused(format!("{} holds no file system", disk.kernel_name)));
    };
    let Some(wanted) = id_by_statfs(found.kind, &found.uuid) else {
        return Err(Error::refused(format!(
            "a dead {} does not tell its id, so it cannot be proven whose it was",
            found.kind
        ))
        .hint("restart the pods that use the volume"));
    };
    let numbers = disk_numbers::numbers_with(cx, wanted)?;
    let (dead, alive): (Vec<_>, Vec<_>) = {
        let mut others = numbers;
        others.retain(|number| *number != disk.number);
        let gone: Vec<_> =
            others.iter().map(|number| cx.host.devices.is_gone(*number)).collect::<Result<_>>()?;
        let (dead, alive): (Vec<_>, Vec<_>) = others.into_iter().zip(gone).partition(|p| p.1);
        (dead.into_iter().map(|p| p.0).collect(), alive)
    };
    if let Some((twin, _)) = alive.first() {
        return Err(Error::refused(format!(
            "a file system of the same id is mounted from {twin}: which of the two died cannot be told"
        ))
        .hint("one is a copy of the other; restart the pods that use the volume"));
    }
    if let Some(twin) = twin_of(id, &found.uuid, cx.store.records.list()?) {
        return Err(Error::refused(format!(
            "volume {} was mounted here with a file system of the same id",
            twin.volume
        ))
        .hint("one is a copy of the other; restart the pods that use the volume"));
    }
    if mode != HealMode::Report {
        remember_dead(cx, id, &disk, &found.uuid, found.kind, &dead)?;
    }
    Ok(dead)
}

/// The heal needs to know how the volume was mounted, if the record does not say.
fn remember_dead(
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &Device,
    uuid: &str,
    kind: FsType,
    dead: &[DeviceNumber],
) -> Result<()> {
    if dead.is_empty() {
        return Ok(());
    }
    tracing::warn!(volume = %id, ?dead, uuid, "adopted by a person's word: mounts of dead disks");
    let table = cx.host.mounts.table()?;
    let own = dead_stage(&table, dead, cx.faces);
    let folder = own.map(|mount| mount.target.clone()).unwrap_or_default();
    let read_only = own.is_some_and(Mount::is_read_only);
    let boot = cx.host.environment.boot_id();
    let moments = dead.iter().map(|number| DiskMoment {
        number: *number,
        sequence: None,
        size: disk.size,
        boot: boot.clone(),
    });
    let moments: Vec<_> = moments.collect();
    cx.store.records.update(id, |record| {
        note_dead(record, moments, &boot, |last| {
            let was = Staged::new(&folder, last, kind.name(), uuid);
            Staged { untouched: read_only, ..was }
        });
    })
}

/// Whether the record already describes this mount.
fn tells_of(record: &VolumeRecord, mount: &Mount, boot: &str) -> bool {
    record.mounts.staged.as_ref().is_some_and(|staged| {
        let disk = &staged.disk;
        staged.folder == mount.target && disk.number == mount.disk && disk.boot == boot
    })
}

/// The consumers' directories with a file system under this name.
fn consumers_on(
    table: &MountTable,
    number: DeviceNumber,
    name: &VolumeName,
    faces: Faces,
) -> Vec<(ConsumerId, PathBuf)> {
    let folders = table.of(number).filter_map(|one| match faces.place_of(&one.target)? {
        (FolderKind::Consumer(uid), of) if of == *name => Some((uid, one.target.clone())),
        _ => None,
    });
    folders.collect()
}

/// Another mounted volume whose file system has the same id.
fn twin_of(id: &VolumeId, uuid: &str, records: Vec<VolumeRecord>) -> Option<VolumeRecord> {
    let is_same = |record: &VolumeRecord| {
        record.mounts.staged.as_ref().is_some_and(|staged| staged.uuid == uuid)
    };
    records.into_iter().find(|record| record.volume != *id && is_same(record))
}

/// The stale mount at one of the orchestrator's stage directories.
fn dead_stage<'t>(table: &'t MountTable, dead: &[DeviceNumber], faces: Faces) -> Option<&'t Mount> {
    let is_stage =
        |mount: &Mount| matches!(faces.place_of(&mount.target), Some((FolderKind::Stage, _)));
    table.mounts().iter().find(|mount| dead.contains(&mount.number) && is_stage(mount))
}

/// Adds former disks to the record. Records the last one's staging only if there is none of this boot.
fn note_dead(
    record: &mut VolumeRecord,
    dead: Vec<DiskMoment>,
    boot: &str,
    as_staged: impl FnOnce(&DiskMoment) -> Staged,
) {
    let is_current = record.mounts.staged.as_ref().is_some_and(|staged| staged.disk.boot == boot);
    if let Some(last) = dead.last().filter(|_| !is_current) {
        record.is_staged(as_staged(last));
    }
    for moment in dead {
        if !record.disk.former_numbers(boot).any(|number| number == moment.number) {
            record.disk.former.push(moment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::face::OF_TESTS;
    use std::path::Path;

    const BOOT: &str = "boot";
    const STAGE: &str = "/k/plugins/stages/v";

    fn record(disk: Option<DiskMoment>) -> VolumeRecord {
        let mut record = VolumeRecord::new(VolumeId::parse("v-1").unwrap());
        if let Some(disk) = disk {
            record.is_staged(Staged::new(Path::new(STAGE), &disk, "ext4", "uuid"));
        }
        record
    }

    #[test]
    fn a_record_tells_of_its_mount_and_of_no_other() {
        let tells = |folder: &str, number: &str, disk: Option<DiskMoment>| {
            tells_of(&record(disk), &Mount::of_a_test(number, folder, ""), BOOT)
        };
        assert!(tells(STAGE, "7:1", Some(DiskMoment::of_a_test(1, BOOT))));
        assert!(!tells("/k/plugins/stages/w", "7:1", Some(DiskMoment::of_a_test(1, BOOT))));
        assert!(!tells(STAGE, "7:2", Some(DiskMoment::of_a_test(1, BOOT))));
        assert!(!tells(STAGE, "7:1", Some(DiskMoment::of_a_test(1, "another"))));
        assert!(!tells(STAGE, "7:1", None));
    }

    #[test]
    fn a_mount_is_of_the_consumers_that_have_its_file_system_under_its_name() {
        let table = MountTable::parse(
            b"1 1 7:1 / /k/plugins/stages/v rw - ext4 s rw\n\
              2 1 7:1 / /k/pods/one/volumes/ours~disk/v rw - ext4 s rw\n\
              3 1 7:1 / /k/pods/two/volumes/ours~disk/another rw - ext4 s rw\n\
              4 1 7:2 / /k/pods/three/volumes/ours~disk/v rw - ext4 s rw\n",
        )
        .unwrap();
        let number = DeviceNumber { major: 7, minor: 1 };
        let name = VolumeName::parse("v").unwrap();
        let found = consumers_on(&table, number, &name, OF_TESTS);
        let folder = PathBuf::from("/k/pods/one/volumes/ours~disk/v");
        assert_eq!(found, [(ConsumerId::parse("one").unwrap(), folder)]);
    }

    #[test]
    fn a_twin_is_another_volume_that_is_mounted_with_the_same_file_system() {
        let named = |id: &str, disk: Option<DiskMoment>| VolumeRecord {
            volume: VolumeId::parse(id).unwrap(),
            ..record(disk)
        };
        let own = VolumeId::parse("v-1").unwrap();
        let twin = |uuid, others: Vec<VolumeRecord>| {
            twin_of(&own, uuid, others).map(|twin| twin.volume.to_string())
        };
        let mounted = || Some(DiskMoment::of_a_test(1, BOOT));
        let all = || vec![named("v-1", mounted()), named("v-2", None), named("v-3", mounted())];
        assert_eq!(twin("uuid", all()), Some("v-3".to_owned()));
        assert_eq!(twin("another", all()), None);
        assert_eq!(twin("uuid", vec![named("v-1", mounted())]), None);
    }

    #[test]
    fn what_was_staged_of_a_dead_disk_is_its_mount_at_a_global_folder() {
        let table = MountTable::parse(
            b"1 1 0:1 / / rw - overlay o rw\n\
              2 1 7:9 / /k/plugins/stages/another rw - ext4 s rw\n\
              3 1 7:1 / /k/pods/uid/volumes/ours~disk/v rw - ext4 s rw\n\
              4 1 7:1 / /k/plugins/stages/v rw - ext4 s rw\n",
        );
        let table = table.unwrap();
        let number = |minor| DeviceNumber { major: 7, minor };
        let found =
            |dead: &[DeviceNumber]| dead_stage(&table, dead, OF_TESTS).map(|mount| mount.id);
        assert_eq!(found(&[number(1)]), Some(4));
        assert_eq!(found(&[number(1), number(9)]), Some(2));
        assert_eq!(found(&[number(2)]), None);
    }

    #[test]
    fn dead_disks_become_former_ones_once_and_what_was_staged_stays() {
        let as_staged = |last: &DiskMoment| Staged::new(Path::new(STAGE), last, "ext4", "uuid");
        let noted = |mut record: VolumeRecord, dead: &[u32]| {
            let dead = dead.iter().map(|minor| DiskMoment::of_a_test(*minor, BOOT)).collect();
            note_dead(&mut record, dead, BOOT, as_staged);
            let mut former: Vec<_> =
                record.disk.former_numbers(BOOT).map(|number| number.minor).collect();
            former.sort_unstable();
            (
                record.mounts.staged.map(|staged| (staged.disk.number.minor, staged.disk.boot)),
                former,
            )
        };
        let staged_of = |minor: u32| Some((minor, BOOT.to_owned()));
        assert_eq!(noted(record(None), &[2, 3]), (staged_of(3), vec![2, 3]));
        assert_eq!(noted(record(Some(DiskMoment::of_a_test(1, "another"))), &[2]).0, staged_of(2));
        let (current, former) = noted(record(Some(DiskMoment::of_a_test(1, BOOT))), &[2, 2]);
        assert_eq!((current, former), (staged_of(1), vec![1, 2]));
        assert_eq!(noted(record(None), &[]), (None, Vec::new()));
    }
}
