//! What a mount at a directory means for a volume: whether it is the volume's, and whether the path leads to it. Every
//! call that works on a directory asks here.

use crate::context::Context;
use crate::lookup::disk_owner;
use crate::model::disk::contents::FsType;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::label;
use crate::model::mount::layout::Target;
use crate::model::mount::mount_place::{Covered, Look, Stands};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::snapshot::Snapshot;
use std::path::{Path, PathBuf};

/// The volume's mount at the directory, or `None`. Refuses a mount of another disk.
pub(crate) fn belonging<'l>(
    look: &'l Look,
    disk: &Device,
    folder: &Path,
) -> Result<Option<&'l Mount>> {
    let Some(top) = look.top()? else { return Ok(None) };
    if let Some(covered) = strangers_on(look, disk) {
        return Err(covered.error());
    }
    if top.disk == disk.number {
        // btrfs mounts subvolumes.
        let is_whole = top.root == Path::new("/") || top.fs_type == FsType::Btrfs.name();
        return if is_whole { Ok(Some(top)) } else { Err(a_part_of_it(top)) };
    }
    Err(Error::refused(format!(
        "{} holds device {}, which is not the volume's disk {} ({})",
        folder.display(),
        top.disk,
        disk.kernel_name,
        disk.number
    ))
    .hint("restart the pods that use the volume, so that it is unmounted"))
}

/// Refuses a bind mount of another directory of the volume; after "already done" a pod would write to the wrong place.
pub(crate) fn a_part_of_it(mount: &Mount) -> Error {
    let (place, root) = (mount.target.display(), mount.root.display());
    Error::refused(format!("{place} holds the folder {root} of the volume, not all of it"))
        .hint(format!("it was bound there by hand; take it off: umount {place}"))
}

/// The volume's mount after a successful mount call; an error if there is none.
pub(crate) fn belongs_now<'l>(look: &'l Look, disk: &Device, folder: &Path) -> Result<&'l Mount> {
    belonging(look, disk, folder)?.ok_or_else(|| {
        let place = folder.display();
        Error::new(Kind::Host, format!("nothing is mounted at {place} after the mount"))
    })
}

/// The volume's mount, if a foreign mount or another directory of the volume is stacked on it.
pub(crate) fn strangers_on(look: &Look, disk: &Device) -> Option<Covered> {
    let Stands::Mount { top, beneath } = &look.stands else { return None };
    let is_other = |one: &Mount| top.disk != disk.number || top.root != one.root;
    let hidden = beneath.iter().find(|one| one.disk == disk.number && is_other(one))?;
    Some(under(hidden, top))
}

fn elsewhere(found: &str, mount: &Mount) -> Error {
    let place = mount.target.display();
    Error::refused(format!("{found}, but the volume is mounted at {place}"))
        .hint(format!("let kubelet's root lead there again, or: umount {place}"))
}

fn under(hidden: &Mount, by: &Mount) -> Covered {
    Covered { hidden: hidden.clone(), by: Some(by.clone()) }
}

/// The real path of a directory to be torn down; `None` if its root is missing and nothing of it is mounted.
pub(crate) fn existing_folder(cx: &Context<'_>, target: &Target) -> Result<Option<PathBuf>> {
    let missing = match cx.host.mounts.real_path(target) {
        Err(error) if error.kind == Kind::Missing => error,
        found => return found.map(Some),
    };
    let table = cx.host.mounts.table()?;
    match table.mounts().iter().find(|one| one.target.ends_with(&target.below)) {
        None => Ok(None),
        Some(hidden) => match table.cover_of(hidden).cloned() {
            by @ Some(_) => Err(Covered { hidden: hidden.clone(), by }.error()),
            None => Err(elsewhere(&missing.cause, hidden)),
        },
    }
}

/// Nothing is mounted at the directory. The volume may be mounted where the directory used to be, if kubelet's root has
/// been moved or replaced by a link since.
pub(crate) fn refuse_if_it_stands_elsewhere(
    cx: &Context<'_>,
    id: &VolumeId,
    target: &Target,
    folder: &Path,
    table: &MountTable,
) -> Result<()> {
    let record = cx.store.records.load(id);
    let staged = record.mounts.staged.iter().map(|staged| staged.folder.as_path());
    let published = record.mounts.published_folders().map(|(_, folder)| folder);
    // An unmounted directory is not recorded any more; then a mount elsewhere is only a copy.
    if !published.chain(staged).any(|known| known.ends_with(&target.below)) {
        return Ok(());
    }
    let mut mounts = table.mounts().iter().filter(|one| one.target.ends_with(&target.below));
    match mounts.find(|one| one.target != folder) {
        None => Ok(()),
        Some(mount) => {
            let found = format!("nothing is mounted at {}", folder.display());
            Err(elsewhere(&found, mount))
        }
    }
}

/// Stacked mounts may be unmounted only if all of them are the volume's. Data in a foreign mount on top must be kept.
pub(crate) fn refuse_strangers_on_top(snapshot: &Snapshot<'_>, look: &Look) -> Result<()> {
    let Some(top) = look.top()? else { return Ok(()) };
    let Stands::Mount { beneath, .. } = &look.stands else { return Ok(()) };
    if beneath.iter().all(|below| below.number == top.number) {
        return Ok(());
    }
    let numbers = snapshot.numbers(&[]);
    let is_volumes = |mount: &Mount| -> Result<bool> {
        Ok(numbers.contains(&mount.disk)
            || match snapshot.id {
                Some(id) => label::owner_of(mount).as_ref() == Some(id),
                None => disk_owner::volume_of(snapshot.cx, mount)?.is_some(),
            })
    };
    // From the top down: a foreign mount on top of the volume's.
    let mut strangers: Option<&Mount> = None;
    for mount in std::iter::once(top).chain(beneath) {
        if !is_volumes(mount)? {
            strangers = strangers.or(Some(mount));
        } else if let Some(by) = strangers {
            return Err(under(mount, by).error());
        }
    }
    Ok(())
}

/// Why the path does not lead to the mount, and the command that fixes it; `None` if it does, or leads to another mount
/// of the volume on top.
pub(crate) fn out_of_reach(
    cx: &Context<'_>,
    mount: &Mount,
    table: &MountTable,
    is_volumes: impl Fn(&Mount) -> bool,
) -> Option<(String, String)> {
    let folder = &mount.target;
    let seen = match cx.host.mounts.leads_to(folder) {
        Ok(seen) if seen == Some(mount.id) => return None,
        Ok(seen) => seen,
        Err(error) => {
            return Some((error.cause, format!("findmnt --target {}", folder.display())));
        }
    };
    let covered = match Stands::of(folder, seen, table) {
        Stands::Covered(covered) => Covered { hidden: mount.clone(), ..covered },
        Stands::Mount { top, .. } if top.number != mount.number && !is_volumes(&top) => {
            under(mount, &top)
        }
        Stands::Nothing | Stands::Mount { .. } => return None,
    };
    Some((format!("it is covered by {}", covered.by_whom()), covered.way_out()))
}

/// Unmounts what this call has mounted, after an error. Leaves anything else alone.
pub(crate) fn undo_mount(
    cx: &Context<'_>,
    folder: &Path,
    number: DeviceNumber,
    error: Error,
) -> Error {
    let undone = cx.host.mounts.standing_at(folder).and_then(|look| match look.top()? {
        Some(top) if top.disk == number => cx.host.mounts.unmount(top, cx.deadline),
        _ => Ok(()),
    });
    match undone {
        Ok(()) => error,
        Err(also) if also.cause == error.cause => error,
        Err(also) => error.and_also(&also),
    }
}
