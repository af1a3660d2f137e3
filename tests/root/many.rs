//! Many calls at once: of many volumes, and the same call for one volume.

use crate::checks::{layers_at, mounts_like, nothing_is_left};
use crate::files;
use crate::support::{Node, loop_devices_below};
use crate::volume::{Call, POD, Volume, make_folder};
use std::fs;

#[test]
fn thirty_two_volumes_live_at_once() {
    needs!(mounts);
    let node = Node::new();
    let volumes: Vec<_> = (0..32).map(|_| Volume::create(&node, "ext4", "64M")).collect();
    // A thread inherits the mount namespace of the one that starts it.
    std::thread::scope(|scope| {
        for volume in &volumes {
            scope.spawn(|| {
                let pod = volume.bring_to_pod();
                files::write(pod.join("whose"), &volume.id).unwrap();
                node.must(volume.unpublish(POD));
                node.must(volume.publish(POD));
                assert_eq!(files::read_to_string(pod.join("whose")).unwrap(), volume.id);
                assert_eq!(mounts_like(&volume.global()), 2);
                volume.take_away();
            });
        }
    });
    nothing_is_left(&node, &volumes.iter().collect::<Vec<_>>());
    for volume in &volumes {
        volume.must_be_sound();
    }
}

#[test]
fn sixteen_callers_of_one_call_do_it_once() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    make_folder(&volume.global());
    make_folder(&volume.pod(POD));
    let all_call = |call: Call| {
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| node.must(&call));
            }
        });
    };
    all_call(volume.attach());
    assert_eq!(loop_devices_below(&node.base()).len(), 1);
    all_call(volume.wait(""));
    all_call(volume.stage());
    assert_eq!(layers_at(&volume.global()), 1);
    all_call(volume.publish(POD));
    assert_eq!((layers_at(&volume.global()), layers_at(&volume.pod(POD))), (1, 1));
    all_call(volume.unpublish(POD));
    all_call(volume.unstage());
    assert_eq!((layers_at(&volume.global()), layers_at(&volume.pod(POD))), (0, 0));
    all_call(volume.detach());
    volume.must_be_sound();
    nothing_is_left(&node, &[&volume]);
}

/// Two pods of one volume that start and stop at the same time, as in a rolling update.
#[test]
fn pods_of_one_volume_come_and_go_at_once() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    std::thread::scope(|scope| {
        for pod in 0..8 {
            let (node, volume) = (&node, &volume);
            scope.spawn(move || {
                let uid = format!("uid-{pod}");
                for round in 0..3 {
                    make_folder(&volume.pod(&uid));
                    node.must(volume.publish(&uid));
                    files::write(volume.pod(&uid).join(&uid), round.to_string()).unwrap();
                    node.must(volume.unpublish(&uid));
                    fs::remove_dir(volume.pod(&uid)).expect("kubelet's rmdir");
                }
            });
        }
    });
    assert_eq!(mounts_like(&volume.global()), 1);
    assert_eq!(files::read_to_string(volume.global().join("uid-7")).unwrap(), "2");
    volume.ends();
}
