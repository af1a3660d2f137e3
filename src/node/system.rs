//! What the operating system around the driver shows of itself: udev, systemd, folders.
//! Nothing is changed.

use crate::durable;
use crate::failpoints;
use crate::host::{files, tool};
use crate::kubelet::{self, Kubelet};
use crate::model::error::{Error, Result};
use crate::model::ids::NodeName;
use crate::ports::clock::Deadline;
use std::ffi::OsStr;
use std::fs::{self, File};
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

/// How long systemd may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

impl System {
    /// Whether a unit runs, as systemd says; nothing if it does not say, or if this is the folder of
    /// another machine.
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

    /// The kubelets of this machine.
    pub fn kubelets(&self) -> Vec<Kubelet> {
        kubelet::running(&self.proc)
    }

    /// The name of a kubelet's node, and what says so, where it is not the host's name anyway.
    pub fn node_name_of(&self, kubelet: &Kubelet) -> Option<(NodeName, &'static str)> {
        kubelet::node_name(&self.proc, kubelet)
    }

    /// The version of a kubelet, where it can be asked.
    pub fn version_of(&self, kubelet: &Kubelet) -> Option<(u32, u32)> {
        kubelet::version(&self.proc, kubelet)
    }

    /// Whether the kernel gives up when a process waits for very long.
    pub fn panics_at_hung_tasks(&self) -> bool {
        let text = fs::read_to_string(self.proc.join("sys/kernel/hung_task_panic"));
        text.is_ok_and(|text| !matches!(text.trim(), "" | "0"))
    }

    /// Whether a file of the machine has these words in a line that is no comment.
    pub fn tells(&self, path: &str, words: &str) -> bool {
        lines(&self.path(path)).iter().any(|line| line.contains(words))
    }

    /// What a program's configuration says of a setting, as `name value` or `name = value`: the last line counts, and
    /// the files of the folder come after the file.
    pub fn last_setting(&self, name: &str, file: &str, folder: Option<&str>) -> Option<String> {
        let mut paths = vec![self.path(file)];
        let entries = folder.and_then(|folder| fs::read_dir(self.path(folder)).ok());
        let more = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        paths.extend(more.filter(|path| path.extension() == Some(OsStr::new("conf"))));
        paths[1..].sort();
        let all = paths.iter().flat_map(|path| lines(path));
        let mut values = all.filter_map(|line| {
            let (found, rest) = line.split_once([' ', '='])?;
            let value = rest.split(" #").next().unwrap_or_default();
            let value = value.trim_start_matches([' ', '=']).trim_matches('"');
            (found == name).then(|| value.to_owned())
        });
        values.next_back()
    }

    /// A path of the machine, where it is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Whether there is such a path.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The first file in one of these folders whose name passes, and that holds the text.
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

/// A file's lines that are no comments, with one blank between their words.
fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let told = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    told.filter(|line| !line.starts_with('#')).collect()
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
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Whether a file is the program that runs now; nothing if that cannot be told.
pub fn is_this_program(driver: &Path) -> Option<bool> {
    // By the kernel's own link: below another root the path of this program leads nowhere.
    let this = Path::new("/proc/self/exe");
    if files::place(this).ok()? == files::place(driver).ok()? {
        return Some(true);
    }
    durable::is_same(&File::open(this).ok()?, driver).ok()
}

/// Whose a file is, and its permissions.
pub fn rights(path: &Path) -> Result<(u32, u32)> {
    let found = fs::metadata(path)
        .map_err(|error| Error::io(format!("look at {}", path.display()), &error))?;
    Ok((found.uid(), found.mode() & 0o7777))
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
pub fn has_program(name: &str) -> bool {
    tool::locate(name).is_ok()
}

/// The kernel's release, such as `6.1.0-18-amd64`.
pub fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
