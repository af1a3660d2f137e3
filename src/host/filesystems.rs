//! File systems: looked at in our own process, made and mended by the system's tools, grown by
//! the kernel.

use super::nodes::{self, Node};
use super::{FileSystems, NewFileSystem, kernel, tool};
use crate::model::contents::{self, Contents, FsType, Sample};
use crate::model::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::time::Deadline;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// File systems of this machine's kernel and tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelFileSystems;

impl FileSystems for KernelFileSystems {
    fn look(&self, device: &Device) -> Result<Contents> {
        let disk = nodes::open_to_read(device)?;
        let edge = contents::EDGE.min(device.size);
        let head = sample(&disk, device, 0, edge)?;
        // A file system is told by its head; only a disk that may be blank is read on.
        let verdict = contents::judge(std::slice::from_ref(&head));
        if verdict != Contents::Blank {
            return Ok(verdict);
        }
        let mut samples = vec![head, sample(&disk, device, device.size - edge, edge)?];
        for place in contents::BACKUP_PLACES {
            const BLOCK: u64 = 4096;
            if place + BLOCK <= device.size {
                samples.push(sample(&disk, device, place, BLOCK)?);
            }
        }
        Ok(contents::judge(&samples))
    }

    fn make(
        &self,
        id: &VolumeId,
        device: &Device,
        plan: &NewFileSystem,
        deadline: Deadline,
    ) -> Result<()> {
        let node = Node::labelled(id, device)?;
        let path = node.path().to_string_lossy();
        let program = format!("mkfs.{}", plan.kind);
        let uuid_option = format!("uuid={}", plan.uuid);
        let mut arguments: Vec<&str> = match plan.kind {
            // No blocks are kept for root: a volume has one user.
            FsType::Ext3 | FsType::Ext4 => vec!["-q", "-m", "0", "-U", &plan.uuid],
            FsType::Xfs => vec!["-q", "-m", &uuid_option],
        };
        if plan.again {
            arguments.push(match plan.kind {
                FsType::Ext3 | FsType::Ext4 => "-F",
                FsType::Xfs => "-f",
            });
        }
        arguments.push(&path);
        let outcome = tool::run(&program, &arguments, deadline)?;
        match outcome.status {
            Some(0) => Ok(()),
            status => Err(Error::new(
                Kind::Host,
                format!("{program} {}: {}", ended(status), outcome.last_line()),
            )),
        }
    }

    fn check(
        &self,
        id: &VolumeId,
        device: &Device,
        kind: FsType,
        deadline: Deadline,
    ) -> Result<()> {
        /// e2fsck(8): 1 and 2 are bits for "errors were corrected".
        const MENDED: i32 = 1 | 2;
        if kind == FsType::Xfs {
            // The kernel replays the log at mount; xfs_repair would refuse before that.
            return Ok(());
        }
        let node = Node::labelled(id, device)?;
        let path = node.path().to_string_lossy();
        let outcome = tool::run("e2fsck", &["-p", &path], deadline)?;
        match outcome.status {
            Some(0) => Ok(()),
            Some(status) if status & !MENDED == 0 => {
                tracing::warn!(disk = %device.kernel_name, text = %outcome.last_line(), "e2fsck mended the file system");
                Ok(())
            }
            status => Err(Error::refused(format!(
                "e2fsck {} on {}: {}",
                ended(status),
                device.kernel_name,
                outcome.last_line()
            ))
            .hint(format!("run e2fsck by hand on {}", device.kernel_node().display()))),
        }
    }

    fn grow(&self, mounted_at: &Path, kind: FsType, device: &Device) -> Result<u64> {
        let root = File::open(mounted_at)
            .map_err(|error| Error::io(format!("open {}", mounted_at.display()), &error))?;
        let failed = |errno: nix::errno::Errno| {
            Error::io(format!("grow the {kind} at {}", mounted_at.display()), &errno.into()).hint(
                match errno {
                    // ext4_resize_begin() asks for more than root's usual right to mount.
                    nix::errno::Errno::EPERM => {
                        "growing ext4 takes the capability CAP_SYS_RESOURCE"
                    }
                    _ => "the kernel's log has the reason",
                },
            )
        };
        match kind {
            FsType::Ext3 | FsType::Ext4 => {
                let block = nix::sys::statfs::fstatfs(&root).map_err(failed)?.block_size();
                let block = u64::try_from(block).unwrap_or(0).max(1024);
                kernel::ext_grow(&root, device.size / block).map_err(failed)?;
                match self.look(device)? {
                    Contents::FileSystem(found) => Ok(found.size),
                    Contents::Blank | Contents::Foreign(_) | Contents::Unknown(_) => {
                        Err(Error::refused(format!(
                            "{} shows no file system after it grew",
                            device.kernel_name
                        )))
                    }
                }
            }
            FsType::Xfs => {
                let before = kernel::xfs_geometry(&root).map_err(failed)?;
                let block = u64::from(before.block_size).max(512);
                if device.size / block > before.data_blocks {
                    kernel::xfs_grow(&root, device.size / block).map_err(failed)?;
                }
                let after = kernel::xfs_geometry(&root).map_err(failed)?;
                Ok(after.data_blocks.saturating_mul(block))
            }
        }
    }
}

fn ended(status: Option<i32>) -> String {
    status.map_or_else(|| "was killed".to_owned(), |status| format!("ended with status {status}"))
}

fn sample(disk: &File, device: &Device, offset: u64, length: u64) -> Result<Sample> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    disk.read_exact_at(&mut bytes, offset).map_err(|error| {
        let place = format!("read {length} bytes of {} at offset {offset}", device.kernel_name);
        // A disk that cannot be read is not a blank disk.
        Error { kind: Kind::Refused, ..Error::io(place, &error) }
            .hint("nothing was changed; look at the disk's health in the kernel's log")
    })?;
    Ok(Sample { offset, bytes })
}
