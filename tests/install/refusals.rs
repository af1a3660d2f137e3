//! What is no driver is refused before anything is changed.

use crate::machine::{Machine, fails, is_same, must, names_in};
use crate::support::{output_of, write_program};
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
        let said = fails(&mut machine.put("install", &broken));
        assert!(said.contains(reason), "{}: {said}", broken.display());
        assert!(is_same(&machine.driver(), &old), "{}", broken.display());
        assert!(!machine.previous().exists(), "{}", broken.display());
        machine.is_tidy();
    }
    machine.answers();
    assert!(!machine.base().join("executed").exists());
}

#[test]
fn two_at_once_do_not_meet() {
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    machine.installed(&driver);
    let lock = machine.at("var/lib/incloud-disk/.install.lock");
    let mut holder = Command::new("flock");
    holder.arg(lock).args(["sleep", "1"]);
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
fn what_cannot_be_noted_is_no_success() {
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    let note = machine.at("var/lib/incloud-disk/installed");
    fs::create_dir_all(note.join("in the way")).unwrap();
    let said = fails(machine.command(["verify", "--plugin-dir"]).arg(machine.plugins()));
    assert!(said.contains("/installed") && !said.contains("as installed"), "{said}");
    let said = fails(&mut machine.put("install", &driver));
    assert!(said.contains("/installed"), "{said}");
    // The next one goes on from there.
    fs::remove_dir_all(&note).unwrap();
    machine.installed(&driver);
    crate::machine::must(&mut machine.command(["verify"]));
    machine.is_tidy();
}

/// Of a program that no other one may run here the kernel says that it may not; a person's file need not
/// be executable where it lies.
#[test]
fn a_file_without_the_right_to_be_executed_is_installed() {
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    fs::set_permissions(&driver, fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(machine.base().join("release/disk")).unwrap();
    machine.installed(&driver);
    machine.answers();
    crate::machine::must(&mut machine.command(["verify"]));
}

/// What is no driver cannot test itself, and nothing else can here.
#[test]
fn without_any_driver_it_is_said_which_were_tried() {
    let machine = Machine::new();
    fs::remove_file(machine.base().join("release/disk")).unwrap();
    let said = fails(&mut machine.put("install", &PathBuf::from("/bin/false")));
    assert!(said.contains("no driver is here") && said.contains("tried: /bin/false"), "{said}");
    assert!(names_in(&machine.plugins()).is_empty());
    let said = fails(&mut machine.command(["rollback"]));
    assert!(said.contains("no driver is here") && said.contains("tried: none"), "{said}");
    // What is to be removed takes a driver; that there is nothing does not.
    let said = fails(&mut machine.command(["uninstall", "--purge"]));
    assert!(said.contains("no driver is here"), "{said}");
    let said = crate::machine::must(&mut machine.command(["uninstall"]));
    assert!(said.contains("nothing is installed here"), "{said}");
}

/// A driver like this one, of before volumes could be mounted through maps.
fn driver_without_maps(machine: &Machine) -> PathBuf {
    let path = machine.make_driver("older");
    let mut bytes = fs::read(&path).unwrap();
    let word = b"waits";
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(word.len()).position(|bytes| bytes == word) {
        at += found + word.len();
        bytes[at - 1] = b'z';
    }
    write_program(&path, bytes);
    path
}

#[test]
fn a_driver_that_knows_no_maps_is_refused_while_there_are_some() {
    let machine = Machine::new();
    let (older, new) = (driver_without_maps(&machine), machine.make_driver("new"));
    let sysfs = machine.base().join("sysfs");
    let map = sysfs.join("block/dm-0");
    fs::create_dir_all(map.join("slaves")).unwrap();
    fs::create_dir(map.join("dm")).unwrap();
    fs::write(map.join("dm/uuid"), "incloud_disk-v-1\n").unwrap();
    let unit = machine.at("etc/systemd/system/incloud-disk-shutdown.service");
    machine.installed(&older);
    machine.installed(&new);
    assert!(unit.exists());
    for words in [&["rollback"][..], &["rollback", "--dry-run"], &["uninstall"]] {
        let said = fails(machine.command(words).env("INCLOUD_DISK_SYSFS", &sysfs));
        assert!(said.contains("the map of volume v-1"), "{words:?}: {said}");
        assert!(is_same(&machine.driver(), &new), "{words:?}");
    }
    // install.sh runs the program that is brought; what is in its place can put there another one, too.
    let mut command = Command::new(machine.driver());
    command.args(["node", "install", "--plugin-dir"]).arg(machine.plugins());
    command.arg("--binary").arg(&older).env("DESTDIR", machine.base().join("root"));
    command.env("INSTALL_PROC", machine.proc()).env("INCLOUD_DISK_CONFIG", "/dev/null");
    let said = fails(command.env("INCLOUD_DISK_SYSFS", &sysfs));
    assert!(said.contains("knows no volumes that are mounted through maps"), "{said}");
    assert!(is_same(&machine.driver(), &new) && unit.exists());
    // One that knows them takes its place.
    let newer = machine.make_driver("newer");
    must(machine.put("install", &newer).env("INCLOUD_DISK_SYSFS", &sysfs));
    // Without a map an older one does, and the unit goes with what it would call.
    must(&mut machine.command(["rollback", "--to", "2"]));
    assert!(is_same(&machine.driver(), &older) && !unit.exists());
    must(&mut machine.command(["verify"]));
    must(&mut machine.put("install", &newer));
    assert!(is_same(&machine.driver(), &newer) && unit.exists());
    must(&mut machine.command(["verify"]));
}
