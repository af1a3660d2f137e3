//! Two pods on one volume, one of them read-only.

use crate::checks::{layers_at, mounts_like, nothing_is_left, only_mount_at};
use crate::files;
use crate::holders::run;
use crate::volume::{Volume, make_folder};
use nix::errno::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

const WRITER: &str = "0a4f3c0e-9d0c-4a5b-8f3e-2f6f5f3b1a01";
const READER: &str = "1b5e4d1f-8e1d-4b6c-9a4f-3a7a6a4c2b02";

/// Both orders: the first pod decides nothing for the second.
#[test]
fn a_reader_and_a_writer_share_a_volume() {
    needs!(mounts);
    for order in [[WRITER, READER], [READER, WRITER]] {
        share(order);
    }
}

/// What kubelet makes of the pod's folder after `mount`: the group owns it, and a container gets
/// one of its folders.
#[test]
fn a_pod_with_a_group_and_a_folder_of_the_volume_keeps_both() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    for round in 0..2 {
        let pod = volume.bring_to_pod();
        if round == 0 {
            // SetVolumeOwnership: chown to the group, g+rwX, and the set-group-id bit for folders.
            std::os::unix::fs::chown(&pod, None, Some(2000)).unwrap();
            fs::set_permissions(&pod, fs::Permissions::from_mode(0o2775)).unwrap();
            fs::create_dir(pod.join("part")).unwrap();
            files::write_synced(&pod.join("part/f"), b"of the part");
        }
        let found = fs::metadata(&pod).unwrap();
        assert_eq!((found.gid(), found.mode() & 0o7777), (2000, 0o2775));
        // kubelet binds the subPath below its own folder, and takes it off before `unmount`.
        let part =
            node.kubelet_root().join("pods").join(crate::volume::POD).join("volume-subpaths");
        let part = part.join(&volume.pv).join("app/0");
        make_folder(&part);
        run("mount", &["--bind", pod.join("part").to_str().unwrap(), part.to_str().unwrap()]);
        assert_eq!(files::read(part.join("f")).unwrap(), b"of the part");
        assert_eq!(only_mount_at(&part).root, std::path::Path::new("/part"));
        // The same call again disturbs neither.
        node.must(volume.publish(crate::volume::POD));
        assert_eq!((layers_at(&pod), layers_at(&part)), (1, 1));
        run("umount", &[part.to_str().unwrap()]);
        volume.take_away();
    }
    volume.must_be_sound();
    nothing_is_left(&node, &[&volume]);
}

fn access(uid: &str) -> &'static str {
    if uid == READER { "ro" } else { "rw" }
}

fn share(order: [&str; 2]) {
    let (node, volume) = Volume::on_a_node("ext4", "16M");
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
    volume.ends();
    volume.must_be_sound();
}

/// A `mount` that was killed between bind and flags leaves this.
#[test]
fn a_bind_that_is_not_yet_read_only_becomes_so() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
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
    volume.ends();
}
