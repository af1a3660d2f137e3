//! A mount table that is made up.

use super::nothing;
use crate::host::files;
use crate::model::error::Result;
use crate::model::mount::layout::Target;
use crate::model::mount::mount_place::Look;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::ports::clock::Deadline;
use crate::ports::host::{Hidden, MountRequest, Mounts};
use std::cell::Cell;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What is mounted. Nothing can be mounted, nor unmounted.
#[derive(Debug, Default)]
pub(crate) struct FakeMounts {
    pub(crate) table: MountTable,
    /// How often it was looked what stands at a folder.
    pub(crate) looks: Cell<u32>,
}

impl FakeMounts {
    /// These lines of a mount table.
    pub(crate) fn of(lines: &[&str]) -> Self {
        let table = MountTable::parse(lines.join("\n").as_bytes()).unwrap();
        Self { table, ..Self::default() }
    }
}

impl Mounts for FakeMounts {
    fn table(&self) -> Result<MountTable> {
        Ok(self.table.clone())
    }

    fn real_path(&self, target: &Target) -> Result<PathBuf> {
        Ok(target.path())
    }

    fn standing_at(&self, folder: &Path) -> Result<Look> {
        self.looks.set(self.looks.get() + 1);
        Ok(Look::of(folder, None, self.table.clone()))
    }

    fn leads_to(&self, _: &Path) -> Result<Option<u32>> {
        Ok(None)
    }

    fn open_root(&self, _: &Mount) -> Result<File> {
        nothing()
    }

    fn make_folder(&self, _: &Path) -> Result<()> {
        nothing()
    }

    fn mount(&self, _: MountRequest<'_>) -> Result<()> {
        nothing()
    }

    fn hidden_in(&self, _: &Path) -> Hidden {
        Hidden::default()
    }

    fn bind(&self, _: &Mount, _: &Path, _: bool) -> Result<()> {
        nothing()
    }

    fn seclude(&self, _: &Path) -> Result<()> {
        nothing()
    }

    fn make_read_only(&self, _: &Mount) -> Result<()> {
        nothing()
    }

    fn flush(&self, _: &Mount, _: Deadline) -> Result<()> {
        nothing()
    }

    fn flush_inside(&self, _: &File, _: &Mount, _: Deadline) -> Result<bool> {
        nothing()
    }

    fn unmount(&self, _: &Mount, _: Deadline) -> Result<()> {
        nothing()
    }

    fn unmount_inside(&self, _: &File, _: &[Mount], _: Deadline) -> Result<()> {
        nothing()
    }

    fn names_in(&self, folder: &Path) -> Vec<String> {
        files::names_in(folder)
    }

    fn is_missing(&self, path: &Path) -> bool {
        files::is_missing(path)
    }

    fn remove_folder(&self, _: &Path) -> Result<()> {
        nothing()
    }

    fn exchange_folder(&self, _: &Path) -> Result<()> {
        nothing()
    }

    fn tidy_exchange(&self, _: &Path) {}

    fn copy_of(&self, _: &Mount) -> Option<OwnedFd> {
        None
    }

    fn put_back(&self, _: OwnedFd, _: &Path) -> Result<()> {
        nothing()
    }

    fn unmount_dead(&self, _: &Mount, _: Deadline) -> Result<()> {
        nothing()
    }
}
