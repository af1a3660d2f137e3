//! What operations take and answer, through whichever face they are called.

use crate::context::Context;
use crate::model::disk::device::Device;
use crate::model::ids::{VolumeId, VolumeName};
use crate::model::record::DiskMoment;

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
    pub fn new(id: VolumeId, name: Option<VolumeName>) -> Self {
        let name = name.filter(|name| !name.is(&id));
        Self { id, name }
    }
}

/// The disk as it is now, for a record.
pub fn moment(cx: &Context<'_>, disk: &Device) -> DiskMoment {
    DiskMoment {
        number: disk.number,
        sequence: disk.sequence,
        size: disk.size,
        boot: cx.host.environment.boot_id(),
    }
}
