//! Wait until this machine sees the volume's disk.

use super::{Driver, Volume};
use crate::host::locks::Locked;
use crate::model::device::Device;
use crate::model::error::{Error, Result};
use crate::model::mountinfo::Mount;
use crate::model::target::{StagePlace, Target};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Another call of the volume heals as well: it is waited for this long.
const LOCK_WAIT: Duration = Duration::from_secs(5);

impl Driver<'_> {
    /// Waits for the disk and answers its path. `hint` is what the orchestrator remembers; it is
    /// never followed.
    ///
    /// What is mounted at the volume's stage place must be this disk: the orchestrator skips the
    /// mount when the folder is a mount point, whatever is mounted there.
    pub fn wait_for_disk(
        &self,
        volume: &Volume,
        hint: &str,
        place: &StagePlace,
    ) -> Result<PathBuf> {
        let disk = self.wait_for(volume, self.deadline)?;
        self.remember_name_if_unlocked(volume);
        self.report_links(&volume.id);
        self.report_hint(&volume.id, hint, &disk);
        let link = self.cloud.link(&volume.id);
        let soon = self.deadline.at_most(LOCK_WAIT);
        let unhealed = match self.locks.take(&volume.id, self.operation, soon) {
            Ok(Locked::Held(_lock)) => self.heal_on_the_way(&volume.id, &disk),
            Ok(Locked::Impossible(error)) | Err(error) => Some(error.to_string()),
        };
        self.check_staged(volume, &disk, place).map_err(|error| error.not_healed(unhealed))?;
        Ok(path_of(&disk, &link))
    }

    fn check_staged(&self, volume: &Volume, disk: &Device, place: &StagePlace) -> Result<()> {
        let table = self.mounts.table()?;
        // The table has real paths; the root may be reached through a link.
        let bound = match &place.root {
            Some(root) => {
                let target = Target { root: root.clone(), below: place.below.clone() };
                Some(self.mounts.real_path(&target)?)
            }
            None => None,
        };
        let is_there = |mount: &&Mount| bound.as_ref().is_none_or(|path| mount.target == *path);
        let mut staged = table.ending_in(&place.below).filter(is_there);
        match staged.find(|mount| mount.disk != disk.number) {
            None => Ok(()),
            Some(mount) => Err(Error::refused(format!(
                "{} holds device {}, which is not the volume's disk {} ({})",
                mount.target.display(),
                mount.disk,
                disk.kernel_name,
                disk.number
            ))
            .hint(format!(
                "the disk of volume {} came back under another name; restart the pods that use it",
                volume.id
            ))),
        }
    }
}

/// The link, if it points to the proven disk; else the kernel's own node.
fn path_of(disk: &Device, link: &Path) -> PathBuf {
    let node = disk.kernel_node();
    match std::fs::canonicalize(link) {
        Ok(target) if target == node => link.to_path_buf(),
        _ => node,
    }
}
