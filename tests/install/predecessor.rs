//! Another maker's driver is kept with its files, comes back, and goes only when a person says so.

use crate::machine::{Machine, fails, is_same, must, names_in};
use crate::support::{output_of, start, write_program};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A driver of the old kind: a script that reads a file beside it, and answers on several lines.
const SCRIPT: &str = "#!/bin/sh
. \"$(dirname \"$0\")/lib.sh\"
case $1 in
    init) answer ;;
    *) echo '{\"status\": \"Not supported\"}' ;;
esac
";
const LIBRARY: &str = "answer() {
    echo '{'
    echo '  \"status\": \"Success\", \"capabilities\": {\"attach\": true}'
    echo '}'
}
";

fn folder(machine: &Machine) -> PathBuf {
    machine.plugins().join("incloud~disk")
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    write_program(path, text);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A machine on which the predecessor runs.
fn with_predecessor() -> Machine {
    let machine = Machine::new();
    write(&machine.driver(), SCRIPT, 0o750);
    write(&folder(&machine).join("lib.sh"), LIBRARY, 0o640);
    write(&folder(&machine).join("conf/cloud.conf"), "[Global]\nauth-url=http://x\n", 0o600);
    machine
}

fn kept(machine: &Machine) -> PathBuf {
    machine.at("var/lib/incloud-disk/predecessor")
}

/// It is there as it was, and answers.
#[track_caller]
fn is_back(machine: &Machine) {
    assert_eq!(fs::read_to_string(machine.driver()).unwrap(), SCRIPT);
    assert_eq!(fs::metadata(machine.driver()).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(fs::read_to_string(folder(machine).join("lib.sh")).unwrap(), LIBRARY);
    assert!(folder(machine).join("conf/cloud.conf").is_file());
    let output = output_of(Command::new(machine.driver()).arg("init"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"Success\""), "{output:?}");
    let hidden = |name: &String| name.starts_with('.');
    assert!(!names_in(&folder(machine)).iter().any(hidden));
}

fn to_predecessor(machine: &Machine) -> Command {
    let mut command = machine.command(["rollback", "--to", "predecessor", "--plugin-dir"]);
    command.arg(machine.plugins());
    command
}

#[test]
fn it_comes_back_whatever_was_installed_since() {
    let machine = with_predecessor();
    for (number, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let driver = machine.make_driver(name);
        must(&mut machine.put(if number == 0 { "install" } else { "upgrade" }, &driver));
        // Its files stay for its calls that run, and are no difference.
        must(&mut machine.command(["verify"]));
    }
    must(&mut to_predecessor(&machine));
    is_back(&machine);
    let said = must(&mut machine.command(["verify"]));
    assert!(said.contains("as installed: the predecessor"), "{said}");
    // And forward again.
    must(&mut machine.command(["rollback"]));
    machine.answers();
    assert!(is_same(&machine.driver(), &machine.base().join("driver-e")));
    // What went with the folder comes back too.
    must(&mut machine.command(["uninstall"]));
    assert!(names_in(&machine.plugins()).is_empty());
    must(&mut to_predecessor(&machine));
    is_back(&machine);
    // An uninstall is of ours: another maker's stays.
    let said = must(&mut machine.command(["uninstall", "--purge"]));
    assert!(said.contains("another maker's driver"), "{said}");
    is_back(&machine);
    assert!(!kept(&machine).exists());
}

#[test]
fn only_a_purge_takes_it_away() {
    let machine = with_predecessor();
    machine.installed(&machine.make_driver("a"));
    let said = must(&mut machine.command(["uninstall"]));
    assert!(said.contains("rollback --to predecessor"), "{said}");
    assert!(kept(&machine).join("incloud~disk/lib.sh").is_file());
    machine.installed(&machine.make_driver("a"));
    must(&mut machine.command(["uninstall", "--purge"]));
    assert!(!kept(&machine).exists());
    let said = fails(&mut to_predecessor(&machine));
    assert!(said.contains("no other maker's driver was here"), "{said}");
}

#[test]
fn the_plain_rollback_of_the_first_install_goes_back_to_it() {
    let machine = with_predecessor();
    let driver = machine.make_driver("a");
    machine.installed(&driver);
    must(&mut machine.command(["rollback"]));
    is_back(&machine);
    must(&mut machine.command(["rollback"]));
    assert!(is_same(&machine.driver(), &driver));
    must(&mut machine.command(["rollback"]));
    is_back(&machine);
}

/// Another one in its place is another predecessor; none is lost.
#[test]
fn a_second_one_does_not_take_the_place_of_the_first() {
    let machine = with_predecessor();
    machine.installed(&machine.make_driver("a"));
    write(&machine.driver(), &SCRIPT.replace("Not supported", "Not known"), 0o755);
    machine.installed(&machine.make_driver("b"));
    let first = machine.at("var/lib/incloud-disk/predecessor.1/incloud~disk/disk");
    assert_eq!(fs::read_to_string(first).unwrap(), SCRIPT);
    must(&mut to_predecessor(&machine));
    assert!(fs::read_to_string(machine.driver()).unwrap().contains("Not known"));
    machine.installed(&machine.make_driver("b"));
    assert!(!machine.at("var/lib/incloud-disk/predecessor.2").exists(), "the same one again");
}

#[test]
fn a_link_comes_back_as_the_link_or_as_what_it_led_to() {
    for is_gone in [false, true] {
        let machine = with_predecessor();
        let target = machine.base().join("opt/driver");
        write(
            &target,
            &SCRIPT.replace("$(dirname \"$0\")", folder(&machine).to_str().unwrap()),
            0o755,
        );
        fs::remove_file(machine.driver()).unwrap();
        symlink(&target, machine.driver()).unwrap();
        machine.installed(&machine.make_driver("a"));
        assert!(target.is_file() && !machine.driver().is_symlink());
        let text = fs::read(&target).unwrap();
        if is_gone {
            fs::remove_file(&target).unwrap();
        }
        must(&mut to_predecessor(&machine));
        assert_eq!(machine.driver().is_symlink(), !is_gone);
        assert_eq!(fs::read(machine.driver()).unwrap(), text);
    }
}

#[test]
fn what_is_no_driver_is_left_or_kept() {
    // A folder.
    let machine = Machine::new();
    fs::create_dir_all(machine.driver().join("x")).unwrap();
    let said = fails(&mut machine.put("install", &machine.make_driver("a")));
    assert!(said.contains("is a folder") && said.contains("nothing was changed"), "{said}");
    assert!(machine.driver().join("x").is_dir() && !machine.config().exists());
    // One that cannot be executed, and one that does not end: kept, and not put back.
    for (script, mode, why) in [
        (SCRIPT, 0o640, "failed at init"),
        ("#!/bin/sh\nexec sleep 600\n", 0o755, "did not end within"),
    ] {
        let machine = with_predecessor();
        write(&machine.driver(), script, mode);
        let driver = machine.make_driver("a");
        machine.installed(&driver);
        assert_eq!(fs::read_to_string(kept(&machine).join("incloud~disk/disk")).unwrap(), script);
        let said = fails(&mut to_predecessor(&machine));
        assert!(said.contains(why), "{said}");
        assert!(is_same(&machine.driver(), &driver));
    }
}

/// A pipe in the folder is no file: nothing waits for it.
#[test]
fn what_cannot_be_kept_is_named() {
    let machine = with_predecessor();
    let pipe = folder(&machine).join("pipe");
    must(Command::new("mkfifo").arg(&pipe));
    let said = must(&mut machine.put("install", &machine.make_driver("a")));
    assert!(said.contains("not kept, it is no file") && said.contains("/pipe"), "{said}");
}

#[test]
fn killed_at_any_step_there_is_the_one_or_the_other() {
    for step in crate::kills::STEPS.into_iter().chain(["copied"]) {
        let machine = with_predecessor();
        let driver = machine.make_driver("a");
        let mut install = machine.put("install", &driver);
        let output = output_of(install.env("INSTALL_SEAM", step));
        assert_eq!(output.status.signal(), Some(9), "{step}: {output:?}");
        if crate::kills::is_switched(step) {
            machine.answers();
            assert!(is_same(&machine.driver(), &driver), "{step}");
        } else {
            assert_eq!(fs::read_to_string(machine.driver()).unwrap(), SCRIPT, "{step}");
        }
        machine.installed(&driver);
        must(&mut machine.command(["verify"]));
        assert!(kept(&machine).join("incloud~disk/conf/cloud.conf").is_file(), "{step}");
        assert!(!machine.at("var/lib/incloud-disk/predecessor.1").exists(), "{step}");
        // And on the way back.
        let output = output_of(to_predecessor(&machine).env("INSTALL_SEAM", step));
        if output.status.signal() == Some(9) {
            let there = fs::read(machine.driver()).unwrap();
            let ours = fs::read(&driver).unwrap();
            assert!(there == ours || there == SCRIPT.as_bytes(), "{step}");
            must(&mut to_predecessor(&machine));
        } else {
            assert!(output.status.success(), "{step}: {output:?}");
        }
        is_back(&machine);
    }
}

fn former(machine: &Machine, number: usize) -> PathBuf {
    match number {
        1 => machine.previous(),
        _ => machine.previous().with_file_name(format!("disk.{number}")),
    }
}

#[track_caller]
fn are_kept(machine: &Machine, all: &[&PathBuf]) {
    for (number, driver) in all.iter().enumerate() {
        assert!(is_same(&former(machine, number + 1), driver), "{number}");
    }
    assert!(!former(machine, all.len() + 1).exists());
    machine.answers();
}

#[test]
fn the_last_three_of_ours_are_kept_once_each() {
    let machine = Machine::new();
    let drivers: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| machine.make_driver(name)).into();
    machine.installed(&drivers[0]);
    for driver in &drivers[1..] {
        must(&mut machine.put("upgrade", driver));
    }
    are_kept(&machine, &[&drivers[3], &drivers[2], &drivers[1]]);
    let said = must(&mut machine.command(["rollback", "--dry-run"]));
    assert!(said.contains("kept is --to 3: disk "), "{said}");
    must(&mut machine.command(["rollback", "--to", "3"]));
    assert!(is_same(&machine.driver(), &drivers[1]));
    are_kept(&machine, &[&drivers[4], &drivers[3], &drivers[2]]);
    must(&mut machine.command(["rollback"]));
    assert!(is_same(&machine.driver(), &drivers[4]));
    are_kept(&machine, &[&drivers[1], &drivers[3], &drivers[2]]);
    // Killed while they are moved.
    for _ in 0..2 {
        let mut upgrade = machine.put("upgrade", &drivers[0]);
        let output = output_of(upgrade.env("INSTALL_SEAM", "moved"));
        assert_eq!(output.status.signal(), Some(9), "{output:?}");
        assert!(is_same(&machine.driver(), &drivers[0]));
    }
    must(&mut machine.put("upgrade", &drivers[0]));
    are_kept(&machine, &[&drivers[4], &drivers[1], &drivers[3]]);
    fs::remove_file(former(&machine, 3)).unwrap();
    let said = fails(&mut machine.command(["rollback", "--to", "3"]));
    assert!(said.contains("nothing to go back to") && said.contains("--to 2: disk"), "{said}");
}

/// A driver that does not answer any more is replaced, and pushes no good one out.
#[test]
fn a_damaged_driver_of_ours_is_repaired() {
    let machine = with_predecessor();
    let (old, new) = (machine.make_driver("a"), machine.make_driver("b"));
    machine.installed(&old);
    must(&mut machine.put("upgrade", &new));
    fs::write(machine.driver(), &fs::read(&new).unwrap()[..5000]).unwrap();
    // With the script alone: what is kept can do it.
    fs::remove_file(machine.base().join("release/disk")).unwrap();
    must(&mut machine.command(["rollback"]));
    assert!(is_same(&machine.driver(), &old));
    machine.answers();
    assert!(!machine.at("var/lib/incloud-disk/predecessor.1").exists());
    fs::write(machine.driver(), "").unwrap();
    must(&mut machine.put("install", &new));
    machine.answers();
    // A script that does not answer today is a person's, and no broken copy of ours.
    let script = "#!/bin/sh\nexit 1\n";
    fs::remove_file(machine.driver()).unwrap();
    write(&machine.driver(), script, 0o755);
    must(&mut machine.put("install", &new));
    assert_eq!(fs::read_to_string(kept(&machine).join("incloud~disk/disk")).unwrap(), script);
}

#[test]
fn a_folder_without_a_driver_has_nothing_to_roll_back() {
    let machine = Machine::new();
    machine.installed(&machine.make_driver("a"));
    must(&mut machine.put("upgrade", &machine.make_driver("b")));
    let other = machine.base().join("other");
    fs::create_dir(&other).unwrap();
    let mut rollback = machine.command(["rollback", "--plugin-dir"]);
    let said = fails(rollback.arg(&other));
    assert!(said.contains("there is no driver in") && said.contains("other"), "{said}");
    assert!(names_in(&other).is_empty());
    machine.is_tidy();
}

/// A person's Ctrl-C, and a pod that is stopped.
#[test]
fn a_signal_leaves_nothing_hidden() {
    let machine = with_predecessor();
    // The test of the copy takes this long: of a driver of before it is the old one that is asked.
    machine.installed(&machine.make_driver("a"));
    write(
        &kept(&machine).join("incloud~disk/disk"),
        "#!/bin/sh\ntouch \"$(dirname \"$0\")/../../asked\"\nexec sleep 15\n",
        0o755,
    );
    let mut command = to_predecessor(&machine);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = start(&mut command);
    let asked = machine.base().join("asked");
    while !asked.exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child.id().try_into().unwrap()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(15), "{status:?}");
    assert!(!names_in(&folder(&machine)).iter().any(|name| name.starts_with('.')));
    machine.answers();
}
