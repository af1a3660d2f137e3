//! What goes along with an unmount: the kernel takes a mount off wherever the mount that it *stands
//! on* is shared with others, or followed by them, at the same place of each (`mount_namespaces(7)`).

use super::mountinfo::Mount;
use super::replacement::group_of;
use crate::disk::device::DeviceNumber;
use std::path::{Path, PathBuf};

/// Whether an unmount of one mount may take another one along, of this or another namespace; each is
/// given with what it stands on. In doubt it may: whom a follower follows is not always told.
pub fn may_go_along((mount, its): (&Mount, &Mount), (other, others): (&Mount, &Mount)) -> bool {
    if seat(mount, its) != seat(other, others) {
        return false;
    }
    let Some(group) = group_of(&its.propagation, "shared:") else { return false };
    group_of(&others.propagation, "shared:") == Some(group)
        || others.propagation.contains("master:")
}

/// The file system and the folder of it that a mount covers.
fn seat(mount: &Mount, below: &Mount) -> Option<(DeviceNumber, PathBuf)> {
    let rest = mount.target.strip_prefix(&below.target).ok()?;
    // A path that is joined with nothing gets a slash at its end.
    let place = if rest == Path::new("") { below.root.clone() } else { below.root.join(rest) };
    Some((below.number, place))
}
