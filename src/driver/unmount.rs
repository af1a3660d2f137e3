//! Take a volume off a folder: the consumer's, or the one where it is staged.

use super::{Driver, Outcome};
use crate::host::Hidden;
use crate::model::config::GuardMode;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ConsumerId, VolumeId, VolumeName};
use crate::model::mountinfo::Mount;
use crate::model::record::VolumeRecord;
use crate::model::target::Target;
use crate::seam;
use std::path::Path;

/// Whose mount it is.
enum Ward<'a> {
    Consumer(&'a ConsumerId),
    Stage,
}

impl Ward<'_> {
    /// The name under which a refusal of it is remembered.
    fn tear_down(&self) -> String {
        match self {
            Self::Consumer(consumer) => format!("unmount {consumer}"),
            Self::Stage => "unmountdevice".to_owned(),
        }
    }
}

impl Driver<'_> {
    /// Unmounts the consumer's folder.
    pub fn unpublish(
        &self,
        name: &VolumeName,
        consumer: &ConsumerId,
        target: &Target,
    ) -> Result<Outcome> {
        self.take_off(name, target, &Ward::Consumer(consumer))
    }

    /// Unmounts the stage folder.
    pub fn unstage(&self, name: &VolumeName, target: &Target) -> Result<Outcome> {
        self.take_off(name, target, &Ward::Stage)
    }

    /// Nothing mounted, or no such folder: it is so already.
    fn take_off(&self, name: &VolumeName, target: &Target, ward: &Ward<'_>) -> Result<Outcome> {
        let Some(folder) = self.existing_folder(target)? else { return Ok(Outcome::Already) };
        let id = self.volume_mounted_at(name, &folder)?;
        let is_mounted = self.mounts.table()?.top_at(&folder).is_some();
        if id.is_none() && !is_mounted {
            return Ok(Outcome::Already);
        }
        // A mount whose disk is gone and that nobody remembers has no id left: then its name
        // serves as one, for it is still below this driver's folder.
        let key = id.clone().or_else(|| VolumeId::parse(name.as_str()).ok());
        let lock = |key: VolumeId| {
            // With nothing to take off a machine that cannot lock has nothing to fear.
            if is_mounted { self.lock(&key).map(Some) } else { self.lock_if_possible(&key) }
        };
        let _lock = key.map(lock).transpose()?;
        if let Some(id) = &id {
            self.set_back_for_good(id);
        }
        let outcome = self.unmount_guarded(&folder, id.as_ref(), ward)?;
        if let Some(id) = &id {
            self.end_refusals(id, &[&ward.tear_down()]);
        }
        // The record may name a mount that is gone since a reboot: it is put right either way.
        if let Some(id) = id.filter(|id| self.records.load(id).was_mounted) {
            let gone = |record: &mut VolumeRecord| match ward {
                Ward::Consumer(consumer) => drop(record.published.remove(*consumer)),
                Ward::Stage => {
                    record.is_unstaged();
                    // The guard has just looked, and it never consents without: nobody stands on
                    // any of them any more, and to look for them with each call takes longer than
                    // the call. Where nothing was mounted it was not asked.
                    let guard_looked = outcome == Outcome::Done
                        && self.guard.mode == GuardMode::Enforce
                        && self.guard.give_up_after.is_none();
                    if guard_looked {
                        record.former.clear();
                        record.unstaged = None;
                    }
                }
            };
            if let Err(error) = self.records.update(&id, gone) {
                tracing::warn!(volume = %id, %error, "the unmount is not remembered");
            }
            self.unmark_mounted(&id);
        }
        self.report_left_over(name, &folder);
        Ok(outcome)
    }

    fn existing_folder(&self, target: &Target) -> Result<Option<std::path::PathBuf>> {
        if !target.root.exists() {
            return Ok(None);
        }
        self.mounts.real_path(target).map(Some)
    }

    /// Asks the guard, unmounts, and looks again: a container may have started in between, and got
    /// the mount from this very folder. Then it is put back.
    fn unmount_guarded(
        &self,
        folder: &Path,
        id: Option<&VolumeId>,
        ward: &Ward<'_>,
    ) -> Result<Outcome> {
        let table = self.mounts.table()?;
        let mounted: Vec<_> = table.at(folder).map(|mount| mount.number).collect();
        if mounted.is_empty() {
            return Ok(Outcome::Already);
        }
        let Ward::Consumer(consumer) = ward else {
            self.guard_stage(id, &mounted)?;
            return self.unmount_all(folder, id);
        };
        self.guard_consumer(id, consumer, &mounted)?;
        let copy = self.mounts.copy_of(folder);
        seam::step("unmount.guarded");
        let outcome = self.unmount_all(folder, id)?;
        let Err(error) = self.guard_consumer(id, consumer, &mounted) else { return Ok(outcome) };
        if let Some(copy) = copy {
            self.mounts.put_back(copy, folder)?;
        }
        Err(error)
    }

    /// Takes off every mount that is stacked at the folder, top first.
    fn unmount_all(&self, folder: &Path, id: Option<&VolumeId>) -> Result<Outcome> {
        let mut outcome = Outcome::Already;
        loop {
            let table = self.mounts.table()?;
            let Some(mount) = table.top_at(folder) else { return Ok(outcome) };
            if self.devices.is_gone(mount.disk)? {
                tracing::warn!(folder = %folder.display(), number = %mount.disk, "the mount's disk is gone: unmounted whoever uses it");
                self.mounts.unmount_dead(folder, self.deadline)?;
            } else {
                let is_last = table.of(mount.number).count() == 1;
                if is_last {
                    self.flush(folder, mount, id)?;
                }
                self.unmount_one(folder)?;
            }
            seam::step("unmount.one");
            outcome = Outcome::Done;
        }
    }

    fn unmount_one(&self, folder: &Path) -> Result<()> {
        self.mounts.unmount(folder, self.deadline).map_err(|error| match error.kind {
            Kind::Busy => Error { cause: error.cause + &self.users_of(folder), ..error }
                .hint("a process of this machine uses files below that folder"),
            _ => error,
        })
    }

    /// Writes out what is still in memory, while an error can be told: after the last unmount
    /// nobody hears of it. It is told once for each mount, for what is lost stays lost, and a call
    /// that failed for ever would keep the volume here for ever.
    fn flush(&self, folder: &Path, mount: &Mount, id: Option<&VolumeId>) -> Result<()> {
        let told = |id: &VolumeId| self.records.load(id).told_lost_writes == Some(mount.id);
        let flushed = self.mounts.flush(folder, self.deadline);
        let untold = id.filter(|id| !told(id));
        let (error, id) = match (flushed, untold) {
            (Ok(()), Some(_)) => return Ok(()),
            (Ok(()), None) if id.is_none() => return Ok(()),
            (Err(error), _) if error.kind == Kind::Timeout => return Err(error),
            (Err(error), Some(id)) => (error, id),
            // The kernel tells an error once: that it is silent now saves nothing.
            (_, None) => {
                tracing::error!(folder = %folder.display(), "written data is lost; unmounting all the same");
                return Ok(());
            }
        };
        let mark = |record: &mut VolumeRecord| record.told_lost_writes = Some(mount.id);
        if let Err(also) = self.records.update(id, mark) {
            tracing::error!(%error, %also, "written data is lost, and this cannot be remembered");
            return Ok(());
        }
        Err(error.hint(
            "data that programs wrote did not reach the disk; the next try unmounts without it",
        ))
    }

    /// The orchestrator removes the folder, which it can only if it is empty. Nothing is ever
    /// deleted here.
    fn report_left_over(&self, name: &VolumeName, folder: &Path) {
        let Hidden { files, bytes, more } = self.mounts.hidden_in(folder);
        if files > 0 {
            let folder = folder.display();
            tracing::warn!(%name, %folder, files, bytes, more, "files were written into the folder while nothing was mounted there; somebody must move them, or the folder stays");
        }
    }
}
