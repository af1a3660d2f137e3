//! What a person may do although the guard refuses it.

use super::Driver;
use super::guard;
use crate::model::error::{Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mountinfo::Mount;
use crate::model::users::Answer;
use std::path::PathBuf;

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
            Answer::Told(users) => all.extend(guard::all_of(&users)),
            Answer::CannotTell(why) => {
                all.push(format!("whoever uses it: that cannot be told from here: {why}"));
            }
        }
        all
    }

    /// Unmounts the volume everywhere in this namespace, pods first, whoever uses it elsewhere.
    /// Answers the folders.
    pub fn release(&self, id: &VolumeId) -> Result<Vec<PathBuf>> {
        let _lock = self.lock(id)?;
        self.end_leftovers(id);
        let mut released = Vec::new();
        let mut mounts = self.own_mounts(id)?;
        // What was mounted last goes first: pods before the global folder.
        mounts.reverse();
        for mount in mounts {
            let folder = &mount.target;
            tracing::warn!(volume = %id, folder = %folder.display(), "unmounted by a person, despite the guard");
            if let Err(error) = self.mounts.unmount(&mount, self.deadline) {
                if error.kind != Kind::Busy {
                    return Err(error);
                }
                tracing::warn!(volume = %id, %error, "busy: its users keep what they hold");
                self.mounts.unmount_dead(&mount, self.deadline)?;
            }
            released.push(folder.clone());
        }
        self.records.update(id, |record| {
            record.is_unstaged();
            record.published.clear();
            record.refused.clear();
        })?;
        self.unmark_mounted(id);
        Ok(released)
    }

    fn own_mounts(&self, id: &VolumeId) -> Result<Vec<Mount>> {
        let numbers = self.numbers_of(Some(id), &[]);
        let table = self.mounts.table()?;
        let ours = table.mounts().iter().filter(|mount| numbers.contains(&mount.disk));
        Ok(ours.cloned().collect())
    }
}
