//! ext file systems by the id that statfs(2) tells of them. It is asked of the mount, never of the disk:
//! a dead file system answers too.

use super::namespaces::{Namespace, Namespaces};
use super::proc::Proc;
use crate::host::device_nodes;
use crate::model::disk::device::DeviceNumber;
use crate::model::mount::mountinfo::Mount;
use nix::fcntl::OFlag;
use std::collections::BTreeMap;
use std::path::Path;

/// The numbers of all mounted file systems with this id.
pub(super) fn numbers_with(id: u64, proc: &Proc, every: &Namespaces) -> Vec<DeviceNumber> {
    let mut told: BTreeMap<DeviceNumber, Option<u64>> = BTreeMap::new();
    for namespace in &every.all {
        let is_own = namespace.id == Some(every.own);
        // Others tell nothing by it, and a walk into somebody's FUSE may take for ever.
        let mounts =
            namespace.table.mounts().iter().filter(|mount| mount.fs_type.starts_with("ext"));
        for mount in mounts {
            let known = told.entry(mount.number).or_default();
            if known.is_none() {
                *known = id_of(mount, &doors(namespace, is_own), proc);
            }
        }
    }
    told.into_iter().filter(|(_, told)| *told == Some(id)).map(|(number, _)| number).collect()
}

/// Root folders through which the namespace's paths can be walked.
fn doors(namespace: &Namespace, is_own: bool) -> Vec<String> {
    if is_own {
        return vec!["thread-self/root".to_owned()];
    }
    namespace.tasks.iter().take(4).map(|task| format!("{}/root", task.pid)).collect()
}

fn id_of(mount: &Mount, doors: &[String], proc: &Proc) -> Option<u64> {
    let below = mount.target.strip_prefix("/").unwrap_or(&mount.target);
    doors.iter().find_map(|door| {
        let place = Path::new(door).join(below);
        let place = proc.open(place, OFlag::O_PATH | OFlag::O_NOFOLLOW).ok()?;
        // Something else may be mounted over it, or a link may have led away.
        let number = device_nodes::number_below(&place.metadata().ok()?);
        (number == mount.number).then(|| rustix::fs::fstatvfs(&place).ok().map(|all| all.f_fsid))?
    })
}
