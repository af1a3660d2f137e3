//! The driver on a kernel as old as those of the clusters that it is for (Linux 3.10): a filter answers each
//! system call that came later as such a kernel does. What a later kernel's `/proc` and sysfs show stays.

use crate::checks::{layers_at, nothing_is_left};
use crate::files;
use crate::heal::goes_on;
use crate::looking::healths::pull;
use crate::scene::scene;
use crate::support::{Answer, Node, output_of};
use crate::volume::{Call, POD, Volume};
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

/// The filter, a program of the kernel's own machine (seccomp, BPF).
fn filter() -> Vec<libc::sock_filter> {
    /// `struct seccomp_data`: the call's number, and the lower halves of its second and third argument.
    const NUMBER: u32 = 0;
    const HALF: u32 = if cfg!(target_endian = "little") { 0 } else { 4 };
    const SECOND: u32 = 24 + HALF;
    const THIRD: u32 = 32 + HALF;
    /// The bit of `O_TMPFILE`, of Linux 3.11, that no other flag has. Without it that is a folder that is written to.
    const TMPFILE: u32 = 0o20_000_000;
    let row = |code: u32, k: u32, jt: usize, jf: usize| libc::sock_filter {
        code: u16::try_from(code).expect("a code"),
        jt: u8::try_from(jt).expect("a short program"),
        jf: u8::try_from(jf).expect("a short program"),
        k,
    };
    let number = |call: i64| u32::try_from(call).expect("a system call");
    let (load, jump) = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_K);
    let answer = libc::BPF_RET | libc::BPF_K;
    let errno = |errno: Errno| libc::SECCOMP_RET_ERRNO | (errno as i32).unsigned_abs();
    let mut program = vec![
        row(load, NUMBER, 0, 0),
        row(jump | libc::BPF_JGE, FIRST_UNKNOWN, 0, 1),
        row(answer, errno(Errno::ENOSYS), 0, 0),
        row(jump | libc::BPF_JEQ, number(libc::SYS_openat), 0, 4),
        row(load, THIRD, 0, 0),
        row(jump | libc::BPF_JSET, TMPFILE, 0, 1),
        row(answer, errno(Errno::EISDIR), 0, 0),
        row(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
        row(jump | libc::BPF_JEQ, number(libc::SYS_ioctl), 1, 0),
        row(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
        row(load, SECOND, 0, 0),
    ];
    for (request, answered) in REQUESTS {
        program.push(row(jump | libc::BPF_JEQ, request, 0, 1));
        program.push(row(answer, errno(answered), 0, 0));
    }
    program.push(row(answer, libc::SECCOMP_RET_ALLOW, 0, 0));
    program
}

/// The same command, and all that it starts, on such a kernel.
#[allow(unsafe_code)]
fn on_an_old_kernel(mut command: Command) -> Command {
    let filter = filter();
    let install = move || {
        let len = u16::try_from(filter.len()).map_err(|_| Errno::E2BIG)?;
        let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the kernel copies the program, which lives until then.
        let done = unsafe {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
        };
        Errno::result(done).map(drop).map_err(Into::into)
    };
    // SAFETY: between fork and exec one system call is made, and no memory taken.
    unsafe { command.pre_exec(install) };
    command
}

#[track_caller]
fn must(node: &Node, call: &Call) {
    let answer = Answer::of(on_an_old_kernel(node.command(call)));
    assert_eq!(answer.json["status"], "Success", "{call:?}: {}", answer.text);
}

/// A verb's words, whatever its exit status.
fn told(node: &Node, words: &[&str]) -> String {
    let output = output_of(&mut on_an_old_kernel(node.command(words)));
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The filter is one: a program that asks for what came later is told that there is no such call.
#[test]
fn a_later_call_is_unknown_there() {
    needs!(mounts);
    // renameat2(2) of Linux 3.15, and O_TMPFILE.
    let script = "import ctypes, os, sys\nc = ctypes.CDLL(None, use_errno=True)\n\
        r = c.syscall(316, -100, b'/a', -100, b'/b', 0)\nprint(r, ctypes.get_errno())\n\
        try:\n os.open('/tmp', os.O_TMPFILE | os.O_RDWR)\nexcept OSError as e: print(e.errno)";
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    let Ok(plain) = command.output() else { return };
    assert_eq!(String::from_utf8_lossy(&plain.stdout), "-1 2\n");
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    let output = output_of(&mut on_an_old_kernel(command));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "-1 38\n21\n");
}

#[test]
fn a_volume_lives_there() {
    needs!(mounts);
    for (fs_type, size) in [("ext4", "64M"), ("xfs", "320M")] {
        let (node, volume) = Volume::on_a_node(fs_type, size);
        for round in 0..2 {
            must(&node, &volume.attach());
            must(&node, &volume.wait(""));
            must(&node, &volume.stage());
            must(&node, &volume.publish(POD));
            let file = volume.pod(POD).join("data");
            if round == 0 {
                files::write_synced(&file, b"kept");
            }
            assert_eq!(files::read(&file).unwrap(), b"kept");
            assert!(told(&node, &["explain", &volume.id]).contains("verdict ok"));
            must(&node, &volume.unpublish(POD));
            must(&node, &volume.unstage());
            must(&node, &volume.detach());
        }
        volume.must_be_sound();
        nothing_is_left(&node, &[&volume]);
    }
}

/// The incident there: what is guarded stays, and a disk that went is healed under the running pod. That kernel does
/// not say who owns a mount namespace.
#[test]
fn the_incident_is_refused_and_healed_there() {
    needs!(pods);
    let mut scene = scene().start();
    let node = scene.node.clone();
    let refused = Answer::of(on_an_old_kernel(node.command(scene.volume.unstage())));
    assert_eq!(refused.json["status"], "Failure", "{}", refused.text);
    assert!(refused.text.contains("shop/orders-0"), "{}", refused.text);
    pull(&scene.volume, &mut scene.container);
    must(&node, &scene.volume.attach());
    let status = told(&node, &["status"]);
    assert!(status.contains("GUARDED shop/orders-0"), "{status}");
    goes_on(&mut scene.container, 20);
    assert_eq!(layers_at(&scene.volume.pod(scene.pod.uid())), 1);
    let doctor = told(&node, &["doctor"]);
    assert!(doctor.contains("replaced by the method tuck-by-mount"), "{doctor}");
    scene.volume.take_away_with(&scene.pod, scene.container);
}
