//! The disks that a volume had, and what was on them.

use super::mounts::Staged;
use crate::disk::device::DeviceNumber;
use serde::{Deserialize, Serialize};

/// More former disks are not remembered.
const MOST_FORMER: usize = 16;

/// The volume's disks, and the file system on them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DiskRecord {
    /// A format that was begun; gone when it was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formatting: Option<Formatting>,
    /// Whether this machine ever mounted the volume: then it is never formatted again.
    #[serde(default)]
    pub was_mounted: bool,
    /// When its disk was last proven, in milliseconds since 1970: what was written later may be lost
    /// with the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
    /// The file system that was mounted last, or that a person accepted since. Unlike what is staged it
    /// outlives the unmount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<LastFileSystem>,
    /// The disks of this boot that the volume was mounted from: their mounts may live on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<DiskMoment>,
}

impl DiskRecord {
    /// A mount of this disk is made now, or will be: it may live on in whatever namespace.
    pub(super) fn is_mounted_from(&mut self, disk: DiskMoment) {
        // While a mount stands no other disk has its number: of those that had it only the last one may have any.
        self.former.retain(|former| former.boot == disk.boot && former.number != disk.number);
        self.former.push(disk);
        let surplus = self.former.len().saturating_sub(MOST_FORMER);
        self.former.drain(..surplus);
    }

    /// Remembers which file system is mounted; of one that is known already also in which attachment.
    pub(super) fn saw_file_system(&mut self, staged: &Staged) {
        let Staged { uuid, disk, .. } = staged;
        let before = self.file_system.take();
        let same = before.filter(|last| last.uuid == *uuid && last.disk.is_of(disk));
        let attachment = same.and_then(|last| last.attachment);
        let (uuid, disk) = (uuid.clone(), disk.clone());
        self.file_system = (!uuid.is_empty()).then_some(LastFileSystem { uuid, disk, attachment });
    }

    /// The numbers of the disks that it was mounted from since this boot.
    pub fn former_numbers(&self, boot: &str) -> impl Iterator<Item = DeviceNumber> {
        self.former.iter().filter(move |former| former.boot == boot).map(|former| former.number)
    }
}

/// The disk as it was when something was begun on it: the same disk is the same plug-in of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskMoment {
    /// The number it had.
    pub number: DeviceNumber,
    /// The kernel's count of disks, where it keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The size it had.
    pub size: u64,
    /// The boot of the machine: numbers and counts begin anew with each.
    pub boot: String,
}

impl DiskMoment {
    /// Whether both are moments of one plug-in of a disk, or of one map: it may have grown in between.
    #[must_use]
    pub fn is_of(&self, other: &Self) -> bool {
        (self.number, self.sequence, &self.boot) == (other.number, other.sequence, &other.boot)
    }
}

#[cfg(any(test, feature = "test-values"))]
impl DiskMoment {
    /// A disk of this minor number, in this boot.
    #[must_use]
    pub fn of_a_test(minor: u32, boot: &str) -> Self {
        let number = DeviceNumber { major: 7, minor };
        Self { number, sequence: None, size: 1 << 20, boot: boot.to_owned() }
    }
}

/// A format that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formatting {
    pub disk: DiskMoment,
    /// The file system that is being made.
    pub fs_type: String,
    /// Its UUID, without which earlier versions do not read the record.
    pub uuid: String,
}

/// A file system that was mounted, and in which attachment of the volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFileSystem {
    pub uuid: String,
    pub disk: DiskMoment,
    /// The cloud's own mark of the attachment, where it was asked: a later attachment has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<String>,
}

impl LastFileSystem {
    /// Whether a mount now is one in the same attachment: by the cloud's word where both are known, else
    /// by the disk, which is the same plug-in then.
    #[must_use]
    pub fn is_same_attachment(&self, attachment: Option<&str>, disk: &DiskMoment) -> bool {
        match (self.attachment.as_deref(), attachment) {
            (Some(then), Some(now)) => then == now,
            _ => self.disk.is_of(disk),
        }
    }
}
