//! The driver on a kernel as old as those of the clusters that it is for (Linux 3.10): a filter answers each
//! system call that came later as such a kernel does. What a later kernel's `/proc` and sysfs show stays.

use crate::checks::{layers_at, nothing_is_left};
use crate::files;
use crate::heal::goes_on;
use crate::looking::healths::pull;
use crate::mkfs::{goes_on_or_is_given_up, kill_at_write};
use crate::scene::scene;
use crate::support::old_kernel::on_an_old_kernel;
use crate::support::{Answer, Node, output_of};
use crate::volume::{Call, POD, Volume, make_folder};

#[track_caller]
fn must(node: &Node, call: &Call) {
    let answer = Answer::of(on_an_old_kernel(node.command(call)));
    assert_eq!(answer.json["status"], "Success", "{call:?}: {}", answer.text);
}

/// A verb's words, whatever its exit status.
fn told(node: &Node, words: &[&str]) -> String {
    let output = output_of(&mut on_an_old_kernel(node.command(words)));
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_volume_lives_there() {
    needs!(mounts);
    for (fs_type, size) in [("ext4", "64M"), ("xfs", "320M")] {
        let (node, volume) = Volume::on_a_node(fs_type, size);
        for round in 0..2 {
            must(&node, &volume.attach());
            must(&node, &volume.wait(""));
            must(&node, &volume.stage());
            must(&node, &volume.publish(POD));
            let file = volume.pod(POD).join("data");
            if round == 0 {
                files::write_synced(&file, b"kept");
            }
            assert_eq!(files::read(&file).unwrap(), b"kept");
            assert!(told(&node, &["explain", &volume.id]).contains("verdict ok"));
            must(&node, &volume.unpublish(POD));
            must(&node, &volume.unstage());
            must(&node, &volume.detach());
        }
        volume.must_be_sound();
        nothing_is_left(&node, &[&volume]);
    }
}

/// The incident there: what is guarded stays, and a disk that went is healed under the running pod. That kernel does
/// not say who owns a mount namespace.
#[test]
fn the_incident_is_refused_and_healed_there() {
    needs!(pods);
    let mut scene = scene().start();
    let node = scene.node.clone();
    let refused = Answer::of(on_an_old_kernel(node.command(scene.volume.unstage())));
    assert_eq!(refused.json["status"], "Failure", "{}", refused.text);
    assert!(refused.text.contains("shop/orders-0"), "{}", refused.text);
    pull(&scene.volume, &mut scene.container);
    must(&node, &scene.volume.attach());
    let status = told(&node, &["status"]);
    assert!(status.contains("GUARDED shop/orders-0"), "{status}");
    goes_on(&mut scene.container, 20);
    assert_eq!(layers_at(&scene.volume.pod(scene.pod.uid())), 1);
    let doctor = told(&node, &["doctor"]);
    assert!(doctor.contains("replaced by the method tuck-by-mount"), "{doctor}");
    scene.volume.take_away_with(&scene.pod, scene.container);
}

#[test]
fn an_interrupted_mkfs_is_refused_there() {
    needs!(mounts, tracer);
    for fs_type in ["ext4", "xfs"] {
        let (node, volume) = Volume::on_a_node(fs_type, "320M");
        node.must(volume.attach());
        make_folder(&volume.global());
        assert!(kill_at_write(&volume, fs_type, 4), "{fs_type}: mkfs has written less");
        let answer = Answer::of(on_an_old_kernel(node.command(volume.stage())));
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        assert!(told(&node, &["format", &volume.id]).contains("was interrupted on it"));
        assert!(goes_on_or_is_given_up(&volume), "by a newer kernel too");
        volume.take_away();
        volume.must_be_sound();
    }
}
