//! What a server's kernel shows of its disks, where the disks are loop devices.
//!
//! The kernel's loop devices show no serial. So each server has a sysfs of its own, made up here,
//! in which a disk shows the first 20 characters of its volume's id, as virtio-blk does; beside it
//! are a root disk and another program's loop device. The driver is pointed to it by a seam.

use super::output_of;
use super::sysfs::{self, Bus};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders that a server's driver reads.
#[derive(Debug, Clone)]
pub struct Shown {
    pub sysfs: PathBuf,
    pub by_id: PathBuf,
}

impl Shown {
    /// The view of a server; made when it is asked for first.
    pub fn below(folder: &Path) -> Self {
        let shown = Self { sysfs: folder.join("sys"), by_id: folder.join("by-id") };
        if !folder.exists() {
            fs::create_dir_all(shown.sysfs.join("dev/block")).expect("a sysfs");
            fs::create_dir(shown.sysfs.join("block")).expect("a sysfs");
            fs::create_dir_all(&shown.by_id).expect("udev's folder");
            let disk = |name, bus, files: &[(&str, &[u8])]| {
                sysfs::disk(&shown.sysfs, name, bus, files).expect("a disk");
            };
            disk("vda", Bus::usual("vda"), &[("dev", b"252:0"), ("serial", b"root-of-the-server")]);
            disk("loop99", Bus::Virtual, &[("dev", b"7:99"), ("loop/backing_file", b"/another")]);
        }
        shown
    }

    /// The kernel's name of a volume's disk, such as `loop3`.
    pub fn name_of(&self, volume: &str) -> Option<String> {
        let target = fs::read_link(self.link(volume)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// udev's link to a volume's disk.
    pub fn link(&self, volume: &str) -> PathBuf {
        self.by_id.join(format!("virtio-{}", serial(volume)))
    }

    /// A loop device shows as a volume's disk, with what the kernel knows of it.
    pub fn show(&self, name: &str, volume: &str) -> io::Result<()> {
        self.show_as(name, name, Bus::usual(name), &[("serial", serial(volume))])
    }

    /// The same under another name, connected otherwise, and with these words of its own.
    pub fn show_as(
        &self,
        name: &str,
        as_name: &str,
        bus: Bus,
        claims: &[(&str, &str)],
    ) -> io::Result<()> {
        const COPIED: [&str; 6] =
            ["dev", "size", "ro", "diskseq", "loop/backing_file", "queue/rotational"];
        let kernel = Path::new("/sys/block").join(name);
        let text_of = |file: &str| fs::read_to_string(kernel.join(file)).unwrap_or_default();
        let mut files: Vec<_> = COPIED.iter().map(|file| (*file, text_of(file))).collect();
        files.extend(claims.iter().map(|(file, text)| (*file, (*text).to_owned())));
        let files: Vec<_> = files.iter().map(|(file, text)| (*file, text.as_bytes())).collect();
        sysfs::disk(&self.sysfs, as_name, bus, &files).map(drop)
    }

    /// A disk goes, all of it at once.
    pub fn hide(&self, name: &str) -> io::Result<()> {
        let known = self.sysfs.join("block").join(name);
        let folder = fs::canonicalize(&known)?;
        let number = fs::read_to_string(folder.join("dev"))?;
        fs::remove_file(known)?;
        fs::remove_file(self.sysfs.join("dev/block").join(number.trim()))?;
        fs::remove_dir_all(folder)
    }

    /// A disk notices that its image has grown.
    pub fn grow(&self, name: &str) -> io::Result<()> {
        losetup(&[Path::new("--set-capacity"), &device(name)])?;
        let size = fs::read(Path::new("/sys/block").join(name).join("size"))?;
        // Never half a number.
        let half = self.sysfs.join(format!("size-of-{name}"));
        fs::write(&half, size)?;
        fs::rename(half, self.sysfs.join("block").join(name).join("size"))
    }
}

/// Binds an image to a loop device of another name than before: a disk comes back under another one.
pub fn bind(image: &Path, before: Option<&str>) -> io::Result<String> {
    let bind = || losetup(&[Path::new("--find"), Path::new("--show"), image]);
    let name = bind()?;
    if before != Some(name.as_str()) {
        return Ok(name);
    }
    // Its old one is taken while it looks for a new one.
    let other = bind()?;
    losetup(&[Path::new("--detach"), &device(&name)])?;
    Ok(other)
}

/// What virtio-blk shows of an id.
pub fn serial(volume: &str) -> &str {
    &volume[..volume.len().min(20)]
}

pub fn device(name: &str) -> PathBuf {
    Path::new("/dev").join(name)
}

/// Runs losetup; answers the name of the device that it printed, if it did.
pub fn losetup(arguments: &[&Path]) -> io::Result<String> {
    let output = output_of(Command::new("losetup").args(arguments));
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("losetup {arguments:?}: {text}")));
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(printed.trim().trim_start_matches("/dev/").to_owned())
}
