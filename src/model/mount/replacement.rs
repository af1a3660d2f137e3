//! Mounts that take another's place: how the kernel does it, and what became of each.

use super::mountinfo::Mount;
use crate::disk::device::DeviceNumber;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// How a mount is put in the place of another one, so that no look-up between the two meets
/// anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// The new one is put beneath the old one, which is then taken off (`MOVE_MOUNT_BENEATH`,
    /// Linux 6.5).
    Beneath,
    /// The new one is let come by propagation, which puts it beneath what is mounted at the place
    /// already (`mount_setattr(2)`, Linux 5.12).
    Tuck,
    /// The same where no call gives a mount its flags while it is out of sight: it gets them in a
    /// scratch namespace (`open_tree(2)`, Linux 5.2).
    TuckRemounted,
    /// The same by mount(2) alone: the disk is mounted once more, in a scratch copy of the
    /// namespace (Linux 4.11).
    TuckByMount,
    /// The new one is put on the old one, which stays until its namespace ends.
    Stack,
}

impl Method {
    /// All of them, the best first.
    pub const ALL: [Self; 5] =
        [Self::Beneath, Self::Tuck, Self::TuckRemounted, Self::TuckByMount, Self::Stack];

    /// The method of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.to_string() == name)
    }

    /// Whether this method temporarily shares the parents of the mounts it replaces.
    pub fn shares_parents(self) -> bool {
        matches!(self, Self::Tuck | Self::TuckRemounted | Self::TuckByMount)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Beneath => "beneath",
            Self::Tuck => "tuck",
            Self::TuckRemounted => "tuck-remounted",
            Self::TuckByMount => "tuck-by-mount",
            Self::Stack => "stack",
        })
    }
}

/// What became of one old mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplacementOutcome {
    /// The new one is in its place.
    Switched,
    /// The new one was in its place already, under it: it was only taken off.
    DetachedOnly,
    /// The new one lies on it. It stays, and holds its disk, until its namespace ends.
    Stacked,
    /// It was not there any more: taken off meanwhile, or by the switch of another mount that it
    /// follows.
    Gone,
    /// It is as it was, and why.
    Skipped(String),
}

impl ReplacementOutcome {
    /// Whether a new mount is in its place.
    pub fn is_replaced(&self) -> bool {
        matches!(self, Self::Switched | Self::DetachedOnly | Self::Stacked)
    }
}

/// One old mount, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switched {
    /// The old mount, as it was listed.
    pub mount: Mount,
    /// What became of it.
    pub outcome: ReplacementOutcome,
    /// What is not as it was, in words: a nested mount whose folder is missing, a propagation
    /// that could not be restored.
    pub notes: Vec<String>,
}

impl Switched {
    /// One of which there is nothing to note.
    pub fn new(mount: &Mount, outcome: ReplacementOutcome) -> Self {
        Self { mount: mount.clone(), outcome, notes: Vec::new() }
    }
}

/// The peers and the master of a mount, told by whether there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Propagation {
    /// What is mounted on it is also mounted on its peers.
    pub is_shared: bool,
    /// What is mounted on its master is also mounted on it.
    pub is_slave: bool,
    /// It cannot be bound elsewhere.
    pub is_unbindable: bool,
}

impl Propagation {
    pub fn of(mount: &Mount) -> Self {
        Self::parse(&mount.propagation)
    }

    /// What these fields of the mount table say.
    pub fn parse(fields: &str) -> Self {
        let has = |tag: &str| fields.split(' ').any(|field| field.starts_with(tag));
        Self {
            is_shared: has("shared:"),
            is_slave: has("master:"),
            is_unbindable: has("unbindable"),
        }
    }
}

/// The peer group that these fields of the mount table name behind a tag, such as `shared:`.
pub fn group_of(fields: &str, tag: &str) -> Option<u32> {
    fields.split(' ').find_map(|field| field.strip_prefix(tag)?.parse().ok())
}

/// A mount whose propagation a switch changes for a moment, and what it is to be in the end: a
/// switch that is killed in between leaves it otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountIntent {
    /// Its id, where it stays the same mount; nothing if it takes another one's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    pub number: DeviceNumber,
    /// Where it is, as seen in its namespace.
    #[serde(with = "crate::path_text")]
    pub target: PathBuf,
    /// The fields of the mount table that it is to have.
    #[serde(default)]
    pub propagation: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::mountinfo::MountTable;

    #[test]
    fn fields_name_their_groups() {
        let fields = "shared:12 master:3 propagate_from:2 ";
        assert_eq!((group_of(fields, "shared:"), group_of(fields, "master:")), (Some(12), Some(3)));
        assert_eq!(group_of("", "shared:"), None);
    }

    #[test]
    fn methods_are_known_by_their_names() {
        for method in Method::ALL {
            assert_eq!(Method::named(&method.to_string()), Some(method));
        }
        assert_eq!(Method::named("swap"), None);
    }

    #[test]
    fn the_fields_of_a_mount_tell_its_propagation() {
        for (fields, shared, slave, unbindable) in [
            ("", false, false, false),
            ("shared:1 ", true, false, false),
            ("master:3 propagate_from:2 ", false, true, false),
            ("shared:1 master:3 ", true, true, false),
            ("unbindable ", false, false, true),
        ] {
            let line = format!("1 2 7:0 / /x rw {fields}- ext4 s rw");
            let table = MountTable::parse(line.as_bytes()).unwrap();
            let found = Propagation::of(&table.mounts()[0]);
            assert_eq!(
                (found.is_shared, found.is_slave, found.is_unbindable),
                (shared, slave, unbindable),
                "{fields}"
            );
        }
    }
}
