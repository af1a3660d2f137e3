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
use crate::host::Processes;
use crate::host::locks::{Locked, Locks};
use crate::host::pace::{Change, Pace};
use crate::host::records::Records;
use crate::host::shared_answers::Answers;
use crate::host::{Census, Devices, FileSystems, Mounts, Switches};
use crate::model::config::{GuardConfig, HealMode, Takeover};
use crate::model::deadline::{Deadline, Looks};
use crate::model::disk::device::Device;
use crate::model::ids::{NodeName, VolumeId, VolumeName};
use crate::model::mount::aftercare::After;
use crate::model::record::DiskMoment;
use std::path::Path;
use std::time::{Duration, Instant};

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

impl Driver<'_> {
    /// What was answered about the volume is about to change.
    fn forget_answers(&self, id: &VolumeId) {
        if let Some(answers) = self.answers {
            answers.forget(id);
        }
    }

    /// How long the cloud may show nothing of a request, or contradict itself, before it counts.
    /// Nova's row of a mapping dies moments after Cinder calls the volume available; a ghost stays.
    fn settle(&self) -> Deadline {
        const LONG_ENOUGH: Duration = Duration::from_secs(10);
        Deadline::after(LONG_ENOUGH.min(self.deadline.total() / 2))
    }

    /// The pauses between looks at a change that this call has just asked the cloud for.
    fn looks_at(&self, change: Change) -> Looks {
        Looks::at(self.pace.and_then(|pace| pace.usual(change)), self.deadline.total())
    }

    /// The cloud took this long for a change.
    fn note_pace(&self, change: Change, asked: Instant) {
        if let Some(pace) = self.pace {
            pace.took(change, asked.elapsed());
        }
    }

    /// The pauses between looks at the cloud, for whatever it is busy with.
    fn looks(&self) -> Looks {
        Looks::at_others(self.deadline.total())
    }

    /// Remembers which name belongs to the volume, so that a call that is only given the name
    /// finds it. It is a cache: a failure is logged, no more. The caller holds the volume's lock.
    fn remember_name(&self, volume: &Volume) {
        let Some(name) = &volume.name else { return };
        let remembered = self.records.update(&volume.id, |record| record.name = Some(name.clone()));
        if let Err(error) = remembered {
            tracing::debug!(%error, "the volume's name is not remembered");
        }
    }

    /// The same for a call that does not hold the volume's lock: whoever holds it now remembers
    /// the name as well, and must not find its record changed under its hands.
    fn remember_name_if_unlocked(&self, volume: &Volume) {
        let now = Deadline::after(Duration::ZERO);
        if let Ok(Locked::Held(_lock)) = self.locks.take(&volume.id, self.operation, now) {
            self.remember_name(volume);
        }
    }
}

/// The disk as it is now, for a record.
fn moment(disk: &Device) -> DiskMoment {
    DiskMoment {
        number: disk.number,
        sequence: disk.sequence,
        size: disk.size,
        boot: crate::host::machine::boot_id(),
    }
}
