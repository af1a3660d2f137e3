//! What is mounted in an old mount, to come along with the new one.
//!
//! The whole tree is built out of sight, and attached at once: a kill of this program leaves
//! the old tree or the new one, never half of it.

use super::detached::New;
use super::mount_tree::{children, descendants};
use super::namespace::{Inside, attach, clone, failed};
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::mountinfo::{Mount, MountTable};
use nix::mount::MsFlags;
use rustix::fs::ResolveFlags;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// How deep mounts may be nested in each other: the processes there decide how deep they are, and
/// each costs a part of this thread's stack.
const DEEPEST: usize = 64;

/// What comes to the place of a nested mount.
pub(in crate::remount) enum What {
    /// A copy of what is there, alone or with all that is mounted in it.
    Copy { place: OwnedFd, with_all: bool },
    /// The new mount for this old one.
    New(u32),
}

/// One nested mount, and where it goes.
pub(in crate::remount) struct Piece {
    pub(in crate::remount) target: PathBuf,
    pub(in crate::remount) what: What,
}

/// The nested mounts of one old mount.
#[derive(Default)]
pub(in crate::remount) struct Nested {
    pub(in crate::remount) pieces: Vec<Piece>,
    /// What does not come along.
    pub(in crate::remount) notes: Vec<String>,
}

impl Nested {
    /// Finds what is mounted in this mount. `old_of` tells of which old mount one of them is to be
    /// replaced by the new one.
    pub(in crate::remount) fn of(
        inside: &Inside,
        table: &MountTable,
        old: &Mount,
        old_of: &dyn Fn(&Mount) -> Option<u32>,
    ) -> Self {
        let mut nested = Self::default();
        nested.collect(inside, table, old, old_of, DEEPEST);
        nested
    }

    fn collect(
        &mut self,
        inside: &Inside,
        table: &MountTable,
        parent: &Mount,
        old_of: &dyn Fn(&Mount) -> Option<u32>,
        deepest: usize,
    ) {
        let Some(deeper) = deepest.checked_sub(1) else {
            self.leave(&parent.target, "mounts lie too deep in each other there");
            return;
        };
        for child in children(table, parent.id) {
            let is_covered = children(table, child.id).any(|other| other.target == child.target);
            if is_covered {
                // It is out of sight. What covers it comes along.
                self.collect(inside, table, child, old_of, deeper);
                continue;
            }
            let target = child.target.clone();
            if let Some(old) = old_of(child) {
                self.pieces.push(Piece { target, what: What::New(old) });
                self.collect(inside, table, child, old_of, deeper);
                continue;
            }
            let place = match inside.pin(child) {
                Ok(place) => place,
                Err(error) => {
                    self.leave(&target, &error.cause);
                    continue;
                }
            };
            let below = descendants(table, child.id);
            let with_all = !below.iter().any(|mount| old_of(mount).is_some());
            self.pieces.push(Piece { target, what: What::Copy { place, with_all } });
            if !with_all {
                self.collect(inside, table, child, old_of, deeper);
            }
        }
    }

    pub(in crate::remount) fn leave(&mut self, target: &Path, why: &str) {
        self.notes
            .push(format!("what was mounted at {} did not come along: {why}", target.display()));
    }

    pub(in crate::remount) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The old mounts that are replaced with the one that they stand on.
    pub(in crate::remount) fn replaced(&self) -> Vec<u32> {
        let old = |piece: &Piece| match piece.what {
            What::New(old) => Some(old),
            What::Copy { .. } => None,
        };
        self.pieces.iter().filter_map(old).collect()
    }

    /// Puts them into the detached new mount, which is to come to this place; answers the whole.
    pub(in crate::remount) fn put_into(
        &mut self,
        inside: &Inside,
        tree: OwnedFd,
        at: &Path,
        is_peer: bool,
        news: &mut BTreeMap<u32, New>,
    ) -> Result<OwnedFd> {
        if self.is_empty() {
            return Ok(tree);
        }
        if is_peer {
            // What is nested in each of its peers would come to all of them.
            self.notes.push(format!("the mount at {} shares with no other one", at.display()));
        }
        let mut trees = Vec::new();
        for Piece { target, what } in std::mem::take(&mut self.pieces) {
            trees.push((detached(inside, &target, what, news)?, target));
        }
        // In a detached mount nothing can be mounted before Linux 6.15.
        inside.in_scratch(|| {
            let place = inside.way.open(at)?;
            inside.propagate(&place, MsFlags::MS_PRIVATE)?;
            let wrong = |errno| failed(format!("attach a mount at {}", at.display()), errno);
            attach(&tree, &place, MoveMountFlags::empty()).map_err(wrong)?;
            if is_peer {
                inside.propagate(&tree, MsFlags::MS_PRIVATE)?;
            }
            for (piece, target) in trees {
                let attached = place_in(inside, &tree, at, &target)
                    .and_then(|place| attach(&piece, &place, MoveMountFlags::empty()));
                if let Err(errno) = attached {
                    self.leave(&target, &failed("its place on the new disk", errno).cause);
                }
            }
            clone(&tree, OpenTreeFlags::AT_RECURSIVE)
                .map_err(|errno| failed("copy the new mount with what is in it", errno))
        })
    }
}

/// The place in the new mount that a nested one had in the old one.
pub(in crate::remount) fn place_in(
    inside: &Inside,
    tree: &OwnedFd,
    at: &Path,
    target: &Path,
) -> rustix::io::Result<OwnedFd> {
    let below = target.strip_prefix(at).unwrap_or(Path::new(""));
    // A nested one may stand in another nested one.
    inside.way.below(tree, below, ResolveFlags::empty())
}

fn detached(
    inside: &Inside,
    target: &Path,
    what: What,
    news: &mut BTreeMap<u32, New>,
) -> Result<OwnedFd> {
    let (place, with_all) = match what {
        What::Copy { place, with_all } => (place, with_all),
        What::New(old) => {
            return match news.remove(&old) {
                Some(New::Tree(tree)) => Ok(tree),
                _ => Err(Error::new(Kind::Bug, "a new mount was used twice")),
            };
        }
    };
    let also = if with_all { OpenTreeFlags::AT_RECURSIVE } else { OpenTreeFlags::empty() };
    let tree = clone(&place, also)
        .map_err(|errno| failed(format!("copy the mount at {}", target.display()), errno))?;
    if !with_all {
        // What is attached in a peer comes out in the mount that it was copied from.
        inside.propagate(&tree, MsFlags::MS_PRIVATE)?;
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_mounts_among_what_is_nested_are_replaced_and_copies_are_not() {
        let copy = || What::Copy { place: tempfile::tempfile().unwrap().into(), with_all: true };
        let piece = |what| Piece { target: "/data/in-it".into(), what };
        let of = |pieces| Nested { pieces, notes: Vec::new() };
        let nested = of(vec![piece(copy()), piece(What::New(5)), piece(What::New(7))]);
        assert_eq!(nested.replaced(), [5, 7]);
        assert!(!nested.is_empty());
        assert_eq!(of(vec![piece(copy())]).replaced(), Vec::<u32>::new());
        let mut none = of(Vec::new());
        none.leave(Path::new("/data/in-it"), "it is too deep");
        assert!(none.is_empty(), "a note is no mount");
        assert_eq!(
            none.notes,
            ["what was mounted at /data/in-it did not come along: it is too deep"]
        );
    }
}
