//! The incident on a machine with very many mounts, processes and disks: refused, healed, nothing left.

use super::either;
use crate::checks::{eventually, nothing_is_left, table};
use crate::heal::{goes_on, pull};
use crate::scene::{Scene, scene};
use crate::support::disks::within;
use crate::support::pods::Plan;
use crate::support::{Answer, Node, output_of, with_files};
use crate::switch::kinds::{propagate, tmpfs};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crowd is there before the pod.
fn incident(node: &Node) {
    let Scene { node, volume, pod, mut container } = scene().on(node).start();
    node.must(volume.unpublish(pod.uid()));
    let message = node.fails(volume.unstage());
    assert!(message.contains("orders-0"), "{message}");
    let mounts = table().mounts().len();
    pull(&volume, &mut container);
    node.must(volume.attach());
    goes_on(&mut container, 5);
    assert_eq!(table().mounts().len(), mounts);
    node.must(volume.stage());
    node.must(volume.publish(pod.uid()));
    volume.take_away_with(&pod, container);
    volume.must_be_sound();
}

#[test]
fn the_incident_beside_many_mounts() {
    needs!(pods);
    let node = Node::new();
    let many = either(1_000, 10_000);
    let crowd = node.base().join("crowd");
    fs::create_dir(&crowd).unwrap();
    let nothing = None::<&str>;
    mount(Some("tmpfs"), &crowd, Some("tmpfs"), MsFlags::empty(), nothing).unwrap();
    for number in 0..many {
        let place = crowd.join(format!("pods-of-others-{number}"));
        fs::create_dir(&place).unwrap();
        mount(Some(&crowd), &place, nothing, MsFlags::MS_BIND, nothing).unwrap();
    }
    assert!(table().mounts().len() > many);
    incident(&node);
    umount2(&crowd, MntFlags::MNT_DETACH).unwrap();
    nothing_is_left(&node, &[]);
}

/// Lays mounts on each other in the namespace of a process, below a long path, so that its table is a long one.
/// From each only one step leads up: by its path the kernel would climb over all of them.
fn bury(pid: u32, below: &Path) {
    let place: PathBuf = std::iter::once(below.to_owned())
        .chain(std::iter::repeat_n("x".repeat(200).into(), 4))
        .collect();
    within(pid, || {
        let lay = |place: &Path| {
            mount(Some("t"), place, Some("tmpfs"), MsFlags::empty(), Some("size=4k")).unwrap();
        };
        with_files(|| fs::create_dir_all(&place).unwrap());
        lay(&place);
        propagate(place.to_str().unwrap(), MsFlags::MS_PRIVATE);
        nix::unistd::chdir(&place).unwrap();
        for _ in 1..either(800, 60_000) {
            with_files(|| fs::create_dir("step").unwrap());
            lay(Path::new("."));
            nix::unistd::chdir("step/..").unwrap();
        }
    });
}

/// A call that gives long tables up. In the ring it does so at once: 60,000 mounts take half a minute to read, and
/// all other calls of the machine would wait for them too.
fn giving_up(node: &Node, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = node.command(arguments);
    if either(0, 1) == 0 {
        command.env("INCLOUD_DISK_LONG_TABLES", "given up");
    }
    command
}

/// What a tenant makes of his own namespace keeps no other one's volume.
#[test]
fn a_tenant_whose_mounts_cannot_be_read_holds_up_no_tear_down() {
    needs!(pods, seams);
    let node = Node::new();
    node.configure("[deadline]\nunmountdevice = 25\ndetach = 25");
    let area = node.base().join("area");
    fs::create_dir(&area).unwrap();
    let tenant = Plan::outside().copying_all_mounts().start();
    within(tenant.pid(), || tmpfs(area.to_str().unwrap()));
    bury(tenant.pid(), &area);
    let Scene { node, volume, pod, container } = scene().on(&node).start();
    container.die();
    let told = output_of(&mut giving_up(&node, &["holders", &volume.id])).stdout;
    // It is broken into lines.
    let told = String::from_utf8(told).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let who = format!("of process {} (", tenant.pid());
    assert!(told.contains(&who) && told.contains("so many mounts"), "{told}");
    for call in [volume.unpublish(pod.uid()), volume.unstage(), volume.detach()] {
        let answer = Answer::of(giving_up(&node, &call));
        assert_eq!(answer.json["status"], "Success", "{}", answer.text);
    }
    tenant.die();
    volume.ends();
}

/// The pod that has the volume hides it so: it is not taken from it, and it hides it from itself alone.
#[test]
fn a_pod_whose_mounts_cannot_be_read_keeps_its_volume() {
    needs!(pods, seams);
    let Scene { node, volume, pod, mut container } = scene().start();
    bury(container.pid(), Path::new("/data"));
    let answer = Answer::of(giving_up(&node, &volume.unpublish(pod.uid())));
    assert!(answer.text.contains("so many mounts"), "{}", answer.text);
    // As if it had been taken away all the same.
    umount2(&volume.pod(pod.uid()), MntFlags::MNT_DETACH).unwrap();
    let answer = Answer::of(giving_up(&node, &volume.unstage()));
    assert!(answer.text.contains("still run, and may have it mounted"), "{}", answer.text);
    assert!(answer.text.contains(pod.uid()), "{}", answer.text);
    goes_on(&mut container, 3);
    container.die();
    node.must(volume.unpublish(pod.uid()));
    // So many mounts take the kernel a moment to end.
    let is_unmounted = || node.call(volume.unstage()).json["status"] == "Success";
    eventually("the disk is let go", is_unmounted);
    volume.ends();
}
