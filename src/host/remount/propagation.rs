//! The propagation of new mounts: what is attached to a shared mount becomes shared.

use super::mount_tree::{Standing, ground};
use super::namespace::Inside;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::Result;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::replacement::{Method, MountIntent, Propagation};
use nix::mount::MsFlags;
use std::collections::HashSet;
use std::os::fd::OwnedFd;

/// Gives what now is at the places of these old mounts the propagation that those had. Answers
/// what could not be had.
pub(in crate::remount) fn like(inside: &Inside, table: &MountTable, old: &[&Mount]) -> Vec<String> {
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
        } else if lost_master(wanted, now) {
            notes.push(format!("the mount at {place} follows no other one any more"));
        }
    }
    notes
}

/// From one kind of propagation to another.
pub(in crate::remount) fn restore(
    inside: &Inside,
    place: &OwnedFd,
    wanted: Propagation,
    now: Propagation,
) -> Result<()> {
    steps(wanted, now).into_iter().try_for_each(|step| inside.propagate(place, step))
}

/// The changes that lead there, in their order.
fn steps(wanted: Propagation, now: Propagation) -> Vec<MsFlags> {
    if wanted.is_unbindable {
        return vec![MsFlags::MS_UNBINDABLE];
    }
    let leaves_peers = now.is_shared && !wanted.is_shared;
    let leaves_master = now.is_slave && !wanted.is_slave;
    let is_left = leaves_peers || leaves_master || now.is_unbindable;
    let kind = if wanted.is_slave { MsFlags::MS_SLAVE } else { MsFlags::MS_PRIVATE };
    // What is left shares with no other one.
    let is_shared = wanted.is_shared && (is_left || !now.is_shared);
    let (left, shared) = (is_left.then_some(kind), is_shared.then_some(MsFlags::MS_SHARED));
    left.into_iter().chain(shared).collect()
}

/// Whether a mount does not get back what it followed.
fn lost_master(wanted: Propagation, now: Propagation) -> bool {
    wanted.is_slave && !now.is_slave
}

/// The mounts whose propagation a switch changes for a moment, with what it is to be in the end.
pub(in crate::remount) fn changes(
    table: &MountTable,
    stale: &[Mount],
    fresh: DeviceNumber,
    method: Method,
    is_own: bool,
) -> Vec<MountIntent> {
    let (mut all, mut known) = (Vec::new(), HashSet::new());
    let mut add = |intent: MountIntent| {
        if known.insert((intent.target.clone(), intent.id)) {
            all.push(intent);
        }
    };
    let standing = Standing::of(table);
    let comes_by_propagation = !matches!(method, Method::Beneath | Method::Stack);
    let tree = |old: &Mount| -> Vec<Mount> {
        std::iter::once(old).chain(standing.on(old.id)).cloned().collect()
    };
    let is_shared = |mount: &Mount| Propagation::of(mount).is_shared;
    let shares = |old: &&Mount| tree(old).iter().any(is_shared);
    let is_lower = |one: &Mount, old: &Mount| one.number == fresh && one.target == old.target;
    let lower = |old: &Mount| ground(table, old).filter(|one| is_lower(one, old));
    // What stands on a new one that lies beneath it has the ground of that.
    let ground = |old: &Mount| ground(table, lower(old).unwrap_or(old));
    let sharing: HashSet<Option<u32>> =
        stale.iter().filter(shares).map(|old| ground(old).map(|one| one.id)).collect();
    for old in stale {
        let parent = ground(old);
        let is_in_shared = parent.is_some_and(is_shared);
        // One that came beneath it, and may be taken off there, is there already or comes by the master.
        let follows = parent.is_some_and(|one| Propagation::of(one).is_slave);
        let may_draw = tree(old).len() > 1 && (follows || lower(old).is_some());
        let is_changed = (comes_by_propagation || may_draw) && !is_in_shared;
        if let Some(parent) = parent.filter(|_| is_changed) {
            add(intent(parent, Some(parent.id), parent.number));
        }
        // A new mount in a shared one is shared itself at first, and one whose only peer was the
        // old one is not. By propagation all come alike that stand on the same mount.
        let stays_shared = comes_by_propagation
            && (is_own && method == Method::TuckByMount
                || parent.is_some_and(|one| Propagation::of(one).is_unbindable)
                || sharing.contains(&parent.map(|one| one.id)));
        // When the group that one followed has gone, nothing else tells that it did.
        let has_any = tree(old).iter().any(|mount| !mount.propagation.is_empty());
        if is_in_shared || stays_shared || has_any {
            for mount in &tree(old) {
                let is_old = mount.number == old.number;
                add(intent(mount, None, if is_old { fresh } else { mount.number }));
            }
        }
    }
    all
}

fn intent(mount: &Mount, id: Option<u32>, number: DeviceNumber) -> MountIntent {
    let (target, propagation) = (mount.target.clone(), mount.propagation.clone());
    MountIntent { id, number, target, propagation }
}

/// Gives a mount that a killed switch left otherwise the propagation that it is to have.
pub(in crate::remount) fn set_back(
    inside: &Inside,
    table: &MountTable,
    was: &MountIntent,
) -> Result<()> {
    let found = match was.id {
        Some(id) => table.mounts().iter().find(|mount| mount.id == id),
        None => table.top_at(&was.target),
    };
    let Some(now) = found.filter(|now| is_it(now, was)) else { return Ok(()) };
    let (wanted, now_is) = (Propagation::parse(&was.propagation), Propagation::of(now));
    if wanted == now_is {
        return Ok(());
    }
    restore(inside, &inside.pin(now)?, wanted, now_is)
}

/// One that is gone needs nothing; its id, or its place, may be another one's by now.
fn is_it(now: &Mount, was: &MountIntent) -> bool {
    now.number == was.number && now.target == was.target
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
        1 1 0:1 / / rw master:5 - overlay o rw\n\
        2 1 7:1 / /data rw - ext4 s rw\n\
        3 2 0:3 / /data/tmp rw - tmpfs t rw\n\
        4 1 0:4 / /shared rw shared:9 - tmpfs t rw\n\
        5 4 7:1 / /shared/data rw - ext4 s rw\n\
        6 1 7:1 / /peer rw shared:8 - ext4 s rw\n\
        7 1 0:5 / /plain rw - tmpfs t rw\n\
        8 7 7:2 / /plain/data rw - ext4 s rw\n\
        9 8 7:1 / /plain/data rw - ext4 s rw\n\
        10 9 0:3 / /plain/data/tmp rw - tmpfs t rw\n\
        11 7 0:6 / /plain/cover rw - tmpfs t rw\n\
        12 11 7:1 / /plain/cover rw - ext4 s rw\n\
        13 12 0:3 / /plain/cover/tmp rw - tmpfs t rw\n\
        14 8 7:1 / /plain/data/other rw - ext4 s rw\n\
        15 14 0:3 / /plain/data/other/tmp rw - tmpfs t rw\n";

    const NUMBER: DeviceNumber = DeviceNumber { major: 7, minor: 1 };

    fn changed(ids: &[u32], method: Method, is_own: bool) -> Vec<(String, Option<u32>, String)> {
        let table = MountTable::parse(TABLE.as_bytes()).unwrap();
        let stale: Vec<Mount> =
            table.mounts().iter().filter(|mount| ids.contains(&mount.id)).cloned().collect();
        let fresh = DeviceNumber { major: 7, minor: 2 };
        let all = changes(&table, &stale, fresh, method, is_own);
        let words = |one: MountIntent| (one.target.display().to_string(), one.id, one.propagation);
        assert!(all.iter().all(|one| one.number.major == 0 || one.number == fresh));
        all.into_iter().map(words).collect()
    }

    fn place(target: &str, propagation: &str) -> (String, Option<u32>, String) {
        (target.to_owned(), None, propagation.to_owned())
    }

    #[test]
    fn what_a_killed_switch_would_leave_changed_is_known_before() {
        let root = ("/".to_owned(), Some(1), "master:5".to_owned());
        // What comes beneath one with a mount in it by the master is taken off from there.
        assert_eq!(changed(&[2], Method::Beneath, false), vec![root.clone()]);
        assert_eq!(changed(&[5], Method::Beneath, true), [place("/shared/data", "")]);
        assert_eq!(changed(&[2], Method::Tuck, false), vec![root.clone()]);
        // In a shared one every new mount is shared at first.
        for method in [Method::Beneath, Method::Tuck] {
            assert_eq!(changed(&[5], method, false), [place("/shared/data", "")]);
        }
        assert_eq!(changed(&[6], Method::Beneath, false), [place("/peer", "shared:8")]);
        // One that is a peer makes all that stand beside it come as peers.
        let all = [root, place("/data", ""), place("/data/tmp", ""), place("/peer", "shared:8")];
        assert_eq!(changed(&[2, 6], Method::Tuck, false), all);
        assert_eq!(changed(&[2], Method::TuckByMount, true), all[..3]);
        assert_eq!(changed(&[2], Method::TuckByMount, false), all[..1]);
    }

    /// What came without the mounts inside the old one is taken off from there, by what both stand on.
    #[test]
    fn a_new_mount_that_lies_beneath_an_old_one_changes_the_ground_of_both() {
        let plain = ("/plain".to_owned(), Some(7), String::new());
        assert_eq!(changed(&[9], Method::Beneath, false), std::slice::from_ref(&plain));
        assert_eq!(changed(&[9], Method::Tuck, false), [plain]);
        assert_eq!(changed(&[12], Method::Beneath, false), [], "another file system's");
        assert_eq!(changed(&[14], Method::Beneath, false), [], "it stands in the new one");
    }

    #[test]
    fn what_a_killed_switch_changed_is_known_again_by_its_file_system_and_its_place() {
        let was = intent(&Mount::of_a_test("7:1", "/data", ""), None, NUMBER);
        assert!(is_it(&Mount::of_a_test("7:1", "/data", "shared:1 "), &was));
        assert!(!is_it(&Mount::of_a_test("7:2", "/data", ""), &was));
        assert!(!is_it(&Mount::of_a_test("7:1", "/other", ""), &was));
    }

    #[test]
    fn from_each_kind_of_propagation_there_is_a_way_to_each_other() {
        let kind = Propagation::parse;
        let told = |wanted: &str, now: &str| steps(kind(wanted), kind(now));
        let (private, slave) = (MsFlags::MS_PRIVATE, MsFlags::MS_SLAVE);
        let (shared, unbindable) = (MsFlags::MS_SHARED, MsFlags::MS_UNBINDABLE);
        let all = ["", "shared:1", "master:2", "shared:1 master:2", "unbindable"];
        // What is wanted, by what it is now.
        for (wanted, ways) in [
            ("", [&[][..], &[private], &[private], &[private], &[private]]),
            (
                "shared:3",
                [&[shared], &[], &[private, shared], &[private, shared], &[private, shared]],
            ),
            ("master:4", [&[], &[slave], &[], &[slave], &[slave]]),
            ("shared:3 master:4", [&[shared], &[], &[shared], &[], &[slave, shared]]),
            ("unbindable", [&[unbindable]; 5]),
        ] {
            for (now, way) in all.iter().zip(ways) {
                assert_eq!(told(wanted, now), way, "from {now:?} to {wanted:?}");
            }
        }
        assert!(lost_master(kind("master:4"), kind("shared:1")));
        assert!(!lost_master(kind("master:4"), kind("master:2")));
        assert!(!lost_master(kind(""), kind("")));
    }
}
