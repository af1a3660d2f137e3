//! A process of the machine, by its folder in /proc: what the kernel says of it, what it was told, and how a path
//! looks from where it lives.

use crate::host::machine;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// All there are, by their numbers.
pub(super) fn numbers(proc: &Path) -> Vec<u32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut pids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

pub(super) fn folder(proc: &Path, pid: u32) -> PathBuf {
    proc.join(pid.to_string())
}

/// The words of a process's command line; nothing of one that has ended.
pub(super) fn arguments(process: &Path) -> Vec<String> {
    let text = fs::read(process.join("cmdline")).unwrap_or_default();
    let words = text.strip_suffix(b"\0").unwrap_or(&text).split(|byte| *byte == 0);
    let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
    if text.is_empty() { Vec::new() } else { words.collect() }
}

/// Whether it is root's, among the machine's own processes, and may mount. One in a pod has further
/// numbers, in namespaces of its own; one that is root in a namespace alone has another user here.
pub(super) fn is_roots(process: &Path) -> bool {
    /// `CAP_SYS_ADMIN`.
    const MAY_MOUNT: u64 = 1 << 21;
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let words = |key: &str| {
        let rest = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        rest.unwrap_or_default().split_whitespace().collect::<Vec<_>>()
    };
    words("Uid") == ["0"; 4]
        && match words("NSpid").len() {
            // Linux 4.1 is the first one that tells it.
            0 => namespace(process, "pid")
                .is_some_and(|its| namespace(Path::new("/proc/self"), "pid") == Some(its)),
            count => count == 1,
        }
        && machine::capabilities(&status).is_some_and(|rights| rights & MAY_MOUNT != 0)
        && !is_lent(process)
}

/// Its namespace of this kind, as the kernel names it; nothing if that cannot be seen.
pub(super) fn namespace(process: &Path, kind: &str) -> Option<PathBuf> {
    fs::read_link(process.join("ns").join(kind)).ok()
}

/// Whether its program makes any user root, as sudo does: the user chose its name and its words.
fn is_lent(process: &Path) -> bool {
    fs::metadata(process.join("exe")).is_ok_and(|program| program.mode() & 0o6000 != 0)
}

/// Reads a path as a process sees it, which in a container is not where it is for us: its links lead
/// to places below its own root.
pub(super) fn as_it_sees<T>(
    process: &Path,
    path: &Path,
    read: impl FnOnce(PathBuf) -> io::Result<T>,
) -> io::Result<T> {
    if path.is_relative() {
        return read(process.join("cwd").join(path));
    }
    seen_below(&process.join("root"), path, read)
}

/// The same of a root that is mounted somewhere.
pub(super) fn seen_below<T>(
    root: &Path,
    path: &Path,
    read: impl FnOnce(PathBuf) -> io::Result<T>,
) -> io::Result<T> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
    let inside = path.strip_prefix("/").unwrap_or(path);
    // The root itself has no name below itself.
    let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = open(root, flags, Mode::empty())
        .and_then(|root| openat2(&root, inside, flags, Mode::empty(), ResolveFlags::IN_ROOT));
    match found {
        Ok(found) => {
            use std::os::fd::AsRawFd;
            read(PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd())))
        }
        // Before Linux 5.6 there is no such call, and a few container runtimes forbid it.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => read(root.join(inside)),
        Err(errno) => Err(errno.into()),
    }
}

/// The value of `--name=value` or `--name value`; the last one counts.
pub(super) fn flag_of(arguments: &[String], name: &str) -> Option<String> {
    let (whole, start) = (format!("--{name}"), format!("--{name}="));
    let mut found = None;
    let mut words = arguments.iter().skip(1);
    while let Some(word) = words.next() {
        if let Some(value) = word.strip_prefix(&start) {
            found = Some(value.to_owned());
        } else if *word == whole {
            found = words.next().cloned();
        }
    }
    found
}
