//! The map of device mapper through which a volume may be mounted. This driver knows maps of its own kind,
//! takes them off, and ends what waits in them; it makes none.

use crate::host::Maps;
use crate::host::clock::Deadline;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::shield::own_map::OwnMap;

/// Maps of volumes.
pub(in crate::driver) struct OwnMaps<'a> {
    pub(in crate::driver) maps: &'a dyn Maps,
    pub(in crate::driver) deadline: Deadline,
}

impl OwnMaps<'_> {
    /// The volume's map, as far as it can be told: for those who only look.
    pub(in crate::driver) fn seen(&self, id: &VolumeId) -> Option<OwnMap> {
        self.maps.map_of(id).unwrap_or_else(|error| {
            tracing::debug!(volume = %id, %error, "whether the volume has a map cannot be told");
            None
        })
    }

    /// The volumes that have one, for those who only look.
    pub(in crate::driver) fn volumes(&self) -> Vec<VolumeId> {
        self.maps.volumes().unwrap_or_else(|error| {
            tracing::debug!(%error, "which volumes have maps cannot be told");
            Vec::new()
        })
    }

    /// The number of the volume's map: its mounts have it, whatever becomes of its disk.
    pub(in crate::driver) fn number_of(&self, id: &VolumeId) -> Option<DeviceNumber> {
        self.seen(id).map(|map| map.number)
    }

    /// Before an unmount that would wait for ever: what it writes has nowhere to go.
    pub(in crate::driver) fn must_not_wait(&self, id: &VolumeId) -> Result<()> {
        let Some(map) = self.maps.map_of(id)? else { return Ok(()) };
        let state = map.state();
        if !state.waits() {
            return Ok(());
        }
        let name = &map.kernel_name;
        Err(Error::refused(format!(
            "the map {name} of volume {id} {}: an unmount would wait too",
            state.words()
        ))
        .hint(format!(
            "disk release {id} ends the wait with errors, and unmounts it; what was written and \
             has not reached the disk is lost then"
        )))
    }

    /// Takes the map off the volume's disk, which nothing uses any more. A map that has no disk, and that
    /// something keeps open, is in the way of none.
    pub(in crate::driver) fn take_off(&self, id: &VolumeId) -> Result<()> {
        let Some(map) = self.maps.map_of(id)? else { return Ok(()) };
        let name = &map.kernel_name;
        match self.maps.remove(id, self.deadline) {
            Ok(_) => {
                tracing::info!(volume = %id, map = name, "the volume's map was removed");
                Ok(())
            }
            Err(error) if error.kind == Kind::Busy && !map.has_disk => {
                tracing::warn!(volume = %id, map = name, opened = map.opened, "the volume's map stays: it has no disk, and something has it open");
                Ok(())
            }
            Err(error) if error.kind == Kind::Busy => {
                let now = self.seen(id).unwrap_or(map);
                Err(Error::refused(format!(
                    "the map {} of volume {id} is still in use: it is open {} times",
                    now.kernel_name, now.opened
                ))
                .hint(format!("disk holders {id} shows who has it")))
            }
            Err(error) => Err(error),
        }
    }

    /// What waits in the volume's map fails, as it would without a map. A person wants it so.
    pub(in crate::driver) fn end_wait(&self, id: &VolumeId) -> Result<()> {
        let Some(map) = self.maps.map_of(id)? else { return Ok(()) };
        tracing::warn!(volume = %id, map = map.kernel_name, state = map.state().words(), "what waits in the volume's map fails from here on");
        self.maps.end_wait(id)
    }
}
