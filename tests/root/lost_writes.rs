//! A disk that refuses writes: what is lost is told once, while it can be told.

use crate::checks::{layers_at, nothing_is_left};
use crate::support::{FailingDisk, Node};
use crate::volume::{Volume, make_folder};
use std::io::Write;

#[test]
fn lost_writes_are_told_once_and_then_the_volume_goes() {
    needs!(fuse);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    let disk = FailingDisk::over(&volume.image());
    node.must(volume.attach());
    make_folder(&volume.global());
    node.must(volume.stage());
    let mut file = std::fs::File::create(volume.global().join("f")).unwrap();
    file.write_all(&vec![7; 65536]).unwrap();
    drop(file);
    disk.fail_writes(0..u64::MAX);
    let message = node.fails(volume.unstage());
    assert!(message.contains("did not reach the disk"), "{message}");
    assert_eq!(layers_at(&volume.global()), 1, "it can still be looked at");
    node.must(volume.unstage());
    assert_eq!(layers_at(&volume.global()), 0);
    assert!(node.log().contains("written data is lost"), "{}", node.log());
    disk.heal();
    std::fs::remove_dir(volume.global()).unwrap();
    node.must(volume.detach());
    drop(disk);
    nothing_is_left(&node, &[&volume]);
}

/// A volume whose disk can fail, mounted at its global folder.
fn staged(node: &Node) -> (Volume, FailingDisk) {
    let volume = Volume::create(node, "ext4", "64M");
    let disk = FailingDisk::over(&volume.image());
    node.must(volume.attach());
    make_folder(&volume.global());
    node.must(volume.stage());
    (volume, disk)
}

/// Writes into a file that is there already: its blocks alone fail, and the journal goes on.
fn lose(volume: &Volume, disk: &FailingDisk, name: &str) {
    const BLOCK: u64 = 1024;
    const BYTES: u64 = 65_536;
    let path = volume.global().join(name);
    let told = crate::holders::run("filefrag", &["-v", path.to_str().unwrap()]);
    let extent = told.lines().find(|line| line.trim_start().starts_with("0:")).unwrap();
    let first = extent.split(':').nth(2).unwrap().trim().split('.').next().unwrap();
    let first = first.parse::<u64>().unwrap() * BLOCK;
    disk.fail_writes(first..first + BYTES);
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all(&vec![9; usize::try_from(BYTES).unwrap()]).unwrap();
}

/// The kernel gives the number of a mount that went to the next one: what was told of the first says
/// nothing of the second.
#[test]
fn the_losses_of_the_next_mount_are_told_too() {
    needs!(fuse);
    let node = Node::new();
    let (volume, disk) = staged(&node);
    for name in ["f", "g"] {
        crate::files::write_synced(&volume.global().join(name), &vec![1; 65_536]);
    }
    for name in ["f", "g"] {
        lose(&volume, &disk, name);
        let message = node.fails(volume.unstage());
        assert!(message.contains("did not reach the disk"), "{name}: {message}");
        node.must(volume.unstage());
        disk.heal();
        node.must(volume.stage());
    }
    node.must(volume.unstage());
    std::fs::remove_dir(volume.global()).unwrap();
    node.must(volume.detach());
    drop(disk);
    nothing_is_left(&node, &[&volume]);
}

/// kubelet was told of a loss, and then wants the volume again: days later another tear-down begins.
#[test]
fn a_loss_after_the_volume_was_wanted_again_is_told_too() {
    needs!(fuse);
    let node = Node::new();
    let (volume, disk) = staged(&node);
    for name in ["f", "g", "h"] {
        crate::files::write_synced(&volume.global().join(name), &vec![1; 65_536]);
    }
    make_folder(&volume.pod(crate::volume::POD));
    for (name, again) in [("f", volume.stage()), ("g", volume.publish(crate::volume::POD))] {
        lose(&volume, &disk, name);
        let message = node.fails(volume.unstage());
        assert!(message.contains("did not reach the disk"), "{name}: {message}");
        disk.heal();
        node.must(&again);
    }
    node.must(volume.unpublish(crate::volume::POD));
    lose(&volume, &disk, "h");
    node.fails(volume.unstage());
    disk.heal();
    // Nothing was lost since, but what was told is lost all the same.
    node.must(volume.unstage());
    volume.take_away();
    drop(disk);
    nothing_is_left(&node, &[&volume]);
}
