//! Mounts replaced under running containers.

mod hangs;
pub mod kinds;
mod many;
mod owners;
mod peers;

use crate::support::disks::{Disks, switch, table_of};
use crate::support::pods::Plan;
use incloud_disk::host::remount::KernelRemounts;
use incloud_disk::model::mount::replacement::{Method, ReplacementOutcome};
use incloud_disk::ports::host::Remounts;
use std::path::Path;
use std::time::Duration;

/// What this kernel can: its own method, and those that older ones have.
pub fn methods() -> Vec<Method> {
    let best = KernelRemounts::default().method();
    Method::ALL.into_iter().filter(|one| *one >= best && *one != Method::Stack).collect()
}

/// Both disks live: so every write of the writer succeeds, and each moment is looked at.
#[test]
fn a_writer_meets_nothing_between_the_two_disks() {
    needs!(containers);
    let rounds = std::env::var("SWITCH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    let disks = Disks::with("ext4", |_| {});
    for method in methods() {
        let mut container = Plan::outside().seeing(&disks.old.place, "/data").start();
        container.write("/data/log", Duration::ZERO);
        let (mut from, mut to) = (&disks.old, &disks.new);
        for round in 0..rounds {
            container.must_write_on(20);
            let answers = switch(container.pid(), method, from, to);
            assert_eq!(answers.len(), 1, "{answers:?}");
            assert_eq!(answers[0].outcome, ReplacementOutcome::Switched, "{method} {round}");
            assert_eq!(answers[0].notes, Vec::<String>::new());
            let table = table_of(container.pid());
            assert_eq!(table.at(Path::new("/data")).count(), 1, "{method} {round}: layers");
            assert_eq!((from.among(&table).len(), to.among(&table).len()), (0, 1));
            container.must_write_on(20);
            (from, to) = (to, from);
        }
        let report = container.report();
        let mut both = [disks.old.number.to_string(), disks.new.number.to_string()];
        let mut seen = report.file_systems.clone();
        both.sort();
        seen.sort();
        assert_eq!((report.errors, seen.as_slice()), (0, both.as_slice()), "{method}: {report:?}");
        println!("{method}: {rounds} rounds, {} writes", report.writes);
    }
}
