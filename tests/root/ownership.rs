//! Who has the volume: what a container was given is its own in whatever cgroup it runs and at
//! whatever place it has it; what merely sees the machine's folders keeps nothing here.

use crate::checks::{layers_at, nothing_is_left};
use crate::files;
use crate::support::Node;
use crate::support::pods::{Container, Naming, Order, Plan, Pod};
use crate::volume::{POD, Volume, make_folder};
use nix::mount::{MsFlags, mount, umount2};
use std::fs;
use std::path::Path;
use std::time::Duration;

fn bind(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
}

/// The folder is let go, and takes nothing from a container.
#[track_caller]
fn is_let_go(volume: &Volume, container: &mut Container) {
    volume.node.must(volume.unpublish(POD));
    let report = container.must_write_on(5);
    assert_eq!(report.file_systems.len(), 1, "it writes elsewhere: {report:?}");
    assert_eq!(layers_at(&volume.pod(POD)), 0);
}

/// What was let go of was let go of for a container that counts as the pod's.
#[track_caller]
fn counts_as_the_pods(volume: &Volume) {
    let folders = &volume.record()["let_go"]["folders"];
    assert!(folders[POD]["at"].is_u64(), "it counts as the pod's: {folders}");
}

/// The call is refused, names the process, and takes nothing from it.
#[track_caller]
fn is_refused(node: &Node, call: &[String], container: &mut Container, place: &str) {
    let message = node.fails(call);
    let who = format!("{} (", container.pid());
    assert!(message.contains(&who) && message.contains(place), "{message}");
    assert!(message.contains("disk release"), "the way out is named: {message}");
    container.must_write_on(5);
}

/// Plain Docker, podman, systemd-nspawn, `--cgroups-per-qos=false`: no folder of a pod's.
#[test]
fn a_container_in_no_pods_cgroup_keeps_what_it_was_given() {
    needs!(pods);
    for fs_type in ["ext4", "xfs"] {
        let (node, volume) = Volume::on_a_node(fs_type, "320M");
        let folder = volume.bring_to_pod();
        let docker = Pod::new(Naming::Docker);
        for plan in [docker.container(), Plan::outside()] {
            let mut container = plan.seeing(&folder, "/data").start();
            container.write("/data/log", Duration::from_millis(1));
            is_let_go(&volume, &mut container);
            is_refused(&node, &volume.unstage(), &mut container, "/data");
            counts_as_the_pods(&volume);
            node.must(volume.publish(POD));
            let report = container.report();
            assert_eq!((report.errors, report.file_systems.len()), (0, 1), "{report:?}");
            assert_eq!((layers_at(&folder), layers_at(&volume.global())), (1, 1));
            container.die();
        }
        volume.ends();
        volume.must_be_sound();
    }
}

/// A container may have the volume at a place whose name is like one of the machine's folders.
#[test]
fn a_path_of_the_containers_choice_does_not_decide() {
    needs!(pods);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    let pv = &volume.pv;
    let global = volume.global();
    for place in [
        format!("/x/{pv}"),
        format!("/mounts/{pv}"),
        global.to_str().unwrap().to_owned(),
        volume.pod(POD).to_str().unwrap().to_owned(),
        format!("/pods/{POD}/volume-subpaths/{pv}/main/0"),
    ] {
        // Of no pod that the driver bound it for.
        let pod = Pod::new(Naming::Systemd);
        let mut container = pod.container().seeing(&global, &place).start();
        container.write(&format!("{place}/log"), Duration::from_millis(1));
        is_refused(&node, &volume.unstage(), &mut container, &place);
        assert_eq!(container.report().errors, 0, "{place}");
        container.die();
    }
    // In a copy of all mounts: the copy is a view, the bind beside it is not.
    let mut service = Plan::outside().copying_all_mounts().start();
    let place = node.base().join("elsewhere");
    service.must(&Order::Bind { from: global, to: place.clone() });
    service.write(place.join("log").to_str().unwrap(), Duration::from_millis(1));
    is_refused(&node, &volume.unstage(), &mut service, place.to_str().unwrap());
    service.die();
    volume.ends();
}

/// An agent's copies of the machine's folders, by whatever path, keep nothing here; nor do those of
/// a runtime with mounts of its own.
#[test]
fn an_agent_that_sees_the_machine_keeps_nothing() {
    needs!(pods);
    for wiped in [false, true] {
        let (node, volume) = Volume::on_a_node("ext4", "64M");
        let folder = volume.bring_to_pod();
        fs::create_dir(folder.join("part")).unwrap();
        // As kubelet does for a container with `subPath`.
        let part = node.kubelet_root().join("pods").join(POD);
        let part = part.join("volume-subpaths").join(&volume.pv).join("main/0");
        bind(&folder.join("part"), &part);
        let (kubelet, global) = (node.kubelet_root(), volume.global());
        let below = |path: &Path| path.strip_prefix(&kubelet).unwrap().to_str().unwrap().to_owned();
        let at = |path: &Path| format!("/host/kubelet/{}", below(path));
        let agents = [Naming::Systemd, Naming::Cgroupfs].map(Pod::new);
        let copying = agents[0].container().copying_all_mounts().start();
        let seeing = agents[1].container().seeing(&kubelet, "/host/kubelet");
        let seeing = [&folder, &part, &global]
            .into_iter()
            .fold(seeing, |plan, path| plan.seeing(path, &at(path)));
        let seeing = seeing.start();
        let supervisor = Plan::outside().copying_all_mounts().start();
        umount2(&part, nix::mount::MntFlags::empty()).unwrap();
        fs::remove_dir_all(node.kubelet_root().join("pods").join(POD).join("volume-subpaths"))
            .unwrap();
        node.must(volume.unpublish(POD));
        fs::remove_dir(&folder).unwrap();
        if wiped {
            fs::remove_dir_all(node.own().join("state")).unwrap();
            fs::remove_dir_all(node.own().join("run")).unwrap();
        }
        node.must(volume.unstage());
        for one in [&copying, &seeing, &supervisor] {
            let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", one.pid())).unwrap();
            assert!(!mounts.contains(&volume.pv), "{mounts}");
        }
        node.must(volume.detach());
        drop((copying, seeing, supervisor));
        fs::remove_dir(volume.global()).unwrap();
        nothing_is_left(&node, &[&volume]);
    }
}

/// Without cgroups of pods the files that kubelet makes for each container tell whose it is.
#[test]
fn without_pods_cgroups_a_container_is_known_by_kubelets_files() {
    needs!(pods);
    let other = "3f399ae2-a3cd-41e8-95ee-5254001f7ecb";
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    let folder = volume.bring_to_pod();
    make_folder(&volume.pod(other));
    node.must(volume.publish(other));
    let own = node.kubelet_root().join("pods").join(POD).join("containers/main");
    fs::create_dir_all(&own).unwrap();
    let docker = Pod::new(Naming::Docker);
    let plan = docker.container().seeing(&folder, "/data").seeing(&own, "/dev/termination");
    let mut container = plan.start();
    container.write("/data/log", Duration::from_millis(1));
    node.must(volume.unpublish(other));
    assert!(volume.record()["let_go"].is_null(), "it is not the other's: {}", volume.record());
    is_let_go(&volume, &mut container);
    let message = node.fails(volume.unstage());
    assert!(message.contains(&format!("shop/orders-0 ({POD})")), "{message}");
    counts_as_the_pods(&volume);
    container.die();
    volume.ends();
}

/// The files of a volume may be called as kubelet's are.
#[test]
fn a_volumes_own_files_are_no_pods() {
    needs!(pods);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    let folder = volume.bring_to_pod();
    let false_one = folder.join("pods/3f399ae2-a3cd-41e8-95ee-5254001f7ecb/containers/main");
    fs::create_dir_all(&false_one).unwrap();
    files::write_synced(&folder.join("f"), b"x");
    let plan = Plan::outside().seeing(&folder, "/data").seeing(&false_one, "/log");
    let mut container = plan.start();
    container.write("/data/log", Duration::from_millis(1));
    is_let_go(&volume, &mut container);
    is_refused(&node, &volume.unstage(), &mut container, "/data");
    counts_as_the_pods(&volume);
    container.die();
    volume.ends();
}
