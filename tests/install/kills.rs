//! Killed anywhere, and called again: there is always a whole driver, or none yet.

use crate::machine::{Machine, fails, is_same, must, names_in};
use crate::support::output_of;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The steps of an install, in their order.
pub const STEPS: [&str; 9] = [
    "begun",
    "staged",
    "tested",
    "configured",
    "kept",
    "switched",
    "settled",
    "triggered",
    "noted",
];

/// Whether the new driver is in its place once this step is reached.
pub fn is_switched(step: &str) -> bool {
    ["switched", "settled", "triggered", "noted"].contains(&step)
}

/// And those of its uninstall.
const LAST_STEPS: [&str; 2] = ["removed", "untriggered"];

#[track_caller]
fn killed_at(step: &str, mut command: Command) {
    let output = output_of(command.env("INSTALL_SEAM", step));
    assert_eq!(output.status.signal(), Some(9), "{step}: {output:?}");
}

/// What kubelet sees is whole, and nothing else is visible.
#[track_caller]
fn is_whole(machine: &Machine, may_be: &[&PathBuf]) {
    let visible = |folder: &Path| {
        let names = names_in(folder).into_iter().filter(|name| !name.starts_with('.'));
        names.collect::<Vec<_>>()
    };
    assert_eq!(visible(&machine.plugins()), ["incloud~disk"]);
    assert_eq!(visible(&machine.plugins().join("incloud~disk")), ["disk"]);
    // Read once, and compared with each.
    let there = std::fs::read(machine.driver()).unwrap();
    let is_it = |driver: &&PathBuf| std::fs::read(driver).unwrap() == there;
    assert!(may_be.iter().any(is_it), "{may_be:?}");
    machine.answers();
}

#[test]
fn a_first_install_leaves_a_whole_driver_or_none() {
    for step in STEPS {
        let machine = Machine::new();
        let driver = machine.make_driver("a");
        killed_at(step, machine.put("install", &driver));
        if is_switched(step) {
            is_whole(&machine, &[&driver]);
        } else {
            let names = names_in(&machine.plugins());
            assert!(names.iter().all(|name| name.starts_with('.')), "{step}: {names:?}");
        }
        machine.installed(&driver);
        is_whole(&machine, &[&driver]);
        machine.is_tidy();
        must(&mut machine.command(["verify"]));
    }
}

#[test]
fn an_upgrade_leaves_the_old_driver_or_the_new_one() {
    for step in STEPS {
        let machine = Machine::new();
        let (old, new) = (machine.make_driver("a"), machine.make_driver("b"));
        machine.installed(&old);
        killed_at(step, machine.put("upgrade", &new));
        is_whole(&machine, &[if is_switched(step) { &new } else { &old }]);
        must(&mut machine.put("upgrade", &new));
        is_whole(&machine, &[&new]);
        must(&mut machine.command(["verify"]));
        must(&mut machine.command(["rollback"]));
        is_whole(&machine, &[&old]);
        machine.is_tidy();
    }
}

#[test]
fn a_rollback_called_again_goes_back_once() {
    for step in STEPS.into_iter().filter(|step| *step != "configured") {
        let machine = Machine::new();
        let (old, new) = (machine.make_driver("a"), machine.make_driver("b"));
        machine.installed(&old);
        must(&mut machine.put("upgrade", &new));
        killed_at(step, machine.command(["rollback"]));
        is_whole(&machine, &[if is_switched(step) { &old } else { &new }]);
        if !["settled", "triggered", "noted"].contains(&step) {
            must(&mut machine.command(["rollback"]));
        }
        is_whole(&machine, &[&old]);
        assert!(is_same(&machine.previous(), &new), "{step}");
        machine.is_tidy();
    }
}

#[test]
fn an_uninstall_is_finished_by_the_next_word() {
    for word in ["uninstall", "install"] {
        let machine = Machine::new();
        let driver = machine.make_driver("a");
        machine.installed(&driver);
        for step in LAST_STEPS {
            killed_at(step, machine.command(["uninstall"]));
            assert!(
                fails(&mut machine.command(["verify"])).contains("the driver is gone"),
                "{step}"
            );
        }
        if word == "install" {
            machine.installed(&driver);
            is_whole(&machine, &[&driver]);
        } else {
            must(&mut machine.command(["uninstall"]));
            assert!(names_in(&machine.plugins()).is_empty());
        }
        machine.is_tidy();
    }
}
