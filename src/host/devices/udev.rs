//! libudev, in this one file: its monitor, and the disks that it knows under a serial.
//!
//! What udev says is a hint: a disk is proven by sysfs alone. Without the feature `udev` the
//! binary needs no library and works by sysfs and the kernel's events.

use crate::model::disk::device::DeviceNumber;
use crate::model::ids::VolumeId;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use udev::{Enumerator, MonitorBuilder, MonitorSocket};

/// Events that udevd sends when its rules are through.
pub(super) struct Monitor {
    socket: MonitorSocket,
}

impl Monitor {
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self { socket: MonitorBuilder::new()?.match_subsystem("block")?.listen()? })
    }

    /// Takes what has come; says whether there was anything.
    pub(super) fn drain(&self) -> bool {
        self.socket.iter().count() > 0
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The disks that udev's database knows under one of these serials.
pub(super) fn disks_with_serial(id: &VolumeId) -> io::Result<Vec<DeviceNumber>> {
    let mut found = Vec::new();
    for property in ["ID_SERIAL", "ID_SERIAL_SHORT"] {
        for serial in [id.virtio_serial(), id.as_str()] {
            let mut all = Enumerator::new()?;
            all.match_subsystem("block")?;
            all.match_property(property, serial)?;
            let disks =
                all.scan_devices()?.filter(|disk| disk.devtype().is_some_and(|t| t == "disk"));
            found.extend(disks.filter_map(|disk| number_of(disk.devnum()?)));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn number_of(raw: u64) -> Option<DeviceNumber> {
    let major = u32::try_from(nix::sys::stat::major(raw)).ok()?;
    let minor = u32::try_from(nix::sys::stat::minor(raw)).ok()?;
    Some(DeviceNumber { major, minor })
}
