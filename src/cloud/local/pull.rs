//! Pulls a disk while it is in use, so that the old disk can never write again.
//!
//! Three things in this order: the file system on it is shut down, the loop device is told to go
//! with its last user, and its image's name is given to a sparse copy. A process that
//! still holds the old disk holds an unlinked file: late writes end there. (With the name left on the
//! same file, late writes of the dead disk damaged the new one in every try.) sysfs shows such a loop device as `(deleted)`, which counts
//! as absent everywhere.

use super::store::Shelf;
use crate::failpoints;
use crate::host::safe_path::Way;
use crate::host::{device_nodes, kernel, mount_tables};
use crate::model::disk::device::{Device, DeviceNumber, Identity};
use crate::model::error::{Error, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::mountinfo::MountTable;
use crate::ports::host::Devices;
use rustix::fs::ResolveFlags;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What a pull did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The disk that is gone.
    pub kernel_name: String,
    /// Whether a file system was mounted on it, and shut down.
    pub killed_file_system: bool,
}

/// Pulls the disk. The caller holds the cloud's lock.
pub fn pull(shelf: &Shelf, devices: &dyn Devices, id: &VolumeId, disk: &Device) -> Result<Pulled> {
    let node = device_nodes::open_to_read(disk)?;
    // From here on the number cannot go to another volume's disk; until here it could.
    devices.check(&Identity::BackingFile(shelf.image(id)), disk)?;
    let killed_file_system = shut_down(disk.number)?;
    failpoints::step("local.pull.shut-down");

    // While this node is open the device stays, so a pull that is killed here can be repeated: the
    // disk still shows the image.
    kernel::loop_unbind(&node)
        .map_err(|errno| Error::io(format!("clear {}", disk.kernel_name), &errno.into()))?;
    failpoints::step("local.pull.let-go");

    let image = shelf.image(id);
    let copy = shelf.copy(id);
    let copied = copy_sparsely(&image, &copy).and_then(|()| {
        failpoints::step("local.pull.copied");
        fs::rename(&copy, &image)
    });
    copied.map_err(|error| {
        let _ = fs::remove_file(&copy);
        Error::io(format!("copy {}", image.display()), &error)
    })?;
    Ok(Pulled { kernel_name: disk.kernel_name.clone(), killed_file_system })
}

/// Shuts down the file system on a device, in whatever namespace it is mounted: one mount of it
/// is reached through the root folder of a process that sees it.
fn shut_down(number: DeviceNumber) -> Result<bool> {
    let processes = fs::read_dir("/proc").map_err(|error| Error::io("read /proc", &error))?;
    let own = PathBuf::from("/proc/self");
    let others = processes.flatten().map(|entry| entry.path()).filter(|path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.parse::<u32>().is_ok())
    });
    let mut last_failure = None;
    for process in std::iter::once(own).chain(others) {
        // A process that ended meanwhile has nothing mounted.
        let table = fs::File::open(process.join("mountinfo"));
        let Ok(text) = table.and_then(mount_tables::read) else { continue };
        let table = MountTable::parse(&text)?;
        for mount in table.of(number) {
            match shut_down_at(&process, &mount.target, number) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => last_failure = Some(error),
            }
        }
    }
    last_failure.map_or(Ok(false), Err)
}

fn shut_down_at(process: &Path, target: &Path, number: DeviceNumber) -> Result<bool> {
    let below_root = target.strip_prefix("/").unwrap_or(target);
    // The names are the container's: what they lead to is opened for reading only once its device number is known.
    let place =
        File::options().read(true).custom_flags(nix::libc::O_PATH).open(process.join("root"));
    let place = place.map(|root| Way::best().below(root, below_root, ResolveFlags::empty()));
    let Ok(Ok(place)) = place else { return Ok(false) };
    let place = File::from(place);
    let Ok(found) = place.metadata() else { return Ok(false) };
    let (major, minor) = (nix::sys::stat::major(found.dev()), nix::sys::stat::minor(found.dev()));
    if (major, minor) != (u64::from(number.major), u64::from(number.minor)) {
        // Another mount covers this one.
        return Ok(false);
    }
    let reopened = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{}", place.as_raw_fd()));
    let Ok(reopened) = reopened else { return Ok(false) };
    match kernel::shutdown_file_system(&reopened) {
        // It was dead already.
        Ok(()) | Err(nix::errno::Errno::EIO) => Ok(true),
        Err(errno) => Err(Error::io(
            format!("shut down the file system at {}", target.display()),
            &errno.into(),
        )),
    }
}

/// Copies what is not a hole; the copy is on the disk when this returns.
pub(super) fn copy_sparsely(from: &Path, to: &Path) -> std::io::Result<()> {
    use nix::unistd::{Whence, lseek};
    const PIECE: usize = 1024 * 1024;
    let source = File::open(from)?;
    let target = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    let signed = |offset: u64| i64::try_from(offset).map_err(std::io::Error::other);
    let unsigned = |offset: i64| u64::try_from(offset).map_err(std::io::Error::other);
    while at < length {
        let start = match lseek(&source, signed(at)?, Whence::SeekData) {
            Ok(start) => unsigned(start)?,
            // No data from here to the end.
            Err(nix::errno::Errno::ENXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        let end = unsigned(lseek(&source, signed(start)?, Whence::SeekHole)?)?;
        at = start;
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let got = source.read_at(&mut buffer[..want], at)?;
            if got == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            target.write_all_at(&buffer[..got], at)?;
            at += got as u64;
        }
    }
    target.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_copy_is_equal_and_stays_sparse() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        let file = File::create(&from).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(b"head", 0).unwrap();
        file.write_all_at(&vec![7; 3_000_000], 20 << 20).unwrap();
        file.write_all_at(b"tail", (64 << 20) - 4).unwrap();
        copy_sparsely(&from, &to).unwrap();
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
        assert!(fs::metadata(&to).unwrap().blocks() * 512 < 16 << 20);
    }
}
