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

use incloud_disk::host::Switches;
use incloud_disk::host::heal::KernelSwitches;
use incloud_disk::model::switch::{Method, Outcome};
use std::time::{Duration, Instant};
use support::disks::{Disk, Disks, replace, table_of};
use support::pods::{Plan, containers_are_possible};

/// Whole rounds for each line, from one disk to the other and back.
const ROUNDS: usize = 10;

fn main() {
    if !support::private_mounts("heal") || !containers_are_possible("heal") {
        return;
    }
    let best = KernelSwitches::default().method();
    println!("this kernel's best: {best}; two mounts in each container");
    println!(
        "{:>8} {:>11} {:>14} {:>14} {:>14}",
        "method", "containers", "ms, all", "ms, each", "ms, p99"
    );
    let disks = Disks::with("ext4", |root| std::fs::create_dir(root.join("sub")).unwrap());
    for containers in [1, 10, 100, 500] {
        let plan = Plan::outside()
            .seeing(&disks.old.place, "/data")
            .seeing(&disks.old.place.join("sub"), "/sub");
        let started = Plan::start_all((0..containers).map(|_| plan.clone()));
        let pids: Vec<u32> = started.iter().map(support::pods::Container::pid).collect();
        for method in [Method::Beneath, Method::Tuck] {
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
        "{:>8} {:>11} {} {} {}",
        method.to_string(),
        pids.len(),
        text(all[all.len() / 2]),
        text(each[each.len() / 2]),
        text(each[each.len() * 99 / 100])
    );
}

fn round(method: Method, pids: &[u32], from: &Disk, to: &Disk) -> Vec<Duration> {
    let switches = KernelSwitches::by(method);
    let one = |pid: &u32| {
        let stale = from.among(&table_of(*pid));
        let begin = Instant::now();
        let answers = replace(switches, Some(*pid), &stale, to);
        let time = begin.elapsed();
        assert!(answers.iter().all(|one| one.outcome == Outcome::Switched), "{answers:?}");
        time
    };
    pids.iter().map(one).collect()
}
