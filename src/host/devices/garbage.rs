//! The way into what reads the kernel's words about disks, for the fuzzer alone (`cfg(fuzzing)`).

use super::{events, sysfs};

/// Whether an event is about a disk.
pub fn event(bytes: &[u8]) -> bool {
    events::is_about_disks(bytes)
}

/// An attribute of a disk.
pub fn attribute(kind: u8, bytes: &[u8]) {
    const FILES: [&str; 4] = ["serial", "loop/backing_file", "device/vpd_pg80", "device/vpd_pg83"];
    let _ = sysfs::shown_in(bytes, FILES[usize::from(kind) % FILES.len()]);
}
