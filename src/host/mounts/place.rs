//! Folders by descriptor: each path is walked once, without links, and what it led to is used.
//! A path that is walked a second time can lead elsewhere by then.

use super::failure::{Failure, failed};
use super::table::read_table;
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::mount_place::Look;
use crate::model::mount::mountinfo::Mount;
use crate::safe_path::{Way, mount_id};
use rustix::fs::{Mode, mkdirat};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Opens a folder; nothing if it is not there. Any other error is one: what does not answer is not
/// "not there".
pub(super) fn find(folder: &Path) -> Result<Option<OwnedFd>> {
    match Way::best().lead(folder) {
        Ok(place) => Ok(Some(place)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(wrong(folder, errno)),
    }
}

/// Opens a folder that must be there.
pub(super) fn open(folder: &Path) -> Result<OwnedFd> {
    Way::best().lead(folder).map_err(|errno| wrong(folder, errno))
}

fn wrong(folder: &Path, errno: Errno) -> Error {
    let place = folder.display();
    if errno == Errno::LOOP {
        return Error::refused(format!("{place}, or a folder above it, is a symbolic link"))
            .hint("kubelet's folders must be real folders");
    }
    does_not_answer(folder, &errno.into())
}

/// A folder of kubelet's, or its root, that answers with an error is not absent.
pub(super) fn does_not_answer(folder: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("look at {}", folder.display()), error)
        .hint("what is mounted there cannot be told: mend what kubelet's folders are on")
}

/// The mount that an open folder was reached through.
pub(super) fn mount_of(place: &OwnedFd, folder: &Path) -> Result<u32> {
    mount_id(place).map_err(|error| {
        Error::io(format!("tell which mount {} leads to", folder.display()), &error)
    })
}

/// Opens the root of a mount, if its path leads there.
pub(super) fn open_mount(mount: &Mount) -> Result<OwnedFd> {
    let place = open(&mount.target)?;
    if mount_of(&place, &mount.target)? == mount.id { Ok(place) } else { Err(no_longer(mount)) }
}

/// The path of the mount leads to another one by now.
pub(super) fn no_longer(mount: &Mount) -> Error {
    let (id, place) = (mount.id, mount.target.display());
    Error::new(Kind::Busy, format!("{place} led to mount {id} a moment ago, and does no longer"))
        .hint("the next try looks anew")
}

/// Makes a folder with what is missing above it. Links are not followed, and never made use of.
pub(super) fn make(folder: &Path) -> Result<()> {
    if find(folder)?.is_some() {
        return Ok(());
    }
    let failed =
        |errno: Errno| Error::io(format!("make the folder {}", folder.display()), &errno.into());
    let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(failed(Errno::INVAL));
    };
    make(above)?;
    match mkdirat(open(above)?, name, Mode::from_raw_mode(0o750)) {
        Ok(()) | Err(Errno::EXIST) => open(folder).map(drop),
        Err(errno) => Err(failed(errno)),
    }
}

/// A path that is an open folder, for calls that take no descriptor.
pub(super) fn path_of(place: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/thread-self/fd/{}", place.as_raw_fd()))
}

/// A new mount was attached: its path must lead to it. Something may have been mounted over a
/// folder above meanwhile; then it is taken off again, by its descriptor, for no process can have come
/// to use it by its path.
pub(super) fn must_be_seen(new: &OwnedFd, folder: &Path) -> std::result::Result<(), Failure> {
    let id = mount_of(new, folder)?;
    if let Some(place) = find(folder)?
        && mount_of(&place, folder)? == id
    {
        return Ok(());
    }
    let table = read_table()?;
    let look = Look::of(folder, None, table);
    let off = nix::mount::umount2(&path_of(new), nix::mount::MntFlags::MNT_DETACH);
    let error = match look.top() {
        Err(error) => error,
        Ok(_) => Error::new(
            Kind::Host,
            format!("{} does not lead to what was mounted there", folder.display()),
        ),
    };
    Err(Failure::Error(match off {
        Ok(()) => error,
        Err(errno) => error.and_also(&failed("take the new mount off", errno)),
    }))
}
