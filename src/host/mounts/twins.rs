//! A clone or a snapshot beside its original: two file systems of one UUID on one machine. The kernel
//! refuses the second one with an error that says nothing of it.

use crate::host::kernel;
use crate::host::{MountRequest, Mounts};
use crate::model::disk::contents::{FsType, uuid_text};
use crate::model::error::Error;
use crate::model::mount::mountinfo::Mount;
use nix::errno::Errno;
use nix::libc::{O_DIRECTORY, O_NOFOLLOW};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

/// The error in words, if it is that one.
pub(super) fn refusal(request: &MountRequest<'_>, errno: Errno) -> Option<Error> {
    let disk = &request.device.kernel_name;
    let node = request.device.kernel_node();
    let (beside, way) = match (request.kind, errno) {
        (FsType::Xfs, Errno::EINVAL) => {
            let twin = xfs_twin(request)?;
            let (place, number) = (twin.target.display(), twin.disk);
            let way = format!("xfs_admin -U generate {}", node.display());
            (format!("as the one that is mounted at {place} (disk {number})"), way)
        }
        (FsType::Btrfs, Errno::EEXIST) => {
            let way = format!("btrfstune -u {}", node.display());
            ("as another disk that the kernel knows".to_owned(), way)
        }
        _ => return None,
    };
    let kind = request.kind;
    let error = Error::refused(format!(
        "the {kind} of disk {disk} has the same UUID {beside}: one is a clone of the other"
    ));
    Some(error.hint(format!("detach the other one first, or give this one its own UUID: {way}")))
}

/// A mounted xfs with the UUID of the one that is to be mounted. Only what the kernel has in memory
/// is asked for: the disks of other mounts are not read.
fn xfs_twin(request: &MountRequest<'_>) -> Option<Mount> {
    let table = super::KernelMounts.table().ok()?;
    let is_other = |mount: &&Mount| mount.fs_type == "xfs" && mount.disk != request.device.number;
    let uncovered =
        |mount: &&Mount| table.top_at(&mount.target).is_some_and(|top| top.id == mount.id);
    let mut others = table.mounts().iter().filter(is_other).filter(uncovered);
    others.find(|mount| uuid_at(mount).as_deref() == Some(request.uuid)).cloned()
}

fn uuid_at(mount: &Mount) -> Option<String> {
    let flags = O_DIRECTORY | O_NOFOLLOW;
    let root = OpenOptions::new().read(true).custom_flags(flags).open(&mount.target).ok()?;
    Some(uuid_text(&kernel::xfs_geometry(&root).ok()?.uuid))
}
