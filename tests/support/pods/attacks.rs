//! What an account without any privilege does to hold up whoever looks at it.
#![allow(unsafe_code)]

use super::inside::{end, sleep_with_parent};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Attack {
    /// Mounts a FUSE file system on a file and lets processes close it in `execve`, for which they wait for ever: as
    /// many as are asked for, in these cgroups.
    Stick { device: PathBuf, at: PathBuf, count: u32, cgroups: Vec<PathBuf> },
    /// Mount namespaces, held by descriptors, each with so many mounts on each other.
    Namespaces { count: u32, mounts: u32 },
    /// Mount namespaces, held by descriptors, each with so many mounts of another namespace's file on long paths.
    LongLines { count: u32, mounts: u32 },
    /// Processes that only sleep.
    Processes { count: u32 },
    /// Processes with so many descriptors each, of this file or of any.
    Descriptors { processes: u32, each: u32, of: Option<PathBuf> },
    /// Takes the lock on its own mount namespace.
    LockNamespace,
    /// Sends an open file to a socket of its own and closes it.
    InFlight(PathBuf),
    /// Hands an open file to an `io_uring` and closes it.
    Registered(PathBuf),
    /// A namespace kept by a mount at `/m/ns`, beside which this process lives below another root. There the
    /// path leads to this, or to a pipe.
    Lure { link: Option<PathBuf> },
    /// So many mounts, each on the deepest directory of the one below it, and one at the very end that was made
    /// first: its line in the mount table is longer than the kernel has memory for.
    LongestLine { levels: u32, parts: u32 },
    /// A namespace kept by a mount whose path leads through a FUSE file system (and an overlay, by which root may look
    /// there too) that answers each look with an I/O error.
    FailingPath { device: PathBuf },
    /// Holds a file of an overlay whose lower layer is a FUSE file system that answers no more.
    HangingFile { device: PathBuf },
    /// Mounts this so many times, each at a place of its own.
    Copies { of: PathBuf, count: u32 },
    /// Holds an open file beside one whose path is too long for a link in `/proc`, or beside a program that has
    /// such a path.
    TooLongToName { file: PathBuf, is_program: bool },
    /// Lets a process write to a file and close it in `execve`, which waits until the file system has written it.
    WriteBack { file: PathBuf },
}

/// Answers what keeps it up.
pub(super) fn begin(attack: Attack) -> io::Result<Vec<File>> {
    match attack {
        Attack::Stick { device, at, count, cgroups } => stick(&device, &at, count, &cgroups),
        Attack::Namespaces { count, mounts } => namespaces(count, mounts),
        Attack::LongLines { count, mounts } => long_lines(count, mounts),
        Attack::Processes { count } => {
            (0..count).try_for_each(|_| child(|| Ok(())))?;
            Ok(Vec::new())
        }
        Attack::Descriptors { processes, each, of } => descriptors(processes, each, of.as_deref()),
        Attack::LockNamespace => {
            let own = File::open("/proc/thread-self/ns/mnt")?;
            rustix::fs::flock(&own, rustix::fs::FlockOperation::LockExclusive)?;
            Ok(vec![own])
        }
        Attack::InFlight(path) => in_flight(&path),
        Attack::Registered(path) => registered(&path),
        Attack::Lure { link } => lure(link.as_deref()),
        Attack::LongestLine { levels, parts } => longest_line(levels, parts),
        Attack::FailingPath { device } => failing_path(&device),
        Attack::HangingFile { device } => hanging_file(&device),
        Attack::Copies { of, count } => copies(&of, count),
        Attack::TooLongToName { file, is_program } => too_long_to_name(&file, is_program),
        Attack::WriteBack { file } => write_back(&file),
    }
}

/// A child of a process with one thread.
fn child(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: this process has one thread, so no lock of another one is copied.
    if unsafe { nix::unistd::fork() }?.is_child() {
        let parent = nix::unistd::getppid();
        let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
        let _ = work();
        sleep_with_parent(parent);
        end();
    }
    Ok(())
}

fn stick(device: &Path, at: &Path, count: u32, cgroups: &[PathBuf]) -> io::Result<Vec<File>> {
    let fuse = File::options().read(true).write(true).open(device)?;
    let options = format!("fd={},rootmode=100666,user_id=0,group_id=0", fuse.as_raw_fd());
    mount(Some("stuck"), at, Some("fuse"), MsFlags::empty(), Some(options.as_str()))?;
    child(|| serve(&fuse, 0o100_666))?;
    for _ in 0..count {
        child(|| {
            cgroups.iter().try_for_each(|list| fs::write(list, "0"))?;
            close_in_exec(File::open(at)?)
        })?;
    }
    Ok(Vec::new())
}

fn write_back(file: &Path) -> io::Result<Vec<File>> {
    child(|| {
        let mut file = File::options().write(true).open(file)?;
        file.write_all(b"text")?;
        close_in_exec(file)
    })?;
    Ok(Vec::new())
}

/// Returns only if the kernel refuses.
fn close_in_exec(file: File) -> io::Result<()> {
    let _file = std::mem::ManuallyDrop::new(file);
    nix::unistd::execv(c"/proc/self/exe", &[c"stuck"])?;
    Ok(())
}

/// Answers whatever is asked, but not FLUSH. The numbers are those of linux/fuse.h.
fn serve(mut fuse: &File, mode: u32) -> io::Result<()> {
    const INIT: u32 = 26;
    const OPEN: u32 = 14;
    const GETATTR: u32 = 3;
    const FLUSH: u32 = 25;
    const LOOKUP: u32 = 1;
    const STATFS: u32 = 17;
    let (mut request, mut is_opened) = (vec![0; 1 << 17], false);
    loop {
        let length = fuse.read(&mut request)?;
        let word = |at: usize| -> u32 {
            request[..length]
                .get(at..at + 4)
                .and_then(|four| four.try_into().ok())
                .map_or(0, u32::from_ne_bytes)
        };
        let mut body = Vec::new();
        let error: i32 = match word(4) {
            FLUSH if mode & 0o40_000 == 0 => continue,
            LOOKUP if request[40..].starts_with(b"file\0") => {
                // The inode's number, and its attributes as below.
                body.resize(128, 0);
                body[..8].copy_from_slice(&2_u64.to_ne_bytes());
                body[40..48].copy_from_slice(&2_u64.to_ne_bytes());
                body[100..104].copy_from_slice(&0o100_666_u32.to_ne_bytes());
                body[104..108].copy_from_slice(&1_u32.to_ne_bytes());
                0
            }
            LOOKUP => -libc::EIO,
            GETATTR if is_opened => continue,
            STATFS => {
                body.resize(80, 0);
                body[40..44].copy_from_slice(&4096_u32.to_ne_bytes());
                body[44..48].copy_from_slice(&255_u32.to_ne_bytes());
                0
            }
            INIT => {
                body.extend(7_u32.to_ne_bytes());
                body.extend(31_u32.to_ne_bytes());
                body.resize(64, 0);
                body[20..24].copy_from_slice(&4096_u32.to_ne_bytes());
                0
            }
            OPEN => {
                is_opened = mode & 0o40_000 != 0;
                body.resize(16, 0);
                0
            }
            GETATTR => {
                // attr_valid, then the inode: number, size and blocks, times, mode, links.
                body.resize(104, 0);
                body[..8].copy_from_slice(&1000_u64.to_ne_bytes());
                body[16..24].copy_from_slice(&1_u64.to_ne_bytes());
                let is_root = request[16..24] == 1_u64.to_ne_bytes();
                let mode = if is_root { mode } else { 0o100_666 };
                body[76..80].copy_from_slice(&mode.to_ne_bytes());
                body[80..84].copy_from_slice(&1_u32.to_ne_bytes());
                0
            }
            _ => -libc::ENOSYS,
        };
        let mut reply = Vec::new();
        reply.extend(u32::try_from(16 + body.len()).unwrap_or_default().to_ne_bytes());
        reply.extend(error.to_ne_bytes());
        reply.extend(&request[8..16]);
        reply.extend(body);
        let _ = fuse.write(&reply);
    }
}

fn namespaces(count: u32, mounts: u32) -> io::Result<Vec<File>> {
    mount(Some("pile"), "/sys", Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    for _ in 1..mounts {
        mount(Some("/sys"), "/sys", None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    }
    copies_of_own_namespace(count)
}

/// Each has all mounts of this one.
fn copies_of_own_namespace(count: u32) -> io::Result<Vec<File>> {
    allow_descriptors();
    let copy = |_| {
        unshare(CloneFlags::CLONE_NEWNS)?;
        File::open("/proc/thread-self/ns/mnt")
    };
    (0..count).map(copy).collect()
}

fn long_lines(count: u32, mounts: u32) -> io::Result<Vec<File>> {
    mount(Some("deep"), "/sys", Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    std::env::set_current_dir("/sys")?;
    make_deep(15)?;
    for n in 0..mounts {
        let place = n.to_string();
        File::create(&place)?;
        let from = "/proc/thread-self/ns/net";
        mount(Some(from), place.as_str(), None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    }
    std::env::set_current_dir("/")?;
    copies_of_own_namespace(count)
}

fn allow_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

fn descriptors(processes: u32, each: u32, of: Option<&Path>) -> io::Result<Vec<File>> {
    if let Some(of) = of {
        File::open(of)?;
    }
    for _ in 0..processes {
        child(|| {
            allow_descriptors();
            let file = of.unwrap_or(Path::new("/dev/null"));
            let file = File::open(file).or_else(|_| File::open("/"))?;
            for _ in 0..each {
                std::mem::forget(file.try_clone()?);
            }
            Ok(())
        })?;
    }
    Ok(Vec::new())
}

fn in_flight(path: &Path) -> io::Result<Vec<File>> {
    let file = File::open(path)?;
    let flags = SockFlag::SOCK_CLOEXEC;
    let (one, other) = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)?;
    let files: [RawFd; 1] = [file.as_raw_fd()];
    let along = [ControlMessage::ScmRights(&files)];
    sendmsg::<UnixAddr>(one.as_raw_fd(), &[IoSlice::new(b"x")], &along, MsgFlags::empty(), None)?;
    Ok(vec![one.into(), other.into()])
}

fn registered(path: &Path) -> io::Result<Vec<File>> {
    const REGISTER_FILES: libc::c_uint = 2;
    let file = File::open(path)?;
    // `struct io_uring_params`, all zero.
    let mut parameters = [0_u8; 120];
    // SAFETY: the structure is as long as the kernel's, and lives until the call returns; what it answers is a
    // new descriptor.
    let ring = unsafe {
        let ring = libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr());
        OwnedFd::from_raw_fd(
            RawFd::try_from(nix::errno::Errno::result(ring)?).map_err(io::Error::other)?,
        )
    };
    let files: [libc::c_int; 1] = [file.as_raw_fd()];
    // SAFETY: the kernel reads one number, which lives until the call returns.
    let done = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            ring.as_raw_fd(),
            REGISTER_FILES,
            files.as_ptr(),
            1,
        )
    };
    nix::errno::Errno::result(done)?;
    Ok(vec![ring.into()])
}

/// Mounts a new mount namespace there.
fn keep_a_namespace_at(kept: &Path) -> io::Result<()> {
    let here = File::open("/proc/thread-self/ns/mnt")?;
    // The kernel only lets a later namespace be mounted, and takes their numbers from a list for each processor.
    for _ in 0..100 {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let there = File::open("/proc/thread-self/ns/mnt")?;
        nix::sched::setns(&here, CloneFlags::CLONE_NEWNS)?;
        let from = format!("/proc/self/fd/{}", there.as_raw_fd());
        if mount(Some(from.as_str()), kept, None::<&str>, MsFlags::MS_BIND, None::<&str>).is_ok() {
            break;
        }
    }
    Ok(())
}

fn failing_path(device: &Path) -> io::Result<Vec<File>> {
    let fuse = File::options().read(true).write(true).open(device)?;
    let root = Path::new("/sys");
    mount(Some("m"), root, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    for name in ["kept", "fuse", "other"] {
        fs::create_dir(root.join(name))?;
    }
    let kept = root.join("kept");
    fs::write(kept.join("ns"), b"")?;
    keep_a_namespace_at(&kept.join("ns"))?;
    let options = format!("fd={},rootmode=40755,user_id=0,group_id=0", fuse.as_raw_fd());
    let at = root.join("fuse");
    mount(Some("failing"), &at, Some("fuse"), MsFlags::empty(), Some(options.as_str()))?;
    child(|| serve(&fuse, 0o40_755))?;
    let lower = Some("lowerdir=/sys/fuse:/sys/other");
    mount(Some("failing"), &kept, Some("overlay"), MsFlags::empty(), lower)?;
    Ok(Vec::new())
}

fn hanging_file(device: &Path) -> io::Result<Vec<File>> {
    let fuse = File::options().read(true).write(true).open(device)?;
    let root = Path::new("/sys");
    mount(Some("m"), root, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    for name in ["top", "fuse", "other"] {
        fs::create_dir(root.join(name))?;
    }
    let options = format!("fd={},rootmode=40755,user_id=0,group_id=0", fuse.as_raw_fd());
    let at = root.join("fuse");
    mount(Some("hanging"), &at, Some("fuse"), MsFlags::empty(), Some(options.as_str()))?;
    child(|| serve(&fuse, 0o40_755))?;
    let (top, lower) = (root.join("top"), Some("lowerdir=/sys/fuse:/sys/other"));
    mount(Some("hanging"), &top, Some("overlay"), MsFlags::empty(), lower)?;
    Ok(vec![File::open(top.join("file"))?])
}

fn lure(link: Option<&Path>) -> io::Result<Vec<File>> {
    let over = Path::new("/sys");
    mount(Some("m"), over, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    let (kept, root) = (over.join("ns"), over.join("root"));
    fs::write(&kept, b"")?;
    fs::create_dir_all(root.join("sys"))?;
    let place = root.join("sys/ns");
    if let Some(link) = link {
        std::os::unix::fs::symlink(link, place)?;
    } else {
        nix::unistd::mkfifo(&place, nix::sys::stat::Mode::from_bits_truncate(0o666))?;
    }
    keep_a_namespace_at(&kept)?;
    // One whose root is the namespace's own, and this one before it.
    child(|| Ok(()))?;
    std::os::unix::fs::chroot(&root)?;
    Ok(Vec::new())
}

/// So many directories of the longest name are one system call.
const AT_ONCE: u32 = 15;

fn longest_name() -> PathBuf {
    PathBuf::from("a".repeat(255))
}

fn go_down(parts: u32) -> io::Result<()> {
    let mut left = parts;
    while left > 0 {
        let now = left.min(AT_ONCE);
        std::env::set_current_dir((0..now).map(|_| longest_name()).collect::<PathBuf>())?;
        left -= now;
    }
    Ok(())
}

fn make_deep(parts: u32) -> io::Result<()> {
    for _ in 0..parts {
        fs::create_dir(longest_name())?;
        go_down(1)?;
    }
    Ok(())
}

fn longest_line(levels: u32, parts: u32) -> io::Result<Vec<File>> {
    use rustix::fs::{CWD, Mode, OFlags, open};
    use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
    let root = Path::new("/sys");
    mount(Some("deep"), root, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    mount(None::<&str>, root, None::<&str>, MsFlags::MS_PRIVATE, None::<&str>)?;
    let early = root.join("early");
    fs::create_dir(&early)?;
    mount(Some("early"), &early, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    let early = open_tree(CWD, &early, OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
    let from = open(root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let from = format!("/proc/self/fd/{}", from.as_raw_fd());
    std::env::set_current_dir(root)?;
    make_deep(parts)?;
    let over = Path::new("..").join(longest_name());
    for _ in 0..levels {
        mount(Some(from.as_str()), ".", None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
        std::env::set_current_dir(&over)?;
        go_down(parts)?;
    }
    move_mount(early, "", CWD, ".", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    std::env::set_current_dir("/")?;
    Ok(Vec::new())
}

fn copies(of: &Path, count: u32) -> io::Result<Vec<File>> {
    let root = Path::new("/sys");
    mount(Some("copies"), root, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    mount(None::<&str>, root, None::<&str>, MsFlags::MS_PRIVATE, None::<&str>)?;
    for n in 0..count {
        let place = root.join(n.to_string());
        fs::create_dir(&place)?;
        mount(Some(of), &place, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    }
    Ok(Vec::new())
}

fn too_long_to_name(file: &Path, is_program: bool) -> io::Result<Vec<File>> {
    let root = Path::new("/sys");
    mount(Some("deep"), root, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    std::env::set_current_dir(root)?;
    make_deep(20)?;
    let here = File::open(".")?;
    let held = File::open(file)?;
    if is_program {
        fs::copy("/bin/sleep", "sleep")?;
        child(|| {
            nix::fcntl::fcntl(&held, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))?;
            nix::unistd::execv(c"./sleep", &[c"sleep", c"1000"])?;
            Ok(())
        })?;
        std::env::set_current_dir("/")?;
        return Ok(Vec::new());
    }
    std::env::set_current_dir("/")?;
    Ok(vec![here, held])
}
