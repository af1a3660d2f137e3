//! Two disks with the same files, as a disk that went and came back under another letter: each is
//! a loop device with a file of its own, for on a common one the dead one would still write.

use super::{detach_loops_below, output_of};
use incloud_disk::host::remount::KernelRemounts;
use incloud_disk::model::disk::device::DeviceNumber;
use incloud_disk::model::mount::mountinfo::{Mount, MountTable};
use incloud_disk::model::mount::replacement::{Method, MountIntent, Switched};
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::host::{Remounts, SwitchRequest};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = output_of(Command::new(program).args(arguments));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A loop device that is mounted.
#[derive(Debug)]
pub struct Disk {
    pub device: String,
    pub place: PathBuf,
    pub number: DeviceNumber,
}

impl Disk {
    fn mounted(image: &Path, place: PathBuf, options: &str) -> Self {
        let device = run("losetup", &["-f", "--show", image.to_str().expect("UTF-8")]);
        fs::create_dir(&place).expect("a folder");
        run("mount", &["-o", options, &device, place.to_str().expect("UTF-8")]);
        let name = Path::new(&device).file_name().expect("a name").to_string_lossy().into_owned();
        let number = fs::read_to_string(format!("/sys/block/{name}/dev")).expect("its number");
        let number = number.parse().expect("a number");
        Self { device, place, number }
    }

    /// Its mounts in a table.
    pub fn among(&self, table: &MountTable) -> Vec<Mount> {
        table.of(self.number).cloned().collect()
    }

    /// Ends its file system as if it was pulled.
    pub fn die(&self) {
        let root = File::open(&self.place).expect("its root");
        incloud_disk::host::kernel::shutdown_file_system(&root).expect("a shutdown");
    }
}

/// The disk as it was, and as it is.
#[derive(Debug)]
pub struct Disks {
    pub old: Disk,
    pub new: Disk,
    dir: TempDir,
}

impl Disks {
    /// Two mounted ones with the files that were made in the first.
    pub fn with(fs_type: &str, fill: impl FnOnce(&Path)) -> Self {
        Self::prepared(fs_type, |_| {}, fill).0
    }

    /// The same, the first one over a file that something was done with.
    pub fn prepared<T>(
        fs_type: &str,
        prepare: impl FnOnce(&Path) -> T,
        fill: impl FnOnce(&Path),
    ) -> (Self, T) {
        let dir = TempDir::with_prefix("incloud-disk-switch-").expect("a folder");
        let base = fs::canonicalize(dir.path()).expect("its path");
        let image = |name: &str| base.join(name);
        let size = if fs_type == "xfs" { 320 << 20 } else { 64 << 20 };
        File::create(image("old.img")).expect("a file").set_len(size).expect("its size");
        run(&format!("mkfs.{fs_type}"), &["-q", image("old.img").to_str().expect("UTF-8")]);
        let prepared = prepare(&image("old.img"));
        let old = Disk::mounted(&image("old.img"), base.join("old"), "rw");
        fill(&old.place);
        nix::unistd::syncfs(File::open(&old.place).expect("its root")).expect("on the disk");
        let (from, to) = (image("old.img"), image("new.img"));
        run("cp", &["--sparse=always", from.to_str().expect("UTF-8"), to.to_str().expect("UTF-8")]);
        // An xfs with the UUID of a mounted one is not mounted otherwise.
        let twin = if fs_type == "xfs" { "nouuid" } else { "rw" };
        let new = Disk::mounted(&image("new.img"), base.join("new"), twin);
        (Self { old, new, dir }, prepared)
    }

    pub fn base(&self) -> PathBuf {
        fs::canonicalize(self.dir.path()).expect("its path")
    }
}

/// Replaces the mounts of one disk by those of the other in a container.
#[track_caller]
pub fn switch(pid: u32, method: Method, from: &Disk, to: &Disk) -> Vec<Switched> {
    let stale = from.among(&table_of(pid));
    replace(KernelRemounts::by(method), Some(pid), &stale, to)
}

/// Calls the library.
#[track_caller]
pub fn replace(
    switches: KernelRemounts,
    pid: Option<u32>,
    stale: &[Mount],
    to: &Disk,
) -> Vec<Switched> {
    let namespace =
        pid.map(|pid| File::open(format!("/proc/{pid}/ns/mnt")).expect("its namespace"));
    let fresh = File::open(&to.place).expect("the new disk");
    let request = SwitchRequest {
        namespace: namespace.as_ref(),
        stale,
        fresh: fresh.as_fd(),
        group: None,
        deadline: Deadline::after(Duration::from_secs(20)),
    };
    switches.switch(&request).expect("an answer")
}

/// What replacing them will change for a moment.
#[track_caller]
pub fn will_change(
    switches: KernelRemounts,
    pid: u32,
    stale: &[Mount],
    to: &Disk,
) -> Vec<MountIntent> {
    let namespace = File::open(format!("/proc/{pid}/ns/mnt")).expect("its namespace");
    let fresh = File::open(&to.place).expect("the new disk");
    let request = SwitchRequest {
        namespace: Some(&namespace),
        stale,
        fresh: fresh.as_fd(),
        group: None,
        deadline: Deadline::after(Duration::from_secs(20)),
    };
    switches.will_change(&request).expect("an answer")
}

/// The mounts that a process sees.
pub fn table_of(pid: u32) -> MountTable {
    let text = fs::read(format!("/proc/{pid}/mountinfo")).expect("its mounts");
    MountTable::parse(&text).expect("a mount table")
}

/// Works in the mount namespace of a container.
pub fn within<T: Send>(pid: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_FS).expect("a root of its own");
            let door = File::open(format!("/proc/{pid}/ns/mnt")).expect("its namespace");
            setns(door, CloneFlags::CLONE_NEWNS).expect("the namespace");
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Drop for Disks {
    fn drop(&mut self) {
        for disk in [&self.old, &self.new] {
            let _ = nix::mount::umount2(&disk.place, nix::mount::MntFlags::MNT_DETACH);
        }
        // Not by their names: a failing disk takes its loop device along, and the next test has it.
        if let Ok(base) = fs::canonicalize(self.dir.path()) {
            detach_loops_below(&base);
        }
    }
}
