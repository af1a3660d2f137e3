//! libudev, in this one file: its monitor, its database, and whether udevd has processed a new disk.
//!
//! What udev says is a hint: a disk is proven by sysfs alone. Without the feature `udev` the
//! binary needs no library and works by sysfs and the kernel's events.

use super::udevd;
use crate::model::disk::device::{Device, DeviceNumber, Identity, Shown, UdevEntry};
use crate::model::ids::VolumeId;
use crate::ports::clock::Deadline;
use crate::ports::host::Events;
use nix::libc::dev_t;
use nix::sys::stat::makedev;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use udev::{DeviceType, Enumerator, MonitorBuilder, MonitorSocket};

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

fn disk(number: DeviceNumber) -> Option<udev::Device> {
    let raw: dev_t = makedev(u64::from(number.major), u64::from(number.minor));
    udev::Device::from_devnum(DeviceType::Block, raw).ok()
}

/// For this long after its node appeared udevd may work on a disk undisturbed. Measured from there and not from
/// the call, so that all calls together wait no longer for a udevd that is stopped.
const PATIENCE: Duration = Duration::from_secs(1);

/// The end of udevd's queue sends no event.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Waits until udevd has processed a disk that has just appeared: its rules read the disk, and whatever they start
/// may open it exclusively.
pub(super) fn wait_until_processed(device: &Device, watch: impl Fn() -> Box<dyn Events>) {
    let node = fs::symlink_metadata(device.kernel_node());
    let deadline = Deadline::after(node.map_or(Duration::ZERO, |node| time_left(&node)));
    let mut events = None;
    while !deadline.over() && !is_processed(device.number) {
        // What came before the subscription is seen by the second look.
        match &mut events {
            None => events = Some(watch()),
            Some(events) => events.wait(deadline.remaining().min(LOOK_EVERY)),
        }
        if deadline.over() {
            tracing::warn!(disk = %device.kernel_name, "udevd has not processed the new disk in time: going on without it");
        }
    }
}

fn time_left(node: &fs::Metadata) -> Duration {
    let since = Duration::new(
        node.ctime().try_into().unwrap_or_default(),
        node.ctime_nsec().try_into().unwrap_or_default(),
    );
    let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since);
    // A node from the future says nothing of its age.
    age.map_or(Duration::ZERO, |age| PATIENCE.saturating_sub(age))
}

fn is_processed(number: DeviceNumber) -> bool {
    !udevd::runs()
        || disk(number).is_none_or(|disk| disk.is_initialized())
            && !Path::new("/run/udev/queue").exists()
}

/// Whatever a bus calls its serial.
const SERIALS: [&str; 5] =
    ["ID_SERIAL_SHORT", "ID_SERIAL", "ID_SCSI_SERIAL", "ID_WWN_WITH_EXTENSION", "ID_WWN"];

/// What udev's database says about a disk of this sysfs, next to what proves it.
pub(super) fn entry(
    sysfs: &Path,
    wanted: &Identity,
    number: DeviceNumber,
    others: impl Fn() -> Vec<String>,
) -> Option<UdevEntry> {
    let disk = disk(number).filter(|disk| udevd::runs() && disk.syspath().starts_with(sysfs))?;
    let text = |name: &str| Some(disk.property_value(name)?.to_str()?.to_owned());
    let shown = SERIALS.iter().filter_map(|file| Some(Shown::Serial { file, text: text(file)? }));
    let links = text("DEVLINKS").unwrap_or_default();
    let links = links.split_ascii_whitespace().map(PathBuf::from).collect();
    let shown: Vec<_> = shown.collect();
    Some(UdevEntry::new(wanted, disk.is_initialized(), &shown, links, &others()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_new_node_is_left_to_udevd() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let left = time_left(&file.as_file().metadata().unwrap());
        assert!(left > Duration::ZERO && left <= PATIENCE, "{left:?}");
        assert_eq!(time_left(&fs::metadata("/usr").unwrap()), Duration::ZERO);
    }
}
