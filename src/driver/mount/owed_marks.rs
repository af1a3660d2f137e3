//! Marks that the cloud could not be told, or asked for, when it was time: the timer makes up for it. Until then
//! nothing holds back a detach that is called on another machine.

use crate::guard::remote_mark::RemoteMarks;
use crate::host::Mounts;
use crate::host::clock::Deadline;
use crate::host::locks::{Locked, Locks};
use crate::host::records::Records;
use crate::lookup::find_disk::Disks;
use crate::lookup::locking::Locking;
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::mount::sole_writer::SoleWriter;
use crate::mount::stage::Staging;
use std::time::Duration;

/// The marks that this machine owes.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct OwedMarks<'a> {
    pub(crate) mounts: &'a dyn Mounts,
    pub(crate) records: &'a Records,
    pub(crate) locks: &'a Locks,
    pub(crate) operation: &'a str,
    pub(crate) locking: &'a Locking<'a>,
    pub(crate) disks: &'a Disks<'a>,
    pub(crate) marks: &'a RemoteMarks<'a>,
    pub(crate) sole_writer: &'a SoleWriter<'a>,
    pub(crate) staging: &'a Staging<'a>,
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
            match self.leave(id) {
                Ok(true) => {
                    tracing::info!(volume = %id, "the mark in the cloud was looked for, and is there");
                }
                Ok(false) => {}
                Err(error) => tracing::debug!(volume = %id, %error, "the mark is not left yet"),
            }
        }
    }

    /// Whether it is there now. A volume whose disk is not here, or that is mounted from another one, costs no request: a
    /// heal is for it, and asks by itself.
    fn leave(&self, id: &VolumeId) -> Result<bool> {
        let record = self.records.load(id);
        let Some(staged) = record.staged.as_ref().filter(|_| self.marks.owes_mark(&record)) else {
            return Ok(false);
        };
        self.locking.nothing_hangs(id)?;
        let Some(disk) = self.disks.find_disk(id)? else { return Ok(false) };
        let look = self.mounts.standing_at(&staged.folder)?;
        if look.top()?.is_none_or(|mount| mount.disk != disk.number) {
            return Ok(false);
        }
        let Some(state) = self.sole_writer.seen_here(id)? else { return Ok(false) };
        self.staging.mark_proven(id, &disk, Some(state), staged.untouched)?;
        let now = self.records.load(id);
        Ok(now.has_mark() && now.mark_doubted_at.is_none())
    }
}
