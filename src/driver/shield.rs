//! What may stand between a volume's disk and its mount, so that input and output wait while the disk is away.

use crate::context::Context;
use crate::model::disk::contents::FileSystem;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::disk::journal::sights::JournalMark;
use crate::model::error::{Error, Result};
use crate::model::ids::VolumeId;
use crate::model::shield::own_map::{MapState, OwnMap};
use crate::mount::stage::StageOptions;

/// The hooks of an operation. All but those that only look are called under the volume's lock.
pub trait Shield {
    /// The volume's map, if this machine has one.
    fn map_of(&self, _: &VolumeId) -> Result<Option<OwnMap>> {
        Ok(None)
    }

    /// The volumes that have maps.
    fn volumes(&self) -> Result<Vec<VolumeId>> {
        Ok(Vec::new())
    }

    /// Removes a map that nothing uses and that would be in the way of the disk.
    fn tidy(&self, _: &Context<'_>, _: &VolumeId) {}

    /// Before a new mount, and after the file system was found, made or checked on the disk: puts a map over it if
    /// the volume is to have one.
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

    /// After a mount through a map: what tells its disk from an earlier copy when it comes back.
    fn after_mount(&self, _: &Context<'_>, _: &VolumeId, _: &MapOverDisk) -> Option<JournalMark> {
        None
    }

    /// A mount was found that an earlier call made.
    fn mount_found(&self, _: &Context<'_>, _: &VolumeId, _: &Device) {}

    /// Looks whether the disk came back, puts it under its map, and ends a wait whose patience is over.
    fn disk_returned(&self, _: &Context<'_>, _: &VolumeId) -> Returned {
        Returned::Not
    }

    /// What the timer does before it looks after the volume.
    fn tend(&self, _: &Context<'_>, _: &VolumeId) {}

    /// What it does where a process hangs on the disk: nothing is read from that.
    fn tend_hanging(&self, _: &Context<'_>, _: &VolumeId) {}

    /// Refuses an unmount that would wait with the map.
    fn before_unmount(&self, _: &Context<'_>, _: &VolumeId) -> Result<()> {
        Ok(())
    }

    /// Before the disk leaves: takes the map off it.
    fn take_off(&self, _: &Context<'_>, _: &VolumeId) -> Result<()> {
        Ok(())
    }

    /// What waits fails, as it would without a map. A person wants it so.
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
    /// The map, as the disk that is mounted.
    pub map: Device,
    /// What the mount through it is remembered by, as far as that is known before the mount.
    pub mark: Option<JournalMark>,
    /// Whether it was mounted already, somewhere: then the kernel goes on with its journal.
    pub was_open: bool,
}

/// What became of a volume's map, and of what is asked of it.
#[derive(Debug)]
pub enum Returned {
    /// As before, or there is none.
    Not,
    /// The disk was put under it, and what waited goes on.
    Back,
    /// It fails, and why it is not told to go on.
    Fails(Error),
}

/// The volume's map, as far as it can be told: for those who only look.
pub fn seen(cx: &Context<'_>, id: &VolumeId) -> Option<OwnMap> {
    cx.host.shield.map_of(id).unwrap_or_else(|error| {
        tracing::debug!(volume = %id, %error, "whether the volume has a map cannot be told");
        None
    })
}

/// The volumes that have one, for those who only look.
pub fn volumes(cx: &Context<'_>) -> Vec<VolumeId> {
    cx.host.shield.volumes().unwrap_or_else(|error| {
        tracing::debug!(%error, "which volumes have maps cannot be told");
        Vec::new()
    })
}

/// The number of the volume's map: its mounts have it, whatever becomes of its disk.
pub fn number_of(cx: &Context<'_>, id: &VolumeId) -> Option<DeviceNumber> {
    seen(cx, id).map(|map| map.number)
}

/// The map, if its users wait for the disk: they still use the volume, wherever the disk is now.
pub fn waited_for(cx: &Context<'_>, id: &VolumeId) -> Result<Option<OwnMap>> {
    Ok(cx.host.shield.map_of(id)?.filter(|map| map.opened > 0 && map.state().waits()))
}

/// Whether what has the map open would wait for the disk, were it taken away now.
pub fn would_wait(cx: &Context<'_>, id: &VolumeId) -> Result<bool> {
    let is_shielded = |map: &OwnMap| map.opened > 0 && map.state() == MapState::Works;
    Ok(cx.host.shield.map_of(id)?.as_ref().is_some_and(is_shielded))
}

/// Whether the volume's map waits, for whatever.
pub fn waits(cx: &Context<'_>, id: &VolumeId) -> bool {
    seen(cx, id).is_some_and(|map| map.state().waits())
}

/// Of what is not healed because a map waits, why the disk that is here was not put there.
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
