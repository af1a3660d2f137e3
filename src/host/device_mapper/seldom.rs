//! Whether what is mounted through a map writes its journal often enough to be compared by it.

use crate::files;
use crate::model::disk::device::Device;
use crate::model::disk::journal::commits;
use crate::model::error::{Error, Result};
use crate::model::mount::mountinfo::Mount;
use crate::mounts::read_table;

/// After how many hundredths of a second an xfs writes its log.
const XFS_WRITES_ITS_LOG: &str = "/proc/sys/fs/xfs/xfssyncd_centisecs";

/// The mounts of this machine that are made through this map.
pub(super) fn mounts_of(map: &Device) -> Result<Vec<Mount>> {
    Ok(read_table()?.of(map.number).cloned().collect())
}

/// Why these do not. It is asked at each look: a mount's options can be changed.
pub(super) fn why_seldom(mounts: &[Mount]) -> Result<Option<String>> {
    let late = mounts.iter().find_map(|mount| commits::come_too_late(&mount.super_options));
    if late.is_some() || !mounts.iter().any(|mount| mount.fs_type == "xfs") {
        return Ok(late);
    }
    let text = files::read_text(XFS_WRITES_ITS_LOG)
        .map_err(|error| Error::io(format!("read {XFS_WRITES_ITS_LOG}"), &error))?;
    Ok(commits::of_an_xfs_come_too_late(text.trim()))
}
