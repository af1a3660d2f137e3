//! `unmount` and `unmountdevice`: what is so already, what is stacked, what is busy.

use crate::checks::{layers_at, nothing_is_left};
use crate::files;
use crate::holders::{Holder, run};
use crate::support::Node;
use crate::volume::{Call, POD, Volume, make_folder};
use std::fs;

/// The two calls and the folder of each.
fn both(volume: &Volume) -> [(Call, std::path::PathBuf); 2] {
    [(volume.unpublish(POD), volume.pod(POD)), (volume.unstage(), volume.global())]
}

#[test]
fn unmounting_what_is_not_mounted_is_success() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    for (call, folder) in both(&volume) {
        node.must(&call);
        assert!(!folder.exists(), "{folder:?} was made");
        make_folder(&folder);
        // What stands in a plain folder is not ours to remove.
        files::write(folder.join("f"), "stays").unwrap();
        node.must(&call);
        assert_eq!(files::read_to_string(folder.join("f")).unwrap(), "stays");
    }
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn every_layer_is_unmounted() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring_to_pod();
    for (call, folder) in both(&volume) {
        let text = folder.to_str().unwrap();
        run("mount", &["--bind", text, text]);
        run("mount", &["--bind", text, text]);
        assert_eq!(layers_at(&folder), 3);
        node.must(&call);
        assert_eq!(layers_at(&folder), 0);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{folder:?} is not empty");
        fs::remove_dir(&folder).expect("kubelet's rmdir");
    }
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

#[test]
fn a_busy_folder_is_a_failure_until_its_user_ends() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring_to_pod();
    for (call, folder) in both(&volume) {
        files::write_synced(&folder.join("f"), b"data");
        for by_file in [true, false] {
            if folder == volume.global() {
                // The disk is not free while a pod's folder has it, and kubelet does not ask.
                node.must(volume.unpublish(POD));
            }
            let holder = if by_file {
                Holder::reading(&folder.join("f"))
            } else {
                Holder::working_in(&folder)
            };
            let message = node.fails(&call);
            assert!(message.contains("(sleep) holds"), "{message}");
            assert_eq!(layers_at(&folder), 1, "nothing was taken off");
            assert_eq!(files::read(folder.join("f")).unwrap(), b"data");
            drop(holder);
            node.must(&call);
            assert_eq!(layers_at(&folder), 0);
            // Back, for the next one.
            node.must(volume.publish(POD));
        }
        node.must(volume.unpublish(POD));
        node.must(&call);
    }
    volume.ends();
}

/// kubelet asks so after a reboot, and when the folder was removed behind its back.
#[test]
fn a_record_of_a_mount_that_is_gone_does_no_harm() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    volume.bring_to_pod();
    for (call, folder) in both(&volume) {
        run("umount", &[folder.to_str().unwrap()]);
        node.must(&call);
        fs::remove_dir(&folder).unwrap();
    }
    assert!(volume.record()["staged"].is_null() && volume.record()["published"].is_null());
    node.must(volume.detach());
    nothing_is_left(&node, &[&volume]);
}

/// As after a reboot of a node that had the predecessor, or another kubelet root.
#[test]
fn folders_of_other_drivers_are_refused() {
    needs!(mounts);
    let node = Node::new();
    let folder = node.kubelet_root().join("pods/u/volumes/other~disk/pv-1");
    make_folder(&folder);
    run("mount", &["-t", "tmpfs", "none", folder.to_str().unwrap()]);
    node.fails(["unmount", folder.to_str().unwrap()]);
    let elsewhere = node.base().join("pods/u/volumes/incloud~disk/pv-1");
    make_folder(&elsewhere);
    run("mount", &["-t", "tmpfs", "none", elsewhere.to_str().unwrap()]);
    let message = node.fails(["unmount", elsewhere.to_str().unwrap()]);
    assert!(message.contains("is not below"), "{message}");
    for path in [folder, elsewhere] {
        assert_eq!(layers_at(&path), 1);
        run("umount", &[path.to_str().unwrap()]);
    }
    nothing_is_left(&node, &[]);
}
