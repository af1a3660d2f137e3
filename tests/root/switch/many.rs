//! Several containers.

use super::kinds::{bind, essence, must_become_the_same, propagate, tmpfs};
use super::methods;
use crate::support::disks::{Disks, switch, table_of, within};
use crate::support::pods::Plan;
use nix::mount::MsFlags;

/// Each mount is asked for by itself then, and the switch of one reaches others: peers that come to the new disk
/// with it, places where it is nested.
#[test]
fn many_mounts_of_one_namespace_are_as_they_were() {
    needs!(containers);
    for method in methods() {
        let disks = Disks::with("ext4", |root| std::fs::create_dir(root.join("sub")).unwrap());
        let container = Plan::outside().seeing(&disks.old.place, "/data").start();
        within(container.pid(), || {
            let none = MsFlags::empty();
            for nth in 0..12 {
                bind("/data", &format!("/plain-{nth}"), none);
            }
            // What is mounted in one of these is mounted in the other too.
            std::fs::create_dir("/one").unwrap();
            tmpfs("/one");
            propagate("/one", MsFlags::MS_SHARED);
            bind("/one", "/two", none);
            for nth in 0..4 {
                bind("/data", &format!("/one/{nth}"), none);
            }
            // Nested ones, which come along.
            tmpfs("/plain-7/sub");
            bind("/data/sub", "/plain-7/sub/back", none);
        });
        disks.old.die();
        let before = table_of(container.pid());
        let numbers = [disks.old.number, disks.new.number];
        let answers = switch(container.pid(), method, &disks.old, &disks.new);
        let after = table_of(container.pid());
        let now = || essence(&table_of(container.pid()), &numbers);
        must_become_the_same(&essence(&before, &numbers), now, &method.to_string());
        assert_eq!(disks.old.among(&after), [], "{method}: {answers:#?}");
    }
}
