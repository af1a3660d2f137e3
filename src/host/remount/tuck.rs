//! A mount that comes to a place by propagation is put beneath what is mounted there already
//! (Linux 4.11): so new mounts can be made to come beneath old ones without asking for it.
//!
//! What the old mount stands on is shared with a copy of itself, in a scratch namespace; what is
//! mounted in the copy comes. It is made the copy's slave as soon as there is one: then the kernel
//! itself undoes everything when the copy goes, also if it goes because this program was killed.

use super::by_mount::Workshop;
use super::namespace::{Inside, attach, clone, failed};
use super::parent_mounts::{Ground, Ready};
use crate::failpoints;
use crate::model::error::{Error, Result};
use nix::mount::MsFlags;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use std::collections::BTreeMap;

/// Puts the new mounts beneath the old ones. The caller looks whether they came. Answers for each,
/// and no if the kernel does not let its parent be copied, and nothing was done.
pub(in crate::remount) fn beneath(
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
            let ground = grounds.iter().find(|ground| Some(ground.mount.id) == one.ground());
            if let Some(failure) = ground.and_then(|ground| ground.failure.clone()) {
                return Err(failure);
            }
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
