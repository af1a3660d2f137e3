//! What operations take and answer, through whichever face they are called.

use crate::context::Context;
use crate::model::disk::device::Device;
use crate::model::ids::{VolumeId, VolumeName};
use crate::model::record::DiskMoment;
use std::fmt;

/// Whether something had to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done now.
    Done,
    /// It was so already.
    Already,
}

/// A volume under the two names it goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    pub id: VolumeId,
    /// The orchestrator's; nothing if it says no more than the id.
    pub name: Option<VolumeName>,
}

impl Volume {
    /// A volume; a name that equals the id is left out.
    #[must_use]
    pub fn new(id: VolumeId, name: Option<VolumeName>) -> Self {
        let name = name.filter(|name| !name.is(&id));
        Self { id, name }
    }
}

/// How a caller that takes a volume off a folder says which one it means.
#[derive(Debug, Clone, Copy)]
pub enum VolumeRef<'a> {
    /// By the cloud's id: whatever goes by it as a name is not meant.
    Id(&'a VolumeId),
    /// By the orchestrator's name, and no more: what is mounted at the folder tells which one it is.
    Name(&'a VolumeName),
}

impl fmt::Display for VolumeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// The disk as it is now, for a record.
#[must_use]
pub fn moment(cx: &Context<'_>, disk: &Device) -> DiskMoment {
    DiskMoment {
        number: disk.number,
        sequence: disk.sequence,
        size: disk.size,
        boot: cx.host.environment.boot_id(),
    }
}
