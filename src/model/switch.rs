//! Mounts that take another's place: how the kernel does it, and what became of each.

use super::mountinfo::Mount;
use std::fmt;

/// How a mount is put in the place of another one, so that no look-up between the two meets
/// anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// The new one is put beneath the old one, which is then taken off (`MOVE_MOUNT_BENEATH`,
    /// Linux 6.5).
    Beneath,
    /// The new one is let come by propagation, which puts it beneath what is mounted at the place
    /// already (Linux 4.11; by calls of Linux 5.2).
    Tuck,
    /// The new one is put on the old one, which stays until its namespace ends.
    Stack,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Beneath => "beneath",
            Self::Tuck => "tuck",
            Self::Stack => "stack",
        })
    }
}

/// What became of one old mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
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

/// One old mount, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switched {
    /// The old mount, as it was listed.
    pub mount: Mount,
    /// What became of it.
    pub outcome: Outcome,
    /// What is not as it was, in words: a nested mount whose folder is missing, a propagation
    /// that could not be restored.
    pub notes: Vec<String>,
}

impl Switched {
    /// One of which there is nothing to note.
    #[must_use]
    pub fn new(mount: &Mount, outcome: Outcome) -> Self {
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
    /// That of a mount.
    #[must_use]
    pub fn of(mount: &Mount) -> Self {
        let has = |tag: &str| mount.propagation.split(' ').any(|field| field.starts_with(tag));
        Self {
            is_shared: has("shared:"),
            is_slave: has("master:"),
            is_unbindable: has("unbindable"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::mountinfo::MountTable;

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
