//! What kubelets since 1.26 no longer call for, by the sequences of calls that kubelet 1.36.2 makes: after its
//! restart it attaches nothing that it finds mounted, and never detaches it where it attaches itself.

use crate::checks::{eventually, layers_at, nothing_is_left, number_of, only_mount_at};
use crate::heal::{goes_on, pull};
use crate::letting_go::{by_another, let_go};
use crate::scene::{Scene, scene};
use crate::support::Node;
use crate::support::has;
use crate::support::kubelets::{Attaches, OLD, is_silent_for};
use crate::support::pods::{Container, Naming, Pod};
use crate::volume::{Volume, make_folder};
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

const KUBELET: [Attaches; 2] = [Attaches::KubeletByFlag, Attaches::KubeletByFile];

/// kubelet 1.36.2 starts and finds the volume mounted: it asks for the name with what it made up from the
/// directory's name, and then for the disk, of which it knows no device. It does not attach.
fn restarts(volume: &Volume) {
    let node = &volume.node;
    node.must(["init"]);
    let bare = format!(
        "{{\"kubernetes.io/fsType\":\"\",\"kubernetes.io/pvOrVolumeName\":\"{}\",\"kubernetes.io/readwrite\":\"rw\"}}",
        volume.pv
    );
    assert_eq!(node.call(["getvolumename", &bare]).json["status"], "Not supported");
}

#[test]
fn a_lost_disk_is_attached_again_by_waitforattach_where_kubelet_attaches() {
    needs!(pods, seams);
    for (attaches, fs_type) in KUBELET.into_iter().zip(["ext4", "xfs"]) {
        let Scene { node, volume, pod, mut container } = scene().of(fs_type).start();
        node.has_kubelet(attaches);
        let old = pull(&volume, &mut container);
        restarts(&volume);
        node.must(volume.wait(""));
        let new = volume.letter();
        assert_ne!(old, new);
        for place in [volume.global(), volume.pod(pod.uid())] {
            assert_eq!(only_mount_at(&place).number, number_of(&new), "{}", place.display());
        }
        goes_on(&mut container, 10);
        volume.ends_with(&pod, container);
        volume.must_be_sound();
    }
}

/// The controls: nothing is attached for one who asks where the controller, or nobody known, attaches, and
/// nothing that lost no mount.
#[test]
fn waitforattach_attaches_nothing_else() {
    needs!(pods, seams);
    let Scene { node, volume, pod, mut container } = scene().start();
    pull(&volume, &mut container);
    let refused = |why: &str| {
        let message = node.fails(volume.wait(""));
        assert!(message.contains("attached nowhere"), "{why}: {message}");
        assert!(node.letter(&volume.id).is_none(), "{why}");
    };
    node.has_no_kubelet();
    refused("no kubelet is seen");
    node.has_kubelet(Attaches::Unreadable);
    refused("who attaches is not known");
    node.has_kubelet(Attaches::KubeletByFlag);
    node.has_kubelet_at(8, &node.kubelet_root(), Attaches::ControllerByFile, OLD);
    refused("two kubelets differ");
    node.has_no_kubelet();
    node.has_kubelet(Attaches::KubeletByFlag);
    let unmounted = Volume::create(&node, "ext4", "16M");
    let message = node.fails(unmounted.wait(""));
    assert!(message.contains("attached nowhere"), "{message}");
    assert!(node.letter(&unmounted.id).is_none());
    node.must(volume.wait(""));
    goes_on(&mut container, 3);
    volume.take_away_with(&pod, container);
    nothing_is_left(&node, &[&volume, &unmounted]);
}

#[test]
fn waitforattach_waits_for_the_controller() {
    needs!(pods, seams);
    // A disk that was lost: the controller attaches, and its mounts are healed.
    let Scene { node, volume, pod, mut container } = scene().start();
    node.has_kubelet(Attaches::ControllerByFile);
    pull(&volume, &mut container);
    restarts(&volume);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| node.must(volume.wait("")));
        std::thread::sleep(Duration::from_secs(4));
        assert!(!waits.is_finished() && node.letter(&volume.id).is_none(), "it waits");
        node.must(volume.attach());
        waits.join().unwrap();
    });
    goes_on(&mut container, 3);
    volume.ends_with(&pod, container);
}

/// For half a minute, and no longer; and where kubelet attaches, an attach has come before.
#[test]
fn waitforattach_ends_where_nobody_attaches() {
    needs!(mounts, seams);
    for (attaches, least, most) in
        [(Attaches::ControllerByDefault, 28, 45), (Attaches::KubeletByFile, 1, 12)]
    {
        let (node, volume) = Volume::on_a_node("ext4", "64M");
        node.has_kubelet(attaches);
        let begin = Instant::now();
        let message = node.fails(volume.wait(""));
        let took = begin.elapsed().as_secs();
        assert!(message.contains("attached nowhere"), "{message}");
        assert!((least..most).contains(&took), "{attaches:?}: {took} s");
    }
}

/// Two clusters on one machine, each with its own root directory, cloud, and way to attach.
#[test]
fn of_two_kubelets_the_configured_one_counts() {
    needs!(pods, seams);
    let (one, other) = (scene().start(), scene().start());
    for (node, pid, attaches, neighbour, its, its_pid) in [
        (&one.node, 9, Attaches::KubeletByFlag, &other.node, Attaches::ControllerByFile, 8),
        (&other.node, 8, Attaches::ControllerByFile, &one.node, Attaches::KubeletByFlag, 9),
    ] {
        node.has_kubelet_at(pid, &node.kubelet_root(), attaches, OLD);
        node.has_kubelet_at(its_pid, &neighbour.kubelet_root(), its, OLD);
    }
    let status = one.node.verb(&["status"]).unwrap();
    assert!(status.contains("1 volume on node-a: 1 ok"), "{status}");
    assert!(!status.contains("restart"), "{status}");
    for node in [&one.node, &other.node] {
        assert_eq!(node.verb(&["heal"]).unwrap(), "");
    }
    // Wiped records are found again by each driver for its own mounts alone.
    fs::remove_dir_all(one.node.own().join("state")).unwrap();
    fs::remove_dir_all(one.node.own().join("run")).unwrap();
    let adopted = one.node.verb(&["heal"]).unwrap();
    assert!(adopted.contains(&one.volume.id) && !adopted.contains(&other.volume.id), "{adopted}");
    let doctor = one.node.verb(&["doctor"]).unwrap_or_else(|text| text);
    assert!(doctor.contains("kubelet itself attaches"), "{doctor}");
    assert!(doctor.contains("its root directory is paths.kubelet_root"), "{doctor}");
    one.ends();
    other.ends();
}

/// A pod's volume after a restart of kubelet and the end of the pod, by kubelet's calls: the last one is
/// `unmountdevice`.
fn left_attached(attaches: Attaches, fs_type: &'static str) -> Volume {
    let Scene { node, volume, pod, container } = scene().of(fs_type).start();
    node.has_kubelet(attaches);
    restarts(&volume);
    node.must(volume.wait(""));
    ends(&volume, &pod, container);
    volume
}

fn ends(volume: &Volume, pod: &Pod, container: Container) {
    container.die();
    volume.node.must(volume.unpublish(pod.uid()));
    fs::remove_dir(volume.pod(pod.uid())).unwrap();
    volume.node.must(volume.unstage());
    fs::remove_dir(volume.global()).unwrap();
}

/// The disk, as a process has it open that lets no other use it.
fn opened(volume: &Volume) -> fs::File {
    let path = format!("/dev/{}", volume.letter());
    fs::File::options().read(true).custom_flags(nix::libc::O_EXCL).open(path).unwrap()
}

/// The timer comes, and nothing is said or done.
#[track_caller]
fn stays(volume: &Volume, why: &str) {
    assert_eq!(volume.node.verb(&["heal"]).unwrap(), "", "{why}");
    assert!(volume.node.letter(&volume.id).is_some(), "{why}");
}

#[test]
fn what_kubelet_left_attached_is_told_and_detached_by_the_timer() {
    needs!(pods, seams);
    let volume = left_attached(Attaches::KubeletByFile, "ext4");
    let node = &volume.node;
    stays(&volume, "kubelet may still call");
    let status = || node.verb(&["status"]).unwrap();
    assert!(status().contains("1 volume on node-a: 1 ok"), "{}", status());
    is_silent_for(node, &volume.id, 300);
    has(
        &status(),
        &["ORPHANED", "a pod on another node cannot start", "5 minutes ago", "$ disk heal"],
    );
    let doctor = node.verb(&["doctor"]).unwrap_or_else(|text| text);
    has(&doctor, &[&format!("{} is orphaned", volume.id), "the timer detaches it"]);
    has(&node.verb(&["explain", &volume.id]).unwrap(), &["orphaned", "kubelet of 1.26 or later"]);
    assert_eq!(node.verb(&["heal", "--dry-run"]).unwrap().lines().count(), 1);
    assert!(node.letter(&volume.id).is_some(), "a plan changes nothing");

    let said = node.verb(&["heal"]).unwrap();
    has(&said, &[&volume.id, "detached: kubelet unmounted it and will not detach it"]);
    assert!(node.letter(&volume.id).is_none());
    assert_eq!(node.verb(&["heal"]).unwrap(), "", "once");
    // The log has its own begin and end of it.
    let history = node.verb(&["history", &volume.id]).unwrap();
    let row = history
        .lines()
        .find(|line| line.contains(" detach "))
        .unwrap_or_else(|| panic!("{history}"));
    has(row, &["detached"]);
    assert!(!history.contains("its end is not in the log"), "{history}");
    volume.must_be_sound();
    nothing_is_left(node, &[&volume]);
}

/// Nothing is detached that a pod may still want, and in doubt it is only said.
#[test]
fn what_may_still_be_wanted_or_is_in_doubt_stays_attached() {
    needs!(pods, seams);
    let volume = left_attached(Attaches::KubeletByFile, "ext4");
    let node = &volume.node;
    is_silent_for(node, &volume.id, 300);
    let root = node.kubelet_root();
    let doubt = |why: &str, words: &str| {
        stays(&volume, why);
        has(
            &node.verb(&["status"]).unwrap(),
            &["ORPHANED", words, &format!("$ disk detach {}", volume.pv)],
        );
    };
    let is_well = |why: &str| {
        stays(&volume, why);
        assert!(node.verb(&["status"]).unwrap().contains("1 ok"), "{why}");
    };
    node.has_no_kubelet();
    is_well("kubelet is down");
    for attaches in [Attaches::ControllerByDefault, Attaches::ControllerByFile] {
        node.has_kubelet(attaches);
        is_well("the controller detaches");
    }
    node.has_kubelet_at(9, &root, Attaches::KubeletByFlag, Duration::from_secs(200));
    is_well("kubelet has just been started");
    node.has_kubelet(Attaches::Unreadable);
    doubt("its configuration cannot be read", "cannot read");
    node.has_kubelet(Attaches::KubeletByFlag);
    node.has_kubelet_at(8, &root, Attaches::ControllerByFile, OLD);
    doubt("two kubelets", "process 8 and 9");
    node.has_no_kubelet();
    // Another kubelet alone, with a root directory of its own.
    node.has_kubelet_at(8, &node.base(), Attaches::KubeletByFlag, OLD);
    is_well("none of ours runs");
    node.has_kubelet(Attaches::KubeletByFlag);
    let starts = volume.pod("0c9d7f62-51aa-4b8e-8d0e-2f6b1a3c4d5e");
    make_folder(&starts);
    is_well("a pod has a directory for it");
    fs::remove_dir(starts).unwrap();
    fs::rename(root.join("pods"), root.join("away")).unwrap();
    doubt("the pods' directories cannot be listed", "whether a pod has a directory");
    fs::rename(root.join("away"), root.join("pods")).unwrap();

    // A process that has the disk open keeps it, as it does in each detach.
    let disk = opened(&volume);
    let refused = node.verb(&["heal"]).unwrap_err();
    has(&refused, &["not taken down"]);
    assert!(node.letter(&volume.id).is_some());
    drop(disk);
    has(&node.verb(&["heal"]).unwrap(), &["detached"]);
    nothing_is_left(node, &[&volume]);
}

/// A call for it means that kubelet knows it: by its own attach, for a pod that starts, or by its detach.
#[test]
fn a_call_for_it_keeps_it_attached() {
    needs!(pods, seams);
    let pod = Pod::new(Naming::Systemd);
    for begin in ["attach", "waitforattach", "mountdevice", "mount"] {
        let volume = left_attached(Attaches::KubeletByFlag, "ext4");
        let node = &volume.node;
        is_silent_for(node, &volume.id, 3000);
        make_folder(&volume.global());
        make_folder(&volume.pod(pod.uid()));
        node.must(match begin {
            "attach" => volume.attach(),
            "waitforattach" => volume.wait(""),
            "mountdevice" => volume.stage(),
            _ => volume.publish(pod.uid()),
        });
        fs::remove_dir(volume.pod(pod.uid())).unwrap_or_default();
        assert!(volume.record()["unstaged_at"].is_null(), "{begin}: {}", volume.record());
        stays(&volume, begin);
        if begin == "mount" {
            node.must(volume.unpublish(pod.uid()));
        }
        node.must(volume.unstage());
        node.must(volume.detach());
    }
    // kubelet asks to detach, and repeats that: its own call is the one that counts.
    let volume = left_attached(Attaches::KubeletByFlag, "ext4");
    is_silent_for(&volume.node, &volume.id, 3000);
    let disk = opened(&volume);
    volume.node.fails(volume.detach());
    stays(&volume, "kubelet repeats its detach");
    drop(disk);
    volume.node.must(volume.detach());
    nothing_is_left(&volume.node, &[&volume]);
}

/// The machine's start counts, and no clock that people set: a record of another start tells nothing.
#[test]
fn a_record_of_another_start_of_the_machine_tells_nothing() {
    needs!(pods, seams);
    let volume = left_attached(Attaches::KubeletByFlag, "ext4");
    is_silent_for(&volume.node, &volume.id, 300);
    let path = volume.boot_record_path();
    let text = fs::read_to_string(&path).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    record["unstaged_at"]["boot"] = "another".into();
    fs::write(&path, record.to_string()).unwrap();
    stays(&volume, "another start");
    // Later than now, as by a count that began anew.
    record["unstaged_at"] = serde_json::json!({
        "boot": incloud_disk::host::machine::boot_id(), "seconds": 1_u64 << 40
    });
    fs::write(&path, record.to_string()).unwrap();
    stays(&volume, "later than now");
    volume.node.must(volume.detach());
}

/// kubelet 1.20, and a later one that was not restarted, detach at once.
#[test]
fn where_kubelet_detaches_nothing_is_remembered() {
    needs!(pods, seams);
    let Scene { node, volume, pod, container } = scene().start();
    node.has_kubelet(Attaches::KubeletByFlag);
    node.must(volume.attach());
    node.must(volume.wait(""));
    ends(&volume, &pod, container);
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// By a process that is not waited for: its lock is free, and the log has its end.
fn is_taken_down(volume: &Volume) {
    let node = &volume.node;
    let lock = node.own().join("run/locks").join(format!("{}.lock", volume.id));
    eventually("it is detached", || node.letter(&volume.id).is_none() && !lock.exists());
    eventually("its end is logged", || {
        let history = node.verb(&["history", &volume.id]).unwrap();
        history.contains(" detach ") && !history.contains("its end is not in the log")
    });
}

/// Of another volume of the node.
#[test]
fn without_a_timer_a_call_takes_over_its_work() {
    needs!(pods, seams);
    let other = |node: &Node| Volume::create(node, "ext4", "16M");
    for by in ["detach", "waitforattach"] {
        let orphan = left_attached(Attaches::KubeletByFlag, "ext4");
        let node = &orphan.node;
        // The timer has just come: a call leaves it to the next time.
        assert_eq!(node.verb(&["heal"]).unwrap(), "");
        is_silent_for(node, &orphan.id, 1000);
        let second = other(node);
        node.must(second.attach());
        node.must(second.wait(""));
        std::thread::sleep(Duration::from_secs(2));
        assert!(node.letter(&orphan.id).is_some());
        fs::remove_file(node.own().join("run/swept")).unwrap();
        match by {
            // This one finds all as it should be.
            "waitforattach" => drop(node.must(second.wait(""))),
            _ => drop(node.must(second.detach())),
        }
        is_taken_down(&orphan);
        node.must(second.detach());
        nothing_is_left(node, &[&orphan, &second]);
    }

    // kubelet was restarted twice in an outage, and the pod was deleted gracefully: 1.36.2 does not mount it again.
    let Scene { node, volume, pod, container } = scene().start();
    node.has_kubelet(Attaches::KubeletByFile);
    let_go(&volume, &pod);
    by_another(&node, &volume.wait(""));
    by_another(&node, &volume.stage());
    container.die();
    let second = other(&node);
    node.must(second.attach());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(layers_at(&volume.global()), 1, "not long ago");
    let path = volume.boot_record_path();
    let mut record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let when = &mut record["let_go"]["folders"][pod.uid()]["when"]["seconds"];
    *when = when.as_u64().unwrap().saturating_sub(120).into();
    fs::write(path, record.to_string()).unwrap();
    node.must(second.detach());
    is_taken_down(&volume);
    assert!(node.verb(&["history", &volume.id]).unwrap().contains("unmountdevice"));
    let status = node.verb(&["status"]).unwrap();
    assert!(!status.contains("has not ended"), "{status}");
    fs::remove_dir(volume.global()).unwrap();
    nothing_is_left(&node, &[&volume, &second]);
}
