//! The count of what is written to a stretch of a map: device mapper keeps it, in the kernel's memory, so that nothing
//! waits for the disk.

use super::control::Control;
use super::seen;
use crate::failpoints;
use crate::model::disk::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::model::shield::write_count::{WriteCount, sectors_written};
use std::path::Path;

/// Begins the count of a map that has no table yet: the kernel waits until nothing is under way in the map, and then
/// nothing can be. A map without a count is as good as any other, but for what is told by it.
pub(super) fn begin(control: &Control<'_>, stretch: (u64, u64)) {
    let begun = || {
        // What a killed call left may be of another stretch.
        while let Some(count) = of(control)? {
            control.tell(&count.end())?;
        }
        control.tell(&WriteCount::begin(stretch))
    };
    if let Err(error) = begun() {
        tracing::warn!(%error, "what is written to the journal is not counted");
    }
}

/// Takes back what waits in a map whose disk is gone, by a suspend; what the kernel counts of that meanwhile, if it
/// counts, was not written.
pub(super) fn kept_over(control: &Control<'_>, suspend: impl FnOnce() -> Result<()>) -> Result<()> {
    let Some(count) = of(control)? else { return suspend() };
    let held = count.held(counted(control, &count)?);
    control.tell(&held.keep())?;
    failpoints::step("map.held");
    suspend()?;
    control.tell(&held.let_go(counted(control, &held)?).keep()).map(drop)
}

/// How many sectors were written to this stretch of this map, if it is what is counted. That the kernel could not be
/// asked is an error, and no word that it is not.
pub(super) fn written(map: &Device, stretch: (u64, u64)) -> Result<Option<u64>> {
    let Some(seen) = seen::map_called(Path::new("/sys"), &map.kernel_name)? else {
        return Ok(None);
    };
    let control = Control::of(&seen.uuid)?;
    match of(&control)?.filter(|count| count.is_of(stretch)) {
        Some(count) => Ok(count.written(counted(&control, &count)?)),
        None => Ok(None),
    }
}

fn of(control: &Control<'_>) -> Result<Option<WriteCount>> {
    Ok(WriteCount::listed(&control.tell(&WriteCount::list())?))
}

fn counted(control: &Control<'_>, count: &WriteCount) -> Result<u64> {
    let text = control.tell(&count.print())?;
    let strange = || Error::new(Kind::Host, format!("device mapper's count is strange: {text:?}"));
    sectors_written(&text).ok_or_else(strange)
}
