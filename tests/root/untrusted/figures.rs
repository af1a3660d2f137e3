//! What calls cost under each attack, as a table for the documents. It decides nothing: the tests do.

use super::{BOTH, Scene, stuck};
use crate::support::Node;
use crate::support::pods::Attack;
use nix::libc;
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};
use std::time::Instant;

type Begin = fn(&Node) -> Attack;

const ATTACKS: [(&str, Begin); 6] = [
    ("none", |_| Attack::Descriptors { processes: 1, each: 10 }),
    ("1 process stuck in `execve`", |node| stuck(1)(node)),
    ("1,000 processes stuck in `execve`", |node| stuck(1000)(node)),
    ("1,600 namespaces of 2,200 mounts", |_| Attack::Namespaces { count: 1600, mounts: 2200 }),
    ("2.4 million descriptors", |_| Attack::Descriptors { processes: 120, each: 20_000 }),
    ("a lock on a mount namespace", |_| Attack::LockNamespace),
];

#[test]
#[ignore = "it prints a table, and takes minutes and gigabytes"]
fn figures() {
    needs!(fuse, pods);
    println!("| attack | by | `holders` | `unmountdevice` | `detach` | `detach --force` |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, begin) in ATTACKS {
        for from in BOTH {
            let scene = Scene::of(from, begin);
            let (node, volume) = (&scene.node, &scene.volume);
            let holders = measured(node.command(["holders", volume.id.as_str()]));
            let unstage = measured(node.command(volume.unstage()));
            let detach = measured(node.command(volume.detach()));
            node.must(volume.attach());
            let force = measured(node.command(["detach", "--force", volume.id.as_str()]));
            println!("| {name} | {from:?} | {holders} | {unstage} | {detach} | {force} |");
            scene.attacker.die();
            scene.bystander.die();
        }
    }
}

/// The time of a call, and the most memory that it or a process which it started had.
#[allow(unsafe_code, clippy::zombie_processes, reason = "wait4 reaps it")]
fn measured(mut command: Command) -> String {
    let begin = Instant::now();
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let (pid, mut status) = (child.id().cast_signed(), 0);
    // SAFETY: both outlive the call, and the child is this process's own.
    let ended = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    assert_eq!((ended, status), (pid, 0));
    // SAFETY: all zeros is one, and the kernel has filled it in.
    let usage = unsafe { usage.assume_init() };
    format!("{:.2} s, {} MiB", begin.elapsed().as_secs_f64(), usage.ru_maxrss / 1024)
}
