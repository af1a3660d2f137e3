//! Mounts of a dead disk replaced by mounts of the same disk come back, in any mount namespace,
//! under the hands of those who use them: a look-up meets the old mount or the new one, and never
//! what is under both.

mod attributes;
mod clones;
mod inside;
mod one;
mod probe;
mod settle;
mod tree;
mod tuck;

use super::{SwitchRequest, Switches};
use crate::model::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::mountinfo::{Mount, MountTable};
use crate::model::switch::{Method, Propagation, Switched};
use crate::model::time::Deadline;
use inside::{Inside, failed};
use one::Work;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc;
use std::thread;

/// The kernel's ways to replace a mount.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelSwitches {
    method: Option<Method>,
}

impl KernelSwitches {
    /// By this method, whatever the kernel has.
    #[must_use]
    pub fn by(method: Method) -> Self {
        Self { method: Some(method) }
    }
}

impl Switches for KernelSwitches {
    fn method(&self) -> Method {
        self.method.unwrap_or_else(probe::best)
    }

    fn switch(&self, request: &SwitchRequest<'_>) -> Result<Vec<Switched>> {
        let method = self.method();
        let namespace = copied(request.namespace)?;
        let stale = request.stale.to_vec();
        let fresh = descriptor(request.fresh)?;
        aside(request.deadline, move || {
            let number = number_of(&fresh)?;
            let mut clones = BTreeMap::new();
            let mut refusals = HashMap::new();
            for old in &stale {
                match clones::of(&fresh, old, namespace.as_ref()) {
                    Ok(tree) => drop(clones.insert(old.id, tree)),
                    Err(error) => drop(refusals.insert(old.id, error.to_string())),
                }
            }
            let inside = Inside::enter(namespace)?;
            let table = inside.table()?;
            let inside = &inside;
            let stale = &stale;
            Ok(Work { inside, table, stale, clones, refusals, fresh: number, method }.run())
        })
    }

    fn will_share(&self, request: &SwitchRequest<'_>) -> Result<Vec<Mount>> {
        if self.method() != Method::Tuck {
            return Ok(Vec::new());
        }
        let namespace = copied(request.namespace)?;
        let stale = request.stale.to_vec();
        aside(request.deadline, move || {
            let table = Inside::enter(namespace)?.table()?;
            let is_asked = |mount: &&Mount| {
                !Propagation::of(mount).is_shared
                    && stale.iter().any(|old| old.parent == mount.id && old.id != mount.id)
            };
            Ok(table.mounts().iter().filter(is_asked).cloned().collect())
        })
    }

    fn set_back(
        &self,
        namespace: Option<&File>,
        parents: &[Mount],
        deadline: Deadline,
    ) -> Result<()> {
        let namespace = copied(namespace)?;
        let parents = parents.to_vec();
        aside(deadline, move || {
            let inside = Inside::enter(namespace)?;
            let table = inside.table()?;
            parents.iter().try_for_each(|was| set_back_one(&inside, &table, was))
        })
    }
}

fn set_back_one(inside: &Inside, table: &MountTable, was: &Mount) -> Result<()> {
    // One that is gone needs nothing; its id may be another one's by now.
    let is_it =
        |now: &&Mount| now.id == was.id && now.number == was.number && now.target == was.target;
    let Some(now) = table.mounts().iter().find(is_it) else { return Ok(()) };
    let (wanted, now_is) = (Propagation::of(was), Propagation::of(now));
    if wanted == now_is {
        return Ok(());
    }
    settle::restore(inside, &inside.pin(now)?, wanted, now_is)
}

fn copied(namespace: Option<&File>) -> Result<Option<File>> {
    let copy = namespace.map(File::try_clone).transpose();
    copy.map_err(|error| failed("copy a descriptor", error))
}

fn descriptor(of: BorrowedFd<'_>) -> Result<OwnedFd> {
    of.try_clone_to_owned().map_err(|error| failed("copy a descriptor", error))
}

/// The file system that a place is on.
fn number_of(place: impl AsFd) -> Result<DeviceNumber> {
    let found = nix::sys::stat::fstat(place.as_fd())
        .map_err(|errno| failed("look at the new file system", errno))?;
    let part = |part: u64| u32::try_from(part).unwrap_or(u32::MAX);
    Ok(DeviceNumber {
        major: part(nix::sys::stat::major(found.st_dev)),
        minor: part(nix::sys::stat::minor(found.st_dev)),
    })
}

/// Works in a thread of its own, which ends there: whatever it entered or changed of itself,
/// nobody else meets it. One that does not come back is left alone.
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
            Err(Error::new(Kind::Timeout, "the work in a mount namespace does not come to its end")
                .hint("what lives there may hold it up; look at the mounts again"))
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(Error::new(Kind::Bug, "the thread in a mount namespace panicked"))
        }
    }
}
