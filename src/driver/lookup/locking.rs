//! Volume locks, and processes that earlier calls left behind on a hung disk.

use crate::context::Context;
use crate::model::advice::advise;
use crate::model::disk::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::ports::store::{Lock, Locked, StuckProcess};

/// The volume's lock, for operations that change this node. An error if a process of an earlier call still hangs on its
/// disk.
pub(crate) fn lock(cx: &Context<'_>, id: &VolumeId) -> Result<Lock> {
    let lock = lock_alone(cx, id)?;
    nothing_hangs(cx, id)?;
    Ok(lock)
}

/// The volume's lock for a person, even if a process hangs on its disk.
pub(crate) fn lock_alone(cx: &Context<'_>, id: &VolumeId) -> Result<Lock> {
    cx.store.locks.take(id, cx.operation, cx.deadline)?.required()
}

/// The volume's lock, for operations that only talk to the cloud. They go on without it where it is unavailable, as in
/// a controller's container with a read-only root.
pub(crate) fn lock_if_possible(cx: &Context<'_>, id: &VolumeId) -> Result<Option<Lock>> {
    match cx.store.locks.take(id, cx.operation, cx.deadline)? {
        Locked::Held(lock) => Ok(Some(lock)),
        Locked::Impossible(error) => {
            tracing::debug!(%error, "going on without a lock");
            Ok(None)
        }
    }
}

/// The volume's lock for a person who gives the disk up. Goes on without it if its holder hangs, since that process
/// does nothing until the disk answers.
pub(crate) fn lock_or_go_on(cx: &Context<'_>, id: &VolumeId) -> Result<Option<Lock>> {
    let refused = match lock_if_possible(cx, id) {
        Err(error) if error.kind == Kind::Busy => error,
        other => return other,
    };
    match cx.store.locks.hanging_holder(id) {
        Some(holder) => {
            tracing::warn!(volume = %id, %holder, "going on without its lock");
            Ok(None)
        }
        None => Err(refused),
    }
}

/// An error if a process of an earlier call hangs on the volume's current disk, where another one would hang too. A
/// process that hangs on a lost disk blocks nothing. The caller holds the volume's lock.
pub(crate) fn nothing_hangs(cx: &Context<'_>, id: &VolumeId) -> Result<()> {
    let left = cx.store.locks.stuck(id);
    if left.is_empty() {
        return Ok(());
    }
    let disks = cx.host.devices.search(&cx.cloud.identity(id))?;
    match left.iter().find(|one| concerns(one, &disks)) {
        Some(one) => Err(Error::new(Kind::Busy, format!("an earlier call's {}", one.description))
            .hint(advise("nothing new is begun there; {}", [one.what_ends_it.clone()]))),
        None => Ok(()),
    }
}

/// The user of the disk may be a hung process of an earlier call, in the middle of an unmount; in words, for a refusal.
/// The caller holds the volume's lock.
pub(crate) fn what_hangs(cx: &Context<'_>, id: Option<&VolumeId>) -> String {
    let left = id.map(|id| cx.store.locks.stuck(id)).unwrap_or_default();
    left.first().map_or_else(String::new, |one| {
        format!("; an earlier call's {}, which ends when that disk answers", one.description)
    })
}

fn concerns(one: &StuckProcess, disks: &[Device]) -> bool {
    // Every call uses the driver's own files.
    if one.is_on_own_file {
        return true;
    }
    let Some(number) = &one.disk else { return !disks.is_empty() };
    disks.iter().any(|disk| {
        let is_same = |sequence| disk.sequence.is_none_or(|now| now == sequence);
        disk.number.to_string() == *number && one.sequence.is_none_or(is_same)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::fakes::{FakeCloud, FakeDevices, MadeUp};
    use crate::host::left_behind::{self, LeftProcess};
    use crate::host::locks;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn what_hangs_on_the_disk_that_is_here_concerns_its_volume_and_nothing_else_does() {
        let mut devices = FakeDevices::default().with("vdb", 16, "v-1").with("vdc", 16, "v-1");
        // The kernel's sequence number of the second disk, where it is known.
        devices.disks[1].0.sequence = None;
        let disks: Vec<_> = devices.disks.into_iter().map(|(disk, _)| disk).collect();
        let left = |disk: Option<&str>, sequence| StuckProcess {
            description: "process 7 hangs".to_owned(),
            what_ends_it: "".into(),
            is_on_own_file: false,
            disk: disk.map(str::to_owned),
            sequence,
        };
        let first = disks[0].sequence.unwrap();
        for (one, is_concerned) in [
            (left(Some("253:0"), Some(first)), true),
            (left(Some("253:0"), None), true),
            (left(Some("253:16"), Some(99)), true),
            (left(None, None), true),
            // A later disk with that number, and another number.
            (left(Some("253:0"), Some(first + 1)), false),
            (left(Some("253:32"), None), false),
        ] {
            assert_eq!(concerns(&one, &disks), is_concerned, "{one:?}");
        }
        // The disk is gone: only a process that hangs on the driver's own file blocks the call.
        assert!(!concerns(&left(None, None), &[]));
        let of_a_file = StuckProcess { is_on_own_file: true, ..left(None, None) };
        assert!(concerns(&of_a_file, &[]));
    }

    /// Works with locks in this directory, on a node with a disk of `v-1`.
    fn with<T>(folder: &Path, work: impl FnOnce(&Context<'_>, &VolumeId) -> T) -> T {
        let cloud = FakeCloud::default();
        let devices = FakeDevices::default().with("vdb", 16, "v-1");
        let limit = Duration::from_millis(20);
        MadeUp { limit, ..MadeUp::with(&cloud, &devices) }.drive(|cx| {
            let store = Store { locks: &locks::LockFiles::in_folder(folder), ..cx.store };
            work(&Context { store, ..*cx }, &VolumeId::parse("v-1").unwrap())
        })
    }

    #[test]
    fn a_lock_that_is_held_is_not_passed_by() {
        let folder = tempfile::tempdir().unwrap();
        let busy = |taken: Result<Option<Lock>>| taken.unwrap_err().kind;
        with(folder.path(), |cx, id| {
            let held = lock_if_possible(cx, id).unwrap();
            assert!(held.is_some());
            assert_eq!(busy(lock_if_possible(cx, id)), Kind::Busy);
            assert_eq!(busy(lock_or_go_on(cx, id)), Kind::Busy, "its holder does not hang");
            drop(held);
            assert!(lock_or_go_on(cx, id).unwrap().is_some());
        });
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        with(&file.join("locks"), |cx, id| {
            assert!(lock_if_possible(cx, id).unwrap().is_none(), "there is no place for it");
            assert!(lock_or_go_on(cx, id).unwrap().is_none());
            assert!(lock(cx, id).is_err());
        });
    }

    #[test]
    fn nothing_new_is_begun_beside_what_hangs_on_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        with(folder.path(), |cx, id| {
            drop(lock(cx, id).unwrap());
            assert_eq!(what_hangs(cx, Some(id)), "");
            let own = i32::try_from(std::process::id()).unwrap();
            let one = LeftProcess::of(own, "unmount", 0).unwrap();
            let elsewhere = LeftProcess { disk: Some("7:1".to_owned()), ..one.clone() };
            left_behind::note(&folder.path().join("v-1.lock"), &[elsewhere]);
            drop(lock(cx, id).unwrap());
            left_behind::note(&folder.path().join("v-1.lock"), &[one]);
            let error = lock(cx, id).unwrap_err();
            assert_eq!(error.kind, Kind::Busy);
            assert!(error.cause.starts_with("an earlier call's "), "{error}");
            assert!(what_hangs(cx, Some(id)).contains("which ends when that disk answers"));
            assert_eq!(what_hangs(cx, None), "");
            lock_alone(cx, id).unwrap();
        });
    }
}
