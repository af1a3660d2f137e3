//! The libudev adapter. libudev is a dynamic library, so the static driver is built without this crate.

use incloud_disk_model::disk::device::{DeviceNumber, Shown};
use incloud_disk_ports::host::{Udev, UdevDisk, UdevMonitor};
use nix::libc::dev_t;
use nix::sys::stat::{major, makedev, minor};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use udev::{Device, DeviceType, Enumerator, MonitorBuilder, MonitorSocket};

/// The properties that hold a serial, depending on the bus.
const SERIALS: [&str; 5] =
    ["ID_SERIAL_SHORT", "ID_SERIAL", "ID_SCSI_SERIAL", "ID_WWN_WITH_EXTENSION", "ID_WWN"];

#[derive(Debug)]
pub struct Libudev;

impl Udev for Libudev {
    fn monitor(&self) -> io::Result<Box<dyn UdevMonitor>> {
        let socket = MonitorBuilder::new()?.match_subsystem("block")?.listen()?;
        Ok(Box::new(Monitor(socket)))
    }

    fn disks_with_serial(&self, serials: &[&str]) -> io::Result<Vec<DeviceNumber>> {
        let mut found = Vec::new();
        for property in ["ID_SERIAL", "ID_SERIAL_SHORT"] {
            for serial in serials {
                let mut all = Enumerator::new()?;
                all.match_subsystem("block")?;
                all.match_property(property, serial)?;
                let is_disk = |one: &Device| one.devtype().is_some_and(|kind| kind == "disk");
                let disks = all.scan_devices()?.filter(is_disk);
                found.extend(disks.filter_map(|disk| number_of(disk.devnum()?)));
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn disk(&self, number: DeviceNumber) -> Option<UdevDisk> {
        let raw: dev_t = makedev(u64::from(number.major), u64::from(number.minor));
        let disk = Device::from_devnum(DeviceType::Block, raw).ok()?;
        let text = |name: &str| Some(disk.property_value(name)?.to_str()?.to_owned());
        let shown =
            SERIALS.iter().filter_map(|file| Some(Shown::Serial { file, text: text(file)? }));
        let links = text("DEVLINKS").unwrap_or_default();
        Some(UdevDisk {
            sysfs: disk.syspath().to_owned(),
            is_initialized: disk.is_initialized(),
            shown: shown.collect(),
            links: links.split_ascii_whitespace().map(PathBuf::from).collect(),
        })
    }
}

struct Monitor(MonitorSocket);

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl UdevMonitor for Monitor {
    fn drain(&self) -> bool {
        self.0.iter().count() > 0
    }
}

fn number_of(raw: u64) -> Option<DeviceNumber> {
    let (major, minor) = (major(raw).try_into().ok()?, minor(raw).try_into().ok()?);
    Some(DeviceNumber { major, minor })
}
