//! What a machine remembers between calls, and what its calls share.

use crate::clock::Deadline;
use crate::model::advice::{Advice, Remedy, advise};
use crate::model::error::{Error, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use crate::model::record::VolumeRecord;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The records of volumes, and an index of their names.
pub trait Records {
    /// What is remembered of a volume. A record that cannot be read is none: it is a cache.
    fn load(&self, id: &VolumeId) -> VolumeRecord;
    /// All that is remembered: an error if it cannot be listed.
    fn list(&self) -> Result<Vec<VolumeRecord>>;
    /// The file of a volume's record, for people.
    fn file(&self, id: &VolumeId) -> PathBuf;
    /// Whether anything is remembered of a volume that outlives the machine's restart. What cannot be
    /// told is an error: the caller decides by what it does in doubt.
    fn has(&self, id: &VolumeId) -> Result<bool>;
    /// Changes what is remembered. Callers use [`update`](#method.update).
    fn change(&self, id: &VolumeId, change: &mut dyn FnMut(&mut VolumeRecord)) -> Result<()>;
    /// Forgets the volume.
    fn forget(&self, id: &VolumeId) -> Result<()>;
    /// The volume that has this name here.
    fn named(&self, name: &VolumeName) -> Option<VolumeId>;
    /// All names, with their volumes.
    fn names(&self) -> Vec<(VolumeName, VolumeId)>;
    /// Notes a name in the index.
    fn note_name(&self, name: &VolumeName, id: &VolumeId) -> Result<()>;
    /// Other volumes whose disks show the same cut serial.
    fn others_with_serial(&self, id: &VolumeId) -> Vec<VolumeId>;
}

impl dyn Records + '_ {
    /// Changes what is remembered. The caller holds the volume's lock.
    pub fn update(&self, id: &VolumeId, change: impl FnOnce(&mut VolumeRecord)) -> Result<()> {
        let mut change = Some(change);
        self.change(id, &mut |record| {
            if let Some(change) = change.take() {
                change(record);
            }
        })
    }
}

/// One lock for each volume.
pub trait Locks {
    /// Takes the lock of a volume; waits until the deadline, then says who has it.
    fn take(&self, id: &VolumeId, operation: &str, deadline: Deadline) -> Result<Locked>;
    /// The volumes whose locks have a file, whether or not a process has the lock.
    fn files(&self) -> Vec<VolumeId>;
    /// Who has the lock of a volume now, in words. Nothing is locked to find out.
    fn holder(&self, id: &VolumeId) -> Option<String>;
    /// Who has the lock, in words, if that process does nothing more by itself.
    fn hanging_holder(&self, id: &VolumeId) -> Option<String>;
    /// Processes that earlier calls on the volume left behind, and that still hang. The caller holds
    /// the volume's lock.
    fn stuck(&self, id: &VolumeId) -> Vec<StuckProcess>;
}

/// A held lock, until it is dropped.
pub type Lock = Box<dyn HeldLock>;

/// What holds a lock.
pub trait HeldLock: fmt::Debug {}

/// What came of the wish for a lock.
#[derive(Debug)]
pub enum Locked {
    Held(Lock),
    /// The folder cannot be written: the reason.
    Impossible(Error),
}

impl Locked {
    /// The lock, for calls that must not go on without it.
    pub fn required(self) -> Result<Lock> {
        match self {
            Self::Held(lock) => Ok(lock),
            Self::Impossible(error) => {
                Err(error.hint("calls that mount need the lock folder: see paths.run_dir"))
            }
        }
    }
}

/// A killed process that hangs in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckProcess {
    /// What it is and where it hangs.
    pub description: String,
    pub what_ends_it: Advice,
    /// Whether it hangs on a file of the driver's own, and not on the volume's disk.
    pub is_on_own_file: bool,
    /// The disk, by number.
    pub disk: Option<String>,
    /// The kernel's count of disks, which tells this one from a later one of the same number.
    pub sequence: Option<u64>,
}

/// What ends a process that hangs on a volume's disk.
pub fn what_ends_it() -> Advice {
    advise(
        "it was killed and ends when what it waits for comes back (the kernel's log has the reason); `{}` gives the disk up",
        [Remedy::DetachByForce.into()],
    )
}

/// Answers of the cloud that processes share. An answer also serves calls that begin a moment after it was asked for.
pub trait Answers {
    /// The answer to a yes-or-no question about a volume: a fresh one of another process, else
    /// asked now. An error is an answer for its asker alone.
    fn shared(
        &self,
        id: &VolumeId,
        about: &str,
        deadline: Deadline,
        ask: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<bool>;
    /// Which server a node is. Nothing is a server that certainly does not exist.
    fn server(
        &self,
        node: &NodeName,
        deadline: Deadline,
        ask: &mut dyn FnMut() -> Result<Option<ServerId>>,
    ) -> Result<Option<ServerId>>;
    /// Which server a node was a short while ago. A node keeps its server for as long as it lives, so
    /// this is mostly still so; a caller that goes by it must see that it is.
    fn recent_server(&self, node: &NodeName) -> Option<ServerId>;
    /// The node was just seen to be this server.
    fn is_server(&self, node: &NodeName, server: &ServerId);
    /// The answer to a yes-or-no question about a volume is yes: it was just seen.
    fn is_so(&self, id: &VolumeId, about: &str);
    /// Forgets what was answered about a volume, for it is about to change.
    fn forget(&self, id: &VolumeId);
}

/// A change that the cloud makes after it has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Attach,
    Detach,
}

/// How long the cloud usually takes for a change, as the processes of this machine have seen it.
pub trait Pace {
    /// How long the change takes when nothing else is in its way.
    fn usual(&self, change: Change) -> Option<Duration>;
    /// The change was seen to be through after this time.
    fn took(&self, change: Change, time: Duration);
}
