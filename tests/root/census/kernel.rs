//! Users of a disk that are no processes.

use super::{mounted, users_of};
use crate::checks::{eventually, number_of};
use crate::files;
use crate::holders::run;
use crate::support::{Node, loop_devices_below, output_of, skip};
use crate::volume::Volume;
use incloud_disk::model::mount::disk_users::KernelUse;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Puts a loop device on a file or disk; goes with its owner.
struct Loop {
    device: PathBuf,
}

impl Loop {
    fn on(file: &Path) -> Self {
        let device = run("losetup", &["--find", "--show", file.to_str().unwrap()]);
        Self { device: device.trim().into() }
    }

    fn name(&self) -> String {
        self.device.file_name().unwrap().to_string_lossy().into_owned()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = output_of(Command::new("losetup").arg("-d").arg(&self.device));
    }
}

#[test]
fn a_loop_device_on_the_disk_is_told() {
    needs!(mounts);
    let (node, volume) = Volume::on_a_node("ext4", "16M");
    node.must(volume.attach());
    let number = number_of(&volume.letter());
    let disk = Path::new("/dev").join(volume.letter());
    let upper = Loop::on(&disk);
    let expected = KernelUse::Loop { device: upper.name(), file: disk };
    assert_eq!(users_of(number).kernel, [expected]);
    drop(upper);
    eventually("it is gone", || users_of(number).kernel.is_empty());
    node.must(volume.detach());
    assert!(loop_devices_below(&node.base()).is_empty());
}

/// A swap area that goes with its owner.
struct Swap {
    area: PathBuf,
}

impl Swap {
    fn on(area: &Path, test: &str) -> Option<Self> {
        run("mkswap", &[area.to_str().unwrap()]);
        let output = output_of(Command::new("swapon").arg(area));
        if output.status.success() {
            return Some(Self { area: area.to_owned() });
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        skip(test, &format!("needs to be allowed to swap: {}", complaint.trim()));
        None
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = output_of(Command::new("swapoff").arg(&self.area));
    }
}

#[test]
fn a_swap_file_is_told() {
    needs!(mounts);
    let node = Node::new();
    let (volume, number) = mounted(&node, "ext4");
    // A blank in its name is written as an octal number.
    let file = volume.global().join("swap file");
    files::write_synced(&file, &vec![0; 1 << 20]);
    run("chmod", &["600", file.to_str().unwrap()]);
    if let Some(swap) = Swap::on(&file, "a_swap_file_is_told") {
        assert_eq!(users_of(number).kernel, [KernelUse::Swap(file)]);
        drop(swap);
        assert_eq!(users_of(number).kernel, []);
    }
    volume.take_away();
}
