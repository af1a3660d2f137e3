//! Take a volume off a folder: the consumer's, or the one where it is staged.

use super::{Driver, Outcome};
use crate::model::error::Result;
use crate::model::ids::{ConsumerId, VolumeId, VolumeName};
use crate::model::target::Target;
use crate::seam;
use std::path::Path;

impl Driver<'_> {
    /// Unmounts the consumer's folder.
    pub fn unpublish(
        &self,
        name: &VolumeName,
        consumer: &ConsumerId,
        target: &Target,
    ) -> Result<Outcome> {
        self.take_off(name, target, |driver, id| {
            driver.records.update(id, |record| {
                record.published.remove(consumer);
            })
        })
    }

    /// Unmounts the stage folder.
    pub fn unstage(&self, name: &VolumeName, target: &Target) -> Result<Outcome> {
        self.take_off(name, target, |driver, id| {
            driver.records.update(id, |record| record.staged = None)
        })
    }

    /// Nothing mounted, or no such folder: it is so already.
    fn take_off(
        &self,
        name: &VolumeName,
        target: &Target,
        record: impl FnOnce(&Self, &VolumeId) -> Result<()>,
    ) -> Result<Outcome> {
        let Some(folder) = self.existing_folder(target)? else { return Ok(Outcome::Already) };
        let id = self.volume_mounted_at(name, &folder)?;
        let is_mounted = self.mounts.table()?.top_at(&folder).is_some();
        if id.is_none() && !is_mounted {
            return Ok(Outcome::Already);
        }
        // A mount whose disk is gone and that nobody remembers has no id left: then its name
        // serves as one, for it is still below this driver's folder.
        let key = id.clone().or_else(|| VolumeId::parse(name.as_str()).ok());
        let lock = |key: VolumeId| {
            // With nothing to take off a machine that cannot lock has nothing to fear.
            if is_mounted { self.lock(&key).map(Some) } else { self.lock_if_possible(&key) }
        };
        let _lock = key.map(lock).transpose()?;
        let outcome = self.unmount_all(&folder)?;
        // The record may name a mount that is gone since a reboot: it is put right either way.
        if let Some(id) = id.filter(|id| self.records.load(id).was_mounted)
            && let Err(error) = record(self, &id)
        {
            tracing::warn!(volume = %id, %error, "the unmount is not remembered");
        }
        Ok(outcome)
    }

    fn existing_folder(&self, target: &Target) -> Result<Option<std::path::PathBuf>> {
        if !target.root.exists() {
            return Ok(None);
        }
        self.mounts.real_path(target).map(Some)
    }

    /// Takes off every mount that is stacked at the folder, top first.
    fn unmount_all(&self, folder: &Path) -> Result<Outcome> {
        let mut outcome = Outcome::Already;
        while self.mounts.table()?.top_at(folder).is_some() {
            self.mounts.unmount(folder).map_err(|error| {
                error.hint("a process of this machine uses files below that folder")
            })?;
            seam::step("unmount.one");
            outcome = Outcome::Done;
        }
        Ok(outcome)
    }
}
