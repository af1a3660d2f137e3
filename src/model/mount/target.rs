//! Folders that the orchestrator names for mounts.

use crate::model::ids::{ConsumerId, VolumeName};
use std::path::{Path, PathBuf};

/// Where the orchestrator has a volume's one mount for the machine, below its root.
pub const GLOBAL: &str = "plugins/kubernetes.io/flexvolume/incloud/disk/mounts";
/// Where it has the volumes of a consumer, below the consumer's folder.
pub const IN_POD: &str = "volumes/incloud~disk";
/// Where it has the parts of volumes that containers ask for by `subPath`, below the consumer's
/// folder: `<volume>/<container>/<number of the mount>`.
pub const SUBPATHS: &str = "volume-subpaths";
/// Where it has the folders of consumers, below its root.
pub const PODS: &str = "pods";

/// Whose a folder of the orchestrator's is, told by its path alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The machine's.
    Global,
    /// A consumer's.
    Pod(ConsumerId),
    /// A part of the volume in a consumer's folder (`subPath`).
    SubPath(ConsumerId),
}

impl Place {
    /// The consumer whose folder it is in.
    #[must_use]
    pub fn consumer(&self) -> Option<&ConsumerId> {
        match self {
            Place::Global => None,
            Place::Pod(uid) | Place::SubPath(uid) => Some(uid),
        }
    }
}

/// What a path says of itself: the place and the volume's name, if it is one of ours.
#[must_use]
pub fn place_of(path: &Path) -> Option<(Place, VolumeName)> {
    parts_of(path).map(|(_, place, name)| (place, name))
}

/// The orchestrator's root above a path of one of the volumes that it has in its folders, ours or
/// another plugin's.
#[must_use]
pub fn root_above(path: &Path) -> Option<&Path> {
    // <root>/pods/<uid>/volumes/<plugin>/<volume>
    const IN_PODS: usize = 5;
    let volumes = Path::new(IN_POD).parent()?;
    let is_volume = path.ancestors().nth(2).is_some_and(|above| above.ends_with(volumes))
        && path.ancestors().nth(4).is_some_and(|above| above.ends_with(PODS));
    if is_volume {
        return path.ancestors().nth(IN_PODS);
    }
    parts_of(path).map(|(root, ..)| root)
}

fn parts_of(path: &Path) -> Option<(&Path, Place, VolumeName)> {
    let named = |path: &Path| VolumeName::parse(path.file_name()?.to_str()?).ok();
    let above = path.parent()?;
    if above.ends_with(GLOBAL) {
        let root = above.ancestors().nth(Path::new(GLOBAL).components().count())?;
        return Some((root, Place::Global, named(path)?));
    }
    if above.ends_with(IN_POD) {
        let (root, uid) = in_pod(above.ancestors().nth(2)?)?;
        return Some((root, Place::Pod(uid), named(path)?));
    }
    let is_number = path.file_name()?.to_str()?.parse::<u32>().is_ok();
    let volume = above.parent().filter(|volume| {
        is_number && volume.parent().is_some_and(|above| above.ends_with(SUBPATHS))
    })?;
    let (root, uid) = in_pod(volume.ancestors().nth(2)?)?;
    Some((root, Place::SubPath(uid), named(volume)?))
}

/// The root above a consumer's folder, and the consumer.
fn in_pod(pod: &Path) -> Option<(&Path, ConsumerId)> {
    let pods = pod.parent().filter(|pods| pods.ends_with(PODS))?;
    Some((pods.parent()?, ConsumerId::parse(pod.file_name()?.to_str()?).ok()?))
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
        let pod = Some((Place::Pod(uid.clone()), name.clone()));
        assert_eq!(of("/k/pods/u-1/volumes/incloud~disk/pv"), pod);
        let part = Some((Place::SubPath(uid), name));
        assert_eq!(of("/k/pods/u-1/volume-subpaths/pv/main/0"), part);
        for other in [
            "/",
            "/pv",
            "/0",
            "/mounts/pv",
            "/k/pods/u-1/volumes/other~disk/pv",
            "/volumes/incloud~disk/pv",
            "/k/u-1/volumes/incloud~disk/pv",
            "/k/pods/u-1/volume-subpaths/pv/main/x",
            "/k/pods/u-1/volume-subpaths/pv/0",
            "/k/pods/u-1/volume-subpaths/pv/main/sub/0",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn the_root_stands_above_every_volume() {
        let global = format!("/k/{GLOBAL}/pv");
        for path in [
            global.as_str(),
            "/k/pods/u/volumes/incloud~disk/pv",
            "/k/pods/u/volumes/kubernetes.io~projected/token",
            "/k/pods/u/volume-subpaths/pv/main/0",
        ] {
            assert_eq!(root_above(Path::new(path)), Some(Path::new("/k")), "{path}");
        }
        for path in ["/", "/k/pods/u/etc-hosts", "/k/u/volumes/a/b", "/volumes/a/b"] {
            assert_eq!(root_above(Path::new(path)), None, "{path}");
        }
    }
}
