//! Resolve the name that a caller has for a volume, and run its operation by id. A wrong guess would detach another
//! volume, so anything uncertain is an error.

pub mod known_volumes;

use crate::attachment::detach::{self, Force};
use crate::attachment::open_requests;
use crate::context::Context;
use crate::lookup::alias::is_known;
use crate::lookup::attachment_view;
use crate::lookup::disk_owner::volume_of;
use crate::model::advice::{Remedy, advise};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use crate::model::mount::label;
use crate::model::mount::layout::{PublishTarget, StageTarget};
use crate::model::mount::mountinfo::Mount;
use crate::model::record::VolumeRecord;
use crate::mount::unmount::{self, Occupant};
use crate::operation::Outcome;
use crate::ports::cloud::{CloudVolume, Note};
use std::path::Path;

/// Detaches the volume of this name from the node's server, or from this node's if no node is given.
///
/// Succeeds if the volume is not attached there or does not exist. Never touches another attachment.
pub fn detach(
    cx: &Context<'_>,
    name: &VolumeName,
    node: Option<&NodeName>,
    force: Force,
) -> Result<Outcome> {
    detach::at_node(cx, node, |(node, server)| {
        if let Some(state) = found_by_name(cx, name, server)? {
            let id = state.id.clone();
            return detach::detach_volume(cx, &id, Some(state), (node, server), force);
        }
        attachment_view::prove_missing(cx, name.as_str(), server)?;
        // Only the server's volumes were searched for this display name.
        let called = cx.cloud.called(name, cx.deadline)?;
        for volume in called.iter().filter(|volume| volume.recorded_name.is_none()) {
            open_requests::prove_not_attached(cx, volume, node, server)?;
        }
        Ok(Outcome::Already)
    })
}

/// Unmounts a consumer's directory of the volume of this name.
pub fn unpublish(cx: &Context<'_>, name: &VolumeName, target: &PublishTarget) -> Result<Outcome> {
    let find = |folder: &Path| volume_mounted_at(cx, name, folder);
    unmount::unpublish(cx, Occupant::Named(name, &find), target)
}

/// Unmounts the stage directory of the volume of this name.
pub fn unstage(cx: &Context<'_>, name: &VolumeName, target: &StageTarget) -> Result<Outcome> {
    let find = |folder: &Path| volume_mounted_at(cx, name, folder);
    unmount::unstage(cx, Occupant::Named(name, &find), target)
}

/// Resolves a name as far as the cloud can tell; `None` if it can mean no volume that is attached to the server.
///
/// In this order: the name recorded in the cloud or on this node, a volume id, the only volume attached to that server
/// with this display name. A UUID that may mean several volumes is refused with all of them.
pub fn volume_named(
    cx: &Context<'_>,
    name: &VolumeName,
    server: Option<&ServerId>,
) -> Result<Option<VolumeId>> {
    Ok(found_by_name(cx, name, server)?.map(|volume| volume.id))
}

/// The volume of this name in its current state.
fn found_by_name(
    cx: &Context<'_>,
    name: &VolumeName,
    server: Option<&ServerId>,
) -> Result<Option<CloudVolume>> {
    let recorded = recorded_under(cx, name, server)?;
    if recorded.is_empty() {
        return unrecorded(cx, name, server);
    }
    // If the recorded volume is gone and the other one is unknown, there is no choice to make.
    let is_choice = |own: &CloudVolume, server: &ServerId| {
        own.attachment_to(server).is_some()
            && (is_known(cx, own)
                || recorded.iter().any(|volume| volume.attachment_to(server).is_some()))
    };
    if let Some(id) = name.as_volume_id()
        && !recorded.iter().any(|volume| volume.id == id)
        && let Some(own) = cx.cloud.volume(&id, cx.deadline)?
        && own.recorded_name.as_ref().is_none_or(|recorded| recorded == name)
        && server.is_none_or(|server| is_choice(&own, server))
    {
        let ids = recorded.iter().map(|volume| &volume.id).chain([&own.id]);
        return Err(in_doubt(name, ids, "is recorded for one and is the other's id"));
    }
    the_attached_one(name, recorded, server)
}

/// Resolves a name without a record.
fn unrecorded(
    cx: &Context<'_>,
    name: &VolumeName,
    server: Option<&ServerId>,
) -> Result<Option<CloudVolume>> {
    let own = match VolumeId::parse(name.as_str()) {
        Ok(id) => cx.cloud.volume(&id, cx.deadline)?,
        Err(_) => None,
    };
    let is_uuid = name.as_volume_id().is_some();
    if let Some(own) = own {
        // Other volumes matter only if this one has another name, or was attached under an unknown one.
        let is_odd = |server: &ServerId| {
            own.recorded_name.is_some()
                || own.attachment_to(server).is_some() && !is_known(cx, &own)
        };
        if let Some(server) = server.filter(|server| is_uuid && is_odd(server)) {
            let strangers = strangers(cx, cx.cloud.attached_to(server, cx.deadline)?);
            let others: Vec<_> = strangers.iter().filter(|id| **id != own.id).collect();
            if !others.is_empty() {
                let how =
                    "is a volume's id, and it is not recorded by which name others were attached";
                return Err(in_doubt(name, others.into_iter().chain([&own.id]), how));
            }
        }
        return Ok(Some(own));
    }
    let Some(server) = server else { return Ok(None) };
    let attached = cx.cloud.attached_to(server, cx.deadline)?;
    // A volume that was attached under another name is certainly not meant.
    let called = attached.iter().filter(|volume| {
        volume.name.as_deref() == Some(name.as_str()) && volume.recorded_name.is_none()
    });
    let called: Vec<_> = called.cloned().collect();
    if let Some(one) = only_one(name, called, "have that name in the cloud")? {
        return Ok(Some(one));
    }
    if !is_uuid {
        return Ok(None);
    }
    let strangers = strangers(cx, attached);
    // This node knows which volume was meant, if that one is deleted; an existing one has another name by now.
    let is_gone = |id: VolumeId| Ok(cx.cloud.volume(&id, cx.deadline)?.is_none());
    if strangers.is_empty()
        || cx.store.records.named(name).map(is_gone).transpose()?.unwrap_or(false)
    {
        return Ok(None);
    }
    let how = "is no volume's id, and it is not recorded by which name these were attached";
    Err(in_doubt(name, &strangers, how))
}

fn strangers(cx: &Context<'_>, mut volumes: Vec<CloudVolume>) -> Vec<VolumeId> {
    // A server's root volume is in use before any orchestrator runs.
    let is_root = |volume: &CloudVolume| volume.attachments.iter().any(|one| one.is_root);
    volumes.retain(|volume| !is_root(volume) && !is_known(cx, volume));
    volumes.into_iter().map(|volume| volume.id).collect()
}

/// Every volume of this name according to the cloud and this node. An error if the two disagree about a volume that is
/// attached to the server.
fn recorded_under(
    cx: &Context<'_>,
    name: &VolumeName,
    server: Option<&ServerId>,
) -> Result<Vec<CloudVolume>> {
    let mut volumes = cx.cloud.recorded_as(name, cx.deadline)?;
    if let Some(remembered) = cx.store.records.named(name)
        && !volumes.iter().any(|volume| volume.id == remembered)
        && let Some(volume) = cx.cloud.volume(&remembered, cx.deadline)?
        && is_meant_here(cx, name, &volume, server, volumes.is_empty())?
    {
        volumes.push(volume);
    }
    Ok(volumes)
}

/// Whether this node's index still resolves the name, although the cloud may record another name for that volume. The
/// volume may have been replaced since; then its last name counts.
fn is_meant_here(
    cx: &Context<'_>,
    name: &VolumeName,
    volume: &CloudVolume,
    server: Option<&ServerId>,
    is_only_one: bool,
) -> Result<bool> {
    let record = cx.store.records.load(&volume.id);
    let Some(other) = volume.recorded_name.as_ref().filter(|recorded| *recorded != name) else {
        return Ok(true);
    };
    if is_mounted_as(cx, name, &record)? {
        return Ok(true);
    }
    if record.name.as_ref() != Some(name) {
        return Ok(false);
    }
    // It was attached without a name, so only its id is recorded.
    if other.is(&volume.id) {
        return Ok(true);
    }
    let is_there = server.is_some_and(|server| volume.attachment_to(server).is_some());
    if !is_there || !is_only_one {
        return Ok(false);
    }
    let server = server.filter(|_| name.as_volume_id().is_some());
    let attached = server.map(|server| cx.cloud.attached_to(server, cx.deadline));
    let strangers = strangers(cx, attached.transpose()?.unwrap_or_default());
    let how = format!("was last used here for a volume that the cloud has recorded as {other}");
    Err(in_doubt(name, [&volume.id].into_iter().chain(&strangers), &how))
}

/// Whether the volume is mounted on this node in a directory of that name.
fn is_mounted_as(cx: &Context<'_>, name: &VolumeName, record: &VolumeRecord) -> Result<bool> {
    let is_its = |mount: &Mount| {
        label::owner_of(mount).as_ref() == Some(&record.volume)
            || record.mounts.staged.as_ref().is_some_and(|staged| staged.folder == mount.target)
    };
    let is_called =
        |mount: &&Mount| mount.target.file_name().is_some_and(|last| last == name.as_str());
    let table = cx.host.mounts.table()?;
    Ok(table.mounts().iter().filter(is_called).any(is_its))
}

/// Records which volume an ambiguous name means, once a person has decided and it is detached, for the orchestrator's
/// next detach by that name. Recorded in the cloud, where every node reads it; for a deleted volume on this node.
pub fn settle_name(cx: &Context<'_>, id: &VolumeId, name: &VolumeName) -> Result<()> {
    // A recorded name takes precedence, even over a person's word.
    let recorded = cx.cloud.recorded_as(name, cx.deadline)?;
    if let Some(other) = recorded.iter().find(|volume| volume.id != *id) {
        return Err(Error::refused(format!(
            "the name {name} is recorded for volume {other}: it may mean that one too; {id} is detached",
            other = other.id
        ))
        .hint(advise("if that one is meant: {}", [Remedy::DetachById(None, None).of(&other.id)])));
    }
    if cx.cloud.volume(id, cx.deadline)?.is_some() {
        match cx.cloud.note(id, &[Note::Name(Some(name))], cx.deadline) {
            Err(error) if error.kind == Kind::Config => {
                tracing::warn!(volume = %id, %name, %error, "the cloud allows no notes with the volume: which one the name means is known to this machine alone");
            }
            told => return told,
        }
    }
    cx.store.records.note_name(name, id)
}

/// The volume mounted at a directory, without asking the cloud: by record, by the identity of the mounted disk, by the
/// label in the mount table, and only then by name.
pub fn volume_mounted_at(
    cx: &Context<'_>,
    name: &VolumeName,
    folder: &Path,
) -> Result<Option<VolumeId>> {
    if let Some(id) = cx.store.records.named(name) {
        return Ok(Some(id));
    }
    let table = cx.host.mounts.table()?;
    // Check every stacked mount: a foreign one may cover the volume's.
    for mount in table.at(folder) {
        let labelled = label::owner_of(mount).filter(|id| name.is(id));
        let found = labelled.map_or_else(|| volume_of(cx, mount), |id| Ok(Some(id)))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    let Some(id) = by_convention(cx, name) else { return Ok(None) };
    // A disk with another volume's serial is not this volume's, whatever the directory's name.
    let mut all = Vec::new();
    for mount in table.at(folder) {
        all.extend(cx.host.devices.shown_by(mount.disk)?.unwrap_or_default());
    }
    let is_its = all.is_empty() || cx.cloud.identity(&id).proven_by(&all).is_some();
    Ok(is_its.then_some(id))
}

/// The name as an id, if it is a UUID and that volume has no other name here.
fn by_convention(cx: &Context<'_>, name: &VolumeName) -> Option<VolumeId> {
    name.as_volume_id().filter(|id| cx.store.records.load(id).name.is_none())
}

/// A manually detached volume keeps the recorded name, so only volumes at the server count.
fn the_attached_one(
    name: &VolumeName,
    mut recorded: Vec<CloudVolume>,
    server: Option<&ServerId>,
) -> Result<Option<CloudVolume>> {
    if recorded.len() > 1 {
        // A volume that is being attached there counts too.
        let is_there = |volume: &CloudVolume, server: &ServerId| {
            let requested = volume.requested.as_ref();
            volume.attachment_to(server).is_some()
                || requested.is_some_and(|request| request.server == *server)
        };
        recorded.retain(|volume| server.is_some_and(|server| is_there(volume, server)));
    }
    only_one(name, recorded, "were attached under that name")
}

/// The refusal of a name that may mean several volumes.
fn in_doubt<'a>(
    name: &VolumeName,
    ids: impl IntoIterator<Item = &'a VolumeId>,
    how: &str,
) -> Error {
    let ids: Vec<_> = ids.into_iter().map(VolumeId::as_str).collect();
    Error::new(Kind::Refused, format!("the name {name} {how}: it may mean {}", ids.join(" or ")))
        .hint(advise("look which volumeID its PersistentVolume has, and detach that one: {}, also if it is attached no more", [Remedy::DetachById(None, Some(name.to_string())).of("<volumeID>")]))
}

fn only_one(
    name: &VolumeName,
    mut found: Vec<CloudVolume>,
    how: &str,
) -> Result<Option<CloudVolume>> {
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let list: Vec<_> = found.iter().map(|volume| volume.id.as_str()).collect();
    Err(Error::new(Kind::Refused, format!("several volumes {how} ({name}): {}", list.join(", ")))
        .hint(advise(
            "detach the one you mean by its id: {}",
            [Remedy::DetachById(None, None).into()],
        )))
}

#[cfg(test)]
mod tests;
