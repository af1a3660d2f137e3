//! Whether a disk may get a new file system: gathers the facts for [`may_format`], and keeps the cloud's notes of how
//! far a volume has come.

use crate::context::Context;
use crate::guard::remote_mark;
use crate::lookup::attachment_view;
use crate::model::disk::device::Device;
use crate::model::disk::formatting::{Facts, FormatRequester, Life, Objection, may_format};
use crate::model::error::{Error, Result};
use crate::model::ids::{ServerId, VolumeId};
use crate::ports::cloud::{CloudVolume, Note};

/// The consent to format a disk.
pub(crate) struct Consent {
    /// This node's server.
    server: ServerId,
    /// What a person overrides.
    pub(crate) overridden: Vec<Objection>,
}

/// Asks the cloud and the record. Changes nothing.
pub(crate) fn consent(
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &Device,
    asked: FormatRequester,
) -> Result<Consent> {
    let in_cloud = attachment_view::existing(cx, id).map_err(|error| {
        error.hint("a disk is formatted only when the cloud confirms the volume's size")
    })?;
    let server = attachment_view::existing_server(cx, cx.this_node)?;
    let was_mounted = cx.store.records.load(id).disk.was_mounted;
    let facts = facts(&in_cloud, disk, &server, was_mounted);
    match may_format(&facts, asked) {
        Ok(overridden) => {
            if let Some(Life::Begun(other)) = &in_cloud.life
                && *other != server
            {
                tracing::info!(volume = %id, %other, "another server began to format the volume, and is not attached any more");
            }
            Ok(Consent { server, overridden })
        }
        Err(Objection { cause, hint, .. }) => Err(Error::refused(cause).hint(hint)),
    }
}

/// The objections to a new file system, for a person to read first.
pub(crate) fn objections(cx: &Context<'_>, id: &VolumeId, disk: &Device) -> Result<Vec<String>> {
    let in_cloud = attachment_view::existing(cx, id)?;
    let server = attachment_view::existing_server(cx, cx.this_node)?;
    let was_mounted = cx.store.records.load(id).disk.was_mounted;
    let facts = facts(&in_cloud, disk, &server, was_mounted);
    let objections = crate::model::disk::formatting::objections(&facts);
    Ok(objections.into_iter().map(|one| one.cause).collect())
}

/// Notes in the cloud that formatting begins, before the first byte is written. Where the cloud forbids notes the other
/// checks decide, and `doctor` reports it.
pub(crate) fn note_begin(cx: &Context<'_>, id: &VolumeId, consent: &Consent) -> Result<()> {
    let life = Life::Begun(consent.server.clone());
    let told = cx.cloud.note(id, &[Note::Life(&life)], cx.deadline);
    if cx.store.records.load(id).mark.is_data_reported {
        cx.store.records.update(id, |record| record.mark.is_data_reported = false)?;
    }
    remote_mark::noted(cx, id, told).map_err(|error| {
        error.hint("the disk is not formatted before the cloud has a note of it; it is tried again")
    })
}

fn facts<'a>(
    volume: &'a CloudVolume,
    disk: &'a Device,
    server: &'a ServerId,
    was_mounted: bool,
) -> Facts<'a> {
    Facts {
        volume: &volume.id,
        disk: (&disk.kernel_name, disk.size, disk.read_only),
        was_mounted,
        here: Some(server.as_str()),
        attached_to: volume.attachments.iter().map(|one| one.server.as_str()).collect(),
        size: volume.size,
        is_encrypted: volume.is_encrypted,
        origin: volume.origin.as_deref(),
        life: volume.life.as_ref(),
        mounted_on: volume
            .mounted_on
            .as_ref()
            .or(volume.mounted_beside.first())
            .map(ServerId::as_str),
    }
}
