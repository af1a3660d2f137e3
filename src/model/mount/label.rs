//! The label of a volume's mounts: the name of the device node that they are made from.

use crate::disk::contents::FsType;
use crate::ids::VolumeId;
use crate::mount::mountinfo::Mount;
use std::path::{Path, PathBuf};

/// Where labelled nodes live while they are needed. It must be on devtmpfs (or another file
/// system that allows devices).
pub const FOLDER: &str = "/dev/incloud-disk";

/// What mounts of a volume have as their source.
pub fn label_of(id: &VolumeId) -> PathBuf {
    Path::new(FOLDER).join(id.as_str())
}

/// Whose a mount is, by its label.
pub fn owner_of(mount: &Mount) -> Option<VolumeId> {
    let label = Path::new(&mount.source).strip_prefix(FOLDER).ok()?;
    is_labelled(mount).then(|| VolumeId::parse(label.to_str()?).ok())?
}

/// Whether a mount has a label of ours. Any user can name a source as he likes where he may mount
/// something (FUSE, a tmpfs in a namespace of his own), but only root mounts these file systems.
pub fn is_labelled(mount: &Mount) -> bool {
    FsType::named(&mount.fs_type).is_some() && Path::new(&mount.source).starts_with(FOLDER)
}
