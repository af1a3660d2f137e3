//! Fake file systems.

use super::nothing;
use crate::model::disk::contents::{Contents, FsType};
use crate::model::disk::device::Device;
use crate::model::error::{Error, Result};
use crate::model::ids::VolumeId;
use crate::ports::clock::Deadline;
use crate::ports::host::{FileSystems, NewFileSystem, Proven};
use std::cell::RefCell;
use std::fs::File;
use std::path::Path;

/// The disk's contents, and what was made there.
#[derive(Debug, Default)]
pub(crate) struct FakeFileSystems {
    pub(crate) holds: RefCell<Option<Contents>>,
    /// The contents after a format; without it nothing can be made.
    pub(crate) then_holds: RefCell<Option<Contents>>,
    pub(crate) made: RefCell<Vec<NewFileSystem>>,
}

impl FileSystems for FakeFileSystems {
    fn look(&self, _: &Device, _: Deadline) -> Result<Contents> {
        self.holds.borrow().clone().map_or_else(nothing, Ok)
    }

    fn second_opinion(&self, _: &VolumeId, _: &Device, _: Deadline) -> Result<Option<String>> {
        Ok(None)
    }

    fn rehearse(&self, _: u64, _: &NewFileSystem, _: Deadline) -> Result<Option<Contents>> {
        Ok(None)
    }

    fn wipe(&self, _: Proven<'_>) -> Result<()> {
        nothing()
    }

    fn make(&self, _: Proven<'_>, new: &NewFileSystem, _: Deadline) -> Result<()> {
        self.made.borrow_mut().push(new.clone());
        let holds = self.then_holds.borrow_mut().take().map_or_else(nothing, Ok)?;
        self.holds.replace(Some(holds));
        Ok(())
    }

    fn check(&self, _: Proven<'_>, _: FsType, _: Deadline) -> Result<()> {
        nothing()
    }

    fn grow_unmounted(&self, _: Proven<'_>, _: Deadline) -> Result<()> {
        nothing()
    }

    fn await_check(&self, _: &VolumeId, _: &Device, _: Deadline) -> Result<Option<Error>> {
        Ok(None)
    }

    fn grow(&self, _: (&File, &Path), _: FsType, _: Proven<'_>, _: Deadline) -> Result<u64> {
        nothing()
    }
}
