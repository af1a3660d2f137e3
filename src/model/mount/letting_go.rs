//! Whether a consumer's folder may be unmounted while processes of it have the volume.
//!
//! A container's mount is one of its own: an unmount of the folder takes nothing from it, for an
//! unmount goes along with what the mount *stands on*, and a container's stands on its own root. So
//! the folder can be let go. kubelet then forgets what it took over under a wrong name, and mounts
//! again when it knows better; the volume itself stays here until the last process has ended.

use super::disk_users::{FileUse, NamespaceId, NamespaceUse};
use super::mountinfo::{Mount, MountTable};
use super::ownership::Machine;
use super::propagation::may_go_along;
use crate::ids::ConsumerId;
use std::path::Path;

/// What an unmount of a consumer's folder would do to the consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling<'a> {
    /// No process of it has the volume.
    Free,
    /// Each of them keeps it: by these mounts, which must be there afterwards.
    LetGo(Vec<Kept>),
    /// These would lose it: what they have goes along with the machine's own mount.
    Takes(Vec<&'a NamespaceUse>),
}

/// A mount of a consumer's that an unmount of its folder must leave alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Where it is; unknown if the only processes there do not let their links be read.
    pub namespace: Option<NamespaceId>,
    pub mount: Mount,
}

impl Kept {
    /// Whether it is among these.
    pub fn is_in(&self, uses: &[NamespaceUse]) -> bool {
        let is_it = |one: &Mount| {
            (one.id, one.number, &one.target)
                == (self.mount.id, self.mount.number, &self.mount.target)
        };
        uses.iter().flat_map(|one| &one.mounts).any(is_it)
    }
}

/// Judges an unmount of everything at the folder. `own` is the machine's table, `uses` are the
/// namespaces where processes of the consumer have the volume.
pub fn judge<'a>(
    folder: &Path,
    own: &MountTable,
    machine: &Machine<'_>,
    uses: &'a [NamespaceUse],
) -> Ruling<'a> {
    let mut kept = Vec::new();
    let mut takes = Vec::new();
    for one in uses {
        // Who sees another folder of the machine's too has nothing of his own by that.
        let is_other = |mount: &Mount| {
            machine.folder_under(mount, one).is_some_and(|covered| covered != folder)
        };
        let stays = |mount: &&Mount| !is_other(mount) && !goes_along(folder, own, mount, one);
        let mounts = one.mounts.iter().filter(stays);
        let its: Vec<_> =
            mounts.map(|mount| Kept { namespace: one.id, mount: mount.clone() }).collect();
        if its.is_empty() {
            takes.push(one);
        }
        kept.extend(its);
    }
    match (uses.is_empty(), takes.is_empty()) {
        (true, _) => Ruling::Free,
        (false, true) => Ruling::LetGo(kept),
        (false, false) => Ruling::Takes(takes),
    }
}

/// Whether the mount of another namespace may go with one of the machine's at the folder.
fn goes_along(folder: &Path, own: &MountTable, mount: &Mount, one: &NamespaceUse) -> bool {
    let stands_on = |mount: &Mount, all: &[Mount]| {
        all.iter().find(|below| below.id == mount.parent && below.id != mount.id).cloned()
    };
    // What it stands on is not seen: in doubt it goes.
    let Some(its) = stands_on(mount, &one.beneath) else { return true };
    own.at(folder).any(|at| {
        stands_on(at, own.mounts()).is_none_or(|parent| may_go_along((at, &parent), (mount, &its)))
    })
}

/// Who of the consumer's makes a mount of the machine's own busy: a process that has the volume in
/// a namespace of its own holds its files through its own mount.
pub fn in_the_way<'a>(
    consumer: &ConsumerId,
    files: &'a [FileUse],
    uses: &[NamespaceUse],
) -> Vec<&'a FileUse> {
    let has_its_own =
        |pid: u32| uses.iter().flat_map(|one| &one.processes).any(|one| one.pid == pid);
    let its = files.iter().filter(|one| one.process.owner.pod.as_ref() == Some(consumer));
    its.filter(|one| !has_its_own(one.process.pid)).collect()
}

#[cfg(test)]
#[path = "letting_go_tests.rs"]
mod tests;
