//! A kernel as old as those of the clusters that the driver is for (Linux 3.10): a filter answers each system
//! call that came later as such a kernel does. What a later kernel's `/proc` and sysfs show stays.

use super::seccomp::{self, ANSWER, JUMP, LOAD, NUMBER, SECOND, THIRD, number, step};
use nix::errno::Errno;
use nix::libc;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The number of the first call that Linux 3.10 has not, `sched_setattr`.
const FIRST_UNKNOWN: u32 = if cfg!(target_arch = "x86_64") { 314 } else { 274 };

/// Requests of ioctl(2) that came later, and what is answered to one that is unknown.
const REQUESTS: [(u32, Errno); 6] = [
    // LOOP_CONFIGURE of Linux 5.8.
    (0x4c0a, Errno::EINVAL),
    // BLKGETDISKSEQ of 5.15.
    (0x8008_1280, Errno::ENOTTY),
    // NS_GET_USERNS and its like, of 4.9 and 4.11; NS_GET_MNTNS_ID of 5.18.
    (0xb701, Errno::ENOTTY),
    (0xb702, Errno::ENOTTY),
    (0xb703, Errno::ENOTTY),
    (0x8008_b705, Errno::ENOTTY),
];

fn filter() -> Vec<libc::sock_filter> {
    /// The bit of `O_TMPFILE`, of Linux 3.11, that no other flag has. Without it that is a folder that is written to.
    const TMPFILE: u32 = 0o20_000_000;
    let errno = |errno: Errno| libc::SECCOMP_RET_ERRNO | (errno as i32).unsigned_abs();
    let mut program = vec![
        step(LOAD, NUMBER, 0, 0),
        step(JUMP | libc::BPF_JGE, FIRST_UNKNOWN, 0, 1),
        step(ANSWER, errno(Errno::ENOSYS), 0, 0),
        step(JUMP | libc::BPF_JEQ, number(libc::SYS_openat), 0, 4),
        step(LOAD, THIRD, 0, 0),
        step(JUMP | libc::BPF_JSET, TMPFILE, 0, 1),
        step(ANSWER, errno(Errno::EISDIR), 0, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(JUMP | libc::BPF_JEQ, number(libc::SYS_ioctl), 1, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(LOAD, SECOND, 0, 0),
    ];
    for (request, answered) in REQUESTS {
        program.push(step(JUMP | libc::BPF_JEQ, request, 0, 1));
        program.push(step(ANSWER, errno(answered), 0, 0));
    }
    program.push(step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0));
    program
}

/// The same command, and all that it starts, on such a kernel.
#[allow(unsafe_code)]
pub fn on_an_old_kernel(mut command: Command) -> Command {
    let filter = filter();
    // SAFETY: between fork and exec one system call is made, and no memory taken.
    unsafe { command.pre_exec(move || seccomp::install(&filter).map_err(Into::into)) };
    command
}
