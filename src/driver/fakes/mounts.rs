//! A fake mount table.

use super::nothing;
use crate::host::files;
use crate::model::error::Result;
use crate::model::mount::layout::Target;
use crate::model::mount::mount_place::Look;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::ports::clock::Deadline;
use crate::ports::host::{Hidden, MountRequest, Mounts};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Successive readings of the table; the last one repeats. No file system can be mounted, and a bind mount must be in
/// the next reading.
#[derive(Debug, Default)]
pub(crate) struct FakeMounts {
    tables: RefCell<VecDeque<MountTable>>,
    /// How often a directory was looked at.
    pub(crate) looks: Cell<u32>,
    /// The unmounted mounts.
    pub(crate) unmounted: RefCell<Vec<u32>>,
}

impl FakeMounts {
    /// These lines, at every reading.
    pub(crate) fn of(lines: &[&str]) -> Self {
        Self::in_turn(&[lines])
    }

    /// Each reading's lines.
    pub(crate) fn in_turn(readings: &[&[&str]]) -> Self {
        let table = |lines: &&[&str]| MountTable::parse(lines.join("\n").as_bytes()).unwrap();
        Self { tables: RefCell::new(readings.iter().map(table).collect()), ..Self::default() }
    }
}

impl Mounts for FakeMounts {
    fn table(&self) -> Result<MountTable> {
        let mut tables = self.tables.borrow_mut();
        let now = if tables.len() > 1 { tables.pop_front() } else { tables.front().cloned() };
        Ok(now.unwrap_or_default())
    }

    fn real_path(&self, target: &Target) -> Result<PathBuf> {
        Ok(target.path())
    }

    fn standing_in(&self, folder: &Path, table: MountTable) -> Result<Look> {
        self.looks.set(self.looks.get() + 1);
        Ok(Look::of(folder, table.top_at(folder).map(|top| top.id), table))
    }

    fn leads_to(&self, _: &Path) -> Result<Option<u32>> {
        Ok(None)
    }

    fn open_root(&self, _: &Mount) -> Result<File> {
        nothing()
    }

    fn make_folder(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn mount(&self, _: MountRequest<'_>) -> Result<()> {
        nothing()
    }

    fn hidden_in(&self, _: &Path) -> Hidden {
        Hidden::default()
    }

    fn bind(&self, _: &Mount, _: &Path, _: bool) -> Result<()> {
        Ok(())
    }

    fn seclude(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn make_read_only(&self, _: &Mount) -> Result<()> {
        nothing()
    }

    fn flush(&self, _: &Mount, _: Deadline) -> Result<()> {
        Ok(())
    }

    fn flush_inside(&self, _: &File, _: &Mount, _: Deadline) -> Result<bool> {
        nothing()
    }

    fn unmount(&self, mount: &Mount, _: Deadline) -> Result<()> {
        self.unmounted.borrow_mut().push(mount.id);
        Ok(())
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
