//! Heals that came half way, and tenants that would keep a volume dead.

use crate::checks::{eventually, nothing_is_left, number_of, only_mount_at};
use crate::crash::{kill_at, seams_are_built_in};
use crate::heal::{goes_on, is_possible, pull};
use crate::holders::run;
use crate::support::disks::{table_of, within};
use crate::support::pods::{Container, Naming, Plan, Pod};
use crate::support::{Node, loop_devices_below, with_files};
use crate::switch::kinds::{propagate, tmpfs};
use crate::volume::{Volume, make_folder};
use nix::mount::{MsFlags, mount};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A volume, prepared by this program's arguments if any, in this many pods that write.
fn in_pods<'n>(
    node: &'n Node,
    fs_type: &'static str,
    mkfs: &[&str],
    count: usize,
) -> (Volume<'n>, Vec<(Pod, Container)>) {
    let volume = Volume::create(node, fs_type, if fs_type == "xfs" { "320M" } else { "64M" });
    if let Some((program, arguments)) = mkfs.split_first() {
        let image = volume.image();
        run(program, &[arguments, &[image.to_str().unwrap()]].concat());
    }
    volume.bring();
    let first = Pod::new(Naming::Systemd);
    let mut pods = vec![first.clone()];
    pods.extend((1..count).map(|_| first.neighbour(Naming::Systemd)));
    let start = |pod: Pod| {
        let folder = volume.pod(pod.uid());
        make_folder(&folder);
        node.must(volume.publish(pod.uid()));
        let mut container = pod.container_with(&folder);
        container.write("/data/log", Duration::from_millis(2));
        container.must_write_on(2);
        (pod, container)
    };
    let running = pods.into_iter().map(start).collect();
    (volume, running)
}

/// Every container writes on, and nothing of a dead disk is left.
#[track_caller]
fn all_go_on(volume: &Volume<'_>, running: &mut [(Pod, Container)], what: &str) {
    let number = number_of(&volume.letter());
    assert_eq!(only_mount_at(&volume.global()).number, number, "{what}");
    for (pod, container) in running {
        assert_eq!(only_mount_at(&volume.pod(pod.uid())).number, number, "{what}");
        let there = table_of(container.pid()).top_at(Path::new("/data")).unwrap().number;
        assert_eq!(there, number, "{what}: a container stands on the dead disk");
        goes_on(container, 3);
    }
    eventually("the dead disk is let go", || loop_devices_below(&volume.node.base()).len() == 1);
}

fn take_down(volume: &Volume<'_>, running: Vec<(Pod, Container)>) {
    for (pod, container) in running {
        container.die();
        volume.node.must(volume.unpublish(pod.uid()));
    }
    volume.take_away();
    nothing_is_left(volume.node, &[volume]);
}

/// Lets the kernel note an error in the file system that is mounted.
fn note_an_error(volume: &Volume<'_>) {
    let path = format!("/sys/fs/ext4/{}/trigger_fs_error", volume.letter());
    fs::write(path, "from a test").unwrap();
}

#[test]
fn half_of_the_containers_are_switched_and_the_rest_follows() {
    let test = "half_of_the_containers_are_switched_and_the_rest_follows";
    if !is_possible(test) || !seams_are_built_in(test) {
        return;
    }
    let no_journal: &[&str] = &["mkfs.ext4", "-q", "-F", "-O", "^has_journal"];
    for (fs_type, mkfs, has_error) in
        [("ext4", no_journal, false), ("ext4", &[][..], true), ("xfs", &[][..], false)]
    {
        for step in ["heal.own", "heal.namespace", "heal.detached"] {
            let what = format!("{fs_type} {mkfs:?} {step}");
            let node = Node::new();
            let (volume, mut running) = in_pods(&node, fs_type, mkfs, 3);
            pull(&volume, &mut running[0].1);
            kill_at(&node, &volume.attach(), step);
            if has_error {
                note_an_error(&volume);
            }
            node.must(volume.attach());
            all_go_on(&volume, &mut running, &what);
            take_down(&volume, running);
        }
    }
}

/// The mounts of the machine are gone, so that only the containers tell that the disk is mounted.
#[test]
fn a_mount_in_a_container_alone_is_joined_too() {
    let test = "a_mount_in_a_container_alone_is_joined_too";
    if !is_possible(test) || !seams_are_built_in(test) {
        return;
    }
    let node = Node::new();
    let no_journal = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal"];
    let (volume, mut running) = in_pods(&node, "ext4", &no_journal, 3);
    pull(&volume, &mut running[0].1);
    for folder in running.iter().map(|(pod, _)| volume.pod(pod.uid())).chain([volume.global()]) {
        run("umount", &["-l", folder.to_str().unwrap()]);
    }
    kill_at(&node, &volume.attach(), "heal.namespace");
    // What the killed one has for itself goes first: only the container's mount stays.
    node.must(volume.attach());
    node.must(volume.stage());
    for (pod, container) in &mut running {
        node.must(volume.publish(pod.uid()));
        goes_on(container, 3);
    }
    all_go_on(&volume, &mut running, "a container alone");
    take_down(&volume, running);
}

/// The count that a heal remembers is of a mount that it did not come to; and the disk goes again.
#[test]
fn heals_killed_one_after_the_other_are_no_other_machines_mounts() {
    let test = "heals_killed_one_after_the_other_are_no_other_machines_mounts";
    if !is_possible(test) || !seams_are_built_in(test) {
        return;
    }
    let node = Node::new();
    let (volume, mut running) = in_pods(&node, "ext4", &[], 1);
    pull(&volume, &mut running[0].1);
    kill_at(&node, &volume.attach(), "heal.mounted");
    node.verb(&["local", "yank", &volume.id]).unwrap();
    kill_at(&node, &volume.attach(), "mounts.mount");
    node.must(volume.attach());
    all_go_on(&volume, &mut running, "after two kills");

    // And a check that begins the counts anew, before a heal that is killed.
    pull(&volume, &mut running[0].1);
    let image = volume.image();
    run("debugfs", &["-w", "-R", "set_super_value state 2", image.to_str().unwrap()]);
    kill_at(&node, &volume.attach(), "mounts.mount");
    node.must(volume.attach());
    all_go_on(&volume, &mut running, "after a check");

    pull(&volume, &mut running[0].1);
    run("debugfs", &["-w", "-R", "set_super_value state 2", image.to_str().unwrap()]);
    kill_at(&node, &volume.attach(), "heal.checked");
    node.must(volume.attach());
    all_go_on(&volume, &mut running, "after a check alone");
    take_down(&volume, running);
}

/// A tenant with namespaces of his own and a copy of all mounts: what `unshare -Urm` gives anybody.
fn tenant(area: &Path) -> Container {
    let tenant = Plan::outside().copying_all_mounts().following_our_mounts().start();
    within(tenant.pid(), || {
        tmpfs(area.to_str().unwrap());
        propagate(area.to_str().unwrap(), MsFlags::MS_SHARED);
    });
    tenant
}

/// Binds the folder at this place of the tenant's.
fn bind_at(pid: u32, from: &Path, to: &Path) {
    within(pid, || {
        with_files(|| fs::create_dir_all(to).unwrap());
        mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
    });
}

#[test]
fn names_that_are_no_text_keep_nothing_dead() {
    let test = "names_that_are_no_text_keep_nothing_dead";
    if !is_possible(test) {
        return;
    }
    let node = Node::new();
    let (volume, mut running) = in_pods(&node, "ext4", &[], 1);
    let area = node.base().join("area");
    fs::create_dir(&area).unwrap();
    let tenant = tenant(&area);
    let folder = volume.pod(running[0].0.uid());
    let long: PathBuf = std::iter::repeat_n("x".repeat(200), 15).collect();
    let names = [
        PathBuf::from(OsStr::from_bytes(b"\xff\xfe")),
        "line\nbreak and \\ \t blanks".into(),
        long,
    ];
    for name in &names {
        bind_at(tenant.pid(), &folder, &area.join(name));
    }
    pull(&volume, &mut running[0].1);
    node.must(volume.attach());
    let number = number_of(&volume.letter());
    for name in &names {
        let there = table_of(tenant.pid());
        let place = area.join(name);
        assert_eq!(there.top_at(&place).unwrap().number, number, "{}", place.display());
    }
    all_go_on(&volume, &mut running, "names");
    // Who looks at it is told, too.
    node.verb(&["status", "--json"]).unwrap();
    tenant.die();
    take_down(&volume, running);
}
