//! Disks in a made-up sysfs, below the folders in which the kernel shows how they are connected.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const PCI: &str = "pci0000:00/0000:00:05.0";

/// How a disk is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bus {
    /// By virtio, on a bus with this driver: `virtio-pci` is a hypervisor's.
    Virtio(&'static str),
    /// `NVMe`, by controllers of these transports.
    Nvme(&'static [&'static str]),
    /// SCSI, by a host with this driver, at this path of `/sys/devices`.
    Scsi(&'static str, &'static str),
    /// Nothing that the kernel has a driver of hardware for.
    Virtual,
}

pub const ISCSI: Bus = Bus::Scsi("iscsi_tcp", "platform/host4/session2/target4:0:0/4:0:0:0");
pub const USB: Bus =
    Bus::Scsi("uas", "pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/host6/target6:0:0/6:0:0:0");
pub const UNLISTED: Bus = Bus::Scsi("scsi_debug", "pseudo_0/adapter0/host7/target7:0:0/7:0:0:0");

impl Bus {
    /// That of a hypervisor's disk of this name.
    pub fn usual(name: &str) -> Self {
        if name.starts_with("sd") {
            Self::Scsi("virtio_scsi", "pci0000:00/0000:00:05.0/virtio3/host2/target2:0:0/2:0:0:0")
        } else if name.starts_with("nvme") {
            Self::Nvme(&["pcie"])
        } else {
            Self::Virtio("virtio-pci")
        }
    }
}

/// Makes the folder of a disk that is connected so. It is no disk before it is linked.
pub fn folder(sysfs: &Path, name: &str, bus: Bus) -> io::Result<PathBuf> {
    let devices = sysfs.join("devices");
    let link = |target: &str, link: PathBuf| {
        fs::create_dir_all(link.parent().unwrap_or(&link))?;
        if link.is_symlink() { Ok(()) } else { symlink(target, link) }
    };
    let file = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(path, text)
    };
    let folder = match bus {
        Bus::Virtio(driver) => {
            let bus = devices.join(PCI).join(driver);
            link(&format!("/drivers/{driver}"), bus.join("driver"))?;
            let folder = bus.join("virtio1/block").join(name);
            link("/drivers/virtio_blk", folder.join("device/driver"))?;
            folder
        }
        Bus::Nvme([one]) => {
            let folder = devices.join(PCI).join("nvme/nvme0").join(name);
            file(folder.join("device/transport"), one)?;
            folder
        }
        Bus::Nvme(several) => {
            let folder = devices.join("virtual/nvme-subsystem/nvme-subsys0").join(name);
            for (number, one) in several.iter().enumerate() {
                file(folder.join(format!("device/nvme{number}/transport")), one)?;
            }
            folder
        }
        Bus::Scsi(driver, path) => {
            let mut host = devices.clone();
            for part in Path::new(path) {
                host.push(part);
                let part = part.to_string_lossy();
                if let Some(number) = part.strip_prefix("host") {
                    file(host.join(format!("scsi_host/host{number}/proc_name")), driver)?;
                }
            }
            devices.join(path).join("block").join(name)
        }
        Bus::Virtual => devices.join("virtual/block").join(name),
    };
    fs::create_dir_all(folder.join("holders"))?;
    Ok(folder)
}

/// Makes a disk with these files, all of it at once.
pub fn disk(sysfs: &Path, name: &str, bus: Bus, files: &[(&str, &[u8])]) -> io::Result<PathBuf> {
    let new = folder(sysfs, name, bus)?;
    fs::create_dir_all(sysfs.join("block"))?;
    fs::create_dir_all(sysfs.join("dev/block"))?;
    let known = sysfs.join("block").join(name);
    for (file, text) in files {
        let path = new.join(file);
        fs::create_dir_all(path.parent().unwrap_or(&new))?;
        fs::write(path, text)?;
        if *file == "dev" {
            let number = String::from_utf8_lossy(text);
            let number = sysfs.join("dev/block").join(number.trim());
            symlink(Path::new("../../block").join(name), number)?;
        }
    }
    // Relative, as in the kernel's: the tree may be mounted elsewhere.
    let below = new.strip_prefix(sysfs).unwrap_or(&new);
    symlink(Path::new("..").join(below), known)?;
    Ok(new)
}
