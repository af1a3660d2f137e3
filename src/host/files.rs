//! Files that are whole or not there, whatever is killed when.

use super::worker;
use crate::model::error::{Error, Result};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, openat, renameat, unlinkat};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Replaces a private file, and waits for the disk.
///
/// The caller holds the lock that makes it the only writer, so that the temporary name is always the same. Answers
/// by what the new file is known again.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<Stamp> {
    exchange(path, bytes, 0o600, true)
}

/// Replaces a private file that is not asked for after the machine was started again: nothing is synced, so
/// nothing waits for a disk.
pub fn replace_until_boot(path: &Path, bytes: &[u8]) -> Result<Stamp> {
    exchange(path, bytes, 0o600, false)
}

/// What tells that a file is the one that was read or written: the inode, and when it was written.
pub type Stamp = (u64, i64, i64);

/// The stamp of the file that is there. The caller knows that its way needs no disk, or waits for it.
pub fn stamp(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().map(|found| stamp_of(&found))
}

fn stamp_of(found: &fs::Metadata) -> Stamp {
    (found.ino(), found.mtime(), found.mtime_nsec())
}

/// Puts a file of this mode in the place of another: written beside, synced if that is asked for, renamed.
///
/// The directory may be another user's, who may put a link or a file in the place of any name there: what is
/// written to is always a new file, found by the directory that is open.
pub fn exchange(path: &Path, bytes: &[u8], mode: u32, is_synced: bool) -> Result<Stamp> {
    const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
    const NEW: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::bad_call(format!("{} is no file's path", path.display())));
    };
    // What cannot be read is worse than what stood there before.
    if bytes.len() as u64 > LONGEST {
        let error = std::io::Error::from(ErrorKind::FileTooLarge);
        return Err(Error::io(format!("write {}", path.display()), &error));
    }
    let beside = format!(".{}.new", name.to_string_lossy());
    let _using = worker::uses(path);
    let write = || {
        let folder = openat(CWD, folder, DIRECTORY | OFlags::PATH, Mode::empty())?;
        match unlinkat(&folder, &beside, AtFlags::empty()) {
            // A killed writer left it, or another user put it there.
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let new = NEW | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, &beside, new, Mode::from(0o600))?);
        let mut put = || {
            // Whatever the mask of this process is.
            fchmod(&file, Mode::from(mode))?;
            file.write_all(bytes)?;
            if is_synced {
                file.sync_all()?;
            }
            // Before it has its name: another writer may replace it in the next moment.
            let stamp = stamp_of(&file.metadata()?);
            renameat(&folder, &beside, &folder, name)?;
            if is_synced {
                File::from(openat(&folder, ".", DIRECTORY, Mode::empty())?).sync_all()?;
            }
            Ok(stamp)
        };
        put().inspect_err(|_| {
            let _ = unlinkat(&folder, &beside, AtFlags::empty());
        })
    };
    write().map_err(|error: std::io::Error| Error::io(format!("write {}", path.display()), &error))
}

/// The longest file that is read whole: configurations, certificates, records.
pub const LONGEST: u64 = 16 << 20;

/// The longest file of the kernel's: a hundred thousand mounts take some 20 MiB.
pub const LONGEST_OF_KERNEL: u64 = 256 << 20;

/// Reads a file of the kernel's. It tells no size: without room for all of it the text would be
/// read in many small pieces.
pub fn read_proc(path: &str) -> std::io::Result<Vec<u8>> {
    read_rest(File::open(path)?, LONGEST_OF_KERNEL, 16 << 10)
}

/// All that a reader has, or an error if that is too much: half of it would be taken for all.
pub fn read_rest(from: impl Read, most: u64, room: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(room);
    // Through `take`: a file that is asked for its size first costs two more calls each.
    let read = from.take(most + 1).read_to_end(&mut bytes)?;
    if read as u64 > most {
        let what = format!("more than {} MiB is in it", most >> 20);
        return Err(std::io::Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// The bytes of a regular file, perhaps behind links. A pipe or a device may never end.
pub fn read_whole(path: &Path) -> std::io::Result<Vec<u8>> {
    const FLAGS: OFlag = OFlag::O_NONBLOCK.union(OFlag::O_NOCTTY);
    let _using = worker::uses(path);
    let file = OpenOptions::new().read(true).custom_flags(FLAGS.bits()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        let none = std::io::Error::new(ErrorKind::InvalidInput, "it is no regular file");
        return Err(if found.is_dir() { Errno::EISDIR.into() } else { none });
    }
    read_rest(file, LONGEST, usize::try_from(found.len().min(LONGEST)).unwrap_or_default())
}

/// The text of a regular file.
pub fn read_text(path: impl AsRef<Path>) -> std::io::Result<String> {
    let no_text = |_| std::io::Error::new(ErrorKind::InvalidData, "it is no text");
    String::from_utf8(read_whole(path.as_ref())?).map_err(no_text)
}

/// Opens a regular file to read it; what is none is `InvalidInput`. Opening a pipe would wait for
/// its writer, and a link leads anywhere.
pub fn open_regular(path: &Path) -> std::io::Result<File> {
    const FLAGS: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY);
    let _using = worker::uses(path);
    let is_link = |error: &std::io::Error| error.raw_os_error() == Some(Errno::ELOOP as i32);
    match OpenOptions::new().read(true).custom_flags(FLAGS.bits()).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(ErrorKind::InvalidInput.into()),
        Err(error) if is_link(&error) => Err(ErrorKind::InvalidInput.into()),
        Err(error) => Err(error),
    }
}

/// Opens a private file that is locked, and perhaps read and written, by many processes: made if
/// it is missing, never emptied by the opening.
pub fn open_shared(path: &Path) -> std::io::Result<File> {
    let _using = worker::uses(path);
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// A file whose lock is ours until this is dropped. A child that was forked meanwhile has the file too, so that
/// closing it here would free nothing: it is unlocked.
#[derive(Debug)]
pub struct LockedFile(File);

impl LockedFile {
    /// Of a file that this process has locked.
    pub fn of(locked: File) -> Self {
        Self(locked)
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl std::ops::Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl std::ops::DerefMut for LockedFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

/// Makes a private folder with its parents, if it is missing.
pub fn make_private_folder(path: &Path) -> Result<()> {
    private_folder(path)
        .map_err(|error| Error::io(format!("make the folder {}", path.display()), &error))
}

/// The same, for a caller to whom it matters why not.
pub fn private_folder(path: &Path) -> std::io::Result<()> {
    let _using = worker::uses(path);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The text of a small file; nothing if it is not there.
pub fn read_if_there(path: &Path) -> Result<Option<String>> {
    match read_text(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("read {}", path.display()), &error)),
    }
}

/// Whether an error is of the process that looks, and not of what it looks at: it may be over with a later look.
pub fn is_lack(error: &std::io::Error) -> bool {
    is_shortage(error) || error.raw_os_error() == Some(nix::libc::EIO)
}

/// The same of what is on a disk: that answers with EIO itself, for as long as it is dead.
pub fn is_shortage(error: &std::io::Error) -> bool {
    use nix::libc::{EAGAIN, EINTR, EMFILE, ENFILE, ENOMEM};
    let shortages = [EMFILE, ENFILE, ENOMEM, EAGAIN, EINTR];
    error.raw_os_error().is_some_and(|errno| shortages.contains(&errno))
}

/// What was found; nothing if it is gone or closed to us. A lack is neither: it stays an error.
pub fn unless_lack<T>(found: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_lack(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Removes a file; fine if it is not there.
pub fn remove_if_there(path: &Path) -> Result<()> {
    let _using = worker::uses(path);
    match fs::remove_file(path) {
        // On a read-only file system even what is not there cannot be removed.
        Err(error)
            if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem && is_missing(path) =>
        {
            Ok(())
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("remove {}", path.display()), &error))
        }
        _ => Ok(()),
    }
}

/// Whether it says that there is no such thing. Any other error says nothing about it.
pub fn is_absence(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ENOTDIR | Errno::ENODEV | Errno::ENXIO)
}

/// The kernel's number of an error.
pub fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

/// The names in a folder; none if there is no such folder. A list that breaks off is an error: what is not named
/// there is taken for absent.
pub fn all_names_in(folder: &Path) -> std::result::Result<Vec<String>, Errno> {
    let names = fs::read_dir(folder).and_then(|entries| {
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(std::io::Result::transpose).collect()
    });
    match names.map_err(|error| errno_of(&error)) {
        Err(errno) if is_absence(errno) => Ok(Vec::new()),
        names => names,
    }
}

/// The names in a folder; none if it cannot be read.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// A file in memory, which has no name and goes with its last user; what it is called is seen in lists of open
/// files alone.
pub fn in_memory(called: &str) -> std::io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    match memfd_create(called, MemfdFlags::CLOEXEC) {
        Ok(file) => Ok(file.into()),
        // Before Linux 3.17. It loses its name before anything is written to it.
        Err(rustix::io::Errno::NOSYS) => {
            let path = format!("/run/.{called}.{}", std::process::id());
            // Of a process of that number that was killed in between.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600);
            let file = options.open(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Which file a path leads to: its file system and its number there. Two paths of one place are one file.
pub fn place(path: &Path) -> std::io::Result<(u64, u64)> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Whether it is certain that nothing is at a path: what does not answer may be there.
pub fn is_missing(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_although_a_child_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let open = || open_shared(&folder.path().join("lock")).unwrap();
        let file = open();
        file.lock().unwrap();
        // As after a fork.
        let of_the_child = file.try_clone().unwrap();
        let held = LockedFile::of(file);
        assert!(open().try_lock().is_err());
        drop(held);
        open().try_lock().unwrap();
        drop(of_the_child);
    }

    #[test]
    fn what_may_never_end_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (long, pipe) = (folder.path().join("long"), folder.path().join("pipe"));
        File::create(&long).unwrap().set_len(LONGEST + 1).unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = read_if_there(&long).unwrap_err();
        assert!(error.cause.contains("more than 16 MiB is in it"), "{error}");
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            let error = read_if_there(path).unwrap_err();
            assert!(error.cause.contains("no regular file"), "{error}");
            assert!(open_regular(path).is_err());
        }
        File::create(&long).unwrap().set_len(LONGEST).unwrap();
        assert_eq!(read_whole(&long).unwrap().len() as u64, LONGEST);
        assert!(read_rest(std::io::repeat(b'x'), 1 << 20, 0).is_err());
        std::os::unix::fs::symlink("long", folder.path().join("link")).unwrap();
        assert!(read_whole(&folder.path().join("link")).is_ok());
        assert!(open_regular(&folder.path().join("link")).is_err());
    }

    #[test]
    fn a_replaced_file_is_whole_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(folder.path().join(".a.json.new"), "left by a killed writer").unwrap();
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(read_if_there(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        remove_if_there(&path).unwrap();
        remove_if_there(&path).unwrap();
        assert_eq!(read_if_there(&path).unwrap(), None);
    }
}
