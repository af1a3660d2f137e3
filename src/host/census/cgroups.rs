//! The trees of cgroups, and who made folders in them.

use crate::files;
use crate::model::cgroup::Step;
use crate::model::mount::mountinfo::{Mount, MountTable};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

/// Who made folders of cgroups. systemd, and each container runtime, gives users parts of the trees
/// in which they make folders of any name.
#[derive(Debug)]
pub(super) struct Makers {
    /// The trees.
    trees: Vec<Mount>,
    /// The user who is believed.
    trusted: u32,
}

impl Makers {
    pub(super) fn new(own: &MountTable, trusted: u32) -> Self {
        let trees = own.mounts().iter().filter(|mount| is_tree(mount, own)).cloned().collect();
        Self { trees, trusted }
    }

    /// Whether a folder and all above it are root's. Where the tree cannot be seen from here its
    /// names are believed: to overlook a pod is worse than to see one too many.
    pub(super) fn is_roots(&self, step: Step<'_>) -> bool {
        let path = Path::new(step.path);
        // From another cgroup namespace paths lead up first.
        if path.components().any(|part| part == Component::ParentDir) {
            return true;
        }
        let mut trees = self.trees.iter().filter(|tree| has_controllers(tree, step.controllers));
        let found = trees.find_map(|tree| Some((tree, path.strip_prefix(&tree.root).ok()?)));
        let Some((tree, below)) = found else { return true };
        let mut folder = tree.target.clone();
        below.components().all(|part| {
            folder.push(part);
            match fs::symlink_metadata(&folder) {
                Ok(found) => found.uid() == self.trusted,
                Err(error) => files::is_lack(&error),
            }
        })
    }
}

pub(super) fn is_tree(mount: &Mount, own: &MountTable) -> bool {
    mount.fs_type.starts_with("cgroup")
        // Something else may be mounted over it.
        && own.covering(&mount.target).is_some_and(|top| top.id == mount.id)
}

/// Whether a mount is the tree of these controllers, as `/proc/PID/cgroup` lists them.
pub(super) fn has_controllers(mount: &Mount, controllers: &str) -> bool {
    if controllers.is_empty() {
        return mount.fs_type == "cgroup2";
    }
    let has = |controller: &str| mount.super_options.split(',').any(|option| option == controller);
    mount.fs_type == "cgroup" && controllers.split(',').all(has)
}
