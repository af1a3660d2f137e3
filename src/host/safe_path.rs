//! Ways to a place in a folder or namespace of another user, who owns its names: no path element
//! may be a link, or lead out.

use crate::model::error::{Error, Result};
use crate::model::mount::mountinfo::mount_of_descriptor;
use crate::model::mount::replacement::Method;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::OnceLock;

/// No path element may lead elsewhere than it says.
const STRAIGHT: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// How a path is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By `openat2(2)`, Linux 5.6.
    InOneCall,
    /// Folder by folder. It does not tell whether a mount is crossed.
    OnFoot,
}

impl Way {
    /// What kernels have that know no better method than this.
    pub(super) fn of(method: Method) -> Self {
        match method {
            Method::Beneath | Method::Tuck => Self::InOneCall,
            Method::TuckRemounted | Method::TuckByMount | Method::Stack => Self::OnFoot,
        }
    }

    /// What this kernel has.
    pub fn best() -> Self {
        static BEST: OnceLock<Way> = OnceLock::new();
        *BEST.get_or_init(|| match Self::InOneCall.lead(Path::new("/")) {
            Ok(_) => Self::InOneCall,
            Err(_) => Self::OnFoot,
        })
    }

    /// Opens a place of the namespace that this thread is in.
    pub(super) fn open(self, path: &Path) -> Result<OwnedFd> {
        let failed = |errno: Errno| Error::io(format!("open {}", path.display()), &errno.into());
        self.lead(path).map_err(failed)
    }

    /// The same, with the kernel's own error. `LOOP`: a part of the path is a link.
    pub(super) fn lead(self, path: &Path) -> rustix::io::Result<OwnedFd> {
        match self {
            Self::InOneCall => openat2(CWD, path, PLACE, Mode::empty(), STRAIGHT),
            Self::OnFoot => openat(CWD, "/", PLACE | OFlags::DIRECTORY, Mode::empty())
                .and_then(|root| on_foot(root, path.strip_prefix("/").unwrap_or(path))),
        }
    }

    /// Opens a place below an open one.
    pub fn below(
        self,
        folder: impl AsFd,
        path: &Path,
        how: ResolveFlags,
    ) -> rustix::io::Result<OwnedFd> {
        if path.as_os_str().is_empty() {
            // Of a file nothing can be opened, not even itself.
            return rustix::io::fcntl_dupfd_cloexec(folder, 0);
        }
        match self {
            Self::InOneCall => {
                let how = STRAIGHT | ResolveFlags::BENEATH | how;
                openat2(folder, path, PLACE, Mode::empty(), how)
            }
            Self::OnFoot => {
                on_foot(openat(folder, ".", PLACE | OFlags::DIRECTORY, Mode::empty())?, path)
            }
        }
    }
}

fn on_foot(mut at: OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let mut parts = path.components().filter(|part| *part != Component::CurDir).peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(Errno::XDEV) };
        let is_last = parts.peek().is_none();
        // A link is no folder: on the way it is refused by that.
        let kind = if is_last { OFlags::empty() } else { OFlags::DIRECTORY };
        at = match openat(&at, name, PLACE | OFlags::NOFOLLOW | kind, Mode::empty()) {
            Err(Errno::NOTDIR) if readlinkat(&at, name, Vec::new()).is_ok() => {
                return Err(Errno::LOOP);
            }
            opened => opened?,
        };
        // Asked of the kernel's memory alone: a dead file system answers no fstat(2).
        if is_last && readlinkat(&at, "", Vec::new()).is_ok() {
            return Err(Errno::LOOP);
        }
    }
    Ok(at)
}

/// The id of the mount that an open place was reached through, as the kernel keeps it for the
/// descriptor: no file system is asked, for a dead one answers nothing.
pub(super) fn mount_id(place: impl AsFd) -> io::Result<u32> {
    let path = format!("/proc/thread-self/fdinfo/{}", place.as_fd().as_raw_fd());
    mount_of_descriptor(&fs::read(&path)?)
        .ok_or_else(|| io::Error::other(format!("{path} tells no mount")))
}

/// Whether an open place is a folder. A dead file system answers no fstat(2).
pub(super) fn is_folder(place: &OwnedFd) -> bool {
    openat(place, ".", PLACE | OFlags::DIRECTORY, Mode::empty()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_way_follows_a_link_or_leads_out() {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::write(base.join("a/file"), "").unwrap();
        symlink("a", base.join("link")).unwrap();
        symlink("/", base.join("a/out")).unwrap();
        let root = fs::File::open(&base).unwrap();
        for way in [Way::InOneCall, Way::OnFoot] {
            let open = |path: &str| way.below(&root, Path::new(path), ResolveFlags::empty());
            for good in ["", "a", "a/b", "a/./b", "a/file"] {
                assert!(open(good).is_ok(), "{way:?} {good}");
                assert!(way.open(&base.join(good)).is_ok(), "{way:?} {good}");
            }
            for bad in ["link", "link/b", "a/out", "a/out/etc", "..", "/etc", "none"] {
                assert!(open(bad).is_err(), "{way:?} {bad}");
            }
            for bad in ["link", "link/b", "a/out", "none"] {
                assert!(way.open(&base.join(bad)).is_err(), "{way:?} {bad}");
            }
            for link in ["link", "link/b"] {
                assert_eq!(open(link).unwrap_err(), Errno::LOOP, "{way:?}");
                assert_eq!(way.lead(&base.join(link)).unwrap_err(), Errno::LOOP, "{way:?}");
            }
        }
    }
}
