//! A new mount that lies beneath an old one before that one's turn.
//!
//! A switch that was killed left it there: then all that is mounted in the old one is in it too. Or it came by
//! propagation, with the switch of a mount at a place that shares with this one: the kernel puts what comes beneath what
//! is there, and takes the old one off only if nothing is mounted inside it. Then it has what is mounted in that
//! other mount, and nothing can be put into it: each path leads to the old one, which lies on it.

use super::by_mount::twin;
use super::mount_tree::{children, descendants, ground, has};
use super::namespace::Inside;
use super::parent_mounts::Ground;
use crate::failpoints;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Result};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::replacement::{Propagation, group_of};
use nix::mount::MsFlags;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The mounts inside one mount, as far as they are seen, that have no counterpart at the same place inside another one.
pub(in crate::remount) fn missing<'t>(
    table: &'t MountTable,
    of: &Mount,
    other: &Mount,
    is_same: &dyn Fn(&Mount, &Mount) -> bool,
) -> Vec<&'t Mount> {
    let inside = descendants(table, of.id);
    // The one may stand on the other.
    let own: HashSet<u32> = inside.iter().map(|mount| mount.id).collect();
    let mut there: HashMap<&Path, Vec<&Mount>> = HashMap::new();
    for mount in descendants(table, other.id).into_iter().filter(|mount| !own.contains(&mount.id)) {
        there.entry(below(mount, other)).or_default().push(mount);
    }
    let is_covered = |mount: &Mount| children(table, mount.id).any(|on| on.target == mount.target);
    let has_counterpart = |mount: &Mount| {
        there.get(below(mount, of)).is_some_and(|all| all.iter().any(|one| is_same(mount, one)))
    };
    inside.into_iter().filter(|one| !is_covered(one) && !has_counterpart(one)).collect()
}

fn below<'m>(mount: &'m Mount, base: &Mount) -> &'m Path {
    mount.target.strip_prefix(&base.target).unwrap_or(&mount.target)
}

/// What is mounted at the same place on each mount that shares with the ground of this one, or follows it: what is put
/// beneath this one comes beneath those.
pub(in crate::remount) fn copies<'t>(
    table: &'t MountTable,
    ground: &Mount,
    old: &Mount,
) -> Vec<&'t Mount> {
    let Some(group) = group_of(&ground.propagation, "shared:") else { return Vec::new() };
    let place = ground.root.join(below(old, ground));
    let receives = |mount: &&Mount| {
        let is_in = |tag| group_of(&mount.propagation, tag) == Some(group);
        mount.id != ground.id && (is_in("shared:") || is_in("master:"))
    };
    let at = |mount: &Mount| {
        let target = mount.target.join(place.strip_prefix(&mount.root).ok()?);
        let id = mount.id;
        children(table, id).find(|copy| copy.target == target)
    };
    table.mounts().iter().filter(receives).filter_map(at).collect()
}

/// Takes a new mount off from beneath an old one, which then stands where it stood before; answers the table after it.
///
/// An unmount that comes by propagation leaves what lies on the mount that it takes off. So the same place is
/// unmounted in a scratch copy of the namespace, which only the ground here follows: that cannot be had where the
/// ground shares with others, of whom each would lose its new mount.
pub(in crate::remount) fn draw_out(
    inside: &Inside,
    table: &MountTable,
    old: &Mount,
    lower: &Mount,
) -> Result<MountTable> {
    let ground = ground(table, lower)
        .ok_or_else(|| Error::refused("the mount that it stands on cannot be seen from here"))?;
    if [ground, lower].into_iter().any(|one| Propagation::of(one).is_shared) {
        return Err(Error::refused("it shares with others, who would lose it"));
    }
    let mut ground = Ground::share(inside, ground, true)?;
    let drawn = inside.in_scratch(|| {
        if !inside.is_own() {
            inside.out_of_scratch(|| ground.follow(inside))?;
        }
        let (upper, _) = twin(inside, &inside.table()?, old)?;
        // What is mounted in it may have peers.
        inside.propagate(&upper, MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
        inside.detach(&upper)?;
        let (place, _) = twin(inside, &inside.table()?, lower)?;
        inside.detach(&place)
    });
    failpoints::step("heal.drawn");
    drawn.and(ground.restore(inside))?;
    // The kernel takes nothing off in which something is mounted, and does not tell.
    let now = inside.table()?;
    if has(&now, lower) {
        return Err(Error::refused("what is mounted in it keeps it there"));
    }
    Ok(now)
}

/// Each mount of the new disk that lies on another one, with that one, if the lower one has come since: beneath one that
/// had its turn before.
pub(in crate::remount) fn doubles<'t>(
    table: &'t MountTable,
    fresh: DeviceNumber,
    before: &HashSet<u32>,
) -> Vec<(&'t Mount, &'t Mount)> {
    let by_id: HashMap<u32, &Mount> = table.of(fresh).map(|mount| (mount.id, mount)).collect();
    let lower = |upper: &'t Mount| {
        let lower = by_id.get(&upper.parent).copied().filter(|one| one.id != upper.id)?;
        let is_twin = lower.target == upper.target && lower.root == upper.root;
        (is_twin && !before.contains(&lower.id)).then_some((upper, lower))
    };
    table.of(fresh).filter_map(lower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
        1 1 0:1 / / rw - overlay o rw\n\
        2 1 0:2 / /one rw shared:5 - tmpfs t rw\n\
        3 1 0:2 /a /two rw shared:5 - tmpfs t rw\n\
        4 1 0:2 / /three rw master:5 - tmpfs t rw\n\
        5 2 7:1 / /one/a/0 rw - ext4 s rw\n\
        6 3 7:2 / /two/0 rw - ext4 s rw\n\
        7 6 7:1 / /two/0 rw - ext4 s rw\n\
        8 5 0:3 / /one/a/0/x rw - tmpfs t rw\n\
        9 7 0:3 / /two/0/x rw - tmpfs t rw\n\
        10 7 0:4 / /two/0/y rw - tmpfs t rw\n\
        11 6 0:3 / /two/0/x rw - tmpfs t rw\n\
        12 1 0:2 /b /four rw shared:5 - tmpfs t rw\n\
        13 10 0:5 / /two/0/y/z rw - tmpfs t rw\n\
        14 8 0:6 / /one/a/0/x rw - tmpfs t rw\n\
        15 1 0:2 / /five rw shared:7 - tmpfs t rw\n\
        16 15 7:1 / /five/a/0 rw - ext4 s rw\n";

    #[test]
    fn what_one_mount_lacks_of_another_is_told_by_place_and_file_system() {
        let table = MountTable::parse(TABLE.as_bytes()).unwrap();
        let mount = |id: u32| table.mounts().iter().find(|mount| mount.id == id).unwrap();
        let is_same = |one: &Mount, other: &Mount| one.number == other.number;
        let lacks = |of, other| -> Vec<u32> {
            let all = missing(&table, mount(of), mount(other), &is_same);
            all.into_iter().map(|mount| mount.id).collect()
        };
        assert_eq!(lacks(7, 6), [10, 13], "the lower one's own x is not that of the upper one");
        assert_eq!(lacks(7, 5), [10, 13]);
        assert_eq!(lacks(5, 7), [14], "what it covers is not seen");
    }

    #[test]
    fn copies_stand_at_the_same_place_of_a_peer_or_a_follower() {
        let table = MountTable::parse(TABLE.as_bytes()).unwrap();
        let mount = |id: u32| table.mounts().iter().find(|mount| mount.id == id).unwrap();
        let found = |ground, old| -> Vec<u32> {
            let all = copies(&table, mount(ground), mount(old));
            all.into_iter().map(|mount| mount.id).collect()
        };
        assert_eq!(found(2, 5), [6]);
        assert_eq!(found(3, 6), [5]);
        assert_eq!(found(4, 5), Vec::<u32>::new(), "a follower hands nothing on");
    }

    #[test]
    fn a_new_mount_is_doubled_where_another_one_came_beneath_it_since() {
        let table = MountTable::parse(
            b"1 1 0:1 / / rw - overlay o rw\n\
              2 1 7:2 / /a rw - ext4 s rw\n\
              3 2 7:2 / /a rw - ext4 s rw\n\
              4 1 7:2 /sub /b rw - ext4 s rw\n\
              5 4 7:2 / /b rw - ext4 s rw\n\
              6 5 7:2 / /b/c rw - ext4 s rw\n\
              7 1 7:1 / /d rw - ext4 s rw\n\
              8 7 7:2 / /d rw - ext4 s rw\n",
        )
        .unwrap();
        let found = |before: &[u32]| -> Vec<(u32, u32)> {
            let before = before.iter().copied().collect();
            let all = doubles(&table, DeviceNumber { major: 7, minor: 2 }, &before);
            all.into_iter().map(|(upper, lower)| (upper.id, lower.id)).collect()
        };
        assert_eq!(found(&[]), [(3, 2)]);
        assert_eq!(found(&[3]), [(3, 2)]);
        assert_eq!(found(&[2]), [], "it was there before");
    }
}
