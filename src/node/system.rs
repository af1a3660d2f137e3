//! What the operating system around the driver shows of itself: kubelet, udev, systemd, folders.
//! Nothing is changed.

use crate::failpoints;
use crate::host::clock::Deadline;
use crate::host::{files, tool};
use crate::model::error::{Error, Result, errno_text};
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A machine's folders.
#[derive(Debug, Clone)]
pub struct System {
    root: PathBuf,
    proc: PathBuf,
}

impl Default for System {
    fn default() -> Self {
        Self {
            root: failpoints::folder("INCLOUD_DISK_ROOT", "/"),
            proc: failpoints::folder("INCLOUD_DISK_PROC", "/proc"),
        }
    }
}

/// A kubelet that runs, and what it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubelet {
    /// Its process.
    pub pid: u32,
    /// The folder of volume plugins.
    pub plugin_dir: PathBuf,
    /// Who says so.
    pub plugin_dir_from: String,
    /// Its root folder.
    pub root_dir: PathBuf,
    /// Whether the controller-manager attaches for it.
    pub is_attached_by_controller: bool,
    /// Its configuration file, if it names one, and why that cannot be read.
    pub config: Option<(PathBuf, Option<String>)>,
    /// Whether it lives in this process's mount namespace; nothing if that cannot be seen.
    pub shares_our_mounts: Option<bool>,
}

/// How long systemd may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where kubelet looks for plugins if nobody tells it.
pub const USUAL_PLUGIN_DIR: &str = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec";

/// Where it works if nobody tells it.
pub const USUAL_ROOT: &str = "/var/lib/kubelet";

/// The keys of kubelet's configuration file that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KubeletConfiguration {
    volume_plugin_dir: Option<PathBuf>,
    enable_controller_attach_detach: Option<bool>,
}

impl System {
    /// Whether a unit runs, as systemd says; nothing if it does not say, or if this is the folder of
    /// another machine.
    #[must_use]
    pub fn has_active_unit(&self, unit: &str) -> Option<bool> {
        if self.root != Path::new("/") {
            return None;
        }
        let answer =
            tool::run("systemctl", &["is-active", unit], Deadline::after(PATIENCE)).ok()?;
        match answer.last_line() {
            "active" | "activating" => Some(true),
            "inactive" | "failed" | "deactivating" => Some(false),
            _ => None,
        }
    }

    /// The kubelet of this machine, if one runs: of several the one that lives where we do, for others
    /// may be those of clusters in containers.
    #[must_use]
    pub fn kubelet(&self) -> Option<Kubelet> {
        let entries = fs::read_dir(&self.proc).ok()?;
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut pids: Vec<u32> = pids.collect();
        pids.sort_unstable();
        let mut all: Vec<_> = pids.into_iter().filter_map(|pid| self.kubelet_of(pid)).collect();
        let ours = all.iter().position(|kubelet| kubelet.shares_our_mounts == Some(true));
        (!all.is_empty()).then(|| all.swap_remove(ours.unwrap_or_default()))
    }

    fn kubelet_of(&self, pid: u32) -> Option<Kubelet> {
        let folder = self.proc.join(pid.to_string());
        let text = fs::read(folder.join("cmdline")).ok()?;
        let arguments: Vec<String> = text
            .split(|byte| *byte == 0)
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .filter(|argument| !argument.is_empty())
            .collect();
        let program = Path::new(arguments.first()?).file_name()?;
        // Of an image with all of Kubernetes' programs in one, the second word says which.
        let is_kubelet = program == "kubelet"
            || (program == "hyperkube" && arguments.get(1).is_some_and(|word| word == "kubelet"));
        if !is_kubelet {
            return None;
        }
        let flag = |name: &str| flag_of(&arguments, name);
        let mut configuration = KubeletConfiguration::default();
        let config = flag("config").map(PathBuf::from).map(|path| {
            // As the process itself sees it.
            let seen = folder.join("root").join(path.strip_prefix("/").unwrap_or(&path));
            let read = files::read_text(seen)
                .map_err(|error| errno_text(&error))
                .and_then(|text| serde_saphyr::from_str(&text).map_err(|error| error.to_string()));
            let trouble = match read {
                Ok(read) => {
                    configuration = read;
                    None
                }
                Err(why) => Some(why),
            };
            (path, trouble)
        });
        let (plugin_dir, plugin_dir_from) = match (flag("volume-plugin-dir"), &configuration) {
            (Some(path), _) => (PathBuf::from(path), "its flag --volume-plugin-dir"),
            (None, KubeletConfiguration { volume_plugin_dir: Some(path), .. }) => {
                (path.clone(), "volumePluginDir in its configuration")
            }
            _ => (PathBuf::from(USUAL_PLUGIN_DIR), "nobody told it otherwise"),
        };
        let by_flag = flag("enable-controller-attach-detach").map(|text| text != "false");
        let namespace = |path: &Path| fs::read_link(path.join("ns/mnt")).ok();
        let both = namespace(&folder).zip(namespace(&self.proc.join("self")));
        Some(Kubelet {
            pid,
            plugin_dir,
            plugin_dir_from: plugin_dir_from.to_owned(),
            root_dir: flag("root-dir").map_or_else(|| PathBuf::from(USUAL_ROOT), PathBuf::from),
            is_attached_by_controller: by_flag
                .or(configuration.enable_controller_attach_detach)
                .unwrap_or(true),
            config,
            shares_our_mounts: both.map(|(one, other)| one == other),
        })
    }

    /// A path of the machine, where it is.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Whether there is such a path.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The first file in one of these folders whose name passes, and that holds the text.
    #[must_use]
    pub fn file_in(
        &self,
        folders: &[&str],
        passes: impl Fn(&str) -> bool,
        holds: &str,
    ) -> Option<PathBuf> {
        let mut entries = folders.iter().flat_map(|folder| {
            let mut all: Vec<_> = fs::read_dir(self.path(folder))
                .into_iter()
                .flatten()
                .flatten()
                .map(|e| e.path())
                .collect();
            all.sort();
            all
        });
        entries.find(|path| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            let has_text = || files::read_text(path).is_ok_and(|text| text.contains(holds));
            passes(name) && (holds.is_empty() || has_text())
        })
    }
}

/// The value of `--name=value` or `--name value`; the last one counts.
fn flag_of(arguments: &[String], name: &str) -> Option<String> {
    let (whole, start) = (format!("--{name}"), format!("--{name}="));
    let mut found = None;
    for (place, argument) in arguments.iter().enumerate() {
        if let Some(value) = argument.strip_prefix(&start) {
            found = Some(value.to_owned());
        } else if *argument == whole {
            found = arguments.get(place + 1).cloned();
        }
    }
    found
}

/// Everything in a folder of plugins that kubelet would take for a driver and that is none: a
/// folder `vendor~name` without an executable `name`.
pub fn broken_plugins(folder: &Path) -> Result<Vec<String>> {
    let io = |error: &std::io::Error| Error::io(format!("read {}", folder.display()), error);
    let mut broken = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| io(&error))? {
        let entry = entry.map_err(|error| io(&error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || !entry.path().is_dir() {
            continue;
        }
        let program = name.split_once('~').map_or(name.as_str(), |(_, program)| program);
        if !is_executable(&entry.path().join(program)) {
            broken.push(name);
        }
    }
    broken.sort();
    Ok(broken)
}

/// Whether this is a file that can be executed.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Whose a file is, and its permissions: nothing if it is not there.
#[must_use]
pub fn rights(path: &Path) -> Option<(u32, u32)> {
    fs::metadata(path).ok().map(|found| (found.uid(), found.mode() & 0o7777))
}

/// Room on the file system of a path, or of the nearest folder above it that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that are free.
    pub free: u64,
    /// All bytes.
    pub all: u64,
    /// Whether new files can be made: some file systems count them.
    pub has_inodes: bool,
    /// Whether nothing can be written.
    pub is_read_only: bool,
}

/// That room.
pub fn room_at(path: &Path) -> Result<Room> {
    use nix::sys::statvfs::{FsFlags, statvfs};
    let there = path.ancestors().find(|above| above.exists()).unwrap_or(path);
    let found = statvfs(there)
        .map_err(|errno| Error::io(format!("look at {}", there.display()), &errno.into()))?;
    #[allow(clippy::useless_conversion, reason = "the types differ between machines")]
    Ok(Room {
        free: u64::from(found.blocks_available()).saturating_mul(u64::from(found.fragment_size())),
        all: u64::from(found.blocks()).saturating_mul(u64::from(found.fragment_size())),
        has_inodes: u64::from(found.files()) == 0 || u64::from(found.files_available()) > 0,
        is_read_only: found.flags().contains(FsFlags::ST_RDONLY),
    })
}

/// Whether a program of the system is where programs are looked for.
#[must_use]
pub fn has_program(name: &str) -> bool {
    tool::locate(name).is_ok()
}

/// The kernel's release, such as `6.1.0-18-amd64`.
#[must_use]
pub fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(root: &Path) -> System {
        System { root: root.to_path_buf(), proc: root.join("proc") }
    }

    fn process(root: &Path, pid: u32, arguments: &[&str]) {
        let folder = root.join("proc").join(pid.to_string());
        fs::create_dir_all(folder.join("root/var/lib")).unwrap();
        fs::write(folder.join("cmdline"), arguments.join("\0") + "\0").unwrap();
    }

    #[test]
    fn kubelet_is_asked_by_flag_and_then_by_file() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(system(root.path()).kubelet(), None);
        process(root.path(), 7, &["/usr/bin/kubelet-wrapper"]);
        process(
            root.path(),
            9,
            &["/usr/bin/kubelet", "--config=/var/lib/c.yaml", "--root-dir", "/k"],
        );
        let file = root.path().join("proc/9/root/var/lib/c.yaml");
        fs::write(&file, "kind: KubeletConfiguration\nvolumePluginDir: /plugins\nenableControllerAttachDetach: false\nother: [1]\n").unwrap();
        let found = system(root.path()).kubelet().unwrap();
        assert_eq!((found.pid, found.plugin_dir.as_path()), (9, Path::new("/plugins")));
        assert_eq!(found.root_dir, Path::new("/k"));
        assert!(
            !found.is_attached_by_controller && found.plugin_dir_from.contains("volumePluginDir")
        );
        fs::write(&file, ": [").unwrap();
        let found = system(root.path()).kubelet().unwrap();
        assert!(found.config.unwrap().1.is_some());
        assert_eq!(found.plugin_dir, Path::new(USUAL_PLUGIN_DIR));
        process(
            root.path(),
            8,
            &["hyperkube", "kubelet", "--volume-plugin-dir=/a", "--volume-plugin-dir", "/b"],
        );
        assert_eq!(system(root.path()).kubelet().unwrap().plugin_dir, Path::new("/b"));
    }

    #[test]
    fn folders_without_their_program_are_broken() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["incloud~disk", "nodeagent~uds", "incloud~disk.bak", ".hidden~x"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        let program = root.path().join("incloud~disk/disk");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        assert_eq!(broken_plugins(root.path()).unwrap(), ["incloud~disk.bak", "nodeagent~uds"]);
        assert!(broken_plugins(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn room_is_told_also_of_folders_that_are_not_there_yet() {
        let folder = tempfile::tempdir().unwrap();
        let room = room_at(&folder.path().join("a/b/c")).unwrap();
        assert!(room.all > 0 && room.has_inodes && !room.is_read_only);
    }
}
