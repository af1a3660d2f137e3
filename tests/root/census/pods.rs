//! The processes of a pod, whatever they do to their mounts, threads and cgroups.

use super::census;
use super::{mounted, told};
use crate::support::Node;
use crate::support::pods::{Naming, Order, Pod};
use incloud_disk::model::disk::device::DeviceNumber;
use incloud_disk::model::ids::ConsumerId;
use incloud_disk::model::mount::disk_users::{Answer, Holder, NamespaceId};
use incloud_disk::ports::host::Census;
use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, unshare};
use std::path::Path;
use std::time::Duration;

fn ask(uid: &str, number: DeviceNumber) -> Answer<Vec<Holder>> {
    let census = census();
    let uid = ConsumerId::parse(uid).unwrap();
    match census.pod_users(&uid, &[number], census.own_namespace().unwrap()) {
        Answer::Told(found) => Answer::Told(found.holders),
        Answer::CannotTell(why) => Answer::CannotTell(why),
    }
}

#[track_caller]
fn holders(uid: &str, number: DeviceNumber) -> Vec<Holder> {
    told(ask(uid, number))
}

#[track_caller]
fn pids(uid: &str, number: DeviceNumber) -> Vec<u32> {
    holders(uid, number).iter().map(|holder| holder.process.pid).collect()
}

#[test]
fn a_process_is_found_by_any_name_of_its_cgroup() {
    needs!(pods);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let one = |naming| vec![Pod::new(naming)];
    let all = Naming::ALL.into_iter().flat_map(one);
    let more = [Pod::in_all_trees(Naming::Cgroupfs), Pod::in_the_last_tree(Naming::Systemd)];
    for pod in all.chain(more) {
        assert_eq!(holders(pod.uid(), number), []);
        let container = pod.container_with(&volume.global());
        let found = holders(pod.uid(), number);
        assert_eq!(found.len(), 1, "{found:?}");
        let Holder { process, places } = &found[0];
        assert_eq!(process.pid, container.pid());
        assert_eq!(process.owner.pod.as_ref().unwrap().as_str(), pod.uid());
        assert_eq!(process.owner.container.as_deref(), Some(container.id()));
        assert!(!process.command.is_empty());
        assert_eq!(places, &[Path::new("/data")]);

        let nothing = DeviceNumber { major: number.major, minor: number.minor + 100_000 };
        assert_eq!(holders(pod.uid(), nothing), [], "another file system");
        let near = &pod.uid()[..pod.uid().len() - 1];
        assert_eq!(holders(near, number), [], "another pod, whose UID this one begins with");
        assert_eq!(holders(&format!("{}0", pod.uid()), number), [], "and the other way round");
        container.die();
        assert_eq!(holders(pod.uid(), number), [], "it is dead");
    }
    volume.take_away();
}

#[test]
fn every_process_of_every_container_is_told() {
    needs!(pods);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let pod = Pod::new(Naming::Systemd);
    let with = |children| pod.container().seeing(&volume.global(), "/data").with_children(children);
    let (one, two) = (with(2).start(), with(0).start());
    // The pod's third container does not have the volume.
    let three = pod.container().start();
    let found = pids(pod.uid(), number);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.contains(&one.pid()) && found.contains(&two.pid()), "{found:?}");
    assert!(!found.contains(&three.pid()), "{found:?}");
    one.die();
    two.die();
    drop(three);
    crate::checks::eventually("the children are dead", || pod.is_empty());
    assert_eq!(holders(pod.uid(), number), []);
    volume.take_away();
}

#[test]
fn processes_in_our_namespace_do_not_count() {
    needs!(pods);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let pod = Pod::new(Naming::Crio);
    let watcher = pod.container().in_our_namespace().start();
    assert_eq!(holders(pod.uid(), number), []);
    let uid = ConsumerId::parse(pod.uid()).unwrap();
    let found = told(census().pod_users(&uid, &[number], NamespaceId(1))).holders;
    assert_eq!(found[0].process.pid, watcher.pid(), "it does for a process elsewhere");
    drop(watcher);
    volume.take_away();
}

#[test]
fn a_zombie_does_not_count() {
    needs!(pods);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let pod = Pod::new(Naming::Cgroupfs);
    let mut container = pod.container_with(&volume.global());
    container.die_without_a_funeral();
    assert_eq!(holders(pod.uid(), number), []);
    drop(container);
    volume.take_away();
}

/// The process is dead by its number in `/proc`, and its other threads write on.
#[test]
fn a_process_whose_first_thread_ended_counts() {
    needs!(pods);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let pod = Pod::new(Naming::Cgroupfs);
    let mut container = pod.container_with(&volume.global());
    container.write("/data/log", Duration::from_millis(1));
    container.must(&Order::EndFirstThread);
    container.must_write_on(3);
    assert_eq!(pids(pod.uid(), number), [container.pid()]);
    container.die();
    assert_eq!(holders(pod.uid(), number), []);
    volume.take_away();
}

#[test]
fn a_thread_that_left_its_process_counts() {
    needs!(pods);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let pod = Pod::new(Naming::Cgroupfs);
    let mut container = pod.container_with(&volume.global());
    container.must(&Order::ThreadWithMounts);
    container.must(&Order::Unmount { place: "/data".into() });
    assert_eq!(pids(pod.uid(), number), [container.pid()]);
    drop(container);
    volume.take_away();
}

/// Its own list of mounts says nothing of what lies outside of its root.
#[test]
fn a_process_in_a_jail_counts() {
    needs!(pods);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let pod = Pod::new(Naming::Cgroupfs);
    let plan = pod.container().seeing(&volume.global(), "/data").seeing(&node.base(), "/jail");
    let mut container = plan.start();
    container.must(&Order::ChangeRoot { path: "/jail".into() });
    let own_words = std::fs::read_to_string(format!("/proc/{}/mountinfo", container.pid()));
    assert!(!own_words.unwrap().contains(&format!(" {number} ")), "the kernel hides it");
    let found = holders(pod.uid(), number);
    assert_eq!(found[0].process.pid, container.pid());
    assert_eq!(found[0].places, [Path::new("/data")]);
    drop(container);
    volume.take_away();
}

/// Where not every cgroup tree is mounted each process is asked.
#[test]
fn without_cgroup_trees_each_process_is_asked() {
    needs!(pods);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let pod = Pod::new(Naming::Systemd);
    let container = pod.container_with(&volume.global());
    let elsewhere = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let table = crate::checks::table();
            let trees = table.mounts().iter().filter(|mount| mount.fs_type.starts_with("cgroup"));
            for tree in trees {
                umount2(&tree.target, MntFlags::MNT_DETACH).unwrap();
            }
            (pids(pod.uid(), number), pids(&format!("{}0", pod.uid()), number))
        });
        asking.join().unwrap()
    });
    assert_eq!(elsewhere, (vec![container.pid()], vec![]));
    drop(container);
    volume.take_away();
}

/// Processes that each start one and end: every list of them is old when it is read.
#[test]
fn a_pod_that_runs_away_is_never_told_dead() {
    needs!(pods);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let pod = Pod::new(Naming::Cgroupfs);
    let mut container = pod.container_with(&volume.global());
    container.must(&Order::Relay);
    container.die_without_a_funeral();
    for asked in 0..20 {
        assert_ne!(ask(pod.uid(), number), Answer::Told(Vec::new()), "after {asked} questions");
    }
    container.die();
    crate::checks::eventually("the last one saw the end", || pod.is_empty());
    assert_eq!(holders(pod.uid(), number), []);
    volume.take_away();
}
