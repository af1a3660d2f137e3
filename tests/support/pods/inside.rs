//! What runs in a test's container: this program itself, started again, which never comes to its
//! tests. It does what it is told on stdin, one order a line, and ends when nothing can tell it
//! anything any more; so a killed test leaves no process.

use super::orders::{Order, Reply, Report};
use incloud_disk::host::census::reader;
use nix::libc;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Set for a process that is to be a container.
pub(super) const MARK: &str = "INCLOUD_DISK_TEST_CONTAINER";

/// Called by the C library before `main`: the test harness would take the process for itself, and
/// make threads. A container begins with one, for a mount namespace belongs to a thread.
#[allow(unsafe_code)]
// SAFETY: the loader calls what stands in this section as functions of C's calling convention; the
// function reads no arguments, and Rust's library needs no preparation for what it uses.
#[unsafe(link_section = ".init_array")]
#[used]
static BEFORE_MAIN: extern "C" fn() = become_a_container;

extern "C" fn become_a_container() {
    // Tests that call the library start this program as its reader.
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|word| word == reader::WORD) {
        let _ = reader::serve(&arguments[1..]);
        end();
    }
    if std::env::var_os(MARK).is_some() {
        Inside::default().serve();
    }
}

/// Ends the process, without anything that `main` would have to have prepared.
#[allow(unsafe_code)]
pub(super) fn end() -> ! {
    // SAFETY: _exit takes a number and does not return.
    unsafe { libc::_exit(0) }
}

#[derive(Default)]
struct Inside {
    held: Vec<File>,
    written: Arc<Mutex<Written>>,
}

#[derive(Default)]
struct Written {
    report: Report,
    file_systems: BTreeSet<u64>,
}

impl Inside {
    fn serve(mut self) -> ! {
        let mut line = String::new();
        while io::stdin().read_line(&mut line).is_ok_and(|length| length > 0) {
            let reply: Reply = match serde_json::from_str(&line) {
                Ok(Order::EndFirstThread) => {
                    answer(&Ok(Report::default()));
                    std::thread::spawn(move || self.serve());
                    end_this_thread();
                }
                Ok(order) => self.obey(order).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            answer(&reply);
            line.clear();
        }
        end()
    }

    fn obey(&mut self, order: Order) -> io::Result<Report> {
        match order {
            Order::Join { lists } => {
                // "0" is the process that writes it.
                lists.iter().try_for_each(|list| fs::write(list, "0"))?;
            }
            Order::CopyMounts { slave } => copy_mounts(slave)?,
            Order::BecomeUser { user } => become_user(user)?,
            Order::OwnRoot { binds } => own_root(&binds)?,
            Order::Bind { from, to } => bind(&from, &to)?,
            Order::Unmount { place } => umount2(&place, MntFlags::MNT_DETACH)?,
            Order::Fork { count } => fork_sleepers(count)?,
            Order::Relay => relay()?,
            Order::ThreadWithMounts => thread_with_mounts()?,
            Order::Write { path, pause } => {
                let written = Arc::clone(&self.written);
                std::thread::spawn(move || write_for_ever(&path, pause, &written));
            }
            Order::Report => return Ok(self.report()),
            Order::Open { path } => self.held.push(File::open(path)?),
            Order::OpenAlone { path } => {
                use std::os::unix::fs::OpenOptionsExt;
                let mut alone = OpenOptions::new();
                self.held.push(alone.read(true).custom_flags(libc::O_EXCL).open(path)?);
            }
            Order::HoldTree => self.held.push(tree_of_mounts()?),
            Order::Map { path } => map(&path)?,
            Order::Confine { label } => fs::write("/proc/thread-self/attr/current", label)?,
            Order::StopAtTheirEnd { pids, user } => {
                pids.into_iter().try_for_each(stop_at_its_end)?;
                nix::unistd::setuid(nix::unistd::Uid::from_raw(user))?;
            }
            Order::ChangeFolder { path } => std::env::set_current_dir(path)?,
            Order::ChangeRoot { path } => std::os::unix::fs::chroot(path)?,
            Order::Attack(attack) => self.held.extend(super::attacks::begin(attack)?),
            Order::OwnUsers => own_users()?,
            Order::LetGo => self.held.clear(),
            Order::EndFirstThread => unreachable!("served above"),
        }
        Ok(Report::default())
    }

    fn report(&self) -> Report {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |number: &u64| {
            let (major, minor) = (nix::sys::stat::major(*number), nix::sys::stat::minor(*number));
            format!("{major}:{minor}")
        };
        let file_systems = written.file_systems.iter().map(name).collect();
        Report { file_systems, ..written.report.clone() }
    }
}

fn answer(reply: &Reply) {
    let mut line = serde_json::to_string(reply).unwrap_or_default();
    line.push('\n');
    let _ = io::stdout().write_all(line.as_bytes());
}

#[allow(unsafe_code)]
fn end_this_thread() -> ! {
    // SAFETY: the system call (not the library's function) ends the calling thread at once; it
    // runs nothing and frees nothing that another thread uses.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    end()
}

fn copy_mounts(slave: bool) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let kind = if slave { MsFlags::MS_SLAVE } else { MsFlags::MS_PRIVATE };
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | kind, None::<&str>)?;
    Ok(())
}

/// As `unshare -Urm` does.
fn become_user(user: u32) -> io::Result<()> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)?;
    // Who was root before does not own its files in /proc.
    nix::sys::prctl::set_dumpable(true)?;
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {user} 1"))
}

/// As a runtime does: a root with nothing but what the container sees.
fn own_root(binds: &[(PathBuf, PathBuf)]) -> io::Result<()> {
    // A folder that every machine has and that no test's volume is below.
    let root = Path::new("/sys");
    mount(Some("root"), root, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    for (from, to) in binds {
        bind(from, &root.join(to.strip_prefix("/").unwrap_or(to)))?;
    }
    std::env::set_current_dir(root)?;
    // The old root comes to lie on the new one, and is taken off there (pivot_root(2), "." twice).
    nix::unistd::pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir("/")
}

fn bind(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    Ok(())
}

fn tree_of_mounts() -> io::Result<File> {
    use rustix::mount::{OpenTreeFlags, open_tree};
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(rustix::fs::CWD, "/", flags | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
    Ok(tree.into())
}

#[allow(unsafe_code)]
fn fork_sleepers(count: u32) -> io::Result<()> {
    let parent = nix::unistd::getpid();
    for _ in 0..count {
        // SAFETY: this process has one thread yet, so no lock of another one is copied.
        if unsafe { nix::unistd::fork() }?.is_child() {
            let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
            sleep_with_parent(parent);
            end();
        }
    }
    Ok(())
}

/// The parent may have died before its death was asked for.
pub(super) fn sleep_with_parent(parent: nix::unistd::Pid) {
    while nix::unistd::getppid() == parent {
        nix::unistd::pause();
    }
}

fn own_users() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", "0 0 1")?;
    fs::write("/proc/self/gid_map", "0 0 1")
}

/// Who looks at one of these processes is late: it has ended, and its child lives.
#[allow(unsafe_code)]
fn relay() -> io::Result<()> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    // SAFETY: this process has one thread yet, so no lock of another one is copied; and so has
    // each child.
    let child = || unsafe { nix::unistd::fork() };
    if child()?.is_parent() {
        return Ok(());
    }
    loop {
        let input = io::stdin();
        let mut watched = [PollFd::new(input.as_fd(), PollFlags::empty())];
        // The end of the pipe is reported without being asked for.
        let _ = poll(&mut watched, PollTimeout::ZERO);
        let is_over = watched[0].revents().is_some_and(|events| !events.is_empty());
        if is_over || !child().is_ok_and(nix::unistd::ForkResult::is_child) {
            end();
        }
    }
}

/// As a debugger may: who is traced so stops in its end, and goes on when its tracer says so or ends.
#[allow(unsafe_code)]
fn stop_at_its_end(pid: u32) -> io::Result<()> {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    let options = libc::PTRACE_O_TRACEEXIT as usize as *mut libc::c_void;
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: this request reads two numbers, and no memory.
    let answer = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, nothing, options) };
    nix::errno::Errno::result(answer).map(drop).map_err(io::Error::from)
}

/// A thread with a copy of the mounts, private, in a namespace that it alone lives in.
fn thread_with_mounts() -> io::Result<()> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(copy_mounts(false));
        loop {
            std::thread::park();
        }
    });
    receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the thread died")))
}

/// The mapping stays until the process ends; its file is closed.
#[allow(unsafe_code)]
fn map(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let length = NonZeroUsize::new(4096).unwrap_or(NonZeroUsize::MIN);
    // SAFETY: the kernel chooses a place that is free, and nothing reads there.
    unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, &file, 0) }?;
    Ok(())
}

/// Opens, looks where it is, appends and closes, again and again.
fn write_for_ever(path: &Path, pause: Duration, written: &Mutex<Written>) {
    loop {
        let result = write_once(path);
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(file_system) => {
                written.report.writes += 1;
                written.file_systems.insert(file_system);
            }
            Err(error) => {
                written.report.errors += 1;
                written.report.first_error.get_or_insert_with(|| error.to_string());
            }
        }
        drop(written);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
}

fn write_once(path: &Path) -> io::Result<u64> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let file_system = file.metadata()?.dev();
    file.write_all(b"0123456789\n")?;
    Ok(file_system)
}
