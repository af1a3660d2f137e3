//! What is told while something is built, and which test runs: with a toolchain that only seems to be one.

use crate::machine::{Machine, is_same, must, script, small_driver};
use crate::support::{output_of, skip, write_program};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source of its own, and a search path with tools that say what the script wants to hear.
struct Source {
    folder: PathBuf,
    path: String,
    /// The driver that the toolchain makes with libudev; without it, it makes the small one.
    with_libudev: PathBuf,
}

impl Source {
    fn new(machine: &Machine) -> Self {
        let folder = machine.base().join("source");
        let tools = machine.base().join("tools");
        for path in [&folder.join("tests/support"), &tools] {
            fs::create_dir_all(path).unwrap();
        }
        let real = Path::new(env!("CARGO_MANIFEST_DIR"));
        for name in
            ["Cargo.toml", "tests/run", "tests/support/building.sh", "tests/support/release.sh"]
        {
            symlink(real.join(name), folder.join(name)).unwrap();
        }
        symlink(script(), folder.join("install.sh")).unwrap();
        let path = format!("{}:/usr/bin:/bin", tools.display());
        let source = Self { path, folder, with_libudev: machine.make_driver("with-libudev") };
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
        source.tool("python3", "echo 'no python3' >&2; exit 1");
        // Time passes faster here.
        source.tool("sleep", "exec /bin/sleep 0.05");
        source.tool("gzip", "exec /usr/bin/gzip \"$@\" -1");
        source
    }

    fn tool(&self, name: &str, script: &str) {
        let place = self.folder.parent().unwrap().join("tools").join(name);
        write_program(&place, format!("#!/bin/sh\n{script}\n"));
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
        "*build*a-host*--release*) /bin/sleep 1; mkdir -p {0}; cp {1} {0}/disk ;;",
        target.join("a-host/release").display(),
        small_driver().display()
    ));
    let machine = machine.with_script(source.folder.join("install.sh"));
    let mut command = source.command(&machine, &["install", "--plugin-dir"]);
    let said = must(command.arg(machine.plugins()));
    for words in
        ["building the static driver (release)", "still building the static driver, 20 s", "40 s"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(is_same(&machine.driver(), small_driver()));
    must(&mut machine.command(["verify"]));
}

/// What is built for a root directory is what starts there.
#[test]
fn a_driver_with_libudev_is_built_where_that_library_is() {
    let name = "building::a_driver_with_libudev_is_built_where_that_library_is";
    let machine = Machine::new();
    if !machine.has_libraries_of_the_driver() {
        return skip(name, "the driver under test is built without libudev");
    }
    let source = Source::with_all(&machine);
    let machine = machine.with_script(source.folder.join("install.sh"));
    let install = || {
        let mut command = source.command(&machine, &["install", "--plugin-dir"]);
        must(command.arg(machine.plugins()))
    };
    let said = install();
    assert!(!said.contains("the static driver"), "{said}");
    assert!(is_same(&machine.driver(), &source.with_libudev));
    // The C library there is too old for it.
    let libc = machine.at("usr/lib/some-linux-gnu/libc.so.6");
    fs::copy(libc.with_file_name("libudev.so.1"), &libc).unwrap();
    let said = install();
    assert!(said.contains("does not start everywhere"), "{said}");
    assert!(is_same(&machine.driver(), small_driver()));
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

impl Source {
    /// With all that is packed, and a toolchain that makes this driver. There is no list of its parts.
    fn with_all(machine: &Machine) -> Self {
        let source = Self::new(machine);
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
            "*build*a-host*--release*) mkdir -p {0}; cp {1} {0}/disk ;;\n\
             *rustc*--release*) echo \"$*\" >{2}/words; mkdir -p {2}/target/release; cp {3} {2}/target/release/disk ;;\n\
             *install*) echo 'no network' >&2; exit 1 ;;",
            built.display(),
            small_driver().display(),
            source.folder.display(),
            source.with_libudev.display()
        ));
        source.tool("ldd", "echo 'statically linked'");
        source
    }
}

fn sum_of(file: &Path) -> String {
    let said = must(Command::new("sha256sum").arg(file));
    said.split(' ').next().unwrap().to_owned()
}

/// What is packed installs itself, and has all that a node needs.
#[test]
fn a_release_is_packed_and_installs_itself() {
    let machine = Machine::new();
    let source = Source::with_all(&machine);
    // What a person filled in for a cluster of their own.
    let filled_in = [
        "examples/kustomize/overlays/openstack/cloud.conf",
        "examples/ansible/group_vars/incloud_nodes/vault.yml",
    ];
    for file in filled_in {
        fs::write(source.folder.join(file), "a secret").unwrap();
    }
    let machine = machine.with_script(source.folder.join("install.sh"));
    let out = machine.base().join("out");
    let mut command = source.command(&machine, &["release", "--out"]);
    let said = must(command.arg(&out));
    let name = format!("incloud-disk-{}-a-host", env!("CARGO_PKG_VERSION"));
    let packed = out.join(format!("{name}.tar.gz"));
    assert!(said.contains(&format!("packed: {}", packed.display())), "{said}");
    let summed = fs::read_to_string(out.join(format!("{name}.tar.gz.sha256"))).unwrap();
    assert_eq!(summed, format!("{}  {name}.tar.gz\n", sum_of(&packed)));
    // Again, by one whose files only he may read, and later: the same bytes.
    let again = machine.base().join("again");
    let mut command = source.command(&machine, &["release", "--out"]);
    let mut tight = Command::new("sh");
    tight.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(command.get_program());
    tight.args(command.arg(&again).get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => tight.env(key, value),
            None => tight.env_remove(key),
        };
    }
    must(&mut tight);
    assert_eq!(sum_of(&again.join(format!("{name}.tar.gz"))), sum_of(&packed));
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
    for file in filled_in {
        assert!(release.join(file).parent().unwrap().is_dir(), "{file}");
        assert!(!release.join(file).exists(), "credentials are packed: {file}");
    }
    assert!(release.join("examples/daemonset.yaml").is_file());
    assert!(is_same(&release.join("disk-libudev"), &source.with_libudev));
    let needed = newest_glibc(&source.with_libudev);
    assert!(said.contains(&format!("with libudev needs glibc {needed} or newer")), "{said}");
    assert!(said.contains("not to be had here: ziglang: no python3"), "{said}");
    let machine = machine.with_script(release.join("install.sh"));
    let mut install = machine.command(["install", "--plugin-dir"]);
    must(install.arg(machine.plugins()));
    assert!(is_same(&machine.driver(), small_driver()));
}

/// The newest version of the C library that a program names, as it would say it.
fn newest_glibc(program: &Path) -> String {
    let bytes = fs::read(program).unwrap();
    let names = bytes.split(|byte| *byte == 0).filter_map(|text| text.strip_prefix(b"GLIBC_2."));
    let numbers = names.filter_map(|rest| {
        let digits = rest.split(|byte| *byte == b'.').next()?;
        std::str::from_utf8(digits).ok()?.parse::<u32>().ok()
    });
    format!("2.{}", numbers.max().expect("a driver with libudev is a dynamic one"))
}

/// What is linked for an old C library needs no newer one, or nothing is packed.
#[test]
fn a_driver_for_a_newer_c_library_is_not_released() {
    let machine = Machine::new();
    let source = Source::with_all(&machine);
    let needed = newest_glibc(&source.with_libudev);
    if ["2.17", "2.18", "2.25", "2.27"].contains(&needed.as_str()) {
        return skip(
            "building::a_driver_for_a_newer_c_library_is_not_released",
            "the driver under test was linked for an old C library",
        );
    }
    // A linker for it is to be had, and does not keep to it.
    source
        .tool("python3", "mkdir -p $3/bin; printf '#!/bin/sh\\n' >$3/bin/pip; chmod +x $3/bin/pip");
    let machine = machine.with_script(source.folder.join("install.sh"));
    let out = machine.base().join("out");
    let mut command = source.command(&machine, &["release", "--out"]);
    let said = crate::machine::fails(command.arg(&out));
    assert!(said.contains(&format!("needs GLIBC_{needed}, which 2.27 does not have")), "{said}");
    assert!(!out.exists());
    let words = fs::read_to_string(source.folder.join("words")).unwrap();
    assert!(words.contains("--bin disk -- -Clinker="), "{words}");
}

/// Who has the public key can tell that a release is the signer's, and that not a byte is another.
#[test]
fn a_release_is_signed_by_the_key_that_is_named() {
    let machine = Machine::new();
    let source = Source::with_all(&machine);
    let machine = machine.with_script(source.folder.join("install.sh"));
    let (out, key) = (machine.base().join("out"), machine.base().join("key"));
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
        .arg(&key)
        .status();
    if made.is_err() {
        crate::support::skip("a_release_is_signed_by_the_key_that_is_named", "needs ssh-keygen");
        return;
    }
    let mut command = source.command(&machine, &["release", "--sign", "/nowhere/key", "--out"]);
    let said = crate::machine::fails(command.arg(&out));
    assert!(said.contains("/nowhere/key is none") && !out.exists(), "{said}");
    let mut command = source.command(&machine, &["release", "--out"]);
    must(command.arg(&out).arg("--sign").arg(&key));
    let name = format!("incloud-disk-{}-a-host.tar.gz", env!("CARGO_PKG_VERSION"));
    let public = fs::read_to_string(machine.base().join("key.pub")).unwrap();
    let signers = machine.base().join("signers");
    fs::write(&signers, format!("release@example.org {public}")).unwrap();
    let verify = |file: &Path, signature: &Path| {
        let mut command = Command::new("ssh-keygen");
        command.args([
            "-Y",
            "verify",
            "-I",
            "release@example.org",
            "-n",
            "incloud-disk-release",
            "-f",
        ]);
        command.arg(&signers).arg("-s").arg(signature);
        command.stdin(fs::File::open(file).unwrap()).output().unwrap().status.success()
    };
    for file in [name.clone(), format!("{name}.sha256")] {
        let (file, signature) = (out.join(&file), out.join(format!("{file}.sig")));
        assert!(verify(&file, &signature), "{}", file.display());
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        let other = machine.base().join("other");
        fs::write(&other, bytes).unwrap();
        assert!(!verify(&other, &signature), "{}", file.display());
    }
}

/// Each part of the image is the one that is named by its sum, and what starts is the driver.
#[test]
fn an_image_is_made_without_a_daemon() {
    let machine = Machine::new();
    let source = Source::with_all(&machine);
    let machine = machine.with_script(source.folder.join("install.sh"));
    let out = machine.base().join("out");
    let certificates = machine.base().join("certificates");
    fs::write(&certificates, "a certificate\n").unwrap();
    let mut command =
        source.command(&machine, &["image", "--name", "registry.example:5000/a/disk:7", "--out"]);
    command.arg(&out).arg("--certificates").arg(&certificates);
    let said = must(&mut command);
    let packed = out.join(format!("incloud-disk-{}-a-host.oci.tar", env!("CARGO_PKG_VERSION")));
    assert!(said.contains("as registry.example:5000/a/disk:7"), "{said}");
    let layout = machine.base().join("layout");
    fs::create_dir(&layout).unwrap();
    must(Command::new("tar").arg("-xf").arg(&packed).arg("-C").arg(&layout));
    let read = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    // By its sum and its size.
    let blob = |told: &serde_json::Value| {
        let sum = told["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let path = layout.join("blobs/sha256").join(sum);
        assert_eq!(sum_of(&path), sum);
        assert_eq!(fs::metadata(&path).unwrap().len(), told["size"].as_u64().unwrap());
        path
    };
    let index = read(&layout.join("index.json"));
    let named = &index["manifests"][0]["annotations"]["io.containerd.image.name"];
    assert_eq!(named, "registry.example:5000/a/disk:7");
    let manifest = read(&blob(&index["manifests"][0]));
    let config = read(&blob(&manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/disk"]));
    let layer = blob(&manifest["layers"][0]);
    let root = machine.base().join("image-root");
    fs::create_dir(&root).unwrap();
    must(Command::new("tar").arg("-xzf").arg(&layer).arg("-C").arg(&root));
    assert!(is_same(&root.join("disk"), small_driver()));
    assert_eq!(
        fs::read_to_string(root.join("etc/ssl/certs/ca-certificates.crt")).unwrap(),
        "a certificate\n"
    );
    let unpacked =
        must(Command::new("sh").args(["-c", "gzip -dc \"$1\" | sha256sum", "sh"]).arg(&layer));
    let told = config["rootfs"]["diff_ids"][0].as_str().unwrap();
    assert_eq!(told, format!("sha256:{}", unpacked.split(' ').next().unwrap()));
    // What docker reads.
    let docker = read(&layout.join("manifest.json"));
    assert_eq!(docker[0]["RepoTags"][0], "registry.example:5000/a/disk:7");
    assert!(layout.join(docker[0]["Layers"][0].as_str().unwrap()).is_file());
}

#[test]
fn help_for_any_word_is_printed_without_a_build() {
    let machine = Machine::new();
    let source = Source::new(&machine);
    // Help needs no toolchain.
    source.tool("cargo", "exit 1");
    let machine = machine.with_script(source.folder.join("install.sh"));
    let help = must(&mut source.command(&machine, &["help"]));
    assert!(help.contains("install.sh bench [--long]"), "{help}");
    for words in [&["--help"][..], &["bench", "calls", "-h"], &["install", "--help"]] {
        assert_eq!(must(&mut source.command(&machine, words)), help, "{words:?}");
    }
    let developers = machine.with_script(source.folder.join("tests/run"));
    assert_eq!(must(&mut source.command(&developers, &["bench", "--help"])), help);
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

/// What a release is called, its tag and Cargo.toml say the same, or nothing is packed.
#[test]
fn a_commit_with_the_tag_of_another_version_is_not_released() {
    let machine = Machine::new();
    let source = Source::with_all(&machine);
    if !output_of(Command::new("sh").args(["-c", "command -v git"])).status.success() {
        return skip(
            "building::a_commit_with_the_tag_of_another_version_is_not_released",
            "needs git",
        );
    }
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(&source.folder).args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.org",
        ]);
        must(git.args(words))
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
    let machine = machine.with_script(source.folder.join("install.sh"));
    let out = machine.base().join("out");
    let release = || {
        let mut command = source.command(&machine, &["release", "--out"]);
        command.arg(&out);
        command
    };
    // Nothing is packed here: what was built is refused right after the look at the tags.
    source.tool("ldd", "echo 'a library'");
    let version = env!("CARGO_PKG_VERSION");
    let said = || crate::machine::fails(&mut release());
    git(&["tag", "v999.0.0"]);
    let wrong = said();
    assert!(wrong.contains("v999.0.0") && wrong.contains(version), "{wrong}");
    assert!(!wrong.contains("is not static"), "{wrong}");
    // One of several tags is enough, and what is no version does not count.
    git(&["tag", &format!("v{version}")]);
    git(&["tag", "vault"]);
    let right = said();
    assert!(right.contains("is not static") && !right.contains("has no tag"), "{right}");
    git(&["tag", "--delete", "v999.0.0", &format!("v{version}")]);
    let untagged = said();
    assert!(untagged.contains("is not static"), "{untagged}");
    assert!(untagged.contains(&format!("git tag -a v{version}")), "{untagged}");
    assert!(!out.exists());
}
