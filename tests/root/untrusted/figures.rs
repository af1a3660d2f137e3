//! What a call takes under each attack. It succeeds, and its memory is limited; its time is printed for the documents, and the budget of
//! time is tested with a clock of the test's own (`host::census::scan`).

use super::{BOTH, Scene, stuck};
use crate::support::Node;
use crate::support::pods::Attack;
use nix::libc;
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What users may make a call take in addition.
const MIB: i64 = 32;

/// `ATTACKS=full` plays each attack in the size in which it was reported, by a user and by a pod.
fn is_full() -> bool {
    std::env::var_os("ATTACKS").is_some_and(|size| size == "full")
}

fn attack(node: &Node, name: &str) -> Attack {
    let is_full = is_full();
    match name {
        "none" => Attack::Descriptors { processes: 1, each: 10, of: None },
        "processes stuck in `execve`" => stuck(if is_full { 1000 } else { 20 })(node),
        "namespaces of 2,200 mounts" => {
            Attack::Namespaces { count: if is_full { 1600 } else { 100 }, mounts: 2200 }
        }
        "long lines of mount tables" => {
            Attack::LongLines { count: if is_full { 1600 } else { 300 }, mounts: 64 }
        }
        "millions of descriptors" => {
            let of = None;
            Attack::Descriptors { processes: if is_full { 120 } else { 10 }, each: 20_000, of }
        }
        "open files of the volume" => {
            let of = Some(deep_file(node));
            Attack::Descriptors { processes: if is_full { 120 } else { 10 }, each: 20_000, of }
        }
        "a lock on a mount namespace" => Attack::LockNamespace,
        _ => unreachable!("{name}"),
    }
}

/// A file of the node's volume that everybody may read, on as long a path as a call can name.
fn deep_file(node: &Node) -> PathBuf {
    let table = fs::read_to_string("/proc/thread-self/mounts").unwrap();
    let volumes = table.lines().filter(|line| line.starts_with("/dev/incloud-disk/"));
    let mut folders = volumes.filter_map(|line| line.split(' ').nth(1).map(PathBuf::from));
    let mut folder = folders.find(|folder| folder.starts_with(node.base())).unwrap();
    while folder.as_os_str().len() < 3700 {
        folder.push("a".repeat(255));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let file = folder.join("f");
    fs::write(&file, b"x").unwrap();
    file
}

#[test]
fn no_attack_makes_a_call_take_much_memory() {
    needs!(fuse, pods);
    println!("| attack | by | `holders` | `unmountdevice` | `detach` | `detach --force` |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut usual = i64::MAX;
    let is_full = is_full();
    for (nth, name) in [
        "none",
        "processes stuck in `execve`",
        "namespaces of 2,200 mounts",
        "long lines of mount tables",
        "millions of descriptors",
        "open files of the volume",
        "a lock on a mount namespace",
    ]
    .into_iter()
    .enumerate()
    {
        // Who attacks makes no difference to memory: by turns, or both.
        let by = if is_full { &BOTH[..] } else { &BOTH[nth % 2..=nth % 2] };
        for from in by.iter().copied() {
            let scene = Scene::of(from, |node| attack(node, name));
            let (node, volume) = (&scene.node, &scene.volume);
            let mut calls = vec![
                measured(node.command(["holders", volume.id.as_str()])),
                measured(node.command(volume.unstage())),
                measured(node.command(volume.detach())),
            ];
            node.must(volume.attach());
            calls.push(measured(node.command(["detach", "--force", volume.id.as_str()])));
            let columns: Vec<_> =
                calls.iter().map(|(seconds, mib)| format!("{seconds:.2} s, {mib} MiB")).collect();
            println!("| {name} | {from:?} | {} |", columns.join(" | "));
            let most = calls.iter().map(|(_, mib)| *mib).max().unwrap();
            if name == "none" {
                usual = usual.min(most);
            }
            assert!(most <= usual + MIB, "{name} by {from:?}: {most} MiB, usually {usual}");
            scene.attacker.die();
            scene.bystander.die();
        }
    }
}

/// The seconds of a call, and the most memory in MiB that it or a process which it started had.
#[allow(unsafe_code, clippy::zombie_processes, reason = "wait4 reaps it")]
fn measured(mut command: Command) -> (f64, i64) {
    let begin = Instant::now();
    let what = format!("{command:?}");
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let (pid, mut status) = (child.id().cast_signed(), 0);
    // SAFETY: both outlive the call, and the child is this process's own.
    let ended = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    assert_eq!((ended, status), (pid, 0), "{what}");
    // SAFETY: all zeros is one, and the kernel has filled it in.
    let usage = unsafe { usage.assume_init() };
    (begin.elapsed().as_secs_f64(), usage.ru_maxrss / 1024)
}
