//! From the orchestrator's name of a volume to the volume. A wrong guess would detach somebody
//! else's disk, so whatever is not certain is an error.

use super::Driver;
use crate::cloud::CloudVolume;
use crate::host::nodes;
use crate::model::device::{DeviceNumber, Proof, Shown};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ServerId, VIRTIO_SERIAL_LENGTH, VolumeId, VolumeName};
use std::path::Path;

impl Driver<'_> {
    /// The volume of this name, as far as the cloud can tell; nothing if no volume that is
    /// attached to the server can be meant.
    ///
    /// In order: the name is an id; what attach recorded, with the volume in the cloud or on this
    /// machine; the id of a volume, as people type it; the one volume attached to that server that
    /// the cloud calls so.
    pub fn volume_named(
        &self,
        name: &VolumeName,
        server: Option<&ServerId>,
    ) -> Result<Option<VolumeId>> {
        if let Some(id) = name.as_volume_id() {
            return Ok(Some(id));
        }
        let recorded = self.recorded_under(name)?;
        if !recorded.is_empty() {
            return the_attached_one(name, &recorded, server);
        }
        // A person may have typed the volume's id.
        if let Ok(id) = VolumeId::parse(name.as_str())
            && self.cloud.volume(&id, self.deadline)?.is_some()
        {
            return Ok(Some(id));
        }
        let Some(server) = server else { return Ok(None) };
        let attached = self.cloud.attached_to(server, self.deadline)?.into_iter();
        // One that attach recorded under another name is certainly not meant.
        let called = attached.filter(|volume| {
            volume.name.as_deref() == Some(name.as_str()) && volume.recorded_name.is_none()
        });
        let called: Vec<_> = called.map(|volume| volume.id).collect();
        only_one(name, &called, "have that name in the cloud")
    }

    /// Every volume that goes by this name: by the cloud's records, and by this machine's where
    /// the cloud has none for that volume.
    fn recorded_under(&self, name: &VolumeName) -> Result<Vec<CloudVolume>> {
        let mut ids = self.cloud.recorded_as(name, self.deadline)?;
        if let Some(remembered) = self.records.named(name)
            && !ids.contains(&remembered)
        {
            ids.push(remembered);
        }
        let mut volumes = Vec::new();
        for id in ids {
            if let Some(volume) = self.cloud.volume(&id, self.deadline)?
                && volume.recorded_name.as_ref().is_none_or(|recorded| recorded == name)
            {
                volumes.push(volume);
            }
        }
        Ok(volumes)
    }

    /// The volume mounted at a folder, without asking the cloud: by record, else by what the
    /// mounted disk shows, else by the label in the mount table.
    pub fn volume_mounted_at(&self, name: &VolumeName, folder: &Path) -> Result<Option<VolumeId>> {
        if let Some(id) = name.as_volume_id() {
            return Ok(Some(id));
        }
        if let Some(id) = self.records.named(name) {
            return Ok(Some(id));
        }
        let table = self.mounts.table()?;
        // Whichever of those that stand there tells: a stranger's may lie on the volume's.
        for mount in table.at(folder) {
            let found = self.volume_on(mount.disk)?.or_else(|| nodes::owner_of(mount));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    pub(super) fn volume_on(&self, number: DeviceNumber) -> Result<Option<VolumeId>> {
        let shown = self.devices.shown_by(number)?.unwrap_or_default();
        let ids = shown.iter().filter_map(|one| match one {
            Shown::Serial { text, .. } => VolumeId::parse(text).ok(),
            Shown::BackingFile(path) => VolumeId::parse(path.file_stem()?.to_str()?).ok(),
        });
        // A file of that name may be another's, and a serial of just the length to which one is
        // cut may be: the way back must lead to the same disk, and prove it whole.
        let proven = |id: &VolumeId| {
            self.cloud.identity(id).proven_by(&shown) == Some(Proof::Whole)
                && (id.as_str().len() != VIRTIO_SERIAL_LENGTH || is_image(&shown))
        };
        Ok(ids.into_iter().find(proven))
    }
}

fn is_image(shown: &[Shown]) -> bool {
    shown.iter().any(|one| matches!(one, Shown::BackingFile(_)))
}

/// A volume that was taken away by hand keeps the name's record: only those that are at the
/// server can be meant.
fn the_attached_one(
    name: &VolumeName,
    recorded: &[CloudVolume],
    server: Option<&ServerId>,
) -> Result<Option<VolumeId>> {
    if let [one] = recorded {
        return Ok(Some(one.id.clone()));
    }
    let is_there =
        |volume: &&CloudVolume| server.is_some_and(|server| volume.attachment_to(server).is_some());
    let there: Vec<_> = recorded.iter().filter(is_there).map(|v| v.id.clone()).collect();
    only_one(name, &there, "were attached under that name")
}

fn only_one(name: &VolumeName, found: &[VolumeId], how: &str) -> Result<Option<VolumeId>> {
    match found {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        several => {
            let list: Vec<_> = several.iter().map(VolumeId::as_str).collect();
            Err(Error::new(
                Kind::Refused,
                format!("several volumes {how} ({name}): {}", list.join(", ")),
            )
            .hint("detach the one you mean by its id: disk detach <volume id> <node>"))
        }
    }
}
