//! Where a report goes: a file of its own that is whole or not there, or stdout.

use crate::cli::views::ReportArguments;
use crate::model::error::{Error, Kind, Result};
use crate::model::text::visible;
use crate::model::timestamp::{self, Millis};
use crate::operator::configured::Configured;
use crate::operator::terminal::{Stage, told};
use crate::wiring;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file that was asked for; else one in this folder that says which node it is about, and when. Nothing is stdout.
pub(super) fn place(
    arguments: &ReportArguments,
    configured: &Configured,
    now: Millis,
) -> Result<Option<PathBuf>> {
    let path = match arguments.out.as_deref() {
        Some("-") => return Ok(None),
        Some(path) => PathBuf::from(path),
        None => {
            let node = wiring::this_node(&configured.config);
            let node = node.map_or_else(|_| "node".to_owned(), |node| node.to_string());
            let time: String =
                timestamp::text(now).chars().filter(char::is_ascii_alphanumeric).collect();
            let ending = if arguments.text { "txt" } else { "html" };
            PathBuf::from(format!("incloud-disk-report-{node}-{time}.{ending}"))
        }
    };
    must_not_be_there(&path)?;
    Ok(Some(path))
}

/// Writes it there, and says where.
pub(super) fn write(place: Option<&Path>, text: &str, stage: &mut Stage<'_>) -> Result<u8> {
    let Some(path) = place else {
        stage.say(text);
        return Ok(0);
    };
    write_new(path, text.as_bytes())?;
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    stage.say(&told(&format!("the report is in {}", path.display())));
    Ok(0)
}

/// Said before all is looked at; what comes there meanwhile is found by the writing.
fn must_not_be_there(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() { Err(is_there(path)) } else { Ok(()) }
}

fn is_there(path: &Path) -> Error {
    let path = path.display().to_string();
    Error::new(
        Kind::BadCall,
        format!("{} is there already, and is not overwritten", visible(&path)),
    )
    .hint("name another file with --out, or - for stdout")
}

/// Writes a new private file. It has no name until it is whole, so nothing is left of it if the disk is full
/// or this process is killed; and a name that is taken, a link among them, stays as it is.
fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let io = |error: &std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => is_there(path),
        _ => Error::io(format!("write {}", path.display()), error),
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let without_name = private().custom_flags(OFlag::O_TMPFILE.bits()).open(folder);
    match without_name {
        Ok(file) => {
            fill(&file, bytes).map_err(|error| io(&error))?;
            let source = format!("/proc/self/fd/{}", file.as_raw_fd());
            let flags = AtFlags::AT_SYMLINK_FOLLOW;
            linkat(AT_FDCWD, source.as_str(), AT_FDCWD, path, flags)
                .map_err(|errno| io(&errno.into()))
        }
        // A file system that has no such files, as NFS.
        Err(error) if is_not_supported(&error) => {
            let file = private().create_new(true).open(path).map_err(|error| io(&error))?;
            fill(&file, bytes).map_err(|error| {
                let _ = fs::remove_file(path);
                io(&error)
            })
        }
        Err(error) => Err(io(&error)),
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// With all that a disk may only say in the end.
fn fill(mut file: &File, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

fn is_not_supported(error: &std::io::Error) -> bool {
    use nix::libc::{EINVAL, EISDIR, EOPNOTSUPP};
    error.raw_os_error().is_some_and(|errno| [EINVAL, EISDIR, EOPNOTSUPP].contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn a_report_is_private_and_takes_no_ones_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.html");
        write_new(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let error = write_new(&path, b"two").unwrap_err();
        assert!(error.cause.contains("is there already"), "{error}");
        let (link, dangling) = (folder.path().join("link"), folder.path().join("dangling"));
        let victim = folder.path().join("victim");
        fs::write(&victim, "old").unwrap();
        symlink(&victim, &link).unwrap();
        symlink(folder.path().join("nowhere"), &dangling).unwrap();
        for place in [&link, &dangling] {
            assert!(must_not_be_there(place).is_err());
            assert!(write_new(place, b"two").is_err());
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing else is left");
    }
}
