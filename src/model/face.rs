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
    #[must_use]
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
    #[must_use]
    pub fn words_of(&self, name: Option<&FaceName>) -> TearDownWords {
        let face = match name {
            Some(name) => self.0.iter().find(|face| face.name == name.0),
            None => self.0.first(),
        };
        face.map_or(TearDownWords::PLAIN, |face| face.words)
    }

    /// The face that has a folder of this path, and what the path says of itself.
    #[must_use]
    pub fn face_of(&self, path: &Path) -> Option<(&'static Face, FolderKind, VolumeName)> {
        self.0.iter().find_map(|face| {
            let (_, kind, name) = face.layout.parts_of(path)?;
            Some((face, kind, name))
        })
    }

    /// What a path says of itself: the place and the volume's name, if it is one of ours.
    #[must_use]
    pub fn place_of(&self, path: &Path) -> Option<(FolderKind, VolumeName)> {
        self.face_of(path).map(|(_, kind, name)| (kind, name))
    }

    /// The orchestrator's root above a path of one of the volumes that it has in its folders, ours or
    /// another driver's.
    #[must_use]
    pub fn root_above<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        self.0.iter().find_map(|face| face.layout.root_of(path))
    }

    /// Names in the paths of files that are made for each container.
    pub fn container_files(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|face| face.layout.for_containers)
    }

    /// Whether the path may be of a file that is made for each container.
    #[must_use]
    pub fn names_containers_file(&self, path: &Path) -> bool {
        path.iter().any(|part| self.container_files().any(|name| part == name))
    }

    /// The consumer for which a file was made, by its path below the orchestrator's root.
    #[must_use]
    pub fn consumer_of_file(&self, path: &Path) -> Option<ConsumerId> {
        self.0.iter().find_map(|face| face.layout.consumer_of_file(path))
    }
}

/// Two faces for tests.
#[cfg(any(test, feature = "test-values"))]
pub const OF_TESTS: Faces = Faces(&[
    Face {
        name: "ours",
        layout: Layout {
            stages: "plugins/stages",
            consumers: "pods",
            published: "volumes/ours~disk",
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
            published: "volumes/second~disk",
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
