//! Lines of a mount table, of which each is asked for by itself whether it still holds: a switch changes one or two of
//! them, and the whole table is as long as the machine has mounts.

use super::namespace::number_of;
use crate::kernel::{MountState, all_mounts, is_anything_on, state_of_mount, unique_id_of_mount};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::replacement::{Propagation, group_of};
use nix::mount::MsFlags;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// What a table said, with the ids that no other mounts of this boot ever have: those in the table are given again as soon
/// as a mount has gone.
#[derive(Debug)]
pub(in crate::remount) struct KnownMounts {
    lines: HashMap<u32, (u64, Mount)>,
}

impl KnownMounts {
    /// Those of a table of this thread's namespace that still are as it says. None of them where the kernel
    /// cannot be asked (before Linux 6.8).
    pub(in crate::remount) fn of(table: &MountTable) -> Self {
        let mut by_id: HashMap<u32, &Mount> =
            table.mounts().iter().map(|mount| (mount.id, mount)).collect();
        let mut lines = HashMap::new();
        for unique in all_mounts().unwrap_or_default() {
            let Ok(state) = state_of_mount(unique) else { continue };
            if let Some(line) = by_id.remove(&state.id)
                && is_as(line, &state)
            {
                lines.insert(state.id, (unique, line.clone()));
            }
        }
        Self { lines }
    }

    /// An old mount and the one that it stands on, if the kernel says at this moment that both are as they were, and
    /// that nothing stands on the old one: then the whole table would say no more of it. Else nothing, and
    /// the whole is to be read.
    pub(in crate::remount) fn still(&self, old: &Mount) -> Option<MountTable> {
        let (unique, line) =
            self.lines.get(&old.id).filter(|(_, line)| line.number == old.number)?;
        let state = state_of_mount(*unique).ok().filter(|state| is_as(line, state))?;
        let (parent_unique, parent) = self.lines.get(&line.parent)?;
        state_of_mount(*parent_unique).ok().filter(|state| is_as(parent, state))?;
        let stands_on_it = state.unique_parent == *parent_unique;
        let is_bare = !is_anything_on(*unique).ok()?;
        (stands_on_it && is_bare).then(|| [parent, line].into_iter().cloned().collect())
    }
}

/// The line of the new mount, if it is where the old one was and nothing stands on it.
pub(in crate::remount) fn in_its_place(tree: &OwnedFd, old: &Mount) -> Option<MountTable> {
    let number = number_of(tree).ok()?;
    let unique = unique_id_of_mount(tree).ok()?;
    let state = state_of_mount(unique).ok()?;
    let new = Mount {
        id: state.id,
        parent: state.parent,
        number,
        disk: number,
        propagation: fields(&state),
        ..old.clone()
    };
    let is_bare = !is_anything_on(unique).ok()?;
    (is_as(&new, &state) && is_bare).then(|| std::iter::once(new).collect())
}

/// Whether the kernel says of a mount what its line says.
fn is_as(line: &Mount, state: &MountState) -> bool {
    let MountState { id, parent, unique_parent: _, number, root, target, .. } = state;
    let told = fields(state);
    let groups = |fields: &str| ["shared:", "master:"].map(|tag| group_of(fields, tag));
    (line.id, line.parent, line.number) == (*id, *parent, *number)
        && line.root.as_os_str().as_bytes() == root
        && line.target.as_os_str().as_bytes() == target
        && Propagation::of(line) == Propagation::parse(&told)
        && groups(&line.propagation) == groups(&told)
}

/// The propagation as a mount table has it.
fn fields(state: &MountState) -> String {
    let is = |flag: MsFlags| state.propagation & flag.bits() != 0;
    let shared = is(MsFlags::MS_SHARED).then(|| format!("shared:{}", state.group));
    let master = is(MsFlags::MS_SLAVE).then(|| format!("master:{}", state.master));
    let unbindable = is(MsFlags::MS_UNBINDABLE).then(|| "unbindable".to_owned());
    shared.into_iter().chain(master).chain(unbindable).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::disk::device::DeviceNumber;
    use crate::remount::namespace::Inside;
    use crate::remount::tests::{apart, propagate, tmpfs};
    use crate::safe_path::Way;
    use nix::mount::{MntFlags, umount2};

    const LINE: &str = "40 20 7:0 /sub /data rw shared:5 master:6 - ext4 v rw";

    #[test]
    fn a_line_holds_while_all_of_it_is_as_the_kernel_says() {
        let table = MountTable::parse(LINE.as_bytes()).unwrap();
        let line = &table.mounts()[0];
        let state = MountState {
            id: 40,
            parent: 20,
            unique_parent: 1 << 31,
            number: line.number,
            propagation: (MsFlags::MS_SHARED | MsFlags::MS_SLAVE).bits(),
            group: 5,
            master: 6,
            root: b"/sub".to_vec(),
            target: b"/data".to_vec(),
        };
        assert!(is_as(line, &state));
        let changes: [fn(&mut MountState); 9] = [
            |state| state.id = 41,
            |state| state.parent = 21,
            |state| state.number.minor = 1,
            |state| state.propagation = MsFlags::MS_SHARED.bits(),
            |state| state.propagation |= MsFlags::MS_UNBINDABLE.bits(),
            |state| state.group = 7,
            |state| state.master = 7,
            |state| state.root = b"/sub//deleted".to_vec(),
            |state| state.target = b"/data2".to_vec(),
        ];
        for (nth, change) in changes.iter().enumerate() {
            let mut other = state.clone();
            change(&mut other);
            assert!(!is_as(line, &other), "{nth}");
        }
    }

    fn ids(table: Option<MountTable>) -> Option<Vec<u32>> {
        table.map(|table| table.mounts().iter().map(|mount| mount.id).collect())
    }

    #[test]
    fn a_mount_is_known_by_itself_only_while_nothing_of_it_changes_and_nothing_stands_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        apart(|| {
            let inside = Inside::here(Way::OnFoot).unwrap();
            tmpfs(folder);
            let nested = folder.join("nested");
            std::fs::create_dir(&nested).unwrap();
            let table = inside.table().unwrap();
            let old = table.top_at(folder).unwrap();
            let known = KnownMounts::of(&table);
            let Some(line) = ids(known.still(old)) else {
                // Before Linux 6.8 the kernel cannot be asked for one of them.
                assert!(known.lines.is_empty());
                return;
            };
            assert_eq!(line, [old.parent, old.id]);
            let place = inside.way.open(folder).unwrap();
            assert_eq!(ids(in_its_place(&place, old)), Some(vec![old.id]));
            let elsewhere = Mount { target: nested.clone(), ..old.clone() };
            assert_eq!(ids(in_its_place(&place, &elsewhere)), None);
            let other = Mount { number: DeviceNumber { major: 7, minor: 1 }, ..old.clone() };
            assert_eq!(ids(known.still(&other)), None, "its id was given again");

            tmpfs(&nested);
            assert_eq!(ids(known.still(old)), None);
            assert_eq!(ids(in_its_place(&place, old)), None);
            umount2(&nested, MntFlags::empty()).unwrap();
            assert_eq!(ids(known.still(old)), Some(line.clone()));
            propagate(folder, MsFlags::MS_SHARED);
            assert_eq!(ids(known.still(old)), None);
            let shared = in_its_place(&place, old).unwrap();
            assert!(Propagation::of(&shared.mounts()[0]).is_shared, "as it is now");
            propagate(folder, MsFlags::MS_PRIVATE);
            assert_eq!(ids(known.still(old)), Some(line));
            let parent = inside.table().unwrap();
            let parent = parent.mounts().iter().find(|mount| mount.id == old.parent).unwrap();
            propagate(&parent.target, MsFlags::MS_SHARED);
            assert_eq!(ids(known.still(old)), None, "nor what it stands on");
            umount2(folder, MntFlags::MNT_DETACH).unwrap();
            assert_eq!(ids(known.still(old)), None);
        });
    }
}
