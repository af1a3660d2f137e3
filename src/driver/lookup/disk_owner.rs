//! Which volume a disk shows that it is.

use crate::context::Context;
use crate::model::advice::{Remedy, advise};
use crate::model::disk::device::{DeviceNumber, Proof, Shown};
use crate::model::error::{Error, Result};
use crate::model::ids::{VIRTIO_SERIAL_LENGTH, VolumeId};
use crate::model::mount::label;
use crate::model::mount::mountinfo::{Mount, MountTable};
use std::path::Path;

/// The volume that the disk of this number shows by its whole id.
pub(crate) fn volume_on(cx: &Context<'_>, number: DeviceNumber) -> Result<Option<VolumeId>> {
    let shown = cx.host.devices.shown_by(number)?.unwrap_or_default();
    let ids = shown.iter().filter_map(|one| match one {
        Shown::Serial { text, .. } => VolumeId::parse(text).ok(),
        Shown::BackingFile(path) => VolumeId::parse(path.file_stem()?.to_str()?).ok(),
        Shown::LongBackingFile => None,
    });
    // A file of that name may be another's, and a serial of just the length to which one is
    // cut may be: the way back must lead to the same disk, and prove it whole.
    let proven = |id: &VolumeId| {
        cx.cloud.identity(id).proven_by(&shown) == Some(Proof::Whole)
            && (id.as_str().len() != VIRTIO_SERIAL_LENGTH || is_image(&shown))
    };
    Ok(ids.into_iter().find(proven))
}

/// The volume of a mount: the one that its disk shows, else the one of its label.
pub(crate) fn volume_of(cx: &Context<'_>, mount: &Mount) -> Result<Option<VolumeId>> {
    Ok(volume_on(cx, mount.disk)?.or_else(|| label::owner_of(mount)))
}

fn is_image(shown: &[Shown]) -> bool {
    shown.iter().any(|one| matches!(one, Shown::BackingFile(_)))
}

/// A caller that names the volume by its id means no other one, whatever is mounted at the folder.
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
