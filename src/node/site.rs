//! The machine that a word works on: where its things are, and what was asked for.

use super::console::Console;
use super::durable;
use super::options::{NodeOptions, NodeWord};
use crate::host::files;
use crate::model::error::{Error, Kind, Result};
use nix::sys::signal::{Signal, raise};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The program that does the work, opened where it was called.
#[derive(Debug)]
pub(super) struct OwnProgram {
    /// Its path, for people.
    path: PathBuf,
    /// Itself: the machine's root may be another one than that of its path.
    pub(super) file: File,
}

impl OwnProgram {
    /// Opens it; where a release was unpacked, it must be what was packed.
    pub(super) fn open() -> Result<Self> {
        let path =
            std::env::current_exe().map_err(|error| Error::io("find this executable", &error))?;
        // By the kernel's own link: the path may lead to another one by now.
        let file = File::open("/proc/self/exe").or_else(|_| File::open(&path));
        let file = file.map_err(|error| Error::io(format!("open {}", path.display()), &error))?;
        let own = Self { path, file };
        own.must_be_of_release()?;
        Ok(own)
    }

    fn must_be_of_release(&self) -> Result<()> {
        let Some(folder) = self.path.parent() else { return Ok(()) };
        let sums = folder.join("SHA256SUMS");
        let Some(text) = files::read_if_there(&sums)? else { return Ok(()) };
        let wrong = |error| Error::io(format!("read {}", self.path.display()), &error);
        let sum = durable::checksum_of(&self.file).map_err(wrong)?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let line = text.lines().find_map(|line| line.strip_suffix(&*name)?.strip_suffix("  "));
        if line.is_none_or(|wanted| wanted == sum) {
            return Ok(());
        }
        let cause = format!("{} is not what {} says", self.path.display(), sums.display());
        Err(Error::new(Kind::Config, cause).hint("unpack the release again"))
    }
}

/// One word on one machine.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) word: NodeWord,
    /// What was asked for.
    pub(super) options: NodeOptions,
    pub(super) console: Console,
    pub(super) own: OwnProgram,
    /// The root of the machine, for packages, images and containers; empty for this one.
    pub(super) destdir: PathBuf,
    pub(super) proc: PathBuf,
    /// What is there while systemd runs.
    pub(super) systemd: PathBuf,
    /// Whether a test says so.
    is_systemd_given: bool,
    /// The step at which a test has this killed.
    seam: Option<String>,
}

impl Site {
    /// The machine as the environment says: `DESTDIR`, and the seams of tests. `INSTALL_PROC` is a folder
    /// in place of `/proc`, `INSTALL_SYSTEMD` one in place of systemd's own.
    pub(super) fn new(
        word: NodeWord,
        options: NodeOptions,
        own: OwnProgram,
        console: Console,
    ) -> Self {
        let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let folder = |name: &str, usual: &str| {
            given(name).map_or_else(|| PathBuf::from(usual), PathBuf::from)
        };
        // Without a slash at its end; the root itself is no other machine's.
        let destdir = given("DESTDIR").map(|path| Path::new(&path).components().collect());
        let destdir: PathBuf = destdir.filter(|path| path != Path::new("/")).unwrap_or_default();
        Self {
            word,
            options,
            console,
            own,
            destdir,
            proc: folder("INSTALL_PROC", "/proc"),
            systemd: folder("INSTALL_SYSTEMD", "/run/systemd/system"),
            is_systemd_given: given("INSTALL_SYSTEMD").is_some(),
            seam: std::env::var("INSTALL_SEAM").ok(),
        }
    }

    /// Where a path of the machine is.
    pub(super) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        if self.is_this_machine() {
            return path.to_path_buf();
        }
        self.destdir.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A path as the machine will see it that `DESTDIR` becomes.
    pub(super) fn inside(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.destdir) {
            Ok(rest) if !self.destdir.as_os_str().is_empty() => Path::new("/").join(rest),
            _ => path.to_path_buf(),
        }
    }

    /// The folder of the configuration.
    pub(super) fn config_folder(&self) -> PathBuf {
        self.at("/etc/incloud-disk")
    }

    /// The configuration.
    pub(super) fn config(&self) -> PathBuf {
        self.config_folder().join("config.toml")
    }

    /// The driver's state, and what is noted of the installation.
    pub(super) fn state(&self) -> PathBuf {
        self.at("/var/lib/incloud-disk")
    }

    /// The driver's log.
    pub(super) fn log(&self) -> PathBuf {
        self.at("/var/log/incloud-volume")
    }

    /// The folder of the driver that was there before. Not beside the driver: every folder that kubelet
    /// sees is a driver to it.
    pub(super) fn previous_folder(&self) -> PathBuf {
        self.state().join("previous")
    }

    /// The driver that was there before.
    pub(super) fn previous(&self) -> PathBuf {
        self.previous_folder().join("disk")
    }

    /// The driver of another maker that this one took the place of, with its folder.
    pub(super) fn predecessor(&self) -> PathBuf {
        self.state().join("predecessor")
    }

    /// A controller-manager's configuration, while there is no driver that it could stand beside.
    pub(super) fn kept_hidden_config(&self) -> PathBuf {
        self.state().join("kept.config.toml")
    }

    /// Whether systemd runs on the machine and can be told something.
    pub(super) fn has_systemd(&self) -> bool {
        (self.is_this_machine() || self.is_systemd_given) && self.systemd.is_dir()
    }

    /// Whether it is this machine, and no folder that another one is made of.
    pub(super) fn is_this_machine(&self) -> bool {
        self.destdir.as_os_str().is_empty()
    }

    /// Test seam: `INSTALL_SEAM` names a step at which this kills itself, as a machine that loses its
    /// power would.
    pub(super) fn step(&self, name: &str) {
        if self.seam.as_deref() == Some(name) {
            let _ = raise(Signal::SIGKILL);
        }
    }

    /// Says what is done; whether it is to be done, or only said.
    pub(super) fn announces(&self, what: &str) -> bool {
        if self.options.dry_run {
            self.console.say(&format!("would be next: {what}"));
        } else {
            self.console.say(what);
        }
        !self.options.dry_run
    }
}

/// Kubelet's plugin folder, and the driver's in it.
#[derive(Debug, Clone)]
pub(super) struct Plugins {
    pub(super) folder: PathBuf,
}

impl Plugins {
    /// The driver's own folder.
    pub(super) fn driver_folder(&self) -> PathBuf {
        self.folder.join("incloud~disk")
    }

    pub(super) fn driver(&self) -> PathBuf {
        self.driver_folder().join("disk")
    }

    /// The driver's folder while it is made: hidden names are none to kubelet.
    pub(super) fn new_folder(&self) -> PathBuf {
        self.folder.join(".incloud~disk.new")
    }

    /// Whether there is a driver.
    pub(super) fn has_driver(&self) -> bool {
        self.driver().is_file()
    }
}
