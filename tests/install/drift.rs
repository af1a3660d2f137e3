//! `verify`: what is not as it was installed.

use crate::machine::{Machine, fails, must};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A way to change a machine behind the script's back.
type Change = fn(&Machine);

#[test]
fn each_difference_is_named() {
    let changes: [(Change, &str); 8] = [
        (
            |machine| {
                let script = "cp \"$0\" \"$0.new\" && echo >>\"$0.new\" && mv \"$0.new\" \"$0\"";
                must(Command::new("sh").args(["-c", script]).arg(machine.driver()));
            },
            "is another one than was installed at 2",
        ),
        (|machine| fs::remove_file(machine.driver()).unwrap(), "the driver is gone"),
        (|machine| set_mode(&machine.driver(), 0o777), "other permissions than 0755"),
        (
            |machine| fs::create_dir(machine.plugins().join("incloud~disk.bak")).unwrap(),
            "kubelet may take this for a driver",
        ),
        (
            |machine| fs::write(machine.plugins().join("incloud~disk/log"), "").unwrap(),
            "incloud~disk/log",
        ),
        (|machine| fs::remove_file(machine.config()).unwrap(), "the configuration is gone"),
        (|machine| set_mode(&machine.config(), 0o644), "others may read the configuration"),
        (
            |machine| fs::remove_dir(machine.at("var/log/incloud-volume")).unwrap(),
            "the log folder is gone",
        ),
    ];
    for (change, wanted) in changes {
        let machine = Machine::new();
        machine.installed(&machine.make_driver("a"));
        let said = must(&mut machine.command(["verify"]));
        assert!(said.contains(concat!("disk ", env!("CARGO_PKG_VERSION"))), "{said}");
        change(&machine);
        let said = fails(&mut machine.command(["verify"]));
        assert!(said.contains(wanted), "{wanted}: {said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}

#[test]
fn where_nothing_was_installed_it_says_so() {
    let said = fails(&mut Machine::new().command(["verify"]));
    assert!(said.contains("nothing is noted as installed"), "{said}");
}
