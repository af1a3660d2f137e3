//! Whose a mount of a volume in another mount namespace is.
//!
//! A *claim* is what a container was given: this driver bound the volume for its pod, or a runtime
//! mounted it for the container at a place of the container's own. A *view* is a copy of one of the
//! machine's own folders: an agent that sees the host has it, and so has each service and runtime
//! with mounts of its own.
//!
//! A path tells nothing, for a container chooses its paths. What tells a view is the folder that the
//! mount covers: the same folder of the same file system as one of the orchestrator's on this
//! machine, which no container has unless it sees the machine's. What cannot be told is a claim.

use super::disk_users::{NamespaceKeeper, NamespaceUse};
use super::mountinfo::{Mount, MountTable};
use crate::disk::device::DeviceNumber;
use crate::face::Faces;
use crate::ids::ConsumerId;
use crate::record::{MountsRecord, VolumeRecord};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a mount namespace with the volume is to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceRole {
    /// A process lives there that was given the volume.
    Claim,
    /// It sees the machine's folders, and no more.
    View,
    /// It has the volume at a place of its own, and no process lives there.
    Abandoned,
}

/// The machine's side: its own mounts, and what is remembered of the volume.
#[derive(Debug)]
pub struct Machine<'a> {
    faces: Faces,
    table: &'a MountTable,
    record: Option<&'a VolumeRecord>,
    numbers: &'a [DeviceNumber],
    roots: BTreeSet<PathBuf>,
}

impl<'a> Machine<'a> {
    /// With the numbers of the volume's file systems. The orchestrator's root is where the records
    /// or any of its volumes are.
    pub fn new(
        faces: Faces,
        table: &'a MountTable,
        record: Option<&'a VolumeRecord>,
        numbers: &'a [DeviceNumber],
    ) -> Self {
        let mounts = record.map(|record| &record.mounts);
        let staged = mounts.into_iter().flat_map(|one| one.staged.iter().chain(&one.unstaged));
        let published = mounts.into_iter().flat_map(MountsRecord::published_folders);
        let published = published.map(|(_, folder)| folder);
        let remembered = staged.map(|staged| staged.folder.as_path()).chain(published);
        let mounted = table.mounts().iter().map(|mount| mount.target.as_path());
        let roots = remembered.chain(mounted).filter_map(|path| faces.root_above(path));
        let roots = roots.map(Path::to_path_buf).collect();
        Self { faces, table, record, numbers, roots }
    }

    /// Whether this driver bound the volume for this pod.
    pub fn has_bound(&self, pod: &ConsumerId) -> bool {
        let is_in_its_folder = |mount: &Mount| {
            self.numbers.contains(&mount.number)
                && self
                    .faces
                    .place_of(&mount.target)
                    .is_some_and(|(place, _)| place.consumer() == Some(pod))
        };
        self.remembers(pod) || self.table.mounts().iter().any(is_in_its_folder)
    }

    /// Whether the pod has or had the volume, as this machine remembers.
    pub fn remembers(&self, pod: &ConsumerId) -> bool {
        self.record.is_some_and(|record| record.mounts.knows(pod))
    }

    /// What the namespace is to the volume.
    pub fn role(&self, one: &NamespaceUse) -> NamespaceRole {
        let sees_only = one.mounts.iter().all(|mount| self.folder_under(mount, one).is_some());
        let mut pods = one.processes.iter().filter_map(|process| process.owner.pod.as_ref());
        if pods.any(|pod| self.has_bound(pod)) {
            return NamespaceRole::Claim;
        }
        let is_unexamined = |one: &NamespaceKeeper| matches!(one, NamespaceKeeper::Unexamined(_));
        if !sees_only && one.keepers.iter().any(is_unexamined) {
            return NamespaceRole::Claim;
        }
        match (sees_only, one.processes.is_empty()) {
            (true, _) => NamespaceRole::View,
            (false, true) => NamespaceRole::Abandoned,
            (false, false) => NamespaceRole::Claim,
        }
    }

    /// The folder of the orchestrator's on this machine that a mount of another namespace covers.
    pub fn folder_under(&self, mount: &Mount, one: &NamespaceUse) -> Option<PathBuf> {
        let (number, path) = seat_of(mount, &one.beneath)?;
        self.here(number, &path).find(|folder| {
            self.faces.place_of(folder).is_some()
                && self.faces.root_above(folder).is_some_and(|root| self.roots.contains(root))
        })
    }

    /// The pod for which the orchestrator made the files that a runtime mounted into a namespace:
    /// each container has such, in whatever cgroup it runs.
    /// Nothing if there are none, or several pods'.
    pub fn pod_served(&self, table: &MountTable) -> Option<ConsumerId> {
        let served =
            table.mounts().iter().filter(|mount| self.faces.names_containers_file(&mount.root));
        let mut pods = served.filter_map(|mount| {
            self.here(mount.number, &mount.root).find_map(|path| {
                self.roots
                    .iter()
                    .find_map(|root| self.faces.consumer_of_file(path.strip_prefix(root).ok()?))
            })
        });
        let first = pods.next()?;
        pods.all(|pod| pod == first).then_some(first)
    }

    /// The paths on this machine of what lies at this path of a file system.
    fn here(&self, number: DeviceNumber, path: &Path) -> impl Iterator<Item = PathBuf> {
        self.table.of(number).filter_map(move |own| {
            let below = path.strip_prefix(&own.root).ok()?;
            Some(own.target.join(below))
        })
    }
}

/// The folder that a mount covers: its file system, and its path in that. Under a stack of mounts it
/// is the folder under the lowest one.
fn seat_of(mount: &Mount, beneath: &[Mount]) -> Option<(DeviceNumber, PathBuf)> {
    let mut top = mount;
    // A stack is no longer than the list; a torn one may run in a circle.
    for _ in 0..=beneath.len() {
        let below = beneath.iter().find(|one| one.id == top.parent && one.id != top.id)?;
        if below.target != mount.target {
            let rest = mount.target.strip_prefix(&below.target).ok()?;
            return Some((below.number, below.root.join(rest)));
        }
        top = below;
    }
    None
}

/// What the mounts of a namespace stand on, down to what does not lie at the same place.
pub fn beneath(mounts: &[Mount], table: &MountTable) -> Vec<Mount> {
    let mut found: Vec<Mount> = Vec::new();
    let mut wanted: Vec<&Mount> = mounts.iter().collect();
    while let Some(mount) = wanted.pop() {
        let below = table.mounts().iter().find(|one| one.id == mount.parent && one.id != mount.id);
        if let Some(below) = below.filter(|below| found.iter().all(|one| one.id != below.id)) {
            found.push(below.clone());
            if below.target == mount.target {
                wanted.push(below);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
