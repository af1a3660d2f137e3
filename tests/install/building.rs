//! What is told while something is built, and which test runs: with a toolchain that only seems to be one.

use crate::machine::{Machine, is_same, must, script};
use crate::support::DISK;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source of its own, and a search path with tools that say what the script wants to hear.
struct Source {
    folder: PathBuf,
    path: String,
}

impl Source {
    fn new(machine: &Machine) -> Self {
        let folder = machine.base().join("source");
        let tools = machine.base().join("tools");
        for path in [&folder.join("tests/support"), &tools] {
            fs::create_dir_all(path).unwrap();
        }
        let real = Path::new(env!("CARGO_MANIFEST_DIR"));
        for name in ["Cargo.toml", "tests/run", "tests/support/building.sh"] {
            symlink(real.join(name), folder.join(name)).unwrap();
        }
        symlink(script(), folder.join("install.sh")).unwrap();
        let source = Self { path: format!("{}:/usr/bin:/bin", tools.display()), folder };
        source.tool("rustc", "echo 'rustc 1.999.0'; echo 'host: a-host'");
        source.tool("cc", "for last; do :; done; exit 0");
        source.tool("pkg-config", "exit 0");
        for name in ["mkfs.ext4", "e2fsck", "resize2fs", "tune2fs", "mkfs.xfs", "xfs_repair"] {
            source.tool(name, "exit 0");
        }
        // A namespace of its own is not needed for what only seems to be a test.
        source.tool("unshare", "exit 1");
        for name in ["xfs_growfs", "findmnt", "blkid", "mount", "umount", "losetup"] {
            source.tool(name, "exit 0");
        }
        // Where a machine lacks something nothing is fetched for a test.
        source.tool("apt-get", "exit 1");
        // Time passes faster here.
        source.tool("sleep", "exec /bin/sleep 0.05");
        source
    }

    fn tool(&self, name: &str, script: &str) {
        let place = self.folder.parent().unwrap().join("tools").join(name);
        fs::write(&place, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Cargo, which takes a moment, and these lines for some of its words.
    fn cargo(&self, more: &str) {
        let folder = self.folder.display();
        self.tool(
            "cargo",
            &format!(
                "case $* in\n\
                 *--version*) echo 'cargo 1.999.0' ;;\n\
                 *metadata*) echo '{{\"target_directory\":\"{folder}/target\"}}' ;;\n\
                 {more}\nesac"
            ),
        );
    }

    fn command(&self, machine: &Machine, words: &[&str]) -> Command {
        let mut command = machine.command(words);
        command.env("PATH", &self.path).env("HOME", "/nowhere");
        for name in ["CARGO_HOME", "RUSTUP_HOME", "SUDO_USER"] {
            command.env_remove(name);
        }
        command
    }
}

#[test]
fn a_build_that_takes_long_says_so_and_what_was_built_is_installed() {
    let machine = Machine::new();
    let source = Source::new(&machine);
    let target = source.folder.join("target");
    source.cargo(&format!(
        "*build*--release*) /bin/sleep 1; mkdir -p {0}/release; cp {DISK} {0}/release/disk ;;",
        target.display()
    ));
    let machine = machine.with_script(source.folder.join("install.sh"));
    let mut command = source.command(&machine, &["install", "--plugin-dir"]);
    let said = must(command.arg(machine.plugins()));
    for words in ["building the driver (release)", "still building the driver, 20 s", "40 s"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(is_same(&machine.driver(), Path::new(DISK)));
    must(&mut machine.command(["verify"]));
}

#[test]
fn a_build_that_fails_shows_why_and_changes_nothing() {
    let machine = Machine::new();
    let source = Source::new(&machine);
    source.cargo("*build*) echo 'error: a reason' >&2; exit 101 ;;");
    let machine = machine.with_script(source.folder.join("install.sh"));
    let mut command = source.command(&machine, &["install", "--plugin-dir"]);
    let said = crate::machine::fails(command.arg(machine.plugins()));
    assert!(said.contains("error: a reason") && said.contains("this failed"), "{said}");
    assert!(!machine.driver().exists() && !machine.base().join("root").exists());
}

/// What is packed installs itself, and has all that a node needs.
#[test]
fn a_release_is_packed_and_installs_itself() {
    let machine = Machine::new();
    let source = Source::new(&machine);
    let real = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::remove_file(source.folder.join("install.sh")).unwrap();
    let mut copy = Command::new("cp");
    for name in [
        "install.sh",
        "examples",
        "docs",
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "LICENSE",
    ] {
        copy.arg(real.join(name));
    }
    must(copy.args(["-R", "-t"]).arg(&source.folder));
    let built = source.folder.join("target/a-host/release");
    source.cargo(&format!(
        "*build*a-host*--release*) mkdir -p {0}; cp {DISK} {0}/disk ;;",
        built.display()
    ));
    source.tool("ldd", "echo 'statically linked'");
    let machine = machine.with_script(source.folder.join("install.sh"));
    let out = machine.base().join("out");
    let mut command = source.command(&machine, &["release", "--out"]);
    let said = must(command.arg(&out));
    let name = format!("incloud-disk-{}-a-host", env!("CARGO_PKG_VERSION"));
    let packed = out.join(format!("{name}.tar.gz"));
    assert!(said.contains(&format!("packed: {}", packed.display())), "{said}");
    must(Command::new("tar").arg("-xzf").arg(&packed).arg("-C").arg(&out));
    let release = out.join(name);
    for file in [
        "completions/_disk",
        "man/disk.8",
        "examples/config.toml",
        "docs/failures.md",
        "SHA256SUMS",
    ] {
        assert!(release.join(file).is_file(), "{file}");
    }
    assert!(!release.join("tests").exists());
    let machine = machine.with_script(release.join("install.sh"));
    let mut install = machine.command(["install", "--plugin-dir"]);
    must(install.arg(machine.plugins()));
    assert!(is_same(&machine.driver(), Path::new(DISK)));
}

#[test]
fn each_ring_of_the_tests_is_told_with_its_place() {
    let machine = Machine::new();
    let source = Source::new(&machine);
    for (name, status, counts) in [("lib", 0, "2 passed; 0"), ("root", 1, "3 passed; 1")] {
        let ring = format!("echo 'test result: x. {counts} failed; 0 ignored'; exit {status}");
        source.tool(name, &ring);
    }
    let tools = machine.base().join("tools");
    let tools = tools.display();
    source.cargo(&format!(
        "*test*--no-run*)\n\
         echo '  Executable unittests src/lib.rs ({tools}/lib)' >&2\n\
         echo '  Executable tests/root/main.rs ({tools}/root)' >&2 ;;\n\
         *test*--doc*) echo 'test result: ok. 0 passed; 0 failed; 0 ignored' ;;"
    ));
    let machine = machine.with_script(source.folder.join("install.sh"));
    let said = crate::machine::fails(&mut source.command(&machine, &["test"]));
    let places = ["ring 1 of 3: src/lib.rs", "ring 2 of 3: root", "ring 3 of 3: examples in"];
    let mut rest = said.as_str();
    for place in places {
        rest = rest.split_once(place).unwrap_or_else(|| panic!("no {place}: {said}")).1;
    }
    assert!(rest.contains("5 passed, 1 failed, 0 skipped"), "{said}");
}

/// What tells that a build goes on ends with it, also where the build ends at once.
#[test]
fn a_build_that_ends_at_once_is_not_told_for_ever() {
    let machine = Machine::new();
    let scratch = machine.base().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let quick =
        "INSTALL_SH_FOLDER=$0; . \"$0/install.sh\"; . \"$0/tests/support/building.sh\"; scratch=$1
        for round in 0 1 2 3 4 5 6 7 8 9; do
            for each in 0 1 2 3 4 5 6 7 8 9; do patiently 'what is quick' true; done
        done; echo all";
    for shell in ["sh", "bash"] {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "60", shell, "-c", quick]);
        fs::create_dir_all(&scratch).unwrap();
        let said = must(command.arg(env!("CARGO_MANIFEST_DIR")).arg(&scratch));
        assert_eq!(said, "all\n", "{shell}");
    }
}
