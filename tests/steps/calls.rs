//! The system calls that change or ask something, what each is about, and how it can fail. All else
//! (memory, time, signals, threads that wait for each other) is passed over.

use nix::errno::Errno;
use nix::libc;

use Errno::{
    EACCES, EADDRNOTAVAIL, EAGAIN, EBUSY, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EINTR, EIO,
    EMFILE, ENETUNREACH, ENOMEM, ENOSPC, EPIPE, EROFS, ETIMEDOUT,
};

/// Which argument says what a call is about.
#[derive(Debug, Clone, Copy)]
pub enum About {
    /// A path, alone.
    Path(usize),
    /// A path behind an open folder.
    At(usize, usize),
    /// An open file.
    File(usize),
    /// An open file and a number that says what is wanted of it.
    Wish(usize, usize),
    /// An address of the network.
    Address(usize),
    Nothing,
}

use About::{Address, At, File, Nothing, Path, Wish};

const OPENS: &[Errno] = &[EIO, ENOSPC, EACCES, EROFS, EMFILE, EINTR, ENOMEM];
const ASKS: &[Errno] = &[EIO, EACCES, ENOMEM];
const READS: &[Errno] = &[EIO, EINTR];
const WRITES: &[Errno] = &[EIO, ENOSPC, EINTR];
const NAMES: &[Errno] = &[EIO, ENOSPC, EACCES, EROFS, EBUSY];
const MODES: &[Errno] = &[EIO, EACCES, EROFS];
const MOUNTS: &[Errno] = &[EBUSY, EIO, ENOMEM, EACCES, EROFS];
const STARTS: &[Errno] = &[EAGAIN, ENOMEM];
const SOCKETS: &[Errno] = &[EACCES, EMFILE, ENOMEM];
const FLUSHES: &[Errno] = &[EIO, ENOSPC];
const CONNECTS: &[Errno] =
    &[ECONNREFUSED, ETIMEDOUT, ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, EINTR];
const SENDS: &[Errno] = &[ECONNRESET, EPIPE, ETIMEDOUT, ENOMEM, EINTR];
const RECEIVES: &[Errno] = &[ECONNRESET, ETIMEDOUT, EINTR];

/// A call: its number, its name, what it is about, and how it can fail.
pub type Call = (i64, &'static str, About, &'static [Errno]);

const CALLS: &[Call] = &[
    (libc::SYS_openat, "openat", At(0, 1), OPENS),
    (libc::SYS_openat2, "openat2", At(0, 1), OPENS),
    (libc::SYS_read, "read", File(0), READS),
    (libc::SYS_pread64, "pread64", File(0), READS),
    (libc::SYS_readv, "readv", File(0), READS),
    (libc::SYS_write, "write", File(0), WRITES),
    (libc::SYS_pwrite64, "pwrite64", File(0), WRITES),
    (libc::SYS_writev, "writev", File(0), WRITES),
    (libc::SYS_copy_file_range, "copy_file_range", File(2), WRITES),
    (libc::SYS_sendfile, "sendfile", File(0), WRITES),
    (libc::SYS_statx, "statx", At(0, 1), ASKS),
    (libc::SYS_newfstatat, "newfstatat", At(0, 1), ASKS),
    (libc::SYS_fstat, "fstat", File(0), ASKS),
    (libc::SYS_statfs, "statfs", Path(0), ASKS),
    (libc::SYS_fstatfs, "fstatfs", File(0), ASKS),
    (libc::SYS_readlinkat, "readlinkat", At(0, 1), ASKS),
    (libc::SYS_faccessat, "faccessat", At(0, 1), ASKS),
    (libc::SYS_faccessat2, "faccessat2", At(0, 1), ASKS),
    (libc::SYS_getdents64, "getdents64", File(0), READS),
    (libc::SYS_ioctl, "ioctl", Wish(0, 1), &[EIO, EACCES, EINTR, EBUSY]),
    (libc::SYS_flock, "flock", Wish(0, 1), &[EINTR, ENOMEM]),
    (libc::SYS_fcntl, "fcntl", Wish(0, 1), &[EMFILE, EAGAIN]),
    (libc::SYS_fsync, "fsync", File(0), FLUSHES),
    (libc::SYS_fdatasync, "fdatasync", File(0), FLUSHES),
    (libc::SYS_syncfs, "syncfs", File(0), FLUSHES),
    (libc::SYS_ftruncate, "ftruncate", File(0), FLUSHES),
    (libc::SYS_fallocate, "fallocate", File(0), FLUSHES),
    (libc::SYS_mkdirat, "mkdirat", At(0, 1), NAMES),
    (libc::SYS_unlinkat, "unlinkat", At(0, 1), NAMES),
    (libc::SYS_renameat, "renameat", At(0, 1), NAMES),
    (libc::SYS_renameat2, "renameat2", At(0, 1), NAMES),
    (libc::SYS_linkat, "linkat", At(2, 3), NAMES),
    (libc::SYS_symlinkat, "symlinkat", At(1, 2), NAMES),
    (libc::SYS_mknodat, "mknodat", At(0, 1), NAMES),
    (libc::SYS_fchmod, "fchmod", File(0), MODES),
    (libc::SYS_fchmodat, "fchmodat", At(0, 1), MODES),
    (libc::SYS_fchown, "fchown", File(0), MODES),
    (libc::SYS_fchownat, "fchownat", At(0, 1), MODES),
    (libc::SYS_utimensat, "utimensat", File(0), MODES),
    (libc::SYS_mount, "mount", Path(1), MOUNTS),
    (libc::SYS_umount2, "umount2", Path(0), MOUNTS),
    (libc::SYS_open_tree, "open_tree", At(0, 1), MOUNTS),
    (libc::SYS_move_mount, "move_mount", At(2, 3), MOUNTS),
    (libc::SYS_mount_setattr, "mount_setattr", At(0, 1), MOUNTS),
    (libc::SYS_fsopen, "fsopen", Path(0), MOUNTS),
    (libc::SYS_fsconfig, "fsconfig", Wish(0, 1), MOUNTS),
    (libc::SYS_fsmount, "fsmount", File(0), MOUNTS),
    (libc::SYS_setns, "setns", File(0), &[ENOMEM]),
    (libc::SYS_unshare, "unshare", Nothing, &[ENOMEM, ENOSPC]),
    (libc::SYS_clone, "clone", Nothing, STARTS),
    (libc::SYS_clone3, "clone3", Nothing, STARTS),
    (libc::SYS_execve, "execve", Path(0), &[EIO, EACCES, ENOMEM]),
    (libc::SYS_wait4, "wait4", Nothing, &[EINTR]),
    (libc::SYS_waitid, "waitid", Nothing, &[EINTR]),
    (libc::SYS_pidfd_open, "pidfd_open", Nothing, &[EMFILE, ENOMEM]),
    (libc::SYS_kill, "kill", Nothing, &[]),
    (libc::SYS_pipe2, "pipe2", Nothing, &[EMFILE]),
    (libc::SYS_eventfd2, "eventfd2", Nothing, &[EMFILE, ENOMEM]),
    (libc::SYS_epoll_create1, "epoll_create1", Nothing, &[EMFILE, ENOMEM]),
    (libc::SYS_memfd_create, "memfd_create", Nothing, &[EMFILE, ENOMEM]),
    (libc::SYS_socket, "socket", Nothing, SOCKETS),
    (libc::SYS_socketpair, "socketpair", Nothing, SOCKETS),
    (libc::SYS_bind, "bind", File(0), SOCKETS),
    (libc::SYS_connect, "connect", Address(1), CONNECTS),
    (libc::SYS_sendto, "sendto", File(0), SENDS),
    (libc::SYS_sendmsg, "sendmsg", File(0), SENDS),
    (libc::SYS_recvfrom, "recvfrom", File(0), RECEIVES),
    (libc::SYS_recvmsg, "recvmsg", File(0), RECEIVES),
    (libc::SYS_fork, "fork", Nothing, STARTS),
    (libc::SYS_vfork, "vfork", Nothing, STARTS),
    (libc::SYS_open, "open", Path(0), OPENS),
    (libc::SYS_stat, "stat", Path(0), ASKS),
    (libc::SYS_lstat, "lstat", Path(0), ASKS),
    (libc::SYS_access, "access", Path(0), ASKS),
    (libc::SYS_readlink, "readlink", Path(0), ASKS),
    (libc::SYS_mkdir, "mkdir", Path(0), NAMES),
    (libc::SYS_rmdir, "rmdir", Path(0), NAMES),
    (libc::SYS_unlink, "unlink", Path(0), NAMES),
    (libc::SYS_rename, "rename", Path(0), NAMES),
    (libc::SYS_symlink, "symlink", Path(1), NAMES),
    (libc::SYS_mknod, "mknod", Path(0), NAMES),
    (libc::SYS_chmod, "chmod", Path(0), MODES),
];

/// The call of this number, if it changes or asks something.
pub fn call_of(number: i64) -> Option<&'static Call> {
    CALLS.iter().find(|(known, ..)| *known == number)
}

/// The one name of a call.
pub fn call_named(name: &str) -> Option<&'static str> {
    CALLS.iter().find(|(_, known, ..)| *known == name).map(|call| call.1)
}

/// How a call of this name can fail that is about this.
pub fn errors_at(name: &str, object: &str) -> &'static [Errno] {
    let is_socket = object.starts_with("socket:");
    match name {
        "fcntl" if object.ends_with(":0x0") || object.ends_with(":0x406") => &[EMFILE],
        "fcntl" if [":0x6", ":0x25", ":0x26"].iter().any(|lock| object.ends_with(lock)) => {
            &[EAGAIN]
        }
        "fcntl" => &[],
        // What only shows something has no room that could be used up.
        "open" | "openat" if ["/proc/", "/sys/"].iter().any(|begin| object.starts_with(begin)) => {
            &[EIO, EACCES, EMFILE, EINTR, ENOMEM]
        }
        "write" | "writev" if is_socket => SENDS,
        "read" | "readv" if is_socket => RECEIVES,
        // Who asks for an exclusive open is told of who has it.
        "open" | "openat" if object.starts_with("/dev/") => {
            &[EIO, EACCES, EBUSY, EMFILE, ENOMEM, EINTR]
        }
        _ => CALLS.iter().find(|(_, known, ..)| *known == name).map_or(&[][..], |call| call.3),
    }
}
