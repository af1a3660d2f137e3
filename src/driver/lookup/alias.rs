//! The orchestrator's name of a volume, recorded next to its id on this node and in the cloud.

use crate::context::Context;
use crate::model::ids::{VolumeId, VolumeName};
use crate::operation::Volume;
use crate::ports::clock::Deadline;
use crate::ports::cloud::{CloudVolume, Note};
use crate::ports::store::Locked;
use std::time::Duration;

/// Records the volume's name, for calls that receive only the name. It is a cache, so a failure is only logged. The
/// caller holds the volume's lock.
pub(crate) fn remember_name(cx: &Context<'_>, volume: &Volume) {
    let Some(name) = &volume.name else { return };
    let remembered = cx.store.records.update(&volume.id, |record| record.name = Some(name.clone()));
    if let Err(error) = remembered {
        tracing::debug!(%error, "the volume's name is not remembered");
    }
}

/// Records the name unless another call holds the lock; that call does the same.
pub(crate) fn remember_name_if_unlocked(cx: &Context<'_>, volume: &Volume) {
    let now = Deadline::after(Duration::ZERO);
    if let Ok(Locked::Held(_lock)) = cx.store.locks.take(&volume.id, cx.operation, now) {
        remember_name(cx, volume);
    }
}

/// Whether this driver has handled the volume, so that a name other than its id is recorded.
pub(crate) fn is_known(cx: &Context<'_>, volume: &CloudVolume) -> bool {
    volume.recorded_name.is_some()
        || volume.tenure.is_some()
        || volume.life.is_some()
        || volume.is_marked()
        // If uncertain, treat it as unknown: then an ambiguous name is refused.
        || cx.store.records.has(&volume.id).unwrap_or(false)
}

/// Records the name under which a volume was found mounted, since its detach receives only the name.
pub(crate) fn record_found_name(cx: &Context<'_>, id: &VolumeId, name: &VolumeName) {
    if name.is(id) {
        return;
    }
    remember_name(cx, &Volume::new(id.clone(), Some(name.clone())));
    match cx.cloud.volume(id, cx.deadline) {
        Ok(Some(state)) => record_name_of_a_mount(cx, &state, name),
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(volume = %id, %name, %error, "the volume's name is not recorded in the cloud");
        }
    }
}

/// Records the name of a mounted volume in the cloud if it has none: it was attached without one, and its detach, on
/// whatever node, receives this name. A name that an attach recorded stays.
pub(crate) fn record_name_of_a_mount(cx: &Context<'_>, state: &CloudVolume, name: &VolumeName) {
    let has_none = state.recorded_name.as_ref().is_none_or(|recorded| recorded.is(&state.id));
    if !has_none || name.is(&state.id) || state.recorded_name.as_ref() == Some(name) {
        return;
    }
    let id = &state.id;
    if let Err(error) = cx.cloud.note(id, &[Note::Name(Some(name))], cx.deadline) {
        tracing::warn!(volume = %id, %name, %error, "the volume's name is not recorded in the cloud");
    }
}
