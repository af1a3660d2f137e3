//! What users of the machine without any right, and tenants with none but their container's, can
//! do to a volume: nothing that a person could not end.

use crate::checks::{eventually, layers_at, nothing_is_left, only_mount_at, table};
use crate::files;
use crate::hanging::{BROKEN, Running, Scene, children_of};
use crate::holders::{must_end, with_descriptors};
use crate::support::Node;
use crate::support::pods::{Container, Naming, Order, Plan, Pod};
use crate::volume::{Volume, make_folder};
use nix::mount::{MsFlags, mount, umount2};
use nix::unistd::Pid;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// `nobody`
const USER: u32 = 65_534;

/// A folder that systemd gave the user, and in it one that he named.
fn delegated(root: &Path, name: &str) -> PathBuf {
    let given = root.join("user.slice/user-65534.slice/user@65534.service");
    let folder = given.join(name);
    fs::create_dir_all(&folder).unwrap();
    for path in folder.ancestors().take_while(|path| path.starts_with(&given)) {
        chown(path, Some(USER), Some(USER)).unwrap();
        chown(path.join("cgroup.procs"), Some(USER), Some(USER)).unwrap();
    }
    folder
}

/// A volume on which any user may read a file.
fn readable() -> (Node, Volume) {
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    files::write_synced(&volume.global().join("f"), b"x");
    // A machine whose folders any user may walk through.
    for path in volume.global().ancestors().take_while(|path| path.starts_with(node.base())) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    (node, volume)
}

/// Nothing keeps it: not these users, who are told to end only then.
fn is_taken_down<T>(node: &Node, volume: &Volume, users: T) {
    node.must(volume.unstage());
    node.must(volume.detach());
    drop(users);
    fs::remove_dir(volume.global()).unwrap();
    nothing_is_left(node, &[volume]);
}

fn pid_of(container: &Container) -> Pid {
    Pid::from_raw(i32::try_from(container.pid()).unwrap())
}

fn is_free(volume: &Volume) -> bool {
    let mut alone = OpenOptions::new();
    alone.read(true).custom_flags(nix::libc::O_EXCL);
    alone.open(format!("/dev/{}", volume.letter())).is_ok()
}

#[test]
fn a_cgroup_that_a_user_named_is_no_pod() {
    needs!(pods);
    let node = Node::new();
    let victim = Pod::new(Naming::Cgroupfs);
    let volume = Volume::create(&node, "ext4", "64M");
    volume.bring();
    make_folder(&volume.pod(victim.uid()));
    let escaped = victim.uid().replace('-', "_");
    for name in [
        format!("pod{}", victim.uid()),
        format!("kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{escaped}.slice"),
        format!("kubepods-pod{escaped}.slice:cri-containerd:{}", "0".repeat(64)),
    ] {
        node.must(volume.publish(victim.uid()));
        let folder = delegated(&victim.cgroup_roots()[0], &name);
        let mut user = Plan::outside().of_user(USER).start();
        fs::write(folder.join("cgroup.procs"), user.pid().to_string()).unwrap();
        user.must(&Order::Fork { count: 2 });
        node.must(volume.unpublish(victim.uid()));
        assert_eq!(layers_at(&volume.pod(victim.uid())), 0);
        user.die();
    }
    // The runtime gives a container with users of its own its folder below the pod's: that counts.
    node.must(volume.publish(victim.uid()));
    let container = victim.container_with(&volume.pod(victim.uid()));
    let folder = victim.cgroup_roots()[0].join("kubepods/burstable");
    let folder = folder.join(format!("pod{}", victim.uid())).join(container.id());
    chown(&folder, Some(USER), Some(USER)).unwrap();
    let inner = folder.join("inner");
    fs::create_dir(&inner).unwrap();
    chown(&inner, Some(USER), Some(USER)).unwrap();
    fs::write(inner.join("cgroup.procs"), container.pid().to_string()).unwrap();
    node.must(volume.unpublish(victim.uid()));
    let record = volume.record();
    assert!(record["let_go"]["folders"][victim.uid()]["at"].is_u64(), "its own: {record}");
    let message = node.fails(volume.unstage());
    assert!(message.contains(&format!("{} (", container.pid())), "{message}");
    volume.ends_with(&victim, container);
}

/// A user's false pod with a copy of the machine's mounts is no consumer of the device either.
#[test]
fn a_false_pod_of_a_consumers_name_does_not_keep_the_device() {
    needs!(pods);
    let node = Node::new();
    let victim = Pod::new(Naming::Systemd);
    let volume = Volume::create(&node, "ext4", "64M");
    volume.bring_to(victim.uid());
    let folder = delegated(&victim.cgroup_roots()[0], &format!("pod{}", victim.uid()));
    let user = Plan::outside().of_user(USER).start();
    fs::write(folder.join("cgroup.procs"), user.pid().to_string()).unwrap();
    node.must(volume.unpublish(victim.uid()));
    fs::remove_dir(volume.pod(victim.uid())).unwrap();
    node.must(volume.unstage());
    assert!(is_free(&volume));
    node.must(volume.detach());
    user.die();
    fs::remove_dir(volume.global()).unwrap();
    nothing_is_left(&node, &[&volume]);
}

/// The copies in a user's mount namespace are locked, and no unmount there takes them off.
#[test]
fn a_users_mount_namespace_does_not_keep_the_volume() {
    needs!(pods);
    for fs_type in ["ext4", "xfs"] {
        let node = Node::new();
        let pod = Pod::new(Naming::Cgroupfs);
        let volume = Volume::create(&node, fs_type, "320M");
        volume.bring_to(pod.uid());
        let mut users =
            Plan::start_all((0..20).map(|_| Plan::outside().of_user(USER)).collect::<Vec<_>>());
        // One who makes another namespace in his own, and one who covers the way to the folder.
        users[0].must(&Order::CopyMounts { slave: false });
        let way = node.base();
        users[1].must(&Order::Bind { from: "/proc".into(), to: way });
        let before = fs::metadata(volume.global().parent().unwrap()).unwrap();
        let container = pod.container_with(&volume.pod(pod.uid()));
        let message = node.fails(volume.unstage());
        assert!(message.contains("still run"), "a pod has it: {message}");
        container.die();
        node.must(volume.unpublish(pod.uid()));
        fs::remove_dir(volume.pod(pod.uid())).unwrap();
        node.must(volume.unstage());
        assert!(is_free(&volume), "no copy is left");
        let after = fs::metadata(volume.global()).unwrap();
        assert_eq!((after.mode() & 0o7777, after.uid()), (0o750, before.uid()));
        for user in &users {
            let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", user.pid())).unwrap();
            assert!(!mounts.contains(&volume.pv), "{mounts}");
        }
        node.must(volume.detach());
        drop(users);
        for above in [1, 2] {
            let folder = volume.global().ancestors().nth(above).unwrap().to_owned();
            assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "nothing beside the folder");
        }
        fs::remove_dir(volume.global()).unwrap();
        volume.must_be_sound();
        nothing_is_left(&node, &[&volume]);
    }
}

/// A tree of mounts that a descriptor alone keeps is in no table.
#[test]
fn a_tree_of_mounts_that_no_table_shows_does_not_keep_the_volume() {
    needs!(pods);
    for way in ["unmountdevice", "release"] {
        let (node, volume) = Volume::on_a_node("ext4", "64M");
        volume.bring();
        let mut user = Plan::outside().of_user(USER).start();
        user.must(&Order::HoldTree);
        let is_tree = |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to == Path::new("/"));
        let descriptors = fs::read_dir(format!("/proc/{}/fd", user.pid())).unwrap().flatten();
        let tree = descriptors.map(|one| one.path()).find(is_tree).expect("the tree");
        // As if it was handed to a process of this namespace.
        let tree = taken(user.pid(), tree.file_name().unwrap().to_str().unwrap().parse().unwrap());
        user.die();
        if way == "release" {
            node.verb(&["release", &volume.id]).unwrap();
        } else {
            node.must(volume.unstage());
            assert!(is_free(&volume));
        }
        node.must(volume.detach());
        drop(tree);
        fs::remove_dir(volume.global()).unwrap();
        nothing_is_left(&node, &[&volume]);
    }
}

/// A descriptor of another process's.
fn taken(pid: u32, descriptor: i32) -> std::os::fd::OwnedFd {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty()).unwrap()
}

/// Killed between the machine's own unmount and the end of the copies, or in the midst of it.
#[test]
fn an_end_of_copies_that_was_killed_is_finished_by_the_same_call() {
    needs!(pods, seams);
    for (step, user_stays) in
        [("unmount.own", true), ("mounts.renewing", true), ("mounts.renewing", false)]
    {
        let (node, volume) = Volume::on_a_node("ext4", "64M");
        volume.bring();
        let user = Plan::outside().of_user(USER).start();
        crate::crash::kill_at(&node, &volume.unstage(), step);
        let user = Some(user).filter(|_| user_stays);
        node.must(volume.unstage());
        assert!(is_free(&volume), "{step}");
        node.must(volume.detach());
        drop(user);
        fs::remove_dir(volume.global()).unwrap();
        let mounts = volume.global().parent().unwrap().to_owned();
        assert_eq!(fs::read_dir(&mounts).unwrap().count(), 0, "{step}");
        assert_eq!(fs::read_dir(mounts.parent().unwrap()).unwrap().count(), 1, "{step}");
        nothing_is_left(&node, &[&volume]);
    }
}

/// On most machines mounts are shared; and kubelet's folder may hold what was written into it while
/// nothing was mounted there.
#[test]
fn where_mounts_are_shared_and_where_the_folder_is_not_empty() {
    needs!(pods);
    let nothing = None::<&str>;
    for is_empty in [true, false] {
        let node = Node::new();
        mount(Some(&node.own()), &node.own(), nothing, MsFlags::MS_BIND, nothing).unwrap();
        mount(nothing, &node.own(), nothing, MsFlags::MS_SHARED, nothing).unwrap();
        let volume = Volume::create(&node, "ext4", "64M");
        make_folder(&volume.global());
        let stray = volume.global().join("stray");
        if !is_empty {
            files::write_synced(&stray, b"kept");
        }
        volume.bring();
        let mut user = Plan::outside().of_user(USER).start();
        // What is shared here would end there with ours.
        user.must(&Order::CopyMounts { slave: false });
        if is_empty {
            node.must(volume.unstage());
        } else {
            let message = node.fails(volume.unstage());
            assert!(message.contains("directory not empty"), "{message}");
            assert!(message.contains("disk release --end-users"), "{message}");
            assert_eq!(files::read(&stray).unwrap(), b"kept");
            node.verb(&["release", "--end-users", &volume.id]).unwrap();
            node.must(volume.unstage());
            fs::remove_file(&stray).unwrap();
        }
        assert!(is_free(&volume));
        node.must(volume.detach());
        drop(user);
        fs::remove_dir(volume.global()).unwrap();
        umount2(&node.own(), nix::mount::MntFlags::MNT_DETACH).unwrap();
        nothing_is_left(&node, &[&volume]);
    }
}

/// What a user has open he keeps open. Who it is is said, and a person can end it.
#[test]
fn a_users_open_file_is_named_with_what_ends_it() {
    needs!(pods);
    let (node, volume) = readable();
    let mut user = Plan::outside().of_user(USER).start();
    user.must(&Order::Open { path: volume.global().join("f") });
    let mut bystander = Plan::outside().in_our_namespace().start();
    bystander.must(&Order::Open { path: "/dev/null".into() });
    let mut failed = None;
    for call in [volume.unstage(), volume.detach()] {
        let answer = node.call(&call);
        if answer.json["status"] == "Failure" {
            failed.get_or_insert(answer.text);
        }
    }
    let message = failed.expect("it is in use");
    let who = format!("{} (", user.pid());
    assert!(message.contains(&who) && message.contains(&format!("of user {USER}")), "{message}");
    let way = format!("disk release --end-users {}", volume.id);
    assert!(message.contains(&way), "{message}");
    assert!(!is_free(&volume), "it is in use");

    let told = node.verb(&["release", "--end-users", &volume.id, "--dry-run"]).unwrap();
    assert!(told.contains(&who) && told.contains("Nothing was changed"), "{told}");
    assert!(user.sees("/").exists(), "it lives");
    let told = node.verb(&["release", "--end-users", &volume.pv]).unwrap();
    assert!(told.contains("ended") && told.contains(&who), "{told}");
    // Not the number alone: it may stand in an id.
    assert!(!told.contains(&format!("{} (", bystander.pid())), "{told}");
    eventually("the user's process has ended", || !user.sees("/").exists());
    bystander.must(&Order::LetGo);
    is_taken_down(&node, &volume, (user, bystander));
}

/// A process has a descriptor here while it is ended, and there may be more of them than a call may have.
#[test]
fn more_processes_of_users_than_we_may_have_descriptors_are_ended() {
    needs!(pods);
    let (node, volume) = readable();
    // Children end with their parent, and so are not told of if that is ended first.
    let users = [(); 3].map(|()| {
        let mut user = Plan::outside().of_user(USER).start();
        user.must(&Order::Open { path: volume.global().join("f") });
        user.must(&Order::Fork { count: 120 });
        user
    });
    let release = node.command(["release", "--end-users", &volume.id]);
    let output = with_descriptors(&release, 256).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    for user in &users {
        assert!(told.contains(&format!("ended {} (", user.pid())), "{}: {told}", user.pid());
    }
    is_taken_down(&node, &volume, users);
}

/// A user's process that has a file of the volume, and alone has a file system whose disk hangs.
struct SlowEnd {
    // What is dropped first answers again: the user's process waits for it.
    slow: Scene,
    user: Container,
    volume: Volume,
    node: Node,
}

impl SlowEnd {
    fn begin() -> Self {
        let (node, volume) = readable();
        let slow = Scene::with(&node, "ext4", "64M");
        node.must(slow.volume.stage());
        let mut user = Plan::outside().of_user(USER).start();
        user.must(&Order::Open { path: volume.global().join("f") });
        // From here on the user's namespace alone has it, with what is not written yet.
        fs::write(slow.volume.global().join("g"), vec![b'x'; 1 << 20]).unwrap();
        // Another test's look at the machine may hold it for a moment.
        eventually("it is unmounted", || {
            umount2(&slow.volume.global(), nix::mount::MntFlags::empty()).is_ok()
        });
        slow.disk.hang();
        Self { slow, user, volume, node }
    }

    /// The disk hangs no more, and the process has ended.
    fn ends(self) {
        let Self { slow, user, volume, node } = self;
        node.must(volume.unstage());
        node.must(volume.detach());
        drop(user);
        fs::remove_dir(volume.global()).unwrap();
        node.must(slow.volume.unstage());
        node.must(slow.volume.detach());
        umount2(&slow.volume.image(), nix::mount::MntFlags::MNT_DETACH).unwrap();
        fs::remove_dir(slow.volume.global()).unwrap();
        nothing_is_left(&node, &[&volume, &slow.volume]);
    }
}

/// What is ending shows no namespace, and no file, while the kernel still unmounts what it alone had.
#[test]
fn a_users_process_has_ended_when_the_kernel_has_taken_its_mounts() {
    needs!(pods, fuse);
    let scene = SlowEnd::begin();
    let words = ["release", "--end-users", &scene.volume.id];
    let mut release = Running::start(scene.node.command(words));
    eventually("the user's process is ending", || !scene.user.sees("/").exists());
    std::thread::sleep(std::time::Duration::from_millis(500));
    let is_waiting = release.child.try_wait().unwrap().is_none();
    scene.slow.disk.release();
    let answer = release.answer(BROKEN).expect("it ends");
    assert!(is_waiting, "it answered while the kernel unmounts: {}", answer.text);
    let who = format!("{} (", scene.user.pid());
    assert!(answer.text.contains("ended") && answer.text.contains(&who), "{}", answer.text);
    scene.ends();
}

/// A disk that hangs for as long as it likes keeps no person waiting so long.
#[test]
fn a_users_process_that_does_not_end_is_named_with_what_ends_it() {
    needs!(pods, fuse);
    let scene = SlowEnd::begin();
    let told = scene.node.verb(&["release", "--end-users", &scene.volume.id]).unwrap_err();
    let who = format!("still keep the volume: {} (", scene.user.pid());
    assert!(told.contains(&who) && told.contains("it was killed and ends when"), "{told}");
    scene.slow.disk.release();
    must_end(pid_of(&scene.user));
    scene.ends();
}

/// One that is traced stops in its end, with all that it has, until its tracer lets it go on.
#[test]
fn a_user_who_traces_what_is_to_end_keeps_nothing() {
    needs!(pods);
    let (node, volume) = readable();
    let mut user = Plan::outside().of_user(USER).start();
    user.must(&Order::Open { path: volume.global().join("f") });
    // More than are ended at once: the tracer has its turn all the same.
    user.must(&Order::Fork { count: 150 });
    let pids = children_of(pid_of(&user)).into_iter();
    let pids: Vec<_> = pids.map(|pid| pid.as_raw().cast_unsigned()).collect();
    assert_eq!(pids.len(), 151);
    let mut tracer = Plan::outside().in_our_namespace().start();
    tracer.must(&Order::StopAtTheirEnd { pids, user: USER });
    let told = node.verb(&["release", "--end-users", &volume.id]).unwrap();
    for one in [&user, &tracer] {
        assert!(told.contains(&format!("ended {} (", one.pid())), "{}: {told}", one.pid());
    }
    is_taken_down(&node, &volume, (user, tracer));
}

/// What is no ordinary user's is not ended, and named.
#[test]
fn a_tracer_of_roots_that_keeps_a_user_from_its_end_is_named() {
    needs!(pods);
    let (node, volume) = readable();
    let mut user = Plan::outside().of_user(USER).start();
    user.must(&Order::Open { path: volume.global().join("f") });
    let mut tracer = Plan::outside().in_our_namespace().start();
    tracer.must(&Order::StopAtTheirEnd { pids: vec![user.pid()], user: 0 });
    let told = node.verb(&["release", "--end-users", &volume.id]).unwrap_err();
    let way = format!("kill {}", tracer.pid());
    assert!(told.contains(&format!("{} (", user.pid())) && told.contains(&way), "{told}");
    tracer.die();
    must_end(pid_of(&user));
    is_taken_down(&node, &volume, user);
}

/// A name that any user may take first is no lock.
#[test]
fn a_socket_of_the_nodes_name_takes_no_label() {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};
    use std::os::fd::AsRawFd;
    needs!(mounts);
    let (_, volume) = Volume::on_a_node("xfs", "320M");
    let name = format!("incloud-disk/{}", volume.id);
    let socket =
        socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).unwrap()).unwrap();
    volume.bring();
    // Where the name was a lock, the mount came without its label.
    assert_eq!(Path::new(&only_mount_at(&volume.global()).source), volume.label());
    drop(socket);
    volume.ends();
}

/// Each call that ends takes the folders of the labelled nodes away, if they are empty.
#[test]
fn other_calls_that_end_take_no_label() {
    use std::sync::atomic::{AtomicBool, Ordering};
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    node.must(volume.attach());
    make_folder(&volume.global());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lock = &volume.label_and_lock()[0];
            let locks = lock.parent().unwrap();
            while !is_over.load(Ordering::Relaxed) {
                let _ = fs::remove_dir(locks);
                let _ = fs::remove_dir(locks.parent().unwrap());
            }
        });
        // And each that begins makes them, for root alone: tests beside this one have them too.
        scope.spawn(|| {
            let lock = &volume.label_and_lock()[0];
            let locks = lock.parent().unwrap();
            while !is_over.load(Ordering::Relaxed) {
                let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(locks);
            }
        });
        let sources: Vec<_> = (0..40)
            .map(|_| {
                node.call(volume.stage());
                let source = table().top_at(&volume.global()).map(|mount| mount.source.clone());
                node.call(volume.unstage());
                source.unwrap_or_default()
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        let label = volume.label();
        let others: Vec<_> = sources.iter().filter(|one| label != Path::new(one)).collect();
        assert!(others.is_empty(), "{} of {}: {others:?}", others.len(), sources.len());
    });
    volume.ends();
}

/// A lock that others may open they may hold: while a mount is made, all of them are root's.
#[test]
fn no_lock_can_be_opened_by_a_user() {
    needs!(mounts, seams);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    node.must(volume.attach());
    make_folder(&volume.global());
    let held = node.base().join("held");
    let mut command = node.command(volume.stage());
    command.env("INCLOUD_DISK_SEAM", format!("nodes.made=hold:{}", held.display()));
    let (mut call, output) = crate::support::spawn(command);
    eventually("the node is made", || held.exists());
    let mut locks = vec![volume.label_and_lock()[0].clone()];
    locks.push(node.own().join("run/locks").join(format!("{}.lock", volume.id)));
    for path in &locks {
        let found = fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!((found.uid(), found.mode() & 0o077), (0, 0), "{}", path.display());
        let folder = fs::metadata(path.parent().unwrap()).unwrap();
        assert_eq!((folder.uid(), folder.mode() & 0o077), (0, 0), "{}", path.display());
    }
    // A killed call leaves its files, and no lock.
    call.kill().unwrap();
    call.wait().unwrap();
    drop(output);
    fs::remove_file(&held).unwrap();
    node.must(volume.stage());
    assert_eq!(Path::new(&only_mount_at(&volume.global()).source), volume.label());
    volume.ends();
}

/// Any user may name a source: of a FUSE mount here, or of a tmpfs in a namespace of his own.
#[test]
fn a_label_of_a_users_making_says_nothing() {
    needs!(pods);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    let home = node.base().join("home");
    fs::create_dir(&home).unwrap();
    mount(Some(&volume.label()), &home, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    volume.bring();
    node.verb(&["heal", &volume.id]).unwrap();
    let status = node.verb(&["status", "--json"]).unwrap();
    assert!(!status.contains(home.to_str().unwrap()), "{status}");
    volume.take_away();
    umount2(&home, nix::mount::MntFlags::empty()).unwrap();
    nothing_is_left(&node, &[&volume]);
}
