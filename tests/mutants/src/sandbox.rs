//! What keeps a driver that is wrong from the machine: it sees no process but the run's own, its mounts are in a
//! namespace that ends with the run, the machine's disks do not open, and what it leaves is taken away.
#![allow(unsafe_code)]

use crate::stop;
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A mutant that takes all memory takes this much.
const MEMORY: u64 = 3 << 30;

/// Starts a program in a process group of its own.
pub fn spawn(mut command: Command) -> std::io::Result<Child> {
    command.process_group(0);
    stop::give_back_to(&mut command);
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
            if libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    command.spawn()
}

/// Ends it with its group.
pub fn end(child: &mut Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        // SAFETY: a signal to a group that this process made; it is not reaped yet, or empty.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    let _ = child.kill();
    let _ = child.wait();
}

pub fn open_to_all(path: &Path) {
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o666));
}

/// The command for a program in namespaces of its own: nothing of the machine's processes is seen there, and all ends
/// with it.
pub fn wrapped(words: &[String], nice: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]);
    // The shell is process 1, and waits for what others leave.
    command.args(["sh", "-c", "\"$@\" & wait $!", "-"]).args(nice).args(words).stdin(Stdio::null());
    command
}

/// Within those namespaces: a folder in memory, and a cgroup to which the machine's own disks do not open.
pub fn enter(scratch: &Path, name: &str) -> Result<(), String> {
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "mode=1777,size=6g", "mutants"])
        .arg(scratch)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return Err(format!("no file system in memory at {}", scratch.display()));
    }
    // What is made in the machine's own folder for such things goes with the run too.
    if !scratch.starts_with("/tmp") {
        let bound = Command::new("mount").arg("--bind").arg(scratch).arg("/tmp").status();
        if !bound.is_ok_and(|status| status.success()) {
            return Err("/tmp cannot be another folder".to_owned());
        }
    }
    let folder = Path::new("/sys/fs/cgroup/devices").join(format!("incloud-disk-{name}"));
    if !folder.parent().is_some_and(|tree| {
        tree.join("devices.deny").exists() || tree.join("devices.list").exists()
    }) {
        println!(
            "the machine's disks stay open to the tests: there is no cgroup of devices (cgroup v1)"
        );
        return Ok(());
    }
    let _ = fs::create_dir(&folder);
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("loop") {
            continue;
        }
        let numbers = fs::read_to_string(entry.path().join("dev")).unwrap_or_default();
        if let Some((major, _)) = numbers.trim().split_once(':') {
            fs::write(folder.join("devices.deny"), format!("b {major}:* rwm"))
                .map_err(|error| format!("forbid /dev/{name}: {error}"))?;
        }
    }
    fs::write(folder.join("cgroup.procs"), "0")
        .map_err(|error| format!("{}: {error}", folder.display()))
}

/// What a test left: processes, loop devices, cgroups, files.
pub fn clean(scratch: &Path) {
    let own = std::process::id();
    for _ in 0..20 {
        let others: Vec<i32> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| *pid != 1 && u32::try_from(*pid) != Ok(own) && !is_zombie(*pid))
            .collect();
        if others.is_empty() {
            break;
        }
        for pid in others {
            // SAFETY: a signal; in this PID namespace there is nothing but what this run began.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let of_the_run = fs::metadata(scratch).map(|found| found.dev()).ok();
    for device in loops() {
        if of_the_run.is_some() && file_system_of(&device) == of_the_run {
            detach(&device);
        }
    }
    let shard = format!("incloud-disk-test-{}.", std::env::var(SHARD).unwrap_or_default());
    for tree in fs::read_dir("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .chain([PathBuf::from("/sys/fs/cgroup")])
    {
        for entry in fs::read_dir(&tree).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&shard) {
                remove_cgroup(&entry.path());
            }
        }
    }
    for entry in fs::read_dir(scratch).into_iter().flatten().flatten() {
        if !matches!(entry.file_name().to_str(), Some("told" | "reached")) {
            let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
        }
    }
}

/// The loop devices that have a file.
pub fn loops() -> BTreeSet<PathBuf> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    devices
        .filter(|entry| entry.path().join("loop").exists())
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .collect()
}

fn detach(device: &Path) {
    let _ = Command::new("losetup").arg("-d").arg(device).output();
}

/// After a run: what came since `before` with a file on a file system that no process of the machine has mounted. A test
/// had it in a mount namespace of its own, and was ended with that. Whose file cannot be told may be another's.
pub fn end_loops(before: &BTreeSet<PathBuf>) {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let tables = processes.filter_map(|entry| fs::read(entry.path().join("mountinfo")).ok());
    let mounted: BTreeSet<String> = tables
        .flat_map(|table| {
            let text = String::from_utf8_lossy(&table).into_owned();
            text.lines()
                .filter_map(|line| Some(line.split(' ').nth(2)?.to_owned()))
                .collect::<Vec<_>>()
        })
        .collect();
    for device in loops().difference(before) {
        match file_system_of(device) {
            Some(number) => {
                let number = format!("{}:{}", libc::major(number), libc::minor(number));
                if !mounted.contains(&number) {
                    detach(device);
                }
            }
            None => {
                println!("left: {} came meanwhile, and its file cannot be told", device.display())
            }
        }
    }
}

/// The file system that the file of a loop device is on. The file's path tells less: a test has a mount namespace of its
/// own, and when that has ended the path begins nowhere.
fn file_system_of(device: &Path) -> Option<u64> {
    /// `LOOP_GET_STATUS64`, which answers a `loop_info64`: first of all the number of that file system.
    const STATUS: libc::c_ulong = 0x4c05;
    let device = fs::File::open(device).ok()?;
    let mut answer = [0_u64; 29];
    // SAFETY: the structure has 232 bytes.
    let asked = unsafe { libc::ioctl(device.as_raw_fd(), STATUS as _, answer.as_mut_ptr()) };
    (asked == 0).then_some(answer[0])
}

/// Names the run in the names of its cgroups: PIDs begin again in each namespace.
pub const SHARD: &str = "INCLOUD_DISK_MUTANT_SHARD";

fn is_zombie(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}

fn remove_cgroup(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// The cgroup of `enter`, once all of its processes have ended.
pub fn leave(name: &str) {
    let _ =
        fs::remove_dir(Path::new("/sys/fs/cgroup/devices").join(format!("incloud-disk-{name}")));
}
