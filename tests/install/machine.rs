//! A machine that is a folder, with its plugin folder, its processes and its drivers.

use crate::support::{DISK, output_of, write_program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, id};
use std::sync::OnceLock;
use tempfile::TempDir;

/// What the driver says to `init`.
pub const READY: &str = "{\"status\":\"Success\",";

/// The script under test.
pub fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh")
}

/// A machine of a test's own. Nothing outside of its folder is touched. The script has the driver under
/// test beside it, for what the driver that is installed cannot do.
#[derive(Debug)]
pub struct Machine {
    dir: TempDir,
    script: PathBuf,
}

impl Machine {
    /// A machine on which nothing runs, with a plugin folder where kubelet would have made it.
    pub fn new() -> Self {
        let dir = TempDir::with_prefix("incloud-install-").unwrap();
        let release = dir.path().join("release");
        fs::create_dir(&release).unwrap();
        std::os::unix::fs::symlink(script(), release.join("install.sh")).unwrap();
        std::os::unix::fs::symlink(DISK, release.join("disk")).unwrap();
        let machine = Self { dir, script: release.join("install.sh") };
        fs::create_dir(machine.plugins()).unwrap();
        fs::create_dir_all(machine.proc().join("self")).unwrap();
        machine.mounted(&[("/", "rw")]);
        machine
    }

    /// With the script at another place.
    pub fn with_script(mut self, script: PathBuf) -> Self {
        self.script = script;
        self
    }

    pub fn base(&self) -> &Path {
        self.dir.path()
    }

    pub fn plugins(&self) -> PathBuf {
        self.base().join("plugins")
    }

    pub fn driver(&self) -> PathBuf {
        self.plugins().join("incloud~disk/disk")
    }

    /// Gives it the libraries with which the driver under test starts; whether libudev is one of them.
    pub fn has_libraries_of_the_driver(&self) -> bool {
        let folder = self.at("usr/lib/some-linux-gnu");
        fs::create_dir_all(&folder).unwrap();
        let told = must(Command::new("ldd").arg(DISK));
        let files = told.split_whitespace().filter(|word| word.starts_with('/'));
        for file in files.map(Path::new) {
            fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
        }
        folder.join("libudev.so.1").exists()
    }

    /// A path of this machine.
    pub fn at(&self, path: &str) -> PathBuf {
        self.base().join("root").join(path)
    }

    pub fn previous(&self) -> PathBuf {
        self.at("var/lib/incloud-disk/previous/disk")
    }

    pub fn config(&self) -> PathBuf {
        self.at("etc/incloud-disk/config.toml")
    }

    /// Its `/proc`.
    pub fn proc(&self) -> PathBuf {
        self.base().join("proc")
    }

    /// Writes its mount table: mount points and their options.
    pub fn mounted(&self, mounts: &[(&str, &str)]) {
        let lines = mounts.iter().enumerate().map(|(number, (point, options))| {
            format!("{number} 0 8:1 / {point} {options},relatime shared:1 - ext4 /dev/vda1 rw\n")
        });
        fs::write(self.proc().join("self/mountinfo"), lines.collect::<String>()).unwrap();
    }

    /// A process that runs on it.
    pub fn runs(&self, number: u32, name: &str, arguments: &[&str]) {
        let folder = self.proc().join(number.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        fs::write(folder.join("cmdline"), arguments.join("\0") + "\0").unwrap();
        // As the kernel tells of root's own process.
        let status = "Uid:\t0\t0\t0\t0\nNSpid:\t9\nCapEff:\t000001ffffffffff\n";
        fs::write(folder.join("status"), status).unwrap();
        fs::copy(self.proc().join("self/mountinfo"), folder.join("mountinfo")).unwrap();
        let _ = std::os::unix::fs::symlink(self.base().join("root"), folder.join("root"));
        fs::create_dir_all(self.base().join("root")).unwrap();
    }

    /// The real driver, made distinguishable by a name at its end.
    pub fn make_driver(&self, name: &str) -> PathBuf {
        let path = self.base().join(format!("driver-{name}"));
        let small = fs::read(small_driver()).unwrap();
        write_program(&path, [&small, name.as_bytes()].concat());
        path
    }

    /// `install.sh` with these words, and with this machine in place of the real one.
    pub fn command<A: AsRef<std::ffi::OsStr>>(
        &self,
        words: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new("sh");
        command.arg(&self.script).args(words).current_dir(self.base());
        command.env("DESTDIR", self.base().join("root")).env("INSTALL_PROC", self.proc());
        command.env_remove("CARGO_TARGET_DIR");
        command.env_remove("INSTALL_SEAM").env("INCLOUD_DISK_CONFIG", "/dev/null");
        command
    }

    /// `install` or `upgrade` to this driver.
    pub fn put(&self, word: &str, driver: &Path) -> Command {
        let mut command = self.command([word, "--plugin-dir"]);
        command.arg(self.plugins()).arg("--binary").arg(driver);
        command
    }

    /// Installs and demands success.
    #[track_caller]
    pub fn installed(&self, driver: &Path) {
        must(&mut self.put("install", driver));
    }

    /// Asks the driver in its place whether it is one.
    #[track_caller]
    pub fn answers(&self) {
        let mut command = Command::new(self.driver());
        let output = output_of(command.arg("init").env("INCLOUD_DISK_CONFIG", "/dev/null"));
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).starts_with(READY), "{output:?}");
    }

    /// kubelet sees one driver with one file, or nothing; and nothing hidden is left either.
    #[track_caller]
    pub fn is_tidy(&self) {
        for (folder, wanted) in
            [(self.plugins(), "incloud~disk"), (self.plugins().join("incloud~disk"), "disk")]
        {
            let names = names_in(&folder);
            assert!(names.iter().all(|name| name == wanted), "{}: {names:?}", folder.display());
        }
    }
}

/// The real driver without what debuggers read, so that its many copies are cheap. All tests have the same
/// file, which stays beside the build.
pub fn small_driver() -> &'static Path {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("install");
        fs::create_dir_all(&folder).unwrap();
        let (small, made) = (folder.join("disk"), folder.join(format!("disk.{}", id())));
        let told = Command::new("strip").arg("-o").arg(&made).arg(DISK).output();
        if !told.is_ok_and(|told| told.status.success()) {
            fs::copy(DISK, &made).unwrap();
        }
        fs::rename(made, &small).unwrap();
        small
    })
}

pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[track_caller]
pub fn is_same(left: &Path, right: &Path) -> bool {
    fs::read(left).unwrap() == fs::read(right).unwrap()
}

/// Both streams.
pub fn text_of(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// Runs it and demands success; what it said comes back.
#[track_caller]
pub fn must(command: &mut Command) -> String {
    let output = output_of(command);
    assert!(output.status.success(), "{command:?}: {}", text_of(&output));
    text_of(&output)
}

/// Runs it and demands exit status 1; what it said comes back.
#[track_caller]
pub fn fails(command: &mut Command) -> String {
    let output = output_of(command);
    assert_eq!(output.status.code(), Some(1), "{command:?}: {}", text_of(&output));
    text_of(&output)
}
