//! Letters: a volume's loop device has another number each time.

use crate::checks::{backing_file, nothing_is_left, number_of, only_mount_at};
use crate::files;
use crate::support::{Node, output_of};
use crate::volume::{POD, Volume};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A disk of no cloud that has taken a letter.
#[derive(Debug)]
pub struct Taken {
    device: PathBuf,
}

impl Taken {
    /// Takes this very letter, if it is free.
    pub fn now(node: &Node, letter: &str) -> Option<Self> {
        if !backing_file(letter).is_empty() {
            // Not even opened: it may be another test's, which looks who opens its disk.
            return None;
        }
        let (device, file) = (Path::new("/dev").join(letter), node.base().join("filler.img"));
        File::create(&file).unwrap().set_len(1 << 20).unwrap();
        let bound = output_of(Command::new("losetup").args([&device, &file]));
        // Not `then_some`: that would make one in either case, and drop it.
        bound.status.success().then(|| Self { device })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = output_of(Command::new("losetup").arg("-d").arg(&self.device));
    }
}

/// Attaches a volume that had this letter, so that it gets another one. What takes the letter
/// meanwhile, another test or we, keeps it long enough or it is tried again.
#[track_caller]
pub fn attach_under_another_letter(volume: &Volume, letter: &str) -> Option<Taken> {
    for _ in 0..50 {
        let taken = Taken::now(&volume.node, letter);
        volume.node.must(volume.attach());
        if volume.letter() != letter {
            return taken;
        }
        volume.node.must(volume.detach());
    }
    panic!("{letter} could not be taken");
}

/// Two volumes come back under each other's letter.
#[test]
fn volumes_that_swap_letters_keep_their_data() {
    needs!(mounts);
    let node = Node::new();
    let volumes = [(); 2].map(|()| Volume::create(&node, "ext4", "16M"));
    for volume in &volumes {
        let pod = volume.bring_to_pod();
        files::write(pod.join("whose"), &volume.id).unwrap();
        volume.take_away();
    }
    for order in [[0, 1], [1, 0], [0, 1]] {
        let volumes = order.map(|index| &volumes[index]);
        for volume in volumes {
            volume.bring_to_pod();
        }
        for volume in volumes {
            assert_eq!(files::read_to_string(volume.pod(POD).join("whose")).unwrap(), volume.id);
            assert_eq!(only_mount_at(&volume.pod(POD)).number, number_of(&volume.letter()));
        }
        for volume in volumes {
            volume.take_away();
        }
    }
    nothing_is_left(&node, &[&volumes[0], &volumes[1]]);
}

/// kubelet hands over the device it remembers; after a reboot that may be another volume's.
#[test]
fn a_remembered_device_of_another_volume_is_not_followed() {
    needs!(mounts);
    let node = Node::new();
    let (ours, other) =
        (Volume::create(&node, "ext4", "16M"), Volume::create(&node, "ext4", "16M"));
    node.must(ours.attach());
    node.must(other.attach());
    let other_device = format!("/dev/{}", other.letter());
    let reply = node.must(ours.wait(&other_device));
    assert_eq!(reply["device"], ours.link().to_str().unwrap());
    let mut stage = ours.stage();
    stage[2] = other_device;
    crate::volume::make_folder(&ours.global());
    node.must(stage);
    assert_eq!(only_mount_at(&ours.global()).number, number_of(&ours.letter()));
    ours.take_away();
    node.must(other.detach());
    nothing_is_left(&node, &[&ours, &other]);
}

/// The link carries 20 characters of the id, as virtio does: two volumes can share it.
#[test]
fn volumes_that_share_a_link_are_not_mixed_up() {
    needs!(mounts);
    let node = Node::new();
    let mut volumes = [(); 2].map(|()| Volume::create(&node, "ext4", "16M"));
    let twin = format!("{}-other", &volumes[0].id[..20]);
    node.create(&twin, "16M");
    volumes[1].id = twin;
    for volume in &volumes {
        node.must(volume.attach());
    }
    for volume in &volumes {
        let device = node.must(volume.wait(""))["device"].as_str().unwrap().to_owned();
        let letter = fs::canonicalize(&device).unwrap();
        let letter = letter.file_name().unwrap().to_str().unwrap();
        assert_eq!(backing_file(letter), volume.image().to_str().unwrap(), "{device}");
        crate::volume::make_folder(&volume.global());
        node.must(volume.stage());
        assert_eq!(only_mount_at(&volume.global()).number, number_of(letter));
    }
    for volume in &volumes {
        volume.take_away();
    }
    nothing_is_left(&node, &[&volumes[0], &volumes[1]]);
}
