//! Mounts through mount(2). Success is told from the mount table afterwards, by the driver, never
//! from an exit status.

use super::nodes::Node;
use super::{MountRequest, Mounts};
use crate::model::error::{Error, Kind, Result};
use crate::model::mountinfo::MountTable;
use crate::model::target::Target;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The kernel's mounts, as this process's namespace has them.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelMounts;

fn failed(doing: impl std::fmt::Display, errno: Errno) -> Error {
    let error = Error::io(doing, &errno.into());
    match errno {
        Errno::EBUSY => Error { kind: Kind::Busy, ..error },
        _ => error,
    }
}

impl Mounts for KernelMounts {
    fn table(&self) -> Result<MountTable> {
        // `thread-self`, not `self`: the latter shows the namespace of the main thread.
        let path = "/proc/thread-self/mountinfo";
        let text = fs::read(path).map_err(|error| Error::io(format!("read {path}"), &error))?;
        MountTable::parse(&text)
    }

    fn real_path(&self, target: &Target) -> Result<PathBuf> {
        let root = fs::canonicalize(&target.root)
            .map_err(|error| Error::io(format!("look at {}", target.root.display()), &error))?;
        let real = root.join(&target.below);
        let mut walked = root;
        for part in &target.below {
            walked.push(part);
            // The last part may be a mount of a dead disk, where every look fails: what is
            // mounted there was checked when it was mounted.
            match fs::symlink_metadata(&walked) {
                Ok(found) if found.file_type().is_symlink() => {
                    return Err(Error::refused(format!("{} is a symbolic link", walked.display()))
                        .hint("kubelet's folders must be real folders"));
                }
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                Err(_) if walked == real => break,
                Err(error) => {
                    return Err(Error::io(format!("look at {}", walked.display()), &error));
                }
            }
        }
        Ok(real)
    }

    fn make_folder(&self, path: &Path) -> Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(path)
            .map_err(|error| Error::io(format!("make the folder {}", path.display()), &error))
    }

    fn mount(&self, request: &MountRequest<'_>) -> Result<()> {
        let node = Node::labelled(request.id, request.device)?;
        let flags = if request.device.read_only { MsFlags::MS_RDONLY } else { MsFlags::empty() };
        mount(Some(node.path()), request.target, Some(request.kind.name()), flags, None::<&str>)
            .map_err(|errno| {
                let disk = &request.device.kernel_name;
                failed(
                    format!(
                        "mount {} of disk {disk} at {}",
                        request.kind,
                        request.target.display()
                    ),
                    errno,
                )
                .hint("the kernel's log has the reason")
            })
    }

    fn bind(&self, source: &Path, target: &Path) -> Result<()> {
        mount(Some(source), target, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(|errno| {
            failed(format!("bind {} to {}", source.display(), target.display()), errno)
        })
    }

    fn make_read_only(&self, target: &Path) -> Result<()> {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        mount(None::<&str>, target, None::<&str>, flags, None::<&str>)
            .map_err(|errno| failed(format!("make {} read-only", target.display()), errno))
    }

    fn unmount(&self, target: &Path) -> Result<()> {
        umount2(target, MntFlags::UMOUNT_NOFOLLOW)
            .map_err(|errno| failed(format!("unmount {}", target.display()), errno))
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
        std::os::unix::fs::symlink(base.join("data"), base.join("kubelet")).unwrap();
        let target = |below: &str| Target { root: base.join("kubelet"), below: below.into() };
        let real = KernelMounts.real_path(&target("pods/u/volumes/x")).unwrap();
        assert_eq!(real, base.join("data/pods/u/volumes/x"));
        std::os::unix::fs::symlink("/etc", base.join("data/pods/evil")).unwrap();
        for below in ["pods/evil", "pods/evil/volumes"] {
            let error = KernelMounts.real_path(&target(below)).unwrap_err();
            assert!(error.cause.contains("symbolic link"), "{error}");
        }
    }

    #[test]
    fn the_table_of_this_thread_is_read() {
        assert!(KernelMounts.table().unwrap().top_at(Path::new("/proc")).is_some());
    }
}
