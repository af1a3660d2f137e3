//! Whether udevd is running, and whether it has processed a new disk.

use crate::model::disk::device::{Device, DeviceNumber};
use crate::ports::clock::Deadline;
use crate::ports::host::{Events, Udev};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How long udevd may work on a disk after its node appeared. Not counted from the call, so that all calls together
/// wait no longer for a stopped udevd.
const PATIENCE: Duration = Duration::from_secs(1);

/// The end of udevd's queue causes no event.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// systemd keeps its socket while udevd restarts.
pub(super) fn runs() -> bool {
    Path::new("/run/udev/control").exists()
}

/// Waits until udevd has processed a new disk: programs that its rules start may open it exclusively.
pub(super) fn wait_until_processed(
    udev: &dyn Udev,
    device: &Device,
    watch: impl Fn() -> Box<dyn Events>,
) {
    let node = fs::symlink_metadata(device.kernel_node());
    let deadline = Deadline::after(node.map_or(Duration::ZERO, |node| time_left(&node)));
    let mut events = None;
    while !deadline.over() && !is_processed(udev, device.number) {
        // The second check covers events before the subscription.
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
    // The age of a node from the future is unknown.
    age.map_or(Duration::ZERO, |age| PATIENCE.saturating_sub(age))
}

fn is_processed(udev: &dyn Udev, number: DeviceNumber) -> bool {
    !runs()
        || udev.disk(number).is_none_or(|disk| disk.is_initialized)
            && !Path::new("/run/udev/queue").exists()
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
