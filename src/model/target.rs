//! Folders that the orchestrator names for mounts.

use super::ids::{ConsumerId, VolumeName};
use std::path::{Path, PathBuf};

/// Where the orchestrator has a volume's one mount for the machine, below its root.
pub const GLOBAL: &str = "plugins/kubernetes.io/flexvolume/incloud/disk/mounts";
/// Where it has the volumes of a consumer, below the consumer's folder.
pub const IN_POD: &str = "volumes/incloud~disk";
/// Where it has the folders of consumers, below its root.
pub const PODS: &str = "pods";

/// Whose a folder of the orchestrator's is, told by its path alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The machine's.
    Global,
    /// A consumer's.
    Pod(ConsumerId),
}

/// What a path says of itself: the place and the volume's name, if it is one of ours.
#[must_use]
pub fn place_of(path: &Path) -> Option<(Place, VolumeName)> {
    let name = VolumeName::parse(path.file_name()?.to_str()?).ok()?;
    let above = path.parent()?;
    if above.ends_with(GLOBAL) {
        return Some((Place::Global, name));
    }
    let pod = above.ends_with(IN_POD).then(|| above.ancestors().nth(2)).flatten()?;
    let is_pods = pod.parent().is_some_and(|pods| pods.ends_with(PODS));
    let uid = is_pods.then(|| ConsumerId::parse(pod.file_name()?.to_str()?).ok()).flatten()?;
    Some((Place::Pod(uid), name))
}

/// A folder below a root that the administrator vouches for. The root may be reached through
/// links; below it no link is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The administrator's part.
    pub root: PathBuf,
    /// The orchestrator's part: relative, without dots.
    pub below: PathBuf,
}

impl Target {
    /// The path as the orchestrator wrote it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.below)
    }
}

/// Where a volume would be staged: by the tail of the path alone when the root is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagePlace {
    /// The root, when the configuration binds it.
    pub root: Option<PathBuf>,
    /// The rest of the path.
    pub below: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_whose_it_is() {
        let of = |path: &str| place_of(Path::new(path));
        let name = VolumeName::parse("pv").unwrap();
        let global = format!("/k/{GLOBAL}/pv");
        assert_eq!(of(&global), Some((Place::Global, name.clone())));
        let uid = ConsumerId::parse("u-1").unwrap();
        assert_eq!(of("/k/pods/u-1/volumes/incloud~disk/pv"), Some((Place::Pod(uid), name)));
        for other in ["/", "/k/pods/u-1/volumes/other~disk/pv", "/volumes/incloud~disk/pv", "/pv"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
