//! Which volume a disk or a mount belongs to.

use crate::context::Context;
use crate::model::advice::{Remedy, advise};
use crate::model::disk::device::{DeviceNumber, Proof, Shown};
use crate::model::error::{Error, Result};
use crate::model::ids::{VIRTIO_SERIAL_LENGTH, VolumeId};
use crate::model::mount::label;
use crate::model::mount::mountinfo::{Mount, MountTable};
use std::path::Path;

/// The volume whose whole id the disk of this number shows.
pub(crate) fn volume_on(cx: &Context<'_>, number: DeviceNumber) -> Result<Option<VolumeId>> {
    let shown = cx.host.devices.shown_by(number)?.unwrap_or_default();
    let ids = shown.iter().filter_map(|one| match one {
        Shown::Serial { text, .. } => VolumeId::parse(text).ok(),
        Shown::BackingFile(path) => VolumeId::parse(path.file_stem()?.to_str()?).ok(),
        Shown::LongBackingFile => None,
    });
    // The name may be a coincidence, and a serial may be exactly as long as a truncated one. So looking up that volume
    // must lead back to the same disk, with a whole proof.
    let proven = |id: &VolumeId| {
        cx.cloud.identity(id).proven_by(&shown) == Some(Proof::Whole)
            && (id.as_str().len() != VIRTIO_SERIAL_LENGTH || is_image(&shown))
    };
    Ok(ids.into_iter().find(proven))
}

/// The volume that a mount's disk shows, or otherwise the one in its label.
pub(crate) fn volume_of(cx: &Context<'_>, mount: &Mount) -> Result<Option<VolumeId>> {
    Ok(volume_on(cx, mount.disk)?.or_else(|| label::owner_of(mount)))
}

fn is_image(shown: &[Shown]) -> bool {
    shown.iter().any(|one| matches!(one, Shown::BackingFile(_)))
}

/// Refuses if another volume is mounted at the directory than the one that the caller names by id.
pub(crate) fn refuse_another_at(
    cx: &Context<'_>,
    id: &VolumeId,
    folder: &Path,
    table: &MountTable,
) -> Result<()> {
    for mount in table.at(folder) {
        if let Some(other) = volume_of(cx, mount)?.filter(|other| other != id) {
            let folder = folder.display();
            return Err(Error::refused(format!(
                "at {folder} volume {other} is mounted, and not {id}"
            ))
            .hint(advise(
                "{} says how it came there; it is left as it is",
                [Remedy::Explain.into()],
            )));
        }
    }
    Ok(())
}
