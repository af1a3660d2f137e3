//! `expandfs`: the cloud's volume, the disk and the file system grow while a pod runs.

use crate::checks::{nothing_is_left, random_bytes};
use crate::crash::kill_at;
use crate::files;
use crate::support::{Node, skip};
use crate::volume::{POD, Volume};
use nix::sys::statvfs::statvfs;
use std::fs;
use std::path::Path;

const MIB: u64 = 1 << 20;

#[test]
fn a_mounted_xfs_grows() {
    needs!(mounts);
    grow("xfs", 320, 640);
}

#[test]
fn a_mounted_ext4_grows() {
    needs!(mounts);
    if has_sys_resource() {
        grow("ext4", 64, 128);
    } else {
        skip("a_mounted_ext4_grows", "growing a mounted ext4 takes CAP_SYS_RESOURCE");
    }
}

#[test]
fn a_mounted_btrfs_grows() {
    needs!(mounts);
    grow("btrfs", 256, 512);
}

/// A volume made from a smaller one's copy: the disk is large already, the file system is not.
#[test]
fn a_clone_that_is_larger_than_its_file_system_grows() {
    needs!(mounts);
    let node = Node::new();
    let small = Volume::create(&node, "xfs", "320M");
    small.bring();
    files::write_synced(&small.global().join("f"), b"kept");
    small.take_away();
    let clone = Volume::create(&node, "xfs", "640M");
    fs::copy(small.image(), clone.image()).unwrap();
    fs::OpenOptions::new().write(true).open(clone.image()).unwrap().set_len(640 * MIB).unwrap();
    let pod = clone.bring_to_pod();
    assert!(bytes_of(&pod) < 330 * MIB);
    node.must(clone.expand(640 * MIB));
    assert!(bytes_of(&pod) > 540 * MIB, "the log takes a tenth");
    assert_eq!(files::read(pod.join("f")).unwrap(), b"kept");
    clone.take_away();
    clone.must_be_sound();
    nothing_is_left(&node, &[&small, &clone]);
}

#[test]
fn an_ext4_that_cannot_grow_while_it_is_mounted_grows_before() {
    needs!(mounts, seams);
    if has_sys_resource() {
        skip("an_ext4_that_cannot_grow", "a mounted ext4 can be grown with CAP_SYS_RESOURCE");
        return;
    }
    for is_killed in [false, true] {
        let (node, volume) = Volume::on_a_node("ext4", "64M");
        let pod = volume.bring_to_pod();
        let data = random_bytes(1 << 20);
        files::write_synced(&pod.join("data"), &data);
        let message = node.fails(volume.expand(128 * MIB));
        assert!(message.contains("CAP_SYS_RESOURCE"), "{message}");
        let is_large = || bytes_of(&volume.global()) > 110 * MIB;
        assert!(!is_large());
        volume.take_away();
        // The pod is started again.
        node.must(volume.attach());
        node.must(volume.wait(""));
        crate::volume::make_folder(&volume.global());
        if is_killed {
            kill_at(&node, &volume.stage(), "filesystems.check.begun");
        }
        node.must(volume.stage());
        assert!(is_large());
        let mut before_the_mount = volume.expand(128 * MIB);
        before_the_mount[3] = volume.global().to_str().unwrap().to_owned();
        node.must(before_the_mount);
        crate::volume::make_folder(&volume.pod(POD));
        node.must(volume.publish(POD));
        node.must(volume.expand(128 * MIB));
        assert!(files::read(pod.join("data")).unwrap() == data);
        // More is asked for while it is mounted: that is refused as before, and never called done.
        let message = node.fails(volume.expand(256 * MIB));
        assert!(message.contains("CAP_SYS_RESOURCE"), "{message}");
        assert!(bytes_of(&pod) < 130 * MIB);
        volume.ends();
        volume.must_be_sound();
    }
}

/// Bit 24 of the effective capabilities: ext4 asks for it, xfs does not.
fn has_sys_resource() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(bits.trim(), 16).unwrap() >> 24 & 1 == 1
}

fn bytes_of(folder: &Path) -> u64 {
    let found = statvfs(folder).unwrap();
    found.blocks() * found.fragment_size()
}

fn disk_size(volume: &Volume) -> u64 {
    let sectors = fs::read_to_string(format!("/sys/block/{}/size", volume.letter())).unwrap();
    sectors.trim().parse::<u64>().unwrap() * 512
}

fn grow(fs_type: &'static str, from: u64, to: u64) {
    let (node, volume) = Volume::on_a_node(fs_type, &format!("{from}M"));
    let pod = volume.bring_to_pod();
    let data = random_bytes(1 << 20);
    files::write_synced(&pod.join("data"), &data);
    let before = bytes_of(&pod);

    for _ in 0..2 {
        node.must(volume.expand(to * MIB));
        assert_eq!(disk_size(&volume), to * MIB);
        assert_eq!(fs::metadata(volume.image()).unwrap().len(), to * MIB);
        assert!(bytes_of(&pod) > before + (to - from) * MIB * 9 / 10);
    }
    let after = bytes_of(&pod);
    // kubelet may ask for less than there is; nothing ever shrinks.
    node.must(volume.expand(from * MIB));
    assert_eq!((bytes_of(&pod), disk_size(&volume)), (after, to * MIB));
    assert!(files::read(pod.join("data")).unwrap() == data);

    volume.take_away();
    volume.must_be_sound();
    let pod = volume.bring_to_pod();
    assert_eq!(bytes_of(&pod), after, "the next attach has the same size");
    volume.ends();
}

#[test]
fn a_file_system_that_is_not_mounted_or_read_only_does_not_grow() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("xfs", "320M");
    volume.bring();
    let message = node.fails(volume.expand(640 * MIB));
    assert!(message.contains("nothing is mounted"), "{message}");
    crate::volume::make_folder(&volume.pod(POD));
    node.must(volume.publish_as(POD, "ro"));
    let message = node.fails(volume.expand(640 * MIB));
    assert!(message.contains("read-only"), "{message}");
    // A refusal comes before the cloud is asked: no one pays for space that is not used.
    assert_eq!(disk_size(&volume), 320 * MIB);
    assert_eq!(fs::metadata(volume.image()).unwrap().len(), 320 * MIB);
    volume.ends();
}
