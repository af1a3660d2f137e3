//! A disk that refuses writes: what is lost is told once, while it can be told.

use crate::checks::{layers_at, nothing_is_left};
use crate::support::{FailingDisk, Node};
use crate::volume::{Volume, make_folder};
use std::io::Write;

#[test]
fn lost_writes_are_told_once_and_then_the_volume_goes() {
    if !crate::support::private_mounts_and_fuse(
        "lost_writes_are_told_once_and_then_the_volume_goes",
    ) {
        return;
    }
    let node = Node::new();
    let volume = Volume::create(&node, "ext4", "64M");
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
