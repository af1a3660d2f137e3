//! Which mount stands on which, by the mount table.

use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::sorting::sort_by_key;
use std::collections::{HashMap, HashSet};

/// A mount that stands on another one.
pub(in crate::remount) fn children(table: &MountTable, of: u32) -> impl Iterator<Item = &Mount> {
    // The root of a namespace is written as standing on itself.
    table.mounts().iter().filter(move |mount| mount.parent == of && mount.id != of)
}

/// What a mount stands on by this table. When it was listed it may have stood on another one: what the switch of a third
/// one let come beneath it is its ground now.
pub(in crate::remount) fn ground<'t>(table: &'t MountTable, of: &Mount) -> Option<&'t Mount> {
    let is_it = |mount: &&Mount| mount.id == of.id && mount.number == of.number;
    let now = table.mounts().iter().find(is_it)?;
    table.mounts().iter().find(|mount| mount.id == now.parent && mount.id != now.id)
}

/// What stands on each mount: looked up once where it is asked for many, for who lives in the namespace decides how
/// many there are, and how deep.
pub(in crate::remount) struct Standing<'t>(HashMap<u32, Vec<&'t Mount>>);

impl<'t> Standing<'t> {
    pub(in crate::remount) fn of(table: &'t MountTable) -> Self {
        let mut standing: HashMap<u32, Vec<&Mount>> = HashMap::new();
        for mount in table.mounts().iter().filter(|mount| mount.parent != mount.id) {
            standing.entry(mount.parent).or_default().push(mount);
        }
        Self(standing)
    }

    /// Everything that stands on a mount, the lower ones first.
    pub(in crate::remount) fn on(&self, of: u32) -> Vec<&'t Mount> {
        let mut found: Vec<&Mount> = Vec::new();
        let (mut layer, mut seen) = (vec![of], HashSet::new());
        while !layer.is_empty() {
            // Each is taken once: a torn table may run in a circle.
            let lower = layer.iter().filter(|id| seen.insert(**id));
            let next: Vec<_> = lower.filter_map(|id| self.0.get(id)).flatten().copied().collect();
            layer = next.iter().map(|mount| mount.id).collect();
            found.extend(next);
        }
        found
    }
}

/// Everything that stands on a mount, the lower ones first.
pub(in crate::remount) fn descendants(table: &MountTable, of: u32) -> Vec<&Mount> {
    // Most have none, and need no look at the others.
    if children(table, of).next().is_none() { Vec::new() } else { Standing::of(table).on(of) }
}

/// The ids of those.
pub(in crate::remount) fn ids_below(table: &MountTable, old: &Mount) -> Vec<u32> {
    descendants(table, old.id).iter().map(|mount| mount.id).collect()
}

/// Whether a mount is in the table still. Its id alone says nothing: the next new mount gets it.
pub(in crate::remount) fn has(table: &MountTable, wanted: &Mount) -> bool {
    table.mounts().iter().any(|mount| mount.id == wanted.id && mount.number == wanted.number)
}

/// What a mount stands on, and what that stands on, and so on.
pub(in crate::remount) fn ancestors<'t>(
    table: &'t MountTable,
    of: &Mount,
) -> impl Iterator<Item = u32> + 't {
    let parents = parents(table);
    let mut at = of.id;
    // No more than the table has: a torn one may run in a circle.
    (0..table.mounts().len()).map_while(move |_| {
        let parent = *parents.get(&at)?;
        let is_new = parent != at && parents.contains_key(&parent);
        at = parent;
        is_new.then_some(parent)
    })
}

/// Parents before children.
pub(in crate::remount) fn in_order<'a>(table: &MountTable, stale: &'a [Mount]) -> Vec<&'a Mount> {
    let parents = parents(table);
    let mut depths: HashMap<u32, usize> = HashMap::new();
    let mut depth = |mount: &Mount| {
        let (mut at, mut way) = (mount.id, Vec::new());
        // No deeper than the table is long: a torn one may run in a circle.
        let base = loop {
            if let Some(known) = depths.get(&at) {
                break *known;
            }
            match parents.get(&at) {
                Some(parent) if *parent != at && way.len() < parents.len() => {
                    way.push(at);
                    at = *parent;
                }
                _ => break 0,
            }
        };
        for (above, id) in way.iter().rev().enumerate() {
            depths.insert(*id, base + above + 1);
        }
        base + way.len()
    };
    let mut ordered: Vec<_> = stale.iter().map(|mount| (depth(mount), mount)).collect();
    sort_by_key(&mut ordered, |(depth, _)| *depth);
    ordered.into_iter().map(|(_, mount)| mount).collect()
}

fn parents(table: &MountTable) -> HashMap<u32, u32> {
    table.mounts().iter().map(|mount| (mount.id, mount.parent)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree: 2, 3 and 4 stand on each other, 5 beside them, and 8 and 9 in a circle, as in a table that was torn.
    fn table() -> MountTable {
        MountTable::parse(
            b"4 3 7:3 / /a/b/c rw - ext4 s rw\n\
              3 2 7:2 / /a/b rw - ext4 s rw\n\
              2 1 7:1 / /a rw - ext4 s rw\n\
              1 1 0:1 / / rw - overlay o rw\n\
              5 1 7:1 / /other rw - ext4 s rw\n\
              6 5 7:4 / /other/x rw - ext4 s rw\n\
              8 9 7:5 / /one rw - ext4 s rw\n\
              9 8 7:5 / /two rw - ext4 s rw\n\
              20 19 7:6 / /of-an-unseen-one rw - ext4 s rw\n",
        )
        .unwrap()
    }

    fn mount(table: &MountTable, id: u32) -> Mount {
        table.mounts().iter().find(|mount| mount.id == id).unwrap().clone()
    }

    #[test]
    fn what_stands_on_a_mount_and_what_it_stands_on_is_told() {
        let table = table();
        let on = |id: u32| ids_below(&table, &mount(&table, id));
        assert_eq!(on(2), [3, 4]);
        assert_eq!(on(4), Vec::<u32>::new());
        let below = |id: u32| ancestors(&table, &mount(&table, id)).collect::<Vec<_>>();
        assert_eq!(below(4), [3, 2, 1]);
        assert_eq!(below(1), Vec::<u32>::new());
        assert_eq!(below(20), Vec::<u32>::new(), "its ground is not seen");
        let stands_on = |id: u32| ground(&table, &mount(&table, id)).map(|mount| mount.id);
        assert_eq!((stands_on(4), stands_on(1), stands_on(20)), (Some(3), None, None));
        assert!(below(8).len() <= table.mounts().len() && on(8).len() <= table.mounts().len());
    }

    #[test]
    fn a_mount_is_there_only_with_its_id_and_its_file_system() {
        let table = table();
        let three = mount(&table, 3);
        assert!(has(&table, &three));
        assert!(!has(&table, &Mount { id: 7, ..three.clone() }));
        assert!(!has(&table, &Mount { number: mount(&table, 4).number, ..three }), "a later one");
    }

    #[test]
    fn those_that_others_stand_on_come_first() {
        let table = table();
        let order = |ids: &[u32]| {
            let stale: Vec<_> = ids.iter().map(|id| mount(&table, *id)).collect();
            in_order(&table, &stale).iter().map(|mount| mount.id).collect::<Vec<_>>()
        };
        assert_eq!(order(&[4, 3, 2]), [2, 3, 4]);
        assert_eq!(order(&[4, 6, 5, 3]), [5, 6, 3, 4], "the equal ones as they were listed");
        // By whichever the depths are counted first.
        assert_eq!(order(&[3, 6, 4, 2, 1]), [1, 2, 3, 6, 4]);
        assert_eq!(order(&[8, 2, 20]).len(), 3, "a circle has an end");
        assert_eq!(order(&[20, 4]), [20, 4]);
    }
}
