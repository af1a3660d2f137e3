//! kubelet is let go of a pod's folder while the pod runs, and of nothing else: the containers keep
//! the volume, and the volume stays until they have ended.

use crate::checks::{eventually, layers_at, nothing_is_left, only_mount_at};
use crate::crash::interrupted_at;
use crate::heal::{goes_on, pull};
use crate::scene::{Scene, scene};
use crate::support::pods::{Container, Naming, Order, Pod};
use crate::support::tracer::{self, CAN_FORBID, Fate};
use crate::support::{Node, has, output_of, spawn, start};
use crate::volume::{Volume, make_folder};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// kubelet's folders are shared on a real machine. It ends with the node's folder.
fn share(node: &Node) {
    let (own, nothing) = (node.own(), None::<&str>);
    mount(Some(&own), &own, nothing, MsFlags::MS_BIND, nothing).unwrap();
    mount(nothing, &own, nothing, MsFlags::MS_SHARED, nothing).unwrap();
}

fn unshare(node: &Node) {
    umount2(&node.own(), MntFlags::MNT_DETACH).unwrap();
}

/// kubelet removes the folder after an unmount that succeeded.
#[track_caller]
pub fn let_go(volume: &Volume, pod: &Pod) {
    volume.node.must(volume.unpublish(pod.uid()));
    assert_eq!(layers_at(&volume.pod(pod.uid())), 0);
    fs::remove_dir(volume.pod(pod.uid())).unwrap();
    assert_eq!(layers_at(&volume.global()), 1, "the volume itself stays");
}

/// What is unmounted next is refused, and names the container.
#[track_caller]
fn is_guarded(volume: &Volume, pod: &Pod, container: &mut Container) {
    for call in [volume.unstage(), volume.detach()] {
        let message = volume.node.fails(&call);
        let who = format!("{} (", container.pid());
        assert!(message.contains(&who) || call[0] == "detach", "{message}");
        assert!(message.contains(pod.uid()) || call[0] == "detach", "{message}");
    }
    assert!(volume.node.letter(&volume.id).is_some(), "attached still");
    container.must_write_on(5);
}

/// The pod ends, and with it all that is left.
#[track_caller]
fn ends(volume: &Volume, container: Container) {
    container.die();
    volume.node.must(volume.unstage());
    volume.node.must(volume.detach());
    fs::remove_dir(volume.global()).unwrap();
    volume.must_be_sound();
}

fn let_goes(volume: &Volume, pod: &Pod) -> Value {
    volume.record()["let_go"]["folders"][pod.uid()].clone()
}

/// kubelet's calls in the incident, and those when it knows better.
#[test]
fn the_pod_keeps_the_volume_and_gets_its_folder_back() {
    needs!(pods);
    for (fs_type, is_shared) in [("ext4", false), ("ext4", true), ("xfs", true)] {
        let node = Node::new();
        if is_shared {
            share(&node);
        }
        let Scene { volume, pod, mut container, .. } = scene().on(&node).of(fs_type).start();
        let before = container.report();
        let_go(&volume, &pod);
        assert!(let_goes(&volume, &pod)["at"].is_u64(), "{}", volume.record());
        for _ in 0..3 {
            is_guarded(&volume, &pod, &mut container);
        }
        // With no device, with a wrong one, and whatever of them comes first.
        let calls = [
            vec![volume.wait(""), volume.stage(), volume.publish(pod.uid())],
            vec![volume.wait("/dev/vdz"), volume.publish(pod.uid())],
            vec![volume.publish(pod.uid())],
            vec![volume.attach(), volume.publish(pod.uid()), volume.stage()],
        ];
        for calls in calls {
            make_folder(&volume.pod(pod.uid()));
            for call in calls {
                node.must(call);
            }
            let (host, global) = (volume.pod(pod.uid()), volume.global());
            assert_eq!(only_mount_at(&host).number, only_mount_at(&global).number);
            assert!(let_goes(&volume, &pod)["back"].is_u64(), "{}", volume.record());
            // A new container of the pod gets the same disk.
            let second = pod.container_with(&host);
            assert!(second.sees("/data/log").exists());
            second.die();
            let_go(&volume, &pod);
            assert!(let_goes(&volume, &pod)["back"].is_null(), "{}", volume.record());
        }
        let report = container.report();
        assert_eq!((report.errors, &report.file_systems), (before.errors, &before.file_systems));
        assert_eq!(report.file_systems.len(), 1, "{report:?}");
        ends(&volume, container);
        if is_shared {
            unshare(&node);
        }
        nothing_is_left(&node, &[&volume]);
    }
}

/// Nothing that this machine remembers is needed: the processes are the truth.
#[test]
fn what_was_let_go_is_guarded_without_any_record() {
    needs!(pods);
    for when in ["before", "after"] {
        let Scene { node, volume, pod, mut container } = scene().named(Naming::Cgroupfs).start();
        let wipe = || {
            fs::remove_dir_all(node.own().join("state")).unwrap();
            fs::remove_dir_all(node.own().join("run")).unwrap();
        };
        if when == "before" {
            wipe();
        }
        let_go(&volume, &pod);
        if when == "after" {
            wipe();
        }
        is_guarded(&volume, &pod, &mut container);
        node.verb(&["heal"]).unwrap();
        is_guarded(&volume, &pod, &mut container);
        let status = node.verb(&["status"]).unwrap();
        has(&status, &[&volume.pv[..12], "GUARDED", &pod.uid()[..8], pod.uid()]);
        ends(&volume, container);
        nothing_is_left(&node, &[&volume]);
    }
}

/// Its disk goes and comes back under another letter while the folder is not there.
#[test]
fn a_pod_without_its_folder_is_healed() {
    needs!(pods);
    for wiped in [false, true] {
        let Scene { node, volume, pod, mut container } = scene().start();
        let_go(&volume, &pod);
        if wiped {
            // The timer finds the global mount again.
            fs::remove_dir_all(node.own().join("state")).unwrap();
            fs::remove_dir_all(node.own().join("run")).unwrap();
            node.verb(&["heal"]).unwrap();
        }
        let old = pull(&volume, &mut container);
        node.must(volume.attach());
        assert_ne!(old, volume.letter());
        goes_on(&mut container, 10);
        for call in [volume.unstage(), volume.detach()] {
            let message = node.fails(&call);
            assert!(message.contains(pod.uid()) || call[0] == "detach", "{message}");
        }
        make_folder(&volume.pod(pod.uid()));
        node.must(volume.wait(""));
        node.must(volume.publish(pod.uid()));
        goes_on(&mut container, 3);
        volume.ends_with(&pod, container);
        volume.must_be_sound();
    }
}

/// A container that sees the machine's folders, and is given none of its own, loses what it sees
/// with the folder: so it is not let go.
#[test]
fn what_would_go_along_is_refused_before() {
    needs!(pods);
    let node = Node::new();
    share(&node);
    let Scene { volume, pod, mut container, .. } = scene().on(&node).start();
    let folder = volume.pod(pod.uid());
    for follows in [true, false] {
        let plan = pod.container().copying_all_mounts();
        let plan = if follows { plan.following_our_mounts() } else { plan };
        let mut seeing = plan.start();
        seeing.write(folder.join("seen").to_str().unwrap(), Duration::from_millis(1));
        if follows {
            let message = node.fails(volume.unpublish(pod.uid()));
            let who = format!("{} (", seeing.pid());
            has(&message, &["would lose its mount", &who, "disk release"]);
            assert_eq!(layers_at(&folder), 1);
            assert!(let_goes(&volume, &pod).is_null(), "{}", volume.record());
        } else {
            // A copy that is private is its own.
            node.must(volume.unpublish(pod.uid()));
            node.must(volume.publish(pod.uid()));
        }
        let report = seeing.must_write_on(5);
        assert_eq!((report.errors, report.file_systems.len()), (0, 1), "{report:?}");
        seeing.die();
    }
    let_go(&volume, &pod);
    is_guarded(&volume, &pod, &mut container);
    ends(&volume, container);
    unshare(&node);
    nothing_is_left(&node, &[&volume]);
}

/// With `warn` and `off` nothing is refused, not even what takes a container's mount along; as ever.
#[test]
fn a_guard_that_warns_or_is_off_refuses_no_folder() {
    needs!(pods);
    for mode in ["warn", "off"] {
        let node = Node::new();
        node.configure(&format!("[guard]\nmode = \"{mode}\""));
        share(&node);
        let Scene { volume, pod, container, .. } = scene().on(&node).start();
        let folder = volume.pod(pod.uid());
        let seeing = pod.container().copying_all_mounts().following_our_mounts().start();
        assert!(seeing.sees(folder.join("log").to_str().unwrap()).exists());
        node.must(volume.unpublish(pod.uid()));
        assert_eq!(layers_at(&folder), 0);
        assert!(!seeing.sees(folder.join("log").to_str().unwrap()).exists(), "it went along");
        assert_eq!(node.log().contains("would be refused"), mode == "warn", "{}", node.log());
        node.must(volume.unstage());
        container.die();
        seeing.die();
        node.configure("");
        volume.take_away();
        unshare(&node);
        nothing_is_left(&node, &[&volume]);
    }
}

/// A privileged container may enter the machine's own namespace: there it uses the folder itself.
#[test]
fn who_uses_the_folder_itself_is_in_the_way_and_who_lives_beside_it_is_not() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } = scene().named(Naming::Crio).start();
    let folder = volume.pod(pod.uid());
    let file = folder.join("log");
    let uses = [
        Order::Open { path: file.clone() },
        Order::Map { path: file },
        Order::ChangeFolder { path: folder.clone() },
        Order::ChangeRoot { path: folder.clone() },
    ];
    for order in uses {
        // As a runtime's watcher.
        let mut watcher = pod.container().in_our_namespace().start();
        node.must(volume.unpublish(pod.uid()));
        node.must(volume.publish(pod.uid()));
        watcher.must(&order);
        let message = node.fails(volume.unpublish(pod.uid()));
        let who = format!("{} (", watcher.pid());
        has(&message, &["still uses the folder", "shop/orders-0", &who]);
        assert!(!message.contains(&format!("{} (", container.pid())), "{message}");
        assert_eq!(layers_at(&folder), 1, "{order:?}");
        assert!(let_goes(&volume, &pod)["at"].is_null(), "{}", volume.record());
        container.must_write_on(2);
        // Without the guard it is the kernel's refusal, and names who is in the way too.
        node.configure("[guard]\nmode = \"off\"");
        let message = node.fails(volume.unpublish(pod.uid()));
        has(&message, &["busy", &who]);
        assert!(!message.contains("still uses the folder"), "{message}");
        node.configure("");
        watcher.die();
    }
    let_go(&volume, &pod);
    is_guarded(&volume, &pod, &mut container);
    ends(&volume, container);
    nothing_is_left(&node, &[&volume]);
}

/// The container's mount goes in the very moment: then the machine's is put back, and it is said.
#[test]
fn what_is_lost_with_it_is_put_back_and_told() {
    needs!(pods, seams);
    let Scene { node, volume, pod, container } = scene().start();
    let mut other = pod.container_with(&volume.pod(pod.uid()));
    let answer = interrupted_at(&node, volume.unpublish(pod.uid()), "unmount.guarded", || {
        other.must(&Order::Unmount { place: "/data".into() });
    });
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    has(&answer.text, &["its mount at /data went with the folder's", "that is put back"]);
    assert_eq!(layers_at(&volume.pod(pod.uid())), 1);
    assert!(let_goes(&volume, &pod).is_null(), "{}", volume.record());
    other.die();
    volume.ends_with(&pod, container);
}

/// With its flags and its label, and on a kernel that gives no copy of a mount (before Linux 5.2).
#[test]
fn what_is_put_back_is_as_it_was() {
    needs!(pods, seams, tracer);
    let old: &[i64] = &[nix::libc::SYS_open_tree, nix::libc::SYS_move_mount];
    for (access, without) in [("ro", &[][..]), ("rw", &[]), ("ro", old), ("rw", old)] {
        if !without.is_empty() && !CAN_FORBID {
            continue;
        }
        let node = Node::new();
        let pod = Pod::new(Naming::Systemd);
        let volume = Volume::create(&node, "ext4", "64M");
        volume.bring();
        let folder = volume.pod(pod.uid());
        make_folder(&folder);
        node.must(volume.publish_as(pod.uid(), access));
        let before = only_mount_at(&folder);
        assert_eq!(before.is_read_only(), access == "ro");
        let mut container = pod.container_with(&folder);
        let held = node.base().join("held");
        let mut command = node.command(volume.unpublish(pod.uid()));
        command.env("INCLOUD_DISK_SEAM", format!("unmount.guarded=hold:{}", held.display()));
        let told = std::thread::scope(|scope| {
            scope.spawn(|| {
                eventually("the guard has looked", || held.exists());
                container.must(&Order::Unmount { place: "/data".into() });
                fs::remove_file(&held).unwrap();
            });
            let fate = Fate { without, ..Fate::default() };
            tracer::run(command, fate).unwrap().text
        });
        has(&told, &["Failure", "that is put back"]);
        let after = only_mount_at(&folder);
        assert_eq!(
            (after.number, &after.root, &after.source, &after.options),
            (before.number, &before.root, &before.source, &before.options),
            "{access} {without:?}"
        );
        volume.ends_with(&pod, container);
    }
}

/// A call that is killed right after the unmount has let go: it is remembered.
#[test]
fn a_call_that_is_killed_has_remembered_it() {
    needs!(pods, seams);
    for step in ["unmount.guarded", "unmount.one"] {
        let Scene { node, volume, pod, mut container } = scene().start();
        let mut command = node.command(volume.unpublish(pod.uid()));
        command.env("INCLOUD_DISK_SEAM", format!("{step}=kill"));
        let (mut call, _output) = spawn(command);
        call.wait().unwrap();
        assert!(let_goes(&volume, &pod)["at"].is_u64(), "{step}: {}", volume.record());
        is_guarded(&volume, &pod, &mut container);
        node.must(volume.unpublish(pod.uid()));
        assert_eq!(layers_at(&volume.pod(pod.uid())), 0);
        fs::remove_dir(Path::new(&volume.pod(pod.uid()))).unwrap();
        is_guarded(&volume, &pod, &mut container);
        ends(&volume, container);
        nothing_is_left(&node, &[&volume]);
    }
}

/// A process that calls, and has ended afterwards, as a kubelet that was restarted.
#[track_caller]
pub fn by_another(node: &Node, call: &crate::volume::Call) {
    let direct = node.command(call);
    let mut command = Command::new("sh");
    // The shell stays the caller: it does something afterwards.
    command.args(["-c", "\"$@\" && :", "kubelet"]).arg(direct.get_program());
    command.args(direct.get_args()).stdin(Stdio::null());
    for (key, value) in direct.get_envs() {
        command.env(key, value.unwrap());
    }
    let said = output_of(&mut command);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("Success"), "{said}");
}

/// A kubelet, for those who look which one runs here.
fn kubelet(node: &Node, by_controller: bool) -> Child {
    let flag = format!("--enable-controller-attach-detach={by_controller}");
    let root = format!("--root-dir={}", node.kubelet_root().display());
    let mut command = Command::new("/bin/sh");
    command.arg0("kubelet").args(["-c", "read end", "kubelet", &flag, &root]);
    start(command.stdin(Stdio::piped()))
}

/// kubelet let go, was restarted, and does not know the volume any more; then the pod ends.
#[test]
fn what_kubelet_let_go_of_and_forgot_is_taken_down_by_the_timer() {
    needs!(pods);
    for by_controller in [false, true] {
        let Scene { node, volume, pod, mut container } = scene().start();
        let heal = || node.verb(&["heal"]).unwrap();
        let stays = |what: &str| {
            assert_eq!(heal(), "", "{what}");
            assert_eq!(layers_at(&volume.global()), 1, "{what}");
        };
        let_go(&volume, &pod);
        by_another(&node, &volume.unpublish(pod.uid()));
        let mut kubelet = kubelet(&node, by_controller);
        stays("the pod runs");
        container.must_write_on(5);
        // A later call by one that lives.
        assert_eq!(node.call(volume.unstage()).json["status"], "Failure");
        container.die();
        stays("who named it last lives");
        by_another(&node, &volume.stage());
        // kubelet finds a folder of another pod, and takes that down itself.
        let other = Pod::new(Naming::Cgroupfs);
        make_folder(&volume.pod(other.uid()));
        by_another(&node, &volume.publish(other.uid()));
        stays("another pod has its folder");
        by_another(&node, &volume.unpublish(other.uid()));
        fs::remove_dir(volume.pod(other.uid())).unwrap();
        let status = node.verb(&["status"]).unwrap();
        has(&status, &["LET-GO", "although shop/orders-0 has ended", "$ disk heal"]);
        assert_eq!(node.verb(&["heal", "--dry-run"]).unwrap().lines().count(), 1);
        assert_eq!(layers_at(&volume.global()), 1, "a plan changes nothing");
        kubelet.kill().unwrap();
        kubelet.wait().unwrap();
        stays("no kubelet runs: it may know the volume when it does");
        let mut kubelet = self::kubelet(&node, by_controller);
        let said = heal();
        let what =
            if by_controller { "unmounted: kubelet" } else { "unmounted and detached: kubelet" };
        has(&said, &[&volume.id, what, "does not know it any more"]);
        assert_eq!(layers_at(&volume.global()), 0);
        assert_eq!(node.letter(&volume.id).is_some(), by_controller);
        assert_eq!(heal(), "", "once");
        if by_controller {
            node.must(volume.detach());
        }
        kubelet.kill().unwrap();
        kubelet.wait().unwrap();
        fs::remove_dir(volume.global()).unwrap();
        volume.must_be_sound();
        nothing_is_left(&node, &[&volume]);
    }
}

/// The cloud is silent when the timer comes: it goes on with the next.
#[test]
fn what_was_forgotten_is_detached_when_the_cloud_answers_again() {
    needs!(pods, seams);
    let Scene { node, volume, pod, container } = scene().start();
    let_go(&volume, &pod);
    by_another(&node, &volume.wait(""));
    by_another(&node, &volume.stage());
    container.die();
    let mut kubelet = kubelet(&node, false);
    let mut killed = node.command(["heal"]);
    killed.env("INCLOUD_DISK_SEAM", "forgotten.unmounted=kill");
    killed.status().unwrap();
    assert_eq!(layers_at(&volume.global()), 0);
    assert!(node.letter(&volume.id).is_some(), "attached still");
    let said = node.verb(&["heal"]).unwrap();
    has(&said, &["unmounted and detached"]);
    assert!(node.letter(&volume.id).is_none());
    kubelet.kill().unwrap();
    kubelet.wait().unwrap();
    fs::remove_dir(volume.global()).unwrap();
    nothing_is_left(&node, &[&volume]);
}
