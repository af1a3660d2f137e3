//! What a person may do although the guard refuses it.

use crate::driver::Driver;
use crate::driver::guard::departure::Departure;
use crate::driver::ownership::words;
use crate::model::error::{Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::Answer;
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

impl Driver<'_> {
    /// Everything on this machine that stops to work when the volume goes, in words.
    #[must_use]
    pub fn what_would_break(&self, id: &VolumeId) -> Vec<String> {
        let mut all: Vec<String> = self
            .own_mounts(id)
            .unwrap_or_default()
            .iter()
            .map(|mount| format!("the mount at {}", mount.target.display()))
            .collect();
        let numbers = self.numbers_of(Some(id), &[]);
        match self.census.device_users(&numbers) {
            Answer::Told(users) => all.extend(words::all_of(&users)),
            Answer::CannotTell(why) => {
                all.push(format!("whoever uses it: that cannot be told from here: {why}"));
            }
        }
        all
    }

    /// Unmounts the volume everywhere in this namespace, pods first, whoever uses it elsewhere.
    pub fn release(&self, id: &VolumeId) -> Result<Released> {
        let _lock = self.lock_alone(id)?;
        self.end_leftovers(id);
        let mut released = Released::default();
        let mut mounts = self.own_mounts(id)?;
        let disks = self.disks_of(Some(id), &[]).unwrap_or_default();
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
                    self.flush_if_last(&self.mounts.table()?, &mount, Some(id), soon())
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
            record.published.clear();
            record.refused.clear();
        })?;
        // Who kept what it held has the disk still: then the mark in the cloud stays, and goes with
        // a later call, or by the timer.
        self.unmark_mounted(id);
        if let Departure::Held(why) = self.departure_of_all(&disks, &[], Duration::ZERO) {
            released.held = Some(why);
        }
        Ok(released)
    }
}
