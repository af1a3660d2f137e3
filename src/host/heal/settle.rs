//! The propagation of new mounts: what is attached to a shared mount becomes shared.

use super::inside::Inside;
use crate::model::error::Result;
use crate::model::mountinfo::{Mount, MountTable};
use crate::model::switch::Propagation;
use nix::mount::MsFlags;
use std::os::fd::OwnedFd;

/// Gives what now is at the places of these old mounts the propagation that those had. Answers
/// what could not be had.
pub(super) fn like(inside: &Inside, table: &MountTable, old: &[&Mount]) -> Vec<String> {
    let mut notes = Vec::new();
    for mount in old {
        let Some(new) = table.top_at(&mount.target) else { continue };
        let (wanted, now) = (Propagation::of(mount), Propagation::of(new));
        let place = mount.target.display();
        let changed = if wanted == now {
            Ok(())
        } else {
            inside.pin(new).and_then(|at| restore(inside, &at, wanted, now))
        };
        if let Err(error) = changed {
            notes.push(format!("the mount at {place} propagates otherwise now: {}", error.cause));
        } else if wanted.is_slave && !now.is_slave {
            notes.push(format!("the mount at {place} follows no other one any more"));
        }
    }
    notes
}

/// From one kind of propagation to another.
pub(super) fn restore(
    inside: &Inside,
    place: &OwnedFd,
    wanted: Propagation,
    now: Propagation,
) -> Result<()> {
    if wanted.is_unbindable {
        return inside.propagate(place, MsFlags::MS_UNBINDABLE);
    }
    let mut is_shared = now.is_shared;
    let leaves_peers = now.is_shared && !wanted.is_shared;
    let leaves_master = now.is_slave && !wanted.is_slave;
    if leaves_peers || leaves_master || now.is_unbindable {
        let kind = if wanted.is_slave { MsFlags::MS_SLAVE } else { MsFlags::MS_PRIVATE };
        inside.propagate(place, kind)?;
        is_shared = false;
    }
    if wanted.is_shared && !is_shared {
        inside.propagate(place, MsFlags::MS_SHARED)?;
    }
    Ok(())
}
