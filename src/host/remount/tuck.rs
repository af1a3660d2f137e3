//! A mount that comes to a place by propagation is put beneath what is mounted there already
//! (Linux 4.11): so new mounts can be made to come beneath old ones without asking for it.
//!
//! What the old mount stands on is shared with a copy of itself, in a scratch namespace; what is
//! mounted in the copy comes. It is made the copy's slave as soon as there is one: then the kernel
//! itself undoes everything when the copy goes, also if it goes because this program was killed.

use super::by_mount::Workshop;
use super::namespace::{Inside, attach, clone, failed};
use super::propagation;
use crate::failpoints;
use crate::model::error::{Error, Result};
use crate::model::mount::mountinfo::Mount;
use crate::model::mount::replacement::Propagation;
use nix::mount::MsFlags;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

/// An old mount for which all is prepared.
pub(in crate::host::remount) struct Ready<'a> {
    pub(in crate::host::remount) old: &'a Mount,
    pub(in crate::host::remount) at: OwnedFd,
    pub(in crate::host::remount) parent: Option<Mount>,
    /// The new one with what is nested in it, unless it is made in the scratch namespace.
    pub(in crate::host::remount) tree: Option<OwnedFd>,
    /// Whether it or something in it shares with others, as whose peer the new one must come.
    pub(in crate::host::remount) shares: bool,
    /// Whether propagation must be put right when it has come.
    pub(in crate::host::remount) changes: bool,
    pub(in crate::host::remount) notes: Vec<String>,
    /// Nested old mounts that go the same way.
    pub(in crate::host::remount) with: Vec<u32>,
}

impl Ready<'_> {
    /// What it stands on.
    pub(in crate::host::remount) fn ground(&self) -> Option<u32> {
        self.parent.as_ref().map(|parent| parent.id)
    }

    /// The way from there.
    pub(in crate::host::remount) fn below(&self) -> &Path {
        let ground = self.parent.as_ref().map(|parent| parent.target.as_path());
        let below = ground.and_then(|ground| self.old.target.strip_prefix(ground).ok());
        below.unwrap_or(Path::new(""))
    }
}

/// What old mounts stand on.
pub(in crate::host::remount) struct Ground {
    pub(in crate::host::remount) mount: Mount,
    place: OwnedFd,
    was: Propagation,
    /// Whether it may be the slave of its copy.
    pub(in crate::host::remount) may_follow: bool,
    follows: bool,
    peer: Option<OwnedFd>,
    /// Why nothing can be sent to it.
    failure: Option<Error>,
}

impl Ground {
    fn share(inside: &Inside, mount: &Mount, may_follow: bool) -> Result<Self> {
        let place = inside.pin(mount)?;
        let was = Propagation::of(mount);
        if !was.is_shared {
            // Of a slave that is the shared kind that follows its master still.
            inside.propagate(&place, MsFlags::MS_SHARED)?;
            failpoints::step("heal.tuck.shared");
        }
        let may_follow = may_follow && !was.is_shared && !was.is_unbindable;
        Ok(Self {
            mount: mount.clone(),
            place,
            was,
            may_follow,
            follows: false,
            peer: None,
            failure: None,
        })
    }

    /// Its only peer becomes its master, which follows the master that it had.
    pub(in crate::host::remount) fn follow(&mut self, inside: &Inside) -> Result<()> {
        if self.may_follow {
            inside.propagate(&self.place, MsFlags::MS_SLAVE)?;
            self.follows = true;
        }
        Ok(())
    }

    /// The other peer is gone with the scratch namespace.
    fn restore(&self, inside: &Inside) -> Result<()> {
        if self.was.is_shared || self.follows {
            return Ok(());
        }
        let now = Propagation { is_shared: true, is_unbindable: false, ..self.was };
        propagation::restore(inside, &self.place, self.was, now)
    }
}

/// Puts the new mounts beneath the old ones. The caller looks whether they came. Answers for each,
/// and no if the kernel does not let its parent be copied, and nothing was done.
pub(in crate::host::remount) fn beneath(
    inside: &Inside,
    ready: &[Ready<'_>],
    workshop: Option<&Workshop<'_>>,
) -> Vec<Result<bool>> {
    let mut failures: BTreeMap<u32, Error> = BTreeMap::new();
    let mut grounds: Vec<Ground> = Vec::new();
    for parent in ready.iter().filter_map(|one| one.parent.as_ref()) {
        let is_known = grounds.iter().any(|known| known.mount.id == parent.id);
        if is_known || failures.contains_key(&parent.id) {
            continue;
        }
        let may_follow = !ready.iter().any(|one| one.ground() == Some(parent.id) && one.shares);
        match Ground::share(inside, parent, may_follow) {
            Ok(ground) => grounds.push(ground),
            Err(error) => drop(failures.insert(parent.id, error)),
        }
    }
    let sent = match workshop {
        Some(workshop) => workshop.send(inside, &mut grounds, ready),
        None => send(inside, &mut grounds, ready),
    };
    failpoints::step("heal.tuck.sent");
    for ground in &grounds {
        if let Err(error) = ground.restore(inside) {
            failures.insert(ground.mount.id, error);
        }
    }
    let sent = sent.unwrap_or_else(|error| vec![Err(error); ready.len()]);
    let answer = |(one, sent): (&Ready<'_>, Result<bool>)| {
        let failure = one.ground().and_then(|ground| failures.get(&ground));
        failure.map_or(sent, |failure| Err(failure.clone()))
    };
    ready.iter().zip(sent).map(answer).collect()
}

fn send(inside: &Inside, grounds: &mut [Ground], ready: &[Ready<'_>]) -> Result<Vec<Result<bool>>> {
    for ground in grounds.iter_mut() {
        // Before the scratch namespace is made: copied into one of another user namespace it would
        // be no peer but a slave, from which nothing comes back. Nothing is mounted in this copy, so
        // that it shows the very folder or file that the old mount stands on.
        match clone(&ground.place, OpenTreeFlags::empty()) {
            Ok(peer) => {
                ground.peer = Some(peer);
                ground.follow(inside)?;
            }
            // Locked mounts in it hide what a copy without them would show.
            Err(rustix::io::Errno::INVAL) => {}
            Err(errno) => {
                let place = ground.mount.target.display();
                ground.failure = Some(failed(format!("copy the mount at {place}"), errno));
            }
        }
    }
    if grounds.iter().all(|ground| ground.peer.is_none() && ground.failure.is_none()) {
        return Ok(ready.iter().map(|_| Ok(false)).collect());
    }
    inside.in_scratch(|| {
        // Where they stand in there does not matter, if that place does not propagate.
        let wrong = |errno| failed("send the new mount", errno);
        let stages: Vec<_> = grounds
            .iter()
            .map(|ground| {
                let stage = inside.way.open(&ground.mount.target)?;
                inside.propagate(&stage, MsFlags::MS_PRIVATE).map(|()| stage)
            })
            .collect();
        // One that cannot be reached costs what stands on it, and nothing else.
        for (ground, stage) in grounds.iter_mut().zip(stages) {
            let Some(peer) = &ground.peer else { continue };
            let attached =
                stage.and_then(|at| attach(peer, &at, MoveMountFlags::empty()).map_err(wrong));
            ground.failure = attached.err();
        }
        let one = |one: &Ready<'_>| {
            if let Some(failure) = grounds
                .iter()
                .find(|ground| Some(ground.mount.id) == one.ground())
                .and_then(|ground| ground.failure.clone())
            {
                return Err(failure);
            }
            let ground = grounds.iter().find(|ground| Some(ground.mount.id) == one.ground());
            let (Some(peer), Some(tree)) =
                (ground.and_then(|ground| ground.peer.as_ref()), one.tree.as_ref())
            else {
                return Ok(false);
            };
            let place = inside.below(peer, one.below()).map_err(wrong)?;
            attach(tree, &place, MoveMountFlags::empty()).map_err(wrong)?;
            Ok(true)
        };
        Ok(ready.iter().map(one).collect())
    })
}
