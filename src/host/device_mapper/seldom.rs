//! Whether what is mounted through a map writes its journal often enough to be compared by it.

use crate::host::files;
use crate::host::mounts::read_table;
use crate::model::disk::device::Device;
use crate::model::disk::journal::commits;
use crate::model::error::{Error, Result};
use crate::model::mount::mountinfo::Mount;

/// After how many hundredths of a second an xfs writes its log.
const XFS_WRITES_ITS_LOG: &str = "/proc/sys/fs/xfs/xfssyncd_centisecs";

/// The mounts of this machine that are made through this map.
pub(super) fn mounts_of(map: &Device) -> Result<Vec<Mount>> {
    Ok(read_table()?.of(map.number).cloned().collect())
}

/// Why it does not. It is asked at each look: a mount's options can be changed.
pub(super) fn why_seldom(map: &Device) -> Result<Option<String>> {
    let mounts = mounts_of(map)?;
    if let Some(why) = mounts.iter().find_map(|mount| commits::come_too_late(&mount.super_options))
    {
        return Ok(Some(why));
    }
    if !mounts.iter().any(|mount| mount.fs_type == "xfs") {
        return Ok(None);
    }
    let text = files::read_text(XFS_WRITES_ITS_LOG)
        .map_err(|error| Error::io(format!("read {XFS_WRITES_ITS_LOG}"), &error))?;
    let time = text.trim();
    let is_soon = time.parse().is_ok_and(|time: u64| time <= commits::XFS_WRITES_ITS_LOG);
    Ok((!is_soon).then(|| {
        format!("its journal is written too seldom to tell that ({XFS_WRITES_ITS_LOG}: {time})")
    }))
}
