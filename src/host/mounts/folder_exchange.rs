//! The end of all mounts that other namespaces have at a folder: rename(2) over it, rmdir(2) and
//! unlink(2) detach them, locked or not. They fail where the caller's own namespace has one.

use crate::failpoints;
use crate::model::face::Faces;
use crate::model::mount::layout::FolderKind;
use nix::errno::Errno;
use std::fs;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::{Path, PathBuf};

pub(super) fn renew(folder: &Path, faces: Faces) -> Result<()> {
    let found = match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    match faces.place_of(folder) {
        Some((FolderKind::Stage, _)) if found.is_dir() => exchange(folder, &found),
        // The orchestrator removes these itself, and takes a folder beside them for a volume.
        Some((FolderKind::Consumer(_) | FolderKind::Part(_), _)) if found.is_dir() => {
            fs::remove_dir(folder)
        }
        // The place of a file that was mounted.
        Some((FolderKind::Part(_), _)) if found.is_file() && found.len() == 0 => {
            fs::remove_file(folder)
        }
        _ => Err(Errno::ENOTDIR.into()),
    }
}

fn exchange(folder: &Path, found: &fs::Metadata) -> Result<()> {
    let beside = beside(folder).ok_or(Errno::EINVAL)?;
    let work = || {
        match fs::DirBuilder::new().mode(0o700).create(&beside) {
            // A killed call left it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => other?,
        }
        lchown(&beside, Some(found.uid()), Some(found.gid()))?;
        fs::set_permissions(&beside, found.permissions())?;
        failpoints::step("mounts.renewing");
        fs::rename(&beside, folder)
    };
    work().inspect_err(|_| tidy(folder))
}

/// Where the new folder waits: not among the volumes'.
fn beside(folder: &Path) -> Option<PathBuf> {
    let name = folder.file_name()?.to_string_lossy();
    Some(folder.parent()?.parent()?.join(format!(".{name}.renewed")))
}

pub(super) fn tidy(folder: &Path) {
    if let Some(beside) = beside(folder) {
        let _ = fs::remove_dir(beside);
    }
}
