//! Make a file system on a blank disk, as a transaction.
//!
//! The intent is in the record from before the first byte until after the last. It never justifies overwriting what an
//! interrupted mkfs left behind; a person decides about that.

use crate::context::Context;
use crate::failpoints;
use crate::guard::{free_disks, remote_mark};
use crate::heal::recovery;
use crate::lookup::find_disk::{self, must_be_allowed};
use crate::lookup::locking;
use crate::model::advice::{Remedy, advise};
use crate::model::disk::contents::{Contents, FileSystem, FsType};
use crate::model::disk::device::Device;
use crate::model::disk::formatting::FormatRequester;
use crate::model::disk::mountable::{DiskHolds, file_system_uuid, not_ours};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::mount_options::MkfsOptions;
use crate::model::record::{DiskMoment, Formatting, VolumeRecord};
use crate::model::text::shown;
use crate::mount::format_consent;
use crate::operation::{Volume, moment};
use crate::ports::host::NewFileSystem;
use std::time::Duration;

/// How long to wait for a disk that another process, such as a killed mkfs, still has open.
const SETTLE_WAIT: Duration = Duration::from_secs(5);

/// What a person sees before formatting a disk.
#[derive(Debug, Clone)]
pub struct OnDisk {
    pub disk: Device,
    /// The disk's contents, in words.
    pub contents: String,
    /// Whether this node ever mounted the volume.
    pub was_mounted: bool,
    /// Further reasons against a new file system.
    pub objections: Vec<String>,
}

/// Classifies the disk's contents, for mounts and for people. Only `Blank` is formatted without a person.
pub(crate) fn found_on(cx: &Context<'_>, volume: &Volume, disk: &Device) -> Result<DiskHolds> {
    let record = cx.store.records.load(&volume.id);
    let interrupted = interrupted_on(&record, &moment(cx, disk));
    if interrupted.is_some() {
        // Let a killed mkfs finish its last write.
        is_free_soon(cx, disk)?;
    }
    let what = match cx.host.file_systems.look(disk, cx.deadline)? {
        // mke2fs writes its superblock last, and the others mark an unfinished file system.
        Contents::FileSystem(found) if !found.is_unfinished => {
            return Ok(DiskHolds::FileSystem(found));
        }
        Contents::Blank => return Ok(DiskHolds::Blank),
        other => other.to_string(),
    };
    Ok(DiskHolds::NotOurs(match interrupted {
        Some(Formatting { fs_type, .. }) => format!(
            "{what}; mkfs.{fs_type} was interrupted on it, or something has written to it since"
        ),
        None => what,
    }))
}

/// What is on the volume's disk. Changes nothing.
pub fn what_is_on(cx: &Context<'_>, volume: &Volume) -> Result<OnDisk> {
    let disk = find_disk::disk(cx, &volume.id)?;
    let _held = find_disk::hold(cx, &volume.id, &disk)?;
    let contents = match found_on(cx, volume, &disk) {
        Ok(DiskHolds::Blank) => "nothing: all that was read is zero".to_owned(),
        Ok(DiskHolds::FileSystem(found)) => {
            format!("{} of {} bytes, UUID {}", found.kind, found.size, found.uuid)
        }
        Ok(DiskHolds::NotOurs(what)) => what,
        Err(error) => format!("what cannot be read: {error}"),
    };
    let was_mounted = cx.store.records.load(&volume.id).disk.was_mounted;
    let objections = format_consent::objections(cx, &volume.id, &disk)
        .unwrap_or_else(|error| vec![format!("the cloud was not heard: {}", error.cause)]);
    Ok(OnDisk { disk, contents, was_mounted, objections })
}

/// Accepts the file system with this UUID for the next mount, on a person's word, although another one was mounted in
/// the same attachment.
pub fn keep(cx: &Context<'_>, volume: &Volume, uuid: &str) -> Result<OnDisk> {
    let _lock = locking::lock(cx, &volume.id)?;
    let before = what_is_on(cx, volume)?;
    must_be_allowed(&volume.id, &before.disk)?;
    let DiskHolds::FileSystem(found) = found_on(cx, volume, &before.disk)? else {
        return Err(not_ours(&volume.id, &before.disk, &before.contents));
    };
    if found.uuid != uuid {
        return Err(Error::refused(format!(
            "refusing to accept file system {} of {}: {} is on it",
            shown(uuid),
            before.disk.kernel_name,
            found.uuid
        ))
        .hint(advise("{} shows what is on the disk", [Remedy::Format.of(&volume.id)])));
    }
    tracing::warn!(volume = %volume.id, disk = %before.disk.kernel_name, uuid, "accepted by a person: another file system than at the last mount");
    cx.store.records.update(&volume.id, |record| {
        if let Some(last) = &mut record.disk.file_system {
            last.uuid.clone_from(&found.uuid);
        }
    })?;
    Ok(before)
}

/// Wipes and formats the disk, on a person's word; returns its former contents. Still proves the disk and that nothing
/// uses it.
pub fn format_for_good(
    cx: &Context<'_>,
    volume: &Volume,
    kind: FsType,
    options: &MkfsOptions,
) -> Result<OnDisk> {
    let _lock = locking::lock(cx, &volume.id)?;
    recovery::end_leftovers(cx, &volume.id);
    let before = what_is_on(cx, volume)?;
    let disk = &before.disk;
    must_be_allowed(&volume.id, disk)?;
    cx.host.file_systems.await_check(&volume.id, disk, cx.deadline)?;
    let _held = find_disk::hold(cx, &volume.id, disk)?;
    if let Some(reason) = cx.host.devices.objection(disk)? {
        return Err(
            Error::refused(reason).hint("only whole disks that nothing else uses are formatted")
        );
    }
    let new = NewFileSystem { force: true, ..new_file_system(&volume.id, kind, options) };
    rehearse(cx, disk, &new)?;
    let consent = format_consent::consent(cx, &volume.id, disk, FormatRequester::Person)?;
    wait_free(cx, disk)?;
    let (name, contents) = (&disk.kernel_name, &before.contents);
    tracing::warn!(volume = %volume.id, disk = %name, contents, "a person gives up what is on the disk");
    for objection in &consent.overridden {
        tracing::warn!(volume = %volume.id, disk = %name, objection = objection.cause, "overridden by a person");
    }
    format_consent::note_begin(cx, &volume.id, &consent)?;
    cx.store.records.update(&volume.id, |record| {
        record.disk.formatting = Some(intent(cx, disk, &new));
        record.disk.was_mounted = false;
        record.mounts.staged = None;
        record.mounts.unstaged = None;
        record.disk.file_system = None;
    })?;
    failpoints::step("format.intent");
    cx.host.file_systems.wipe(find_disk::prove(cx, &volume.id, disk)?)?;
    failpoints::step("format.wiped");
    format(cx, volume, disk, &new)?;
    if let Err(error) = remote_mark::note_data(cx, &volume.id) {
        tracing::warn!(volume = %volume.id, %error, "the cloud was not told that the volume has data; its first mount does");
    }
    Ok(before)
}

/// Formats a blank disk, if nothing else speaks against it.
pub(crate) fn format_blank(
    cx: &Context<'_>,
    volume: &Volume,
    disk: &Device,
    kind: FsType,
    options: &MkfsOptions,
) -> Result<FileSystem> {
    let consent = format_consent::consent(cx, &volume.id, disk, FormatRequester::Mount)?;
    // Other programs may recognise data that this driver does not; that they find nothing proves nothing.
    if let Some(other) = cx.host.file_systems.second_opinion(&volume.id, disk, cx.deadline)? {
        return Err(not_ours(&volume.id, disk, &format!("{other}, by the word of blkid")));
    }
    let new = new_file_system(&volume.id, kind, options);
    rehearse(cx, disk, &new)?;
    format_consent::note_begin(cx, &volume.id, &consent)?;
    format(cx, volume, disk, &new)
}

/// Refuses options that would make something this driver refuses to mount.
fn rehearse(cx: &Context<'_>, disk: &Device, new: &NewFileSystem) -> Result<()> {
    new.options.check_new(new.kind)?;
    match cx.host.file_systems.rehearse(disk.size, new, cx.deadline)? {
        None => Ok(()),
        Some(Contents::FileSystem(made)) if is_made(&made, new) => Ok(()),
        Some(made) => {
            let (options, made) = (new.options.text(), made.to_string());
            Err(MkfsOptions::makes_no_file_system(new.kind, &options, &made))
        }
    }
}

/// Formats. Without `force`, only if the disk is still blank.
fn format(
    cx: &Context<'_>,
    volume: &Volume,
    disk: &Device,
    new: &NewFileSystem,
) -> Result<FileSystem> {
    wait_free(cx, disk)?;
    failpoints::step("stage.format.consented");
    if !new.force {
        refuse_changed(cx, volume, disk)?;
        let intent = intent(cx, disk, new);
        cx.store.records.update(&volume.id, |record| record.disk.formatting = Some(intent))?;
    }
    failpoints::step("stage.format.intent");
    let proven = find_disk::prove(cx, &volume.id, disk)?;
    let (kind, force) = (new.kind, new.force);
    tracing::info!(volume = %volume.id, disk = %disk.kernel_name, %kind, force, event = "format_started", "formatting a blank disk");
    cx.host.file_systems.make(proven, new, cx.deadline)?;
    failpoints::step("stage.format.made");
    find_disk::prove(cx, &volume.id, disk)?;
    match cx.host.file_systems.look(disk, cx.deadline)? {
        Contents::FileSystem(found) if is_made(&found, new) => {
            cx.store.records.update(&volume.id, |record| record.disk.formatting = None)?;
            failpoints::step("stage.format.done");
            Ok(found)
        }
        other => Err(Error::new(
            Kind::Host,
            format!("mkfs.{kind} reported success, but {} holds {other}", disk.kernel_name),
        )
        .hint(advise("remove mkfsOptions from the PersistentVolume; then, if nothing on the disk is needed: {}", [Remedy::Format.of(&volume.id)]))),
    }
}

/// The last check before the first byte: asking the cloud may have taken minutes, and any process can write to a disk
/// that is not mounted.
fn refuse_changed(cx: &Context<'_>, volume: &Volume, disk: &Device) -> Result<()> {
    match cx.host.file_systems.look(disk, cx.deadline)? {
        Contents::Blank => Ok(()),
        other => {
            Err(not_ours(&volume.id, disk, &format!("{other}, which was not there a moment ago")))
        }
    }
}

fn wait_free(cx: &Context<'_>, disk: &Device) -> Result<()> {
    if is_free_soon(cx, disk)? {
        return Ok(());
    }
    let who = free_disks::who_has(cx, disk, &[]);
    Err(Error::new(Kind::Busy, format!("{} is in use already{who}", disk.kernel_name)))
}

/// Waits a moment until no process uses the disk; a killed mkfs may still be exiting.
fn is_free_soon(cx: &Context<'_>, disk: &Device) -> Result<bool> {
    let until = cx.deadline.at_most(SETTLE_WAIT);
    while !find_disk::is_free(cx, disk)? {
        if !until.pause(Duration::from_millis(10)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether this is the requested file system.
fn is_made(found: &FileSystem, new: &NewFileSystem) -> bool {
    found.uuid == new.uuid && !found.is_unfinished && new.kind.accepts(found.kind)
}

fn new_file_system(id: &VolumeId, kind: FsType, options: &MkfsOptions) -> NewFileSystem {
    NewFileSystem { kind, uuid: file_system_uuid(id), force: false, options: options.clone() }
}

fn intent(cx: &Context<'_>, disk: &Device, new: &NewFileSystem) -> Formatting {
    Formatting {
        disk: moment(cx, disk),
        fs_type: new.kind.name().to_owned(),
        uuid: new.uuid.clone(),
    }
}

/// The format that was started on this very plug-in of the disk.
fn interrupted_on<'a>(record: &'a VolumeRecord, disk: &DiskMoment) -> Option<&'a Formatting> {
    let formatting = record.disk.formatting.as_ref()?;
    // Without the kernel's disk sequence number, a disk that left and came back looks like one that stayed.
    (formatting.disk == *disk && disk.sequence.is_some()).then_some(formatting)
}

#[cfg(test)]
mod tests;
