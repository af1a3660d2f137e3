//! What a call has observed of its volume on this node since it took the volume's lock. The mount table, the disk and the
//! numbers of the volume's former disks are read on first use, and again only after `renew`, which names the rule that
//! requires it. A failed read is not cached.

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

pub(crate) struct Snapshot<'a> {
    pub(crate) cx: &'a Context<'a>,
    /// `None` for a mount that has lost its disk and has no record.
    pub(crate) id: Option<&'a VolumeId>,
    table: OnceCell<MountTable>,
    disk: OnceCell<Option<Device>>,
    dead: OnceCell<Vec<DeviceNumber>>,
}

/// A rule that makes earlier observations stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Other mount namespaces were read: a mount that appeared meanwhile is no claim of the containers that see it.
    NamespacesRead,
    /// The guard consented, which takes time and may have unmounted peers of this node's mounts.
    Consented,
    /// A mount was unmounted: its peers may be gone too, and the mount below it is visible now.
    Unmounted,
    /// A heal replaced stale mounts.
    Healed,
    /// Something was mounted: only a new read shows where, and from which disk.
    Mounted,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn of(cx: &'a Context<'_>, id: Option<&'a VolumeId>) -> Self {
        let (table, disk, dead) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { cx, id, table, disk, dead }
    }

    /// Drops what became stale. Reading namespaces does not change the volume's disks, and a heal has just proven the
    /// current one.
    pub(crate) fn renew(&mut self, why: Renewal) {
        self.table.take();
        if why != Renewal::NamespacesRead {
            self.dead.take();
        }
        if !matches!(why, Renewal::NamespacesRead | Renewal::Healed) {
            self.disk.take();
        }
    }

    /// Caches the disk that the caller waited for.
    pub(crate) fn set_disk(&mut self, disk: Device) {
        self.disk = OnceCell::from(Some(disk));
    }

    /// What is mounted at a directory. Keeps the table that was read if the cached one did not match the directory.
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

    /// This node's mount table.
    pub(crate) fn table(&self) -> Result<&MountTable> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = self.cx.host.mounts.table()?;
        Ok(self.table.get_or_init(|| table))
    }

    /// The volume's disk, if it is attached. An error if that is uncertain, as with two disks of its serial.
    pub(crate) fn disk(&self) -> Result<Option<&Device>> {
        if let Some(disk) = self.disk.get() {
            return Ok(disk.as_ref());
        }
        let disk = self.id.map(|id| find_disk::find_disk(self.cx, id)).transpose()?.flatten();
        Ok(self.disk.get_or_init(|| disk).as_ref())
    }

    /// The volume's disk; an error if it is missing.
    pub(crate) fn require_disk(&self) -> Result<&Device> {
        match (self.disk()?, self.id) {
            (Some(disk), _) => Ok(disk),
            (None, Some(id)) => Err(find_disk::missing(self.cx, id)),
            (None, None) => Err(Error::new(Kind::Bug, "no volume, and so no disk")),
        }
    }

    /// The volume's record.
    pub(crate) fn record(&self) -> Option<VolumeRecord> {
        self.id.map(|id| self.cx.store.records.load(id))
    }

    /// The device numbers of the volume's file system: those of the given mounts, of its disk, and of its former disks
    /// as far as they are known. A number that now belongs to another disk is not among them.
    pub(crate) fn numbers(&self, mounted: &[DeviceNumber]) -> Vec<DeviceNumber> {
        let mut numbers: BTreeSet<_> = mounted.iter().copied().collect();
        numbers.extend(self.dead_numbers());
        numbers.extend(self.disk().ok().flatten().map(|disk| disk.number));
        // While the shield's map waits for its disk no serial is visible, but the mounts are still the volume's.
        numbers.extend(self.id.and_then(|id| shield::number_of(self.cx, id)));
        numbers.into_iter().collect()
    }

    /// The numbers of lost disks from which the volume is still mounted, as far as they are known.
    pub(crate) fn dead_numbers(&self) -> Vec<DeviceNumber> {
        let Some(id) = self.id else { return Vec::new() };
        if let Some(dead) = self.dead.get() {
            return dead.clone();
        }
        match self.table().and_then(|table| disk_numbers::dead_numbers_of(self.cx, id, table)) {
            Ok(dead) => self.dead.get_or_init(|| dead).clone(),
            Err(error) => {
                tracing::debug!(%error, "cannot determine the numbers of former disks");
                Vec::new()
            }
        }
    }

    /// The volume's mounts on this node.
    pub(crate) fn mounts(&self) -> Result<Vec<&Mount>> {
        let (table, numbers) = (self.table()?, self.numbers(&[]));
        Ok(table.mounts().iter().filter(|mount| numbers.contains(&mount.disk)).collect())
    }
}
