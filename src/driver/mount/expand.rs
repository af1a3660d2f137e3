//! Grow a volume: in the cloud, on the machine, and its file system, while it is mounted.

use crate::cloud::{Cloud, CloudVolume};
use crate::failpoints;
use crate::host::clock::Deadline;
use crate::host::{Devices, FileSystems, Mounts};
use crate::lookup::attachment_view::{Attachments, after_all};
use crate::lookup::find_disk::Disks;
use crate::lookup::locking::Locking;
use crate::lookup::memory::Memory;
use crate::model::cloud::attachment_state::VolumePhase;
use crate::model::disk::contents::FsType;
use crate::model::disk::device::Device;
use crate::model::disk::formatting::least_disk;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::layout::Target;
use crate::model::mount::mountinfo::Mount;
use crate::model::pauses::Steps;
use crate::operation::{Outcome, Volume};
use crate::ownership::mount_place::belonging;
use std::path::Path;
use std::time::Duration;

/// Volumes that grow.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct Expansion<'a> {
    pub(crate) cloud: &'a dyn Cloud,
    pub(crate) devices: &'a dyn Devices,
    pub(crate) file_systems: &'a dyn FileSystems,
    pub(crate) mounts: &'a dyn Mounts,
    pub(crate) deadline: Deadline,
    pub(crate) attachments: &'a Attachments<'a>,
    pub(crate) locking: &'a Locking<'a>,
    pub(crate) disks: &'a Disks<'a>,
    pub(crate) memory: &'a Memory<'a>,
}

impl Expansion<'_> {
    /// Makes the volume mounted at the folder, a stage or a consumer's, at least `bytes` large: in the cloud, on this machine,
    /// and its file system. What cannot grow here is not asked for in the cloud.
    pub fn expand(
        &self,
        volume: &Volume,
        folder: &Target,
        bytes: u64,
        hint: &str,
    ) -> Result<Outcome> {
        let _lock = self.locking.lock(&volume.id)?;
        self.memory.remember_name(volume);
        let folder = self.mounts.real_path(folder)?;
        let disk = self.disks.disk(&volume.id)?;
        self.disks.report_hint(&volume.id, hint, &disk);
        let _held = self.disks.hold(&volume.id, &disk)?;
        self.growing(&folder, &disk)?;

        let bytes = self.grow_in_cloud(&volume.id, bytes)?;
        let grown = self.wait_for_size(volume, bytes)?;
        failpoints::step("expand.sized");
        self.disks.prove_again(&volume.id, &disk)?;
        self.grow_file_system(volume, &disk, &grown, &folder, bytes)?;
        Ok(if disk.size < bytes { Outcome::Done } else { Outcome::Already })
    }

    /// The cloud's part: it needs nothing of the machine that has the volume. Answers how large the
    /// disk will be at least.
    fn grow_in_cloud(&self, id: &VolumeId, bytes: u64) -> Result<u64> {
        let state = self.attachments.existing(id)?;
        let is_encrypted = state.is_encrypted;
        if state.size < bytes {
            refuse_failed(&state)?;
            tracing::info!(volume = %id, from = state.size, to = bytes, "asking the cloud to extend");
            self.cloud.extend(id, bytes, self.deadline)?;
            failpoints::step("expand.requested");
            self.wait_for_extension(state, bytes)?;
        }
        // An encrypted volume's disk never has all of it.
        Ok(least_disk(bytes, is_encrypted))
    }

    /// The file system's part, on the disk that `grown` is now.
    fn grow_file_system(
        &self,
        volume: &Volume,
        disk: &Device,
        grown: &Device,
        folder: &Path,
        bytes: u64,
    ) -> Result<()> {
        // Looked at again: the cloud took its time, and the folder may lead elsewhere by now.
        let (mount, kind) = self.growing(folder, disk)?;
        let root = self.mounts.open_root(&mount)?;
        let covered = self.file_systems.grow((&root, folder), kind, grown, self.deadline)?;
        drop(root);
        self.disks.prove_again(&volume.id, disk)?;
        // The last group or allocation group may be too small to be used.
        let slack = (bytes / 100).max(1 << 20);
        if covered + slack < bytes {
            return Err(Error::new(
                Kind::Host,
                format!("the {kind} covers {covered} bytes after growing, {bytes} were asked for"),
            ));
        }
        Ok(())
    }

    /// The volume's mount at the folder, and what grows there.
    fn growing(&self, folder: &Path, disk: &Device) -> Result<(Mount, FsType)> {
        let look = self.mounts.standing_at(folder)?;
        let Some(mount) = belonging(&look, disk, folder)? else {
            return Err(Error::new(
                Kind::Missing,
                format!("nothing is mounted at {}", folder.display()),
            )
            .hint("a file system is grown while it is mounted"));
        };
        if mount.is_super_read_only() || mount.is_read_only() {
            return Err(Error::refused(format!("{} is read-only", folder.display()))
                .hint("a read-only file system cannot grow"));
        }
        let kind = FsType::named(&mount.fs_type)
            .ok_or_else(|| Error::refused(format!("a {} cannot be grown", mount.fs_type)))?;
        Ok((mount.clone(), kind))
    }

    /// The cloud takes the request and works on it: its disk grows when it has ended.
    fn wait_for_extension(&self, asked: CloudVolume, bytes: u64) -> Result<()> {
        let mut state = asked;
        for step in self.attachments.looks() {
            let now = self.attachments.existing(&state.id);
            state = now.map_err(|error| after_all(&state, None, error))?;
            refuse_failed(&state)?;
            if state.size >= bytes || !self.deadline.pause(step) {
                break;
            }
        }
        // If the time is over, the wait for the disk says so.
        Ok(())
    }

    fn wait_for_size(&self, volume: &Volume, bytes: u64) -> Result<Device> {
        let mut last = 0;
        for step in Steps::between(Duration::from_millis(5), Duration::from_secs(1)) {
            let disk = self.disks.disk(&volume.id)?;
            if disk.size >= bytes {
                return Ok(disk);
            }
            last = disk.size;
            self.devices.rescan(&disk)?;
            if !self.deadline.pause(step) {
                break;
            }
        }
        Err(Error::new(
            Kind::Timeout,
            format!("the disk still has {last} bytes, {bytes} are awaited"),
        )
        .hint("does the cloud allow to extend a volume that is attached?"))
    }
}

/// A volume that has failed is not asked to grow: the cloud would refuse in words of its own.
fn refuse_failed(state: &CloudVolume) -> Result<()> {
    if state.status.phase != VolumePhase::Failed {
        return Ok(());
    }
    Err(Error::refused(format!(
        "the cloud could not extend volume {}: it is in status {} with {} bytes",
        state.id, state.status, state.size
    ))
    .hint("an operator of the cloud must mend it: is there room, and quota?"))
}
