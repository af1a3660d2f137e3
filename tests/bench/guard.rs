//! What it costs to ask who uses a disk: `cargo bench --bench guard` (as root). Figures only;
//! nothing here passes or fails by time.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::must_use_candidate,
    clippy::unchecked_time_subtraction,
    missing_docs,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

use incloud_disk::host::Census;
use incloud_disk::host::census::KernelCensus;
use incloud_disk::model::disk::device::DeviceNumber;
use incloud_disk::model::ids::ConsumerId;
use incloud_disk::model::mount::disk_users::Answer;
use incloud_disk::model::mount::mountinfo::MountTable;
use nix::mount::{MsFlags, mount};
use nix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use support::pods::{Container, Naming, Plan, Pod, pods_are_possible};

/// So many processes has each container, in a mount namespace of their own.
const PROCESSES: u32 = 6;
/// So many mounts it sees, as those of a runtime do.
const MOUNTS: usize = 22;
const RUNS: usize = 101;

fn main() {
    if !support::private_mounts("guard") || !pods_are_possible("guard") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let none = None::<&str>;
    mount(Some("volume"), folder.path(), Some("tmpfs"), MsFlags::empty(), none).unwrap();
    let number = number_at(folder.path());
    println!("milliseconds: medians of {RUNS}, on the clock and of all processors together");
    println!(
        "{:>11} {:>11} {:>17} {:>17} {:>17} {:>17} {:>17}",
        "processes",
        "namespaces",
        "pod without it",
        "pod with it",
        "no cgroup trees",
        "its namespaces",
        "all its users"
    );
    for namespaces in [25, 50, 100] {
        row(namespaces, folder.path(), number);
    }
    nix::mount::umount2(folder.path(), nix::mount::MntFlags::MNT_DETACH).unwrap();
}

/// One pod of them has the volume.
fn row(namespaces: usize, volume: &Path, number: DeviceNumber) {
    let other = tempfile::tempdir().unwrap();
    let first = Pod::new(Naming::Cgroupfs);
    let others = (1..namespaces).map(|_| first.neighbour(Naming::Cgroupfs)).collect::<Vec<_>>();
    let pods = [vec![first], others].concat();
    let plans = pods.iter().enumerate().map(|(nth, pod)| {
        let what = if nth == namespaces / 2 { volume } else { other.path() };
        (1..MOUNTS)
            .fold(pod.container().seeing(what, "/data"), |plan, mount| {
                plan.seeing(other.path(), &format!("/{mount}"))
            })
            .with_children(PROCESSES - 1)
    });
    let containers: Vec<Container> = Plan::start_all(plans);
    let census = KernelCensus::default();
    let ours = census.own_namespace().unwrap();
    let uid = |nth: usize| ConsumerId::parse(pods[nth].uid()).unwrap();
    let (without, with) = (uid(0), uid(namespaces / 2));
    let ask = |uid: &ConsumerId| match census.pod_users(uid, &[number], ours) {
        Answer::Told(found) => found.holders.len(),
        Answer::CannotTell(why) => panic!("{why}"),
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    // Not those that have ended: it may not have been noted yet.
    let lives = |entry: &fs::DirEntry| fs::read_link(entry.path().join("ns/mnt")).is_ok();
    let processes = processes.filter(lives).count();
    let columns = [
        figures(|| assert_eq!(ask(&without), 0)),
        figures(|| assert_eq!(ask(&with), PROCESSES as usize)),
        without_cgroup_trees(|| figures(|| assert_eq!(ask(&with), PROCESSES as usize))),
        figures(|| match census.namespaces_with(&[number]) {
            Answer::Told(uses) => assert_eq!(uses.namespaces.len(), 1),
            Answer::CannotTell(why) => panic!("{why}"),
        }),
        figures(|| match census.device_users(&[number]) {
            Answer::Told(uses) => assert_eq!(uses.namespaces.len(), 1),
            Answer::CannotTell(why) => panic!("{why}"),
        }),
    ];
    println!("{processes:>11} {namespaces:>11} {}", columns.join(" "));
    drop(containers);
    while !pods[0].is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn number_at(place: &Path) -> DeviceNumber {
    let text = fs::read("/proc/thread-self/mountinfo").unwrap();
    MountTable::parse(&text).unwrap().top_at(place).unwrap().number
}

fn figures(question: impl Fn()) -> String {
    let (mut clock, mut work): (Vec<Duration>, Vec<Duration>) = (0..RUNS)
        .map(|_| {
            let (begin, worked) = (Instant::now(), processor_time());
            question();
            (begin.elapsed(), processor_time() - worked)
        })
        .unzip();
    clock.sort();
    work.sort();
    let median = |times: &[Duration]| times[RUNS / 2].as_secs_f64() * 1e3;
    format!("{:>8.2} {:>8.2}", median(&clock), median(&work))
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap().into()
}

/// Asks where each process has to be asked for its cgroups.
fn without_cgroup_trees(ask: impl FnOnce() -> String + Send) -> String {
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
            let text = fs::read("/proc/thread-self/mountinfo").unwrap();
            let table = MountTable::parse(&text).unwrap();
            let trees = table.mounts().iter().filter(|mount| mount.fs_type.starts_with("cgroup"));
            for tree in trees {
                nix::mount::umount2(&tree.target, nix::mount::MntFlags::MNT_DETACH).unwrap();
            }
            ask()
        });
        asking.join().unwrap()
    })
}
