//! `uninstall`: not while kubelet needs the driver, and nothing is lost that is another's.

use crate::machine::{Machine, fails, is_same, must, names_in};
use crate::support::{output_of, private_mounts, start};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const GLOBAL: &str = "/var/lib/kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/pv-1";
const POD: &str = "/data/kubelet/pods/0b5c-1/volumes/incloud~disk/pv-2";
const FOREIGN: &str = "/var/lib/kubelet/pods/0b5c-1/volumes/kubernetes.io~empty-dir/cache";

#[test]
fn mounted_volumes_are_named_and_hold_the_driver() {
    let machine = Machine::new();
    machine.installed(&machine.make_driver("a"));
    machine.mounted(&[("/", "rw"), (GLOBAL, "rw"), (POD, "ro"), (FOREIGN, "rw")]);
    let said = fails(&mut machine.command(["uninstall"]));
    assert!(said.contains(GLOBAL) && said.contains(POD) && !said.contains(FOREIGN), "{said}");
    machine.answers();
    // Also where only kubelet's own mount namespace shows them.
    machine.runs(8, "kubelet", &["kubelet"]);
    machine.mounted(&[("/", "rw")]);
    assert!(fails(&mut machine.command(["uninstall", "--purge"])).contains(POD));
    fs::remove_file(machine.proc().join("8/mountinfo")).unwrap();
    assert!(fails(&mut machine.command(["uninstall"])).contains("cannot be read"));
    machine.answers();
    machine.runs(8, "kubelet", &["kubelet"]);
    must(&mut machine.command(["uninstall"]));
    assert!(names_in(&machine.plugins()).is_empty());
}

/// Of a real one: the kernel does not show its mounts, and it has none.
#[test]
fn a_kubelet_that_has_ended_holds_nothing() {
    let machine = Machine::new();
    machine.installed(&machine.make_driver("a"));
    let program = machine.base().join("kubelet");
    must(Command::new("cp").arg("/bin/true").arg(&program));
    let mut kubelet = start(&mut Command::new(&program));
    let process = PathBuf::from("/proc").join(kubelet.id().to_string());
    while fs::read(process.join("mountinfo")).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::os::unix::fs::symlink(&process, machine.proc().join("8")).unwrap();
    must(&mut machine.command(["uninstall"]));
    kubelet.wait().unwrap();
    assert!(names_in(&machine.plugins()).is_empty());
}

#[test]
fn a_call_under_way_holds_the_driver() {
    let machine = Machine::new();
    machine.installed(&machine.make_driver("a"));
    fs::remove_file(machine.driver()).unwrap();
    must(Command::new("cp").arg("/bin/sleep").arg(machine.driver()));
    let mut call = start(Command::new(machine.driver()).arg("60"));
    let number = call.id().to_string();
    let exe = Path::new("/proc").join(&number).join("exe");
    let proc = machine.proc().join(&number);
    fs::create_dir(&proc).unwrap();
    fs::write(proc.join("cmdline"), "disk\0mountdevice\0").unwrap();
    std::os::unix::fs::symlink(fs::read_link(&exe).unwrap(), proc.join("exe")).unwrap();
    let held_by = format!("process {number}: mountdevice");
    let said = fails(&mut machine.command(["uninstall"]));
    assert!(said.contains(&held_by), "{said}");
    // Also when its driver has been replaced meanwhile.
    must(&mut machine.put("upgrade", &machine.make_driver("b")));
    let replaced = fs::read_link(&exe).unwrap();
    assert!(replaced.to_str().unwrap().ends_with("/disk (deleted)"), "{}", replaced.display());
    fs::remove_file(proc.join("exe")).unwrap();
    std::os::unix::fs::symlink(replaced, proc.join("exe")).unwrap();
    let said = fails(&mut machine.command(["uninstall"]));
    assert!(said.contains(&held_by), "{said}");
    machine.answers();
    call.kill().unwrap();
    call.wait().unwrap();
    fs::remove_dir_all(proc).unwrap();
    must(&mut machine.command(["uninstall"]));
}

#[test]
fn configuration_and_state_stay_unless_purged() {
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    machine.installed(&driver);
    let record = machine.at("var/lib/incloud-disk/volumes/x.json");
    fs::create_dir_all(record.parent().unwrap()).unwrap();
    fs::write(&record, "{}").unwrap();
    let hidden = machine.plugins().join("incloud~disk/.config.toml");
    fs::write(&hidden, "# of a controller-manager\n").unwrap();
    must(&mut machine.command(["uninstall"]));
    assert!(names_in(&machine.plugins()).is_empty());
    assert!(machine.config().exists() && record.exists());
    // What stood beside the driver comes back with it.
    machine.installed(&driver);
    assert_eq!(fs::read_to_string(&hidden).unwrap(), "# of a controller-manager\n");
    let image = machine.at("var/lib/incloud-disk/local/volumes/vol-1.img");
    fs::create_dir_all(image.parent().unwrap()).unwrap();
    fs::write(&image, "data").unwrap();
    must(&mut machine.command(["uninstall", "--purge"]));
    assert!(!machine.config().exists() && !record.exists());
    assert_eq!(names_in(&machine.at("var/lib/incloud-disk")), ["local"]);
    assert!(image.exists(), "the local cloud's volumes are data");
}

#[test]
fn what_is_not_ours_in_the_folder_is_not_removed() {
    let machine = Machine::new();
    machine.installed(&machine.make_driver("a"));
    let note = machine.plugins().join("incloud~disk/note");
    fs::write(&note, "").unwrap();
    assert!(fails(&mut machine.command(["uninstall"])).contains("not ours"));
    assert!(note.exists());
    // And kubelet keeps its driver until it can be removed whole.
    machine.answers();
    fs::remove_file(&note).unwrap();
    let (folder, real) = (machine.plugins().join("incloud~disk"), machine.base().join("real"));
    fs::rename(&folder, &real).unwrap();
    std::os::unix::fs::symlink(&real, &folder).unwrap();
    assert!(fails(&mut machine.command(["uninstall"])).contains("is a link"));
    machine.answers();
}

/// Killed between its two looks it has the driver under another name alone: the next one, which is
/// refused, leaves it where kubelet calls it.
#[test]
fn an_uninstall_that_is_refused_after_a_killed_one_leaves_the_driver() {
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    machine.installed(&driver);
    let mut killed = machine.command(["uninstall"]);
    assert!(!output_of(killed.env("INSTALL_SEAM", "removed")).status.success());
    assert!(!machine.driver().exists());
    machine.mounted(&[("/", "rw"), (GLOBAL, "rw")]);
    // No other driver is here that could do it.
    fs::remove_file(machine.base().join("release/disk")).unwrap();
    let said = fails(machine.command(["uninstall", "--plugin-dir"]).arg(machine.plugins()));
    assert!(said.contains("refused"), "{said}");
    assert!(is_same(&machine.driver(), &driver));
    machine.answers();
}

/// What is noted is of the driver in another folder: it stays, whatever is removed beside it.
#[test]
fn what_is_of_another_driver_stays() {
    let machine = Machine::new();
    machine.installed(&machine.make_driver("a"));
    let other = machine.base().join("other");
    let install = |folder: &Path, name: &str| {
        let mut command = machine.command(["install", "--plugin-dir"]);
        must(command.arg(folder).arg("--binary").arg(machine.make_driver(name)));
    };
    install(&other, "b");
    let uninstall = |folder: &Path, more: &[&str]| {
        let mut command = machine.command(["uninstall", "--plugin-dir"]);
        command.arg(folder).args(more);
        command
    };
    // The folder of the live driver by another name is no other one.
    let link = machine.base().join("link");
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let said = must(&mut uninstall(&link, &["--dry-run"]));
    assert!(said.contains("forgetting what was installed"), "{said}");
    for folder in [machine.plugins(), machine.base().join("typo")] {
        let said = fails(&mut uninstall(&folder, &["--purge"]));
        assert!(said.contains("nothing was removed"), "{said}");
    }
    let said = fails(&mut uninstall(&machine.base().join("typo"), &[]));
    assert!(said.contains("what is installed is in"), "{said}");
    // Nor is another maker's driver removed.
    let foreign = machine.base().join("foreign/incloud~disk");
    fs::create_dir_all(&foreign).unwrap();
    must(Command::new("cp").arg("/bin/true").arg(foreign.join("disk")));
    let said = fails(&mut uninstall(&machine.base().join("foreign"), &[]));
    assert!(said.contains("is another maker's driver"), "{said}");
    must(&mut uninstall(&machine.plugins(), &[]));
    assert!(names_in(&machine.plugins()).is_empty());
    assert!(machine.config().exists() && other.join("incloud~disk/disk").exists());
    let mut verify = machine.command(["verify", "--plugin-dir"]);
    must(verify.arg(&other));
    must(&mut uninstall(&other, &[]));
    assert!(names_in(&other).is_empty());
}

/// What is to be removed needs no room for its removal.
#[test]
fn a_full_disk_keeps_no_driver() {
    if !private_mounts("a_full_disk_keeps_no_driver") {
        return;
    }
    let machine = Machine::new();
    let driver = machine.make_driver("a");
    let size = format!("size={}", fs::metadata(&driver).unwrap().len() * 3 / 2);
    let plugins = machine.plugins();
    mount(Some("tmpfs"), &plugins, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).unwrap();
    machine.installed(&driver);
    must(&mut machine.command(["uninstall"]));
    assert!(names_in(&plugins).is_empty());
    umount2(&plugins, MntFlags::MNT_DETACH).unwrap();
}
