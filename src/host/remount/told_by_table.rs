//! What the mount table tells of a switch: what was before it, what came of it, and where it came to.

use super::mount_tree::{ground, has};
use crate::model::disk::device::DeviceNumber;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::replacement::{Method, Propagation, ReplacementOutcome};
use std::collections::HashSet;

/// Whether what comes in the place of these mounts shares otherwise at first than they did.
pub(in crate::remount) fn needs_settling(
    (method, is_own): (Method, bool),
    all: &[&Mount],
    parent: Option<&Mount>,
) -> bool {
    // Another namespace's mounts follow their copies for the time, and nothing stays of that.
    let stays_shared = method == Method::TuckByMount && is_own;
    let parent = parent.map(Propagation::of);
    stays_shared
        || all.iter().any(|mount| !mount.propagation.is_empty())
        || parent.is_some_and(|parent| parent.is_shared || parent.is_unbindable)
}

/// What the mount table shows of a switch.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::remount) enum AfterSwitch {
    AsTold,
    /// The old mount has gone, and nothing came in its place.
    Nothing,
    Otherwise,
}

pub(in crate::remount) fn shown_by_table(
    outcome: &ReplacementOutcome,
    is_old_there: bool,
    is_new_there: bool,
) -> AfterSwitch {
    let is_so = match outcome {
        ReplacementOutcome::Switched | ReplacementOutcome::DetachedOnly => {
            !is_old_there && is_new_there
        }
        ReplacementOutcome::Stacked => is_new_there,
        ReplacementOutcome::Gone | ReplacementOutcome::Skipped(_) => true,
    };
    match (is_so, is_old_there) {
        (true, _) => AfterSwitch::AsTold,
        (false, false) => AfterSwitch::Nothing,
        (false, true) => AfterSwitch::Otherwise,
    }
}

/// Whether a mount of the new file system that shows the same lies beneath an old one.
pub(in crate::remount) fn has_come(table: &MountTable, old: &Mount, fresh: DeviceNumber) -> bool {
    ground(table, old).is_some_and(|one| one.number == fresh && one.root == old.root)
}

/// What came of the new file system, and lies beneath none of the old mounts.
pub(in crate::remount) fn astray<'t>(
    now: &'t MountTable,
    before: &MountTable,
    olds: &[&Mount],
    fresh: DeviceNumber,
) -> Vec<&'t Mount> {
    let awaited: HashSet<u32> =
        olds.iter().filter_map(|old| ground(now, old)).map(|mount| mount.id).collect();
    let is_astray = |mount: &&Mount| !has(before, mount) && !awaited.contains(&mount.id);
    now.of(fresh).filter(is_astray).collect()
}

/// Whether a mount lies on another one and shows the same of its file system.
pub(in crate::remount) fn is_covered_by(below: &Mount, other: &Mount) -> bool {
    below.id == other.parent && below.target == other.target && below.root == other.root
}

/// Whether a mount shows of the new file system what the old one shows of its, at the same place.
pub(in crate::remount) fn is_new_one_of(mount: &Mount, old: &Mount, fresh: DeviceNumber) -> bool {
    mount.number == fresh && mount.root == old.root && mount.target == old.target
}

/// Whether what is mounted in one mount is what is mounted in another: the same, or of the new disk what is old there.
pub(in crate::remount) fn is_counterpart(
    one: &Mount,
    there: &Mount,
    stale: &[Mount],
    fresh: DeviceNumber,
) -> bool {
    let is_new = there.number == fresh && stale.iter().any(|stale| stale.number == one.number);
    one.root == there.root && (one.number == there.number || is_new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: DeviceNumber = DeviceNumber { major: 7, minor: 2 };

    fn mount(number: &str, root: &str, target: &str) -> Mount {
        Mount { root: root.into(), ..Mount::of_a_test(number, target, "") }
    }

    #[test]
    fn an_old_mount_is_covered_by_one_that_shows_the_same_on_it() {
        let below = Mount { id: 50, ..mount("7:1", "/sub", "/data") };
        let on = |parent, root, target| {
            is_covered_by(&below, &Mount { parent, ..mount("7:0", root, target) })
        };
        assert!(on(50, "/sub", "/data"));
        assert!(!on(51, "/sub", "/data"));
        assert!(!on(50, "/", "/data"));
        assert!(!on(50, "/sub", "/data/x"));
    }

    #[test]
    fn the_new_one_of_an_old_mount_shows_the_same_of_the_new_disk() {
        let old = mount("7:1", "/sub", "/data");
        let is_its =
            |number, root, target| is_new_one_of(&mount(number, root, target), &old, FRESH);
        assert!(is_its("7:2", "/sub", "/data"));
        assert!(!is_its("7:3", "/sub", "/data"));
        assert!(!is_its("7:2", "/", "/data"));
        assert!(!is_its("7:2", "/sub", "/other"));
    }

    #[test]
    fn what_is_nested_is_the_same_or_its_new_one() {
        let stale = [mount("7:1", "/", "/data")];
        let is_so = |one: (&str, &str), there: (&str, &str)| {
            let at = |(number, root)| mount(number, root, "/data/x");
            is_counterpart(&at(one), &at(there), &stale, FRESH)
        };
        assert!(is_so(("0:3", "/"), ("0:3", "/")));
        assert!(!is_so(("0:3", "/"), ("0:3", "/sub")));
        assert!(!is_so(("0:3", "/"), ("0:4", "/")));
        assert!(is_so(("7:1", "/sub"), ("7:2", "/sub")), "an old one and its new one");
        assert!(!is_so(("7:1", "/sub"), ("7:2", "/")));
        assert!(!is_so(("0:3", "/"), ("7:2", "/")), "it is not an old one");
        assert!(!is_so(("7:1", "/"), ("7:3", "/")), "it is not the new disk's");
    }

    #[test]
    fn success_is_what_the_table_shows() {
        use AfterSwitch::{AsTold, Nothing, Otherwise};
        use ReplacementOutcome::{DetachedOnly, Gone, Skipped, Stacked, Switched};
        let shown = |outcome: &ReplacementOutcome| {
            // The old mount and the new one: neither, the new one, the old one, both.
            [(false, false), (false, true), (true, false), (true, true)]
                .map(|(old, new)| shown_by_table(outcome, old, new))
        };
        for outcome in [Switched, DetachedOnly] {
            assert_eq!(shown(&outcome), [Nothing, AsTold, Otherwise, Otherwise]);
        }
        assert_eq!(shown(&Stacked), [Nothing, AsTold, Otherwise, AsTold]);
        for outcome in [Gone, Skipped("why".to_owned())] {
            assert_eq!(shown(&outcome), [AsTold, AsTold, AsTold, AsTold]);
        }
    }

    #[test]
    fn what_came_beneath_no_old_mount_is_astray() {
        let table = |text: &str| MountTable::parse(text.as_bytes()).unwrap();
        let before = table(
            "1 1 0:1 / / rw - overlay o rw\n\
             2 1 7:1 /sub /a rw - ext4 s rw\n\
             3 1 7:1 / /b rw - ext4 s rw\n\
             4 1 7:2 / /mine rw - ext4 s rw\n\
             9 1 0:9 / /gone rw - tmpfs t rw\n",
        );
        let now = table(
            "1 1 0:1 / / rw - overlay o rw\n\
             5 1 7:2 /sub /a rw - ext4 s rw\n\
             2 5 7:1 /sub /a rw - ext4 s rw\n\
             6 1 7:2 /sub /b rw - ext4 s rw\n\
             3 6 7:1 / /b rw - ext4 s rw\n\
             4 1 7:2 / /mine rw - ext4 s rw\n\
             7 1 7:2 / /elsewhere rw - ext4 s rw\n\
             8 1 0:5 / /other rw - tmpfs t rw\n\
             9 1 7:2 / /again rw - ext4 s rw\n",
        );
        let old = |id| before.mounts().iter().find(|mount| mount.id == id).unwrap();
        assert!(has_come(&now, old(2), FRESH));
        assert!(!has_come(&now, old(3), FRESH), "another folder of it");
        assert!(!has_come(&before, old(2), FRESH));
        assert!(!has_come(&now, &mount("7:1", "/", "/unknown"), FRESH));
        let found = |olds: &[&Mount]| -> Vec<u32> {
            astray(&now, &before, olds, FRESH).iter().map(|mount| mount.id).collect()
        };
        assert_eq!(found(&[old(2), old(3)]), [7, 9], "9 was the id of another one");
        assert_eq!(found(&[old(2)]), [6, 7, 9]);
    }

    #[test]
    fn what_shared_or_stands_in_what_shares_is_set_right_afterwards() {
        let with = |propagation: &str| Mount::of_a_test("7:1", "/data", propagation);
        let plain = (Method::Beneath, true);
        let needs = |all: &[&str], parent: Option<&str>| {
            let all: Vec<Mount> = all.iter().map(|propagation| with(propagation)).collect();
            let all: Vec<&Mount> = all.iter().collect();
            needs_settling(plain, &all, parent.map(with).as_ref())
        };
        assert!(!needs(&[""], Some("")));
        assert!(!needs(&["", ""], None));
        assert!(!needs(&[""], Some("master:3 ")), "what follows hands nothing on");
        assert!(needs(&["", "master:3 "], Some("")));
        assert!(needs(&["shared:3 "], None));
        assert!(needs(&[""], Some("shared:3 ")));
        assert!(needs(&[""], Some("unbindable ")));
        let old = with("");
        for (way, is_so) in [
            ((Method::TuckByMount, true), true),
            ((Method::TuckByMount, false), false),
            ((Method::Tuck, true), false),
        ] {
            assert_eq!(needs_settling(way, &[&old], None), is_so, "{way:?}");
        }
    }
}
