//! What kubelets since 1.26 no longer call for, by the sequences of calls that kubelet 1.36.2 makes: after its
//! restart it attaches nothing that it finds mounted, and never detaches it where it attaches itself.

use crate::checks::{layers_at, nothing_is_left, number_of, only_mount_at};
use crate::heal::{goes_on, pull};
use crate::scene::{Scene, scene};
use crate::support::kubelets::{Attaches, OLD};
use crate::volume::Volume;
use std::fs;
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

/// At 7ba4fed `waitforattach` failed for ever.
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

/// At 7ba4fed it answered after 2 s, and kubelet's back-off outlived the attach that came then.
#[test]
fn waitforattach_waits_for_the_controller() {
    needs!(mounts, seams);
    for attaches in [Attaches::ControllerByDefault, Attaches::ControllerByFile] {
        let (node, volume) = Volume::on_a_node("ext4", "64M");
        node.has_kubelet(attaches);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| node.must(volume.wait("")));
            std::thread::sleep(Duration::from_secs(4));
            assert!(!waits.is_finished(), "it waits");
            node.must(volume.attach());
            waits.join().unwrap();
        });
        node.must(volume.detach());
    }
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

/// Two clusters on one machine, each with its own root directory, cloud, and way to attach. At 7ba4fed the other's
/// mounts were ambiguous, each `disk heal` failed, and the first kubelet's configuration counted.
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
