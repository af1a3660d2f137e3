//! The disks that a volume had, and what was on them.

use super::mounts::Staged;
use crate::disk::device::DeviceNumber;
use serde::{Deserialize, Serialize};

/// How many former disks are remembered.
const MOST_FORMER: usize = 16;

/// The volume's disks, and the file system on them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DiskRecord {
    /// A format that was started and has not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formatting: Option<Formatting>,
    /// Whether this machine ever mounted the volume. If so, it is never formatted again.
    #[serde(default)]
    pub was_mounted: bool,
    /// When the disk was last proven, in milliseconds since 1970. Later writes may be lost with the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
    /// The file system that was mounted last, or that a person accepted since. It outlives the unmount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<LastFileSystem>,
    /// The disks that the volume was mounted from since the boot. Their mounts may still exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<DiskMoment>,
}

impl DiskRecord {
    /// Records a disk that is or will be mounted. Its mounts may outlive it in any namespace.
    pub(super) fn is_mounted_from(&mut self, disk: DiskMoment) {
        // No other disk gets the number of a mounted one, so of all disks with one number only the last can be mounted.
        self.former.retain(|former| former.boot == disk.boot && former.number != disk.number);
        self.former.push(disk);
        let surplus = self.former.len().saturating_sub(MOST_FORMER);
        self.former.drain(..surplus);
    }

    /// Records which file system is mounted, and keeps the attachment of one that is known.
    pub(super) fn saw_file_system(&mut self, staged: &Staged) {
        let Staged { uuid, disk, .. } = staged;
        let before = self.file_system.take();
        let same = before.filter(|last| last.uuid == *uuid && last.disk.is_of(disk));
        let attachment = same.and_then(|last| last.attachment);
        let (uuid, disk) = (uuid.clone(), disk.clone());
        self.file_system = (!uuid.is_empty()).then_some(LastFileSystem { uuid, disk, attachment });
    }

    /// The numbers of the disks that the volume was mounted from since this boot.
    pub fn former_numbers(&self, boot: &str) -> impl Iterator<Item = DeviceNumber> {
        self.former.iter().filter(move |former| former.boot == boot).map(|former| former.number)
    }
}

/// One plug-in of a disk: a disk that leaves and comes back is another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskMoment {
    pub number: DeviceNumber,
    /// The kernel's disk sequence number, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    pub size: u64,
    /// The boot id: numbers are reused after a reboot.
    pub boot: String,
}

impl DiskMoment {
    /// Whether both are the same plug-in of a disk, or the same map. It may have grown in between.
    pub fn is_of(&self, other: &Self) -> bool {
        (self.number, self.sequence, &self.boot) == (other.number, other.sequence, &other.boot)
    }
}

#[cfg(any(test, debug_assertions))]
impl DiskMoment {
    /// A disk of this minor number, in this boot.
    pub fn of_a_test(minor: u32, boot: &str) -> Self {
        let number = DeviceNumber { major: 7, minor };
        Self { number, sequence: None, size: 1 << 20, boot: boot.to_owned() }
    }
}

/// A format that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formatting {
    pub disk: DiskMoment,
    /// The file system to be made.
    pub fs_type: String,
    /// Its UUID. Earlier versions cannot read the record without it.
    pub uuid: String,
}

/// A file system that was mounted, and the volume's attachment at the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFileSystem {
    pub uuid: String,
    pub disk: DiskMoment,
    /// The cloud's id of the attachment, if it was asked. A later attachment has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<String>,
}

impl LastFileSystem {
    /// Whether the volume is still in the same attachment: by the cloud's ids if both are known, otherwise by the
    /// disk.
    pub fn is_same_attachment(&self, attachment: Option<&str>, disk: &DiskMoment) -> bool {
        match (self.attachment.as_deref(), attachment) {
            (Some(then), Some(now)) => then == now,
            _ => self.disk.is_of(disk),
        }
    }
}
