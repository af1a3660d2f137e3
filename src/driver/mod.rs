//! Every decision: what "already so" means, what to wait for, what to refuse.
//!
//! The driver knows volumes, servers, disks and mounts, and nothing of the words in which it was
//! called. Each operation can be repeated, and killed at any point: the next try looks at what is
//! there and goes on.

pub mod attachment;
#[cfg(test)]
mod fakes;
pub mod guard;
pub mod heal;
pub mod lookup;
pub mod mount;
pub mod ownership;
pub mod report;

use crate::cloud::Cloud;
use crate::host::locks::Locks;
use crate::host::pace::Pace;
use crate::host::records::Records;
use crate::host::shared_answers::Answers;
use crate::host::{Census, Devices, FileSystems, Mounts, Processes, Switches};
use crate::model::config::{GuardConfig, HealMode, Takeover};
use crate::model::deadline::Deadline;
use crate::model::disk::device::Device;
use crate::model::ids::{NodeName, VolumeId, VolumeName};
use crate::model::mount::aftercare::After;
use crate::model::record::DiskMoment;
use std::path::Path;

/// Whether something had to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done now.
    Done,
    /// It was so already.
    Already,
}

/// A volume under the two names it goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// The cloud's.
    pub id: VolumeId,
    /// The orchestrator's; nothing if it says no more than the id.
    pub name: Option<VolumeName>,
}

impl Volume {
    /// A volume; a name that equals the id is left out.
    #[must_use]
    pub fn new(id: VolumeId, name: Option<VolumeName>) -> Self {
        let name = name.filter(|name| !name.is(&id));
        Self { id, name }
    }
}

/// Everything that one call works with.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct Driver<'a> {
    /// Who lends the volumes.
    pub cloud: &'a dyn Cloud,
    /// Disks of this machine.
    pub devices: &'a dyn Devices,
    /// What stands on them.
    pub file_systems: &'a dyn FileSystems,
    /// Where they are mounted.
    pub mounts: &'a dyn Mounts,
    /// What this machine remembers.
    pub records: &'a Records,
    /// Answers shared with other processes, where asking the cloud is dear.
    pub answers: Option<&'a Answers>,
    /// How long the cloud takes for its changes, where it answers before it is through.
    pub pace: Option<&'a Pace>,
    /// One lock for each volume.
    pub locks: &'a Locks,
    /// This machine's name.
    pub this_node: &'a NodeName,
    /// From which servers a volume may be taken.
    pub takeover: Takeover,
    /// Who uses what.
    pub census: &'a dyn Census,
    /// How a mount takes another's place.
    pub switches: &'a dyn Switches,
    /// Whether mounts of a disk that came back are repaired.
    pub heal: HealMode,
    /// What is done once they were.
    pub after: &'a After,
    /// Other processes of this machine.
    pub processes: &'a dyn Processes,
    /// A folder for mounts that nobody is to see.
    pub scratch: &'a Path,
    /// Whether tear-downs of volumes in use are refused.
    pub guard: &'a GuardConfig,
    /// The operation's name, for the lock file.
    pub operation: &'a str,
    /// When to answer at the latest.
    pub deadline: Deadline,
    /// What is counted on the way.
    pub tally: &'a report::call_counts::Tally,
}

impl Driver<'_> {}

/// The disk as it is now, for a record.
fn moment(disk: &Device) -> DiskMoment {
    DiskMoment {
        number: disk.number,
        sequence: disk.sequence,
        size: disk.size,
        boot: crate::host::machine::boot_id(),
    }
}
