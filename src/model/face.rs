//! A face of the driver: an interface through which an orchestrator calls it. Each brings its name, its
//! folders and its words; what it asked for is remembered with its name.

use super::ids::{ConsumerId, VolumeName};
use super::mount::layout::{FolderKind, Layout};
use super::report::tear_down::TearDownWords;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// An interface of an orchestrator.
#[derive(Debug, PartialEq, Eq)]
pub struct Face {
    /// Its name, for records and people.
    pub name: &'static str,
    /// Where its orchestrator has its folders.
    pub layout: Layout,
    /// What its orchestrator calls tear-downs.
    pub words: TearDownWords,
}

impl Face {
    /// Its name, to be remembered.
    pub fn name(&self) -> FaceName {
        FaceName(self.name.to_owned())
    }
}

/// The name of a face, as a record has it: perhaps of one that this version does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FaceName(String);

impl fmt::Display for FaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All faces: a machine's mounts may have been asked for through any.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faces(pub &'static [Face]);

impl Faces {
    /// The words of the face of this name. A record without a name is older than the second face; a
    /// face of another version has no words here.
    pub fn words_of(&self, name: Option<&FaceName>) -> TearDownWords {
        let face = match name {
            Some(name) => self.0.iter().find(|face| face.name == name.0),
            None => self.0.first(),
        };
        face.map_or(TearDownWords::PLAIN, |face| face.words)
    }

    /// The face that has a folder of this path, and what the path says of itself.
    pub fn face_of(&self, path: &Path) -> Option<(&'static Face, FolderKind, VolumeName)> {
        self.0.iter().find_map(|face| {
            let (_, kind, name) = face.layout.parts_of(path)?;
            Some((face, kind, name))
        })
    }

    /// What a path says of itself: the place and the volume's name, if it is one of ours.
    pub fn place_of(&self, path: &Path) -> Option<(FolderKind, VolumeName)> {
        self.face_of(path).map(|(_, kind, name)| (kind, name))
    }

    /// The volume's name, if only this driver's volumes are in such folders. What is mounted in a folder that
    /// drivers share is anyone's until its disk says more.
    pub fn name_of_own(&self, path: &Path) -> Option<VolumeName> {
        let (face, kind, name) = self.face_of(path)?;
        let is_own = match kind {
            FolderKind::Stage => true,
            FolderKind::Consumer(_) => !face.layout.shares_published,
            FolderKind::Part(_) => false,
        };
        is_own.then_some(name)
    }

    /// The orchestrator's root above a path of one of the volumes that it has in its folders, ours or
    /// another driver's.
    pub fn root_above<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        self.0.iter().find_map(|face| face.layout.root_of(path))
    }

    /// Names in the paths of files that are made for each container.
    pub fn container_files(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|face| face.layout.for_containers)
    }

    /// Whether the path may be of a file that is made for each container.
    pub fn names_containers_file(&self, path: &Path) -> bool {
        path.iter().any(|part| self.container_files().any(|name| part == name))
    }

    /// The consumer for which a file was made, by its path below the orchestrator's root.
    pub fn consumer_of_file(&self, path: &Path) -> Option<ConsumerId> {
        self.0.iter().find_map(|face| face.layout.consumer_of_file(path))
    }
}

/// Two faces for tests.
#[cfg(any(test, debug_assertions))]
pub const OF_TESTS: Faces = Faces(&[
    Face {
        name: "ours",
        layout: Layout {
            stages: "plugins/stages",
            consumers: "pods",
            published: "volumes/ours~disk",
            shares_published: false,
            parts: "volume-subpaths",
            for_containers: ["etc-hosts", "containers"],
        },
        words: TearDownWords::PLAIN,
    },
    Face {
        name: "second",
        layout: Layout {
            stages: "plugins/second",
            consumers: "pods",
            published: "volumes/every~driver",
            shares_published: true,
            parts: "volume-subpaths",
            for_containers: ["etc-hosts", "containers"],
        },
        words: TearDownWords {
            unpublish: "NodeUnpublish",
            unstage: "NodeUnstage",
            detach: "ControllerUnpublish",
        },
    },
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_drivers_share_proves_no_mount_to_be_ours() {
        let tells = |path: &str| {
            let path = Path::new(path);
            (OF_TESTS.place_of(path).is_some(), OF_TESTS.name_of_own(path).is_some())
        };
        for own in
            ["/k/plugins/second/pv", "/k/plugins/stages/pv", "/k/pods/u/volumes/ours~disk/pv"]
        {
            assert_eq!(tells(own), (true, true), "{own}");
        }
        for shared in ["/k/pods/u/volumes/every~driver/pv", "/k/pods/u/volume-subpaths/pv/main/0"] {
            assert_eq!(tells(shared), (true, false), "{shared}");
        }
        assert_eq!(tells("/k/pods/u/volumes/other~disk/pv"), (false, false));
    }
}
