//! Letters: a volume's loop device has another number each time.

use crate::checks::{backing_file, nothing_is_left, number_of, only_mount_at};
use crate::files;
use crate::support::{Node, output_of};
use crate::volume::{POD, Volume};
use std::fs::File;
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
