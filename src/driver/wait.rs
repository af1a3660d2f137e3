//! Wait until this machine sees the volume's disk.

use super::{Driver, Volume};
use crate::model::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::model::target::StagePlace;
use crate::model::time::{Deadline, Steps};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// After this long without the disk the cloud is asked why.
const ASK_AFTER: Duration = Duration::from_secs(2);

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
        self.remember_name(volume);
        let link = self.cloud.link(&volume.id);
        if !hint.is_empty() && Path::new(hint) != link && Path::new(hint) != disk.kernel_node() {
            tracing::warn!(volume = %volume.id, hint, disk = %disk.kernel_name, "the remembered device is another one");
        }
        self.check_staged(volume, &disk, place)?;
        Ok(path_of(&disk, &link))
    }

    pub(super) fn wait_for(&self, volume: &Volume, deadline: Deadline) -> Result<Device> {
        let identity = self.cloud.identity(&volume.id);
        let ask_at = Deadline::after(ASK_AFTER);
        let mut asked = false;
        for step in Steps::between(Duration::from_millis(2), Duration::from_millis(100)) {
            if let Some(disk) = self.devices.find(&identity)?
                && disk.size > 0
            {
                return Ok(disk);
            }
            if !asked && ask_at.over() {
                asked = true;
                self.say_if_not_attached(volume)?;
            }
            if !deadline.pause(step) {
                break;
            }
        }
        let seconds = deadline.total().as_secs();
        Err(Error::new(
            Kind::Timeout,
            format!("no disk with {identity} appeared within {seconds} s"),
        )
        .hint("is the volume attached to this machine, and does the kernel's log show the disk?"))
    }

    /// The disk cannot come if the cloud does not think of sending it. A cloud that cannot be
    /// asked is no reason to stop waiting.
    fn say_if_not_attached(&self, volume: &Volume) -> Result<()> {
        let asked = self
            .cloud
            .server(self.this_node, self.deadline)
            .and_then(|server| Ok((server, self.cloud.volume(&volume.id, self.deadline)?)));
        match asked {
            Ok((Some(server), Some(state))) if state.attachment_to(&server).is_none() => {
                let at = match state.attachments.first() {
                    Some(other) => format!("it is attached to {}", other.server),
                    None => "it is attached nowhere".to_owned(),
                };
                Err(Error::new(
                    Kind::Missing,
                    format!("volume {} is not attached to {server}: {at}", volume.id),
                )
                .hint("it must be attached again before its disk can appear"))
            }
            Ok((_, None)) => Err(Error::new(
                Kind::Missing,
                format!("volume {} does not exist in the cloud", volume.id),
            )),
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(volume = %volume.id, %error, "the disk is not there, and the cloud cannot say why");
                Ok(())
            }
        }
    }

    fn check_staged(&self, volume: &Volume, disk: &Device, place: &StagePlace) -> Result<()> {
        let table = self.mounts.table()?;
        let mut staged = table.ending_in(&place.below).filter(|mount| place.is(&mount.target));
        match staged.find(|mount| mount.number != disk.number) {
            None => Ok(()),
            Some(mount) => Err(Error::refused(format!(
                "{} holds device {}, which is not the volume's disk {} ({})",
                mount.target.display(),
                mount.number,
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
        found => {
            tracing::warn!(link = %link.display(), ?found, disk = %disk.kernel_name, "the link does not point to the disk");
            node
        }
    }
}
