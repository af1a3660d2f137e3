//! Folders that an orchestrator names for mounts, and what a path tells by them.

use crate::ids::{ConsumerId, VolumeName};
use std::path::{Path, PathBuf};

/// Where an orchestrator has its folders: each face of the driver brings its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// Where it has a volume's one mount for the machine, below its root.
    pub stages: &'static str,
    /// Where it has the folders of consumers, below its root.
    pub consumers: &'static str,
    /// Where it has the volumes of a consumer, below the consumer's folder. The folder above it has
    /// those of other drivers too.
    pub published: &'static str,
    /// Whether other drivers' volumes are among those.
    pub shares_published: bool,
    /// Where it has the parts of volumes that containers ask for, any driver's, below the consumer's
    /// folder: `<volume>/<container>/<number of the mount>`.
    pub parts: &'static str,
    /// What it makes for each container, below the consumer's folder, and a runtime mounts.
    pub for_containers: [&'static str; 2],
}

/// Whose a folder of the orchestrator's is, told by its path alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderKind {
    /// The machine's.
    Stage,
    /// A consumer's.
    Consumer(ConsumerId),
    /// A part of the volume in a consumer's folder (`subPath`).
    Part(ConsumerId),
}

impl FolderKind {
    /// The consumer whose folder it is in.
    pub fn consumer(&self) -> Option<&ConsumerId> {
        match self {
            FolderKind::Stage => None,
            FolderKind::Consumer(uid) | FolderKind::Part(uid) => Some(uid),
        }
    }
}

impl Layout {
    /// The root above a path of one of the volumes in the orchestrator's folders, also another driver's.
    pub fn root_of<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        self.root_above(path).or_else(|| self.parts_of(path).map(|(root, ..)| root))
    }

    /// The consumer for which a file was made, by its path below the orchestrator's root.
    pub fn consumer_of_file(&self, path: &Path) -> Option<ConsumerId> {
        let mut parts = path.strip_prefix(self.consumers).ok()?.iter();
        let consumer = parts.next()?.to_str()?;
        let what = parts.next()?;
        let is_its = self.for_containers.iter().any(|name| what == *name);
        is_its.then(|| ConsumerId::parse(consumer).ok())?
    }

    fn root_above<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        // <root>/<consumers>/<consumer>/<volumes>/<driver>/<volume>
        let volumes = Path::new(self.published).parent()?;
        let above = path.ancestors().nth(2).filter(|above| above.ends_with(volumes))?;
        let consumer = above.ancestors().nth(volumes.components().count());
        consumer.and_then(|consumer| self.root_above_consumer(consumer)).map(|(root, _)| root)
    }

    /// The root, what the folder is, and the volume's name, if the path is of such a folder.
    pub fn parts_of<'p>(&self, path: &'p Path) -> Option<(&'p Path, FolderKind, VolumeName)> {
        let named = |path: &Path| VolumeName::parse(path.file_name()?.to_str()?).ok();
        let folder = path.parent()?;
        if let Some(root) = above(folder, self.stages) {
            return Some((root, FolderKind::Stage, named(path)?));
        }
        if let Some(consumer) = above(folder, self.published) {
            let (root, consumer) = self.root_above_consumer(consumer)?;
            return Some((root, FolderKind::Consumer(consumer), named(path)?));
        }
        let is_number = path.file_name()?.to_str()?.parse::<u32>().is_ok();
        let volume = folder.parent().filter(|_| is_number)?;
        let (root, consumer) = self.root_above_consumer(above(volume.parent()?, self.parts)?)?;
        Some((root, FolderKind::Part(consumer), named(volume)?))
    }

    /// The root above a consumer's folder, and the consumer.
    fn root_above_consumer<'p>(&self, folder: &'p Path) -> Option<(&'p Path, ConsumerId)> {
        let root = above(folder.parent()?, self.consumers)?;
        let consumer = ConsumerId::parse(folder.file_name()?.to_str()?).ok()?;
        Some((root, consumer))
    }
}

/// What stands above `tail` in a path that ends with it.
pub fn above<'p>(path: &'p Path, tail: &str) -> Option<&'p Path> {
    let path = path.ends_with(tail).then_some(path)?;
    path.ancestors().nth(Path::new(tail).components().count())
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
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.below)
    }
}

/// The folder at which a volume has its one mount of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageTarget(pub Target);

/// A folder at which a consumer has a volume: it may have it at several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishTarget {
    pub consumer: ConsumerId,
    pub folder: Target,
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
    use crate::face::OF_TESTS;

    #[test]
    fn a_path_tells_whose_it_is() {
        let of = |path: &str| OF_TESTS.place_of(Path::new(path));
        let name = VolumeName::parse("pv").unwrap();
        let global = "/k/plugins/stages/pv".to_owned();
        assert_eq!(of(&global), Some((FolderKind::Stage, name.clone())));
        let uid = ConsumerId::parse("u-1").unwrap();
        let pod = Some((FolderKind::Consumer(uid.clone()), name.clone()));
        assert_eq!(of("/k/pods/u-1/volumes/ours~disk/pv"), pod);
        let part = Some((FolderKind::Part(uid), name));
        assert_eq!(of("/k/pods/u-1/volume-subpaths/pv/main/0"), part);
        for other in [
            "/",
            "/pv",
            "/0",
            "/mounts/pv",
            "/k/pods/u-1/volumes/other~disk/pv",
            "/volumes/ours~disk/pv",
            "/k/u-1/volumes/ours~disk/pv",
            "/k/pods/u-1/volume-subpaths/pv/main/x",
            "/k/pods/u-1/volume-subpaths/pv/0",
            "/k/pods/u-1/volume-subpaths/pv/main/sub/0",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn the_root_stands_above_every_volume() {
        let global = "/k/plugins/stages/pv".to_owned();
        for path in [
            global.as_str(),
            "/k/pods/u/volumes/ours~disk/pv",
            "/k/pods/u/volumes/other~projected/token",
            "/k/pods/u/volume-subpaths/pv/main/0",
        ] {
            assert_eq!(OF_TESTS.root_above(Path::new(path)), Some(Path::new("/k")), "{path}");
        }
        for path in ["/", "/k/pods/u/etc-hosts", "/k/u/volumes/a/b", "/volumes/a/b"] {
            assert_eq!(OF_TESTS.root_above(Path::new(path)), None, "{path}");
        }
    }
}
