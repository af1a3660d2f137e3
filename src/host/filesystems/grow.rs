//! Growing a mounted file system, by the kernel's own requests.

use crate::kernel;
use crate::model::disk::contents::{Contents, FsType};
use crate::model::disk::device::Device;
use crate::model::disk::formatting::leaves_room;
use crate::model::error::{Error, Result};
use crate::ports::clock::Deadline;
use crate::ports::host::FileSystems;
use nix::errno::Errno;
use std::fs::File;
use std::path::Path;

/// Grows to the whole disk; answers how many bytes the file system covers then.
pub(super) fn grow(
    file_systems: &dyn FileSystems,
    (root, place): (&File, &Path),
    kind: FsType,
    device: &Device,
    deadline: Deadline,
) -> Result<u64> {
    let failed = |errno: Errno| {
        Error::io(format!("grow the {kind} at {}", place.display()), &errno.into()).hint(
            match errno {
                // ext4_resize_begin() asks for more than root's usual right to mount.
                Errno::EPERM => "growing ext4 takes the capability CAP_SYS_RESOURCE",
                _ => "the kernel's log has the reason",
            },
        )
    };
    match kind {
        FsType::Ext3 | FsType::Ext4 => {
            let block = nix::sys::statfs::fstatfs(root).map_err(failed)?.block_size();
            let block = u64::try_from(block).unwrap_or(0).max(1024);
            match kernel::ext_grow(root, device.size / block) {
                Ok(()) => covered(file_systems, device, deadline),
                // The kernel asks for the capability first, also where there is nothing to grow.
                Err(Errno::EPERM) => match covered(file_systems, device, deadline)? {
                    covered if leaves_room(covered, device.size) => Err(failed(Errno::EPERM)),
                    covered => Ok(covered),
                },
                Err(errno) => Err(failed(errno)),
            }
        }
        FsType::Xfs => {
            let before = kernel::xfs_geometry(root).map_err(failed)?;
            let block = u64::from(before.block_size).max(512);
            if device.size / block > before.data_blocks {
                kernel::xfs_grow(root, device.size / block).map_err(failed)?;
            }
            let after = kernel::xfs_geometry(root).map_err(failed)?;
            Ok(after.data_blocks.saturating_mul(block))
        }
        FsType::Btrfs => {
            kernel::btrfs_grow(root).map_err(failed)?;
            // The superblock on the disk follows with the next transaction.
            nix::unistd::syncfs(root).map_err(failed)?;
            covered(file_systems, device, deadline)
        }
    }
}

fn covered(file_systems: &dyn FileSystems, device: &Device, deadline: Deadline) -> Result<u64> {
    match file_systems.look(device, deadline)? {
        Contents::FileSystem(found) => Ok(found.size),
        Contents::Blank | Contents::Foreign(_) | Contents::Unknown(_) => Err(Error::refused(
            format!("{} shows no file system after it grew", device.kernel_name),
        )),
    }
}
