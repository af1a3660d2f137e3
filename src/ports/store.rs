//! What a node remembers between calls, and what its calls share.

use crate::clock::Deadline;
use crate::model::advice::{Advice, Remedy, advise};
use crate::model::error::{Error, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use crate::model::record::VolumeRecord;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The volumes' records, and an index of their names.
pub trait Records {
    /// The volume's record. An unreadable one counts as empty, since it is a cache.
    fn load(&self, id: &VolumeId) -> VolumeRecord;
    /// All records; an error if they cannot be listed.
    fn list(&self) -> Result<Vec<VolumeRecord>>;
    /// The file of a volume's record, for people.
    fn file(&self, id: &VolumeId) -> PathBuf;
    /// Whether anything about the volume is recorded beyond a reboot. An error if that is uncertain; the caller decides
    /// what that means.
    fn has(&self, id: &VolumeId) -> Result<bool>;
    /// Changes a record. Callers use [`update`](#method.update).
    fn change(&self, id: &VolumeId, change: &mut dyn FnMut(&mut VolumeRecord)) -> Result<()>;
    /// Deletes the record.
    fn forget(&self, id: &VolumeId) -> Result<()>;
    /// The volume of this name.
    fn named(&self, name: &VolumeName) -> Option<VolumeId>;
    /// All names with their volumes.
    fn names(&self) -> Vec<(VolumeName, VolumeId)>;
    /// Adds a name to the index.
    fn note_name(&self, name: &VolumeName, id: &VolumeId) -> Result<()>;
    /// Other volumes whose disks show the same truncated serial.
    fn others_with_serial(&self, id: &VolumeId) -> Vec<VolumeId>;
}

impl dyn Records + '_ {
    /// Changes a record. The caller holds the volume's lock.
    pub fn update(&self, id: &VolumeId, change: impl FnOnce(&mut VolumeRecord)) -> Result<()> {
        let mut change = Some(change);
        self.change(id, &mut |record| {
            if let Some(change) = change.take() {
                change(record);
            }
        })
    }
}

/// One lock per volume.
pub trait Locks {
    /// Takes a volume's lock. Waits until the deadline, and then names its holder.
    fn take(&self, id: &VolumeId, operation: &str, deadline: Deadline) -> Result<Locked>;
    /// The volumes with a lock file, whether or not it is locked.
    fn files(&self) -> Vec<VolumeId>;
    /// The current holder, in words, without taking the lock.
    fn holder(&self, id: &VolumeId) -> Option<String>;
    /// The current holder, in words, if it is hung.
    fn hanging_holder(&self, id: &VolumeId) -> Option<String>;
    /// Hung processes that earlier calls on the volume left behind. The caller holds the volume's lock.
    fn stuck(&self, id: &VolumeId) -> Vec<StuckProcess>;
}

/// A held lock, until it is dropped.
pub type Lock = Box<dyn HeldLock>;

pub trait HeldLock: fmt::Debug {}

/// The result of taking a lock.
#[derive(Debug)]
pub enum Locked {
    Held(Lock),
    /// The directory is not writable, for this reason.
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
    /// The process and what it hangs on.
    pub description: String,
    pub what_ends_it: Advice,
    /// Whether it hangs on one of the driver's own files rather than the volume's disk.
    pub is_on_own_file: bool,
    /// The disk's number.
    pub disk: Option<String>,
    /// The disk's sequence number, which distinguishes it from a later one of the same number.
    pub sequence: Option<u64>,
}

/// What ends a process that hangs on a volume's disk.
pub fn what_ends_it() -> Advice {
    advise(
        "it was killed and ends when what it waits for comes back (the kernel's log has the reason); `{}` gives the disk up",
        [Remedy::DetachByForce.into()],
    )
}

/// The cloud's answers, shared between processes. An answer also serves calls that begin shortly after it was
/// requested.
pub trait Answers {
    /// The answer to a yes-or-no question about a volume: a fresh one of another process, otherwise a new one. Errors
    /// are not shared.
    fn shared(
        &self,
        id: &VolumeId,
        about: &str,
        deadline: Deadline,
        ask: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<bool>;
    /// Which server a node is; `None` if it certainly does not exist.
    fn server(
        &self,
        node: &NodeName,
        deadline: Deadline,
        ask: &mut dyn FnMut() -> Result<Option<ServerId>>,
    ) -> Result<Option<ServerId>>;
    /// Which server a node was a short while ago. A node keeps its server for life, so this is mostly still true; a
    /// caller that relies on it must verify it.
    fn recent_server(&self, node: &NodeName) -> Option<ServerId>;
    /// Records which server the node is.
    fn is_server(&self, node: &NodeName, server: &ServerId);
    /// Records that the answer about a volume is yes.
    fn is_so(&self, id: &VolumeId, about: &str);
    /// Drops the answers about a volume that is about to change.
    fn forget(&self, id: &VolumeId);
}

/// A change that the cloud completes after it has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Attach,
    Detach,
}

/// How long the cloud usually takes for a change, as measured on this node.
pub trait Pace {
    /// The usual time without delays.
    fn usual(&self, change: Change) -> Option<Duration>;
    /// Records a completed change.
    fn took(&self, change: Change, time: Duration);
}
