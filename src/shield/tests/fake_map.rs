//! A map that is made up, and what is done to it.

use crate::model::disk::device::Device;
use crate::model::disk::journal::sights::{JournalMark, JournalSights};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::shield::own_map::OwnMap;
use crate::ports::clock::Deadline;
use crate::ports::host::{AboveDisk, Maps, Proven};
use std::cell::RefCell;

/// Of what a disk that comes back is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FakeJournal {
    Told,
    Lost,
    /// The kernel has no memory for an answer.
    Unasked,
}

/// One map, and what is done to it.
pub(crate) struct FakeMap {
    map: RefCell<Option<OwnMap>>,
    /// A volume whose map is there, and cannot be told.
    pub(crate) untold: Option<&'static str>,
    /// Whether the kernel fails to remove it.
    pub(crate) stays: bool,
    /// What the kernel says of what a disk would be compared with.
    pub(crate) journal: FakeJournal,
    /// What a disk and the kernel have of a journal, if it can be read.
    pub(crate) sights: Option<JournalSights>,
    pub(crate) done: RefCell<Vec<&'static str>>,
}

impl FakeMap {
    pub(crate) fn of(map: Option<OwnMap>) -> Self {
        Self {
            map: RefCell::new(map),
            untold: None,
            stays: false,
            journal: FakeJournal::Told,
            sights: None,
            done: RefCell::default(),
        }
    }

    fn note(&self, what: &'static str) {
        self.done.borrow_mut().push(what);
    }
}

impl Maps for FakeMap {
    fn map_of(&self, id: &VolumeId) -> Result<Option<OwnMap>> {
        if self.untold == Some(id.as_str()) {
            return Err(Error::new(Kind::Host, "it cannot be told"));
        }
        Ok(self.map.borrow().clone())
    }

    fn cover(&self, _: Proven<'_>, _: Option<(u64, u64)>) -> Result<()> {
        self.note("cover");
        Ok(())
    }

    fn switch(&self, _: Proven<'_>) -> Result<()> {
        self.note("switch");
        Ok(())
    }

    fn journals(&self, _: &Device, _: &AboveDisk<'_>, _: Deadline) -> Result<JournalSights> {
        self.sights.clone().ok_or_else(|| Error::new(Kind::Host, "it cannot be read"))
    }

    fn why_untold(&self, _: &Device, _: &JournalMark) -> Result<Option<String>> {
        match self.journal {
            FakeJournal::Told => Ok(None),
            FakeJournal::Lost => Ok(Some("it is counted no more".to_owned())),
            FakeJournal::Unasked => Err(Error::new(Kind::Host, "no memory")),
        }
    }

    fn superblock(&self, _: &Device, _: &JournalMark) -> Result<Option<String>> {
        Ok(Some("one".to_owned()))
    }

    fn volumes(&self) -> Result<Vec<VolumeId>> {
        let untold = self.untold.iter().filter_map(|id| VolumeId::parse(id).ok());
        Ok(untold.chain(self.map.borrow().iter().map(|map| map.volume.clone())).collect())
    }

    fn end_wait(&self, _: &VolumeId) -> Result<()> {
        self.note("end");
        if let Some(table) = self.map.borrow_mut().as_mut().and_then(|map| map.table.as_mut()) {
            table.is_queueing = false;
        }
        Ok(())
    }

    fn settle(&self, _: &VolumeId) -> Result<()> {
        self.note("settle");
        Ok(())
    }

    fn try_again(&self, _: &VolumeId) -> Result<()> {
        self.note("again");
        Ok(())
    }

    fn remove(&self, _: &VolumeId, _: Deadline) -> Result<bool> {
        let opened = self.map.borrow().as_ref().map_or(0, |map| map.opened);
        if opened > 0 {
            return Err(Error::new(Kind::Busy, "it is open"));
        }
        if self.stays {
            return Err(Error::new(Kind::Host, "the kernel has no memory"));
        }
        self.note("remove");
        Ok(self.map.take().is_some())
    }
}
