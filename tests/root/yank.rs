//! `disk local yank`: the disk goes without a warning.

use crate::checks::{
    backing_file, digest, eventually, layers_at, nothing_is_left, number_of, only_mount_at,
};
use crate::crash::kill_at;
use crate::files;
use crate::holders::Holder;
use crate::pull::pulled_and_back;
use crate::support::{Node, loop_devices_below};
use crate::volume::{POD, Volume};
use nix::errno::Errno;
use std::fs::{self, File};

#[track_caller]
fn yank(volume: &Volume) -> String {
    volume.node.verb(&["local", "yank", &volume.id]).expect("the disk is pulled")
}

#[test]
fn a_yanked_disk_comes_back_with_its_data() {
    needs!(mounts);
    for (fs_type, size) in [("ext4", "64M"), ("ext3", "64M"), ("xfs", "320M")] {
        pulled_and_back(fs_type, size, |volume| {
            let letter = volume.letter();
            let text = yank(volume);
            assert!(text.contains(&letter) && text.contains("is dead"), "{text}");
        });
    }
}

#[test]
fn a_disk_is_yanked_by_what_is_typed_for_it() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    for typed in [|volume: &Volume| volume.letter(), |volume: &Volume| volume.id[..9].to_owned()] {
        node.must(volume.attach());
        let said = node.verb(&["local", "yank", &typed(&volume)]).unwrap();
        assert!(said.contains(&format!("of {}", volume.id)), "{said}");
        node.must(volume.detach());
    }
    nothing_is_left(&node, &[&volume]);
}

/// The incident: the host's folders are empty, a container still has the dead file system.
#[test]
fn a_disk_is_yanked_from_under_another_namespace() {
    needs!(mounts);
    let node = Node::new();
    // The guard would take the copy down: the process that has it belongs to no pod.
    node.configure("[guard]\nmode = \"off\"\n[heal]\nmode = \"off\"");
    let volume = Volume::create(&node, "ext4", "64M");
    let pod = volume.bring_to_pod();
    files::write_synced(&pod.join("data"), b"kept");
    let container = Holder::of_all_mounts();
    node.must(volume.unpublish(POD));
    node.must(volume.unstage());
    let old = volume.letter();

    let text = yank(&volume);
    assert!(text.contains("is dead"), "{text}");
    let error = File::create(container.sees(&pod.join("new"))).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EIO as i32));
    assert!(backing_file(&old).ends_with(" (deleted)"));
    assert_eq!(node.must(volume.is_attached())["attached"], false);
    node.must(volume.detach());

    node.must(volume.attach());
    assert_ne!(volume.letter(), old);
    node.must(volume.wait(""));
    node.must(volume.publish(POD));
    assert_eq!(only_mount_at(&pod).number, number_of(&volume.letter()));
    assert_eq!(files::read(pod.join("data")).unwrap(), b"kept");
    files::write_synced(&pod.join("more"), b"new");
    assert!(!container.sees(&pod.join("more")).exists(), "the container is on the old disk");

    drop(container);
    eventually("the old disk is gone", || loop_devices_below(&node.base()).len() == 1);
    assert_eq!(files::read(pod.join("more")).unwrap(), b"new");
    volume.ends();
    volume.must_be_sound();
}

/// Each time the letter is pinned by a mount that was not taken off.
#[test]
fn a_disk_can_be_yanked_again_and_again() {
    needs!(mounts);
    let node = Node::new();
    // The guard would take the copies down: the processes that have them belong to no pod.
    node.configure("[guard]\nmode = \"off\"\n[heal]\nmode = \"off\"");
    let volume = Volume::create(&node, "ext4", "16M");
    let mut containers = Vec::new();
    for round in 0..3 {
        volume.bring();
        for earlier in 0..round {
            assert!(volume.global().join(format!("round-{earlier}")).exists());
        }
        files::write_synced(&volume.global().join(format!("round-{round}")), b"x");
        containers.push(Holder::of_all_mounts());
        yank(&volume);
        node.must(volume.unstage());
        assert_eq!(loop_devices_below(&node.base()).len(), round + 1);
    }
    drop(containers);
    eventually("the old disks are gone", || loop_devices_below(&node.base()).is_empty());
    fs::remove_dir(volume.global()).unwrap();
    volume.must_be_sound_after_a_replay();
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn a_yank_that_was_killed_is_finished_by_the_next_one() {
    needs!(mounts, seams);
    for step in ["local.pull.shut-down", "local.pull.let-go", "local.pull.copied"] {
        pulled_and_back("ext4", "16M", |volume| {
            let call = ["local", "yank", &volume.id].map(str::to_owned).to_vec();
            kill_at(&volume.node, &call, step);
            yank(volume);
        });
    }
}

#[test]
fn a_disk_that_is_not_mounted_is_yanked_too() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    node.must(volume.unstage());
    let text = yank(&volume);
    assert!(text.contains("no file system was mounted"), "{text}");
    assert_eq!(loop_devices_below(&node.base()).len(), 0);
    assert_eq!(node.must(volume.is_attached())["attached"], false);
    volume.must_be_sound();
    volume.bring();
    volume.ends();
}

#[test]
fn what_cannot_be_yanked_is_said() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    let before = digest(&volume.image());
    for attached_to in [None, Some("node-b")] {
        if let Some(other) = attached_to {
            node.must(volume.attach_to(other));
        }
        let complaint = node.verb(&["local", "yank", &volume.id]).unwrap_err();
        assert!(complaint.contains("no disk on this machine"), "{complaint}");
    }
    node.must(volume.detach_from("node-b"));
    let complaint = node.verb(&["local", "yank", "no-such-volume"]).unwrap_err();
    assert!(complaint.contains("does not exist"), "{complaint}");
    assert_eq!(digest(&volume.image()), before);
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn a_volume_is_deleted_only_when_it_is_attached_nowhere() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    for server in ["node-a", "node-b"] {
        node.must(volume.attach_to(server));
        let complaint = node.verb(&["local", "delete", &volume.id]).unwrap_err();
        assert!(complaint.contains(&format!("attached to {server}")), "{complaint}");
        assert!(volume.image().exists());
        node.must(volume.detach_from(server));
    }
    node.verb(&["local", "delete", &volume.id]).unwrap();
    assert!(!volume.image().exists());
    let message = node.fails(volume.attach());
    assert!(message.contains("does not exist in the cloud"), "{message}");
    assert_eq!(node.must(volume.is_attached())["attached"], false);
    // Detach of a deleted volume is so already, or its entry would be retried for ever.
    node.must(volume.detach());
    assert_eq!(layers_at(&volume.global()), 0);
    nothing_is_left(&node, &[&volume]);
}
