//! What old mounts stand on, made ready for new ones to come there by propagation.

use super::namespace::Inside;
use super::propagation;
use crate::failpoints;
use crate::model::error::{Error, Result};
use crate::model::mount::mountinfo::Mount;
use crate::model::mount::replacement::Propagation;
use nix::mount::MsFlags;
use std::os::fd::OwnedFd;
use std::path::Path;

/// An old mount for which all is prepared.
pub(in crate::remount) struct Ready<'a> {
    pub(in crate::remount) old: &'a Mount,
    pub(in crate::remount) at: OwnedFd,
    pub(in crate::remount) parent: Option<Mount>,
    /// The new one with what is nested in it, unless it is made in the scratch namespace.
    pub(in crate::remount) tree: Option<OwnedFd>,
    /// Whether it or something in it shares with others, as whose peer the new one must come.
    pub(in crate::remount) shares: bool,
    /// Whether propagation must be put right when it has come.
    pub(in crate::remount) changes: bool,
    pub(in crate::remount) notes: Vec<String>,
    /// Nested old mounts that go the same way.
    pub(in crate::remount) with: Vec<u32>,
}

impl Ready<'_> {
    /// What it stands on.
    pub(in crate::remount) fn ground(&self) -> Option<u32> {
        self.parent.as_ref().map(|parent| parent.id)
    }

    /// The way from there.
    pub(in crate::remount) fn below(&self) -> &Path {
        let ground = self.parent.as_ref().map(|parent| parent.target.as_path());
        let below = ground.and_then(|ground| self.old.target.strip_prefix(ground).ok());
        below.unwrap_or(Path::new(""))
    }
}

/// What old mounts stand on.
pub(in crate::remount) struct Ground {
    pub(in crate::remount) mount: Mount,
    pub(in crate::remount) place: OwnedFd,
    was: Propagation,
    /// Whether it may be the slave of its copy.
    pub(in crate::remount) may_follow: bool,
    follows: bool,
    pub(in crate::remount) peer: Option<OwnedFd>,
    /// Why nothing can be sent to it.
    pub(in crate::remount) failure: Option<Error>,
}

impl Ground {
    pub(in crate::remount) fn share(
        inside: &Inside,
        mount: &Mount,
        may_follow: bool,
    ) -> Result<Self> {
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
    pub(in crate::remount) fn follow(&mut self, inside: &Inside) -> Result<()> {
        if self.may_follow {
            inside.propagate(&self.place, MsFlags::MS_SLAVE)?;
            self.follows = true;
        }
        Ok(())
    }

    /// The other peer is gone with the scratch namespace.
    pub(in crate::remount) fn restore(&self, inside: &Inside) -> Result<()> {
        if self.was.is_shared || self.follows {
            return Ok(());
        }
        let now = Propagation { is_shared: true, ..self.was };
        propagation::restore(inside, &self.place, self.was, now)
    }
}
