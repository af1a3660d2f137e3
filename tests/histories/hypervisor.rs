//! A hypervisor whose disks are loop devices. A disk that goes while it is in use is dead: its file
//! system answers with errors, and what the old disk still writes reaches no image.

use crate::server::hook::{Action, Call, Hook};
use crate::support::output_of;
use crate::support::server_disks::{Shown, bind, device, losetup};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const GIB: u64 = 1 << 30;

/// All hosts of a world.
#[derive(Debug)]
pub struct Hypervisor {
    base: PathBuf,
    /// The kernel's name of the disk of each volume at each server.
    disks: Mutex<BTreeMap<(String, String), String>>,
    /// The name that each volume's disk had last.
    last: Mutex<BTreeMap<String, String>>,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hypervisor {
    pub fn below(base: &Path) -> Arc<Self> {
        fs::create_dir(base.join("images")).expect("the images' folder");
        let (disks, last) = (Mutex::default(), Mutex::default());
        Arc::new(Self { base: base.to_path_buf(), disks, last })
    }

    pub fn hook(self: &Arc<Self>) -> Hook {
        let hypervisor = Arc::clone(self);
        Hook::function(move |call: &Call| {
            let done = match call.action {
                Action::Attach => hypervisor.plug(&call.server, &call.volume, call.size),
                Action::Detach => hypervisor.pull(&call.server, &call.volume),
                Action::Extend => hypervisor.extend(&call.server, &call.volume, call.size),
            };
            done.map_err(|error| error.to_string())
        })
    }

    pub fn image(&self, volume: &str) -> PathBuf {
        self.base.join("images").join(volume)
    }

    /// Makes a file system as another driver would have made it long ago.
    pub fn format(&self, volume: &str, fs_type: &str) {
        let image = self.image(volume);
        enlarge(&image, 1).expect("an image");
        let mut mkfs = Command::new(format!("mkfs.{fs_type}"));
        let done = output_of(mkfs.arg("-q").arg(&image));
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// The view of a server; made when it is asked for first.
    pub fn shown_to(&self, server: &str) -> Shown {
        Shown::below(&self.base.join("servers").join(server))
    }

    /// The kernel's name of a volume's disk that lives at this server.
    pub fn disk(&self, server: &str, volume: &str) -> Option<String> {
        lock(&self.disks).get(&(server.to_owned(), volume.to_owned())).cloned()
    }

    /// The servers that have a disk of the volume.
    pub fn servers_of(&self, volume: &str) -> Vec<String> {
        let disks = lock(&self.disks);
        disks.keys().filter(|(_, of)| of == volume).map(|(server, _)| server.clone()).collect()
    }

    pub fn plug(&self, server: &str, volume: &str, size: u64) -> io::Result<()> {
        if self.disk(server, volume).is_some() {
            return Ok(());
        }
        let image = self.image(volume);
        enlarge(&image, size)?;
        let before = lock(&self.last).get(volume).cloned();
        let name = bind(&image, before.as_deref())?;
        lock(&self.last).insert(volume.to_owned(), name.clone());
        let shown = self.shown_to(server);
        lock(&self.disks).insert((server.to_owned(), volume.to_owned()), name.clone());
        shown.show(&name, volume)?;
        point(&shown.link(volume), &device(&name))
    }

    /// The disk goes, whatever the guest says.
    pub fn pull(&self, server: &str, volume: &str) -> io::Result<()> {
        let key = (server.to_owned(), volume.to_owned());
        let name = lock(&self.disks).get(&key).cloned().ok_or(io::ErrorKind::NotFound)?;
        let shown = self.shown_to(server);
        let number = fs::read_to_string(Path::new("/sys/block").join(&name).join("dev"))?;
        shut_down(number.trim())?;
        // udev's links of this disk, wherever they were bent to.
        for link in fs::read_dir(&shown.by_id)?.flatten() {
            if fs::read_link(link.path()).is_ok_and(|to| to == device(&name)) {
                fs::remove_file(link.path())?;
            }
        }
        shown.hide(&name)?;
        lock(&self.disks).remove(&key);
        losetup(&[Path::new("--detach"), &device(&name)])?;
        let image = self.image(volume);
        let is_bound = backing_of(&name).is_some_and(|file| file == image);
        if is_bound && self.servers_of(volume).is_empty() {
            let copy = self.base.join("images/.copy");
            let how = ["--sparse=always", "--reflink=auto"];
            let copied = output_of(Command::new("cp").args(how).args([&image, &copy]));
            if !copied.status.success() {
                return Err(io::Error::other("the image cannot be copied"));
            }
            fs::rename(copy, image)?;
        }
        Ok(())
    }

    fn extend(&self, server: &str, volume: &str, size: u64) -> io::Result<()> {
        enlarge(&self.image(volume), size)?;
        let name = self.disk(server, volume).ok_or(io::ErrorKind::NotFound)?;
        self.shown_to(server).grow(&name)
    }

    /// udev's links of two disks are exchanged.
    pub fn swap_links(&self, server: &str, one: &str, two: &str) {
        let shown = self.shown_to(server);
        for (link, of) in [(one, two), (two, one)] {
            if let Some(name) = self.disk(server, of) {
                let _ = point(&shown.link(link), &device(&name));
            }
        }
    }

    /// Each link leads to its disk, and no other is there.
    pub fn mend_links(&self, server: &str) {
        let shown = self.shown_to(server);
        for link in fs::read_dir(&shown.by_id).into_iter().flatten().flatten() {
            let _ = fs::remove_file(link.path());
        }
        let disks = lock(&self.disks).clone();
        for ((_, volume), name) in disks.iter().filter(|((at, _), _)| at == server) {
            let _ = point(&shown.link(volume), &device(name));
        }
    }
}

/// The file behind a loop device; nothing when it was replaced by another of its name.
pub fn backing_of(name: &str) -> Option<PathBuf> {
    let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
    Some(PathBuf::from(file.trim()))
}

/// The link, whole at any time.
fn point(link: &Path, to: &Path) -> io::Result<()> {
    let new = link.with_extension("new");
    let _ = fs::remove_file(&new);
    symlink(to, &new)?;
    fs::rename(new, link)
}

fn enlarge(image: &Path, size: u64) -> io::Result<()> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(image)?;
    if file.metadata()?.len() < size * GIB { file.set_len(size * GIB) } else { Ok(()) }
}

/// The file system on a disk answers with errors from now on, in whatever namespace it is mounted.
fn shut_down(number: &str) -> io::Result<()> {
    let mut is_mounted = false;
    for process in fs::read_dir("/proc")?.flatten() {
        let is_process = process.file_name().to_str().is_some_and(|pid| pid.parse::<u32>().is_ok());
        let table = fs::read_to_string(process.path().join("mountinfo"));
        let (true, Ok(table)) = (is_process, table) else { continue };
        for line in table.lines().filter(|line| line.split(' ').nth(2) == Some(number)) {
            is_mounted = true;
            let target = line.split(' ').nth(4).unwrap_or("/");
            let place = process.path().join("root").join(target.trim_start_matches('/'));
            let Ok(root) = File::open(place) else { continue };
            let found = root.metadata()?.dev();
            let (major, minor) = (nix::sys::stat::major(found), nix::sys::stat::minor(found));
            // Else another mount covers this one.
            if format!("{major}:{minor}") == number {
                return end_file_system(&root);
            }
        }
    }
    if is_mounted { Err(io::Error::other("the guest does not let the disk go")) } else { Ok(()) }
}

#[allow(unsafe_code)]
fn end_file_system(root: &File) -> io::Result<()> {
    nix::ioctl_read!(shut_down_file_system, b'X', 125, u32);
    // Not even the journal is flushed.
    let mut flag = 2;
    // SAFETY: the kernel reads one u32, which lives until the call returns.
    match unsafe { shut_down_file_system(root.as_raw_fd(), &raw mut flag) } {
        // It was dead already.
        Ok(_) | Err(nix::errno::Errno::EIO) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
