//! What is mounted in an old mount, to come along with the new one.
//!
//! The whole tree is built where nobody sees it, and attached at once: whoever kills this program
//! leaves the old tree or the new one, never half of it.

use super::inside::{Inside, attach, clone, failed, open, open_below};
use crate::model::error::Result;
use crate::model::mountinfo::{Mount, MountTable};
use nix::mount::MsFlags;
use rustix::fs::ResolveFlags;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A mount that stands on another one.
pub(super) fn children(table: &MountTable, of: u32) -> impl Iterator<Item = &Mount> {
    // The root of a namespace is written as standing on itself.
    table.mounts().iter().filter(move |mount| mount.parent == of && mount.id != of)
}

/// Everything that stands on a mount, the lower ones first.
pub(super) fn descendants(table: &MountTable, of: u32) -> Vec<&Mount> {
    let mut found: Vec<&Mount> = Vec::new();
    let mut layer = vec![of];
    // No deeper than the table is long: a torn one may run in a circle.
    for _ in 0..table.mounts().len() {
        let next: Vec<_> = layer.iter().flat_map(|id| children(table, *id)).collect();
        if next.is_empty() {
            break;
        }
        layer = next.iter().map(|mount| mount.id).collect();
        found.extend(next);
    }
    found
}

/// One nested mount, detached, and where it goes.
struct Piece {
    target: PathBuf,
    tree: OwnedFd,
}

/// The nested mounts of one old mount.
#[derive(Default)]
pub(super) struct Nested {
    pieces: Vec<Piece>,
    /// Old mounts that are replaced with the one that they stand on.
    pub(super) replaced: Vec<u32>,
    /// What does not come along.
    pub(super) notes: Vec<String>,
}

impl Nested {
    /// Copies what is mounted in this mount. Where an old mount of the dead file system is nested,
    /// its clone takes the place, and is used up.
    pub(super) fn of(
        inside: &Inside,
        table: &MountTable,
        old: &Mount,
        clones: &mut BTreeMap<u32, OwnedFd>,
    ) -> Result<Self> {
        let mut nested = Self::default();
        nested.collect(inside, table, old, clones, table.mounts().len())?;
        Ok(nested)
    }

    fn collect(
        &mut self,
        inside: &Inside,
        table: &MountTable,
        parent: &Mount,
        clones: &mut BTreeMap<u32, OwnedFd>,
        deepest: usize,
    ) -> Result<()> {
        // A torn table may run in a circle.
        let Some(deeper) = deepest.checked_sub(1) else { return Ok(()) };
        for child in children(table, parent.id) {
            let is_covered = children(table, child.id).any(|other| other.target == child.target);
            if is_covered {
                // Nobody sees it. What covers it comes along.
                self.collect(inside, table, child, clones, deeper)?;
                continue;
            }
            let target = child.target.clone();
            if let Some(tree) = clones.remove(&child.id) {
                self.replaced.push(child.id);
                self.pieces.push(Piece { target, tree });
                self.collect(inside, table, child, clones, deeper)?;
                continue;
            }
            let place = match inside.pin(child) {
                Ok(place) => place,
                Err(error) => {
                    self.leave(child, &error.cause);
                    continue;
                }
            };
            let below = descendants(table, child.id);
            let is_whole = !below.iter().any(|mount| clones.contains_key(&mount.id));
            let also = if is_whole { OpenTreeFlags::AT_RECURSIVE } else { OpenTreeFlags::empty() };
            let tree = clone(&place, also).map_err(|errno| {
                failed(format!("copy the mount at {}", target.display()), errno)
            })?;
            if !is_whole {
                // What is attached in a peer comes out in the mount that it was copied from.
                inside.propagate(&tree, MsFlags::MS_PRIVATE)?;
            }
            self.pieces.push(Piece { target, tree });
            if !is_whole {
                self.collect(inside, table, child, clones, deeper)?;
            }
        }
        Ok(())
    }

    fn leave(&mut self, mount: &Mount, why: &str) {
        let note =
            format!("what was mounted at {} did not come along: {why}", mount.target.display());
        self.notes.push(note);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Puts them into the new mount, which is to come to this place; answers the whole.
    pub(super) fn put_into(
        &mut self,
        inside: &Inside,
        tree: OwnedFd,
        at: &Path,
    ) -> Result<OwnedFd> {
        if self.is_empty() {
            return Ok(tree);
        }
        // In a detached mount nothing can be mounted before Linux 6.15.
        inside.in_scratch(|| {
            let place = open(at)?;
            inside.propagate(&place, MsFlags::MS_PRIVATE)?;
            let wrong = |errno| failed(format!("attach a mount at {}", at.display()), errno);
            attach(&tree, &place, MoveMountFlags::empty()).map_err(wrong)?;
            for Piece { target, tree: piece } in std::mem::take(&mut self.pieces) {
                let below = target.strip_prefix(at).unwrap_or(Path::new(""));
                let attached = open_below(&tree, below, ResolveFlags::empty())
                    .and_then(|place| attach(&piece, &place, MoveMountFlags::empty()));
                if let Err(errno) = attached {
                    let why = failed("its place on the new disk", errno).cause;
                    self.notes.push(format!(
                        "what was mounted at {} did not come along: {why}",
                        target.display()
                    ));
                }
            }
            clone(&tree, OpenTreeFlags::AT_RECURSIVE)
                .map_err(|errno| failed("copy the new mount with what is in it", errno))
        })
    }
}
