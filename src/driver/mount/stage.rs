//! Mount the volume's disk at its stage folder; a blank one is formatted first.

use crate::cloud::CloudVolume;
use crate::failpoints;
use crate::guard::Guard;
use crate::guard::free_disks::FreeDisks;
use crate::guard::let_go_volumes::LetGoVolumes;
use crate::guard::remote_mark::RemoteMarks;
use crate::heal::Healing;
use crate::heal::covering::{Covering, MapOverDisk};
use crate::heal::file_system_check::{FileSystemCheck, next_count};
use crate::heal::recovery::Recovery;
use crate::host::clock::Deadline;
use crate::host::{Devices, FileSystems, Hidden, MountRequest, Mounts, machine};
use crate::lookup::disk_numbers::DiskNumbers;
use crate::lookup::find_disk::{Disks, must_be_allowed};
use crate::lookup::find_volume::Volumes;
use crate::lookup::locking::Locking;
use crate::lookup::memory::{Memory, staged};
use crate::lookup::own_maps::OwnMaps;
use crate::model::disk::contents::{Contents, FileSystem, FsType};
use crate::model::disk::device::{Device, Proof};
use crate::model::disk::formatting::leaves_room;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::layout::StageTarget;
use crate::model::mount::mount_options::{MkfsOptions, MountOptions};
use crate::model::policy::ShieldMode;
use crate::model::record::VolumeRecord;
use crate::model::report::tear_down::TearDown;
use crate::model::text::shown;
use crate::mount::format::{DiskHolds, Formatter, file_system_uuid, not_ours};
use crate::mount::sole_writer::SoleWriter;
use crate::operation::{Outcome, Volume, moment};
use crate::ownership::mount_place::{MountPlaces, belonging, belongs_now};
use std::path::Path;
use std::time::Duration;

/// How long staging waits for a disk that should be there already.
const DISK_WAIT: Duration = Duration::from_secs(20);

/// How long a disk that another process still has open (udev after the plug-in) is waited for.
const SETTLE_WAIT: Duration = Duration::from_secs(5);

/// How a volume is to be mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageOptions {
    /// The file system asked for; nothing means what is there, ext4 for a blank disk.
    pub file_system: Option<FsType>,
    pub mount_options: MountOptions,
    /// Options of a new file system.
    pub mkfs_options: MkfsOptions,
    /// Whether nothing may be written to the disk, because other machines read it.
    pub untouched: bool,
    /// Whether it is mounted through a map, if not as configured.
    pub shield: Option<ShieldMode>,
}

/// Mounts of volumes at their stage folders.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct Staging<'a> {
    pub(crate) devices: &'a dyn Devices,
    pub(crate) file_systems: &'a dyn FileSystems,
    pub(crate) mounts: &'a dyn Mounts,
    pub(crate) deadline: Deadline,
    pub(crate) locking: &'a Locking<'a>,
    pub(crate) disks: &'a Disks<'a>,
    pub(crate) numbers: &'a DiskNumbers<'a>,
    pub(crate) memory: &'a Memory<'a>,
    pub(crate) volumes: &'a Volumes<'a>,
    pub(crate) places: &'a MountPlaces<'a>,
    pub(crate) free_disks: &'a FreeDisks<'a>,
    pub(crate) marks: &'a RemoteMarks<'a>,
    pub(crate) let_go_volumes: &'a LetGoVolumes<'a>,
    pub(crate) guard: &'a Guard<'a>,
    pub(crate) check: &'a FileSystemCheck<'a>,
    pub(crate) recovery: &'a Recovery<'a>,
    pub(crate) healing: &'a Healing<'a>,
    pub(crate) covering: &'a Covering<'a>,
    pub(crate) sole_writer: &'a SoleWriter<'a>,
    pub(crate) formatter: &'a Formatter<'a>,
    pub(crate) own_maps: &'a OwnMaps<'a>,
}

impl Staging<'_> {
    /// Mounts the volume at the folder. `hint` is the device that the orchestrator remembers.
    pub fn stage(
        &self,
        volume: &Volume,
        target: &StageTarget,
        options: &StageOptions,
        hint: &str,
    ) -> Result<Outcome> {
        let _lock = self.locking.lock(&volume.id)?;
        self.memory.remember_name(volume);
        self.let_go_volumes.note_caller(&volume.id);
        self.stage_locked(volume, target, options, hint)
    }

    /// The same for a caller that holds the volume's lock.
    pub(crate) fn stage_locked(
        &self,
        volume: &Volume,
        target: &StageTarget,
        options: &StageOptions,
        hint: &str,
    ) -> Result<Outcome> {
        let folder = self.mounts.real_path(&target.0)?;
        self.guard.wanted_again(&volume.id, &[TearDown::Unstage, TearDown::Detach]);
        self.recovery.end_leftovers(&volume.id);
        self.own_maps.tidy(&volume.id);
        let disk = self.disks.wait_for(volume, self.deadline.at_most(DISK_WAIT))?;
        let (disk, unhealed) = self.healing.heal_on_the_way(&volume.id, disk)?;
        let look = self.mounts.standing_at(&folder)?;
        let found = belonging(&look, &disk, &folder).map_err(|error| error.not_healed(unhealed))?;
        if let Some(mount) = found {
            self.memory.remember_found(&volume.id, &disk, mount);
            self.covering.note_found(&volume.id, &disk);
            // Containers may have it: what lost its disk is for the heal.
            self.mark_proven(&volume.id, &disk, None, options.untouched)?;
            return Ok(Outcome::Already);
        }
        must_be_allowed(&volume.id, &disk)?;
        self.disks.report_hint(&volume.id, hint, &disk);
        failpoints::step("stage.found");
        let _held = self.disks.hold(&volume.id, &disk)?;
        failpoints::step("stage.held");
        self.disks.report_links(&volume.id);
        if let Some(reason) = self.devices.objection(&disk)? {
            return Err(
                Error::refused(reason).hint("only whole disks that nothing else uses are mounted")
            );
        }
        let seen =
            if options.untouched { None } else { self.sole_writer.sole_writer(&volume.id)? };
        if let (Some(state), Some(name)) = (&seen, &volume.name) {
            self.volumes.record_name_of_a_mount(state, name);
        }
        let attachment = seen.as_ref().and_then(mark_of_attachment);
        let found = self.file_system_on(volume, &disk, options, attachment.as_deref())?;
        options.mount_options.check(found.kind)?;
        failpoints::step("stage.looked");
        self.mounts.make_folder(&folder)?;
        self.report_hidden(&volume.id, &folder);
        self.disks.prove_again(&volume.id, &disk)?;
        let wish = (options.shield, options.untouched);
        let transport = disk.transport().cloned();
        let covered = self.covering.cover(&volume.id, &disk, &found, wish)?;
        let (disk, _held_map) = match &covered {
            Some(MapOverDisk { map, .. }) => (map.clone(), Some(self.disks.hold(&volume.id, map)?)),
            None => (disk, None),
        };
        let expected = next_count(&found, &disk, options.untouched);
        let was_free = expected.is_none() || self.disks.is_free(&disk)?;
        self.mount_verified(volume, &disk, &found, options, &folder)?;
        let mut staged = staged(&folder, &moment(&disk), found.kind.name(), &found.uuid);
        staged.options = options.mount_options.to_string();
        staged.untouched = options.untouched;
        staged.mounts = self.check.mounts_counted(expected, &disk, was_free);
        staged.transport = transport;
        staged.journal = covered.and_then(|covered| self.covering.journal(&volume.id, &covered));
        if let Err(error) = self.memory.remember_staged(&volume.id, staged, attachment) {
            // The orchestrator would skip the next try, for the folder is a mount point now.
            return Err(self.places.undo_mount(&folder, disk.number, error));
        }
        failpoints::step("stage.remembered");
        if let Err(error) = self.mark_proven(&volume.id, &disk, seen, options.untouched) {
            self.memory.forget_staged(&volume.id);
            let error = self.places.undo_mount(&folder, disk.number, error);
            self.marks.unmark_mounted(&volume.id);
            return Err(error);
        }
        Ok(Outcome::Done)
    }

    /// Leaves the mark of what is mounted. Before it a controller elsewhere could not know of the mount: its
    /// detach may have come, and then another server has the volume, and its own mark; or it is under
    /// way, and the disk is here still. After it such a detach is refused. The mark is remembered last, so
    /// that a call after one that failed, or was killed, asks again.
    pub(crate) fn mark_proven(
        &self,
        id: &VolumeId,
        disk: &Device,
        seen: Option<CloudVolume>,
        untouched: bool,
    ) -> Result<()> {
        self.disks.prove_again(id, disk)?;
        let left = self.marks.leave_mark(id, seen);
        self.disks.prove_again(id, disk)?;
        let Some(left) = left else { return Ok(()) };
        // A reader loses nothing with its disk, and the volume may be leaving another reader's server.
        if !untouched {
            self.sole_writer.still_has(id)?;
        }
        self.marks.remember_mark(id, left);
        Ok(())
    }

    /// The file system to mount: the one that is there, or a new one on a blank disk.
    fn file_system_on(
        &self,
        volume: &Volume,
        disk: &Device,
        options: &StageOptions,
        attachment: Option<&str>,
    ) -> Result<FileSystem> {
        let wished = options.file_system;
        if let Some(verdict) = self.file_systems.await_check(&volume.id, disk, self.deadline)? {
            return Err(verdict);
        }
        let found = match self.formatter.found_on(volume, disk)? {
            DiskHolds::FileSystem(found) => found,
            DiskHolds::NotOurs(what) => return Err(not_ours(volume, disk, &what)),
            DiskHolds::Blank if options.untouched => {
                return Err(Error::refused(format!(
                    "{} is blank, and the volume is shared: it may not be written to",
                    disk.kernel_name
                ))
                .hint("use the volume without the option share first, so that it gets its data"));
            }
            DiskHolds::Blank => {
                let kind = wished.unwrap_or(FsType::Ext4);
                // One that could not be mounted is not made either.
                options.mount_options.check(kind)?;
                return self.formatter.format_blank(volume, disk, kind, &options.mkfs_options);
            }
        };
        if let Some(wished) = wished
            && !wished.accepts(found.kind)
        {
            return Err(Error::refused(format!(
                "{} holds {}, but {wished} is asked for",
                disk.kernel_name, found.kind
            ))
            .hint("ask for the file system that is there, or for none; a disk with data is never formatted"));
        }
        refuse_rivals_file_system(&volume.id, disk, &found)?;
        refuse_changed_file_system(
            &self.memory.records.load(&volume.id),
            disk,
            &found,
            attachment,
        )?;
        if found.uuid != file_system_uuid(&volume.id) {
            // Made elsewhere, or restored from a copy: nothing wrong, but worth knowing.
            tracing::info!(volume = %volume.id, uuid = found.uuid, "the file system was not made by this driver for this volume");
        }
        if found.size > disk.size {
            return Err(Error::refused(format!(
                "the {} on {} needs {} bytes, the disk has {}",
                found.kind, disk.kernel_name, found.size, disk.size
            ))
            .hint("is it the right volume, and was it made smaller?"));
        }
        let mut found = self.grown_where_only_now(volume, disk, found, options)?;
        if found.wants_check && !disk.read_only && !options.untouched {
            if self.disks.is_free(disk)? {
                let kind = found.kind;
                let check = || self.file_systems.check(&volume.id, disk, kind, self.deadline);
                // The check resets its counts.
                found = self.changed_unmounted(volume, disk, check)?.unwrap_or(found);
            } else {
                // A mounted file system is never checked: this mount joins the one that is there.
                tracing::warn!(volume = %volume.id, disk = %disk.kernel_name, "the file system asks for a check, but is in use");
            }
        }
        Ok(found)
    }

    /// Grows an ext4 that lags behind its disk, where this process may not do that once it is mounted: the
    /// call that grows it would fail, and the orchestrator starts no container before it succeeds.
    fn grown_where_only_now(
        &self,
        volume: &Volume,
        disk: &Device,
        found: FileSystem,
        options: &StageOptions,
    ) -> Result<FileSystem> {
        let is_wanted = matches!(found.kind, FsType::Ext3 | FsType::Ext4)
            && leaves_room(found.size, disk.size)
            && !disk.read_only
            && !options.untouched
            && !machine::may_grow_mounted()
            && self.disks.is_free(disk)?;
        if !is_wanted {
            return Ok(found);
        }
        let (from, to) = (found.size, disk.size);
        tracing::info!(volume = %volume.id, from, to, "growing the file system before its mount: this process lacks CAP_SYS_RESOURCE");
        let grow = || match self.file_systems.grow_unmounted(&volume.id, disk, self.deadline) {
            // The mount does not depend on it.
            Err(error) if error.kind == Kind::Host => {
                tracing::warn!(volume = %volume.id, %error, "the file system was not grown");
                Ok(())
            }
            done => done,
        };
        let now = self.changed_unmounted(volume, disk, grow)?.filter(|now| now.uuid == found.uuid);
        now.ok_or_else(|| not_ours(volume, disk, "another file system than before it was grown"))
    }

    /// Changes a disk that is free, which must be the volume's before and after that, and reads its file system again.
    fn changed_unmounted(
        &self,
        volume: &Volume,
        disk: &Device,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<Option<FileSystem>> {
        self.disks.prove_again(&volume.id, disk)?;
        change()?;
        self.disks.prove_again(&volume.id, disk)?;
        Ok(match self.file_systems.look(disk, self.deadline)? {
            Contents::FileSystem(now) => Some(now),
            _ => None,
        })
    }

    /// What was written into the folder while nothing was mounted there will be out of sight.
    /// The mount goes on, for the orchestrator needs it; but it is said.
    pub(crate) fn report_hidden(&self, id: &VolumeId, folder: &Path) {
        let Hidden { files, bytes, more } = self.mounts.hidden_in(folder);
        if files > 0 {
            let folder = folder.display();
            tracing::warn!(volume = %id, %folder, files, bytes, more, "files in the folder will be hidden by the mount: they were written while nothing was mounted there");
        }
    }

    /// xfs refuses a second file system of the same UUID. One that is mounted may be this volume's
    /// own, on the disk that it had before and that is gone: only then both may be.
    fn has_dead_twin(&self, id: &VolumeId) -> Result<bool> {
        let table = self.mounts.table()?;
        Ok(!self.numbers.dead_numbers_of(id, &table)?.is_empty())
    }

    /// Mounts and then looks: what is at the folder must be the proven disk.
    fn mount_verified(
        &self,
        volume: &Volume,
        disk: &Device,
        found: &FileSystem,
        options: &StageOptions,
        folder: &Path,
    ) -> Result<()> {
        let request = MountRequest {
            id: &volume.id,
            device: disk,
            kind: found.kind,
            uuid: &found.uuid,
            asks_for_panic: found.asks_for_panic,
            options: &options.mount_options,
            untouched: options.untouched,
            beside_its_twin: found.kind == FsType::Xfs && self.has_dead_twin(&volume.id)?,
            target: folder,
        };
        let until = self.deadline.at_most(SETTLE_WAIT);
        while let Err(error) = self.mounts.mount(&request) {
            // A process that looks at a new disk (udev) may have it open for a moment.
            if error.kind != Kind::Busy {
                return Err(error);
            }
            if !until.pause(Duration::from_millis(20)) {
                let cause = error.cause + &self.free_disks.who_has(disk, &[]);
                return Err(Error { cause, hint: None, ..error });
            }
        }
        failpoints::step("stage.mounted");
        let verified = self.mounts.standing_at(folder).and_then(|look| {
            belongs_now(&look, disk, folder)?;
            self.disks.prove_again(&volume.id, disk)
        });
        verified.map_err(|error| self.places.undo_mount(folder, disk.number, error))
    }
}

impl StageOptions {
    /// The file system of this name; an empty one means whatever is there.
    pub fn for_file_system(name: &str) -> Result<Self> {
        if name.is_empty() {
            return Ok(Self::default());
        }
        let kind = FsType::named(name).ok_or_else(|| {
            Error::bad_call(format!("the file system {} is not supported", shown(name)))
                .hint("ext3, ext4, xfs and btrfs are")
        })?;
        Ok(Self { file_system: Some(kind), ..Self::default() })
    }
}

/// What tells an attachment from a later one of the same volume to the same server.
fn mark_of_attachment(volume: &CloudVolume) -> Option<String> {
    let one = volume.attachments.first()?;
    one.id.clone().or_else(|| one.since.clone())
}

/// While a volume stays attached only this driver makes file systems on it. Another UUID than that of
/// the last mount means that the disk is another one, or that someone else wrote a file system to it.
fn refuse_changed_file_system(
    record: &VolumeRecord,
    disk: &Device,
    found: &FileSystem,
    attachment: Option<&str>,
) -> Result<()> {
    let (id, uuid) = (&record.volume, &found.uuid);
    let Some(last) = record.file_system.as_ref().filter(|last| last.uuid != *uuid) else {
        return Ok(());
    };
    if !last.is_same_attachment(attachment, &moment(disk)) {
        tracing::warn!(volume = %id, uuid, last = last.uuid, "another file system than at the last mount here; the volume was attached anew since");
        return Ok(());
    }
    Err(Error::refused(format!(
        "refusing to mount {} for volume {id}: its file system is {uuid}, but {} was mounted from here before, \
         and the volume has not been detached since",
        disk.kernel_name, last.uuid
    ))
    .hint(format!(
        "find out whether this is the volume's disk and who changed it; if this file system is the right one: \
         disk format {id} --keep {uuid}"
    )))
}

/// A cut serial can be another volume's. Our file systems carry their volume's id as UUID: one
/// that goes on differently after the same 20 characters is that other volume's.
fn refuse_rivals_file_system(id: &VolumeId, disk: &Device, found: &FileSystem) -> Result<()> {
    let is_rival = disk.proof == Proof::Cut
        && found.uuid != file_system_uuid(id)
        && found.uuid.starts_with(&id.virtio_serial().to_lowercase());
    if !is_rival {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{} shows the serial of volume {id}, but its file system was made for volume {}",
        disk.kernel_name, found.uuid
    ))
    .hint("the two ids share their first 20 characters; attach the right volume"))
}
