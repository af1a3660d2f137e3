//! The input and output of operations, independent of the front end.

use crate::context::Context;
use crate::model::disk::device::Device;
use crate::model::ids::{VolumeId, VolumeName};
use crate::model::record::DiskMoment;

/// Whether there was anything to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Already,
}

/// A volume with both its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    pub id: VolumeId,
    /// The orchestrator's name; `None` if it equals the id.
    pub name: Option<VolumeName>,
}

impl Volume {
    /// Omits a name that equals the id.
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
