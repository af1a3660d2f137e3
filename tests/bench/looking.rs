//! What the metrics cost a call, and how long people wait for `status`, `explain` and `history`.

use crate::Run;
use crate::figures::Row;
use crate::node::{Driver, Machine, Volume, words};
use crate::turns::{Took, Turns, clocked};
use std::fmt::Write;
use std::fs;

const GROUP: &str = "looking";
const CALLS_ROUNDS: usize = 101;
const ROUNDS: usize = 21;
const SIZES: [usize; 4] = [10, 25, 48, 100];
/// A node with some dozens of volumes logs so much in a few weeks.
const CALLS: usize = 200_000;

pub fn measure(run: &mut Run) {
    if !run.is_root {
        run.add([Row::missing(GROUP, "status of 48 volumes", "needs root and loop devices")]);
        return;
    }
    let machine = Machine::new();
    let mut volumes: Vec<Volume> = Vec::new();
    for size in SIZES.into_iter().chain(run.is_long.then_some(200)) {
        while volumes.len() < size {
            volumes.push(machine.bring("ext4", "32M"));
        }
        status(run, &machine, size);
        if size == 48 {
            others(run, &machine, &volumes);
        }
    }
    long_log(run, &machine, &volumes);
    for volume in &volumes {
        machine.take(volume);
    }
}

fn status(run: &mut Run, machine: &Machine, size: usize) {
    let name = format!("status of {size} volumes");
    let calls: Vec<_> = run
        .drivers
        .iter()
        .map(|driver| (driver.mark, machine.call(driver, &words(["status"]))))
        .collect();
    let mut turns = Turns::new(GROUP);
    for (mark, call) in &calls {
        call.must();
        let beside = (!mark.is_empty()).then_some(name.as_str());
        turns.add(format!("{name}{mark}"), beside, || clocked(|| call.run()));
    }
    let mut rows = turns.play(run.rounds(ROUNDS));
    for (row, (_, call)) in rows.iter_mut().zip(&calls) {
        row.counts = Some(run.counters.of(call, &|| ()));
    }
    run.add(rows);
}

fn others(run: &mut Run, machine: &Machine, volumes: &[Volume]) {
    let driver = run.drivers[0].clone();
    let call = machine.call(&driver, &machine.stage(&volumes[0])).answering("Success");
    let page = machine.node.own().join("disk.prom");
    let metrics = format!("[metrics]\ntextfile = {page:?}\n");
    let with = |more: &str| -> Took {
        machine.node.configure(more);
        clocked(|| call.run())
    };
    let mut turns = Turns::new(GROUP);
    turns.add("a call without metrics", None, || with(""));
    turns.add("a call with metrics", Some("a call without metrics"), || with(&metrics));
    let mut rows = turns.play(run.rounds(CALLS_ROUNDS));
    machine.node.configure(&metrics);
    call.must();
    assert!(page.exists(), "no page of metrics");
    rows[1].counts = Some(run.counters.of(&call, &|| ()));
    machine.node.configure("");
    rows[0].counts = Some(run.counters.of(&call, &|| ()));
    run.add(rows);
    person(run, machine, &driver, "explain, beside 48 volumes", &["explain", &volumes[7].pv]);
}

fn person(run: &mut Run, machine: &Machine, driver: &Driver, name: &str, verb: &[&str]) {
    let verb: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
    let call = machine.call(driver, &verb);
    call.must();
    let mut turns = Turns::new(GROUP);
    turns.add(name, None, || clocked(|| call.run()));
    let mut rows = turns.play(run.rounds(ROUNDS));
    rows[0].counts = Some(run.counters.of(&call, &|| ()));
    run.add(rows);
}

/// The same beside a log of weeks.
fn long_log(run: &mut Run, machine: &Machine, volumes: &[Volume]) {
    let mut log = String::new();
    for call in 0..CALLS {
        let volume = &volumes[call % volumes.len()];
        let time = format!(
            "2026-01-02T{:02}:{:02}:{:02}.000001Z",
            call / 3600 % 24,
            call / 60 % 60,
            call % 60
        );
        let span = format!(r#""span":{{"id":"c{call}","op":"isattached","name":"call"}}"#);
        let (id, pv) = (&volume.id, &volume.pv);
        let _ = writeln!(
            log,
            r#"{{"timestamp":"{time}","level":"INFO","fields":{{"message":"begin","object":"volume {id}","volume":"{id}","name":"{pv}","node":"bench","pid":1,"parent":"kube-controller"}},{span}}}"#,
        );
        let _ = writeln!(
            log,
            r#"{{"timestamp":"{time}","level":"INFO","fields":{{"message":"end: Success","object":"volume {id}","duration_ms":2,"outcome":"Already"}},{span}}}"#,
        );
    }
    fs::write(machine.node.own().join("log/incloud-disk.2026-01-02.jsonl"), &log).unwrap();
    let driver = run.drivers[0].clone();
    let size = log.len() >> 20;
    let named = |what: &str| format!("{what}, with {size} MiB of log");
    person(run, machine, &driver, &named("history"), &["history", &volumes[7].pv]);
    person(run, machine, &driver, &named("status"), &["status"]);
}
