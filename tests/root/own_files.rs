//! The disk of the driver's own files hangs, and not the volume's: that is what is said.

use crate::checks::nothing_is_left;
use crate::hanging::{ANSWERED, DEADLINE, Running, hurry, left_in};
use crate::hanging_calls::Frozen;
use crate::holders::{must_end, run};
use crate::support::Node;
use crate::volume::Volume;
use nix::mount::{MntFlags, umount2};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A file system of its own for a folder of the driver's.
struct Own {
    folder: PathBuf,
    device: String,
}

impl Own {
    #[track_caller]
    fn mounted(node: &Node, name: &str) -> Self {
        let folder = node.own().join(name);
        fs::create_dir_all(&folder).unwrap();
        let image = node.base().join(format!("{name}.img"));
        let image = image.to_str().unwrap();
        run("truncate", &["--size=32M", image]);
        run("mkfs.ext4", &["-q", image]);
        let device = run("losetup", &["--find", "--show", image]).trim().to_owned();
        run("mount", &[&device, folder.to_str().unwrap()]);
        Self { folder, device }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
        let _ = std::process::Command::new("losetup").args(["-d", &self.device]).output();
    }
}

#[test]
fn the_disk_of_the_drivers_own_files_is_named_and_not_the_volumes() {
    needs!(mounts);
    for name in ["state", "log"] {
        let node = Node::new();
        let own = Own::mounted(&node, name);
        let volume = Volume::create(&node, "ext4", "64M");
        node.must(volume.attach());
        let disk = volume.letter();
        hurry(&node);
        let frozen = Frozen::at(&own.folder);
        let begin = Instant::now();
        let running = Running::start(node.command(volume.detach()));
        let answer = running.answer(ANSWERED).expect("an answer");
        assert!(begin.elapsed() < Duration::from_secs(DEADLINE + 12), "{:?}", begin.elapsed());
        assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
        let message = answer.json["message"].as_str().unwrap().to_owned();
        let folder = own.folder.to_str().unwrap();
        assert!(message.contains(folder) && message.contains("of the driver's own"), "{message}");
        assert!(message.contains("not the volume's"), "{message}");
        assert!(!message.contains(&disk) && !message.contains("detach --force"), "{message}");
        let left = left_in(&message);
        // It ends with that disk, and all goes on.
        drop(frozen);
        must_end(left);
        node.configure("");
        node.must(volume.attach());
        node.must(volume.detach());
        drop(own);
        nothing_is_left(&node, &[&volume]);
    }
}
