//! What may be asked of the kernel while the bytes of a disk are judged: by our own code next to nothing, by
//! mkfs, blkid and e2fsck what files and devices take. The kernel refuses the rest (seccomp(2)).
#![allow(unsafe_code)]

use crate::failpoints;
use crate::model::error::{Error, Result};
use nix::errno::Errno;
use nix::libc::{self, c_long, sock_filter};
use std::mem::offset_of;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How the kernel names what this program is built for. Calls of another kind, as of 32 bits, have other
/// numbers, so all of them are refused.
const MACHINE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// From here on numbers of x86-64 are those of its variant with short pointers.
const SHORT_POINTERS: u32 = 0x4000_0000;

/// Memory, the end of a thread, and what waits for another one: no file, no process, no network.
const MEMORY: [c_long; 16] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
];

/// Memory that may be asked for unless it is to be executed.
const NOT_TO_EXECUTE: [c_long; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

/// What no program needs that reads, makes or mends a file system.
const NOT_FOR_PROGRAMS: [c_long; 44] = [
    // The network, and services that are asked through sockets.
    libc::SYS_socket,
    libc::SYS_socketpair,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The machine's clock and names.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// A clone with one of these makes a namespace.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_K;
const ANSWER: u32 = libc::BPF_RET | libc::BPF_K;

const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSED: u32 = error(libc::EPERM);

const fn error(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()
}

/// A program of the kernel's own machine, which looks at each system call.
#[derive(Debug, Clone)]
struct Filter(Vec<sock_filter>);

impl Filter {
    /// The beginning of each; nothing where calls cannot be told by their numbers.
    fn begin() -> Option<Self> {
        let mut filter = Self(Vec::with_capacity(128));
        filter.load(offset_of!(libc::seccomp_data, arch));
        filter.step(JUMP | libc::BPF_JEQ, MACHINE?, 1, 0);
        filter.answer(REFUSED);
        filter.load(offset_of!(libc::seccomp_data, nr));
        filter.step(JUMP | libc::BPF_JGE, SHORT_POINTERS, 0, 1);
        filter.answer(REFUSED);
        Some(filter)
    }

    fn step(&mut self, code: u32, k: u32, jt: u8, jf: u8) {
        self.0.push(sock_filter { code: u16::try_from(code).unwrap_or_default(), jt, jf, k });
    }

    fn load(&mut self, place: usize) {
        self.step(LOAD, u32::try_from(place).unwrap_or_default(), 0, 0);
    }

    fn answer(&mut self, answer: u32) {
        self.step(ANSWER, answer, 0, 0);
    }

    fn on(&mut self, call: c_long, answer: u32) {
        self.step(JUMP | libc::BPF_JEQ, u32::try_from(call).unwrap_or(u32::MAX), 0, 1);
        self.answer(answer);
    }

    /// Refuses a call if an argument has one of these bits, and else allows it.
    fn refuse_bits(&mut self, call: c_long, argument: usize, bits: i32) {
        let lower_half = if cfg!(target_endian = "little") { 0 } else { 4 };
        let place = offset_of!(libc::seccomp_data, args) + argument * size_of::<u64>() + lower_half;
        self.step(JUMP | libc::BPF_JEQ, u32::try_from(call).unwrap_or(u32::MAX), 0, 4);
        self.load(place);
        self.step(JUMP | libc::BPF_JSET, bits.cast_unsigned(), 0, 1);
        self.answer(REFUSED);
        self.answer(ALLOWED);
    }

    /// For a judge in this process.
    fn of_judge() -> Option<Self> {
        let mut filter = Self::begin()?;
        for call in MEMORY {
            filter.on(call, ALLOWED);
        }
        for call in NOT_TO_EXECUTE {
            filter.refuse_bits(call, 2, libc::PROT_EXEC);
        }
        filter.answer(REFUSED);
        Some(filter)
    }

    /// For a program that works on a disk.
    fn of_program() -> Option<Self> {
        let mut filter = Self::begin()?;
        for call in NOT_FOR_PROGRAMS {
            filter.on(call, REFUSED);
        }
        // Its flags lie in memory, where no filter sees them; what is not there is done by the older one.
        filter.on(libc::SYS_clone3, error(libc::ENOSYS));
        filter.refuse_bits(libc::SYS_clone, 0, NAMESPACES);
        filter.answer(ALLOWED);
        Some(filter)
    }

    /// Puts this thread, and what it starts, under the filter, for good. Makes system calls alone.
    fn install(&self) -> nix::Result<()> {
        nix::sys::prctl::set_no_new_privs()?;
        let len = u16::try_from(self.0.len()).map_err(|_| Errno::E2BIG)?;
        let program = libc::sock_fprog { len, filter: self.0.as_ptr().cast_mut() };
        // SAFETY: the kernel copies the program, which lives until then, and does not write to it.
        let done = unsafe {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
        };
        Errno::result(done).map(drop)
    }
}

/// Judges bytes that came from a disk, in a thread which may ask the kernel for memory alone. A judge that
/// breaks off has said nothing, and nothing is never taken for a blank disk.
pub(super) fn judged<T: Send>(what: &str, judge: impl FnOnce() -> T + Send) -> Result<T> {
    let filter = Filter::of_judge();
    let confined = move || {
        let installed = filter.map(|filter| filter.install());
        failpoints::step("filesystems.judge");
        (judge(), installed)
    };
    let (verdict, installed) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("judge".to_owned());
        let started = thread.spawn_scoped(scope, confined);
        let running = started.map_err(|error| Error::io(format!("judge {what}"), &error))?;
        running.join().map_err(|_| {
            Error::refused(format!("{what} cannot be read: what judges its bytes broke off"))
                .hint("nothing was changed; keep the disk as it is, and report this as a fault of the driver")
        })
    })?;
    match installed {
        Some(Ok(())) => {}
        // A kernel without filters.
        Some(Err(errno)) => tracing::debug!(%errno, "what judges a disk is not confined"),
        None => tracing::debug!("what judges a disk is not confined on this kind of machine"),
    }
    Ok(verdict)
}

/// Confines a program that will work on a disk, which may be of a tenant's making: no sockets, no mounts, no
/// namespaces, no other processes, nothing of the kernel's own, and no rights that it does not have. Where
/// the kernel has no filters it runs without.
pub(super) fn confine(command: &mut Command) {
    let Some(filter) = Filter::of_program() else { return };
    // SAFETY: between fork and exec prctl(2) alone is called, with memory that was there before.
    unsafe {
        command.pre_exec(move || {
            let _ = filter.install();
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::error::Kind;
    use std::io::ErrorKind;

    #[test]
    fn a_judge_has_memory_and_nothing_else() {
        let sum =
            judged("x", || vec![7u8; 3 << 20].iter().map(|byte| u64::from(*byte)).sum::<u64>());
        assert_eq!(sum.unwrap(), 7 * (3 << 20));
        let tried = judged("x", || {
            let file = std::fs::File::open("/dev/null").map(drop);
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").map(drop);
            let child = Command::new("/bin/true").status().map(drop);
            [file, socket, child].map(|tried| tried.map_err(|error| error.kind()))
        });
        assert_eq!(tried.unwrap(), [Err(ErrorKind::PermissionDenied); 3]);
        // The thread that waits is free.
        assert!(std::fs::File::open("/dev/null").is_ok());
    }

    #[test]
    fn a_judge_makes_nothing_that_can_be_executed() {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
        let map = |protection| {
            let length = std::num::NonZero::new(4096).unwrap();
            // SAFETY: new memory, which is used by nothing.
            let made = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE) };
            made.map(drop)
        };
        let write = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        assert_eq!(judged("x", || map(write)).unwrap(), Ok(()));
        let execute = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
        assert_eq!(judged("x", || map(execute)).unwrap(), Err(Errno::EPERM));
    }

    /// The second closure is called under the filter of the first one: an error of it is one of `spawn`.
    #[test]
    fn a_program_on_a_disk_has_no_sockets_mounts_and_namespaces() {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
        let flags = nix::sched::CloneFlags::CLONE_NEWUSER;
        let refused = move || {
            // SAFETY: without arguments it makes nothing.
            let clone3 = Errno::result(unsafe { libc::syscall(libc::SYS_clone3, 0, 0) });
            // SAFETY: a request about this process alone.
            let trace = Errno::result(unsafe { libc::ptrace(libc::PTRACE_TRACEME) }).map(drop);
            let tried = [
                socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).map(drop),
                nix::sched::unshare(flags),
                nix::mount::mount(
                    None::<&str>,
                    c"/nowhere",
                    Some(c"tmpfs"),
                    nix::mount::MsFlags::empty(),
                    None::<&str>,
                ),
                nix::mount::umount2(c"/nowhere", nix::mount::MntFlags::empty()),
                trace,
            ];
            let is_refused = tried.iter().all(|tried| *tried == Err(Errno::EPERM));
            let goes_the_older_way = clone3 == Err(Errno::ENOSYS);
            if is_refused && goes_the_older_way { Ok(()) } else { Err(Errno::EXFULL.into()) }
        };
        for is_confined in [true, false] {
            let mut command = Command::new("cat");
            command.arg("/proc/self/status");
            if is_confined {
                confine(&mut command);
            }
            // SAFETY: system calls alone, with memory that was there before.
            unsafe { command.pre_exec(refused) };
            let output = command.output().map_err(|error| error.raw_os_error());
            if !is_confined {
                assert_eq!(output.unwrap_err(), Some(libc::EXFULL), "without the filter");
                continue;
            }
            let status = String::from_utf8(output.unwrap().stdout).unwrap();
            assert!(
                status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"),
                "{status}"
            );
        }
    }

    #[test]
    fn a_judge_that_breaks_off_has_said_nothing() {
        let error = judged::<()>("vdb", || panic!("at a strange superblock")).unwrap_err();
        assert_eq!(error.kind, Kind::Refused);
        assert!(error.cause.contains("vdb cannot be read"), "{error}");
    }
}
