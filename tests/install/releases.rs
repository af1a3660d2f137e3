//! A node without a toolchain: an unpacked release, or a binary that a person brought.

use crate::machine::{Machine, fails, is_same, must, script};
use crate::support::write_program;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A release as it is unpacked.
fn unpacked(machine: &Machine) -> PathBuf {
    let folder = machine.base().join("incloud-disk-1");
    fs::create_dir(&folder).unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    must(Command::new("cp").arg("-R").arg(script()).arg(examples).arg(&folder));
    must(Command::new("cp").arg(machine.make_driver("a")).arg(folder.join("disk")));
    let sums =
        "cd \"$0\" && find disk install.sh examples -type f -exec sha256sum {} + >SHA256SUMS";
    must(Command::new("sh").args(["-c", sums]).arg(&folder));
    folder
}

/// A search path on which a toolchain or a package manager is found first, and tells on a script that
/// uses it.
fn tell_tales(machine: &Machine) -> String {
    let folder = machine.base().join("tools");
    fs::create_dir(&folder).unwrap();
    for tool in ["cargo", "rustc", "rustup", "apt-get", "dnf", "yum", "curl", "wget"] {
        let path = folder.join(tool);
        let tale = machine.base().join("used");
        write_program(&path, format!("#!/bin/sh\necho {tool} >>'{}'\nexit 1\n", tale.display()));
    }
    format!("{}:/usr/bin:/bin", folder.display())
}

#[test]
fn a_binary_needs_neither_toolchain_nor_packages() {
    let machine = Machine::new();
    let path = tell_tales(&machine);
    let (old, new) = (machine.make_driver("a"), machine.make_driver("b"));
    for mut command in [
        machine.put("install", &old),
        machine.put("upgrade", &new),
        machine.command(["rollback"]),
        machine.command(["verify"]),
        machine.command(["uninstall"]),
    ] {
        must(command.env("PATH", &path).env("HOME", "/nowhere"));
    }
    assert!(!machine.base().join("used").exists());
}

#[test]
fn an_unpacked_release_installs_the_driver_beside_the_script() {
    let machine = Machine::new();
    let (folder, path) = (unpacked(&machine), tell_tales(&machine));
    let machine = machine.with_script(folder.join("install.sh"));
    let mut install = machine.command(["install", "--cloud", "local", "--plugin-dir"]);
    must(install.arg(machine.plugins()).env("PATH", &path));
    assert!(is_same(&machine.driver(), &folder.join("disk")));
    assert!(!machine.base().join("used").exists());
    machine.answers();
    // What only the source can do is told.
    assert!(fails(&mut machine.command(["release"])).contains("no source"));
}

#[test]
fn a_release_that_was_damaged_is_refused() {
    let machine = Machine::new();
    let folder = unpacked(&machine);
    let machine = machine.with_script(folder.join("install.sh"));
    must(Command::new("sh").args(["-c", "echo >>\"$0\""]).arg(folder.join("disk")));
    let mut install = machine.command(["install", "--plugin-dir"]);
    assert!(fails(install.arg(machine.plugins())).contains("unpack the release again"));
    assert!(!machine.driver().exists());
}
