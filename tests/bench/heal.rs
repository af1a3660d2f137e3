//! What it costs to replace the mounts of containers: `cargo bench --bench heal` (as root).
//! Figures only; nothing here passes or fails by time.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::must_use_candidate,
    missing_docs,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

use incloud_disk::host::Remounts;
use incloud_disk::host::remount::KernelRemounts;
use incloud_disk::model::mount::replacement::{Method, ReplacementOutcome};
use std::time::{Duration, Instant};
use support::disks::{Disk, Disks, replace, table_of, will_change};
use support::pods::{Plan, containers_are_possible};

/// Whole rounds for each line, from one disk to the other and back.
const ROUNDS: usize = 10;

fn main() {
    if !support::private_mounts("heal") || !containers_are_possible("heal") {
        return;
    }
    let begin = Instant::now();
    let best = KernelRemounts::default().method();
    let time = begin.elapsed().as_secs_f64() * 1e3;
    println!("this kernel's best: {best}, found out in {time:.2} ms; two mounts in each container");
    println!(
        "{:>14} {:>11} {:>14} {:>14} {:>14} {:>14}",
        "method", "containers", "ms, all", "ms, each", "ms, p99", "ms, look before"
    );
    let disks = Disks::with("ext4", |root| std::fs::create_dir(root.join("sub")).unwrap());
    for containers in [1, 10, 100, 500] {
        let plan = Plan::outside()
            .seeing(&disks.old.place, "/data")
            .seeing(&disks.old.place.join("sub"), "/sub");
        let started = Plan::start_all((0..containers).map(|_| plan.clone()));
        let pids: Vec<u32> = started.iter().map(support::pods::Container::pid).collect();
        for method in Method::ALL.into_iter().take(4) {
            if method >= best {
                row(method, &pids, &disks);
            }
        }
    }
}

fn row(method: Method, pids: &[u32], disks: &Disks) {
    let (mut all, mut each) = (Vec::new(), Vec::new());
    let (mut from, mut to) = (&disks.old, &disks.new);
    for _ in 0..2 * ROUNDS {
        let times = round(method, pids, from, to);
        all.push(times.iter().sum());
        each.extend(times);
        (from, to) = (to, from);
    }
    all.sort();
    each.sort();
    let text = |time: Duration| format!("{:>14.2}", time.as_secs_f64() * 1e3);
    println!(
        "{:>14} {:>11} {} {} {} {}",
        method.to_string(),
        pids.len(),
        text(all[all.len() / 2]),
        text(each[each.len() / 2]),
        text(each[each.len() * 99 / 100]),
        text(looks(method, pids, from))
    );
}

/// What it costs to find out, before, what a switch will change for a moment.
fn looks(method: Method, pids: &[u32], disk: &Disk) -> Duration {
    let switches = KernelRemounts::by(method);
    let one = |pid: &u32| {
        let stale = disk.among(&table_of(*pid));
        let begin = Instant::now();
        assert_eq!(
            will_change(switches, *pid, &stale, disk).len(),
            usize::from(method != Method::Beneath)
        );
        begin.elapsed()
    };
    let mut each: Vec<_> = pids.iter().map(one).collect();
    each.sort();
    each[each.len() / 2]
}

fn round(method: Method, pids: &[u32], from: &Disk, to: &Disk) -> Vec<Duration> {
    let switches = KernelRemounts::by(method);
    let one = |pid: &u32| {
        let stale = from.among(&table_of(*pid));
        let begin = Instant::now();
        let answers = replace(switches, Some(*pid), &stale, to);
        let time = begin.elapsed();
        assert!(
            answers.iter().all(|one| one.outcome == ReplacementOutcome::Switched),
            "{answers:?}"
        );
        time
    };
    pids.iter().map(one).collect()
}
