//! Mounts replaced under running containers.

mod hangs;
pub mod kinds;
mod many;
mod owners;
mod peers;

use crate::support::disks::{Disks, replace, switch, table_of, within};
use crate::support::pods::Plan;
use incloud_disk::host::remount::KernelRemounts;
use incloud_disk::model::mount::replacement::{Method, ReplacementOutcome};
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::host::{Remounts, SwitchRequest};
use nix::mount::{MsFlags, mount};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// What this kernel can: its own method, and those that older ones have.
pub fn methods() -> Vec<Method> {
    let best = KernelRemounts::default().method();
    Method::ALL.into_iter().filter(|one| *one >= best && *one != Method::Stack).collect()
}

/// Both disks live: so every write of the writer succeeds, and each moment is looked at.
#[test]
fn a_writer_meets_nothing_between_the_two_disks() {
    needs!(containers);
    let rounds = std::env::var("SWITCH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    let disks = Disks::with("ext4", |_| {});
    for method in methods() {
        let mut container = Plan::outside().seeing(&disks.old.place, "/data").start();
        container.write("/data/log", Duration::ZERO);
        let (mut from, mut to) = (&disks.old, &disks.new);
        for round in 0..rounds {
            container.must_write_on(20);
            let answers = switch(container.pid(), method, from, to);
            assert_eq!(answers.len(), 1, "{answers:?}");
            assert_eq!(answers[0].outcome, ReplacementOutcome::Switched, "{method} {round}");
            assert_eq!(answers[0].notes, Vec::<String>::new());
            let table = table_of(container.pid());
            assert_eq!(table.at(Path::new("/data")).count(), 1, "{method} {round}: layers");
            assert_eq!((from.among(&table).len(), to.among(&table).len()), (0, 1));
            container.must_write_on(20);
            (from, to) = (to, from);
        }
        let report = container.report();
        let mut both = [disks.old.number.to_string(), disks.new.number.to_string()];
        let mut seen = report.file_systems.clone();
        both.sort();
        seen.sort();
        assert_eq!((report.errors, seen.as_slice()), (0, both.as_slice()), "{method}: {report:?}");
        println!("{method}: {rounds} rounds, {} writes", report.writes);
    }
}

/// A switch that was killed between its two halves.
#[test]
fn a_switch_that_was_killed_is_finished() {
    needs!(containers);
    let disks = Disks::with("ext4", |_| {});
    let container =
        Plan::outside().seeing(&disks.new.place, "/data").seeing(&disks.old.place, "/old").start();
    within(container.pid(), || {
        let none = None::<&str>;
        mount(Some("/old"), "/data", none, MsFlags::MS_BIND, none).unwrap();
        nix::mount::umount2("/old", nix::mount::MntFlags::MNT_DETACH).unwrap();
    });
    disks.old.die();
    let answers = switch(container.pid(), methods()[0], &disks.old, &disks.new);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].outcome, ReplacementOutcome::DetachedOnly, "{answers:?}");
    let table = table_of(container.pid());
    assert_eq!((disks.old.among(&table).len(), disks.new.among(&table).len()), (0, 1));
}

/// A parent that a killed switch left shared goes back to its master, or to having none.
#[test]
fn a_parent_that_was_left_shared_is_set_back() {
    needs!(containers);
    let disks = Disks::with("ext4", |_| {});
    let area = disks.base().join("area");
    std::fs::create_dir(&area).unwrap();
    let none = None::<&str>;
    mount(Some("area"), &area, Some("tmpfs"), MsFlags::empty(), none).unwrap();
    mount(none, &area, none, MsFlags::MS_SHARED, none).unwrap();
    let container = Plan::outside().copying_all_mounts().following_our_mounts().start();
    let pid = container.pid();
    within(pid, || {
        for place in [area.join("data"), disks.base().join("elsewhere")] {
            std::fs::create_dir(&place).unwrap();
            mount(Some(&disks.old.place), &place, none, MsFlags::MS_BIND, none).unwrap();
        }
    });
    let before = table_of(pid);
    let around = before.covering(&disks.base()).unwrap().target.clone();
    let stale = disks.old.among(&before);
    let (door, fresh) = (
        std::fs::File::open(format!("/proc/{pid}/ns/mnt")).unwrap(),
        std::fs::File::open(&disks.new.place).unwrap(),
    );
    let deadline = Deadline::after(Duration::from_secs(20));
    let fresh = fresh.as_fd();
    let request =
        SwitchRequest { namespace: Some(&door), stale: &stale, fresh, group: None, deadline };
    assert_eq!(KernelRemounts::by(Method::Beneath).will_change(&request), Ok(Vec::new()));
    for method in [Method::Tuck, Method::TuckRemounted, Method::TuckByMount] {
        let tuck = KernelRemounts::by(method);
        let parents = tuck.will_change(&request).unwrap();
        let targets: Vec<_> = parents.iter().map(|parent| parent.target.as_path()).collect();
        assert_eq!(targets, [&around, &area], "{method}");
        within(pid, || {
            for place in [&around, &area] {
                mount(none, place, none, MsFlags::MS_SHARED, none).unwrap();
            }
        });
        assert_ne!(table_of(pid), before);
        for _ in 0..2 {
            tuck.set_back(Some(&door), &parents, deadline).unwrap();
            assert_eq!(table_of(pid), before, "{method}");
        }
    }
    drop(container);
    nix::mount::umount2(&area, nix::mount::MntFlags::MNT_DETACH).unwrap();
}

/// In this thread's own namespace too, and nothing of the work stays in it or in this process.
#[test]
fn nothing_of_a_switch_is_left_behind() {
    needs!(containers);
    own_descriptors();
    let disks = Disks::with("ext4", |root| std::fs::create_dir(root.join("sub")).unwrap());
    let here = disks.base().join("here");
    std::fs::create_dir(&here).unwrap();
    let none = None::<&str>;
    let bind = || mount(Some(&disks.old.place), &here, none, MsFlags::MS_BIND, none).unwrap();
    let own = || crate::checks::table();
    let open = || std::fs::read_dir("/proc/thread-self/fd").unwrap().count();
    for method in methods() {
        let container = Plan::outside().seeing(&disks.old.place, "/data").start();
        within(container.pid(), || {
            mount(Some("tmpfs"), "/data/sub", Some("tmpfs"), MsFlags::empty(), none).unwrap();
        });
        let before = (open(), own().mounts().len());
        for pid in [None, Some(container.pid())] {
            if pid.is_none() {
                bind();
            }
            let table = pid.map_or_else(own, table_of);
            let mut stale = disks.old.among(&table);
            stale.retain(|mount| mount.target == Path::new("/data") || mount.target == here);
            let switches = KernelRemounts::by(method);
            let answers = replace(switches, pid, &stale, &disks.new);
            assert_eq!(answers.len(), 1);
            assert_eq!(
                answers[0].outcome,
                ReplacementOutcome::Switched,
                "{method} {pid:?}: {answers:?}"
            );
            if pid.is_none() {
                assert_eq!(crate::checks::only_mount_at(&here).number, disks.new.number);
                nix::mount::umount2(&here, nix::mount::MntFlags::empty()).unwrap();
            }
        }
        assert_eq!((open(), own().mounts().len()), before, "{method}");
        // A mount that was still held could not be taken off without force.
        drop(container);
    }
    nix::mount::umount2(&disks.old.place, nix::mount::MntFlags::empty()).unwrap();
    nix::mount::umount2(&disks.new.place, nix::mount::MntFlags::empty()).unwrap();
    for disk in [&disks.old, &disks.new] {
        let mut alone = std::fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut alone, nix::libc::O_EXCL);
        crate::checks::eventually("nothing holds the disk", || {
            alone.read(true).open(&disk.device).is_ok()
        });
    }
}

/// Gives this thread, and those that it starts, descriptors of their own: other tests open and
/// close theirs all the time. None is copied, or those tests would wait for this one's end.
#[allow(unsafe_code)]
fn own_descriptors() {
    // SAFETY: what is closed is a copy that nothing of this thread has used yet.
    let result = unsafe {
        let unshare = nix::libc::CLOSE_RANGE_UNSHARE;
        nix::libc::syscall(nix::libc::SYS_close_range, 3, u32::MAX, unshare)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
