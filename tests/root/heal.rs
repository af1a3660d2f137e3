//! The second half of the incident: the disk is gone, comes back under another number, and running
//! containers go on without a restart.

use crate::adoption::forget;
use crate::checks::{
    eventually, layers_at, nothing_is_left, number_of, only_mount_at, table,
    the_dead_disk_is_let_go,
};
use crate::files;
use crate::holders::run;
use crate::scene::{Scene, scene};
pub use crate::scene::{goes_on, pull, still_fails};
use crate::support::disks::table_of;
use crate::support::pods::{Container, Naming, Order, Plan};
use crate::support::tracer::{self, CAN_FORBID, Fate};
use crate::support::{Answer, DISK, Node, loop_devices_below, output_of, spawn, with_files};
use crate::switch::kinds::{propagate, tmpfs};
use crate::switch::methods;
use crate::volume::{Volume, make_folder};
use incloud_disk::model::mount::mountinfo::MountTable;
use incloud_disk::model::mount::replacement::Method;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::MsFlags;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// kubelet's folders as they are on a real machine, where what is mounted in one comes to what follows it; answers
/// their root, which is to be unmounted.
pub fn folders_that_share(node: &Node) -> String {
    let root = node.kubelet_root().to_str().unwrap().to_owned();
    tmpfs(&root);
    propagate(&root, MsFlags::MS_SHARED);
    root
}

/// An attach whose heal goes by this method; where a step is named it is killed there, and comes again.
#[track_caller]
pub fn heal_by(volume: &Volume, method: Method, step: &str) {
    let node = &volume.node;
    let mut heal = node.command(volume.attach());
    heal.env("INCLOUD_DISK_SWITCH", method.to_string());
    if step.is_empty() {
        let answer = Answer::of(heal);
        assert_eq!(answer.json["status"], "Success", "{method}: {}", answer.json);
        return;
    }
    heal.env("INCLOUD_DISK_SEAM", format!("{step}=kill"));
    assert!(!output_of(&mut heal).status.success(), "it did not come to {step}");
    node.must(volume.attach());
}

/// It must not write anywhere.
#[track_caller]
fn writes_nothing(container: &mut Container) {
    let before = container.report().writes;
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(container.report().writes, before, "a write succeeded");
}

/// A folder on the volume to mount something on; it is on the disk when that is pulled.
pub fn with_a_folder(volume: &Path) -> PathBuf {
    let nested = volume.join("nested");
    std::fs::create_dir(&nested).unwrap();
    with_files(|| nix::unistd::syncfs(std::fs::File::open(volume).unwrap()).unwrap());
    nested
}

#[test]
fn an_attach_alone_heals_a_running_container() {
    needs!(pods);
    for fs_type in ["ext4", "xfs"] {
        let Scene { node, volume, pod, mut container } = scene().of(fs_type).start();
        let old = pull(&volume, &mut container);

        node.must(volume.attach());
        let new = volume.letter();
        assert_ne!(old, new);
        let number = number_of(&new);
        for place in [volume.global(), volume.pod(pod.uid())] {
            assert_eq!(only_mount_at(&place).number, number, "{}", place.display());
        }
        let report = goes_on(&mut container, 10);
        let is_new = |found: &String| *found == number.to_string();
        assert!(report.file_systems.iter().any(is_new), "{fs_type}: {:?}", report.file_systems);
        assert_eq!(report.file_systems.len(), 2, "{:?}", report.file_systems);
        let kept = files::read(container.sees("/data/kept")).unwrap();
        assert_eq!(kept, b"from before");
        the_dead_disk_is_let_go(&node);
        // kubelet's other calls find all well, and so does the guard.
        node.must(volume.wait(""));
        node.must(volume.stage());
        node.must(volume.publish(pod.uid()));
        node.fails(volume.unstage());
        let log = node.log();
        for words in [" healed ", "outcome=Switched", "when the disk was last seen"] {
            assert!(log.contains(words), "{words}: {log}");
        }
        assert!(!log.contains("an unknown moment"), "{log}");

        volume.ends_with(&pod, container);
        volume.must_be_sound();
    }
}

/// The run folder is a cache, and the state folder may be new.
#[test]
fn an_attach_heals_although_the_run_folder_was_wiped() {
    needs!(pods);
    for (fs_type, folders) in
        [("ext4", &["run"][..]), ("xfs", &["run"]), ("ext4", &["run", "state"])]
    {
        let Scene { node, volume, pod, mut container } = scene().of(fs_type).start();
        let old = pull(&volume, &mut container);
        for folder in folders {
            std::fs::remove_dir_all(node.own().join(folder)).unwrap();
        }
        node.must(volume.attach());
        let new = volume.letter();
        assert_ne!(old, new);
        for place in [volume.global(), volume.pod(pod.uid())] {
            assert_eq!(only_mount_at(&place).number, number_of(&new), "{folders:?}");
        }
        goes_on(&mut container, 10);
        the_dead_disk_is_let_go(&node);
        volume.take_away_with(&pod, container);
    }
}

/// The same without a consumer, and with heal.mode off, where nothing is touched.
#[test]
fn an_attach_heals_a_stage_alone_although_the_run_folder_was_wiped() {
    needs!(mounts);
    for is_off in [false, true] {
        let (node, volume) = Volume::on_a_node("ext4", "64M");
        volume.bring();
        let old = number_of(&volume.letter());
        node.verb(&["local", "yank", &volume.id]).unwrap();
        std::fs::remove_dir_all(node.own().join("run")).unwrap();
        node.configure(if is_off { "[heal]\nmode = \"off\"" } else { "" });
        node.must(volume.attach());
        let now = number_of(&volume.letter());
        assert_ne!(old, now);
        let expected = if is_off { old } else { now };
        assert_eq!(only_mount_at(&volume.global()).number, expected, "heal is off: {is_off}");
        node.configure("");
        node.must(volume.attach());
        assert_eq!(only_mount_at(&volume.global()).number, now);
        volume.take_away();
    }
}

#[test]
fn a_hundred_pulls_in_a_row_leave_nothing_behind() {
    needs!(pods);
    let rounds = std::env::var("HEAL_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10u32);
    let Scene { node, volume, pod, mut container } = scene().named(Naming::Cgroupfs).start();
    let mounts = table().mounts().len();
    for round in 0..rounds {
        pull(&volume, &mut container);
        node.must(volume.attach());
        goes_on(&mut container, 3);
        assert_eq!(table().mounts().len(), mounts, "round {round}");
        assert_eq!((layers_at(&volume.global()), layers_at(&volume.pod(pod.uid()))), (1, 1));
        let inside =
            std::fs::read_to_string(format!("/proc/{}/mountinfo", container.pid())).unwrap();
        assert_eq!(inside.lines().filter(|line| line.contains(" /data ")).count(), 1, "{inside}");
        the_dead_disk_is_let_go(&node);
        if round % 5 == 4 {
            container.die();
            container = pod.container_with(&volume.pod(pod.uid()));
            container.write("/data/log", Duration::from_millis(2));
        }
    }
    volume.ends_with(&pod, container);
    volume.must_be_sound();
}

/// With the guard off kubelet has taken down what it knows of; the container runs, and has the volume.
fn left_to_its_container() -> Scene {
    let scene = scene().configured("[guard]\nmode = \"off\"").start();
    scene.node.must(scene.volume.unpublish(scene.pod.uid()));
    scene.node.must(scene.volume.unstage());
    scene
}

/// The whole log of the incident: kubelet takes everything down, the detach included, and a minute
/// later it mounts the volume again. A detach forgets a volume, but not whom it leaves behind.
#[test]
fn a_container_is_remembered_over_a_detach() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } = left_to_its_container();
    let old = pull(&volume, &mut container);
    node.must(volume.detach());
    node.must(volume.attach());
    assert_ne!(old, volume.letter());
    goes_on(&mut container, 10);
    node.must(volume.wait(""));
    node.must(volume.stage());
    node.must(volume.publish(pod.uid()));

    // Detached when no container is left behind it is forgotten.
    volume.ends_with(&pod, container);
    volume.must_be_sound();
    assert!(!volume.record_path().exists());
}

/// The record is lost, and only the container has the volume. `status` sees its mount by the label, and the heal that it
/// names finds it so too.
#[test]
fn a_container_that_no_record_knows_is_healed_when_a_person_names_the_volume() {
    needs!(pods);
    let Scene { node, volume, pod: _pod, mut container } = left_to_its_container();
    pull(&volume, &mut container);
    forget(&node);
    node.must(volume.attach());
    still_fails(&mut container);
    // The timer does not look for it each minute.
    let _ = node.verb(&["heal"]);
    still_fails(&mut container);
    let status = node.verb(&["status"]).unwrap_or_else(|said| said);
    assert!(status.contains("stale") && status.contains("disk heal"), "{status}");
    let said = node.verb(&["heal", &volume.id]).unwrap();
    assert!(said.contains("switched     /data"), "{said}");
    goes_on(&mut container, 5);
    container.die();
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// A person in a container without the machine's processes, for instance: who else has the volume cannot be told there.
#[test]
fn a_person_who_cannot_see_others_heals_the_machines_own_mounts() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } =
        scene().configured("[heal]\nmode = \"off\"").start();
    pull(&volume, &mut container);
    node.must(volume.attach());
    still_fails(&mut container);
    node.configure("");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]).arg(DISK).args(["heal", &volume.id]);
    let output = output_of(command.env("INCLOUD_DISK_CONFIG", node.config_path()));
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(text.contains("cannot be told from here"), "{text}");
    let number = number_of(&volume.letter());
    for place in [volume.global(), volume.pod(pod.uid())] {
        assert_eq!(only_mount_at(&place).number, number, "{text}");
    }
    still_fails(&mut container);
    node.verb(&["heal", &volume.id]).unwrap();
    goes_on(&mut container, 5);
    volume.ends_with(&pod, container);
    volume.must_be_sound();
}

/// What was mounted is known although kubelet, with the guard off, has unmounted it.
#[test]
fn another_file_system_is_refused_after_an_unmount_too() {
    needs!(pods);
    let Scene { node, volume, pod: _pod, mut container } = left_to_its_container();
    pull(&volume, &mut container);
    node.must(volume.detach());
    run("mkfs.ext4", &["-q", "-F", volume.image().to_str().unwrap()]);
    node.must(volume.attach());
    assert!(node.log().contains("was mounted, "), "{}", node.log());
    writes_nothing(&mut container);
    container.die();
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// The machine's own mounts were lost, and kubelet asks to unmount what is not mounted: that says
/// nothing of the containers.
#[test]
fn a_container_is_remembered_although_nothing_is_mounted_here_any_more() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } = scene().start();
    pull(&volume, &mut container);
    for folder in [volume.pod(pod.uid()), volume.global()] {
        run("umount", &["-l", folder.to_str().unwrap()]);
    }
    node.must(volume.unstage());
    node.must(volume.attach());
    node.must(volume.stage());
    goes_on(&mut container, 5);
    // That mount joined the container's and was not counted: the next heal must not take its count
    // for another machine's.
    pull(&volume, &mut container);
    node.must(volume.attach());
    goes_on(&mut container, 5);
    volume.ends_with(&pod, container);
}

/// The heal that finds nothing to do after one that was killed does not know that disk, and its mounts outlive it
/// where the next heal is killed on its way.
#[test]
fn the_disk_of_a_heal_that_was_killed_at_its_end_is_known_later_on() {
    needs!(pods, seams);
    let Scene { node, volume, pod, mut container } = scene().start();
    for step in ["heal.namespace", "heal.own"] {
        node.configure("[heal]\nmode = \"off\"");
        pull(&volume, &mut container);
        node.must(volume.attach());
        node.configure("");
        let mut heal = node.command(["heal", &volume.id]);
        heal.env("INCLOUD_DISK_SEAM", format!("{step}=kill"));
        assert!(!output_of(&mut heal).status.success(), "{step}");
        let said = node.verb(&["heal", &volume.id]).unwrap();
        let is_all_done = step == "heal.namespace";
        assert_eq!(said.contains("no mount of it stands on a dead disk"), is_all_done, "{said}");
        goes_on(&mut container, 3);
    }
    volume.ends_with(&pod, container);
}

#[test]
fn what_a_process_holds_on_the_dead_disk_is_told() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } = scene().start();
    let mut holder = pod.container_with(&volume.pod(pod.uid()));
    holder.must(&Order::Open { path: "/data/kept".into() });
    pull(&volume, &mut container);
    node.must(volume.attach());
    goes_on(&mut container, 3);
    let log = node.log();
    let who = format!("{} (", holder.pid());
    let told = log.lines().find(|line| line.contains("on the dead disk until it is restarted"));
    assert!(told.is_some_and(|line| line.contains(&who) && line.contains("kept")), "{log}");
    // The file stays on the dead disk; opened anew it is on the new one.
    assert_eq!(loop_devices_below(&node.base()).len(), 2);
    holder.must(&Order::LetGo);
    the_dead_disk_is_let_go(&node);
    holder.die();
    volume.ends_with(&pod, container);
}

/// The real thing is in `switch::hangs`; here the process that lets go never comes back.
#[test]
fn a_dead_disk_that_the_kernel_does_not_let_go_of_is_told() {
    needs!(pods, seams);
    let Scene { node, volume, pod, mut container } = scene().start();
    pull(&volume, &mut container);
    let mut call = node.command(volume.attach());
    call.env("INCLOUD_DISK_KEEPER_HANGS", "1");
    let begin = std::time::Instant::now();
    assert_eq!(Answer::of(call).json["status"], "Success");
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    assert!(node.log().contains("does not let go of the dead disk"), "{}", node.log());
    goes_on(&mut container, 3);
    // That process could be killed.
    the_dead_disk_is_let_go(&node);
    volume.ends_with(&pod, container);
}

/// The method is chosen by what the kernel answers, and needs no call that it does not have.
#[test]
fn older_kernels_heal_by_the_calls_that_they_have() {
    use nix::libc::{
        SYS_close_range, SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_mount_setattr, SYS_move_mount,
        SYS_open_tree, SYS_openat2,
    };
    let test = "older_kernels_heal_by_the_calls_that_they_have";
    needs!(pods, seams, tracer);
    if !CAN_FORBID {
        crate::support::skip(test, "needs an x86_64");
        return;
    }
    // What came with Linux 5.12, with 5.6 and 5.9, and with 5.2.
    let flags: &[i64] = &[SYS_mount_setattr];
    let walks: &[i64] = &[SYS_mount_setattr, SYS_openat2, SYS_close_range];
    let mounts: &[i64] = &[
        SYS_mount_setattr,
        SYS_openat2,
        SYS_close_range,
        SYS_open_tree,
        SYS_move_mount,
        SYS_fsopen,
        SYS_fsconfig,
        SYS_fsmount,
    ];
    let kernels = [(flags, "tuck-remounted"), (walks, "tuck-remounted"), (mounts, "tuck-by-mount")];
    for (without, method) in kernels {
        let Scene { node, volume, pod, mut container } = scene().start();
        pull(&volume, &mut container);
        let fate = Fate { without, ..Fate::default() };
        let traced = tracer::run(node.command(volume.attach()), fate).unwrap();
        assert!(traced.text.contains("Success"), "{}", traced.text);
        assert!(node.log().contains(&format!("method={method}")), "{method}: {}", node.log());
        let report = goes_on(&mut container, 3);
        let number = number_of(&volume.letter());
        assert!(report.file_systems.contains(&number.to_string()), "{method}: {report:?}");
        for place in [volume.global(), volume.pod(pod.uid())] {
            assert_eq!(only_mount_at(&place).number, number, "{method} {}", place.display());
        }
        container.die();
        for call in [volume.unpublish(pod.uid()), volume.unstage(), volume.detach()] {
            let traced = tracer::run(node.command(call), fate).unwrap();
            assert!(traced.text.contains("Success"), "{method}: {}", traced.text);
        }
        volume.must_be_sound();
        nothing_is_left(&node, &[&volume]);
    }
}

/// How many mounts of this machine share.
fn shared() -> usize {
    table().mounts().iter().filter(|mount| mount.propagation.contains("shared:")).count()
}

/// An attach whose heal goes by propagation, and is killed at this step.
#[track_caller]
fn tuck_killed_at(volume: &Volume, step: &str) {
    let mut heal = volume.node.command(volume.attach());
    heal.env("INCLOUD_DISK_SWITCH", "tuck").env("INCLOUD_DISK_SEAM", format!("{step}=kill"));
    let (mut child, _output) = spawn(heal);
    assert!(!child.wait().unwrap().success(), "it did not come to {step}");
}

/// Two volumes of one node, whose disks are back.
fn two_to_be_healed() -> [Scene; 2] {
    let node = Node::new();
    let mut scenes = ["orders-0", "mail-0"].map(|name| scene().on(&node).called(name).start());
    node.configure("[heal]\nmode = \"off\"");
    for Scene { volume, container, .. } in &mut scenes {
        pull(volume, container);
        node.must(volume.attach());
    }
    node.configure("");
    scenes
}

/// The first heal is held while the common parent is shared, and the second begins; it may get to its step, where it does
/// what this script says, or wait. Then the first one goes on. What both say.
fn heal_both(scenes: &[Scene; 2], step: &str, action: &str) -> [String; 2] {
    let node = &scenes[0].node;
    let held = |nth: usize| node.own().join(format!("held-{nth}"));
    let begin = |nth: usize, step: &str, action: &str| {
        let mut heal = node.command(["heal", &scenes[nth].volume.id]);
        heal.env("INCLOUD_DISK_SWITCH", "tuck");
        let action = action.replace("hold", &format!("hold:{}", held(nth).display()));
        heal.env("INCLOUD_DISK_SEAM", format!("{step}={action}"));
        spawn(heal)
    };
    let first = begin(0, "heal.tuck.shared", "hold");
    eventually("the parent is shared", || held(0).exists());
    let second = begin(1, step, action);
    let end = Instant::now() + Duration::from_secs(1);
    while !held(1).exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut nth = 0;
    [first, second].map(|(mut child, mut output)| {
        while child.try_wait().unwrap().is_none() {
            let _ = std::fs::remove_file(held(nth));
            std::thread::sleep(Duration::from_millis(2));
        }
        nth += 1;
        let mut told = String::new();
        output.read_to_string(&mut told).unwrap();
        told
    })
}

fn both_end(scenes: [Scene; 2]) {
    let node = scenes[0].node.clone();
    for Scene { volume, pod, mut container, .. } in scenes {
        goes_on(&mut container, 5);
        volume.take_away_with(&pod, container);
        volume.must_be_sound();
    }
    nothing_is_left(&node, &[]);
}

#[test]
fn heals_of_two_volumes_at_once_replace_all_mounts_of_both() {
    needs!(pods, seams);
    if !methods().contains(&Method::Tuck) {
        return;
    }
    let scenes = two_to_be_healed();
    for told in heal_both(&scenes, "heal.tuck", "hold") {
        assert!(told.contains("switched") && !told.contains("skipped"), "{told}");
    }
    both_end(scenes);
}

/// What it will change is written down before: not by what another heal has changed for a moment.
#[test]
fn a_heal_that_is_killed_after_another_leaves_nothing_shared() {
    needs!(pods, seams);
    if !methods().contains(&Method::Tuck) {
        return;
    }
    let scenes = two_to_be_healed();
    let before = shared();
    let [told, killed] = heal_both(&scenes, "heal.tuck.shared", "kill");
    assert!(told.contains("switched") && killed.is_empty(), "{told}{killed}");
    assert!(shared() > before, "the second one was killed with a shared parent");
    heal_by(&scenes[1].volume, Method::Tuck, "");
    assert_eq!(shared(), before);
    both_end(scenes);
}

/// Who lives in a namespace can open it, and lock it as a heal does.
#[test]
fn a_heal_does_not_wait_for_ever_for_its_turn_in_a_namespace() {
    needs!(pods, seams);
    if !methods().contains(&Method::Tuck) {
        return;
    }
    let mut scene = scene().start();
    let namespace = format!("/proc/{}/ns/mnt", scene.container.pid());
    let namespace = std::fs::File::open(namespace).unwrap();
    let kept = Flock::lock(namespace, FlockArg::LockExclusive).unwrap();
    pull(&scene.volume, &mut scene.container);
    heal_by(&scene.volume, Method::Tuck, "");
    goes_on(&mut scene.container, 3);
    drop(kept);
    scene.ends();
}

/// No heal may ever come again: an unmount puts right what a killed one left, and also one that is
/// refused.
#[test]
fn an_unmount_puts_right_what_a_killed_heal_left() {
    needs!(pods, seams);
    if !methods().contains(&Method::Tuck) {
        return;
    }
    let Scene { node, volume, pod, mut container } = scene().start();
    pull(&volume, &mut container);
    let before = shared();
    for step in ["heal.intended", "heal.tuck.shared"] {
        tuck_killed_at(&volume, step);
        assert_ne!(volume.record()["switching"], serde_json::Value::Null, "{step}");
        assert_eq!(shared() > before, step == "heal.tuck.shared");
        node.fails(volume.unstage());
        assert_eq!(shared(), before, "{step}");
        assert_eq!(volume.record()["switching"], serde_json::Value::Null, "{step}");
    }
    node.must(volume.wait(""));
    goes_on(&mut container, 3);
    volume.ends_with(&pod, container);
}

/// What is mounted from the disk just then is no mount of this driver's, and has written to it.
#[test]
fn a_disk_that_came_back_and_was_mounted_by_hand_is_not_put_under_running_programs() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } = scene().start();
    pull(&volume, &mut container);
    node.configure("[heal]\nmode = \"off\"");
    node.must(volume.attach());
    node.configure("");
    let by_hand = node.base().join("by-hand");
    make_folder(&by_hand);
    run("mount", &[&format!("/dev/{}", volume.letter()), by_hand.to_str().unwrap()]);
    let error = node.verb(&["heal", &volume.id]).unwrap_err();
    assert!(error.contains("it was mounted elsewhere since"), "{error}");
    still_fails(&mut container);
    run("umount", &[by_hand.to_str().unwrap()]);
    volume.ends_with(&pod, container);
}

/// Where nothing may be healed any more no call need come, and the timer heals nothing.
#[test]
fn the_timer_puts_right_what_a_killed_heal_left_where_nothing_is_healed_any_more() {
    needs!(pods, seams);
    if !methods().contains(&Method::Tuck) {
        return;
    }
    let Scene { node, volume, pod, mut container } = scene().start();
    pull(&volume, &mut container);
    let before = shared();
    tuck_killed_at(&volume, "heal.tuck.shared");
    assert!(shared() > before);
    node.configure("[heal]\nmode = \"off\"");
    // A child of the killed one may have the volume's lock for a moment; the timer comes again.
    eventually("what it left is put right", || {
        node.verb(&["heal"]).unwrap();
        shared() == before
    });
    still_fails(&mut container);
    node.configure("");
    node.must(volume.wait(""));
    goes_on(&mut container, 3);
    volume.ends_with(&pod, container);
}

/// kubelet's folders are shared on a real machine: a mount in one of the volume's folders comes to
/// the others, and to containers that asked for it (`HostToContainer`); after a heal too.
#[test]
fn folders_that_share_and_containers_that_follow_go_on_to() {
    needs!(pods, seams);
    for method in methods().into_iter().filter(|method| *method != Method::TuckByMount) {
        let node = Node::new();
        let root = folders_that_share(&node);
        let Scene { volume, pod, mut container, .. } = scene().on(&node).start();
        let ours = volume.pod(pod.uid());
        with_a_folder(&ours);
        let follower = Plan::outside().copying_all_mounts().following_our_mounts().start();
        let goes_along = |when: &str| {
            let nested = ours.join("nested");
            tmpfs(nested.to_str().unwrap());
            let places = |table: &MountTable| {
                let all = [&ours, &volume.global()].map(|place| place.join("nested"));
                all.map(|place| table.at(&place).count())
            };
            assert_eq!(places(&table()), [1, 1], "{method} {when}");
            assert_eq!(places(&table_of(follower.pid())), [1, 1], "{method} {when}");
            nix::mount::umount2(&nested, nix::mount::MntFlags::empty()).unwrap();
            assert_eq!(places(&table_of(follower.pid())), [0, 0], "{method} {when}");
        };
        goes_along("before");
        pull(&volume, &mut container);
        heal_by(&volume, method, "");
        goes_on(&mut container, 3);
        goes_along("after");
        follower.die();
        volume.take_away_with(&pod, container);
        nix::mount::umount2(root.as_str(), nix::mount::MntFlags::empty()).unwrap();
        nothing_is_left(&node, &[&volume]);
    }
}

/// As on kernels before Linux 4.11.
#[test]
fn without_a_way_into_containers_the_machine_is_healed_and_the_rest_is_said() {
    needs!(pods, seams);
    let Scene { node, volume, pod, mut container } = scene().start();
    pull(&volume, &mut container);
    for call in [volume.attach(), volume.wait("")] {
        let mut command = node.command(call);
        command.env("INCLOUD_DISK_SWITCH", "stack");
        assert_eq!(Answer::of(command).json["status"], "Success");
    }
    let log = node.log();
    assert!(log.contains("no way to replace this mount inside a container"), "{log}");
    assert!(log.contains("still on the dead disk") && log.contains("/data"), "{log}");
    writes_nothing(&mut container);
    // Restarted, it is on the new one.
    container.die();
    let mut container = pod.container_with(&volume.pod(pod.uid()));
    container.write("/data/log", Duration::from_millis(2));
    container.must_write_on(5);
    let number = number_of(&volume.letter()).to_string();
    assert_eq!(container.report().file_systems, [number]);
    assert_eq!(layers_at(&volume.global()), 2, "one of each, and no third one by the second call");
    volume.ends_with(&pod, container);
}

#[test]
fn another_file_system_on_the_disk_is_never_put_under_a_running_program() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } = scene().start();
    pull(&volume, &mut container);
    // While the disk was away another file system was made on it.
    run("mkfs.ext4", &["-q", "-F", volume.image().to_str().unwrap()]);
    node.must(volume.attach());
    let log = node.log();
    assert!(log.contains("not healed") && log.contains("was mounted"), "{log}");
    writes_nothing(&mut container);
    let message = node.fails(volume.wait(""));
    assert!(message.contains("which is not the volume's disk"), "{message}");
    assert!(message.contains("not healed") && message.contains("was mounted"), "{message}");
    container.die();
    node.must(volume.unpublish(pod.uid()));
    node.must(volume.unstage());
    node.must(volume.detach());
}

#[test]
fn a_file_system_that_was_mounted_elsewhere_meanwhile_is_refused() {
    needs!(pods);
    let Scene { node, volume, pod, mut container } = scene().start();
    pull(&volume, &mut container);
    // Another machine has it for a while.
    let other = node.base().join("elsewhere");
    make_folder(&other);
    let (image, other) = (volume.image(), other.to_str().unwrap().to_owned());
    run("mount", &["-o", "loop", image.to_str().unwrap(), &other]);
    run("umount", &[&other]);
    node.must(volume.attach());
    let log = node.log();
    assert!(log.contains("it was mounted elsewhere since"), "{log}");
    writes_nothing(&mut container);
    container.die();
    node.must(volume.unpublish(pod.uid()));
    node.must(volume.unstage());
    node.must(volume.detach());
}

#[test]
fn the_heal_can_be_told_to_report_and_to_be_off() {
    needs!(pods);
    for (mode, words) in [("report", "would be healed"), ("off", "")] {
        let Scene { node, volume, pod, mut container } =
            scene().configured(&format!("[heal]\nmode = {mode:?}")).named(Naming::Cgroupfs).start();
        pull(&volume, &mut container);
        node.must(volume.attach());
        assert!(node.log().contains(words), "{mode}: {}", node.log());
        writes_nothing(&mut container);
        // By a person, or by the next call, once it may.
        let told = node.verb(&["heal", &volume.pv, "--dry-run"]).unwrap();
        assert!(told.contains("would be healed") && told.contains("/data"), "{told}");
        if mode == "off" {
            let told = node.verb(&["heal", &volume.id]).unwrap();
            assert!(told.contains("switched") && told.contains("/data"), "{told}");
        } else {
            node.configure("");
            node.must(volume.wait(""));
        }
        goes_on(&mut container, 5);
        let told = node.verb(&["heal", &volume.id]).unwrap();
        assert!(told.contains("no mount of it stands on a dead disk"), "{told}");
        node.configure("");
        volume.ends_with(&pod, container);
    }
}
