//! Which mount stands on which, by the mount table.

use crate::model::mountinfo::{Mount, MountTable};
use std::collections::HashMap;

/// A mount that stands on another one.
pub(super) fn children(table: &MountTable, of: u32) -> impl Iterator<Item = &Mount> {
    // The root of a namespace is written as standing on itself.
    table.mounts().iter().filter(move |mount| mount.parent == of && mount.id != of)
}

/// Everything that stands on a mount, the lower ones first.
pub(super) fn descendants(table: &MountTable, of: u32) -> Vec<&Mount> {
    let mut found: Vec<&Mount> = Vec::new();
    let mut layer = vec![of];
    // No deeper than the table is long: a torn one may run in a circle.
    for _ in 0..table.mounts().len() {
        let next: Vec<_> = layer.iter().flat_map(|id| children(table, *id)).collect();
        if next.is_empty() {
            break;
        }
        layer = next.iter().map(|mount| mount.id).collect();
        found.extend(next);
    }
    found
}

/// The ids of those.
pub(super) fn ids_below(table: &MountTable, old: &Mount) -> Vec<u32> {
    descendants(table, old.id).iter().map(|mount| mount.id).collect()
}

/// Whether a mount is in the table still. Its id alone says nothing: the next new mount gets it.
pub(super) fn has(table: &MountTable, wanted: &Mount) -> bool {
    table.mounts().iter().any(|mount| mount.id == wanted.id && mount.number == wanted.number)
}

/// What a mount stands on, and what that stands on, and so on.
pub(super) fn ancestors<'t>(table: &'t MountTable, of: &Mount) -> impl Iterator<Item = u32> + 't {
    let mut at = of.clone();
    // No more than the table has: a torn one may run in a circle.
    (0..table.mounts().len()).map_while(move |_| {
        let parent = table.mounts().iter().find(|mount| mount.id == at.parent)?;
        let is_new = parent.id != at.id;
        at = parent.clone();
        is_new.then_some(at.id)
    })
}

/// Parents before children.
pub(super) fn in_order<'a>(table: &MountTable, stale: &'a [Mount]) -> Vec<&'a Mount> {
    let parents: HashMap<u32, u32> =
        table.mounts().iter().map(|mount| (mount.id, mount.parent)).collect();
    let depth = |mount: &Mount| {
        let mut at = mount.id;
        // No deeper than the table is long: a torn one may run in a circle.
        (0..parents.len())
            .take_while(|_| match parents.get(&at) {
                Some(parent) if *parent != at => {
                    at = *parent;
                    true
                }
                _ => false,
            })
            .count()
    };
    let mut ordered: Vec<_> = stale.iter().collect();
    ordered.sort_by_key(|mount| depth(mount));
    ordered
}
