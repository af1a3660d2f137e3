//! Mounts of a dead disk replaced by mounts of the same disk come back, in any mount namespace,
//! under the hands of those who use them: a look-up meets the old mount or the new one, and never
//! what is under both.

mod attributes;
mod by_mount;
mod detached;
mod known_mounts;
mod lower_mount;
mod mount_tree;
mod namespace;
mod nested;
mod parent_mounts;
mod probe;
mod propagation;
mod replace;
mod told_by_table;
mod tuck;

use super::child;
use super::safe_path::Way;
use crate::failpoints;
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::mountinfo::Mount;
use crate::model::mount::replacement::{Method, MountIntent, Switched};
use crate::ports::clock::Deadline;
use crate::ports::host::{Keeper, Remounts, SwitchRequest};
use by_mount::Origin;
use namespace::{Inside, failed, number_of};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use replace::NamespaceWork;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The kernel's ways to replace a mount.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelRemounts {
    method: Option<Method>,
}

impl KernelRemounts {
    /// By this method, whatever the kernel has.
    pub fn by(method: Method) -> Self {
        Self { method: Some(method) }
    }
}

impl Remounts for KernelRemounts {
    fn method(&self) -> Method {
        let wished = || Method::named(&failpoints::wish("INCLOUD_DISK_SWITCH")?);
        self.method.or_else(wished).unwrap_or_else(probe::best)
    }

    fn obstacle(&self) -> Option<String> {
        probe::obstacle()
    }

    fn switch(&self, request: &SwitchRequest<'_>) -> Result<Vec<Switched>> {
        let method = self.method();
        let namespace = copied(request.namespace)?;
        let stale = request.stale.to_vec();
        let root = descriptor(request.fresh)?;
        let number = request.group.map(|group| group.number);
        let place = request.group.map(|group| descriptor(group.place)).transpose()?;
        // A part of the time is kept to tell what was done.
        let until = request.deadline.at_most(request.deadline.remaining().mul_f64(0.75));
        aside(request.deadline, move || {
            let fresh = number_of(&root)?;
            let here = Inside::here(Way::of(method))?;
            let is_mounted_again = method == Method::TuckByMount;
            let origin = is_mounted_again.then(|| Origin::of(&here, &root)).transpose()?;
            let group = number.zip(place.as_ref());
            let family = detached::Family { here: &here, fresh: &root, group };
            let (news, refusals) = family.all(&stale, namespace.as_ref(), method)?;
            let group = number;
            let _turn = turn_in(namespace.as_ref(), method, until);
            let inside = match namespace {
                Some(namespace) => here.into(namespace)?,
                None => here,
            };
            let table = inside.table()?;
            let (inside, stale) = (&inside, &stale);
            let work = NamespaceWork {
                inside,
                table,
                stale,
                news,
                refusals,
                root,
                fresh,
                group,
                origin,
                method,
                until,
                known: None,
            };
            Ok(work.run())
        })
    }

    fn will_change(&self, request: &SwitchRequest<'_>) -> Result<Vec<MountIntent>> {
        let method = self.method();
        let namespace = copied(request.namespace)?;
        let stale = request.stale.to_vec();
        let (fresh, deadline) = (number_of(request.fresh)?, request.deadline);
        aside(deadline, move || {
            let _turn = turn_in(namespace.as_ref(), method, deadline);
            let inside = Inside::enter(namespace, Way::of(method))?;
            Ok(propagation::changes(&inside.table()?, &stale, fresh, method, inside.is_own()))
        })
    }

    fn set_back(
        &self,
        namespace: Option<&File>,
        mounts: &[MountIntent],
        deadline: Deadline,
    ) -> Result<()> {
        let method = self.method();
        let namespace = copied(namespace)?;
        let mounts = mounts.to_vec();
        aside(deadline, move || {
            let _turn = turn_in(namespace.as_ref(), method, deadline);
            let inside = Inside::enter(namespace, Way::of(method))?;
            let table = inside.table()?;
            // One that cannot be reached keeps none of the others as it is.
            let done = mounts.iter().map(|one| propagation::set_back(&inside, &table, one));
            done.fold(Ok(()), Result::and)
        })
    }

    fn keep(
        &self,
        namespace: Option<&File>,
        mounts: &[Mount],
        deadline: Deadline,
    ) -> Result<Option<Box<dyn Keeper>>> {
        let way = Way::of(self.method());
        let namespace = copied(namespace)?;
        let mounts = mounts.to_vec();
        let kept = aside(deadline, move || {
            let inside = Inside::enter(namespace, way)?;
            let place = mounts.iter().find_map(|mount| inside.pin(mount).ok());
            place.map(child::keep).transpose()
        })?;
        Ok(kept.map(|keeper| Box::new(keeper) as Box<dyn Keeper>))
    }
}

/// The longest wait for another heal's lock. A process in the namespace can hold the lock too.
const TURN: Duration = Duration::from_secs(2);

/// Locks a mount namespace, if the method temporarily shares the parents of the mounts it replaces: another heal would
/// take that for their usual state. After a quarter of the time at most it goes on without the lock, which the kernel
/// releases when its holder dies.
fn turn_in(namespace: Option<&File>, method: Method, until: Deadline) -> Option<Flock<File>> {
    if !method.shares_parents() {
        return None;
    }
    let own = || File::open("/proc/thread-self/ns/mnt");
    let mut file = namespace.map_or_else(own, File::try_clone).ok()?;
    let limit = until.at_most(TURN.min(until.remaining() / 4));
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(turn) => return Some(turn),
            Err((back, Errno::EAGAIN)) if limit.pause(Duration::from_millis(5)) => file = back,
            Err((_, errno)) => {
                tracing::debug!(%errno, "another heal may be in this namespace");
                return None;
            }
        }
    }
}

fn copied(namespace: Option<&File>) -> Result<Option<File>> {
    let copy = namespace.map(File::try_clone).transpose();
    copy.map_err(|error| failed("copy a descriptor", error))
}

fn descriptor(of: BorrowedFd<'_>) -> Result<OwnedFd> {
    of.try_clone_to_owned().map_err(|error| failed("copy a descriptor", error))
}

/// Works in a thread of its own, which ends there: whatever it entered or changed of itself,
/// no other process meets it. One that does not come back is left alone.
fn aside<T: Send + 'static>(
    deadline: Deadline,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::Builder::new()
        .spawn(move || drop(sender.send(work())))
        .map_err(|error| failed("start a thread", error))?;
    match receiver.recv_timeout(deadline.remaining()) {
        Ok(done) => {
            // Its namespace is let go of when it has ended.
            let _ = worker.join();
            done
        }
        Err(mpsc::RecvTimeoutError::Timeout) => {
            crate::aside::ends_at_once();
            Err(Error::new(Kind::Timeout, "the work in a mount namespace does not come to its end")
                .hint("what lives there may hold it up; look at the mounts again"))
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(Error::new(Kind::Bug, "the thread in a mount namespace panicked"))
        }
    }
}

#[cfg(test)]
mod tests;
