//! `disk local yank`: the disk goes without a warning.

use crate::checks::{digest, layers_at, nothing_is_left};
use crate::pull::pulled_and_back;
use crate::support::loop_devices_below;
use crate::volume::Volume;

#[track_caller]
fn yank(volume: &Volume) -> String {
    volume.node.verb(&["local", "yank", &volume.id]).expect("the disk is pulled")
}

#[test]
fn a_yanked_disk_comes_back_with_its_data() {
    needs!(mounts);
    for (fs_type, size) in [("ext4", "64M"), ("xfs", "320M")] {
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
