//! Marks beside a file system: what is believed of a disk that shows both, and what an image may
//! not make the kernel do.

use crate::checks::{digest, layers_at, nothing_is_left, only_mount_at};
use crate::files;
use crate::holders::run;
use crate::support::Node;
use crate::support::disks::within;
use crate::support::pods::{Order, Plan};
use crate::volume::{Volume, make_folder};
use nix::mount::{MntFlags, umount2};
use std::path::Path;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 320 * MIB;

/// A volume whose image has a file system by the tool of that kind, and is changed after.
fn prepared(node: &Node, maker: &[&str], change: impl FnOnce(&Path)) -> Volume {
    let volume = Volume::create(node, "", &SIZE.to_string());
    let image = volume.image();
    let path = image.to_str().unwrap();
    let words: Vec<&str> = maker[1..].iter().copied().chain([path]).collect();
    run(maker[0], &words);
    change(&image);
    node.must(volume.attach());
    make_folder(&volume.global());
    volume
}

const EXT4: &[&str] = &["mkfs.ext4", "-qF"];
const SMALL_BLOCKS: &[&str] = &["mkfs.ext4", "-qF", "-b", "1024"];
const EXT3: &[&str] = &["mkfs.ext3", "-qF"];
const XFS: &[&str] = &["mkfs.xfs", "-qf"];
const BTRFS: &[&str] = &["mkfs.btrfs", "-qf"];

/// The marks of containers that lie where a file's data may lie, from the end of the disk.
const AT_THE_END: [(u64, &[u8]); 8] = [
    (8192, b"\xfc\x4e\x2b\xa9"),
    (12_288, b"\xfc\x4e\x2b\xa9"),
    (65_536, b"\xfc\x4e\x2b\xa9"),
    (65_536, b"\xa9\x2b\x4e\xfc"),
    (512, b"\xde\x11\xde\x11"),
    (1024, b"NVIDIA"),
    (63 * 512, b"Promise Technology, Inc."),
    (4096 - 60, b"\x83\x74\x02\x6b"),
];

#[test]
fn a_files_data_that_looks_like_a_mark_does_not_hide_its_file_system() {
    needs!(mounts);
    for maker in [EXT4, XFS, BTRFS] {
        let node = Node::new();
        for (before_the_end, mark) in AT_THE_END {
            let volume = prepared(&node, maker, |image| {
                files::write_at(image, SIZE - before_the_end, mark);
            });
            node.must(volume.stage());
            assert_eq!(layers_at(&volume.global()), 1);
            volume.take_away();
        }
    }
}

/// A superblock is left of before the disk became a member: the first 4 KiB of version 1.2 are not
/// written by mdadm, and version 1.0 leaves all but the end.
#[test]
fn a_whole_raid_superblock_overrules_a_file_system_that_was_there_before() {
    needs!(mounts);
    let node = Node::new();
    for (minor, at) in [(0u32, SIZE - 8192), (2, 4096)] {
        let volume = prepared(&node, SMALL_BLOCKS, |image| {
            files::write_at(image, at, &raid_member(minor, at, true));
        });
        let before = digest(&volume.image());
        let message = node.fails(volume.stage());
        assert!(message.contains("Linux RAID") && message.contains("ext4"), "{message}");
        assert_eq!(layers_at(&volume.global()), 0);
        node.must(volume.detach());
        assert_eq!(digest(&volume.image()), before);
        // The same with a wrong checksum, or copied from another place, is a file's data.
        for (place, is_right) in [(at, false), (at + 512, true)] {
            let volume = prepared(&node, SMALL_BLOCKS, |image| {
                let where_it_lies = if minor == 0 { at } else { SIZE - 8192 };
                files::write_at(image, where_it_lies, &raid_member(minor, place, is_right));
            });
            node.must(volume.stage());
            volume.take_away();
        }
    }
    nothing_is_left(&node, &[]);
}

/// `struct mdp_superblock_1` of half of a mirror.
fn raid_member(minor: u32, at: u64, with_checksum: bool) -> Vec<u8> {
    let mut sb = vec![0; 256 + 4];
    let mut put = |at: usize, bytes: &[u8]| sb[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\xfc\x4e\x2b\xa9\x01");
    put(16, b"incloud-disk-md!");
    put(72, &1u32.to_le_bytes());
    put(80, &(SIZE / 512 - 2048).to_le_bytes());
    put(92, &2u32.to_le_bytes());
    put(128, &(if minor == 0 { 0u64 } else { 2048 }).to_le_bytes());
    put(136, &(SIZE / 512 - 2048).to_le_bytes());
    put(144, &(at / 512).to_le_bytes());
    put(220, &2u32.to_le_bytes());
    put(256, &0xfffe_0000_u32.to_le_bytes());
    let sum: u64 =
        sb.chunks(4).map(|word| u64::from(u32::from_le_bytes(word.try_into().unwrap()))).sum();
    let folded = u32::try_from((sum & 0xffff_ffff) + (sum >> 32)).unwrap();
    let folded = if with_checksum { folded } else { folded ^ 1 };
    sb[216..220].copy_from_slice(&folded.to_le_bytes());
    sb
}

/// ZFS leaves the first 8 KiB of its disks as they are: an ext's superblock with them.
#[test]
fn a_zfs_label_overrules_a_superblock_that_was_there_before() {
    needs!(mounts);
    let node = Node::new();
    let label: &[u8] =
        b"\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\0\0\x24\0\0\0\x20\0\0\0\x07version\0\0\0\0\x08";
    let volume = prepared(&node, EXT4, |image| files::write_at(image, 16_384, label));
    let before = digest(&volume.image());
    let message = node.fails(volume.stage());
    assert!(message.contains("zfs"), "{message}");
    node.must(volume.detach());
    assert_eq!(digest(&volume.image()), before);
    nothing_is_left(&node, &[&volume]);
}

fn has_option(options: &str, wanted: &str) -> bool {
    options.split(',').any(|one| one == wanted)
}

/// The option errors=panic is refused; an image gets the same answer by other ways.
#[test]
fn an_image_cannot_make_the_machine_panic() {
    needs!(mounts);
    let node = Node::new();
    for maker in [EXT4, EXT3] {
        let volume = prepared(&node, maker, |image| {
            run("tune2fs", &["-e", "panic", image.to_str().unwrap()]);
        });
        node.must(volume.stage());
        let options = only_mount_at(&volume.global()).super_options;
        // It is shown because it is not what the superblock asks for.
        assert!(has_option(&options, "errors=remount-ro"), "{options}");
        volume.take_away();
    }
    nothing_is_left(&node, &[]);
}

/// Options that stand in the superblock are the kernel's at each mount, and so are devices.
#[test]
fn what_a_superblock_asks_for_is_measured_as_an_option_is() {
    needs!(mounts);
    let node = Node::new();
    for wish in ["errors=panic", "journal_path=/dev/loop0", "test_dummy_encryption", "abort"] {
        let volume = prepared(&node, EXT4, |image| {
            let options = format!("mount_opts={wish}");
            run("tune2fs", &["-E", &options, image.to_str().unwrap()]);
        });
        let message = node.fails(volume.stage());
        assert!(message.contains("superblock asks for"), "{wish}: {message}");
        assert!(message.contains("tune2fs -E mount_opts="), "{message}");
        assert_eq!(layers_at(&volume.global()), 0);
        node.must(volume.detach());
    }
    // What an owner may wish, an image may have.
    let volume = prepared(&node, EXT4, |image| {
        run("tune2fs", &["-E", "mount_opts=commit=33", image.to_str().unwrap()]);
    });
    node.must(volume.stage());
    let options = only_mount_at(&volume.global()).super_options;
    assert!(has_option(&options, "commit=33"), "{options}");
    volume.take_away();
    // A journal on the device 7:0, which may be another volume's.
    let volume = prepared(&node, &["mkfs.ext4", "-qF", "-O", "^metadata_csum"], |image| {
        files::write_at(image, 1024 + 0xe0, &[0, 0, 0, 0, 0, 7, 0, 0]);
    });
    let message = node.fails(volume.stage());
    assert!(message.contains("journal on another device"), "{message}");
    node.must(volume.detach());
    nothing_is_left(&node, &[]);
}

/// A volume that is mounted, and another one that is a clone of it.
fn original_and_clone(node: &Node) -> (Volume, Volume) {
    let original = Volume::create(node, "xfs", &SIZE.to_string());
    original.bring();
    files::write_synced(&original.global().join("f"), b"of the original");
    original.take_away();
    let clone = Volume::create(node, "xfs", &SIZE.to_string());
    std::fs::copy(original.image(), clone.image()).unwrap();
    original.bring();
    (original, clone)
}

/// Two volumes, one a clone of the other, on one machine.
#[test]
fn an_xfs_clone_beside_its_original_is_called_one() {
    needs!(mounts);
    let node = Node::new();
    let (original, clone) = original_and_clone(&node);
    node.must(clone.attach());
    make_folder(&clone.global());
    let message = node.fails(clone.stage());
    assert!(message.contains("has the same UUID"), "{message}");
    assert!(message.contains(original.global().to_str().unwrap()), "{message}");
    let way = format!("xfs_admin -U generate /dev/{}", clone.letter());
    assert!(message.contains(&way), "{message}");
    assert_eq!(layers_at(&clone.global()), 0);
    // What ends it.
    run("xfs_admin", &["-U", "generate", &format!("/dev/{}", clone.letter())]);
    node.must(clone.stage());
    files::write_synced(&clone.global().join("g"), b"of the clone");
    assert!(!original.global().join("g").exists());
    clone.take_away();
    original.take_away();
    nothing_is_left(&node, &[&original, &clone]);
}

/// The original is mounted where this machine's own table does not show it: in a container alone, and
/// in no table at all.
#[test]
fn an_xfs_clone_of_what_is_mounted_elsewhere_is_called_one() {
    needs!(pods);
    let node = Node::new();
    let (original, clone) = original_and_clone(&node);
    let mut container = Plan::outside().seeing(&original.global(), "/data").start();
    run("umount", &[original.global().to_str().unwrap()]);
    node.must(clone.attach());
    make_folder(&clone.global());
    let message = node.fails(clone.stage());
    let disk = format!("disk {} (", original.letter());
    for words in ["has the same UUID", &disk, &format!("{} (", container.pid()), "/data"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    container.must(&Order::Open { path: "/data/f".into() });
    within(container.pid(), || umount2("/data", MntFlags::MNT_DETACH).unwrap());
    let message = node.fails(clone.stage());
    assert!(message.contains(&disk) && message.contains("no mount table"), "{message}");
    container.die();
    node.must(original.unstage());
    node.must(clone.stage());
    clone.take_away();
    node.must(original.detach());
    std::fs::remove_dir(original.global()).unwrap();
    nothing_is_left(&node, &[&original, &clone]);
}

/// The kernel tells the disks of a btrfs by their UUID alone: a clone is never its original.
#[test]
fn a_btrfs_clone_beside_its_original_is_itself_or_refused() {
    needs!(mounts);
    let node = Node::new();
    let original = Volume::create(&node, "btrfs", &SIZE.to_string());
    original.bring();
    original.take_away();
    let clone = Volume::create(&node, "btrfs", &SIZE.to_string());
    std::fs::copy(original.image(), clone.image()).unwrap();
    original.bring();
    files::write_synced(&original.global().join("f"), b"of the original");
    node.must(clone.attach());
    make_folder(&clone.global());
    let answer = node.call(clone.stage());
    if answer.json["status"] == "Success" {
        assert!(!clone.global().join("f").exists(), "the wrong disk is mounted");
        files::write_synced(&clone.global().join("g"), b"of the clone");
        assert!(!original.global().join("g").exists());
        clone.take_away();
    } else {
        assert_eq!(layers_at(&clone.global()), 0);
        assert!(answer.text.contains("UUID") || answer.text.contains("not the volume's disk"));
        node.must(clone.detach());
    }
    assert_eq!(files::read(original.global().join("f")).unwrap(), b"of the original");
    original.take_away();
    nothing_is_left(&node, &[&original, &clone]);
}
