//! A mount that comes to a place by propagation is put beneath what is mounted there already
//! (Linux 4.11): so a new mount can be made to come beneath an old one without asking for it.

use super::inside::{Inside, attach, clone, failed, open, open_below};
use super::settle;
use crate::model::error::Result;
use crate::model::mountinfo::Mount;
use crate::model::switch::Propagation;
use crate::seam;
use nix::mount::MsFlags;
use rustix::fs::ResolveFlags;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Puts the new mount beneath the old one. The caller looks whether it came. Answers no if the
/// kernel does not let this parent be copied, and nothing was done.
pub(super) fn beneath(
    inside: &Inside,
    parent: &Mount,
    old: &Mount,
    tree: &OwnedFd,
) -> Result<bool> {
    let ground = inside.pin(parent)?;
    let was = Propagation::of(parent);
    if !was.is_shared {
        // Of a slave that is the shared kind that follows its master still.
        inside.propagate(&ground, MsFlags::MS_SHARED)?;
        seam::step("heal.tuck.shared");
    }
    let sent = send(inside, parent, old, tree, &ground);
    seam::step("heal.tuck.sent");
    if !was.is_shared {
        // A lone peer that becomes a slave goes to the master that it had: its only other peer was
        // in the scratch namespace, which has ended.
        let now = Propagation { is_shared: true, is_unbindable: false, ..was };
        settle::restore(inside, &ground, was, now)?;
    }
    sent
}

fn send(
    inside: &Inside,
    parent: &Mount,
    old: &Mount,
    tree: &OwnedFd,
    ground: &OwnedFd,
) -> Result<bool> {
    // Before the scratch namespace is made: copied into one of another user namespace it would be
    // no peer but a slave, from which nothing comes back. Nothing is mounted in this copy, so that
    // it shows the very folder or file that the old mount stands on.
    let peer = match clone(ground, OpenTreeFlags::empty()) {
        Ok(peer) => peer,
        // Locked mounts in it hide what a copy without them would show.
        Err(rustix::io::Errno::INVAL) => return Ok(false),
        Err(errno) => {
            let place = parent.target.display();
            return Err(failed(format!("copy the mount at {place}"), errno));
        }
    };
    inside.in_scratch(|| {
        // Where it stands in there does not matter, if that place does not propagate.
        let stage = open(&parent.target)?;
        inside.propagate(&stage, MsFlags::MS_PRIVATE)?;
        let wrong = |errno| failed("send the new mount", errno);
        attach(&peer, &stage, MoveMountFlags::empty()).map_err(wrong)?;
        let below = old.target.strip_prefix(&parent.target).unwrap_or(Path::new(""));
        let place = open_below(&peer, below, ResolveFlags::NO_XDEV).map_err(wrong)?;
        attach(tree, &place, MoveMountFlags::empty()).map_err(wrong)
    })?;
    Ok(true)
}
