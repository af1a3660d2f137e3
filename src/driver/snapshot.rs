//! What a call knows of its volume on this machine, from when it has the volume's lock. The mount table, the disk and the
//! numbers of disks before it are read when they are first asked for, and again only after `renew`, which names the rule
//! that asks for that. What could not be read is asked for again.

use crate::context::Context;
use crate::lookup::{disk_numbers, find_disk};
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::mount_place::Look;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::record::VolumeRecord;
use crate::shield;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::Path;

/// The facts, as far as they were asked for.
pub(crate) struct Snapshot<'a> {
    pub(crate) cx: &'a Context<'a>,
    /// None for a mount whose disk is gone and of which there is no record.
    pub(crate) id: Option<&'a VolumeId>,
    table: OnceCell<MountTable>,
    disk: OnceCell<Option<Device>>,
    dead: OnceCell<Vec<DeviceNumber>>,
}

/// A rule by which what was read before does not count any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Other namespaces were read: a folder that was mounted meanwhile is no claim of those who see it.
    NamespacesRead,
    /// The guard consented, which takes time, and may have unmounted copies that share with this machine's mounts.
    Consented,
    /// A mount was unmounted: others may have gone with it, and what it was stacked on shows.
    Unmounted,
    /// Mounts were replaced by mounts of the disk that is here.
    Healed,
    /// Something was mounted: where it is, and of which disk, only a look after that tells.
    Mounted,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn of(cx: &'a Context<'_>, id: Option<&'a VolumeId>) -> Self {
        let (table, disk, dead) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { cx, id, table, disk, dead }
    }

    /// Forgets what was read. Which disks are the volume's is no question of other namespaces, and a heal has just
    /// proven the one that is here.
    pub(crate) fn renew(&mut self, why: Renewal) {
        self.table.take();
        if why != Renewal::NamespacesRead {
            self.dead.take();
        }
        if !matches!(why, Renewal::NamespacesRead | Renewal::Healed) {
            self.disk.take();
        }
    }

    /// The disk was waited for, and came.
    pub(crate) fn has_found(&mut self, disk: Device) {
        self.disk = OnceCell::from(Some(disk));
    }

    /// What stands at a folder. A table that did not agree with the folder was read again.
    pub(crate) fn look(&mut self, folder: &Path) -> Result<Look> {
        let table = self.table()?.clone();
        let look = self.cx.host.mounts.standing_in(folder, table)?;
        self.table = OnceCell::from(look.table.clone());
        Ok(look)
    }

    pub(crate) fn look_again(&mut self, folder: &Path, why: Renewal) -> Result<Look> {
        self.renew(why);
        self.look(folder)
    }

    /// This machine's mounts.
    pub(crate) fn table(&self) -> Result<&MountTable> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = self.cx.host.mounts.table()?;
        Ok(self.table.get_or_init(|| table))
    }

    /// The volume's disk, if it is here. An error where that cannot be told, as of two disks with its serial.
    pub(crate) fn disk(&self) -> Result<Option<&Device>> {
        if let Some(disk) = self.disk.get() {
            return Ok(disk.as_ref());
        }
        let disk = self.id.map(|id| find_disk::find_disk(self.cx, id)).transpose()?.flatten();
        Ok(self.disk.get_or_init(|| disk).as_ref())
    }

    /// The volume's disk; missing is an error here.
    pub(crate) fn its_disk(&self) -> Result<&Device> {
        match (self.disk()?, self.id) {
            (Some(disk), _) => Ok(disk),
            (None, Some(id)) => Err(find_disk::missing(self.cx, id)),
            (None, None) => Err(Error::new(Kind::Bug, "no volume, and so no disk")),
        }
    }

    /// What is remembered of the volume.
    pub(crate) fn record(&self) -> Option<VolumeRecord> {
        self.id.map(|id| self.cx.store.records.load(id))
    }

    /// The numbers under which the volume's file system lives: these of its mounts, that of its disk, and those of the
    /// disks that it had before, as far as they are known. A number that went to another disk since is none of them.
    pub(crate) fn numbers(&self, mounted: &[DeviceNumber]) -> Vec<DeviceNumber> {
        let mut numbers: BTreeSet<_> = mounted.iter().copied().collect();
        numbers.extend(self.dead_numbers());
        numbers.extend(self.disk().ok().flatten().map(|disk| disk.number));
        // While its map waits the disk shows no serial, and the mounts are the volume's all the same.
        numbers.extend(self.id.and_then(|id| shield::number_of(self.cx, id)));
        numbers.into_iter().collect()
    }

    /// The numbers of disks that are gone and from which the volume is mounted, as far as they are known.
    pub(crate) fn dead_numbers(&self) -> Vec<DeviceNumber> {
        let Some(id) = self.id else { return Vec::new() };
        if let Some(dead) = self.dead.get() {
            return dead.clone();
        }
        match self.table().and_then(|table| disk_numbers::dead_numbers_of(self.cx, id, table)) {
            Ok(dead) => self.dead.get_or_init(|| dead).clone(),
            Err(error) => {
                tracing::debug!(%error, "the numbers before are not known");
                Vec::new()
            }
        }
    }

    /// The volume's mounts on this machine.
    pub(crate) fn mounts(&self) -> Result<Vec<&Mount>> {
        let (table, numbers) = (self.table()?, self.numbers(&[]));
        Ok(table.mounts().iter().filter(|mount| numbers.contains(&mount.disk)).collect())
    }
}
