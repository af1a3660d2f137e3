//! Something else is mounted where the volume belongs.

use crate::checks::{layers_at, nothing_is_left, number_of, only_mount_at};
use crate::files;
use crate::holders::run;
use crate::support::Node;
use crate::volume::{POD, Volume, make_folder};
use std::fs;
use std::path::Path;

fn cover_with_tmpfs(folder: &Path) {
    make_folder(folder);
    run("mount", &["-t", "tmpfs", "none", folder.to_str().unwrap()]);
}

fn uncover(folder: &Path) {
    assert_eq!(only_mount_at(folder).fs_type, "tmpfs", "it is as it was");
    run("umount", &[folder.to_str().unwrap()]);
}

#[test]
fn a_volume_that_is_not_staged_is_staged_by_mount() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    node.must(volume.attach());
    make_folder(&volume.pod(POD));
    node.must(volume.publish(POD));
    let number = number_of(&volume.letter());
    for place in [volume.global(), volume.pod(POD)] {
        assert_eq!(only_mount_at(&place).number, number);
    }
    volume.ends();
}

#[test]
fn a_tmpfs_at_the_global_folder_fails_every_call_and_stays() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    node.must(volume.attach());
    cover_with_tmpfs(&volume.global());
    make_folder(&volume.pod(POD));
    for call in [volume.wait(""), volume.stage(), volume.publish(POD)] {
        let message = node.fails(call);
        assert!(message.contains("which is not the volume's disk"), "{message}");
        assert!(message.contains(&volume.letter()), "{message}");
    }
    assert_eq!(layers_at(&volume.pod(POD)), 0, "nothing was bound");
    uncover(&volume.global());
    node.must(volume.publish(POD));
    volume.ends();
}

#[test]
fn a_tmpfs_at_the_pods_folder_fails_mount_and_stays() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring();
    cover_with_tmpfs(&volume.pod(POD));
    let message = node.fails(volume.publish(POD));
    assert!(message.contains("which is not the volume's disk"), "{message}");
    uncover(&volume.pod(POD));
    node.must(volume.publish(POD));
    volume.ends();
}

/// The wrong disk under a pod is the one thing that must never happen.
#[test]
fn another_volumes_disk_at_the_global_folder_fails_every_call_and_stays() {
    needs!(mounts);
    let node = Node::new();
    let (ours, other) =
        (Volume::create(&node, "ext4", "16M"), Volume::create(&node, "ext4", "16M"));
    other.bring();
    files::write(other.global().join("f"), "the other's").unwrap();
    node.must(ours.attach());
    for folder in [ours.global(), ours.pod(POD)] {
        make_folder(&folder);
    }
    let (from, to) = (other.global(), ours.global());
    run("mount", &["--bind", from.to_str().unwrap(), to.to_str().unwrap()]);
    for call in [ours.wait(""), ours.stage(), ours.publish(POD)] {
        let message = node.fails(call);
        assert!(message.contains("which is not the volume's disk"), "{message}");
    }
    assert_eq!(layers_at(&ours.pod(POD)), 0, "nothing was bound");
    assert_eq!(files::read_to_string(ours.global().join("f")).unwrap(), "the other's");
    run("umount", &[to.to_str().unwrap()]);
    node.must(ours.detach());
    other.take_away();
    nothing_is_left(&node, &[&ours, &other]);
}

/// kubelet skips `mountdevice` when the folder is a mount point: only this call can notice.
#[test]
fn waitforattach_looks_at_the_global_folder_behind_a_linked_root_too() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    fs::rename(node.kubelet_root(), node.own().join("data")).unwrap();
    std::os::unix::fs::symlink("data", node.kubelet_root()).unwrap();
    node.must(volume.attach());
    cover_with_tmpfs(&volume.global());
    let message = node.fails(volume.wait(""));
    assert!(message.contains("which is not the volume's disk"), "{message}");
    run("umount", &[volume.global().to_str().unwrap()]);
    node.must(volume.wait(""));
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// All drivers' volumes are in the folders of CSI, and a part of any in that of parts.
#[test]
fn a_volume_of_another_driver_in_a_folder_that_all_share_is_none_of_ours() {
    needs!(mounts);
    let node = Node::new();
    let pod = node.kubelet_root().join("pods").join(POD);
    let volume = pod.join("volumes/kubernetes.io~csi/pv-1/mount");
    let part = pod.join("volume-subpaths/pv-1/main/0");
    cover_with_tmpfs(&volume);
    make_folder(&part);
    run("mount", &["--bind", volume.to_str().unwrap(), part.to_str().unwrap()]);
    let text = node.verb(&["status", "--json"]).unwrap();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["volumes"], serde_json::json!([]), "{found:#}");
    for folder in [&part, &volume] {
        uncover(folder);
    }
}

#[test]
fn links_below_the_root_are_not_followed() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    node.must(volume.attach());
    let elsewhere = node.base().join("elsewhere");
    make_folder(&elsewhere);
    make_folder(volume.global().parent().unwrap());
    std::os::unix::fs::symlink(&elsewhere, volume.global()).unwrap();
    let message = node.fails(volume.stage());
    assert!(message.contains("symbolic link"), "{message}");
    assert_eq!(layers_at(&elsewhere), 0);
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}
