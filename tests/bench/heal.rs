//! What it costs to heal: `attach` of a volume whose disk was pulled, until every mount of it is on the disk that came
//! back, in a crowd.

use crate::Run;
use crate::crowd::Crowd;
use crate::figures::Row;
use crate::node::words;
use crate::support::disks::{Disk, Disks, replace, table_of};
use crate::support::pods::{Container, Plan};
use crate::turns::{Took, Turns, clocked};
use incloud_disk::host::remount::KernelRemounts;
use incloud_disk::model::mount::replacement::{Method, ReplacementOutcome};
use incloud_disk::ports::host::Remounts;
use std::time::Instant;

pub const GROUP: &str = "heal";
const ROUNDS: usize = 9;

pub fn measure(run: &mut Run, crowd: &Crowd, name: &str) {
    let machine = &crowd.machine;
    let attach = machine.attach(&crowd.volume);
    let pull = || {
        machine.node.verb(&["local", "yank", &crowd.volume.id]).expect("the disk is pulled");
    };
    let calls: Vec<_> = run
        .drivers
        .iter()
        .map(|driver| (driver.mark, machine.call(driver, &attach).answering("Success")))
        .collect();
    let mut turns = Turns::new(GROUP);
    for (mark, call) in &calls {
        let beside = (!mark.is_empty()).then_some(name);
        turns.add(format!("{name}{mark}"), beside, || {
            pull();
            clocked(|| call.run())
        });
    }
    let mut rows = turns.play(run.rounds(ROUNDS));
    is_whole(run, crowd);
    pull();
    for (row, (_, call)) in rows.iter_mut().zip(&calls) {
        row.counts = Some(run.counters.of(call, &pull));
    }
    calls[0].1.must();
    run.add(rows);
}

/// All of them are on the disk that came back; that the guard refused before does not matter.
fn is_whole(run: &Run, crowd: &Crowd) {
    let status = crowd.machine.call(&run.drivers[0], &words(["status", "--json"]));
    let output = status.command().output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let told: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let health = told["volumes"][0]["verdict"]["health"].as_str().unwrap_or_default();
    assert!(["ok", "guarded"].contains(&health), "{told:#}");
}

/// How many containers are switched, two mounts in each, where the ways to do it are compared.
const SWITCHED: usize = 50;

/// The switch itself, in this process, by each way that this kernel has: what one container takes.
pub fn methods(run: &mut Run) {
    let best = KernelRemounts::default().method();
    let disks = Disks::with("ext4", |root| std::fs::create_dir(root.join("sub")).unwrap());
    let plan = Plan::outside()
        .seeing(&disks.old.place, "/data")
        .seeing(&disks.old.place.join("sub"), "/sub");
    let containers = Plan::start_all((0..SWITCHED).map(|_| plan.clone()));
    let pids: Vec<u32> = containers.iter().map(Container::pid).collect();
    let ways = Method::ALL.into_iter().take(4).filter(|method| *method >= best);
    let mut turns = Turns::new(GROUP);
    for method in ways {
        // There and back, so that each way finds the mounts where it left them.
        let (pids, disks) = (&pids, &disks);
        turns.add(format!("the switch of one container by {method}"), None, move || {
            let there = switched(method, pids, &disks.old, &disks.new);
            let back = switched(method, pids, &disks.new, &disks.old);
            Took { time: f64::midpoint(there, back), work: 0.0 }
        });
    }
    let rows: Vec<Row> = turns.play(run.rounds(ROUNDS));
    run.add(rows);
}

/// Milliseconds for each of the containers.
fn switched(method: Method, pids: &[u32], from: &Disk, to: &Disk) -> f64 {
    let switches = KernelRemounts::by(method);
    let mut all = 0.0;
    for pid in pids {
        let stale = from.among(&table_of(*pid));
        let begin = Instant::now();
        let answers = replace(switches, Some(*pid), &stale, to);
        all += begin.elapsed().as_secs_f64() * 1e3;
        let is_done = |one: &ReplacementOutcome| *one == ReplacementOutcome::Switched;
        assert!(answers.iter().all(|one| is_done(&one.outcome)), "{answers:?}");
    }
    all / f64::from(u32::try_from(pids.len()).unwrap())
}
