//! A hypervisor whose disks are loop devices: what the cloud's hook plugs in and pulls out.
//!
//! The kernel's loop devices show no serial. So each server has a sysfs of its own, made up here,
//! in which a disk shows the first 20 characters of its volume's id, as virtio-blk does; beside it
//! are a root disk and somebody else's loop device. The driver is pointed to it by a seam.

use crate::server::hook::{Action, Call, Hook};
use crate::support::output_of;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

const GIB: u64 = 1 << 30;

/// The hypervisor of a scene.
#[derive(Debug)]
pub struct Plug {
    base: PathBuf,
    /// The kernel's name that each volume's disk had last.
    last: Mutex<BTreeMap<String, String>>,
    /// By how many bytes disks are larger than their volumes; below zero what an encryption takes.
    pub larger_by: AtomicI64,
}

/// What a server's kernel shows of its disks.
#[derive(Debug, Clone)]
pub struct Shown {
    pub sysfs: PathBuf,
    pub by_id: PathBuf,
}

impl Plug {
    /// Images and servers are in this folder.
    pub fn below(base: &Path) -> Arc<Self> {
        fs::create_dir(base.join("images")).unwrap();
        Arc::new(Self {
            base: base.to_path_buf(),
            last: Mutex::default(),
            larger_by: AtomicI64::new(0),
        })
    }

    /// For the cloud.
    pub fn hook(self: &Arc<Self>) -> Hook {
        let plug = Arc::clone(self);
        Hook::function(move |call| plug.act(call).map_err(|error| error.to_string()))
    }

    pub fn image(&self, volume: &str) -> PathBuf {
        self.base.join("images").join(volume)
    }

    /// The view of a server; made when it is asked for first.
    pub fn shown_to(&self, server: &str) -> Shown {
        let folder = self.base.join("servers").join(server);
        let shown = Shown { sysfs: folder.join("sys"), by_id: folder.join("by-id") };
        if !folder.exists() {
            fs::create_dir_all(shown.sysfs.join("dev/block")).unwrap();
            fs::create_dir(shown.sysfs.join("block")).unwrap();
            fs::create_dir_all(&shown.by_id).unwrap();
            shown.disk("vda", &[("dev", "252:0"), ("serial", "root-of-the-server")]).unwrap();
            shown.disk("loop99", &[("dev", "7:99"), ("loop/backing_file", "/somebody")]).unwrap();
        }
        shown
    }

    fn act(&self, call: &Call) -> io::Result<()> {
        let shown = self.shown_to(&call.server);
        match call.action {
            Action::Attach => self.plug_in(call, &shown),
            Action::Detach => self.pull_out(call, &shown),
            Action::Extend => self.extend(call, &shown),
        }
    }

    fn plug_in(&self, call: &Call, shown: &Shown) -> io::Result<()> {
        self.enlarge(call)?;
        let image = self.image(&call.volume);
        let bind = || losetup(&[Path::new("--find"), Path::new("--show"), &image]);
        let mut name = bind()?;
        // A disk comes back under another name: its old one is taken while it looks for a new one.
        let mut last = self.last.lock().unwrap();
        if last.get(&call.volume) == Some(&name) {
            let other = bind()?;
            losetup(&[Path::new("--detach"), &device(&name)])?;
            name = other;
        }
        last.insert(call.volume.clone(), name.clone());
        let kernel = Path::new("/sys/block").join(&name);
        let text_of = |file: &str| fs::read_to_string(kernel.join(file)).unwrap_or_default();
        let copied = ["dev", "size", "ro", "diskseq", "loop/backing_file", "queue/rotational"];
        let mut files: Vec<(&str, String)> =
            copied.iter().map(|file| (*file, text_of(file))).collect();
        files.push(("serial", serial(&call.volume).to_owned()));
        let files: Vec<_> = files.iter().map(|(file, text)| (*file, text.as_str())).collect();
        shown.disk(&name, &files)?;
        symlink(device(&name), shown.link(&call.volume))
    }

    fn pull_out(&self, call: &Call, shown: &Shown) -> io::Result<()> {
        let name = shown.name_of(&call.volume).ok_or(io::ErrorKind::NotFound)?;
        let folder = shown.sysfs.join("block").join(&name);
        let number = fs::read_to_string(folder.join("dev"))?;
        fs::remove_file(shown.link(&call.volume))?;
        let away = shown.sysfs.join(&name);
        fs::rename(&folder, &away)?;
        fs::remove_file(shown.sysfs.join("dev/block").join(number.trim()))?;
        fs::remove_dir_all(away)?;
        losetup(&[Path::new("--detach"), &device(&name)]).map(drop)
    }

    fn extend(&self, call: &Call, shown: &Shown) -> io::Result<()> {
        self.enlarge(call)?;
        let name = shown.name_of(&call.volume).ok_or(io::ErrorKind::NotFound)?;
        losetup(&[Path::new("--set-capacity"), &device(&name)])?;
        let size = fs::read(Path::new("/sys/block").join(&name).join("size"))?;
        // Never half a number.
        let half = shown.sysfs.join(format!("size-of-{name}"));
        fs::write(&half, size)?;
        fs::rename(half, shown.sysfs.join("block").join(name).join("size"))
    }

    /// Makes the image as large as the cloud says; what is in it stays.
    fn enlarge(&self, call: &Call) -> io::Result<()> {
        let image = self.image(&call.volume);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(image)?;
        let size = call.size * GIB;
        file.set_len(size.saturating_add_signed(self.larger_by.load(Ordering::Relaxed)))
    }
}

impl Shown {
    /// The kernel's name of a volume's disk, such as `loop3`.
    pub fn name_of(&self, volume: &str) -> Option<String> {
        let target = fs::read_link(self.link(volume)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// udev's link to a volume's disk.
    pub fn link(&self, volume: &str) -> PathBuf {
        self.by_id.join(format!("virtio-{}", serial(volume)))
    }

    /// Shows a disk with these files, all of it at once.
    fn disk(&self, name: &str, files: &[(&str, &str)]) -> io::Result<()> {
        let new = self.sysfs.join(name);
        fs::create_dir_all(new.join("holders"))?;
        for (file, text) in files {
            let path = new.join(file);
            fs::create_dir_all(path.parent().unwrap_or(&new))?;
            fs::write(path, text)?;
            if *file == "dev" {
                let number = self.sysfs.join("dev/block").join(text.trim());
                symlink(Path::new("../../block").join(name), number)?;
            }
        }
        fs::rename(new, self.sysfs.join("block").join(name))
    }
}

/// What virtio-blk shows of an id.
fn serial(volume: &str) -> &str {
    &volume[..volume.len().min(20)]
}

fn device(name: &str) -> PathBuf {
    Path::new("/dev").join(name)
}

/// Runs losetup; answers the name of the device that it printed, if it did.
fn losetup(arguments: &[&Path]) -> io::Result<String> {
    let output = output_of(Command::new("losetup").args(arguments));
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("losetup {arguments:?}: {text}")));
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(printed.trim().trim_start_matches("/dev/").to_owned())
}
