//! Which disk a btrfs is on: its mounts show a number of no device, so the kernel is asked.

use crate::host::kernel;
use crate::host::safe_path::mount_id;
use crate::model::disk::contents::uuid_text;
use crate::model::disk::device::DeviceNumber;
use crate::model::face::Faces;
use crate::model::mount::mountinfo::{Mount, MountTable};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

/// Finds the disk of each btrfs of ours. Other people's mounts are not opened: theirs may hang.
pub(super) fn find_disks(table: &mut MountTable, faces: Faces) {
    for mount in table.mounts_mut().iter_mut().filter(|mount| is_ours(mount, faces)) {
        if let Some(disk) = disk_of(mount) {
            mount.disk = disk;
        }
    }
}

fn is_ours(mount: &Mount, faces: Faces) -> bool {
    mount.fs_type == "btrfs" && faces.place_of(&mount.target).is_some()
}

fn disk_of(mount: &Mount) -> Option<DeviceNumber> {
    let flags = nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW;
    let root = OpenOptions::new().read(true).custom_flags(flags).open(&mount.target).ok()?;
    // What is mounted on top of it is another mount. (Its device number says nothing: each
    // subvolume has one of its own.)
    if mount_id(&root).ok()? != mount.id {
        return None;
    }
    let info = kernel::btrfs_info(&root).ok()?;
    let folder = format!("/sys/fs/btrfs/{}/devices", uuid_text(&info.uuid));
    let disks: Vec<_> = fs::read_dir(folder).ok()?.flatten().collect();
    match disks.as_slice() {
        [disk] => fs::read_to_string(disk.path().join("dev")).ok()?.trim().parse().ok(),
        _ => None,
    }
}
