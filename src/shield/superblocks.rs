//! The superblocks of what is mounted through a map, as they were in the kernel's memory. The kernel writes a changed one
//! to the journal, and to its place half a minute later: a disk that goes meanwhile comes back with an earlier one.

use crate::driver::Context;
use crate::driver::operation::moment;
use crate::model::disk::device::Device;
use crate::model::disk::journal::sights::JournalMark;
use crate::model::ids::VolumeId;
use crate::ports::host::Maps;

/// Notes the one that is in memory now, of the mount of which this is remembered. Nothing waits for a disk.
pub(super) fn note(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    map: &Device,
    mark: &JournalMark,
) {
    let now = moment(cx, map);
    let noted = maps.superblock(map, mark).and_then(|found| match found {
        Some(found) => {
            cx.store.records.update(id, |record| record.shield.saw_superblock(now, found))
        }
        None => Ok(()),
    });
    if let Err(error) = noted {
        tracing::warn!(volume = %id, map = map.kernel_name, %error, "the superblock of what is mounted is not noted");
    }
}
