//! The trees of cgroups, and who made folders in them.

use crate::files;
use crate::model::cgroup::Step;
use crate::model::mount::mountinfo::{Mount, MountTable};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Who made folders of cgroups. systemd, and each container runtime, gives users parts of the trees
/// in which they make folders of any name.
#[derive(Debug)]
pub(super) struct Makers {
    own: Arc<MountTable>,
    /// The user who is believed.
    trusted: u32,
    known: Mutex<HashMap<PathBuf, bool>>,
    /// The trees of each set of controllers, by what is mounted and where.
    trees: Mutex<HashMap<String, Vec<(PathBuf, PathBuf)>>>,
}

impl Makers {
    pub(super) fn new(own: Arc<MountTable>, trusted: u32) -> Self {
        Self { own, trusted, known: Mutex::default(), trees: Mutex::default() }
    }

    /// Whether a folder and all above it are root's. Where the tree cannot be seen from here its
    /// names are believed: to overlook a pod is worse than to see one too many.
    pub(super) fn is_roots(&self, step: Step<'_>) -> bool {
        let path = Path::new(step.path);
        // From another cgroup namespace paths lead up first.
        if path.components().any(|part| part == Component::ParentDir) {
            return true;
        }
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        let trees = trees.entry(step.controllers.to_owned()).or_insert_with(|| {
            let all = self.own.mounts().iter();
            let its = all.filter(|mount| is_tree_of(mount, step.controllers, &self.own));
            its.map(|mount| (mount.root.clone(), mount.target.clone())).collect()
        });
        let mut trees = trees.iter();
        let Some((tree, below)) =
            trees.find_map(|(root, target)| Some((target, path.strip_prefix(root).ok()?)))
        else {
            return true;
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut folder = tree.clone();
        let mut all = below.components().map(|part| {
            folder.push(part);
            let look = || match fs::symlink_metadata(&folder) {
                Ok(found) => found.uid() == self.trusted,
                Err(error) => files::is_lack(&error),
            };
            *known.entry(folder.clone()).or_insert_with(look)
        });
        all.all(|is_roots| is_roots)
    }
}

pub(super) fn is_tree_of(mount: &Mount, controllers: &str, own: &MountTable) -> bool {
    is_hierarchy(mount, controllers)
        // Something else may be mounted over it.
        && own.covering(&mount.target).is_some_and(|top| top.id == mount.id)
}

/// Whether a mount is the tree of these controllers, as `/proc/PID/cgroup` lists them.
fn is_hierarchy(mount: &Mount, controllers: &str) -> bool {
    if controllers.is_empty() {
        return mount.fs_type == "cgroup2";
    }
    let has = |controller: &str| mount.super_options.split(',').any(|option| option == controller);
    mount.fs_type == "cgroup" && controllers.split(',').all(has)
}
