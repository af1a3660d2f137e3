//! Which disk a btrfs is on: its mounts show a number of no device, so the kernel is asked.

use crate::model::disk::contents::uuid_text;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Result};
use crate::model::face::Faces;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::safe_path::mount_id;
use crate::{files, kernel, worker};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// Finds the disk of each btrfs of ours. Other people's mounts are not opened: theirs may hang.
pub(super) fn find_disks(table: &mut MountTable, faces: Faces) -> Result<()> {
    for mount in table.mounts_mut().iter_mut().filter(|mount| is_ours(mount, faces)) {
        match disk_of(mount) {
            Ok(Some(disk)) => mount.disk = disk,
            // Without its disk a mount is no volume's.
            Err(error) if files::is_shortage(&error) => {
                let place = mount.target.display();
                return Err(Error::io(format!("tell which disk {place} is on"), &error));
            }
            Ok(None) | Err(_) => {}
        }
    }
    Ok(())
}

fn is_ours(mount: &Mount, faces: Faces) -> bool {
    mount.fs_type == "btrfs" && faces.place_of(&mount.target).is_some()
}

fn disk_of(mount: &Mount) -> io::Result<Option<DeviceNumber>> {
    let _doing = worker::doing(&format_args!("look at {}", mount.target.display()));
    let flags = nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW;
    let root = OpenOptions::new().read(true).custom_flags(flags).open(&mount.target)?;
    // What is mounted on top of it is another mount. (Its device number says nothing: each
    // subvolume has one of its own.)
    if mount_id(&root)? != mount.id {
        return Ok(None);
    }
    let info = kernel::btrfs_info(&root)?;
    let folder = format!("/sys/fs/btrfs/{}/devices", uuid_text(&info.uuid));
    let disks = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    match disks.as_slice() {
        [disk] => Ok(fs::read_to_string(disk.path().join("dev"))?.trim().parse().ok()),
        _ => Ok(None),
    }
}
