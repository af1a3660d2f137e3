//! The switch from one driver to another, under a kubelet that calls and watches without pause.

use crate::machine::{Machine, READY, is_same, must, text_of};
use crate::support::output_of;
use crate::watch::Watch;
use nix::sys::inotify::AddWatchFlags;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

/// How often everything is switched there and back.
const ROUNDS: usize = 12;

#[test]
fn no_call_fails_while_drivers_come_and_go() {
    let machine = Machine::new();
    let drivers = [machine.make_driver("a"), machine.make_driver("b")];
    machine.installed(&drivers[1]);
    let watch = Watch::on(&machine.plugins());
    watch.also(&machine.plugins().join("incloud~disk"));
    let is_over = AtomicBool::new(false);
    let calls = thread::scope(|scope| {
        let caller = scope.spawn(|| call_until(&machine, &is_over));
        for round in 0..ROUNDS {
            let (one, other) = (&drivers[round % 2], &drivers[(round + 1) % 2]);
            for (mut command, wanted) in [
                (machine.put("install", one), one),
                (machine.put("upgrade", other), other),
                (machine.command(["rollback"]), one),
            ] {
                must(&mut command);
                assert!(is_same(&machine.driver(), wanted), "round {round}: {command:?}");
                let one_rename = [("disk".to_owned(), AddWatchFlags::IN_MOVED_TO)];
                assert_eq!(watch.seen(), one_rename, "round {round}: {command:?}");
            }
            assert!(!caller.is_finished(), "a call failed in round {round}");
        }
        is_over.store(true, Ordering::Relaxed);
        caller.join().expect("no call fails")
    });
    assert!(calls > ROUNDS, "only {calls} calls");
    machine.is_tidy();
    must(&mut machine.command(["verify"]));
}

/// Calls the driver through its path; says how often.
fn call_until(machine: &Machine, is_over: &AtomicBool) -> usize {
    let mut calls = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut command = Command::new(machine.driver());
        let output = output_of(command.arg("init").env("INCLOUD_DISK_CONFIG", "/dev/null"));
        assert!(output.status.success(), "call {calls}: {output:?}");
        let text = text_of(&output);
        assert!(text.starts_with(READY) && text.ends_with("}\n"), "call {calls}: {text}");
        calls += 1;
        // The installs need the processors too.
        thread::sleep(Duration::from_millis(1));
    }
    calls
}

#[test]
fn the_first_install_is_one_rename_of_a_folder() {
    let machine = Machine::new();
    let watch = Watch::on(&machine.plugins());
    machine.installed(&machine.make_driver("a"));
    let seen = watch.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0].0, "incloud~disk");
    assert!(seen[0].1.contains(AddWatchFlags::IN_MOVED_TO), "{seen:?}");
    machine.answers();
    machine.is_tidy();
}

#[test]
fn the_same_driver_again_changes_nothing_that_kubelet_sees() {
    let machine = Machine::new();
    let (old, new) = (machine.make_driver("a"), machine.make_driver("b"));
    machine.installed(&old);
    must(&mut machine.put("upgrade", &new));
    let watch = Watch::on(&machine.plugins());
    watch.also(&machine.plugins().join("incloud~disk"));
    let said = must(&mut machine.put("install", &new));
    assert!(said.contains("is what is here already"), "{said}");
    assert_eq!(watch.seen(), []);
    // What a rollback goes back to is still the one before.
    must(&mut machine.command(["rollback"]));
    assert!(is_same(&machine.driver(), &old));
    must(&mut machine.command(["rollback"]));
    assert!(is_same(&machine.driver(), &new));
}

#[test]
fn a_call_that_runs_keeps_its_driver() {
    let machine = Machine::new();
    let running = machine.base().join("plugins/incloud~disk");
    fs::create_dir(&running).unwrap();
    must(Command::new("cp").args(["/bin/sleep"]).arg(machine.driver()));
    let mut call = crate::support::start(Command::new(machine.driver()).arg("60"));
    machine.installed(&machine.make_driver("a"));
    assert!(call.try_wait().unwrap().is_none(), "the old call still runs");
    machine.answers();
    let kept = machine.at("var/lib/incloud-disk/predecessor/incloud~disk/disk");
    assert!(is_same(&kept, std::path::Path::new("/bin/sleep")));
    call.kill().unwrap();
    call.wait().unwrap();
}
