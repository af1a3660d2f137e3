//! The hooks of the shield, which makes I/O wait while a volume's disk is away.

use crate::context::Context;
use crate::model::disk::contents::FileSystem;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::disk::journal::sights::JournalMark;
use crate::model::error::{Error, Result};
use crate::model::ids::VolumeId;
use crate::model::shield::own_map::{MapState, OwnMap};
use crate::mount::stage::StageOptions;

/// The hooks of the operations. All but the read-only ones are called under the volume's lock.
pub trait Shield {
    /// The volume's map, if there is one.
    fn map_of(&self, _: &VolumeId) -> Result<Option<OwnMap>> {
        Ok(None)
    }

    /// The volumes that have maps.
    fn volumes(&self) -> Result<Vec<VolumeId>> {
        Ok(Vec::new())
    }

    /// Removes an unused map that would be in the way of the disk.
    fn tidy(&self, _: &Context<'_>, _: &VolumeId) {}

    /// Before a new mount, once the file system was found, made or checked: puts a map over the disk if the volume
    /// should have one.
    fn before_mount(
        &self,
        _: &Context<'_>,
        _: &VolumeId,
        _: &Device,
        _: &FileSystem,
        _: &StageOptions,
    ) -> Result<Option<MapOverDisk>> {
        Ok(None)
    }

    /// After a mount through a map: what distinguishes its disk from an earlier copy when it comes back.
    fn after_mount(&self, _: &Context<'_>, _: &VolumeId, _: &MapOverDisk) -> Option<JournalMark> {
        None
    }

    /// An existing mount of an earlier call was found.
    fn mount_found(&self, _: &Context<'_>, _: &VolumeId, _: &Device) {}

    /// Puts a returned disk under its map, and ends a wait that has lasted too long.
    fn disk_returned(&self, _: &Context<'_>, _: &VolumeId) -> Returned {
        Returned::Not
    }

    /// Called by the timer before it looks after the volume.
    fn tend(&self, _: &Context<'_>, _: &VolumeId) {}

    /// Called by the timer if a process hangs on the disk, so that nothing reads from it.
    fn tend_hanging(&self, _: &Context<'_>, _: &VolumeId) {}

    /// Refuses an unmount that would wait with the map.
    fn before_unmount(&self, _: &Context<'_>, _: &VolumeId) -> Result<()> {
        Ok(())
    }

    /// Before the disk leaves: removes its map.
    fn take_off(&self, _: &Context<'_>, _: &VolumeId) -> Result<()> {
        Ok(())
    }

    /// Makes paused I/O fail, as it would without a map, on a person's word.
    fn end_wait(&self, _: &VolumeId) -> Result<()> {
        Ok(())
    }
}

/// No volume has a map.
#[derive(Debug)]
pub struct NoShield;

impl Shield for NoShield {}

/// The map of a new mount.
#[derive(Debug)]
pub struct MapOverDisk {
    /// The map, as the disk to mount.
    pub map: Device,
    /// What identifies the disk later, as far as it is known before the mount.
    pub mark: Option<JournalMark>,
    /// Whether the disk was mounted already, so that the kernel goes on with its journal.
    pub was_open: bool,
}

/// What became of a volume's map.
#[derive(Debug)]
pub enum Returned {
    /// Nothing changed, or there is no map.
    Not,
    /// The disk is under the map again, and paused I/O goes on.
    Back,
    /// The map fails I/O, for this reason.
    Fails(Error),
}

/// The volume's map, or `None` if it cannot be determined; for display.
pub fn seen(cx: &Context<'_>, id: &VolumeId) -> Option<OwnMap> {
    cx.host.shield.map_of(id).unwrap_or_else(|error| {
        tracing::debug!(volume = %id, %error, "whether the volume has a map cannot be told");
        None
    })
}

/// The volumes with maps, for display.
pub fn volumes(cx: &Context<'_>) -> Vec<VolumeId> {
    cx.host.shield.volumes().unwrap_or_else(|error| {
        tracing::debug!(%error, "which volumes have maps cannot be told");
        Vec::new()
    })
}

/// The device number of the map, which its mounts have whatever becomes of the disk.
pub fn number_of(cx: &Context<'_>, id: &VolumeId) -> Option<DeviceNumber> {
    seen(cx, id).map(|map| map.number)
}

/// The map, if I/O waits for its disk: its users still use the volume, wherever the disk is.
pub fn waited_for(cx: &Context<'_>, id: &VolumeId) -> Result<Option<OwnMap>> {
    Ok(cx.host.shield.map_of(id)?.filter(|map| map.opened > 0 && map.state().waits()))
}

/// Whether users of the map would wait if the disk went away now.
pub fn would_wait(cx: &Context<'_>, id: &VolumeId) -> Result<bool> {
    let is_shielded = |map: &OwnMap| map.opened > 0 && map.state() == MapState::Works;
    Ok(cx.host.shield.map_of(id)?.as_ref().is_some_and(is_shielded))
}

/// Whether the volume's map is waiting.
pub fn waits(cx: &Context<'_>, id: &VolumeId) -> bool {
    seen(cx, id).is_some_and(|map| map.state().waits())
}

/// Explains why a returned disk was not put under its map.
pub fn why_it_waits(cx: &Context<'_>, id: &VolumeId, error: Error) -> Error {
    let wait = cx.store.records.load(id).shield.map_wait;
    match wait.and_then(|wait| wait.not_switched) {
        Some(why) => Error {
            cause: format!("{}; the disk that is here is not put there: {why}", error.cause),
            ..error
        },
        None => error,
    }
}
