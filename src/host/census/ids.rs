//! ext file systems by the id that statfs(2) tells of them. It is asked of the mount, never of the disk:
//! a dead file system answers too.

use super::namespaces::{Namespace, Namespaces};
use super::proc::Proc;
use crate::host::{device_nodes, files};
use crate::model::disk::device::DeviceNumber;
use crate::model::mount::mountinfo::Mount;
use nix::fcntl::OFlag;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::Path;

/// The id of each mounted file system that tells one.
pub(super) fn by_number(
    proc: &Proc,
    every: &Namespaces,
) -> io::Result<BTreeMap<DeviceNumber, u64>> {
    let mut told: BTreeMap<DeviceNumber, u64> = BTreeMap::new();
    for namespace in &every.all {
        let is_own = namespace.id == Some(every.own);
        // Others tell nothing by it, and a walk into a user's FUSE may take for ever.
        let mounts =
            namespace.table.mounts().iter().filter(|mount| mount.fs_type.starts_with("ext"));
        for mount in mounts {
            if let Entry::Vacant(untold) = told.entry(mount.number)
                && let Some(id) = id_of(mount, &doors(namespace, is_own), proc)?
            {
                untold.insert(id);
            }
        }
    }
    Ok(told)
}

/// Root folders through which the namespace's paths can be walked.
fn doors(namespace: &Namespace, is_own: bool) -> Vec<String> {
    if is_own {
        return vec!["thread-self/root".to_owned()];
    }
    namespace.tasks.iter().take(4).map(|task| format!("{}/root", task.pid)).collect()
}

fn id_of(mount: &Mount, doors: &[String], proc: &Proc) -> io::Result<Option<u64>> {
    let below = mount.target.strip_prefix("/").unwrap_or(&mount.target);
    for door in doors {
        match id_at(&Path::new(door).join(below), mount.number, proc) {
            Ok(Some(id)) => return Ok(Some(id)),
            Err(error) if files::is_shortage(&error) => return Err(error),
            Ok(None) | Err(_) => {}
        }
    }
    Ok(None)
}

fn id_at(path: &Path, number: DeviceNumber, proc: &Proc) -> io::Result<Option<u64>> {
    let place = proc.open(path, OFlag::O_PATH | OFlag::O_NOFOLLOW)?;
    // Something else may be mounted over it, or a link may have led away.
    if device_nodes::number_below(&place.metadata()?) != number {
        return Ok(None);
    }
    Ok(Some(rustix::fs::fstatvfs(&place)?.f_fsid))
}
