//! The device numbers of a volume: that of its disk, and those of its lost disks.

use crate::context::Context;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::attribution::{Attribution, attribute};
use crate::model::mount::disk_users::{Answer, NamespaceUse};
use crate::model::mount::label;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::staleness::{Here, MountVerdict, Presence, judge};
use crate::model::record::VolumeRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub(crate) fn all_gone(cx: &Context<'_>, numbers: &[DeviceNumber]) -> &'static str {
    let gone = numbers.iter().all(|number| cx.host.devices.is_gone(*number).unwrap_or(false));
    if gone { " (on a disk that is gone)" } else { "" }
}

/// The numbers of lost disks with mounts of this very volume.
pub(crate) fn dead_numbers_of(
    cx: &Context<'_>,
    id: &VolumeId,
    table: &MountTable,
) -> Result<Vec<DeviceNumber>> {
    let mut dead = verdicts(cx, id, (table, &[]), Here::Nothing, MountVerdict::is_dead)?;
    let record = cx.store.records.load(id);
    let unseen: Vec<_> = dead
        .iter()
        .map(|(number, _)| *number)
        .filter(|number| table.of(*number).next().is_none())
        .collect();
    let others = if unseen.is_empty() { Vec::new() } else { in_other_namespaces(cx, &unseen)? };
    dead.retain(|(number, _)| are_its(cx, &record, *number, table, &others));
    Ok(dead.into_iter().map(|(number, _)| number).collect())
}

/// The state of each number from which this volume may have been mounted. A former number may belong to another disk
/// now; `are_its` decides. Considers labelled mounts in other namespaces only if the caller has searched them.
pub(crate) fn verdicts(
    cx: &Context<'_>,
    id: &VolumeId,
    (table, labelled_elsewhere): (&MountTable, &[DeviceNumber]),
    here: Here,
    matters: impl Fn(&MountVerdict) -> bool,
) -> Result<Vec<(DeviceNumber, MountVerdict)>> {
    let record = cx.store.records.load(id);
    let labelled = labelled(table, id).map(|mount| mount.disk);
    let ours: BTreeSet<_> = labelled.chain(labelled_elsewhere.iter().copied()).collect();
    let mut numbers: BTreeSet<_> =
        record.disk.former_numbers(&cx.host.environment.boot_id()).collect();
    numbers.extend(&ours);
    let wanted = cx.cloud.identity(id);
    let mut verdicts = Vec::new();
    for number in numbers {
        let presence = cx.host.devices.presence(number, &wanted)?;
        let is_reused = matches!(presence, Presence::Other(_)) && !ours.contains(&number);
        let verdict = judge(number, &presence, here);
        if !is_reused && matters(&verdict) {
            verdicts.push((number, verdict));
        }
    }
    Ok(verdicts)
}

/// Whether any mount of the volume's disks of this boot is left in any namespace; true if that is uncertain.
pub(crate) fn is_left_behind(cx: &Context<'_>, id: &VolumeId) -> bool {
    let record = cx.store.records.load(id);
    let numbers: Vec<_> = record.disk.former_numbers(&cx.host.environment.boot_id()).collect();
    let Ok(table) = cx.host.mounts.table() else { return true };
    if labelled(&table, id).next().is_some() {
        return true;
    }
    if numbers.is_empty() {
        return false;
    }
    match cx.host.census.namespaces_with(&numbers) {
        // A reused number shows other volumes' labels.
        Answer::Told(uses) => {
            let mut mounts = uses.namespaces.iter().flat_map(|one| &one.mounts);
            uses.hidden(|pod| record.mounts.knows(pod)).is_some()
                || mounts.any(|mount| label::owner_of(mount).as_ref() == Some(id))
        }
        Answer::CannotTell(_) => true,
    }
}

/// Whether the mounts of a number are proven to be the volume's.
pub(crate) fn are_its(
    cx: &Context<'_>,
    record: &VolumeRecord,
    number: DeviceNumber,
    table: &MountTable,
    others: &[NamespaceUse],
) -> bool {
    let found = attribution(cx, number, table, others, &[record]);
    found == Attribution::Proven(record.volume.clone())
}

/// Whose the mounts of a number are, among the volumes whose disks had it.
pub(crate) fn attribution(
    cx: &Context<'_>,
    number: DeviceNumber,
    table: &MountTable,
    others: &[NamespaceUse],
    candidates: &[&VolumeRecord],
) -> Attribution {
    let own: Vec<&Mount> = table.of(number).collect();
    let elsewhere = others.iter().flat_map(|one| &one.mounts);
    let elsewhere: Vec<_> = elsewhere.filter(|mount| mount.number == number).collect();
    attribute(&own, &elsewhere, candidates, || ext_ids(cx).ok()?.remove(&number))
}

/// The numbers of mounts in other namespaces with the volume's label. The record may be lost, and lists only some
/// former disks.
pub(crate) fn labelled_elsewhere(cx: &Context<'_>, id: &VolumeId) -> Result<Vec<DeviceNumber>> {
    let label = Path::new(label::FOLDER).join(id.as_str());
    match cx.host.census.namespaces_of(&[], &label) {
        Answer::Told(uses) => {
            let mounts = uses.namespaces.iter().flat_map(|one| &one.mounts);
            let ours = mounts.filter(|mount| label::owner_of(mount).as_ref() == Some(id));
            // btrfs shows an anonymous number there, and is not healed this way.
            Ok(ours.map(|mount| mount.number).filter(|number| number.major != 0).collect())
        }
        Answer::CannotTell(why) => Err(Error::refused(format!(
            "which mounts of the volume stand in other namespaces cannot be told from here: {why}"
        ))),
    }
}

fn in_other_namespaces(cx: &Context<'_>, numbers: &[DeviceNumber]) -> Result<Vec<NamespaceUse>> {
    match cx.host.census.namespaces_with(numbers) {
        Answer::Told(uses) => Ok(uses.namespaces),
        Answer::CannotTell(why) => Err(Error::refused(format!(
            "who stands on the dead disk cannot be told from here: {why}"
        ))),
    }
}

pub(crate) fn numbers_with(cx: &Context<'_>, statfs_id: u64) -> Result<Vec<DeviceNumber>> {
    let ids = ext_ids(cx)?.into_iter();
    Ok(ids.filter(|(_, id)| *id == statfs_id).map(|(number, _)| number).collect())
}

fn ext_ids(cx: &Context<'_>) -> Result<BTreeMap<DeviceNumber, u64>> {
    match cx.host.census.ext_file_system_ids() {
        Answer::Told(ids) => Ok(ids),
        Answer::CannotTell(why) => Err(Error::new(
            Kind::Refused,
            format!("which file systems are mounted cannot be told from here: {why}"),
        )),
    }
}

/// The mounts with the volume's label.
pub(crate) fn labelled<'t>(
    table: &'t MountTable,
    id: &VolumeId,
) -> impl Iterator<Item = &'t Mount> {
    table.mounts().iter().filter(move |mount| label::owner_of(mount).as_ref() == Some(id))
}

#[cfg(test)]
mod tests;
