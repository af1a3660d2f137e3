//! Processes that hold a file of a file system, or have a disk's node open.
//!
//! No request may reach a dead file system or a server that is gone: both are what a node in
//! trouble has. So an open file is placed by the id of the mount that it was opened through, which
//! the kernel prints (`fdinfo`), and the mount by the tables of all namespaces. Only what that
//! leaves open (a mount taken off lazily, working and root folders) is looked at itself, in
//! a thread that may hang (`timeout`).

use super::namespaces::Namespaces;
use super::proc::{Proc, Task, has_ended};
use super::{parallel, timeout};
use crate::host::files;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::errno_text;
use crate::model::mount::disk_users::Tie;
use crate::model::mount::mountinfo::{Mount, MountTable};
use nix::fcntl::OFlag;
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// What one look at processes found.
#[derive(Debug, Default)]
pub(super) struct FilesFound {
    /// Files of the file systems.
    pub(super) files: Vec<(u32, Tie, PathBuf, DeviceNumber)>,
    /// Open nodes of the disks.
    pub(super) nodes: Vec<(u32, u32, PathBuf)>,
    /// What could not be read of a process.
    pub(super) closed: Vec<(u32, String)>,
    /// Files that must be looked at to know.
    doubts: Vec<Doubt>,
}

#[derive(Debug, Clone, Copy)]
struct Doubt {
    task: Task,
    tie: Tie,
}

impl Doubt {
    /// The link to the file.
    fn link(self) -> String {
        match self.tie {
            Tie::Descriptor(number) => format!("{}/fd/{number}", self.task),
            Tie::RootFolder => format!("{}/root", self.task),
            // What is mapped is never in doubt.
            Tie::WorkingFolder | Tie::Map => format!("{}/cwd", self.task),
        }
    }
}

/// A question about all processes.
pub(super) struct Search<'a> {
    proc: &'a Arc<Proc>,
    numbers: &'a [DeviceNumber],
    mounts: HashMap<u32, &'a Mount>,
    /// The mounts of processes that live beside one of a server.
    beside_servers: HashMap<u32, &'a MountTable>,
    /// How the devices are written in `/proc/PID/maps`.
    in_maps: Vec<String>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        proc: &'a Arc<Proc>,
        every: &'a Namespaces,
        numbers: &'a [DeviceNumber],
    ) -> Self {
        let in_maps = numbers.iter().map(|n| format!("{:02x}:{:02x}", n.major, n.minor)).collect();
        let mut beside_servers = HashMap::new();
        for namespace in &every.all {
            if namespace.table.mounts().iter().any(is_of_a_server) {
                let pids = namespace.tasks.iter().map(|task| task.pid);
                beside_servers.extend(pids.map(|pid| (pid, namespace.table.as_ref())));
            }
        }
        Self { proc, numbers, mounts: every.by_mount(), beside_servers, in_maps }
    }

    /// Looks at all these processes.
    pub(super) fn among(&self, pids: &[u32]) -> FilesFound {
        /// So many processes are worth a thread.
        const SHARE: usize = 64;
        let mut found = FilesFound::default();
        for part in parallel::each(pids, SHARE, |pids| self.each(pids)) {
            found.merge(part);
        }
        found
    }

    fn each(&self, pids: &[u32]) -> FilesFound {
        let mut found = FilesFound::default();
        for pid in pids {
            if let Err(error) = self.process(*pid, &mut found)
                && !has_ended(&error)
            {
                found.closed.push((*pid, errno_text(&error)));
            }
        }
        self.settle(found)
    }

    fn process(&self, pid: u32, found: &mut FilesFound) -> io::Result<()> {
        // A thread of the kernel has no program, and neither has a process that has ended.
        let mut task = Task::first_of(pid);
        match self.proc.link(&format!("{task}/exe")) {
            Err(error) if has_ended(&error) => match self.proc.living(pid)? {
                Some((other, _)) if other != task => task = other,
                _ => return Ok(()),
            },
            other => drop(other?),
        }
        for tie in [Tie::WorkingFolder, Tie::RootFolder] {
            let doubt = Doubt { task, tie };
            if !self.is_on_a_server(doubt) {
                found.doubts.push(doubt);
            }
        }
        for number in self.proc.descriptors(task)? {
            match self.descriptor(task, number, found) {
                Err(error) if !has_ended(&error) => return Err(error),
                _ => {}
            }
        }
        self.maps(task, found)
    }

    /// Whether the path of a folder leads to a server: the one kind that is not looked at.
    fn is_on_a_server(&self, doubt: Doubt) -> bool {
        let Some(table) = self.beside_servers.get(&doubt.task.pid) else { return false };
        let path = self.proc.link(&doubt.link()).unwrap_or_default();
        table.covering(&path).is_some_and(is_of_a_server)
    }

    fn descriptor(&self, task: Task, number: u32, found: &mut FilesFound) -> io::Result<()> {
        let path = self.proc.link(&format!("{task}/fd/{number}"))?;
        // Sockets, pipes and their like are `kind:[number]`: they are on no disk.
        if !path.has_root() {
            return Ok(());
        }
        let tie = Tie::Descriptor(number);
        let mount = self.proc.mount_of(&format!("{task}/fdinfo/{number}"))?;
        match mount.and_then(|id| self.mounts.get(&id)) {
            Some(mount) if self.numbers.contains(&mount.number) => {
                found.files.push((task.pid, tie, path, mount.number));
            }
            Some(mount) if may_have_disks(mount) => {
                let place = match self.proc.place(&format!("{task}/fd/{number}")) {
                    Err(error) if files::is_shortage(&error) => return Err(error),
                    place => place.ok(),
                };
                if let Some(disk) = place.and_then(|place| place.disk)
                    && self.numbers.contains(&disk)
                {
                    found.nodes.push((task.pid, number, path));
                }
            }
            Some(_) => {}
            None => found.doubts.push(Doubt { task, tie }),
        }
        Ok(())
    }

    fn maps(&self, task: Task, found: &mut FilesFound) -> io::Result<()> {
        let text = self.proc.read(&format!("{task}/maps"))?;
        let mut last = None;
        for line in text.split(|byte| *byte == b'\n') {
            // `from-to rwxp offset device inode   path`
            let Some(device) = line.split(|byte| *byte == b' ').nth(3) else { continue };
            let wanted = self.in_maps.iter().position(|wanted| wanted.as_bytes() == device);
            if let Some(wanted) = wanted {
                let path = line.iter().position(|byte| *byte == b'/').unwrap_or(line.len());
                let path = &line[path..];
                // A library has several ranges, one after the other.
                if last != Some(path) {
                    let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
                    found.files.push((task.pid, Tie::Map, path, self.numbers[wanted]));
                }
                last = Some(path);
            }
        }
        Ok(())
    }

    /// Looks at what could not be told by its mount.
    fn settle(&self, mut found: FilesFound) -> FilesFound {
        let proc = Arc::clone(self.proc);
        let doubts = std::mem::take(&mut found.doubts);
        let answers = timeout::ask(doubts, move |doubt| proc.place(&doubt.link()));
        for (doubt, answer) in answers {
            let pid = doubt.task.pid;
            let number = match &answer {
                Some(Ok(place)) => Ok(place.file_system),
                Some(Err(error)) if has_ended(error) => continue,
                // A dead xfs says EIO to every look.
                Some(Err(error)) => self.by_mount(doubt).ok_or_else(|| errno_text(error)),
                None => Err("no answer".to_owned()),
            };
            match number {
                Ok(number) if self.numbers.contains(&number) => {
                    let path = self.proc.link(&doubt.link()).unwrap_or_default();
                    found.files.push((pid, doubt.tie, path, number));
                }
                Ok(_) => {
                    let disk = answer.and_then(Result::ok).and_then(|place| place.disk);
                    if let (Some(disk), Tie::Descriptor(number)) = (disk, doubt.tie)
                        && self.numbers.contains(&disk)
                    {
                        let path = self.proc.link(&doubt.link()).unwrap_or_default();
                        found.nodes.push((pid, number, path));
                    }
                }
                Err(why) => found.closed.push((pid, format!("{}: {why}", doubt.link()))),
            }
        }
        found
    }

    /// The file system of a folder by the mount of a descriptor that reads nothing.
    fn by_mount(&self, doubt: Doubt) -> Option<DeviceNumber> {
        let descriptor = self.proc.open(doubt.link(), OFlag::O_PATH).ok()?;
        let own = format!("thread-self/fdinfo/{}", descriptor.as_raw_fd());
        let id = self.proc.mount_of(&own).ok()??;
        self.mounts.get(&id).map(|mount| mount.number)
    }
}

impl FilesFound {
    fn merge(&mut self, mut other: Self) {
        self.files.append(&mut other.files);
        self.nodes.append(&mut other.nodes);
        self.closed.append(&mut other.closed);
    }
}

/// Whether a server outside of this kernel answers for the mount's files, which may be gone.
fn is_of_a_server(mount: &Mount) -> bool {
    const TYPES: [&str; 9] =
        ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs", "lustre", "glusterfs"];
    TYPES.contains(&mount.fs_type.as_str()) || mount.fs_type.starts_with("fuse")
}

/// Whether an open file of this mount may be a disk's node, and can be asked without waiting for
/// a server.
fn may_have_disks(mount: &Mount) -> bool {
    const TYPES: [&str; 13] = [
        "devtmpfs", "tmpfs", "ramfs", "rootfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs",
        "f2fs", "squashfs", "erofs",
    ];
    TYPES.contains(&mount.fs_type.as_str()) && mount.options.split(',').all(|one| one != "nodev")
}
