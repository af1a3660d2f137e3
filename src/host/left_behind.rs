//! Processes that an earlier call left behind because they hang in the kernel.
//!
//! They were killed, and end as soon as what they wait for comes back. Until then they are written
//! down beside the volume's lock, one JSON object a line: a later call must not begin the same on
//! the same disk, and a person wants to know what hangs.

use super::files;
use super::machine;
use crate::model::advice::Advice;
use crate::ports::store::{StuckProcess, what_ends_it};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The same of one that hangs on a file of the driver's own.
const WHAT_ENDS_IT_ON_A_FILE: &str = "the disk of that file hangs, and not the volume's (findmnt -T \
    FILE names it, the kernel's log has the reason); the process was killed and ends when that disk \
    answers";

/// What ends these.
pub fn what_ends(left: &[LeftProcess]) -> Advice {
    let is_on_a_file = left.iter().any(|one| one.file.is_some());
    if is_on_a_file { WHAT_ENDS_IT_ON_A_FILE.into() } else { what_ends_it() }
}

/// A process that hangs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftProcess {
    pub pid: i32,
    /// When it began, in the kernel's ticks: another process of that number began at another time.
    pub start: u64,
    /// The machine's start that those are counted from.
    pub boot: String,
    pub doing: String,
    /// In which system call it is, if the kernel says so.
    pub call: Option<String>,
    /// Since when it does that, in milliseconds since the machine's start.
    pub since: u64,
    /// The file of the driver's own that it uses: then it is not the volume's disk that hangs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The disk, by number.
    pub disk: Option<String>,
    /// The kernel's count of disks, which tells this one from a later one of the same number.
    pub sequence: Option<u64>,
}

impl LeftProcess {
    /// The process, if there is one of that number.
    pub fn of(pid: i32, doing: &str, since: u64) -> Option<Self> {
        let (_, start) = state_of(pid)?;
        Some(Self {
            pid,
            start,
            boot: machine::boot_id(),
            doing: doing.to_owned(),
            call: None,
            since,
            file: None,
            disk: None,
            sequence: None,
        })
    }

    pub(crate) fn into_stuck(self) -> StuckProcess {
        StuckProcess {
            description: self.to_string(),
            what_ends_it: what_ends(std::slice::from_ref(&self)),
            is_on_own_file: self.file.is_some(),
            disk: self.disk,
            sequence: self.sequence,
        }
    }

    /// Whether it is still there.
    pub fn is_alive(&self) -> bool {
        let is_same = |(state, start)| start == self.start && !matches!(state, 'Z' | 'X');
        self.boot == machine::boot_id() && state_of(self.pid).is_some_and(is_same)
    }

    /// Finds out in which system call it is. One that waits for a lock, or was killed, may run for an instant.
    pub fn look(&mut self) {
        const LOOKS: u32 = 10;
        const PAUSE: Duration = Duration::from_millis(2);
        for look in 0..LOOKS {
            self.call = self.call_now();
            if self.call.is_some() || !self.is_alive() {
                return;
            }
            if look + 1 < LOOKS {
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn call_now(&self) -> Option<String> {
        let text = deaf_call_of(self.pid)?;
        let number: i64 = text.split_whitespace().next()?.parse().ok()?;
        Some(name_of(number).map_or_else(|| format!("system call {number}"), str::to_owned))
    }
}

impl std::fmt::Display for LeftProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} hangs", self.pid)?;
        if let Some(call) = &self.call {
            write!(f, " in {call}")?;
        }
        if let Some(file) = &self.file {
            write!(f, " on {file}, a file of the driver's own,")?;
        } else if !self.doing.is_empty() {
            write!(f, " ({})", self.doing)?;
        } else if let Some(disk) = self.disk.as_deref().and_then(name_of_disk) {
            write!(f, " on disk {disk}")?;
        }
        if let Some(seconds) = seconds_since(self.since) {
            write!(f, " for {seconds} s")?;
        }
        Ok(())
    }
}

fn seconds_since(since: u64) -> Option<u64> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let now: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole seconds")]
    let now = now as u64;
    (since > 0).then(|| now.saturating_sub(since / 1000))
}

/// The state of a process and when it began.
pub fn state_of(pid: i32) -> Option<(char, u64)> {
    machine::state_of(u32::try_from(pid).ok()?)
}

/// Whether a thread of the process waits in the kernel and takes no signal.
pub fn hangs(pid: i32) -> bool {
    hanging_thread(pid).is_some()
}

/// The call that the process hangs in now, with its arguments: one that stays the same for long does
/// not come back. Of any call if it takes no signal, and of those on disks and folders else.
pub fn call_of(pid: i32) -> Option<String> {
    if let Some(call) = deaf_call_of(pid) {
        return Some(call);
    }
    let text = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    name_of(text.split_whitespace().next()?.parse().ok()?)?;
    Some(text)
}

/// A thread that waits in the kernel and takes no signal.
fn hanging_thread(pid: i32) -> Option<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut tasks: Vec<PathBuf> = tasks.flatten().map(|task| task.path()).collect();
    tasks.sort();
    tasks.into_iter().find(|task| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'))
    })
}

/// The same, only if the process takes no signal there: a program may wait in a read for as long as
/// it likes.
pub fn deaf_call_of(pid: i32) -> Option<String> {
    fs::read_to_string(hanging_thread(pid)?.join("syscall")).ok()
}

/// What the kernel calls the disk of this number now.
fn name_of_disk(number: &str) -> Option<String> {
    let disk = fs::read_link(format!("/sys/dev/block/{number}")).ok()?;
    Some(disk.file_name()?.to_string_lossy().into_owned())
}

/// The names of the calls that hang on disks.
fn name_of(number: i64) -> Option<&'static str> {
    use nix::libc;
    #[cfg(target_arch = "x86_64")]
    const OLD: &[(i64, &str)] = &[
        (libc::SYS_open, "open(2)"),
        (libc::SYS_stat, "stat(2)"),
        (libc::SYS_mkdir, "mkdir(2)"),
        (libc::SYS_rename, "rename(2)"),
        (libc::SYS_unlink, "unlink(2)"),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const OLD: &[(i64, &str)] = &[];
    const NAMES: [(i64, &str); 32] = [
        (libc::SYS_mount, "mount(2)"),
        (libc::SYS_umount2, "umount(2)"),
        (libc::SYS_fsconfig, "fsconfig(2), which mounts"),
        (libc::SYS_fsmount, "fsmount(2)"),
        (libc::SYS_move_mount, "move_mount(2)"),
        (libc::SYS_open_tree, "open_tree(2)"),
        (libc::SYS_syncfs, "syncfs(2)"),
        (libc::SYS_fsync, "fsync(2)"),
        (libc::SYS_fdatasync, "fdatasync(2)"),
        (libc::SYS_openat, "openat(2)"),
        (libc::SYS_openat2, "openat2(2)"),
        (libc::SYS_lseek, "lseek(2)"),
        (libc::SYS_fstat, "fstat(2)"),
        (libc::SYS_mount_setattr, "mount_setattr(2)"),
        (libc::SYS_unlinkat, "unlink(2)"),
        (libc::SYS_renameat2, "rename(2)"),
        (libc::SYS_sync, "sync(2)"),
        (libc::SYS_close, "close(2)"),
        (libc::SYS_close_range, "close(2)"),
        (libc::SYS_read, "read(2)"),
        (libc::SYS_pread64, "pread(2)"),
        (libc::SYS_write, "write(2)"),
        (libc::SYS_pwrite64, "pwrite(2)"),
        (libc::SYS_ioctl, "ioctl(2)"),
        (libc::SYS_statx, "statx(2)"),
        (libc::SYS_newfstatat, "stat(2)"),
        (libc::SYS_statfs, "statfs(2)"),
        (libc::SYS_readlinkat, "readlink(2)"),
        (libc::SYS_getdents64, "getdents(2)"),
        (libc::SYS_exit_group, "exit(2)"),
        (libc::SYS_mkdirat, "mkdir(2)"),
        (libc::SYS_flock, "flock(2)"),
    ];
    NAMES.iter().chain(OLD).find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// Where the notes of a lock's volume are.
fn place_of(lock: &Path) -> PathBuf {
    lock.with_extension("left")
}

/// Writes down what is left, beside those that still are. The caller holds the lock.
pub fn note(lock: &Path, left: &[LeftProcess]) {
    if left.is_empty() {
        return;
    }
    let mut all = read(lock);
    all.extend(left.iter().cloned());
    write(lock, &all);
}

/// Those that are left of earlier calls and still there. The caller holds the lock.
pub fn of_lock(lock: &Path) -> Vec<LeftProcess> {
    let all = read(lock);
    if all.is_empty() {
        return all;
    }
    let alive: Vec<LeftProcess> = all.iter().filter(|one| one.is_alive()).cloned().collect();
    if alive.len() < all.len() {
        write(lock, &alive);
    }
    alive
}

fn read(lock: &Path) -> Vec<LeftProcess> {
    let text = files::read_if_there(&place_of(lock)).unwrap_or_default().unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn write(lock: &Path, all: &[LeftProcess]) {
    let place = place_of(lock);
    if all.is_empty() {
        let _ = fs::remove_file(place);
        return;
    }
    let lines: String = all
        .iter()
        .filter_map(|one| serde_json::to_string(one).ok())
        .map(|line| line + "\n")
        .collect();
    let _ = files::replace_until_boot(&place, lines.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_of_its_number() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut one = LeftProcess::of(own, "read a disk", 1).unwrap();
        assert!(one.is_alive());
        let text = one.to_string();
        assert!(text.starts_with(&format!("process {own} hangs (read a disk) for ")), "{text}");
        one.file = Some("/var/log/x".to_owned());
        let text = one.to_string();
        assert!(text.contains("hangs on /var/log/x, a file of the driver's own, for "), "{text}");
        let old = serde_json::json!({"pid": 1, "start": 1, "boot": "b", "doing": "", "call": null, "since": 0, "disk": null, "sequence": null});
        assert_eq!(serde_json::from_value::<LeftProcess>(old).unwrap().file, None);
        one.start += 1;
        assert!(!one.is_alive());
    }

    #[test]
    fn what_ended_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("v1.lock");
        let own = i32::try_from(std::process::id()).unwrap();
        let alive = LeftProcess::of(own, "a", 1).unwrap();
        let ended = LeftProcess { start: 1, ..alive.clone() };
        note(&lock, std::slice::from_ref(&ended));
        note(&lock, std::slice::from_ref(&alive));
        assert_eq!(of_lock(&lock).as_slice(), std::slice::from_ref(&alive));
        assert_eq!(read(&lock), [alive]);
        write(&lock, &[ended]);
        assert_eq!(of_lock(&lock), []);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
