//! What kubelets since 1.26 no longer call for, by the sequences of calls that kubelet 1.36.2 makes: after its
//! restart it attaches nothing that it finds mounted, and never detaches it where it attaches itself.

use crate::scene::scene;
use crate::support::kubelets::{Attaches, OLD};
use crate::volume::Volume;
use std::fs;
use std::time::{Duration, Instant};

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
