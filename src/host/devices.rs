//! Which block device is a volume's disk now: read from sysfs, on every call.
//!
//! No link and no name is followed. A disk is a volume's disk when sysfs shows the volume's serial
//! (or, for the local cloud, its image) at that device number.

use super::{Devices, Shown, kernel, nodes};
use crate::model::device::{Device, DeviceNumber, Identity};
use crate::model::error::{Error, Result};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kernel counts a disk's size in these, whatever its own sectors are.
const SECTOR: u64 = 512;

/// What the kernel appends to the name of a file that was removed.
const DELETED: &[u8] = b" (deleted)";

/// Devices as sysfs shows them.
#[derive(Debug, Clone)]
pub struct SysfsDevices {
    root: PathBuf,
}

impl Default for SysfsDevices {
    fn default() -> Self {
        Self::at(Path::new("/sys"))
    }
}

impl SysfsDevices {
    /// Devices below another root than `/sys`, for tests.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    fn names(&self) -> Result<Vec<String>> {
        let folder = self.root.join("block");
        let entries = fs::read_dir(&folder)
            .map_err(|error| Error::io(format!("read {}", folder.display()), &error))?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn folder(&self, kernel_name: &str) -> PathBuf {
        self.root.join("block").join(kernel_name)
    }

    /// The facts of a disk; nothing if it vanishes while we look.
    fn facts(&self, kernel_name: &str) -> Option<Device> {
        let folder = self.folder(kernel_name);
        Some(Device {
            kernel_name: kernel_name.to_owned(),
            number: text(&folder.join("dev"))?.parse().ok()?,
            size: text(&folder.join("size"))?.parse::<u64>().ok()?.checked_mul(SECTOR)?,
            read_only: text(&folder.join("ro"))? == "1",
            sequence: text(&folder.join("diskseq")).and_then(|text| text.parse().ok()),
        })
    }
}

impl Devices for SysfsDevices {
    fn find(&self, identity: &Identity) -> Result<Option<Device>> {
        let mut found: Vec<Device> = Vec::new();
        for name in self.names()? {
            if shows(&self.folder(&name), identity)
                && let Some(device) = self.facts(&name)
            {
                found.push(device);
            }
        }
        match found.len() {
            0 => Ok(None),
            1 => Ok(found.pop()),
            _ => {
                let names: Vec<_> =
                    found.iter().map(|d| format!("{} ({})", d.kernel_name, d.number)).collect();
                Err(Error::refused(format!(
                    "{identity} is shown by several disks: {}",
                    names.join(", ")
                ))
                .hint("detach the one that does not belong to this machine"))
            }
        }
    }

    fn shown_by(&self, number: DeviceNumber) -> Result<Option<Shown>> {
        let folder = self.root.join("dev/block").join(number.to_string());
        if !folder.exists() {
            return Ok(None);
        }
        if let Some(path) = backing_file(&folder) {
            return Ok(Some(Shown::BackingFile(path)));
        }
        let serial = serials(&folder).into_iter().next();
        Ok(Some(serial.map_or(Shown::Nothing, Shown::Serial)))
    }

    fn objection(&self, device: &Device) -> Result<Option<String>> {
        let folder = self.folder(&device.kernel_name);
        if device.size == 0 {
            return Ok(Some(format!("{} has size 0", device.kernel_name)));
        }
        let held_by = entries(&folder.join("holders"));
        if !held_by.is_empty() {
            let holders = held_by.join(", ");
            return Ok(Some(format!("{} is part of {holders}", device.kernel_name)));
        }
        let parts =
            entries(&folder).into_iter().find(|name| folder.join(name).join("partition").exists());
        Ok(parts.map(|part| format!("{} has partitions ({part})", device.kernel_name)))
    }

    fn is_free(&self, device: &Device) -> Result<bool> {
        nodes::is_free(device)
    }

    fn rescan(&self, device: &Device) -> Result<()> {
        if device.kernel_name.starts_with("loop") {
            let node = nodes::open_to_write(device)?;
            return kernel::loop_resize(&node).map_err(|errno| {
                Error::io(format!("resize {}", device.kernel_name), &errno.into())
            });
        }
        // SCSI disks must be told to look; virtio and NVMe disks notice by themselves.
        let path = self.folder(&device.kernel_name).join("device/rescan");
        if path.exists() {
            fs::write(&path, "1")
                .map_err(|error| Error::io(format!("write {}", path.display()), &error))?;
        }
        Ok(())
    }
}

fn shows(folder: &Path, identity: &Identity) -> bool {
    match identity {
        Identity::BackingFile(wanted) => backing_file(folder).as_ref() == Some(wanted),
        Identity::Serial(id) => serials(folder)
            .iter()
            .any(|serial| serial == id.as_str() || serial == id.virtio_serial()),
    }
}

/// The file behind a loop device. One that was removed counts as no file: the disk was pulled.
fn backing_file(folder: &Path) -> Option<PathBuf> {
    let bytes = fs::read(folder.join("loop/backing_file")).ok()?;
    let path = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    if path.is_empty() || path.ends_with(DELETED) {
        return None;
    }
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// Every serial number that a disk shows: virtio's own, SCSI page 0x80, `NVMe`'s.
fn serials(folder: &Path) -> Vec<String> {
    /// The page's header: device type, page code, and the length in two bytes.
    const PAGE_HEADER: usize = 4;
    let mut found: Vec<String> =
        ["serial", "device/serial"].iter().filter_map(|name| text(&folder.join(name))).collect();
    if let Ok(page) = fs::read(folder.join("device/vpd_pg80")) {
        let serial = page.get(PAGE_HEADER..).unwrap_or_default();
        found.push(trimmed(serial));
    }
    found.retain(|serial| !serial.is_empty());
    found
}

fn text(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| trimmed(&bytes))
}

fn trimmed(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}

fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::VolumeId;

    fn disk(root: &Path, name: &str, number: &str, files: &[(&str, &str)]) {
        let folder = root.join("block").join(name);
        let facts = [("dev", number), ("size", "2048\n"), ("ro", "0\n"), ("diskseq", "7\n")];
        for (file, contents) in facts.iter().chain(files) {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        fs::create_dir_all(root.join("dev/block")).unwrap();
        let link = root.join("dev/block").join(number);
        let _ = std::os::unix::fs::symlink(&folder, link);
    }

    fn serial(text: &str) -> Identity {
        Identity::Serial(VolumeId::parse(text).unwrap())
    }

    #[test]
    fn a_disk_is_found_by_what_it_shows() {
        let root = tempfile::tempdir().unwrap();
        let id = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
        disk(root.path(), "vda", "253:0", &[("serial", "root\n")]);
        disk(root.path(), "vdb", "253:16", &[("serial", "6f1c2d3e-4a5b-4c6d-8")]);
        disk(root.path(), "sda", "8:0", &[("device/vpd_pg80", "\0\u{1}\0\u{6}whole1 ")]);
        disk(root.path(), "loop3", "7:3", &[("loop/backing_file", "/i/v1.img\n")]);
        disk(root.path(), "loop4", "7:4", &[("loop/backing_file", "/i/v2.img (deleted)\n")]);
        let devices = SysfsDevices::at(root.path());
        let found = devices.find(&serial(id)).unwrap().unwrap();
        assert_eq!((found.kernel_name.as_str(), found.size), ("vdb", 1 << 20));
        assert_eq!(found.sequence, Some(7));
        assert_eq!(devices.find(&serial("whole1")).unwrap().unwrap().kernel_name, "sda");
        assert_eq!(devices.find(&serial("whole")).unwrap(), None);
        let image = |name: &str| Identity::BackingFile(PathBuf::from(name));
        assert_eq!(devices.find(&image("/i/v1.img")).unwrap().unwrap().kernel_name, "loop3");
        assert_eq!(devices.find(&image("/i/v2.img")).unwrap(), None, "pulled disks are absent");
        let shown = devices.shown_by("253:16".parse().unwrap()).unwrap();
        assert_eq!(shown, Some(Shown::Serial("6f1c2d3e-4a5b-4c6d-8".to_owned())));
        assert_eq!(devices.shown_by("9:9".parse().unwrap()).unwrap(), None);
        assert_eq!(devices.shown_by("7:4".parse().unwrap()).unwrap(), Some(Shown::Nothing));
    }

    #[test]
    fn two_disks_of_one_serial_are_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vdb", "253:16", &[("serial", "v1")]);
        disk(root.path(), "vdc", "253:32", &[("serial", "v1")]);
        let error = SysfsDevices::at(root.path()).find(&serial("v1")).unwrap_err();
        assert!(error.cause.contains("vdb") && error.cause.contains("vdc"), "{error}");
    }

    #[test]
    fn disks_in_other_use_are_objected_to() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), "vdb", "253:16", &[("serial", "a"), ("vdb1/partition", "1\n")]);
        disk(root.path(), "vdc", "253:32", &[("serial", "b"), ("holders/dm-0/x", "")]);
        disk(root.path(), "vdd", "253:48", &[("serial", "c")]);
        let devices = SysfsDevices::at(root.path());
        let objection = |id: &str| {
            let device = devices.find(&serial(id)).unwrap().unwrap();
            devices.objection(&device).unwrap()
        };
        assert!(objection("a").unwrap().contains("vdb1"));
        assert!(objection("b").unwrap().contains("dm-0"));
        assert_eq!(objection("c"), None);
    }
}
