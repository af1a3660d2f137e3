//! Filters of system calls: programs of the kernel's own machine (BPF), which each child inherits.

use nix::errno::Errno;
use nix::libc::{self, sock_filter};

/// `struct seccomp_data`: where the call's number stands.
pub const NUMBER: u32 = 0;
/// The lower half of its second argument.
pub const SECOND: u32 = 24 + HALF;
/// The lower half of its third one.
pub const THIRD: u32 = 32 + HALF;
const HALF: u32 = if cfg!(target_endian = "little") { 0 } else { 4 };

/// Loads a word of it.
pub const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
/// A jump by what was loaded.
pub const JUMP: u32 = libc::BPF_JMP | libc::BPF_K;
/// The end, with what is done about the call.
pub const ANSWER: u32 = libc::BPF_RET | libc::BPF_K;

/// One step: what it does, with which number, and how many steps it leaves out if that holds or not.
pub fn step(code: u32, number: u32, if_so: usize, if_not: usize) -> sock_filter {
    sock_filter {
        code: u16::try_from(code).expect("a code"),
        jt: u8::try_from(if_so).expect("a short program"),
        jf: u8::try_from(if_not).expect("a short program"),
        k: number,
    }
}

/// A call's number as a filter has it.
pub fn number(call: i64) -> u32 {
    u32::try_from(call).expect("a system call")
}

/// Puts this process and all that it starts under the filter. It takes no memory.
#[allow(unsafe_code)]
pub fn install(filter: &[sock_filter]) -> nix::Result<()> {
    if !nix::unistd::geteuid().is_root() {
        nix::sys::prctl::set_no_new_privs()?;
    }
    let len = u16::try_from(filter.len()).map_err(|_| Errno::E2BIG)?;
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, which lives until then.
    let done =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    Errno::result(done).map(drop)
}
