//! Old mounts on what shares with another place: a mount that comes to the one comes to the other too, whatever
//! is there.

use super::kinds::{bind, essence, must_become_the_same, propagate, tmpfs};
use super::methods;
use crate::support::disks::{Disk, Disks, replace, switch, table_of, within};
use crate::support::pods::{Container, Plan};
use incloud_disk::host::remount::KernelRemounts;
use incloud_disk::model::mount::mountinfo::{Mount, MountTable};
use incloud_disk::model::mount::replacement::{ReplacementOutcome, Switched};
use nix::mount::{MntFlags, MsFlags, umount2};
use std::fs;
use std::path::Path;

fn fill(root: &Path) {
    for folder in ["sub", "again"] {
        fs::create_dir(root.join(folder)).unwrap();
    }
}

/// A container with a folder that is shared with another one, and the old disk in both.
fn sharing(disks: &Disks) -> Container {
    let container = Plan::outside().seeing(&disks.old.place, "/data").start();
    within(container.pid(), || {
        fs::create_dir("/one").unwrap();
        tmpfs("/one");
        propagate("/one", MsFlags::MS_SHARED);
        bind("/one", "/two", MsFlags::empty());
        bind("/data", "/one/0", MsFlags::empty());
    });
    container
}

/// Mounts of a disk that lie on another one of it: who takes the upper one off still has the lower one.
fn doubles(table: &MountTable, disk: &Disk) -> Vec<Mount> {
    let all = disk.among(table);
    let is_double =
        |one: &&Mount| all.iter().any(|below| below.id == one.parent && below.target == one.target);
    all.iter().filter(is_double).cloned().collect()
}

fn at<'t>(table: &'t MountTable, place: &str) -> Option<&'t Mount> {
    table.top_at(Path::new(place))
}

fn why_left(answers: &[Switched], place: &str) -> String {
    let answer = answers.iter().find(|answer| answer.mount.target == Path::new(place)).unwrap();
    match &answer.outcome {
        ReplacementOutcome::Skipped(why) => why.clone(),
        other => format!("{other:?}"),
    }
}

/// What comes beneath such a copy has not what is mounted in it, and no call reaches it there: the copy stays, and it
/// is said.
#[test]
fn a_copy_with_a_mount_of_its_own_in_a_peer_stays_and_is_said() {
    needs!(containers);
    let kinds = [MsFlags::MS_PRIVATE, MsFlags::MS_SLAVE, MsFlags::MS_UNBINDABLE];
    let all = methods().into_iter().flat_map(|one| kinds.map(|kind| (one, kind)));
    // Whichever has its turn first.
    for (method, kind, first) in
        all.flat_map(|(method, kind)| [1, 2].map(|nth| (method, kind, nth)))
    {
        let disks = Disks::with("ext4", fill);
        let container = sharing(&disks);
        let pid = container.pid();
        within(pid, || {
            propagate("/two/0", kind);
            tmpfs("/two/0/sub");
        });
        disks.old.die();
        let mut stale = disks.old.among(&table_of(pid));
        stale.sort_by_key(|mount| {
            mount.target.starts_with(if first == 1 { "/two" } else { "/one" })
        });
        let answers = replace(KernelRemounts::by(method), Some(pid), &stale, &disks.new);
        let after = table_of(pid);
        assert_eq!(doubles(&after, &disks.new), [], "{method} {kind:?}: {answers:#?}");
        let is_of = |place| at(&after, place).map(|mount| mount.number);
        assert_eq!(is_of("/one/0"), Some(disks.new.number), "{method} {kind:?}: {answers:#?}");
        assert_eq!(at(&after, "/one/0/sub"), None, "{method} {kind:?}: {answers:#?}");
        assert_eq!(is_of("/two/0"), Some(disks.old.number), "{method} {kind:?}: {answers:#?}");
        assert_eq!(at(&after, "/two/0/sub").unwrap().fs_type, "tmpfs", "{method} {kind:?}");
        let why = why_left(&answers, "/two/0");
        assert!(why.contains("/two/0/sub"), "{method} {kind:?}: {why}");
        assert!(why.contains("take off what is mounted in it"), "{method} {kind:?}: {why}");
        // As it says.
        within(pid, || umount2("/two/0/sub", MntFlags::empty()).unwrap());
        let answers = switch(pid, method, &disks.old, &disks.new);
        let after = table_of(pid);
        assert_eq!(disks.old.among(&after), [], "{method} {kind:?}: {answers:#?}");
        assert_eq!(doubles(&after, &disks.new), [], "{method} {kind:?}: {answers:#?}");
        assert_eq!(after.at(Path::new("/two/0")).count(), 1, "{method} {kind:?}: {answers:#?}");
    }
}

/// All that is mounted in a shared one is in its peers too: what comes to them has it, and nothing is left to do.
#[test]
fn peers_with_the_same_mounts_in_them_come_along() {
    needs!(containers);
    for method in methods() {
        let disks = Disks::with("ext4", fill);
        let container = sharing(&disks);
        let pid = container.pid();
        within(pid, || {
            tmpfs("/one/0/sub");
            bind("/data/again", "/one/0/sub/back", MsFlags::empty());
            // A copy that shares no more is such a one again.
            bind("/data", "/one/1", MsFlags::empty());
            propagate("/two/1", MsFlags::MS_PRIVATE);
        });
        disks.old.die();
        let before = table_of(pid);
        assert_eq!(at(&before, "/two/0/sub/back").unwrap().number, disks.old.number);
        let answers = switch(pid, method, &disks.old, &disks.new);
        let after = table_of(pid);
        let numbers = [disks.old.number, disks.new.number];
        let now = || essence(&table_of(pid), &numbers);
        must_become_the_same(&essence(&before, &numbers), now, &format!("{method}: {answers:#?}"));
        assert_eq!(disks.old.among(&after), [], "{method}: {answers:#?}");
    }
}
