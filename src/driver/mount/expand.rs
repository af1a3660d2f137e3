//! Grow a volume in the cloud, on this node, and its mounted file system.

use crate::context::Context;
use crate::failpoints;
use crate::lookup::attachment_view::{self, after_all};
use crate::lookup::{alias, find_disk, locking};
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
use crate::ports::cloud::CloudVolume;
use std::path::Path;
use std::time::Duration;

/// Makes the volume that is mounted at a stage or consumer directory at least `bytes` large. Does not ask the cloud for
/// what cannot grow here.
pub fn expand(
    cx: &Context<'_>,
    volume: &Volume,
    folder: &Target,
    bytes: u64,
    hint: &str,
) -> Result<Outcome> {
    let _lock = locking::lock(cx, &volume.id)?;
    alias::remember_name(cx, volume);
    let folder = cx.host.mounts.real_path(folder)?;
    let disk = find_disk::disk(cx, &volume.id)?;
    find_disk::report_hint(cx, &volume.id, hint, &disk);
    let _held = find_disk::hold(cx, &volume.id, &disk)?;
    growing(cx, &folder, &disk)?;

    let bytes = grow_in_cloud(cx, &volume.id, bytes)?;
    let grown = wait_for_size(cx, volume, &disk, bytes)?;
    failpoints::step("expand.sized");
    grow_file_system(cx, volume, &grown, &folder, bytes)?;
    Ok(if disk.size < bytes { Outcome::Done } else { Outcome::Already })
}

/// Grows the volume in the cloud, which needs nothing from the node. Returns the minimum size of the disk.
fn grow_in_cloud(cx: &Context<'_>, id: &VolumeId, bytes: u64) -> Result<u64> {
    let state = attachment_view::existing(cx, id)?;
    let is_encrypted = state.is_encrypted;
    if state.size < bytes {
        refuse_failed(&state)?;
        tracing::info!(volume = %id, from = state.size, to = bytes, "asking the cloud to extend");
        cx.cloud.extend(id, bytes, cx.deadline)?;
        failpoints::step("expand.requested");
        wait_for_extension(cx, state, bytes)?;
    }
    // Encryption takes a part of the disk.
    Ok(least_disk(bytes, is_encrypted))
}

/// Grows the file system on the grown disk.
fn grow_file_system(
    cx: &Context<'_>,
    volume: &Volume,
    disk: &Device,
    folder: &Path,
    bytes: u64,
) -> Result<()> {
    // Read again: the cloud took its time, and the directory may lead elsewhere now.
    let (mount, kind) = growing(cx, folder, disk)?;
    let root = cx.host.mounts.open_root(&mount)?;
    let proven = find_disk::prove(cx, &volume.id, disk)?;
    let covered = cx.host.file_systems.grow((&root, folder), kind, proven, cx.deadline)?;
    drop(root);
    find_disk::prove(cx, &volume.id, disk)?;
    // The last group or allocation group may be too small to use.
    let slack = (bytes / 100).max(1 << 20);
    if covered + slack < bytes {
        return Err(Error::new(
            Kind::Host,
            format!("the {kind} covers {covered} bytes after growing, {bytes} were asked for"),
        ));
    }
    Ok(())
}

/// The volume's mount at the directory, and its file system.
fn growing(cx: &Context<'_>, folder: &Path, disk: &Device) -> Result<(Mount, FsType)> {
    let look = cx.host.mounts.standing_at(folder)?;
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

/// Waits until the cloud has extended the volume; its disk grows only then.
fn wait_for_extension(cx: &Context<'_>, asked: CloudVolume, bytes: u64) -> Result<()> {
    let mut state = asked;
    for step in attachment_view::looks(cx) {
        let now = attachment_view::existing(cx, &state.id);
        state = now.map_err(|error| after_all(&state, None, error))?;
        refuse_failed(&state)?;
        if state.size >= bytes || !cx.deadline.pause(step) {
            break;
        }
    }
    // The deadline is reported by the wait for the disk.
    Ok(())
}

/// Waits for the new size. The next proof refuses a disk that replaced this one.
fn wait_for_size(cx: &Context<'_>, volume: &Volume, disk: &Device, bytes: u64) -> Result<Device> {
    let mut last = 0;
    for step in Steps::between(Duration::from_millis(5), Duration::from_secs(1)) {
        let now = find_disk::disk(cx, &volume.id)?;
        if now.size >= bytes {
            return Ok(Device { size: now.size, ..disk.clone() });
        }
        last = now.size;
        cx.host.devices.rescan(&now)?;
        if !cx.deadline.pause(step) {
            break;
        }
    }
    Err(Error::new(Kind::Timeout, format!("the disk still has {last} bytes, {bytes} are awaited"))
        .hint("does the cloud allow to extend a volume that is attached?"))
}

/// Refuses a volume in an error state, with a better message than the cloud's.
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
