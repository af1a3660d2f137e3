//! Files that are whole or not there, whatever is killed when.

use crate::model::error::{Error, Result};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Replaces a file: written beside, synced, renamed, folder synced.
///
/// The caller holds the lock that makes it the only writer; so the temporary name is always the
/// same, and what a killed writer left is overwritten by the next one.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    exchange(path, bytes, File::sync_all)
}

/// The same for what nobody asks for after the machine was started again: nothing is synced, so
/// nothing waits for a disk.
pub fn replace_until_boot(path: &Path, bytes: &[u8]) -> Result<()> {
    exchange(path, bytes, |_| Ok(()))
}

fn exchange(path: &Path, bytes: &[u8], sync: impl Fn(&File) -> std::io::Result<()>) -> Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::bad_call(format!("{} is no file's path", path.display())));
    };
    let beside = folder.join(format!(".{}.new", name.to_string_lossy()));
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&beside)?;
        file.write_all(bytes)?;
        sync(&file)?;
        fs::rename(&beside, path)?;
        sync(&File::open(folder)?)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&beside);
        Error::io(format!("write {}", path.display()), &error)
    })
}

/// Reads a file of the kernel's. It tells no size: without room for all of it the text would be
/// read in many small pieces.
pub fn read_proc(path: &str) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(16 * 1024);
    File::open(path)?.read_to_end(&mut text)?;
    Ok(text)
}

/// Opens a regular file to read it; what is none is `InvalidInput`. Opening a pipe would wait for
/// its writer, and a link leads anywhere.
pub fn open_regular(path: &Path) -> std::io::Result<File> {
    const FLAGS: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY);
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
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes a private folder with its parents, if it is missing.
pub fn make_private_folder(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::io(format!("make the folder {}", path.display()), &error))
}

/// The text of a small file; nothing if it is not there.
pub fn read_if_there(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("read {}", path.display()), &error)),
    }
}

/// Removes a file; fine if it is not there.
pub fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("remove {}", path.display()), &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
