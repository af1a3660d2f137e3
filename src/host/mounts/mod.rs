//! Mounts. Success is told from the mount table afterwards, by the driver, never from an exit
//! status.

mod btrfs;
mod clones;
mod disk_mount;
mod failure;
mod folder_exchange;
mod new_mount_api;
mod old_mount_api;
mod place;
mod table;

use self::failure::{Failure, failed};
pub(super) use self::table::read_table;
use self::table::read_table_with_disks;
use super::child::{self, ChildWork, Ended};
use super::device_nodes::Node;
use super::{files, worker};
use crate::failpoints;
use crate::model::error::{Error, Kind, Result};
use crate::model::face::Faces;
use crate::model::mount::layout::Target;
use crate::model::mount::mount_place::{Look, Stands};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::ports::clock::Deadline;
use crate::ports::host::{Hidden, MountRequest, Mounts};
use crate::ports::store::what_ends_it;
use nix::errno::Errno;
use nix::mount::MntFlags;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The kernel's mounts, as this process's namespace has them.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelMounts {
    /// Where orchestrators have their folders.
    pub faces: Faces,
}

impl Mounts for KernelMounts {
    fn table(&self) -> Result<MountTable> {
        read_table_with_disks(self.faces)
    }

    fn real_path(&self, target: &Target) -> Result<PathBuf> {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        let path = target.root.join(&target.below);
        let _doing = worker::doing(&format_args!("look at {}", path.display()));
        let root = fs::canonicalize(&target.root).map_err(|error| {
            let wrong = place::does_not_answer(&target.root, &error);
            match error.kind() {
                NotFound | NotADirectory => Error { kind: Kind::Missing, ..wrong },
                _ => wrong,
            }
        })?;
        let real = root.join(&target.below);
        place::find(&real)?;
        Ok(real)
    }

    fn standing_in(&self, folder: &Path, table: MountTable) -> Result<Look> {
        /// A process that mounts and unmounts beside us is done by then.
        const LOOKS: usize = 3;
        let (mut last, mut first) = (None, Some(table));
        for _ in 0..LOOKS {
            // The table first: what came since is not in it, and is looked for again. The place is
            // not held meanwhile, for that makes other people's unmounts busy.
            let table = first.take().map_or_else(|| self.table(), Ok)?;
            let seen = self.leads_to(folder)?;
            let is_told = |id: u32| table.mounts().iter().any(|mount| mount.id == id);
            let is_torn = seen.is_some_and(|id| !is_told(id));
            let look = Look::of(folder, seen, table);
            // What is covered is looked at again: between the two the cover may have come or gone.
            let is_certain = match &look.stands {
                Stands::Covered(_) => last.as_ref() == Some(&look.stands),
                Stands::Mount { .. } => true,
                Stands::Nothing => !is_torn || last == Some(Stands::Nothing),
            };
            if is_certain {
                return Ok(look);
            }
            last = Some(look.stands);
        }
        Err(Error::new(Kind::Busy, format!("what is mounted at {} changes", folder.display()))
            .hint("the next try looks anew"))
    }

    fn leads_to(&self, folder: &Path) -> Result<Option<u32>> {
        let place = place::find(folder)?;
        place.map(|place| place::mount_of(&place, folder)).transpose()
    }

    fn open_root(&self, mount: &Mount) -> Result<File> {
        let place = place::open_mount(mount)?;
        File::open(place::path_of(&place))
            .map_err(|error| Error::io(format!("open {}", mount.target.display()), &error))
    }

    fn make_folder(&self, path: &Path) -> Result<()> {
        failpoints::effect("mounts.make_folder")?;
        place::make(path)
    }

    fn names_in(&self, folder: &Path) -> Vec<String> {
        files::names_in(folder)
    }

    fn is_missing(&self, path: &Path) -> bool {
        files::is_missing(path)
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path)
            .map_err(|error| Error::io(format!("remove the folder {}", path.display()), &error))
    }

    fn hidden_in(&self, path: &Path) -> Hidden {
        let _doing = worker::doing(&format_args!("look at {}", path.display()));
        let mut hidden = Hidden::default();
        count(path, &mut hidden, Instant::now() + LOOK_FOR_HIDDEN);
        hidden
    }

    fn mount(&self, request: MountRequest<'_>) -> Result<()> {
        failpoints::effect("mounts.mount")?;
        let _doing = worker::doing(&format_args!(
            "mount the {} of disk {} at {}",
            request.kind,
            request.disk.device().kernel_name,
            request.target.display()
        ));
        let node = Node::labelled(request.disk.volume(), request.disk.device())?;
        match new_mount_api::mount(&request, node.path()) {
            Ok(()) => {}
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::Unsupported) => old_mount_api::mount(&request, node.path())?,
        }
        node.replace_with_link(request.disk.device());
        Ok(())
    }

    fn bind(&self, source: &Mount, target: &Path, read_only: bool) -> Result<()> {
        failpoints::effect("mounts.bind")?;
        let _doing = worker::doing(&format_args!(
            "bind {} to {}",
            source.target.display(),
            target.display()
        ));
        match new_mount_api::bind(source, target, read_only) {
            Ok(()) => Ok(()),
            Err(Failure::Error(error)) => Err(error),
            Err(Failure::Unsupported) => old_mount_api::bind(source, target, read_only),
        }
    }

    fn seclude(&self, folder: &Path) -> Result<()> {
        failpoints::effect("mounts.seclude")?;
        old_mount_api::seclude(folder)
    }

    fn make_read_only(&self, mount: &Mount) -> Result<()> {
        failpoints::effect("mounts.make_read_only")?;
        let _doing = worker::doing(&format_args!("make {} read-only", mount.target.display()));
        old_mount_api::make_read_only(mount)
    }

    fn flush(&self, mount: &Mount, deadline: Deadline) -> Result<()> {
        failpoints::effect("mounts.flush")?;
        worker::works_on(mount.disk, None);
        self.helped_at(
            ChildWork::Flush { mount: mount.id },
            "write out the file system at",
            mount,
            deadline,
        )
    }

    fn flush_inside(&self, namespace: &File, mount: &Mount, deadline: Deadline) -> Result<bool> {
        failpoints::effect("mounts.flush_inside")?;
        let work = ChildWork::FlushInside { namespace: namespace.as_raw_fd(), mount: mount.id };
        let doing = "write out, in another namespace, the file system at";
        match child::run(work, None, &mount.target, deadline)? {
            (Ended::Failed(Errno::ESTALE), _) => Ok(false),
            ended => told(ended, &format!("{doing} {}", mount.target.display())).map(|()| true),
        }
    }

    fn unmount(&self, mount: &Mount, deadline: Deadline) -> Result<()> {
        failpoints::effect("mounts.unmount")?;
        worker::works_on(mount.disk, None);
        let work = ChildWork::Unmount { mount: mount.id, flags: MntFlags::UMOUNT_NOFOLLOW };
        self.helped_at(work, "unmount", mount, deadline)
    }

    fn unmount_inside(&self, namespace: &File, mounts: &[Mount], deadline: Deadline) -> Result<()> {
        failpoints::effect("mounts.unmount_inside")?;
        for mount in mounts {
            let work =
                ChildWork::UnmountInside { namespace: namespace.as_raw_fd(), mount: mount.id };
            helped(work, "unmount, in another namespace,", &mount.target, deadline)?;
        }
        Ok(())
    }

    fn exchange_folder(&self, folder: &Path) -> Result<()> {
        failpoints::effect("mounts.exchange_folder")?;
        folder_exchange::renew(folder, self.faces).map_err(|error| {
            Error::io(format!("end the mounts of others at {}", folder.display()), &error)
        })
    }

    fn tidy_exchange(&self, folder: &Path) {
        folder_exchange::tidy(folder);
    }

    fn copy_of(&self, mount: &Mount) -> Option<OwnedFd> {
        let _doing = worker::doing(&format_args!("look at {}", mount.target.display()));
        new_mount_api::copy_of(mount)
    }

    fn put_back(&self, copy: OwnedFd, target: &Path) -> Result<()> {
        failpoints::effect("mounts.put_back")?;
        let _doing = worker::doing(&format_args!("put the mount back at {}", target.display()));
        match new_mount_api::put_back(&copy, target) {
            Ok(()) => Ok(()),
            Err(Failure::Error(error)) => Err(error),
            Err(Failure::Unsupported) => {
                Err(failed(format!("put the mount back at {}", target.display()), Errno::ENOSYS))
            }
        }
    }

    fn unmount_dead(&self, mount: &Mount, deadline: Deadline) -> Result<()> {
        failpoints::effect("mounts.unmount_dead")?;
        worker::works_on(mount.disk, None);
        let flags = MntFlags::UMOUNT_NOFOLLOW | MntFlags::MNT_DETACH;
        let work = ChildWork::Unmount { mount: mount.id, flags };
        self.helped_at(work, "unmount (lazily)", mount, deadline)
    }
}

impl KernelMounts {
    /// Work on a mount, if its path still leads to it: the child looks, in the folder above, which
    /// is open and by that the same one whatever is mounted over it.
    fn helped_at(
        self,
        work: ChildWork,
        doing: &str,
        mount: &Mount,
        deadline: Deadline,
    ) -> Result<()> {
        let (Some(above), Some(name)) = (mount.target.parent(), mount.target.file_name()) else {
            return Err(Error::bad_call(format!("{} is no folder's path", mount.target.display())));
        };
        let elsewhere = || match self.standing_at(&mount.target) {
            // Whatever the reason, nothing was done; an error of the work itself is the host's.
            Err(error) => Error { kind: Kind::Busy, ..error },
            Ok(look) => look.why_not(mount).map_or_else(|| place::no_longer(mount), |c| c.error()),
        };
        let Some(above) = place::find(above).ok().flatten() else { return Err(elsewhere()) };
        match run(work, Some(&above), Path::new(name), deadline)? {
            (Ended::Failed(Errno::ESTALE | Errno::ENOENT), _) => Err(elsewhere()),
            ended => told(ended, &format!("{doing} {}", mount.target.display())),
        }
    }
}

/// Work on a file system whose disk may hang.
fn helped(work: ChildWork, doing: &str, target: &Path, deadline: Deadline) -> Result<()> {
    told(run(work, None, target, deadline)?, &format!("{doing} {}", target.display()))
}

/// Lets a child do it. Another call that only looks has a mount open for a moment, which makes it busy: then
/// it is tried again.
fn run(
    work: ChildWork,
    above: Option<&OwnedFd>,
    name: &Path,
    deadline: Deadline,
) -> Result<(Ended, i32)> {
    const LOOKS: u32 = 10;
    const A_LOOK: Duration = Duration::from_millis(5);
    let mut done = child::run(work, above, name, deadline)?;
    for _ in 0..LOOKS {
        if !matches!(done.0, Ended::Failed(Errno::EBUSY)) {
            break;
        }
        std::thread::sleep(A_LOOK);
        done = child::run(work, above, name, deadline)?;
    }
    Ok(done)
}

/// How the child's work ended; a child that hangs is named.
fn told((ended, pid): (Ended, i32), doing: &str) -> Result<()> {
    match ended {
        Ended::Done => Ok(()),
        Ended::Failed(errno) => Err(failed(doing, errno)),
        Ended::Hangs => Err(Error::new(
            Kind::Timeout,
            format!("{doing}: the kernel does not come back (process {pid} hangs there)"),
        )
        .hint(what_ends_it())),
    }
}

/// How long a folder is looked through for what a mount will cover.
const LOOK_FOR_HIDDEN: Duration = Duration::from_millis(50);

fn count(folder: &Path, hidden: &mut Hidden, until: Instant) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if Instant::now() >= until {
            hidden.more = true;
            return;
        }
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            count(&entry.path(), hidden, until);
        } else {
            hidden.files += 1;
            hidden.bytes += found.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_the_root_are_followed_and_others_refused() {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(base.join("data/pods/u")).unwrap();
        std::os::unix::fs::symlink(base.join("data"), base.join("root")).unwrap();
        let target = |below: &str| Target { root: base.join("root"), below: below.into() };
        let real = KernelMounts::default().real_path(&target("pods/u/volumes/x")).unwrap();
        assert_eq!(real, base.join("data/pods/u/volumes/x"));
        std::os::unix::fs::symlink("/etc", base.join("data/pods/evil")).unwrap();
        for below in ["pods/evil", "pods/evil/volumes"] {
            let error = KernelMounts::default().real_path(&target(below)).unwrap_err();
            assert!(error.cause.contains("symbolic link"), "{error}");
        }
        for wrong in ["pods/evil/made", "pods/evil"] {
            let error =
                KernelMounts::default().make_folder(&base.join("data").join(wrong)).unwrap_err();
            assert!(error.cause.contains("symbolic link"), "{error}");
        }
        assert!(fs::symlink_metadata("/etc/made").is_err());
        KernelMounts::default().make_folder(&base.join("data/pods/v/volumes/x")).unwrap();
        assert!(fs::metadata(base.join("data/pods/v/volumes/x")).unwrap().is_dir());
    }

    #[test]
    fn a_root_that_is_not_there_is_told_from_one_that_does_not_answer() {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        let kind = |root: PathBuf| {
            let target = Target { root, below: "pods/u".into() };
            KernelMounts::default().real_path(&target).unwrap_err().kind
        };
        fs::write(base.join("file"), "").unwrap();
        for missing in ["none", "file/none"] {
            assert_eq!(kind(base.join(missing)), Kind::Missing, "{missing}");
        }
        std::os::unix::fs::symlink("circle", base.join("circle")).unwrap();
        assert_eq!(kind(base.join("circle")), Kind::Host);
    }

    #[test]
    fn the_table_of_this_thread_is_read() {
        let look = KernelMounts::default().standing_at(Path::new("/proc")).unwrap();
        let top = look.top().unwrap().unwrap();
        assert_eq!(top.fs_type, "proc");
        assert_eq!(KernelMounts::default().leads_to(Path::new("/proc/sys")).unwrap(), Some(top.id));
        assert_eq!(
            KernelMounts::default().standing_at(Path::new("/no/such")).unwrap().top(),
            Ok(None)
        );
    }
}
