//! Marks that the cloud could not be told, or asked for, when it was time: the timer makes up for it. Until then
//! nothing holds back a detach that is called on another machine.

use crate::driver::guard::remote_mark::RemoteMarks;
use crate::driver::lookup::find_disk::Disks;
use crate::driver::lookup::locking::Locking;
use crate::driver::operation::moment;
use crate::host::clock::Deadline;
use crate::host::locks::{Locked, Locks};
use crate::host::records::Records;
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use std::time::Duration;

/// The marks that this machine owes.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct OwedMarks<'a> {
    pub(in crate::driver) records: &'a Records,
    pub(in crate::driver) locks: &'a Locks,
    pub(in crate::driver) operation: &'a str,
    pub(in crate::driver) locking: &'a Locking<'a>,
    pub(in crate::driver) disks: &'a Disks<'a>,
    pub(in crate::driver) marks: &'a RemoteMarks<'a>,
}

impl OwedMarks<'_> {
    /// Leaves all of them, as far as that can be now.
    pub fn leave_all(&self) {
        let records = self.records.list().unwrap_or_default().into_iter();
        for record in records.filter(|record| self.marks.owes_mark(record)) {
            let id = &record.volume;
            // A call that works on it just now leaves its own.
            let now = Deadline::after(Duration::ZERO);
            let Ok(Locked::Held(_lock)) = self.locks.take(id, self.operation, now) else {
                continue;
            };
            if let Err(error) = self.leave(id) {
                tracing::debug!(volume = %id, %error, "its mark is not left yet");
            }
        }
    }

    /// The cloud is asked first, and then the disk is proven: so no other server can have come to it in between.
    fn leave(&self, id: &VolumeId) -> Result<()> {
        let record = self.records.load(id);
        let Some(staged) = record.staged.as_ref().filter(|_| self.marks.owes_mark(&record)) else {
            return Ok(());
        };
        self.locking.nothing_hangs(id)?;
        let Some(state) = self.marks.seen_here(id)? else { return Ok(()) };
        let disk = self.disks.disk(id)?;
        // A mount that has lost its disk is for the heal, which leaves the mark then.
        if !moment(&disk).is_of(&staged.disk) {
            return Ok(());
        }
        let Some(left) = self.marks.leave_mark(id, Some(state)) else { return Ok(()) };
        self.disks.prove_again(id, &disk)?;
        self.marks.remember_mark(id, left);
        tracing::info!(volume = %id, "the cloud was told that the volume is mounted here, which it could not be before");
        Ok(())
    }
}
