//! Mount the volume's disk at its stage directory, and format a blank disk first.

use crate::context::Context;
use crate::failpoints;
use crate::guard::{self, free_disks, let_go_volumes, remote_mark};
use crate::heal::file_system_check::{self, next_count};
use crate::heal::{self, recovery};
use crate::lookup::find_disk::{self, must_be_allowed};
use crate::lookup::{alias, disk_numbers, locking, memory};
use crate::model::disk::contents::{Contents, FileSystem, FsType};
use crate::model::disk::device::Device;
use crate::model::disk::mountable::{
    MountableFacts, Preparation, file_system_uuid, not_ours, prepare,
};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::layout::StageTarget;
use crate::model::mount::mount_options::{MkfsOptions, MountOptions};
use crate::model::policy::ShieldMode;
use crate::model::record::{LastFileSystem, Staged};
use crate::model::report::tear_down::TearDown;
use crate::model::text::shown;
use crate::mount::format;
use crate::mount::sole_writer;
use crate::operation::{Outcome, Volume, moment};
use crate::ownership::mount_place::{self, belonging, belongs_now};
use crate::ports::cloud::CloudVolume;
use crate::ports::host::{Hidden, MountRequest, Proven};
use crate::shield::MapOverDisk;
use crate::snapshot::{Renewal, Snapshot};
use std::path::Path;
use std::time::Duration;

/// How long to wait for a disk that should be here already.
const DISK_WAIT: Duration = Duration::from_secs(20);

/// How long to wait for a disk that another process, such as udev, still has open.
const SETTLE_WAIT: Duration = Duration::from_secs(5);

/// How to mount a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageOptions {
    /// The requested file system. `None` accepts the existing one, and means ext4 for a blank disk.
    pub file_system: Option<FsType>,
    pub mount_options: MountOptions,
    /// Options for a new file system.
    pub mkfs_options: MkfsOptions,
    /// Whether nothing may be written to the disk, because other nodes read it.
    pub untouched: bool,
    /// Overrides the configured shield mode.
    pub shield: Option<ShieldMode>,
}

/// Mounts the volume. `hint` is the device that the orchestrator remembers.
pub fn stage(
    cx: &Context<'_>,
    volume: &Volume,
    target: &StageTarget,
    options: &StageOptions,
    hint: &str,
) -> Result<Outcome> {
    let _lock = locking::lock(cx, &volume.id)?;
    alias::remember_name(cx, volume);
    let_go_volumes::note_caller(cx, &volume.id);
    stage_locked(&mut Snapshot::of(cx, Some(&volume.id)), volume, target, options, hint)
}

/// Stages a volume; the caller holds its lock.
pub(crate) fn stage_locked(
    snapshot: &mut Snapshot<'_>,
    volume: &Volume,
    target: &StageTarget,
    options: &StageOptions,
    hint: &str,
) -> Result<Outcome> {
    let cx = snapshot.cx;
    let folder = cx.host.mounts.real_path(&target.0)?;
    guard::wanted_again(cx, &volume.id, &[TearDown::Unstage, TearDown::Detach]);
    recovery::end_leftovers(cx, &volume.id);
    cx.host.shield.tidy(cx, &volume.id);
    let disk = find_disk::wait_for(cx, volume, cx.deadline.at_most(DISK_WAIT))?;
    let unhealed = heal::heal_on_the_way(snapshot, &volume.id, disk)?;
    let disk = snapshot.require_disk()?.clone();
    let look = snapshot.look(&folder)?;
    let found = belonging(&look, &disk, &folder).map_err(|error| error.not_healed(unhealed))?;
    if let Some(mount) = found {
        memory::remember_found(cx, &volume.id, &disk, mount);
        cx.host.shield.mount_found(cx, &volume.id, &disk);
        // Containers may use it, so stale mounts are left to the heal.
        mark_proven(cx, &volume.id, &disk, None, options.untouched)?;
        return Ok(Outcome::Already);
    }
    must_be_allowed(&volume.id, &disk)?;
    find_disk::report_hint(cx, &volume.id, hint, &disk);
    failpoints::step("stage.found");
    let _held = find_disk::hold(cx, &volume.id, &disk)?;
    failpoints::step("stage.held");
    find_disk::report_links(cx, &volume.id);
    if let Some(reason) = cx.host.devices.objection(&disk)? {
        return Err(
            Error::refused(reason).hint("only whole disks that nothing else uses are mounted")
        );
    }
    let seen = if options.untouched { None } else { sole_writer::sole_writer(cx, &volume.id)? };
    if let (Some(state), Some(name)) = (&seen, &volume.name) {
        alias::record_name_of_a_mount(cx, state, name);
    }
    let attachment = seen.as_ref().and_then(mark_of_attachment);
    let found = file_system_on(cx, volume, &disk, options, attachment.as_deref())?;
    options.mount_options.check(found.kind)?;
    failpoints::step("stage.looked");
    cx.host.mounts.make_folder(&folder)?;
    report_hidden(cx, &volume.id, &folder);
    let transport = disk.transport().cloned();
    let covered = cx.host.shield.before_mount(cx, &volume.id, &disk, &found, options)?;
    let (disk, _held_map) = match &covered {
        Some(MapOverDisk { map, .. }) => (map.clone(), Some(find_disk::hold(cx, &volume.id, map)?)),
        None => (disk, None),
    };
    let expected = next_count(&found, &disk, options.untouched);
    let was_free = expected.is_none() || find_disk::is_free(cx, &disk)?;
    mount_verified(snapshot, volume, &disk, &found, options, &folder)?;
    let mut staged = Staged::new(&folder, &moment(cx, &disk), found.kind.name(), &found.uuid);
    staged.options = options.mount_options.to_string();
    staged.untouched = options.untouched;
    staged.mounts = file_system_check::mounts_counted(cx, expected, &disk, was_free);
    staged.transport = transport;
    staged.journal =
        covered.and_then(|covered| cx.host.shield.after_mount(cx, &volume.id, &covered));
    if let Err(error) = memory::remember_staged(cx, &volume.id, staged, attachment) {
        // The directory is a mount point now, so the orchestrator would skip its next attempt.
        return Err(mount_place::undo_mount(cx, &folder, disk.number, error));
    }
    failpoints::step("stage.remembered");
    if let Err(error) = mark_proven(cx, &volume.id, &disk, seen, options.untouched) {
        memory::forget_staged(cx, &volume.id);
        let error = mount_place::undo_mount(cx, &folder, disk.number, error);
        remote_mark::unmark_mounted(cx, &volume.id);
        return Err(error);
    }
    Ok(Outcome::Done)
}

/// Leaves the mark that the volume is mounted here. Until then another node's detach may succeed unnoticed; afterwards
/// it is refused. So the disk is proven again after the mark, and the mark is recorded last, so that a retry repeats
/// it.
pub(crate) fn mark_proven(
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &Device,
    seen: Option<CloudVolume>,
    untouched: bool,
) -> Result<()> {
    find_disk::prove(cx, id, disk)?;
    let left = remote_mark::leave_mark(cx, id, seen);
    find_disk::prove(cx, id, disk)?;
    let Some(left) = left else { return Ok(()) };
    // A reader loses nothing, and the volume may be leaving another reader's server.
    if !untouched {
        sole_writer::still_has(cx, id)?;
    }
    remote_mark::remember_mark(cx, id, left);
    Ok(())
}

/// The existing file system, or a new one on a blank disk.
fn file_system_on(
    cx: &Context<'_>,
    volume: &Volume,
    disk: &Device,
    options: &StageOptions,
    attachment: Option<&str>,
) -> Result<FileSystem> {
    let StageOptions { untouched, mount_options, mkfs_options, .. } = options;
    if let Some(verdict) = cx.host.file_systems.await_check(&volume.id, disk, cx.deadline)? {
        return Err(verdict);
    }
    let holds = format::found_on(cx, volume, disk)?;
    let last = cx.store.records.load(&volume.id).disk.file_system;
    let is_same = |last: &&LastFileSystem| last.is_same_attachment(attachment, &moment(cx, disk));
    let facts = MountableFacts {
        volume: &volume.id,
        disk,
        wished: options.file_system,
        untouched: *untouched,
        last: last.as_ref().filter(is_same).map(|last| last.uuid.as_str()),
        may_grow_mounted: cx.host.environment.may_grow_mounted(),
    };
    let (mut found, grow) = match prepare(&facts, holds)? {
        Preparation::Make(kind) => {
            // Do not format if the mount would fail.
            mount_options.check(kind)?;
            return format::format_blank(cx, volume, disk, kind, mkfs_options);
        }
        Preparation::Mount { found, grow } => (found, grow),
    };
    report_origin(volume, &found, last.as_ref());
    if grow && find_disk::is_free(cx, disk)? {
        found = grown(cx, volume, disk, &found)?;
    }
    if found.wants_check && !disk.read_only && !untouched {
        if find_disk::is_free(cx, disk)? {
            let kind = found.kind;
            let check = |proven: Proven<'_>| cx.host.file_systems.check(proven, kind, cx.deadline);
            // The check resets the counters in the superblock.
            found = changed_unmounted(cx, volume, disk, check)?.unwrap_or(found);
        } else {
            // Never check a mounted file system; this mount joins the existing one.
            tracing::warn!(volume = %volume.id, disk = %disk.kernel_name, "the file system asks for a check, but is in use");
        }
    }
    Ok(found)
}

/// Logs a file system that is not the one of the last mount, or that this driver did not make.
fn report_origin(volume: &Volume, found: &FileSystem, last: Option<&LastFileSystem>) {
    let (id, uuid) = (&volume.id, &found.uuid);
    if let Some(last) = last.filter(|last| last.uuid != *uuid) {
        tracing::warn!(volume = %id, uuid, last = last.uuid, "another file system than at the last mount here; the volume was attached anew since");
    }
    if *uuid != file_system_uuid(id) {
        tracing::info!(volume = %id, uuid, "the file system was not made by this driver for this volume");
    }
}

/// Grows an unmounted ext4.
fn grown(
    cx: &Context<'_>,
    volume: &Volume,
    disk: &Device,
    found: &FileSystem,
) -> Result<FileSystem> {
    let (from, to) = (found.size, disk.size);
    tracing::info!(volume = %volume.id, from, to, "growing the file system before its mount: this process lacks CAP_SYS_RESOURCE");
    let grow = |proven: Proven<'_>| match cx.host.file_systems.grow_unmounted(proven, cx.deadline) {
        // The mount does not depend on it.
        Err(error) if error.kind == Kind::Host => {
            tracing::warn!(volume = %volume.id, %error, "the file system was not grown");
            Ok(())
        }
        done => done,
    };
    let now = changed_unmounted(cx, volume, disk, grow)?.filter(|now| now.uuid == found.uuid);
    now.ok_or_else(|| not_ours(&volume.id, disk, "another file system than before it was grown"))
}

/// Changes a free disk, which is proven before and after, and reads its file system again.
fn changed_unmounted(
    cx: &Context<'_>,
    volume: &Volume,
    disk: &Device,
    change: impl FnOnce(Proven<'_>) -> Result<()>,
) -> Result<Option<FileSystem>> {
    change(find_disk::prove(cx, &volume.id, disk)?)?;
    find_disk::prove(cx, &volume.id, disk)?;
    Ok(match cx.host.file_systems.look(disk, cx.deadline)? {
        Contents::FileSystem(now) => Some(now),
        _ => None,
    })
}

/// Logs files that were written into the directory while nothing was mounted there, since the mount will hide them.
pub(crate) fn report_hidden(cx: &Context<'_>, id: &VolumeId, folder: &Path) {
    let Hidden { files, bytes, more } = cx.host.mounts.hidden_in(folder);
    if files > 0 {
        let folder = folder.display();
        tracing::warn!(volume = %id, %folder, files, bytes, more, "files in the folder will be hidden by the mount: they were written while nothing was mounted there");
    }
}

/// xfs refuses a second file system with the same UUID. The first one may be this volume's own, on its lost disk; only
/// then both may be mounted.
fn has_dead_twin(snapshot: &Snapshot<'_>, id: &VolumeId) -> Result<bool> {
    Ok(!disk_numbers::dead_numbers_of(snapshot.cx, id, snapshot.table()?)?.is_empty())
}

/// Mounts the disk and verifies the result.
fn mount_verified(
    snapshot: &mut Snapshot<'_>,
    volume: &Volume,
    disk: &Device,
    found: &FileSystem,
    options: &StageOptions,
    folder: &Path,
) -> Result<()> {
    let cx = snapshot.cx;
    let beside_its_twin = found.kind == FsType::Xfs && has_dead_twin(snapshot, &volume.id)?;
    let mount = || {
        cx.host.mounts.mount(MountRequest {
            disk: find_disk::prove(cx, &volume.id, disk)?,
            kind: found.kind,
            uuid: &found.uuid,
            asks_for_panic: found.asks_for_panic,
            options: &options.mount_options,
            untouched: options.untouched,
            beside_its_twin,
            target: folder,
        })
    };
    let until = cx.deadline.at_most(SETTLE_WAIT);
    while let Err(error) = mount() {
        // udev may have a new disk open for a moment.
        if error.kind != Kind::Busy {
            return Err(error);
        }
        if !until.pause(Duration::from_millis(20)) {
            let cause = error.cause + &free_disks::who_has(cx, disk, &[]);
            return Err(Error { cause, hint: None, ..error });
        }
    }
    failpoints::step("stage.mounted");
    let verified = snapshot.look_again(folder, Renewal::Mounted).and_then(|look| {
        belongs_now(&look, disk, folder)?;
        find_disk::prove(cx, &volume.id, disk).map(drop)
    });
    verified.map_err(|error| mount_place::undo_mount(cx, folder, disk.number, error))
}

impl StageOptions {
    /// The file system of this name; an empty name accepts the existing one.
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

/// What distinguishes this attachment from a later one to the same server.
fn mark_of_attachment(volume: &CloudVolume) -> Option<String> {
    let one = volume.attachments.first()?;
    one.id.clone().or_else(|| one.since.clone())
}
