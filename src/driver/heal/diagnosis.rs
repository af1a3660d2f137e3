//! Which mounts of a volume stand on a dead disk.

use super::replacement_plan::Pace;
use crate::driver::Driver;
use crate::host::device_nodes;
use crate::host::machine::boot_id;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::{Error, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{Answer, NamespaceUse};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::staleness::{Here, Presence, Verdict, judge};
use crate::model::record::VolumeRecord;
use std::collections::BTreeSet;

/// What a heal has to do with.
pub(in crate::driver) struct Patient {
    /// The volume's disk, if it is here.
    pub(in crate::driver) disk: Option<Device>,
    /// The numbers of its dead ones.
    pub(in crate::driver) dead: Vec<DeviceNumber>,
    /// The mounts of these in our own namespace.
    pub(in crate::driver) own: Vec<Mount>,
    /// … and in others.
    pub(in crate::driver) elsewhere: Vec<NamespaceUse>,
    /// Why there may be others still.
    pub(in crate::driver) untold: Option<String>,
    pub(in crate::driver) is_all_known: bool,
}

impl Driver<'_> {
    /// Who stands on a dead disk of the volume; nothing if nobody does. An error if a mount of the
    /// volume stands on a disk that is not its own, and not proven dead: then nothing is touched.
    /// Where others cannot be seen the machine's own mounts are told all the same.
    pub(in crate::driver) fn examine(
        &self,
        id: &VolumeId,
        disk: Option<&Device>,
        pace: Pace,
    ) -> Result<Option<Patient>> {
        let disk = match disk {
            Some(disk) => Some(disk.clone()),
            None => self.find_disk(id)?,
        };
        let table = self.mounts.table()?;
        let here = disk.as_ref().map_or(Here::Nothing, |disk| Here::One(disk.number));
        let all = self.verdicts(id, &table, here, |one| *one != Verdict::Healthy)?;
        if all.is_empty() {
            return Ok(None);
        }
        let numbers: Vec<_> = all.iter().map(|(number, _)| *number).collect();
        let census = pace.part(0.25);
        let consumers = self.consumers_of(id);
        let (others, untold) = match self.census.namespaces_in_time(&numbers, &consumers, census) {
            Answer::Told(uses) if census.over() => (
                uses.namespaces,
                Some("not everybody could be looked at in time: the next heal goes on".into()),
            ),
            Answer::Told(uses) => (uses.namespaces, None),
            Answer::CannotTell(why) => (
                Vec::new(),
                Some(format!("who else stands on the dead disk cannot be told from here: {why}")),
            ),
        };
        let record = self.records.load(id);
        let mut dead = Vec::new();
        for (number, verdict) in all {
            if !self.stand_for(id, number, &table, &others, &record) {
                continue;
            }
            if !verdict.is_dead() {
                return Err(not_replaced(id, number, &verdict, disk.as_ref()));
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
            return match untold.filter(|_| !numbers.is_empty()) {
                Some(why) => Err(Error::refused(why)),
                None => Ok(None),
            };
        }
        let is_all_known = untold.is_none();
        Ok(Some(Patient { disk, dead, own, elsewhere, untold, is_all_known }))
    }

    /// The numbers of dead disks on which mounts of this very volume stand.
    pub(in crate::driver) fn dead_numbers_of(
        &self,
        id: &VolumeId,
        table: &MountTable,
    ) -> Result<Vec<DeviceNumber>> {
        let mut dead = self.verdicts(id, table, Here::Nothing, Verdict::is_dead)?;
        let record = self.records.load(id);
        let unseen: Vec<_> = dead
            .iter()
            .map(|(number, _)| *number)
            .filter(|number| table.of(*number).next().is_none())
            .collect();
        let others =
            if unseen.is_empty() { Vec::new() } else { self.in_other_namespaces(&unseen)? };
        dead.retain(|(number, _)| self.stand_for(id, *number, table, &others, &record));
        Ok(dead.into_iter().map(|(number, _)| number).collect())
    }

    /// What became of each number from which this volume may have been mounted, as far as it matters.
    /// A number that was the volume's may be another disk's by now: `stand_for` tells.
    fn verdicts(
        &self,
        id: &VolumeId,
        table: &MountTable,
        here: Here,
        matters: impl Fn(&Verdict) -> bool,
    ) -> Result<Vec<(DeviceNumber, Verdict)>> {
        let record = self.records.load(id);
        let ours: BTreeSet<_> = labelled(table, id).map(|mount| mount.disk).collect();
        let mut numbers: BTreeSet<_> = record.former_numbers(&boot_id()).collect();
        numbers.extend(&ours);
        let wanted = self.cloud.identity(id);
        let mut verdicts = Vec::new();
        for number in numbers {
            let presence = self.devices.presence(number, &wanted)?;
            let is_reused = matches!(presence, Presence::Other(_)) && !ours.contains(&number);
            let verdict = judge(number, &presence, here);
            if !is_reused && matters(&verdict) {
                verdicts.push((number, verdict));
            }
        }
        Ok(verdicts)
    }

    /// Whether any mount of the volume's disks of this boot lives on, here or in anybody's
    /// namespace; where that cannot be seen it may.
    pub(in crate::driver) fn is_left_behind(&self, id: &VolumeId) -> bool {
        let numbers: Vec<_> = self.records.load(id).former_numbers(&boot_id()).collect();
        let Ok(table) = self.mounts.table() else { return true };
        if labelled(&table, id).next().is_some() {
            return true;
        }
        if numbers.is_empty() {
            return false;
        }
        match self.census.namespaces_with(&numbers) {
            // A number that was given away again shows other volumes' labels.
            Answer::Told(uses) => {
                let mut mounts = uses.namespaces.iter().flat_map(|one| &one.mounts);
                mounts.any(|mount| device_nodes::owner_of(mount).as_ref() == Some(id))
            }
            Answer::CannotTell(_) => true,
        }
    }

    /// Whether the mounts of a number are this volume's: they must say so themselves, by the label
    /// that they were made with. While a mount stands its number is nobody else's, so one label
    /// tells for all mounts of a number.
    fn stand_for(
        &self,
        id: &VolumeId,
        number: DeviceNumber,
        table: &MountTable,
        others: &[NamespaceUse],
        record: &VolumeRecord,
    ) -> bool {
        let own: Vec<&Mount> = table.of(number).collect();
        let elsewhere = others.iter().flat_map(|one| &one.mounts);
        let elsewhere = elsewhere.filter(|mount| own.is_empty() && mount.number == number);
        let all = own.iter().copied().chain(elsewhere);
        let mut labelled = all.filter(|mount| device_nodes::is_labelled(mount)).peekable();
        if labelled.peek().is_some() {
            return labelled.any(|mount| device_nodes::owner_of(mount).as_ref() == Some(id));
        }
        // The predecessor's mounts have no label: then only what stands in the folder where this
        // machine staged the volume is its, or what has its file system's id.
        record.mounted_as().is_some_and(|staged| {
            own.iter().any(|mount| mount.target == staged.folder)
                || self.is_file_system(number, &staged.fs_type, &staged.uuid)
        })
    }

    fn in_other_namespaces(&self, numbers: &[DeviceNumber]) -> Result<Vec<NamespaceUse>> {
        match self.census.namespaces_with(numbers) {
            Answer::Told(uses) => Ok(uses.namespaces),
            Answer::CannotTell(why) => Err(Error::refused(format!(
                "who stands on the dead disk cannot be told from here: {why}"
            ))),
        }
    }
}

fn not_replaced(
    id: &VolumeId,
    number: DeviceNumber,
    verdict: &Verdict,
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

/// The mounts that say they are the volume's.
fn labelled<'t>(table: &'t MountTable, id: &VolumeId) -> impl Iterator<Item = &'t Mount> {
    table.mounts().iter().filter(move |mount| device_nodes::owner_of(mount).as_ref() == Some(id))
}
