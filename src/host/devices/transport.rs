//! How a disk is connected: read from what the kernel's drivers put into sysfs, and from nothing that
//! the disk itself answers.

use super::sysfs::{DiskFolder, unread};
use crate::files::{errno_of, is_absence};
use crate::model::disk::transport::Transport;
use crate::model::error::Result;
use std::fs;
use std::path::{Path, PathBuf};

impl DiskFolder {
    /// The disk's transport; that of a map of ours is its disk's.
    pub(super) fn transport(&self) -> Result<Transport> {
        if let Some(map) = self.own_map()? {
            let below = map.disk.filter(|disk| !disk.starts_with("dm-"));
            let path = below.map(|disk| self.sysfs().join("block").join(disk));
            let disk = path.map(|path| Self::open(self.sysfs(), &path)).transpose()?.flatten();
            return disk.map_or_else(|| Ok(Transport::named("virtual")), |disk| disk.transport());
        }
        let Some(path) = absent(self.path(), fs::canonicalize(self.path()))? else {
            return Ok(Transport::named("unknown"));
        };
        let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
        if let Some(transport) = Transport::of_path(&parts) {
            return Ok(transport);
        }
        if self.kernel_name().starts_with("nvme") {
            return Ok(Transport::of_nvme(&self.nvme_controllers()?));
        }
        if let Some((folder, host)) = ancestor(&path, "host") {
            let driver = text(&folder.join("scsi_host").join(host).join("proc_name"))?;
            return Ok(Transport::of_scsi(&parts, &driver.unwrap_or_default()));
        }
        let driver = driver_of(&path.join("device"))?;
        if driver.as_deref() == Some("virtio_blk") {
            let bus =
                ancestor(&path, "virtio").and_then(|(folder, _)| folder.parent().map(driver_of));
            return Ok(Transport::of_virtio(&bus.transpose()?.flatten().unwrap_or_default()));
        }
        Ok(match driver {
            Some(driver) => Transport::named(driver),
            None if self.kernel_name().starts_with("loop") => Transport::named("loop"),
            None => Transport::named("virtual"),
        })
    }

    /// The transports of all controllers that lead to an `NVMe` disk: of a subsystem there may be several.
    fn nvme_controllers(&self) -> Result<Vec<String>> {
        if let Some(one) = self.text("device/transport")? {
            return Ok(vec![one]);
        }
        let is_controller = |name: &String| {
            let number = name.strip_prefix("nvme").unwrap_or_default();
            !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
        };
        let all = self.entries("device")?.into_iter().filter(is_controller);
        let each = all.map(|name| self.text(&format!("device/{name}/transport")));
        each.map(|one| Ok(one?.unwrap_or_default())).collect()
    }
}

/// The last folder above the disk that the kernel named so, and its name: `host2`, `virtio3`.
fn ancestor<'p>(path: &'p Path, start: &str) -> Option<(&'p Path, &'p str)> {
    path.ancestors().skip(1).find_map(|folder| {
        let name = folder.file_name()?.to_str()?;
        let number = name.strip_prefix(start)?;
        let is_it = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
        is_it.then_some((folder, name))
    })
}

/// The name of the driver that a device is bound to.
fn driver_of(device: &Path) -> Result<Option<String>> {
    let link: Option<PathBuf> = absent(device, fs::read_link(device.join("driver")))?;
    Ok(link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned())))
}

fn text(path: &Path) -> Result<Option<String>> {
    Ok(absent(path, fs::read_to_string(path))?.map(|text| text.trim().to_owned()))
}

/// What is not there is nothing; what cannot be read is no proof of anything.
fn absent<T>(path: &Path, read: std::io::Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if is_absence(errno_of(&error)) => Ok(None),
        Err(error) => Err(unread(path, errno_of(&error))),
    }
}
