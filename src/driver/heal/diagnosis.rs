//! Find the mounts that are from a lost disk of the volume.

use crate::heal::time_shares::TimeShares;
use crate::lookup::disk_numbers;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::{Error, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{Answer, NamespaceUse};
use crate::model::mount::mountinfo::Mount;
use crate::model::mount::staleness::{Here, MountVerdict};
use crate::model::text::several;
use crate::ownership;
use crate::snapshot::Snapshot;

/// Why a volume is examined.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HealOccasion {
    /// A call that heals before its own work, and has found the disk.
    Call,
    /// The timer, or a disk that appeared.
    Sweep,
    /// A person's command.
    Person,
}

/// The input of a heal.
pub(crate) struct StaleMounts {
    /// The volume's disk, if it is attached.
    pub(crate) disk: Option<Device>,
    /// The numbers of its lost disks.
    pub(crate) dead: Vec<DeviceNumber>,
    /// The stale mounts in this node's own mount namespace.
    pub(crate) own: Vec<Mount>,
    pub(crate) elsewhere: Vec<NamespaceUse>,
    /// Why there may be more stale mounts.
    pub(crate) untold: Option<String>,
    pub(crate) is_all_known: bool,
}

/// Finds the stale mounts, or `None`. An error if the volume is mounted from a disk that is neither its own nor proven
/// to be gone; then nothing is touched. If other namespaces are not visible, this node's own mounts are still returned.
/// For a person also searches for mounts without a record, if there is nothing else to heal.
pub(crate) fn examine(
    snapshot: &Snapshot<'_>,
    id: &VolumeId,
    occasion: HealOccasion,
    shares: TimeShares,
) -> Result<Option<StaleMounts>> {
    let found = examine_with(snapshot, id, &[], shares)?;
    if found.is_some() || !matches!(occasion, HealOccasion::Person) {
        return Ok(found);
    }
    match disk_numbers::labelled_elsewhere(snapshot.cx, id)?.as_slice() {
        [] => Ok(None),
        labelled => examine_with(snapshot, id, labelled, shares),
    }
}

fn examine_with(
    snapshot: &Snapshot<'_>,
    id: &VolumeId,
    labelled: &[DeviceNumber],
    shares: TimeShares,
) -> Result<Option<StaleMounts>> {
    let (cx, disk, table) = (snapshot.cx, snapshot.disk()?, snapshot.table()?);
    let here = disk.map_or(Here::Nothing, |disk| Here::One(disk.number));
    let is_unwell = |one: &MountVerdict| *one != MountVerdict::Healthy;
    let all = disk_numbers::verdicts(cx, id, (table, labelled), here, is_unwell)?;
    if all.is_empty() {
        return Ok(None);
    }
    let numbers: Vec<_> = all.iter().map(|(number, _)| *number).collect();
    let census = shares.part(0.25);
    let consumers = ownership::consumers_of(cx, id);
    let (others, untold) = match cx.host.census.namespaces_in_time(&numbers, &consumers, census) {
        Answer::Told(uses) => {
            let left = uses.later.first().map(|first| {
                let places = several(uses.later.len(), "place", "places");
                format!("{places} could not be looked at ({first}): the next heal goes on")
            });
            (uses.namespaces, left)
        }
        Answer::CannotTell(why) => (
            Vec::new(),
            Some(format!("who else stands on the dead disk cannot be told from here: {why}")),
        ),
    };
    let record = cx.store.records.load(id);
    let mut dead = Vec::new();
    for (number, verdict) in all {
        if !disk_numbers::are_its(cx, &record, number, table, &others) {
            continue;
        }
        if !verdict.is_dead() {
            return Err(not_replaced(id, number, &verdict, disk));
        }
        dead.push(number);
    }
    let is_dead = |mount: &Mount| dead.contains(&mount.number);
    let own: Vec<_> = table.mounts().iter().filter(|mount| is_dead(mount)).cloned().collect();
    let mut elsewhere = others;
    for one in &mut elsewhere {
        one.mounts.retain(is_dead);
    }
    elsewhere.retain(|one| !one.mounts.is_empty());
    if own.is_empty() && elsewhere.is_empty() {
        return match untold {
            Some(why) => Err(Error::refused(why)),
            None => Ok(None),
        };
    }
    let is_all_known = untold.is_none();
    let disk = disk.cloned();
    Ok(Some(StaleMounts { disk, dead, own, elsewhere, untold, is_all_known }))
}

fn not_replaced(
    id: &VolumeId,
    number: DeviceNumber,
    verdict: &MountVerdict,
    disk: Option<&Device>,
) -> Error {
    let now = disk.map_or_else(
        || "none of this machine's disks is it".to_owned(),
        |disk| format!("its disk is {} ({})", disk.kernel_name, disk.number),
    );
    let error =
        Error::refused(format!("volume {id} is mounted from {number}, and {verdict}; {now}"));
    match verdict.hint(number) {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
