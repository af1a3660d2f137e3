//! What is no driver is refused before anything is changed.

use crate::machine::{Machine, fails, is_same, names_in};
use crate::support::output_of;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// Files that are no driver, each with what is said of it.
fn broken_drivers(machine: &Machine) -> Vec<(PathBuf, &'static str)> {
    let path = |name: &str| machine.base().join(name);
    let good = machine.make_driver("good");
    let bytes = fs::read(&good).unwrap();
    fs::write(path("empty"), "").unwrap();
    fs::write(path("text"), "touch ../executed\n").unwrap();
    fs::write(path("script"), "#!/bin/sh\ntouch ../executed\n").unwrap();
    fs::write(path("half"), &bytes[..bytes.len() / 2]).unwrap();
    let mut foreign = bytes;
    // The processor's number in an ELF header: one that no machine has.
    foreign[18..20].copy_from_slice(&[0xfe, 0xca]);
    fs::write(path("foreign"), foreign).unwrap();
    vec![
        (path("empty"), "is no program"),
        (path("text"), "is no program"),
        (path("script"), "is no program"),
        (path("foreign"), "is for another kind of processor"),
        (path("half"), "failed at init"),
        (PathBuf::from("/bin/false"), "failed at init"),
        (PathBuf::from("/bin/echo"), "answered init with: init"),
    ]
}

#[test]
fn a_broken_driver_is_refused_and_the_old_one_stays() {
    let machine = Machine::new();
    let old = machine.make_driver("a");
    machine.installed(&old);
    for (broken, reason) in broken_drivers(&machine) {
        for word in ["install", "upgrade"] {
            let said = fails(&mut machine.put(word, &broken));
            assert!(said.contains(reason), "{}: {said}", broken.display());
            assert!(is_same(&machine.driver(), &old), "{}", broken.display());
            assert!(!machine.previous().exists(), "{}", broken.display());
            machine.is_tidy();
        }
    }
    machine.answers();
    assert!(!machine.base().join("executed").exists());
}

#[test]
fn a_broken_driver_is_not_installed_first_either() {
    let machine = Machine::new();
    for (broken, reason) in broken_drivers(&machine) {
        let said = fails(&mut machine.put("install", &broken));
        assert!(said.contains(reason), "{}: {said}", broken.display());
        assert!(names_in(&machine.plugins()).is_empty(), "{}", broken.display());
        assert!(!machine.config().exists());
    }
}

#[test]
fn there_is_nothing_to_upgrade_or_to_go_back_to() {
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    assert!(fails(&mut machine.put("upgrade", &driver)).contains("nothing to upgrade"));
    machine.installed(&driver);
    assert!(fails(&mut machine.command(["rollback"])).contains("nothing to go back to"));
    assert!(fails(&mut machine.put("install", &machine.base().join("none"))).contains("no file"));
}

#[test]
fn a_wrong_word_is_told_with_exit_status_2() {
    let machine = Machine::new();
    for words in [
        &["install", "--cloud", "azure"][..],
        &["install", "--cloud"],
        &["install", "--binary="],
        &["install", "--purge"],
        &["install", "--dry-run=yes"],
        &["install", "here"],
        &["rollback", "--binary", "x"],
        &["uninstall", "--cloud=local"],
        &["verify", "--dry-run"],
        &["release", "--dry-run"],
        &["remove"],
    ] {
        let output = output_of(&mut machine.command(words.iter().copied()));
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
    }
    assert!(!machine.base().join("root").exists());
}

#[test]
fn two_at_once_do_not_meet() {
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    machine.installed(&driver);
    let lock = machine.at("var/lib/incloud-disk/.install.lock");
    let mut holder = Command::new("flock");
    holder.arg(lock).args(["sleep", "2"]);
    if output_of(Command::new("flock").arg("--version")).status.success() {
        let mut holder = crate::support::start(&mut holder);
        let started = std::time::Instant::now();
        crate::machine::must(&mut machine.put("install", &driver));
        assert!(started.elapsed().as_millis() > 500, "it waited for the other one");
        holder.wait().unwrap();
    }
}

/// At 94ff2ff the install succeeded, noted no checksum, and `verify` then called the driver another one.
#[test]
fn a_checksum_that_cannot_be_made_is_no_success() {
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    let tools = machine.base().join("tools");
    fs::create_dir(&tools).unwrap();
    let broken = tools.join("sha256sum");
    fs::write(&broken, "#!/bin/sh\necho 'Input/output error' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let said = fails(machine.put("install", &driver).env("PATH", path));
    assert!(said.contains("Input/output error"), "{said}");
    // The next one goes on from there.
    machine.installed(&driver);
    crate::machine::must(&mut machine.command(["verify"]));
    machine.is_tidy();
}
