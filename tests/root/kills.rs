//! `kill -9` at random moments.

use crate::checks::{backing_file, digest, layers_at, nothing_is_left, random_bytes};
use crate::files;
use crate::mkfs::goes_on_or_is_given_up;
use crate::support::{Node, spawn};
use crate::volume::{Call, POD, Volume, make_folder};
use std::fs;
use std::time::Duration;

/// Random moments. `INCLOUD_DISK_SEED` repeats those of a run.
#[derive(Debug)]
struct Moments {
    state: u64,
}

impl Moments {
    fn new() -> Self {
        let fresh = || u64::from_le_bytes(random_bytes(8).try_into().unwrap());
        let given = std::env::var("INCLOUD_DISK_SEED").ok().and_then(|text| text.parse().ok());
        let state = given.unwrap_or_else(fresh) | 1;
        println!("INCLOUD_DISK_SEED={state}");
        Self { state }
    }

    /// From 0 to this many milliseconds, by Marsaglia's xorshift.
    fn within(&mut self, milliseconds: u64) -> Duration {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Duration::from_micros(self.state % (milliseconds * 1000))
    }
}

/// Starts a call and kills it after this time, wherever it is then.
fn kill_after(node: &Node, call: &Call, moment: Duration) {
    let (mut child, _output) = spawn(node.command(call));
    std::thread::sleep(moment);
    child.kill().unwrap();
    child.wait().unwrap();
}

const ROUNDS: usize = 10;

/// About how many milliseconds a call takes, a blank disk's mkfs included; some are killed after
/// their answer, which must be as good.
const CLOUD_CALL: u64 = 15;
const MOUNT_CALL: u64 = 30;

#[test]
fn an_attach_killed_anywhere_is_finished_by_the_next_one() {
    needs!(mounts);
    let (node, mut moments) = (Node::new(), Moments::new());
    let blank = Volume::create(&node, "ext4", "16M");
    let full = Volume::create(&node, "ext4", "16M");
    let data = random_bytes(1 << 20);
    files::write_synced(&full.bring_to_pod().join("data"), &data);
    full.take_away();
    for volume in [&blank, &full] {
        for _ in 0..ROUNDS {
            kill_after(&node, &volume.attach(), moments.within(CLOUD_CALL));
            node.must(volume.attach());
            let device = node.must(volume.wait(""))["device"].as_str().unwrap().to_owned();
            let device = fs::canonicalize(device).unwrap();
            let letter = device.file_name().unwrap().to_str().unwrap();
            assert_eq!(backing_file(letter), volume.image().to_str().unwrap());
            node.must(volume.detach());
        }
        nothing_is_left(&node, &[volume]);
    }
    assert!(files::read(full.bring_to_pod().join("data")).unwrap() == data);
    full.take_away();
    full.must_be_sound();
    nothing_is_left(&node, &[&blank, &full]);
}

#[test]
fn a_detach_killed_anywhere_is_finished_by_the_next_one() {
    needs!(mounts);
    let (node, mut moments) = (Node::new(), Moments::new());
    let volume = Volume::create(&node, "ext4", "16M");
    for _ in 0..ROUNDS {
        node.must(volume.attach());
        kill_after(&node, &volume.detach(), moments.within(CLOUD_CALL));
        node.must(volume.detach());
        // Nothing keeps it from going elsewhere.
        node.must(volume.attach_to("node-b"));
        node.must(volume.detach_from("node-b"));
        nothing_is_left(&node, &[&volume]);
    }
}

#[test]
fn a_mountdevice_killed_anywhere_on_a_blank_disk_goes_on_or_is_given_up() {
    needs!(mounts);
    let mut moments = Moments::new();
    for (fs_type, size) in [("ext4", "64M"), ("xfs", "320M")] {
        let node = Node::new();
        for _ in 0..ROUNDS {
            let volume = Volume::create(&node, fs_type, size);
            node.must(volume.attach());
            make_folder(&volume.global());
            kill_after(&node, &volume.stage(), moments.within(MOUNT_CALL));
            goes_on_or_is_given_up(&volume);
            volume.ends();
            volume.must_be_sound();
        }
    }
}

#[test]
fn a_mountdevice_killed_anywhere_on_a_disk_with_data_keeps_it() {
    needs!(mounts);
    let mut moments = Moments::new();
    for (fs_type, size) in [("ext4", "64M"), ("xfs", "320M")] {
        let (node, volume) = Volume::on_a_node(fs_type, size);
        let data = random_bytes(1 << 20);
        files::write_synced(&volume.bring_to_pod().join("data"), &data);
        volume.take_away();
        for _ in 0..ROUNDS {
            node.must(volume.attach());
            make_folder(&volume.global());
            kill_after(&node, &volume.stage(), moments.within(MOUNT_CALL));
            node.must(volume.stage());
            assert_eq!(layers_at(&volume.global()), 1);
            assert!(files::read(volume.global().join("data")).unwrap() == data);
            volume.take_away();
            volume.must_be_sound();
        }
        assert!(!volume.pod(POD).exists());
        nothing_is_left(&node, &[&volume]);
    }
}

/// It is blank, or whole, or a person decides.
#[test]
fn a_disk_that_left_after_a_kill_is_never_overwritten() {
    needs!(mounts);
    let (node, mut moments) = (Node::new(), Moments::new());
    for round in 0..ROUNDS {
        let (fs_type, size) = [("ext4", "64M"), ("xfs", "320M")][round % 2];
        let volume = Volume::create(&node, fs_type, size);
        node.must(volume.attach());
        make_folder(&volume.global());
        kill_after(&node, &volume.stage(), moments.within(MOUNT_CALL));
        node.must(volume.unstage());
        // The killed mkfs may still be on its way out, and keeps the disk busy until then.
        crate::checks::eventually("the disk is free", || {
            node.call(volume.detach()).json["status"] == "Success"
        });
        let before = digest(&volume.image());
        node.must(volume.attach());
        if node.call(volume.stage()).json["status"] == "Success" {
            volume.take_away();
            volume.must_be_sound();
        } else {
            node.must(volume.detach());
            assert_eq!(digest(&volume.image()), before, "a refused disk was changed");
        }
    }
}
