//! Device nodes made from a proven number.
//!
//! A name in `/dev` can belong to another disk by the time it is opened. So a node is opened and
//! then compared by number; and a volume is mounted from a node of its own,
//! `/dev/incloud-disk/<volume id>`, made from the number. The name stays in the mount table, as a
//! label for people. Once mounted, the node gives way to a link to the kernel's node, so that the
//! source that `df` shows exists; the next mount, such as a heal's, replaces the link.

use super::locks::LockFiles;
use super::worker;
use crate::failpoints;
use crate::model::disk::contents::places;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::disk::exclusive_open::{ExclusiveOpen, Meaning, meaning_of};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::label::{FOLDER, label_of};
use crate::model::pauses::Steps;
use crate::ports::clock::Deadline;
use crate::ports::store::{Lock, Locked, Locks as _};
use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::sys::statvfs::FsFlags;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The device number of an open or named block node.
pub fn number_of(metadata: &fs::Metadata) -> Option<DeviceNumber> {
    metadata.file_type().is_block_device().then(|| split(metadata.rdev()))
}

/// The number of the block device that people name so: by its number, a path, or the kernel's name.
pub fn number_named(text: &str) -> Option<DeviceNumber> {
    let node = || number_of(&fs::metadata(Path::new("/dev").join(text)).ok()?);
    text.parse().ok().or_else(node)
}

/// The number of the device that a file's file system stands on.
pub fn number_below(metadata: &fs::Metadata) -> DeviceNumber {
    split(metadata.dev())
}

/// A number as the kernel packs it.
pub fn split(raw: u64) -> DeviceNumber {
    let part = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    DeviceNumber {
        major: part(nix::sys::stat::major(raw)),
        minor: part(nix::sys::stat::minor(raw)),
    }
}

/// Where the locks of their names are, below it.
const LOCKS: &str = ".locks";

/// How long another configuration's mkfs is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A node for a proven device.
#[derive(Debug)]
pub struct Node {
    path: PathBuf,
    /// Held as long as a node of our own making is there.
    name: Option<Lock>,
}

impl Node {
    /// Makes the labelled node of a volume; where that cannot be, takes the kernel's own after
    /// comparing its number. The caller holds the volume's lock.
    pub fn labelled(id: &VolumeId, device: &Device) -> Result<Self> {
        worker::works_on(device.number, device.sequence);
        let path = label_of(id);
        let reason = match lock(id, Deadline::after(PATIENCE)) {
            Ok(Locked::Held(name)) => match make(&path, device.number) {
                Ok(()) => {
                    failpoints::step("nodes.made");
                    return Ok(Self { path, name: Some(name) });
                }
                Err(errno) => errno.desc().to_owned(),
            },
            // Without its label the mount would not be known again once its disk is dead.
            Err(error) if error.kind == Kind::Busy => return Err(error),
            Ok(Locked::Impossible(error)) | Err(error) => error.cause,
        };
        tracing::debug!(path = %path.display(), reason, "no labelled node: the kernel's own is used");
        remove_folders();
        Self::of_kernel(device)
    }

    fn of_kernel(device: &Device) -> Result<Self> {
        let path = device.kernel_node();
        let found = fs::symlink_metadata(&path)
            .map_err(|error| Error::io(format!("look at {}", path.display()), &error))?;
        compare(&path, number_of(&found), device)?;
        Ok(Self { path, name: None })
    }

    /// The node's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the node, from which the volume has been mounted, with a link to the kernel's own.
    /// The driver itself never follows it.
    pub fn replace_with_link(mut self, device: &Device) {
        let Some(name) = self.name.take() else { return };
        let linked = fs::remove_file(&self.path)
            .and_then(|()| std::os::unix::fs::symlink(device.kernel_node(), &self.path));
        if let Err(error) = linked {
            tracing::debug!(path = %self.path.display(), %error, "no link to the disk");
        }
        give_back(name);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            remove(&self.path, name);
        }
    }
}

/// Removes what a killed call left of a volume's node, unless another configuration uses it. The link
/// of a mounted volume stays.
pub fn tidy(id: &VolumeId) {
    let path = label_of(id);
    let lock_of = Path::new(FOLDER).join(LOCKS).join(format!("{id}.lock"));
    let is_node = || fs::symlink_metadata(&path).is_ok_and(|found| !found.is_symlink());
    if (is_node() || fs::symlink_metadata(lock_of).is_ok())
        && let Ok(Locked::Held(name)) = lock(id, Deadline::after(Duration::ZERO))
    {
        if is_node() {
            let _ = fs::remove_file(&path);
        }
        give_back(name);
    }
}

/// Whether a mount of the volume has left its link.
pub fn has_link(id: &VolumeId) -> bool {
    fs::symlink_metadata(label_of(id)).is_ok_and(|found| found.is_symlink())
}

/// Removes a volume's node or link, unless another configuration is using it.
pub fn remove_if_free(id: &VolumeId) {
    if let Ok(Locked::Held(name)) = lock(id, Deadline::after(Duration::ZERO)) {
        remove(&label_of(id), name);
    }
}

fn remove(path: &Path, name: Lock) {
    let _ = fs::remove_file(path);
    give_back(name);
}

fn give_back(name: Lock) {
    drop(name);
    remove_folders();
}

/// Succeeds for the last call only. Another one may be about to use them, and makes them anew then.
fn remove_folders() {
    let _ = fs::remove_dir(Path::new(FOLDER).join(LOCKS));
    let _ = fs::remove_dir(FOLDER);
}

/// The right to a node's name. The volume's own lock is one of a configuration, and two of them (a
/// demo beside a cluster) may have volumes of the same id. It lies in a folder of root's, beside the
/// nodes: what any user may bind or open (a socket, a file in `/tmp`) any user may take first.
fn lock(id: &VolumeId, deadline: Deadline) -> Result<Locked> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    let found = folder(deadline)?;
    if !found.is_dir() || found.uid() != 0 || found.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(Error::new(Kind::Host, format!("{FOLDER} can be written by others than root")));
    }
    LockFiles::in_folder(&Path::new(FOLDER).join(LOCKS)).take(id, "the node's name", deadline)
}

/// The folder of the nodes. Another volume's call that ends may remove it between any two steps of this one.
fn folder(deadline: Deadline) -> Result<fs::Metadata> {
    let mut steps = Steps::between(Duration::from_millis(1), Duration::from_millis(20));
    loop {
        make_folder()
            .map_err(|errno| Error::io(format!("make the folder {FOLDER}"), &errno.into()))?;
        match fs::symlink_metadata(FOLDER) {
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound
                    && deadline.pause(steps.next().unwrap_or_default()) => {}
            found => {
                return found.map_err(|error| Error::io(format!("look at {FOLDER}"), &error));
            }
        }
    }
}

fn make_folder() -> nix::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(FOLDER) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Errno::from_raw(error.raw_os_error().unwrap_or(0)))
        }
        _ => Ok(()),
    }
}

/// The caller holds the name's lock.
fn make(path: &Path, number: DeviceNumber) -> nix::Result<()> {
    let node = makedev(u64::from(number.major), u64::from(number.minor));
    // Between our mkdir and our mknod another call may remove the empty folder: try again.
    let mut last = Errno::ENOENT;
    for _ in 0..16 {
        make_folder()?;
        // Where /dev is an ordinary tmpfs of a container the node could be made, but not opened.
        match nix::sys::statvfs::statvfs(FOLDER) {
            Ok(found) if found.flags().contains(FsFlags::ST_NODEV) => return Err(Errno::EACCES),
            _ => {}
        }
        // A killed call may have left one, of whatever number.
        let _ = fs::remove_file(path);
        match mknod(path, SFlag::S_IFBLK, Mode::S_IRUSR | Mode::S_IWUSR, node) {
            Ok(()) => return Ok(()),
            Err(errno @ Errno::ENOENT) => last = errno,
            Err(errno) => return Err(errno),
        }
    }
    Err(last)
}

fn compare(path: &Path, found: Option<DeviceNumber>, device: &Device) -> Result<()> {
    if found == Some(device.number) {
        return Ok(());
    }
    let found = found.map_or_else(|| "no block device".to_owned(), |number| number.to_string());
    Err(Error::new(
        Kind::Refused,
        format!("{} is {found}, not the proven disk {}", path.display(), device.number),
    ))
}

/// Opens the kernel's node of a device and compares its number.
fn open(device: &Device, options: &OpenOptions) -> Result<File> {
    let path = device.kernel_node();
    worker::works_on(device.number, device.sequence);
    let _doing = worker::doing(&format_args!("open {}", path.display()));
    let file = options
        .open(&path)
        .map_err(|error| Error::io(format!("open {}", path.display()), &error))?;
    let metadata = file
        .metadata()
        .map_err(|error| Error::io(format!("look at {}", path.display()), &error))?;
    compare(&path, number_of(&metadata), device)?;
    Ok(file)
}

/// The disk, open to read.
pub fn open_to_read(device: &Device) -> Result<File> {
    open(device, OpenOptions::new().read(true))
}

/// The disk, open to read past the page cache.
pub fn open_past_cache(device: &Device) -> Result<File> {
    open(device, OpenOptions::new().read(true).custom_flags(nix::libc::O_DIRECT))
}

/// The disk, open to read and write.
pub fn open_to_write(device: &Device) -> Result<File> {
    open(device, OpenOptions::new().read(true).write(true))
}

/// Tells the kernel that the places which tell a file system will be asked for: they come while
/// other things are looked at. The reads themselves come later and say what is wrong.
pub fn read_ahead(disk: &File, size: u64) {
    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
    for (begin, end) in places::stretches(&places::of_marks(size)) {
        if let (Ok(begin), Ok(length)) = (i64::try_from(begin), i64::try_from(end - begin)) {
            let _ = posix_fadvise(disk, begin, length, PosixFadviseAdvice::POSIX_FADV_WILLNEED);
        }
    }
}

/// What an exclusive open says: the kernel refuses it while a mount in any namespace, a swap area, a
/// device-mapper table or another exclusive opener has the disk.
pub fn exclusive_open(device: &Device) -> Result<ExclusiveOpen> {
    let path = device.kernel_node();
    worker::works_on(device.number, device.sequence);
    let _doing = worker::doing(&format_args!("open {} exclusively", path.display()));
    let exclusive = OpenOptions::new().read(true).custom_flags(nix::libc::O_EXCL).open(&path);
    let error = match exclusive {
        Ok(file) => {
            let metadata = file
                .metadata()
                .map_err(|error| Error::io(format!("look at {}", path.display()), &error))?;
            compare(&path, number_of(&metadata), device)?;
            return Ok(ExclusiveOpen::Free);
        }
        Err(error) => error,
    };
    let told = Error::io(format!("open {} exclusively", path.display()), &error);
    match meaning_of(Errno::from_raw(error.raw_os_error().unwrap_or(0))) {
        Meaning::InUse => {
            // What is busy may be another disk's node.
            let found = fs::metadata(&path)
                .map_err(|error| Error::io(format!("look at {}", path.display()), &error))?;
            compare(&path, number_of(&found), device)?;
            Ok(ExclusiveOpen::InUse)
        }
        Meaning::Unseen => Ok(ExclusiveOpen::Unseen(told.cause)),
        Meaning::Nothing => Err(told),
    }
}
/// Whether a link, perhaps through others, leads to this node.
pub fn leads_to(link: &Path, node: &Path) -> bool {
    std::fs::canonicalize(link).is_ok_and(|target| target == node)
}
