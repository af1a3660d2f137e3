//! Mount namespaces other than ours, with or without a process in them.

use super::census;
use super::{both_ways, mounted, namespaces_with, told};
use crate::checks::eventually;
use crate::going_namespaces::keeper_of;
use crate::support::Node;
use crate::support::disks::within;
use crate::support::pods::{Naming, Order, Plan, Pod};
use incloud_disk::host::census::Budget;
use incloud_disk::model::disk::device::DeviceNumber;
use incloud_disk::model::mount::disk_users::{NamespaceId, NamespaceKeeper, NamespaceUse};
use incloud_disk::ports::host::Census;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount, umount2};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn id_of(pid: u32) -> NamespaceId {
    NamespaceId(std::fs::metadata(format!("/proc/{pid}/ns/mnt")).unwrap().ino())
}

/// The one namespace that has the file system, which can be opened.
#[track_caller]
fn only_with(number: DeviceNumber) -> NamespaceUse {
    let mut found = namespaces_with(number).namespaces;
    assert_eq!(found.len(), 1, "{found:?}");
    let found = found.remove(0);
    let census = census();
    for census in [census.clone(), census.without_the_list_of_namespaces()] {
        let open = census.open_namespace(&found).unwrap();
        assert_eq!(Some(open.metadata().unwrap().ino()), found.id.map(|id| id.0));
    }
    found
}

fn pids_in(namespace: &NamespaceUse) -> Vec<u32> {
    namespace.processes.iter().map(|process| process.pid).collect()
}

#[test]
fn a_foreign_namespace_is_told_with_who_lives_there() {
    needs!(containers);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    assert_eq!(namespaces_with(number).namespaces, []);
    // A restarted service, with copies of everything.
    let service = Plan::outside().copying_all_mounts().with_children(1).start();
    let found = only_with(number);
    assert_eq!(found.id, Some(id_of(service.pid())));
    assert_eq!(found.mounts.len(), 1);
    assert_eq!(found.mounts[0].target, volume.global());
    assert_eq!((found.processes.len(), found.processes[0].pid), (2, service.pid()));
    assert_eq!((&found.processes[0].owner.pod, found.keepers.len()), (&None, 0));
    service.die();
    eventually("it is gone", || namespaces_with(number).namespaces.is_empty());

    let pod = Pod::new(Naming::Systemd);
    let container = pod.container_with(&volume.global());
    let found = only_with(number);
    assert_eq!(found.mounts[0].target, PathBuf::from("/data"));
    assert_eq!(found.processes[0].owner.container.as_deref(), Some(container.id()));
    assert_eq!(found.processes[0].owner.pod.as_ref().unwrap().as_str(), pod.uid());
    container.die();
    volume.take_away();
}

/// All who live there see less than there is.
#[test]
fn a_namespace_of_jails_is_told() {
    needs!(containers);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let plan = Plan::outside().seeing(&volume.global(), "/data").seeing(&node.base(), "/jail");
    let mut jailed = plan.start();
    jailed.must(&Order::ChangeRoot { path: "/jail".into() });
    let found = only_with(number);
    assert_eq!(pids_in(&found), [jailed.pid()]);
    assert_eq!(found.mounts[0].target, PathBuf::from("/data"));
    drop(jailed);
    volume.take_away();
}

/// Mounts the namespace of a container with the volume, and ends the container.
fn keep_a_namespace_at(place: &Path, volume: &Path) -> NamespaceId {
    loop {
        let container = Plan::outside().seeing(volume, "/data").start();
        let from = PathBuf::from(format!("/proc/{}/ns/mnt", container.pid()));
        match mount(Some(&from), place, None::<&str>, MsFlags::MS_BIND, None::<&str>) {
            Ok(()) => return id_of(container.pid()),
            // Only a namespace of a higher number than ours can be mounted in it, lest two keep
            // each other; and each processor gives numbers of its own.
            Err(Errno::EINVAL) => {}
            Err(errno) => panic!("{errno}"),
        }
    }
}

#[test]
fn a_namespace_that_is_only_mounted_is_told() {
    needs!(containers);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let place = node.base().join("kept");
    File::create(&place).unwrap();
    let id = keep_a_namespace_at(&place, &volume.global());
    // What waits for a process to go away takes a moment.
    eventually("no process lives there", || only_with(number).processes.is_empty());
    let found = only_with(number);
    assert_eq!(found.id, Some(id));
    let own = census().own_namespace().unwrap();
    assert_eq!(
        found.keepers,
        [NamespaceKeeper::MountedAt { place: place.clone(), within: Some(own) }]
    );
    umount2(&place, nix::mount::MntFlags::empty()).unwrap();
    eventually("it is gone", || namespaces_with(number).namespaces.is_empty());
    volume.take_away();
}

#[test]
fn a_namespace_that_is_only_open_is_told() {
    needs!(containers);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let container = Plan::outside().seeing(&volume.global(), "/data").start();
    let mut keeper = keeper_of(container);
    eventually("no process lives there", || only_with(number).processes.is_empty());
    match only_with(number).keepers.as_slice() {
        [NamespaceKeeper::OpenIn { process, .. }] => assert_eq!(process.pid, keeper.pid()),
        other => panic!("{other:?}"),
    }
    keeper.must(&Order::LetGo);
    eventually("it is gone", || namespaces_with(number).namespaces.is_empty());
    volume.take_away();
}

/// Tells another thread to end, whatever becomes of this one.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A process that comes and goes while we look is there or not, and never in the way of an answer.
#[test]
fn coming_and_going_disturbs_no_answer() {
    needs!(containers);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let resident = Plan::outside().seeing(&volume.global(), "/data").start();
    let census = census();
    let is_over = AtomicBool::new(false);
    // Other tests have processes that cannot be examined.
    let started: Mutex<BTreeSet<String>> = Mutex::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let plan = || Plan::outside().seeing(&volume.global(), "/data").with_children(3);
                let all = Plan::start_all([plan(), plan(), plan()]);
                for one in &all {
                    let children = format!("/proc/{0}/task/{0}/children", one.pid());
                    let children = std::fs::read_to_string(children).unwrap();
                    let children = children.split_whitespace().map(str::to_owned);
                    started.lock().unwrap().extend(children.chain([one.pid().to_string()]));
                }
                drop(all);
            }
        });
        // Also where this one panics: the scope waits for the other.
        let _ends = Ends(&is_over);
        for _ in 0..20 {
            let found = told(census.of_another_call().device_users(&[number]));
            let residents = found.namespaces.iter().filter(|n| pids_in(n) == [resident.pid()]);
            assert_eq!(residents.count(), 1);
            for untold in &found.untold {
                let mut words = untold.what.split_whitespace();
                assert!(!words.any(|word| started.lock().unwrap().contains(word)), "{untold}");
            }
        }
    });
    drop(resident);
    eventually("all are gone", || namespaces_with(number).namespaces.is_empty());
    volume.take_away();
}

/// Who looks at a namespace keeps it for so long. Looks that begin before others end keep none for ever.
#[test]
fn looks_that_overlap_keep_no_namespace() {
    needs!(containers);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let file_system = Path::new("/proc/fs/ext4").join(volume.letter());
    let run_dir = node.own().join("run");
    let census = census().within(Budget::USUAL, &run_dir);
    for census in [census.clone(), census.without_the_list_of_namespaces()] {
        let tenant = Plan::outside().seeing(&volume.global(), "/data").start();
        // A look takes a while.
        within(tenant.pid(), || {
            for _ in 0..4000 {
                let (flags, options) = (MsFlags::empty(), Some("size=4k"));
                mount(Some("deep"), "/data/lost+found", Some("tmpfs"), flags, options).unwrap();
            }
        });
        umount2(&volume.global(), nix::mount::MntFlags::empty()).unwrap();
        let (is_over, looks) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        told(census.of_another_call().namespaces_with(&[number]));
                        looks.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let _ends = Ends(&is_over);
            eventually("they look", || looks.load(Ordering::Relaxed) >= 8);
            assert!(file_system.exists());
            tenant.die();
            eventually("the file system is let go", || !file_system.exists());
        });
        assert_eq!(namespaces_with(number).namespaces, []);
        volume.bring();
    }
    volume.take_away();
}

/// What another call looks at is waited for, and told all the same where it is held for ever.
#[test]
fn a_namespace_that_is_held_is_told() {
    needs!(containers);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    let container = Plan::outside().seeing(&volume.global(), "/data").start();
    let door = File::open(format!("/proc/{}/ns/mnt", container.pid())).unwrap();
    let keeper = keeper_of(container);
    flock(&door, FlockOperation::LockExclusive).unwrap();
    for uses in both_ways(number) {
        assert_eq!(uses.namespaces.len(), 1, "{uses:?}");
        assert_eq!(uses.namespaces[0].mounts.len(), 1);
    }
    drop(door);
    keeper.die();
    eventually("it is gone", || namespaces_with(number).namespaces.is_empty());
    volume.take_away();
}
