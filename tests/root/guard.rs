//! The guard, by real pods: cgroups as kubelet names them, mount namespaces, writing processes.

use crate::checks::{eventually, layers_at, nothing_is_left};
use crate::crash::interrupted_at;
use crate::files;
use crate::heal::{goes_on, pull};
use crate::holders::{Holder, run};
use crate::scene::{Scene, scene};
use crate::support::pods::{Naming, Order, Plan, Pod};
use crate::support::{DISK, Node, output_of};
use crate::switch::kinds::propagate;
use crate::volume::{Call, Volume, make_folder};
use nix::mount::MsFlags;
use std::fs;
use std::process::Command;
use std::time::Duration;

fn tear_down(volume: &Volume, pod: &Pod) -> [Call; 3] {
    [volume.unpublish(pod.uid()), volume.unstage(), volume.detach()]
}

/// The report, call by call: the orchestrator believes that the pod does not want its volume. It is
/// let go of the folder, which takes nothing from the pod, and of no more.
#[test]
fn the_incident_ends_at_the_device_and_the_pod_never_notices() {
    needs!(pods);
    for naming in [Naming::Cgroupfs, Naming::Systemd] {
        let Scene { node, volume, pod, mut container } = scene().named(naming).start();
        let [unmount, rest @ ..] = tear_down(&volume, &pod);
        for round in 0..3 {
            node.must(&unmount);
            for call in &rest {
                let call = call.clone();
                let message = node.fails(&call);
                let who = format!("{} (", container.pid());
                assert!(message.contains(&who) || call[0] == "detach", "{message}");
                let name = format!("shop/orders-0 ({})", pod.uid());
                assert!(message.contains(&name) || call[0] == "detach", "{message}");
                assert!(message.contains("disk "), "the way out is named: {message}");
                assert_eq!(volume.record()["refusals"], 2 * round + 1 + index_of(&call));
            }
            assert_eq!(layers_at(&volume.pod(pod.uid())), 0);
            assert_eq!(layers_at(&volume.global()), 1);
            container.must_write_on(20);
        }
        let log = node.log();
        assert_eq!(log.matches(": refused").count(), 2, "each reason once: {log}");
        // What is refused is not refused for ever.
        container.die();
        for call in tear_down(&volume, &pod) {
            node.must(&call);
        }
        assert!(volume.record()["refused"].is_null(), "{}", volume.record());
        fs::remove_dir(volume.pod(pod.uid())).unwrap();
        fs::remove_dir(volume.global()).unwrap();
        volume.must_be_sound();
        nothing_is_left(&node, &[&volume]);
    }
}

fn index_of(call: &Call) -> u32 {
    ["unmountdevice", "detach"]
        .iter()
        .position(|word| call[0] == *word)
        .unwrap()
        .try_into()
        .unwrap()
}

#[test]
fn another_pod_is_no_reason_for_this_ones_folder_but_for_the_device() {
    needs!(pods);
    let Scene { node, volume, pod: one, mut container } = scene().start();
    let two = Pod::new(Naming::Cgroupfs);
    make_folder(&volume.pod(two.uid()));
    node.must(volume.publish(two.uid()));
    // The second pod has ended; the first has not.
    node.must(volume.unpublish(two.uid()));
    let message = node.fails(volume.unstage());
    assert!(message.contains("still run") && message.contains(one.uid()), "{message}");
    container.must_write_on(5);
    container.die();
    node.must(volume.unpublish(one.uid()));
    node.must(volume.unstage());
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn a_leaked_copy_goes_and_a_busy_one_is_named() {
    needs!(pods);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    files::write_synced(&volume.global().join("f"), b"x");
    // A monitoring pod that sees the machine's folders, and a service that belongs to no pod.
    let agent = Pod::new(Naming::Systemd);
    let watching = agent.container().copying_all_mounts().start();
    let mut service = Plan::outside().copying_all_mounts().start();
    service.must(&Order::Open { path: volume.global().join("f") });
    let message = node.fails(volume.unstage());
    let who = format!("{} (", service.pid());
    assert!(message.contains(&who) && message.contains("a copy that leaked stays"), "{message}");
    assert_eq!(layers_at(&volume.global()), 1);
    node.fails(volume.unstage());
    let refused = &volume.record()["refused"];
    assert_eq!(refused["unstage"]["count"], 2, "it is one series: {refused}");
    service.must(&Order::LetGo);
    node.must(volume.unstage());
    assert!(
        !watching.sees(volume.global().join("f").to_str().unwrap()).exists(),
        "the copy is gone"
    );
    assert!(node.log().contains("taking down a copy"), "{}", node.log());
    node.must(volume.detach());
    drop((watching, service));
    fs::remove_dir(volume.global()).unwrap();
    nothing_is_left(&node, &[&volume]);
}

/// Its namespace has a mount over the way to the copy, so an unmount from inside does not reach it.
#[test]
fn a_leaked_copy_that_is_covered_goes_with_the_machines_mount() {
    needs!(pods);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    let mut service = Plan::outside().copying_all_mounts().start();
    service.must(&Order::Bind { from: "/proc".into(), to: node.kubelet_root() });
    let has_copy = |pid: u32| {
        let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
        table.contains(volume.global().to_str().unwrap())
    };
    assert!(has_copy(service.pid()));
    node.must(volume.unstage());
    assert!(!has_copy(service.pid()));
    node.must(volume.detach());
    drop(service);
    fs::remove_dir(volume.global()).unwrap();
    nothing_is_left(&node, &[&volume]);
}

/// Only what the mounts stand on is private: the copy is the machine's own mount by its group, and does not go with it.
#[test]
fn a_copy_that_shares_and_stays_is_looked_for_afterwards() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    files::write_synced(&volume.global().join("f"), b"x");
    propagate(volume.global().to_str().unwrap(), MsFlags::MS_SHARED);
    let holder = Holder::of_all_mounts();
    assert!(holder.sees(&volume.global().join("f")).exists());
    node.must(volume.unstage());
    assert!(!holder.sees(&volume.global().join("f")).exists());
    assert!(node.log().contains("taking down a copy"), "from inside, where a user would keep it");
    node.must(volume.detach());
    drop(holder);
    fs::remove_dir(volume.global()).unwrap();
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn the_guard_can_be_told_to_warn_to_give_up_and_to_be_off() {
    needs!(pods);
    for (mode, words) in [
        ("mode = \"warn\"", "would be refused"),
        ("give_up_after = 1", "given up"),
        ("mode = \"off\"", ""),
    ] {
        let Scene { node, volume, pod, container } =
            scene().configured(&format!("[guard]\n{mode}")).named(Naming::Cgroupfs).start();
        node.must(volume.unpublish(pod.uid()));
        if mode.starts_with("give_up") {
            node.fails(volume.unstage());
            std::thread::sleep(Duration::from_millis(2100));
        }
        node.must(volume.unstage());
        assert!(node.log().contains(words), "{mode}: {}", node.log());
        container.die();
        node.configure("");
        volume.ends();
    }
}

#[test]
fn a_person_can_release_and_force_and_it_is_recorded() {
    needs!(pods);
    let Scene { node, volume, pod, container } = scene().start();
    let message = node.fails(volume.unstage());
    assert!(message.contains(&format!("disk release {}", volume.id)), "{message}");
    let told = node.verb(&["release", &volume.id, "--dry-run"]).unwrap();
    assert!(told.contains(&format!("{} (", container.pid())), "{told}");
    assert!(told.contains("Nothing was changed"), "{told}");
    assert_eq!(layers_at(&volume.pod(pod.uid())), 1);

    let told = node.verb(&["release", &volume.pv]).unwrap();
    assert!(told.contains("this breaks") && told.contains("unmounted"), "{told}");
    assert_eq!(layers_at(&volume.pod(pod.uid())) + layers_at(&volume.global()), 0);
    let log = node.log();
    assert!(log.contains("despite the guard") && log.contains("who="), "{log}");

    // The container still has the disk: the predecessor's habit is refused, the force is not.
    let message = node.fails(["detach", &volume.pv, "1"]);
    assert!(message.contains("disk detach --force"), "{message}");
    let told = node.verb(&["detach", "--force", &volume.id, "--dry-run"]).unwrap();
    assert!(told.contains("Nothing was changed"), "{told}");
    // What uses it on another machine is not known here.
    let told = node.verb(&["detach", "--force", &volume.id, "node-b", "--dry-run"]).unwrap();
    assert!(told.ends_with("Nothing was changed.\n") && !told.contains("uses it"), "{told}");
    let told = node.verb(&["detach", "--force", &volume.id, "1"]).unwrap();
    assert!(told.contains("detached"), "{told}");
    assert_eq!(node.must(volume.is_attached())["attached"], false);
    container.die();
    eventually("the loop device is gone", || {
        crate::support::loop_devices_below(&node.base()).is_empty()
    });
    nothing_is_left(&node, &[&volume]);
}

/// A process whose namespace cannot be named by its link is still seen; a stranger's plain look at
/// the disk's node is no reason.
#[test]
fn who_only_looks_at_the_node_is_no_reason() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    let disk = format!("/dev/{}", volume.letter());
    let reader = Holder::reading(std::path::Path::new(&disk));
    node.must(volume.unstage());
    node.must(volume.detach());
    drop(reader);
}

/// In a PID namespace of its own no other process can be seen: that is no consent.
#[test]
fn where_processes_cannot_be_seen_an_unmount_is_refused_and_a_detach_asks_the_kernel() {
    needs!(pods);
    let Scene { node, volume, pod, container } = scene().named(Naming::Cgroupfs).start();
    let blind = |call: &Call| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--propagation", "unchanged", DISK]);
        command.args(call).env("INCLOUD_DISK_CONFIG", node.config_path());
        let output = output_of(&mut command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let json: serde_json::Value = serde_json::from_str(&said)
            .unwrap_or_else(|_| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)));
        (json["status"].as_str().unwrap().to_owned(), said)
    };
    for call in [volume.unpublish(pod.uid()), volume.unstage()] {
        let (status, said) = blind(&call);
        assert!(status == "Failure" && said.contains("cannot be told from here"), "{said}");
    }
    // The kernel knows of the container's mount, named or not.
    node.verb(&["release", &volume.id]).unwrap();
    let (status, said) = blind(&volume.detach());
    assert!(status == "Failure" && said.contains("in use"), "{said}");
    container.die();
    let (status, said) = blind(&volume.detach());
    assert!(status == "Success", "{said}");
    nothing_is_left(&node, &[&volume]);
}

/// What the kernel itself does with a disk or a file on it.
#[test]
fn a_loop_device_and_an_exclusive_opener_are_named() {
    needs!(pods);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    let inner = volume.global().join("inner");
    fs::File::create(&inner).unwrap().set_len(1 << 20).unwrap();
    let device = run("losetup", &["-f", "--show", inner.to_str().unwrap()]);
    let device = device.trim();
    let message = node.fails(volume.unstage());
    assert!(message.contains("is a loop device on") && message.contains(&device[5..]), "{message}");
    run("losetup", &["-d", device]);
    eventually("the loop device lets go", || {
        node.call(volume.unstage()).json["status"] == "Success"
    });

    let mut alone = Plan::outside().seeing(std::path::Path::new("/dev"), "/dev").start();
    alone.must(&Order::OpenAlone { path: format!("/dev/{}", volume.letter()).into() });
    let message = node.fails(volume.detach());
    assert!(message.contains("in use") && message.contains(&alone.pid().to_string()), "{message}");
    alone.must(&Order::LetGo);
    node.must(volume.detach());
    drop(alone);
    fs::remove_dir(volume.global()).unwrap();
    nothing_is_left(&node, &[&volume]);
}

/// The window itself, held open: the container starts between the guard and the unmount.
#[test]
fn a_container_that_starts_after_the_guards_look_keeps_its_mount() {
    needs!(pods, seams);
    let node = Node::new();
    let pod = Pod::new(Naming::Systemd);
    let volume = Volume::create(&node, "ext4", "64M");
    volume.bring();
    let folder = volume.pod(pod.uid());
    make_folder(&folder);
    node.must(volume.publish_as(pod.uid(), "ro"));
    let mut container = None;
    let answer = interrupted_at(&node, volume.unpublish(pod.uid()), "unmount.guarded", || {
        container = Some(pod.container_with(&folder));
    });
    let container = container.unwrap();
    assert_eq!(answer.json["status"], "Success", "{}", answer.text);
    assert_eq!(layers_at(&folder), 0);
    assert!(container.sees("/data/lost+found").exists(), "it was given it before");
    let folders = &volume.record()["let_go"]["folders"];
    assert!(folders[pod.uid()]["at"].is_u64(), "it counts as one that has it: {folders}");
    let message = node.fails(volume.unstage());
    assert!(message.contains(&format!("{} (", container.pid())), "{message}");
    volume.ends_with(&pod, container);
}

/// A heal may still put it right: a volume that leaves takes that from it.
#[test]
fn a_detach_is_refused_while_a_container_has_a_mount_of_the_disk_before() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } =
        scene().configured("[heal]\nmode = \"report\"").start();
    pull(&volume, &mut container);
    node.must(volume.attach());
    let message = node.fails(volume.detach());
    assert!(message.contains("still run"), "{message}");
    node.verb(&["heal", &volume.id]).unwrap();
    goes_on(&mut container, 3);
    volume.ends_with(&pod, container);
}
