//! A disk that cannot be read is not a blank disk.

use crate::checks::{digest, layers_at, nothing_is_left};
use crate::holders::run;
use crate::support::Node;
use crate::volume::{Volume, make_folder};
use std::fs::{self, File};
use std::path::PathBuf;

/// The cloud's folder on a file system of its own, so that it can die below the volumes' disks.
struct Cellar {
    folder: PathBuf,
    outer: PathBuf,
}

impl Cellar {
    fn below(node: &Node) -> Self {
        let (folder, outer) = (node.base().join("cloud"), node.base().join("outer.img"));
        File::create(&outer).unwrap().set_len(256 << 20).unwrap();
        run("mkfs.ext4", &["-q", outer.to_str().unwrap()]);
        fs::create_dir_all(&folder).unwrap();
        let cellar = Self { folder, outer };
        cellar.open();
        cellar
    }

    fn open(&self) {
        let (folder, outer) = (self.folder.to_str().unwrap(), self.outer.to_str().unwrap());
        run("mount", &["-o", "loop", outer, folder]);
    }

    /// Every read answers EIO from here on.
    fn die(&self) {
        let root = File::open(&self.folder).unwrap();
        incloud_disk::host::kernel::shutdown_file_system(&root).unwrap();
    }

    fn close(&self) {
        run("umount", &[self.folder.to_str().unwrap()]);
    }
}

#[test]
fn a_blank_disk_that_cannot_be_read_is_not_formatted() {
    needs!(mounts);
    let node = Node::new();
    let cellar = Cellar::below(&node);
    let volume = Volume::create(&node, "ext4", "64M");
    run("sync", &["-f", cellar.folder.to_str().unwrap()]);
    let before = digest(&volume.image());
    node.must(volume.attach());
    let device = format!("/dev/{}", volume.letter());
    cellar.die();
    make_folder(&volume.global());
    for wish in ["ext4", "xfs", ""] {
        let message = node.fails(volume.stage_as(wish));
        assert!(message.contains("unreadable at offset 0"), "{message}");
        assert!(message.contains("input/output error"), "{message}");
        assert_eq!(layers_at(&volume.global()), 0);
    }
    // The dead file system answers nothing more: not even the volume can be detached properly.
    run("losetup", &["-d", &device]);
    cellar.close();
    cellar.open();
    assert_eq!(digest(&volume.image()), before, "the image changed");
    // The disk is well again: the same call formats it.
    node.must(volume.attach());
    node.must(volume.stage());
    volume.take_away();
    cellar.close();
    nothing_is_left(&node, &[&volume]);
}
