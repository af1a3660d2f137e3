//! Heals that came half way, and tenants that would keep a volume dead.

use crate::checks::{number_of, only_mount_at, the_dead_disk_is_let_go};
use crate::crash::{interrupted_at, kill_at};
use crate::heal::{goes_on, pull};
use crate::holders::{run, with_descriptors};
use crate::scene::scene;
use crate::support::disks::{table_of, within};
use crate::support::pods::{Container, Order, Plan, Pod};
use crate::support::{Node, output_of, with_files};
use crate::switch::kinds::{propagate, tmpfs};
use crate::volume::Volume;
use incloud_disk::model::disk::device::DeviceNumber;
use nix::mount::{MsFlags, mount};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Every container writes on, and nothing of a dead disk is left.
#[track_caller]
fn all_go_on(volume: &Volume, running: &mut [(Pod, Container)], what: &str) {
    let number = number_of(&volume.letter());
    assert_eq!(only_mount_at(&volume.global()).number, number, "{what}");
    for (pod, container) in running {
        assert_eq!(only_mount_at(&volume.pod(pod.uid())).number, number, "{what}");
        let there = table_of(container.pid()).top_at(Path::new("/data")).unwrap().number;
        assert_eq!(there, number, "{what}: a container stands on the dead disk");
        goes_on(container, 3);
    }
    the_dead_disk_is_let_go(&volume.node);
}

fn take_down(volume: &Volume, running: Vec<(Pod, Container)>) {
    for (pod, container) in running {
        container.die();
        volume.node.must(volume.unpublish(pod.uid()));
    }
    volume.ends();
}

/// Lets the kernel note an error in the file system that is mounted.
fn note_an_error(volume: &Volume) {
    let path = format!("/sys/fs/ext4/{}/trigger_fs_error", volume.letter());
    fs::write(path, "from a test").unwrap();
}

#[test]
fn half_of_the_containers_are_switched_and_the_rest_follows() {
    needs!(pods, seams);
    let no_journal: &[&str] = &["mkfs.ext4", "-q", "-F", "-O", "^has_journal"];
    for (fs_type, mkfs, step) in [
        ("ext4", no_journal, "heal.own"),
        ("ext4", &[][..], "heal.namespace"),
        ("xfs", &[][..], "heal.detached"),
    ] {
        let (node, volume, mut running) = scene().of(fs_type).made_by(mkfs).start_in(3);
        pull(&volume, &mut running[0].1);
        kill_at(&node, &volume.attach(), step);
        if fs_type == "ext4" && mkfs.is_empty() {
            note_an_error(&volume);
        }
        node.must(volume.attach());
        all_go_on(&volume, &mut running, &format!("{fs_type} {mkfs:?} {step}"));
        take_down(&volume, running);
    }
}

/// The mounts of the machine are gone, so that only the containers tell that the disk is mounted.
#[test]
fn a_mount_in_a_container_alone_is_joined_too() {
    needs!(pods, seams);
    let no_journal = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal"];
    let (node, volume, mut running) = scene().made_by(&no_journal).start_in(3);
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
    needs!(pods, seams);
    let (node, volume, mut running) = scene().start_in(1);
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

/// A process has the disk open exclusively, as one that was killed has for a moment longer, and has closed it by the time
/// of the mount.
#[test]
fn a_disk_that_was_in_use_just_before_its_mount_was_not_mounted_elsewhere() {
    needs!(pods, seams);
    let (node, volume, mut running) = scene().start_in(1);
    let mut alone = Plan::outside().seeing(Path::new("/dev"), "/dev").start();
    for round in ["a heal after a mount", "a heal after a heal"] {
        node.configure("[heal]\nmode = \"off\"");
        pull(&volume, &mut running[0].1);
        node.must(volume.attach());
        node.configure("");
        alone.must(&Order::OpenAlone { path: format!("/dev/{}", volume.letter()).into() });
        let answer = interrupted_at(&node, volume.attach(), "mounts.mount", || {
            alone.must(&Order::LetGo);
        });
        assert_eq!(answer.json["status"], "Success", "{round}: {}", answer.text);
        all_go_on(&volume, &mut running, round);
    }
    alone.die();
    take_down(&volume, running);
}

/// A folder for mounts of tenants.
fn area_of(node: &Node) -> PathBuf {
    let area = node.base().join("area");
    fs::create_dir(&area).unwrap();
    area
}

/// A tenant with namespaces of his own and a copy of all mounts: what `unshare -Urm` gives any user.
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
    needs!(pods);
    let (node, volume, mut running) = scene().start_in(1);
    let area = area_of(&node);
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

/// More mounts than are replaced at once: what the second hundred changes is not known before the first one is done.
#[test]
fn what_each_hundred_of_mounts_changes_is_written_down_before_it() {
    needs!(pods, seams);
    let (node, volume, mut running) = scene().start_in(1);
    let area = area_of(&node);
    let tenant = tenant(&area);
    let folder = volume.pod(running[0].0.uid());
    for number in 0..150 {
        bind_at(tenant.pid(), &folder, &area.join(number.to_string()));
    }
    pull(&volume, &mut running[0].1);
    let told = node.base().join("steps");
    let mut attach = node.command(volume.attach());
    attach.env("INCLOUD_DISK_SEAM_LIST", &told);
    assert!(output_of(&mut attach).status.success());
    let text = fs::read_to_string(&told).unwrap();
    let steps: Vec<&str> = text.lines().collect();
    let first = steps.iter().position(|step| step.contains("heal.namespace")).unwrap();
    let last = steps.iter().rposition(|step| step.contains("heal.intended")).unwrap();
    assert!(last > first, "{steps:?}");
    let is_whole = volume.record()["switching"].is_null();
    assert!(is_whole, "the heal did not come to its end: {}", node.log());
    tenant.die();
    all_go_on(&volume, &mut running, "more than a hundred");
    take_down(&volume, running);
}

/// Control signs take six times their length in a record, which may not be longer than what is read again; and a tenant
/// may have as many namespaces as mounts.
#[test]
fn names_of_control_signs_hold_up_no_heal() {
    const MOUNTS: usize = 100;
    needs!(pods, seams);
    let (node, volume, mut running) = scene().start_in(1);
    let area = area_of(&node);
    let folder = volume.pod(running[0].0.uid());
    let long: PathBuf = std::iter::repeat_n("\u{1}".repeat(250), 15).collect();
    // Together they would write down more than all may.
    let tenants: Vec<_> = (0..5).map(|_| tenant(&area)).collect();
    for tenant in &tenants {
        within(tenant.pid(), || {
            for number in 0..MOUNTS {
                let to = area.join(&long).join(number.to_string());
                with_files(|| fs::create_dir_all(&to).unwrap());
                mount(Some(&folder), &to, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
            }
        });
    }
    // Beside their own they have copies of the machine's.
    let old = number_of(&volume.letter());
    let before: Vec<_> = tenants.iter().map(|tenant| count_on(tenant.pid(), old)).collect();
    assert!(before.iter().all(|count| *count > MOUNTS), "{before:?}");
    pull(&volume, &mut running[0].1);
    // Heals that come to none of them write down what they would have done, one after the other.
    let reaches_none =
        |command: &mut Command| output_of(command.env("INCLOUD_DISK_SEAM", "heal.reach=fail"));
    reaches_none(&mut node.command(volume.attach()));
    let number = number_of(&volume.letter());
    assert_eq!(only_mount_at(&volume.global()).number, number);
    let written = || fs::metadata(volume.boot_record_path()).unwrap().len();
    let mut length = 0;
    while written() > length {
        length = written();
        reaches_none(&mut node.command(["heal", &volume.id]));
    }
    println!("{length} bytes are written down");
    // The pod has room all the same.
    let _ = node.verb(&["heal"]);
    goes_on(&mut running[0].1, 3);
    let now = || tenants.iter().map(|tenant| count_on(tenant.pid(), number)).collect::<Vec<_>>();
    for round in 0..10 {
        println!("before round {round}: {:?}", now());
        if now() == before {
            break;
        }
        let _ = node.verb(&["heal"]);
    }
    assert_eq!(now(), before);
    for tenant in tenants {
        tenant.die();
    }
    all_go_on(&volume, &mut running, "names");
    take_down(&volume, running);
}

/// So many binds take the whole time of a call.
const BINDS: usize = 1800;

/// How many mounts of a namespace stand on this disk.
fn count_on(pid: u32, number: DeviceNumber) -> usize {
    table_of(pid).of(number).count()
}

/// The heal of a tenant takes as long as he likes. He is the only one whom that costs anything, and
/// with each heal a part of it is done.
#[test]
fn a_tenant_with_thousands_of_binds_holds_up_no_heal() {
    needs!(pods);
    let node = Node::new();
    node.configure("[deadline]\nattach = 12");
    // Before the pods: so his namespace is looked at before theirs, where nothing prevents it.
    let area = area_of(&node);
    let tenant = tenant(&area);
    let (_, volume, mut running) = scene().on(&node).start_in(3);
    let folder = volume.pod(running[0].0.uid());
    // It was not there yet when he copied the mounts: it is handed over.
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(rustix::fs::CWD, &folder, flags).unwrap();
    let first = area.join("0");
    within(tenant.pid(), || {
        with_files(|| fs::create_dir(&first).unwrap());
        let from = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&tree, "", rustix::fs::CWD, &first, from).unwrap();
    });
    for number in 1..BINDS {
        bind_at(tenant.pid(), &first, &area.join(number.to_string()));
    }
    drop(tree);
    let old = pull(&volume, &mut running[0].1);
    let begin = Instant::now();
    node.must(volume.attach());
    println!("the attach took {:?}", begin.elapsed());
    let number = number_of(&volume.letter());
    for place in running.iter().map(|(pod, _)| volume.pod(pod.uid())).chain([volume.global()]) {
        assert_eq!(only_mount_at(&place).number, number);
    }
    for (_, container) in &mut running {
        goes_on(container, 3);
    }
    // The timer goes on with the rest, and every time it gets further.
    let mut healed = count_on(tenant.pid(), number);
    assert!(healed > 0, "nothing of the tenant's is on {number} after {old}: {}", node.log());
    for round in 0..3 {
        let _ = node.verb(&["heal"]);
        let now = count_on(tenant.pid(), number);
        println!("after round {round}: {now}");
        assert!(now > healed || now == BINDS, "round {round}: {healed} and no more");
        healed = now;
    }
    tenant.die();
    all_go_on(&volume, &mut running, "a busy tenant");
    take_down(&volume, running);
}

/// Mounts that lie on each other thousands deep would take the heal's stack, and its record.
#[test]
fn mounts_that_lie_thousands_deep_cost_the_one_that_they_lie_on() {
    needs!(pods);
    let (node, volume, mut running) = scene().start_in(1);
    let area = area_of(&node);
    let folder = volume.pod(running[0].0.uid());
    with_files(|| {
        fs::create_dir(folder.join("sub")).unwrap();
        nix::unistd::syncfs(fs::File::open(&folder).unwrap()).unwrap();
    });
    let tenant = tenant(&area);
    bind_at(tenant.pid(), &folder, &area.join("plain"));
    bind_at(tenant.pid(), &folder, &area.join("deep"));
    within(tenant.pid(), || {
        let place = area.join("deep/sub");
        propagate(area.join("deep").to_str().unwrap(), MsFlags::MS_PRIVATE);
        for _ in 0..6000 {
            mount(Some("t"), &place, Some("tmpfs"), MsFlags::empty(), Some("size=4k")).unwrap();
        }
    });
    pull(&volume, &mut running[0].1);
    node.must(volume.attach());
    let number = number_of(&volume.letter());
    assert_eq!(only_mount_at(&volume.global()).number, number);
    goes_on(&mut running[0].1, 3);
    // By chance the deep one comes first, and on a busy machine takes all of the time.
    let is_healed = || {
        let there = table_of(tenant.pid());
        there.top_at(&area.join("plain")).unwrap().number == number
    };
    for _ in 0..20 {
        if is_healed() {
            break;
        }
        let _ = node.verb(&["heal"]);
    }
    assert!(is_healed(), "{}", node.log());
    tenant.die();
    all_go_on(&volume, &mut running, "deep mounts");
    take_down(&volume, running);
}

/// The path of a tenant's mount is another one each time that it is looked at.
#[test]
fn a_tenant_who_renames_the_way_to_his_mount_all_the_time_holds_up_no_heal() {
    needs!(pods);
    let node = Node::new();
    let area = node.base().join("area");
    let (one, other) = (area.join("one"), area.join("other"));
    fs::create_dir(&area).unwrap();
    let tenant = tenant(&area);
    let (_, volume, mut running) = scene().on(&node).start_in(2);
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(rustix::fs::CWD, volume.pod(running[0].0.uid()), flags).unwrap();
    within(tenant.pid(), || {
        with_files(|| fs::create_dir_all(one.join("inner")).unwrap());
        let from = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&tree, "", rustix::fs::CWD, one.join("inner"), from).unwrap();
    });
    drop(tree);
    let is_over = AtomicBool::new(false);
    let renames = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            within(tenant.pid(), || {
                while !is_over.load(Ordering::SeqCst) {
                    for (from, to) in [(&one, &other), (&other, &one)] {
                        let done = with_files(|| fs::rename(from, to));
                        renames.fetch_add(u64::from(done.is_ok()), Ordering::SeqCst);
                    }
                }
            });
        });
        for _ in 0..3 {
            pull(&volume, &mut running[0].1);
            let answer = node.call(volume.attach());
            let number = number_of(&volume.letter());
            let places = running.iter().map(|(pod, _)| volume.pod(pod.uid()));
            for place in places.chain([volume.global()]) {
                assert_eq!(only_mount_at(&place).number, number, "{}", answer.text);
            }
            for (_, container) in &mut running {
                goes_on(container, 3);
            }
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert!(renames.into_inner() > 100, "they were not renamed");
    within(tenant.pid(), || assert!(one.is_dir(), "a heal left the tenant's folder elsewhere"));
    node.verb(&["heal"]).unwrap();
    tenant.die();
    all_go_on(&volume, &mut running, "renamed");
    take_down(&volume, running);
}

/// A heal that may have few files open does what it can; with more the next one ends it.
#[test]
fn a_heal_without_descriptors_leaves_nothing_that_the_next_one_does_not_end() {
    needs!(pods);
    let (node, volume, mut running) = scene().start_in(3);
    let mut ended = Vec::new();
    for descriptors in [10, 14, 18, 22, 28, 40] {
        node.configure("[heal]\nmode = \"off\"");
        pull(&volume, &mut running[0].1);
        node.must(volume.attach());
        node.configure("");
        let heal = node.command(["heal", &volume.id]);
        let output = with_descriptors(&heal, descriptors).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        ended.push((descriptors, output.status.success()));
        let said = String::from_utf8_lossy(&said);
        assert!(!said.contains("panicked"), "{descriptors}: {said}");
        if !output.status.success() {
            node.verb(&["heal", &volume.id]).unwrap();
        }
        all_go_on(&volume, &mut running, &format!("{descriptors} descriptors: {said}"));
    }
    println!("{ended:?}");
    assert!(ended.first().is_some_and(|first| !first.1), "ten were enough: {ended:?}");
    assert!(ended.last().is_some_and(|last| last.1), "forty were not enough: {ended:?}");
    take_down(&volume, running);
}

/// What answers for the folder on the way to a mount may never answer: a FUSE whose server is silent.
#[test]
fn a_silent_fuse_in_a_pod_holds_up_no_heal() {
    needs!(fuse, pods);
    let (node, volume, mut running) = scene().start_in(3);
    let silent = fs::File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let pid = running[0].1.pid();
    within(pid, || {
        let nothing = None::<&str>;
        let options = {
            use std::os::fd::AsRawFd;
            format!("fd={},rootmode=40000,user_id=0,group_id=0", silent.as_raw_fd())
        };
        for place in ["/silent", "/silent2"] {
            fs::create_dir(place).unwrap();
        }
        mount(Some("silent"), "/silent", Some("fuse"), MsFlags::empty(), Some(options.as_str()))
            .unwrap();
        // The volume on the root of it, and it on the volume.
        mount(Some("/data"), "/silent", nothing, MsFlags::MS_BIND, nothing).unwrap();
        mount(Some("/data"), "/silent2", nothing, MsFlags::MS_BIND, nothing).unwrap();
        fs::create_dir_all("/data/below").unwrap();
        mount(Some("silent"), "/silent2/below", Some("tmpfs"), MsFlags::empty(), nothing).unwrap();
    });
    pull(&volume, &mut running[1].1);
    let begin = Instant::now();
    node.must(volume.attach());
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    for (_, container) in &mut running[1..] {
        goes_on(container, 3);
    }
    assert_eq!(only_mount_at(&volume.global()).number, number_of(&volume.letter()));
    drop(silent);
    let _ = node.verb(&["heal", &volume.id]);
    all_go_on(&volume, &mut running, "a silent FUSE");
    take_down(&volume, running);
}
