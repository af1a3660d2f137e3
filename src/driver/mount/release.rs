//! What a person may do although the guard refuses it.

use crate::guard::flush::Flushing;
use crate::guard::free_disks::{DiskState, FreeDisks};
use crate::guard::remote_mark::RemoteMarks;
use crate::heal::recovery::Recovery;
use crate::host::clock::Deadline;
use crate::host::records::Records;
use crate::host::{Census, Devices, Mounts};
use crate::lookup::disk_numbers::DiskNumbers;
use crate::lookup::locking::Locking;
use crate::lookup::own_maps::OwnMaps;
use crate::model::error::{Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::Answer;
use crate::ownership::words;
use std::path::PathBuf;
use std::time::Duration;

/// What a release came to.
#[derive(Debug, Default)]
pub struct Released {
    /// The folders that were unmounted.
    pub folders: Vec<PathBuf>,
    /// Why written data did not reach the disk, if it did not.
    pub lost: Option<String>,
    /// Who has the disk still, and what ends it.
    pub held: Option<String>,
}
/// How long one unmount is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a person gives up.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct Releasing<'a> {
    pub(crate) devices: &'a dyn Devices,
    pub(crate) mounts: &'a dyn Mounts,
    pub(crate) records: &'a Records,
    pub(crate) census: &'a dyn Census,
    pub(crate) deadline: Deadline,
    pub(crate) locking: &'a Locking<'a>,
    pub(crate) numbers: &'a DiskNumbers<'a>,
    pub(crate) flushing: &'a Flushing<'a>,
    pub(crate) free_disks: &'a FreeDisks<'a>,
    pub(crate) marks: &'a RemoteMarks<'a>,
    pub(crate) recovery: &'a Recovery<'a>,
    pub(crate) own_maps: &'a OwnMaps<'a>,
}

impl Releasing<'_> {
    /// Everything on this machine that stops to work when the volume goes, in words.
    #[must_use]
    pub fn what_would_break(&self, id: &VolumeId) -> Vec<String> {
        let mut all: Vec<String> = self
            .numbers
            .own_mounts(id)
            .unwrap_or_default()
            .iter()
            .map(|mount| format!("the mount at {}", mount.target.display()))
            .collect();
        if let Some(map) = self.own_maps.seen(id) {
            let (name, state) = (&map.kernel_name, map.state());
            let (what, open) = if state.waits() { ("waits in", "") } else { ("has", " open") };
            all.push(format!("what {what} the map {name}{open}, which {}", state.words()));
        }
        let numbers = self.numbers.numbers_of(Some(id), &[]);
        match self.census.device_users(&numbers) {
            Answer::Told(users) => {
                all.extend(words::all_of(&users));
                let hidden = users.untold.iter().filter(|one| one.way_out.is_some());
                all.extend(hidden.map(|one| format!("perhaps more: {one}")));
            }
            Answer::CannotTell(why) => {
                all.push(format!("its users: they cannot be told from here: {why}"));
            }
        }
        all
    }

    /// Whether what has the volume open would wait for its disk, were that detached by force; where it cannot be told,
    /// it would fail.
    #[must_use]
    pub fn would_wait(&self, id: &VolumeId) -> bool {
        self.own_maps.would_wait(id).unwrap_or(false)
    }

    /// Whether it waits now.
    #[must_use]
    pub fn waits(&self, id: &VolumeId) -> bool {
        self.own_maps.waited_for(id).is_ok_and(|map| map.is_some())
    }

    /// Unmounts the volume everywhere in this namespace, pods first, whatever uses it elsewhere.
    pub fn release(&self, id: &VolumeId) -> Result<Released> {
        let _lock = self.locking.lock_alone(id)?;
        // What waits has no end else: neither an unmount nor a process that is killed.
        self.own_maps.end_wait(id)?;
        self.recovery.end_leftovers(id);
        let mut released = Released::default();
        let mut mounts = self.numbers.own_mounts(id)?;
        let disks = self.free_disks.disks_of(Some(id), &[]).unwrap_or_default();
        // What was mounted last goes first: pods before the global folder.
        mounts.reverse();
        for mount in mounts {
            let folder = &mount.target;
            tracing::warn!(volume = %id, folder = %folder.display(), "unmounted by a person, despite the guard");
            // A disk that hangs is not waited for.
            let soon = || self.deadline.at_most(PATIENCE);
            // What is lost is lost, and the person wants it unmounted; but it is told.
            if !self.devices.is_gone(mount.disk).unwrap_or(false)
                && let Err(error) =
                    self.flushing.flush_if_last(&self.mounts.table()?, &mount, Some(id), soon())
            {
                tracing::error!(volume = %id, %error, "written data is lost");
                released.lost.get_or_insert(error.cause);
            }
            if let Err(error) = self.mounts.unmount(&mount, soon()) {
                if !matches!(error.kind, Kind::Busy | Kind::Timeout) {
                    return Err(error);
                }
                tracing::warn!(volume = %id, %error, "busy: its users keep what they hold");
                let is_there = self.mounts.table()?.mounts().iter().any(|one| one.id == mount.id);
                if is_there {
                    self.mounts.unmount_dead(&mount, soon())?;
                }
            }
            released.folders.push(folder.clone());
        }
        self.records.update(id, |record| {
            record.is_unstaged();
            record.is_unpublished_everywhere();
            record.refused.clear();
        })?;
        self.recovery.remove_link(id);
        // Who kept what it held has the disk still: then the mark in the cloud stays, and goes with
        // a later call, or by the timer.
        self.marks.unmark_mounted(id);
        if let DiskState::Held(why) = self.free_disks.state_of_all(&disks, &[], Duration::ZERO) {
            released.held = Some(why);
        } else if let Err(error) = self.own_maps.take_off(id) {
            released.held = Some(error.cause);
        }
        Ok(released)
    }
}
