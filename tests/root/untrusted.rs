//! An account without any privilege cannot hold up or mislead a node: each attack from an ordinary user, and from a
//! user namespace inside a pod.

mod figures;

use crate::checks::{eventually, layers_at, only_mount_at};
use crate::files;
use crate::support::pods::{Attack, Container, Naming, Order, Plan, Pod};
use crate::support::seccomp::{self, ANSWER, JUMP, LOAD, NUMBER, SECOND, number, step};
use crate::support::{Answer, Node, has};
use crate::volume::Volume;
use incloud_disk::host::census::{Budget, KernelCensus};
use incloud_disk::model::mount::disk_users::Answer as Look;
use incloud_disk::ports::host::Census;
use nix::errno::Errno;
use nix::libc;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Somebody whom no other test knows: what one user may take is limited, so tests would be in each other's way.
fn somebody() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(61_000);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A user, or a user namespace inside a pod that has nothing to do with the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    User,
    Pod,
}

const BOTH: [From; 2] = [From::User, From::Pod];

/// One attack at a time: what all users together may take of a call is limited.
static ALONE: Mutex<()> = Mutex::new(());

/// A node whose calls may take a few seconds, an idle volume on it, and the attack.
struct Scene {
    node: Node,
    volume: Volume,
    pod: Pod,
    attacker: Container,
    user: u32,
    /// Another pod of the node. Without any pod, a stuck process counts for all volumes, also for those of other tests:
    /// so it starts before the attacker, and ends after it.
    bystander: Container,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    fn of(from: From, attack: impl FnOnce(&Node) -> Attack) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let node = Node::new();
        node.configure(
            "[deadline]\ndetach = 8\nunmount = 8\nunmountdevice = 8\nattach = 20\nmount = 8\nmountdevice = 20\n",
        );
        let volume = Volume::create(&node, "ext4", "64M");
        volume.bring();
        files::write_synced(&volume.global().join("f"), b"x");
        for path in volume.global().ancestors().take_while(|path| path.starts_with(node.base())) {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let attack = attack(&node);
        let pod = Pod::new(Naming::Cgroupfs);
        let bystander = pod.neighbour(Naming::Cgroupfs).container().start();
        let user = somebody();
        let mut attacker = match from {
            From::User => Plan::outside().of_user(user).start(),
            From::Pod => pod.container().copying_all_mounts().start(),
        };
        if from == From::Pod {
            attacker.must(&Order::OwnUsers);
        }
        attacker.must(&Order::Attack(attack));
        Self { node, volume, pod, attacker, user, bystander, _alone: alone }
    }

    /// Kubelet's tear-down passes; what a copy of the volume in the attacker's namespace keeps ends with it.
    fn tear_down(self) {
        self.node.must(self.volume.unstage());
        self.node.must(self.volume.detach());
        self.attacker.die();
        self.bystander.die();
        drop(self.pod);
    }
}

/// A file in memory on which a user may mount, and the device for it.
fn stuck(count: u32) -> impl FnOnce(&Node) -> Attack {
    move |node| {
        let folder = node.base().join("fuse");
        fs::create_dir(&folder).unwrap();
        let tmpfs = nix::mount::MsFlags::empty();
        nix::mount::mount(Some("t"), &folder, Some("tmpfs"), tmpfs, Some("mode=0777")).unwrap();
        let (device, at) = (folder.join("device"), folder.join("file"));
        mknod(&device, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(10, 229)).unwrap();
        fs::set_permissions(&device, fs::Permissions::from_mode(0o666)).unwrap();
        fs::write(&at, b"").unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(0o666)).unwrap();
        for path in folder.ancestors().take_while(|path| path.starts_with(node.base())) {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Attack::Stick { device, at, count, cgroups: Vec::new() }
    }
}

/// Children of the attacker whose descriptor the kernel closes: from the moment on at which they hang their links
/// cannot be read.
fn stuck_children(attacker: &Container) -> Vec<u32> {
    let children = format!("/proc/{0}/task/{0}/children", attacker.pid());
    let children = fs::read_to_string(children).unwrap();
    let all = children.split_whitespace().map(|pid| pid.parse().unwrap());
    // The first one is the server.
    all.skip(1).collect()
}

fn until_they_hang(attacker: &Container) -> Vec<u32> {
    let stuck = stuck_children(attacker);
    eventually("they hang", || {
        stuck.iter().all(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.contains("State:\tS") || status.contains("State:\tD")
        })
    });
    std::thread::sleep(Duration::from_millis(300));
    stuck
}

/// What a verb prints, if it comes to an end in ten seconds.
#[track_caller]
fn printed(node: &Node, words: &[&str]) -> String {
    let mut command = Command::new("timeout");
    let inner = node.command(words);
    command.arg("-s").arg("KILL").arg("13").arg(inner.get_program()).args(inner.get_args());
    for (key, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    let output = crate::support::output_of(&mut command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), None, "{words:?} was killed: {text}");
    text
}

#[test]
fn a_thousand_stuck_processes_hold_up_no_tear_down() {
    needs!(fuse, pods);
    for from in BOTH {
        let scene = Scene::of(from, stuck(1000));
        until_they_hang(&scene.attacker);
        scene.tear_down();
    }
}

/// The disk was lost and is back: a heal moves the mounts of a pod beside stuck processes of others.
#[test]
fn stuck_processes_hold_up_no_heal() {
    needs!(fuse, pods);
    let scene = Scene::of(From::Pod, stuck(3));
    let (node, volume) = (&scene.node, &scene.volume);
    let victim = Pod::new(Naming::Systemd);
    let folder = volume.bring_to(victim.uid());
    let mut container = victim.container_with(&folder);
    until_they_hang(&scene.attacker);
    node.verb(&["local", "yank", &volume.id]).unwrap();
    node.must(volume.attach());
    assert_eq!(layers_at(&folder), 1);
    let number = only_mount_at(&folder).number.to_string();
    container.write("/data/f2", Duration::from_millis(10));
    let report = container.must_write_on(3);
    assert_eq!(report.file_systems, [number], "in the container too");
    container.die();
    node.must(volume.unpublish(victim.uid()));
    scene.tear_down();
}

/// What looks, and what a person does by force, come to an end, and name whom they could not look at.
#[test]
fn stuck_processes_are_named_with_what_ends_them() {
    needs!(fuse, pods);
    let scene = Scene::of(From::User, stuck(4));
    let stuck = until_they_hang(&scene.attacker);
    let (node, id) = (&scene.node, scene.volume.id.as_str());
    for words in [
        &["status"][..],
        &["holders", id],
        &["explain", id],
        &["doctor"],
        &["release", id, "--dry-run"],
        &["release", id, "--end-users", "--dry-run"],
    ] {
        let text = printed(node, words);
        assert!(!text.contains("not done"), "{words:?}: {text}");
        if words[0] == "holders" {
            has(&text, &[&format!("of user {}", scene.user), " more", "to end it:", "kill"]);
            assert!(stuck.iter().any(|pid| text.contains(&format!("process {pid} ("))), "{text}");
        }
    }
    let text = printed(node, &["release", id]);
    assert!(text.contains("no mount of"), "{text}");
    let text = printed(node, &["detach", "--force", id]);
    assert!(text.contains("detached"), "{text}");
    scene.attacker.die();
    scene.bystander.die();
}

/// The command that is named ends it: afterwards the process can be looked at.
#[test]
fn what_is_named_ends_a_stuck_process() {
    needs!(fuse, pods);
    for by_server in [true, false] {
        let scene = Scene::of(From::User, stuck(1));
        let stuck = until_they_hang(&scene.attacker);
        let (node, id) = (&scene.node, scene.volume.id.as_str());
        let connections = Path::new("/sys/fs/fuse/connections");
        if by_server {
            let children = format!("/proc/{0}/task/{0}/children", scene.attacker.pid());
            let server = fs::read_to_string(children).unwrap();
            let server = server.split_whitespace().next().unwrap().parse().unwrap();
            let server = nix::unistd::Pid::from_raw(server);
            nix::sys::signal::kill(server, nix::sys::signal::Signal::SIGKILL).unwrap();
        } else {
            let flags = nix::mount::MsFlags::empty();
            nix::mount::mount(Some("c"), connections, Some("fusectl"), flags, None::<&str>)
                .unwrap();
            let text = printed(node, &["holders", id]);
            let (_, command) = text.split_once("or echo 1 > ").unwrap_or_else(|| panic!("{text}"));
            let path = command.split([',', '\n', ' ']).next().unwrap();
            fs::write(path, "1").unwrap();
        }
        eventually("its links can be read", || {
            let read = Command::new("timeout")
                .args(["-s", "KILL", "0.3", "readlink"])
                .arg(format!("/proc/{}/ns/mnt", stuck[0]))
                .output();
            read.is_ok_and(|output| output.status.success())
                || !Path::new(&format!("/proc/{}", stuck[0])).exists()
        });
        let text = printed(node, &["holders", id]);
        assert!(!text.contains(&format!("of user {}", scene.user)), "{text}");
        scene.tear_down();
    }
}

/// A pod whose only process does not answer, and may have mounts that it does not list, counts for the volumes of
/// that pod until it ends; and so does one whose mounts show the volume.
#[test]
fn a_stuck_process_of_the_volumes_own_pod_counts() {
    needs!(fuse, pods);
    for has_it in [false, true] {
        let (node, volume) = Volume::on_a_node("ext4", "64M");
        let Attack::Stick { device, at, count, .. } = stuck(1)(&node) else { unreachable!() };
        let pod = Pod::new(Naming::Cgroupfs);
        let folder = volume.bring_to(pod.uid());
        let mut outside = Plan::outside().copying_all_mounts().start();
        if !has_it {
            for place in [folder, volume.global()] {
                outside.must(&Order::Unmount { place });
            }
        }
        let cgroup = format!("kubepods/burstable/pod{}/cgroup.procs", pod.uid());
        let cgroups = vec![pod.cgroup_roots()[0].join(cgroup)];
        outside.must(&Order::Attack(Attack::Stick { device, at, count, cgroups }));
        let stuck = until_they_hang(&outside);
        let call = if has_it { volume.unstage() } else { volume.unpublish(pod.uid()) };
        let message = node.fails(call);
        has(&message, &[pod.uid()]);
        assert!(has_it || message.contains(&format!("kill {}", stuck[0])), "{message}");
        outside.die();
        eventually("it has ended", || pod.is_empty());
        node.must(volume.unpublish(pod.uid()));
        node.must(volume.unstage());
        node.must(volume.detach());
    }
}

/// Where the kernel cannot be asked whether the disk is free, a process that cannot be examined may have it.
#[test]
fn where_the_disk_cannot_be_opened_a_stuck_process_may_have_it() {
    needs!(fuse, pods);
    let scene = Scene::of(From::User, stuck(1));
    until_they_hang(&scene.attacker);
    let covered = crate::exclusive_open::Covered::without_devices(&scene.volume.letter());
    let message = scene.node.fails(scene.volume.unstage());
    has(&message, &["cannot be examined", &format!("of user {}", scene.user), "kill"]);
    drop(covered);
    scene.tear_down();
}

/// What a user has in great numbers is not paid from the time for the machine and its pods, which is short here.
#[test]
fn floods_of_a_user_hold_up_no_tear_down() {
    needs!(pods);
    for (attack, looks) in [
        (Attack::Processes { count: 12_000 }, 4),
        (Attack::Namespaces { count: 6000, mounts: 1 }, 20),
    ] {
        let scene = Scene::of(From::User, |_| attack);
        let number = only_mount_at(&scene.volume.global()).number;
        let budget = Budget { system: Duration::from_secs(1), users: Duration::from_millis(600) };
        let census = KernelCensus::default().within(budget, &scene.node.own().join("run"));
        for _ in 0..looks {
            match census.namespaces_with(&[number]) {
                Look::Told(uses) => assert!(uses.hidden(|_| true).is_none(), "{uses:?}"),
                Look::CannotTell(why) => panic!("{why}"),
            }
        }
        scene.tear_down();
    }
}

/// Whoever keeps the volume is named all the same.
#[test]
fn who_keeps_a_volume_is_named_beside_descriptors_by_the_million() {
    needs!(pods);
    let scene =
        Scene::of(From::User, |_| Attack::Descriptors { processes: 60, each: 20_000, of: None });
    let mut holder = Plan::outside().start();
    holder.must(&Order::LetGo);
    let (node, volume) = (&scene.node, &scene.volume);
    let held = fs::File::open(volume.global().join("f")).unwrap();
    let message = node.fails(volume.unstage());
    has(&message, &[&format!("{} (", std::process::id())]);
    drop(held);
    holder.die();
    scene.tear_down();
}

/// What the kernel shows without naming it: a file on its way through a socket, or one that a ring has.
#[test]
fn files_without_a_descriptor_are_named() {
    needs!(pods);
    for is_ring in [false, true] {
        let scene = Scene::of(From::User, |_| Attack::LockNamespace);
        let (node, volume) = (&scene.node, &scene.volume);
        let mut holder = Plan::outside().of_user(somebody()).start();
        let file = volume.global().join("f");
        let attack = if is_ring { Attack::Registered(file) } else { Attack::InFlight(file) };
        holder.must(&Order::Attack(attack));
        let message = node.fails(volume.unstage());
        has(
            &message,
            &[
                &format!("{} (", holder.pid()),
                "may be of this volume",
                &format!("kill {}", holder.pid()),
            ],
        );
        // Whether it has one of this volume is not certain: it is not ended with those that have.
        let ended = node.verb(&["release", &volume.id, "--end-users"]).unwrap();
        assert!(!ended.contains(&holder.pid().to_string()), "{ended}");
        holder.die();
        scene.tear_down();
    }
}

/// Linux before 6.12, which has no list of mount namespaces (`NS_MNT_GET_NEXT` and its like).
#[allow(unsafe_code)]
fn without_the_list(mut command: Command) -> Command {
    let refused = libc::SECCOMP_RET_ERRNO | (Errno::ENOTTY as i32).unsigned_abs();
    let filter = [
        step(LOAD, NUMBER, 0, 0),
        step(JUMP | libc::BPF_JEQ, number(libc::SYS_ioctl), 1, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(LOAD, SECOND, 0, 0),
        step(JUMP | libc::BPF_JEQ, 0x8010_b70b, 0, 1),
        step(ANSWER, refused, 0, 0),
        step(JUMP | libc::BPF_JEQ, 0x8010_b70c, 0, 1),
        step(ANSWER, refused, 0, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    // SAFETY: between fork and exec one system call is made, and no memory taken.
    unsafe { command.pre_exec(move || seccomp::install(&filter).map_err(Into::into)) };
    command
}

/// A path of another namespace is not opened before it is known to be a namespace, nor below another root.
#[test]
fn what_a_user_puts_in_the_place_of_a_namespace_is_not_opened() {
    needs!(pods);
    for from in BOTH {
        for is_link in [false, true] {
            let watched = tempfile::tempdir().unwrap();
            let file: PathBuf = watched.path().join("roots");
            fs::write(&file, b"").unwrap();
            let link = is_link.then(|| file.clone());
            let scene = Scene::of(from, |_| Attack::Lure { link });
            let flags = nix::sys::inotify::InitFlags::IN_NONBLOCK;
            let watch = nix::sys::inotify::Inotify::init(flags).unwrap();
            watch.add_watch(&file, nix::sys::inotify::AddWatchFlags::IN_OPEN).unwrap();
            let (node, volume) = (&scene.node, &scene.volume);
            for call in [volume.unstage(), volume.detach()] {
                let answer = Answer::of(without_the_list(node.command(&call)));
                assert_eq!(answer.json["status"], "Success", "{}", answer.json);
            }
            assert!(watch.read_events().is_err(), "it was opened");
            scene.attacker.die();
            scene.bystander.die();
        }
    }
}

/// The kernel has no memory for a line of such a table: that is the table's doing, and no lack that a later look
/// finds over. Where the caller may take only so much memory, an ordinary user's table is enough.
#[test]
fn a_mount_table_that_the_kernel_cannot_tell_holds_up_no_tear_down() {
    needs!(pods);
    let scene = Scene::of(From::User, |_| Attack::LongestLine { levels: 95_000, parts: 60 });
    let (node, volume) = (&scene.node, &scene.volume);
    let pod = Pod::new(Naming::Systemd);
    let folder = volume.bring_to(pod.uid());
    let container = pod.container_with(&folder);
    if let Some(answer) = with_little_memory(node, &volume.unpublish(pod.uid())) {
        assert_eq!(answer.json["status"], "Success", "{}", answer.text);
        node.must(volume.publish(pod.uid()));
    }
    node.must(volume.unpublish(pod.uid()));
    container.die();
    scene.tear_down();
}

/// The answer to a call that may take 256 MiB, where memory can be limited.
fn with_little_memory(node: &Node, words: &[String]) -> Option<Answer> {
    let controller = Path::new("/sys/fs/cgroup/memory");
    if !controller.is_dir() {
        return None;
    }
    let group = controller.join(format!("incloud-disk-test-{}-memory", std::process::id()));
    fs::create_dir(&group).unwrap();
    fs::write(group.join("memory.limit_in_bytes"), "256M").unwrap();
    let list = group.join("cgroup.procs");
    let inner = node.command(words);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(&list);
    command.arg(inner.get_program()).args(inner.get_args());
    for (key, value) in inner.get_envs() {
        command.env(key, value.unwrap_or_default());
    }
    let answer = Answer::of(command);
    eventually("the group is empty", || fs::remove_dir(&group).is_ok());
    Some(answer)
}

#[test]
fn a_mount_table_that_the_kernel_cannot_tell_holds_up_no_heal() {
    needs!(pods);
    let scene = Scene::of(From::Pod, |_| Attack::LongestLine { levels: 95_000, parts: 60 });
    let (node, volume) = (&scene.node, &scene.volume);
    // On a slow machine the kernel takes seconds to find out that it cannot show such a line.
    let calls = ["detach", "unmount", "unmountdevice", "attach", "mount", "mountdevice"];
    let longer = calls.map(|call| format!("{call} = 40\n")).concat();
    node.configure(&format!("[deadline]\n{longer}"));
    let victim = Pod::new(Naming::Systemd);
    let folder = volume.bring_to(victim.uid());
    let container = victim.container_with(&folder);
    node.verb(&["local", "yank", &volume.id]).unwrap();
    node.must(volume.attach());
    container.die();
    node.must(volume.unpublish(victim.uid()));
    scene.tear_down();
}

/// An error that a user's file system answers is none of the machine's.
#[test]
fn a_path_that_answers_with_an_error_holds_up_no_tear_down() {
    needs!(fuse, pods);
    let scene = Scene::of(From::User, |node| {
        let Attack::Stick { device, .. } = stuck(0)(node) else { unreachable!() };
        Attack::FailingPath { device }
    });
    let (node, volume) = (&scene.node, &scene.volume);
    for call in [volume.unstage(), volume.detach()] {
        let answer = Answer::of(without_the_list(node.command(&call)));
        assert_eq!(answer.json["status"], "Success", "{}", answer.json);
    }
    scene.attacker.die();
    scene.bystander.die();
}

/// Looks at files ask no server.
#[test]
fn a_file_whose_server_does_not_answer_holds_up_no_look() {
    needs!(fuse, pods);
    let scene = Scene::of(From::User, |node| {
        let Attack::Stick { device, .. } = stuck(0)(node) else { unreachable!() };
        Attack::HangingFile { device }
    });
    let text = printed(&scene.node, &["holders", &scene.volume.id]);
    assert!(!text.contains("does not answer"), "{text}");
    scene.tear_down();
}

#[test]
fn a_user_with_many_copies_of_a_volume_is_named() {
    needs!(pods);
    let scene = Scene::of(From::User, |_| Attack::LockNamespace);
    for count in [100, 8000] {
        let mut copier = Plan::outside().of_user(somebody()).start();
        let of = scene.volume.global();
        copier.must(&Order::Attack(Attack::Copies { of, count }));
        let message = scene.node.fails(scene.volume.unstage());
        has(&message, &[&format!("{} (", copier.pid())]);
        copier.die();
    }
    scene.tear_down();
}

/// A volume that a user's process keeps in use by an open file, beside a path that is too long for a link in `/proc`;
/// and that process.
fn kept_beside_a_long_path(is_program: bool) -> (Node, Volume, Container, u32) {
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    let file = volume.global().join("f");
    files::write_synced(&file, b"x");
    for path in file.ancestors().skip(1).take_while(|path| path.starts_with(node.base())) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut holder = Plan::outside().of_user(somebody()).start();
    holder.must(&Order::Attack(Attack::TooLongToName { file, is_program }));
    let pid = if is_program {
        let children = format!("/proc/{0}/task/{0}/children", holder.pid());
        holder.must(&Order::LetGo);
        fs::read_to_string(children).unwrap().trim().parse().unwrap()
    } else {
        holder.pid()
    };
    (node, volume, holder, pid)
}

/// A path that is too long for a link in `/proc` hides nothing else that the process has open, nor the process.
#[test]
fn a_path_that_is_too_long_hides_no_other_file() {
    needs!(pods);
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for is_program in [false, true] {
        let (node, volume, holder, pid) = kept_beside_a_long_path(is_program);
        let message = node.fails(volume.unstage());
        has(&message, &["in use", &format!("{pid} ("), "of user"]);
        let ended = node.verb(&["release", &volume.id, "--end-users"]).unwrap();
        has(&ended, &[&pid.to_string()]);
        node.must(volume.unstage());
        node.must(volume.detach());
        holder.die();
    }
}
