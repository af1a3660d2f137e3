//! Files and folders of an installation: made, copied and moved so that they are whole or not there,
//! and on the disk when the next step begins.

use crate::host::files;
use crate::model::error::{Error, Result};
use crate::model::hexadecimal::digits_of;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

fn wrong<'a>(what: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> Error + 'a {
    move |error| Error::io(format!("{what} {}", path.display()), &error)
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Makes a folder with its parents; one that is there keeps its mode.
pub(super) fn make_folder(path: &Path, mode: u32) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let make = || {
        fs::create_dir_all(folder_of(path))?;
        fs::DirBuilder::new().mode(mode).create(path)?;
        // Whatever the caller's umask is.
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    };
    make().map_err(wrong("make the folder", path))
}

/// Brings a file, or the names in a folder, to the disk.
pub(super) fn flush(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(wrong("flush", path))
}

/// Renames; who looks sees the one or the other.
pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(wrong("rename it to", to))?;
    flush(folder_of(to))
}

/// Replaces a file by one of this mode, which is on the disk then; its folder is made, if it is missing.
pub(super) fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    make_folder(folder_of(path), 0o755)?;
    files::exchange(path, bytes, mode, true).map(|_| ())
}

/// Copies what is open to a new file of this mode in place of what is there: whole and on the disk, or none. Half
/// of one would keep a full disk full.
pub(super) fn copy_open(mut from: &File, to: &Path, mode: u32) -> Result<()> {
    files::remove_if_there(to)?;
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(to);
    let mut file = opened.map_err(wrong("copy it to", to))?;
    let mut complete = || {
        from.rewind()?;
        std::io::copy(&mut from, &mut file)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()
    };
    complete().map_err(|error| {
        let _ = fs::remove_file(to);
        wrong("copy it to", to)(error)
    })
}

/// Copies a file with its owner, permissions and times.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let file = File::open(from).map_err(wrong("open", from))?;
    let found = file.metadata().map_err(wrong("look at", from))?;
    copy_open(&file, to, found.mode() & 0o7777)?;
    let keep = || {
        std::os::unix::fs::chown(to, Some(found.uid()), Some(found.gid()))?;
        let copy = File::open(to)?;
        // A change of the owner takes away what the permissions had beside rwx.
        copy.set_permissions(found.permissions())?;
        copy.set_times(fs::FileTimes::new().set_modified(found.modified()?))?;
        copy.sync_all()
    };
    keep().map_err(wrong("copy it to", to))
}

/// A second name for a file, which needs no room on its disk; a copy where there are no such names.
pub(super) fn second_name(from: &Path, to: &Path) -> Result<()> {
    files::remove_if_there(to)?;
    if fs::hard_link(from, to).is_err() {
        copy(from, to)?;
    }
    flush(folder_of(to))
}

/// Makes a link, and its folder.
pub(super) fn link(target: &Path, place: &Path) -> Result<()> {
    make_folder(folder_of(place), 0o755)?;
    std::os::unix::fs::symlink(target, place).map_err(wrong("link", place))
}

/// Removes what is there, with all that is in it; fine if it is not there.
pub(super) fn remove_all(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).map_err(wrong("remove", path)),
        _ => files::remove_if_there(path),
    }
}

/// Whether anything is at the path, also a link that leads nowhere.
pub(super) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// The paths in a folder, in their order; none if it is not there.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    };
    match read() {
        Ok(mut paths) => {
            paths.sort();
            Ok(paths)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(wrong("read the folder", folder)(error)),
    }
}

/// Opens a regular file, perhaps behind links, without waiting for the writer of a pipe.
pub(super) fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    match opened.and_then(|file| Ok((file.metadata()?.is_file(), file))) {
        Ok((true, file)) => Ok(file),
        Ok((false, _)) => {
            let error = std::io::Error::new(ErrorKind::InvalidInput, "it is no file");
            Err(wrong("open", path)(error))
        }
        Err(error) => Err(wrong("open", path)(error)),
    }
}

/// The SHA-256 of a file, as `sha256sum` writes it.
pub(super) fn checksum(path: &Path) -> Result<String> {
    checksum_of(&open(path)?).map_err(wrong("read", path))
}

/// The same of one that is open.
pub(super) fn checksum_of(mut file: &File) -> std::io::Result<String> {
    file.rewind()?;
    let mut sum = ring::digest::Context::new(&ring::digest::SHA256);
    let mut piece = vec![0; 256 << 10];
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => sum.update(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(digits_of(sum.finish().as_ref()))
}

/// Whether two files hold the same; one that is not there does not.
pub(super) fn is_same(one: &File, other: &Path) -> Result<bool> {
    if !other.exists() {
        return Ok(false);
    }
    let other_file = open(other)?;
    let same = || {
        let is_as_long = one.metadata()?.len() == other_file.metadata()?.len();
        Ok(is_as_long && checksum_of(one)? == checksum_of(&other_file)?)
    };
    same().map_err(|error: std::io::Error| wrong("compare with", other)(error))
}

/// The permissions of a file, behind links.
pub(super) fn mode(path: &Path) -> Option<u32> {
    fs::metadata(path).ok().map(|found| found.mode() & 0o7777)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_the_one_of_sha256sum() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        fs::write(&file, "abc").unwrap();
        let wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(checksum(&file).unwrap(), wanted);
        assert!(checksum(folder.path()).is_err() && checksum(&folder.path().join("no")).is_err());
    }

    #[test]
    fn what_could_not_be_written_whole_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&from, "x").unwrap();
        // A file that can be opened and not read.
        let unreadable = OpenOptions::new().write(true).open(&from).unwrap();
        assert!(copy_open(&unreadable, &to, 0o600).is_err());
        assert!(!is_there(&to));
    }

    #[test]
    fn a_copy_keeps_what_the_file_has() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&from, "x").unwrap();
        fs::set_permissions(&from, fs::Permissions::from_mode(0o640)).unwrap();
        let before = std::time::SystemTime::now() - std::time::Duration::from_secs(1000);
        File::open(&from).unwrap().set_modified(before).unwrap();
        fs::write(&to, "another, longer").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"x");
        assert_eq!(mode(&to), Some(0o640));
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), before);
        assert!(is_same(&open(&from).unwrap(), &to).unwrap());
        fs::write(&to, "y").unwrap();
        assert!(!is_same(&open(&from).unwrap(), &to).unwrap());
    }

    #[test]
    fn what_is_replaced_is_whole_and_has_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (file, beside) = (folder.path().join("a"), folder.path().join(".a.new"));
        fs::write(&beside, "left").unwrap();
        replace(&file, b"x", 0o644).unwrap();
        assert_eq!((mode(&file), fs::read(&file).unwrap().as_slice()), (Some(0o644), &b"x"[..]));
        assert!(!is_there(&beside));
        let deep = folder.path().join("b/c");
        make_folder(&deep, 0o700).unwrap();
        assert_eq!(mode(&deep), Some(0o700));
    }
}
