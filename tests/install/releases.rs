//! A node without a toolchain: an unpacked release, or a binary that a person brought.

use crate::machine::{Machine, fails, is_same, must, script};
use crate::support::{skip, write_program};
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
    must(Command::new("cp").arg(machine.make_driver("b")).arg(folder.join("disk-libudev")));
    let sums = "cd \"$0\" && find disk disk-libudev install.sh examples -type f -exec sha256sum {} + >SHA256SUMS";
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

/// A release has two drivers: the one with libudev goes where that library is, and starts with the C library there.
#[test]
fn the_driver_with_libudev_is_installed_where_it_starts() {
    let name = "releases::the_driver_with_libudev_is_installed_where_it_starts";
    let machine = Machine::new();
    let folder = unpacked(&machine);
    let machine = machine.with_script(folder.join("install.sh"));
    let installs = |driver: &str| {
        must(machine.command(["install", "--plugin-dir"]).arg(machine.plugins()));
        assert!(is_same(&machine.driver(), &folder.join(driver)), "{driver}");
        must(&mut machine.command(["verify"]));
    };
    installs("disk");
    if !machine.has_libraries_of_the_driver() {
        return skip(name, "the driver under test is built without libudev");
    }
    installs("disk-libudev");
    // One library less, and a C library that lacks a symbol: the driver does not start there.
    let libraries = machine.at("usr/lib/some-linux-gnu");
    let without = |library: &str, instead: Option<&str>| {
        let (path, kept) = (libraries.join(library), machine.base().join("kept"));
        fs::rename(&path, &kept).unwrap();
        if let Some(other) = instead {
            fs::copy(libraries.join(other), &path).unwrap();
        }
        installs("disk");
        fs::rename(&kept, &path).unwrap();
    };
    without("libudev.so.1", None);
    without("libc.so.6", Some("libudev.so.1"));
    installs("disk-libudev");
    // A kubelet has the machine's libraries, and a container with the controller-manager has none; nor will it have any
    // later.
    machine.runs(7, "kubelet", &["kubelet"]);
    installs("disk-libudev");
    machine.runs(8, "kube-controller", &["kube-controller-manager"]);
    let root = machine.proc().join("8/root");
    fs::remove_file(&root).unwrap();
    fs::create_dir(&root).unwrap();
    installs("disk");
    fs::remove_dir_all(machine.proc().join("8")).unwrap();
    installs("disk-libudev");
    let manifest = machine.at("etc/kubernetes/manifests/kube-controller-manager.yaml");
    fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    fs::write(&manifest, "").unwrap();
    installs("disk");
    fs::remove_file(&manifest).unwrap();
    installs("disk-libudev");
    // Where the release is unpacked it may not start either.
    fs::write(folder.join("disk-libudev"), "no program").unwrap();
    let sums = "cd \"$0\" && sha256sum disk disk-libudev >SHA256SUMS";
    must(Command::new("sh").args(["-c", sums]).arg(&folder));
    installs("disk");
}

/// A tenant chooses the name of his process and all that is in its root directory.
#[test]
fn nothing_of_a_tenants_is_run_to_see_which_driver_starts() {
    let machine = Machine::new();
    let folder = unpacked(&machine);
    let machine = machine.with_script(folder.join("install.sh"));
    let has_libraries = machine.has_libraries_of_the_driver();
    let status = |uid: u32, pids: &str, rights: &str| {
        format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{pids}\nCapEff:\t{rights}\n")
    };
    let all = "000001ffffffffff";
    for (name, driver) in [("kubelet", "disk-libudev"), ("kube-controller", "disk")] {
        machine.runs(8, name, &[name]);
        let process = machine.proc().join("8");
        fs::remove_file(process.join("root")).unwrap();
        let library = process.join("root/lib");
        fs::create_dir_all(&library).unwrap();
        fs::write(library.join("libudev.so.1"), "").unwrap();
        let told = machine.base().join("was-run");
        let text = format!("#!/bin/sh\ntouch {}\n", told.display());
        write_program(&library.join("ld-linux-x.so.2"), text);
        for of in
            [status(1000, "8", all), status(0, "8\t1", all), status(0, "8", "00000000a80425fb")]
        {
            fs::write(process.join("status"), &of).unwrap();
            must(machine.command(["install", "--plugin-dir"]).arg(machine.plugins()));
            assert!(!told.exists(), "{name}: {of}");
            let driver = if has_libraries { driver } else { "disk" };
            assert!(is_same(&machine.driver(), &folder.join(driver)), "{name}: {of}");
        }
        // One of root's own is asked.
        fs::write(process.join("status"), status(0, "8", all)).unwrap();
        must(machine.command(["install", "--plugin-dir"]).arg(machine.plugins()));
        assert_eq!(told.exists(), has_libraries, "{name}");
        fs::remove_dir_all(&process).unwrap();
        let _ = fs::remove_file(told);
    }
}

#[test]
fn a_release_that_was_damaged_is_refused() {
    for driver in ["disk", "disk-libudev"] {
        let machine = Machine::new();
        let folder = unpacked(&machine);
        let machine = machine.with_script(folder.join("install.sh"));
        must(Command::new("sh").args(["-c", "echo >>\"$0\""]).arg(folder.join(driver)));
        let mut install = machine.command(["install", "--plugin-dir"]);
        let said = fails(install.arg(machine.plugins()));
        assert!(said.contains(&format!("{driver} is not what")), "{said}");
        assert!(said.contains("unpack the release again") && !machine.driver().exists());
    }
}
