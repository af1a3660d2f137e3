//! The old mounts of one namespace, each in its turn.

use super::inside::{Inside, attach, failed};
use super::tree::{Nested, children, descendants};
use super::{settle, tuck};
use crate::model::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::mountinfo::{Mount, MountTable};
use crate::model::switch::{Method, Outcome, Propagation, Switched};
use crate::seam;
use nix::mount::MsFlags;
use rustix::mount::MoveMountFlags;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;

/// The work in one namespace.
pub(super) struct Work<'a> {
    pub(super) inside: &'a Inside,
    /// The mounts there: before the work, then before each switch.
    pub(super) table: MountTable,
    /// The old ones among them.
    pub(super) stale: &'a [Mount],
    /// A new mount for each, or why there is none.
    pub(super) clones: BTreeMap<u32, OwnedFd>,
    pub(super) refusals: HashMap<u32, String>,
    /// The new file system.
    pub(super) fresh: DeviceNumber,
    pub(super) method: Method,
}

/// What one switch came to.
struct Done {
    outcome: Outcome,
    notes: Vec<String>,
    /// Nested old mounts that went the same way.
    with: Vec<u32>,
}

impl Done {
    fn only(outcome: Outcome) -> Self {
        Self { outcome, notes: Vec::new(), with: Vec::new() }
    }
}

impl Work<'_> {
    pub(super) fn run(mut self) -> Vec<Switched> {
        let mut answers: HashMap<u32, Switched> = HashMap::new();
        for old in in_order(&self.table, self.stale) {
            if answers.contains_key(&old.id) {
                continue;
            }
            let done = self
                .one(old)
                .unwrap_or_else(|error| Done::only(Outcome::Skipped(error.to_string())));
            for with in self.stale.iter().filter(|mount| done.with.contains(&mount.id)) {
                answers.insert(with.id, Switched::new(with, done.outcome.clone()));
            }
            let mount = old.clone();
            answers.insert(old.id, Switched { mount, outcome: done.outcome, notes: done.notes });
        }
        let mut answers: Vec<_> = answers.into_values().collect();
        self.look_after(&mut answers);
        answers
    }

    fn is_fresh_twin(&self, mount: &Mount, old: &Mount) -> bool {
        mount.number == self.fresh && mount.root == old.root && mount.target == old.target
    }

    fn one(&mut self, old: &Mount) -> Result<Done> {
        // Each switch may have reached others, and ids that became free are given again.
        self.table = self.inside.table()?;
        if !has(&self.table, old) {
            return Ok(Done::only(Outcome::Gone));
        }
        if children(&self.table, old.id).any(|mount| self.is_fresh_twin(mount, old)) {
            let with = ids_below(&self.table, old);
            return Ok(Done { with, ..Done::only(Outcome::Stacked) });
        }
        let at = self.inside.pin(old)?;
        let parent = self.table.mounts().iter().find(|mount| mount.id == old.parent).cloned();
        if parent.as_ref().is_some_and(|parent| self.is_fresh_twin(parent, old)) {
            // A switch that was killed before its end: the new tree is whole.
            let with = ids_below(&self.table, old);
            self.take_off(old, &at)?;
            return Ok(Done { with, ..Done::only(Outcome::DetachedOnly) });
        }
        let Some(tree) = self.clones.remove(&old.id) else {
            let why = self.refusals.get(&old.id).cloned();
            return Err(Error::new(Kind::Host, why.unwrap_or_else(|| "no new mount".to_owned())));
        };
        let mut nested = Nested::of(self.inside, &self.table, old, &mut self.clones)?;
        let has_nested = !nested.is_empty();
        let tree = nested.put_into(self.inside, tree, &old.target)?;
        let outcome = self.replace(old, parent.as_ref(), &at, &tree)?;
        let parent_shares = parent.as_ref().is_some_and(|one| Propagation::of(one).is_shared);
        if has_nested || parent_shares || self.method == Method::Tuck || !old.propagation.is_empty()
        {
            let mut all = descendants(&self.table, old.id);
            all.insert(0, old);
            let now = self.inside.table()?;
            nested.notes.extend(settle::like(self.inside, &now, &all));
        }
        Ok(Done { outcome, notes: nested.notes, with: nested.replaced })
    }

    fn replace(
        &self,
        old: &Mount,
        parent: Option<&Mount>,
        at: &OwnedFd,
        tree: &OwnedFd,
    ) -> Result<Outcome> {
        // Found out before, not by a failure: a tucked one could not be taken back.
        if self.method == Method::Stack || self.inside.is_locked(at) {
            return put_on(old, at, tree);
        }
        if self.method == Method::Tuck {
            let parent = parent.ok_or_else(|| {
                Error::refused("the mount that it stands on cannot be seen from here")
            })?;
            seam::effect("heal.tuck")?;
            if !tuck::beneath(self.inside, parent, old, tree)? {
                return put_on(old, at, tree);
            }
            // Those who live here may have renamed a folder on the way: then it came elsewhere, and
            // the old one must stay.
            let now = self.inside.table()?;
            let below = now.mounts().iter().find(|mount| mount.id == old.id).map(|old| old.parent);
            let came = now.mounts().iter().any(|mount| {
                Some(mount.id) == below && mount.number == self.fresh && mount.root == old.root
            });
            if !came {
                self.take_back(&now);
                return Err(Error::new(Kind::Host, "the new mount did not come to its place"));
            }
        } else {
            seam::effect("heal.beneath")?;
            attach(tree, at, MoveMountFlags::MOVE_MOUNT_BENEATH).map_err(wrong(old))?;
        }
        seam::step("heal.attached");
        self.take_off(old, at)?;
        Ok(Outcome::Switched)
    }

    /// Takes off what came to a place where it was not sent.
    fn take_back(&self, now: &MountTable) {
        let is_astray = |mount: &&Mount| mount.number == self.fresh && !has(&self.table, mount);
        for mount in now.mounts().iter().filter(is_astray) {
            let _ = self.inside.pin(mount).and_then(|at| self.inside.detach(&at));
        }
    }

    fn take_off(&self, old: &Mount, at: &OwnedFd) -> Result<()> {
        if Propagation::of(old).is_shared {
            // Its peers keep what is mounted in them until their own turn.
            self.inside.propagate(at, MsFlags::MS_PRIVATE)?;
        }
        seam::effect("heal.detach")?;
        self.inside.detach(at)?;
        seam::step("heal.detached");
        Ok(())
    }

    /// Success is told from the mount table.
    fn look_after(&self, answers: &mut [Switched]) {
        let now = match self.inside.table() {
            Ok(now) => now,
            Err(error) => {
                for answer in answers {
                    answer.notes.push(format!("not looked after: {}", error.cause));
                }
                return;
            }
        };
        for answer in answers {
            let Switched { mount: old, outcome, notes } = answer;
            let is_there = has(&now, old);
            let is_new = now.top_at(&old.target).is_some_and(|top| self.is_fresh_twin(top, old));
            let is_so = match outcome {
                Outcome::Switched | Outcome::DetachedOnly => !is_there && is_new,
                Outcome::Stacked => is_new,
                Outcome::Gone | Outcome::Skipped(_) => true,
            };
            // Of nested ones whose folder is missing it was noted at the one they stood in.
            if !is_so && !is_there && notes.is_empty() {
                notes.push(format!("nothing of the new disk is at {}", old.target.display()));
            } else if !is_so {
                *outcome = Outcome::Skipped("the mount table does not show the change".to_owned());
            }
        }
    }
}

fn ids_below(table: &MountTable, old: &Mount) -> Vec<u32> {
    descendants(table, old.id).iter().map(|mount| mount.id).collect()
}

fn put_on(old: &Mount, at: &OwnedFd, tree: &OwnedFd) -> Result<Outcome> {
    seam::effect("heal.stack")?;
    attach(tree, at, MoveMountFlags::empty()).map_err(wrong(old))?;
    Ok(Outcome::Stacked)
}

fn wrong(old: &Mount) -> impl Fn(rustix::io::Errno) -> Error {
    move |errno| failed(format!("mount the new disk at {}", old.target.display()), errno)
}

/// Whether a mount is in the table still. Its id alone says nothing: the next new mount gets it.
fn has(table: &MountTable, wanted: &Mount) -> bool {
    table.mounts().iter().any(|mount| mount.id == wanted.id && mount.number == wanted.number)
}

/// Parents before children.
fn in_order<'a>(table: &MountTable, stale: &'a [Mount]) -> Vec<&'a Mount> {
    let parents: HashMap<u32, u32> =
        table.mounts().iter().map(|mount| (mount.id, mount.parent)).collect();
    let depth = |mount: &Mount| {
        let mut at = mount.id;
        // No deeper than the table is long: a torn one may run in a circle.
        (0..parents.len())
            .take_while(|_| match parents.get(&at) {
                Some(parent) if *parent != at => {
                    at = *parent;
                    true
                }
                _ => false,
            })
            .count()
    };
    let mut ordered: Vec<_> = stale.iter().collect();
    ordered.sort_by_key(|mount| depth(mount));
    ordered
}
