//! Two pods on one volume, one of them read-only.

use crate::checks::{layers_at, mounts_like, nothing_is_left, only_mount_at};
use crate::files;
use crate::support::{Node, private_mounts};
use crate::volume::{Volume, make_folder};
use nix::errno::Errno;
use std::fs;

const WRITER: &str = "0a4f3c0e-9d0c-4a5b-8f3e-2f6f5f3b1a01";
const READER: &str = "1b5e4d1f-8e1d-4b6c-9a4f-3a7a6a4c2b02";

/// Both orders: the first pod decides nothing for the second.
#[test]
fn a_reader_and_a_writer_share_a_volume() {
    if !private_mounts("a_reader_and_a_writer_share_a_volume") {
        return;
    }
    for fs_type in ["ext4", "xfs"] {
        for order in [[WRITER, READER], [READER, WRITER]] {
            share(fs_type, order);
        }
    }
}

fn access(uid: &str) -> &'static str {
    if uid == READER { "ro" } else { "rw" }
}

fn share(fs_type: &'static str, order: [&str; 2]) {
    let node = Node::new();
    let volume = Volume::create(&node, fs_type, if fs_type == "xfs" { "320M" } else { "16M" });
    volume.bring();
    for uid in order {
        make_folder(&volume.pod(uid));
        for _ in 0..2 {
            node.must(volume.publish_as(uid, access(uid)));
        }
        let mount = only_mount_at(&volume.pod(uid));
        assert_eq!(mount.is_read_only(), uid == READER, "{}", mount.options);
        assert!(!mount.is_super_read_only(), "the file system itself must stay writable");
    }
    assert!(!only_mount_at(&volume.global()).is_read_only());
    assert_eq!(mounts_like(&volume.global()), 3);

    files::write(volume.pod(WRITER).join("f"), "written").unwrap();
    assert_eq!(files::read_to_string(volume.pod(READER).join("f")).unwrap(), "written");
    let refused = files::write(volume.pod(READER).join("f"), "changed").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::EROFS as i32));
    let refused = fs::create_dir(volume.pod(READER).join("d")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::EROFS as i32));

    for (at, uid) in order.into_iter().enumerate() {
        node.must(volume.unpublish(uid));
        fs::remove_dir(volume.pod(uid)).unwrap();
        // The other one and the global folder are as they were.
        let others = &order[at + 1..];
        assert!(others.iter().all(|other| layers_at(&volume.pod(other)) == 1));
        assert_eq!(mounts_like(&volume.global()), 1 + others.len());
        assert!(others.iter().all(|other| volume.pod(other).join("f").exists()));
    }
    volume.take_away();
    volume.must_be_sound();
    nothing_is_left(&node, &[&volume]);
}

/// A `mount` that was killed between bind and flags leaves this.
#[test]
fn a_bind_that_is_not_yet_read_only_becomes_so() {
    if !private_mounts("a_bind_that_is_not_yet_read_only_becomes_so") {
        return;
    }
    let node = Node::new();
    let volume = Volume::create(&node, "ext4", "16M");
    volume.bring();
    make_folder(&volume.pod(READER));
    node.must(volume.publish_as(READER, "rw"));
    node.must(volume.publish_as(READER, "ro"));
    assert!(only_mount_at(&volume.pod(READER)).is_read_only());
    // The other way round would hand a pod more than it was given before.
    let message = node.fails(volume.publish_as(READER, "rw"));
    assert!(message.contains("read-only"), "{message}");
    assert!(only_mount_at(&volume.pod(READER)).is_read_only());
    node.must(volume.unpublish(READER));
    volume.take_away();
    nothing_is_left(&node, &[&volume]);
}
