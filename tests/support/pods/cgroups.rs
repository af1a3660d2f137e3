//! cgroup folders of a test, named as kubelet and its runtimes name theirs.
//!
//! They stand below a root of the test's own, as `--cgroup-root` gives kubelet one: a kubelet on
//! the same machine removes pods below its own `kubepods` that it does not know.

use incloud_disk::model::mount::mountinfo::{Mount, MountTable};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Who names the folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// kubelet's driver cgroupfs, containerd or Docker; class burstable.
    Cgroupfs,
    /// The same for a guaranteed pod.
    CgroupfsGuaranteed,
    /// kubelet's driver systemd, containerd; class besteffort.
    Systemd,
    /// kubelet's driver systemd, CRI-O.
    Crio,
    /// kubelet's driver systemd, and a containerd that was not told of it.
    Colon,
    /// No kubelet: plain Docker.
    Docker,
}

impl Naming {
    pub const ALL: [Self; 5] =
        [Self::Cgroupfs, Self::CgroupfsGuaranteed, Self::Systemd, Self::Crio, Self::Colon];

    /// The folder of one container, and that of its pod.
    fn folders(self, uid: &str, container: &str) -> (String, Option<String>) {
        let escaped = uid.replace('-', "_");
        let slices = |class: &str| {
            format!("kubepods.slice/kubepods-{class}.slice/kubepods-{class}-pod{escaped}.slice")
        };
        let within = |pod: String, name: String| (format!("{pod}/{name}"), Some(pod));
        match self {
            Self::Cgroupfs => within(format!("kubepods/burstable/pod{uid}"), container.to_owned()),
            Self::CgroupfsGuaranteed => within(format!("kubepods/pod{uid}"), container.to_owned()),
            Self::Systemd => {
                within(slices("besteffort"), format!("cri-containerd-{container}.scope"))
            }
            Self::Docker => (format!("docker/{container}"), None),
            Self::Crio => within(slices("burstable"), format!("crio-{container}.scope")),
            Self::Colon => {
                let slice = format!("kubepods-besteffort-pod{escaped}.slice");
                (
                    format!("system.slice/containerd.service/{slice}:cri-containerd:{container}"),
                    None,
                )
            }
        }
    }
}

/// The trees that this machine lets us make folders in.
pub fn trees() -> Vec<PathBuf> {
    let text = fs::read("/proc/thread-self/mountinfo").unwrap_or_default();
    let table = MountTable::parse(&text).unwrap_or_default();
    let is_tree = |mount: &&Mount| {
        mount.fs_type.starts_with("cgroup")
            && mount.root == Path::new("/")
            && !mount.is_read_only()
            // It takes no process before it was given processors.
            && !mount.super_options.split(',').any(|option| option == "cpuset")
    };
    let mut trees: Vec<Mount> = table.mounts().iter().filter(is_tree).cloned().collect();
    // The new tree first, then the one that systemd itself uses.
    trees.sort_by_key(|mount| {
        (mount.fs_type != "cgroup2", !mount.super_options.contains("name=systemd"))
    });
    trees.dedup_by_key(|mount| mount.number);
    trees.into_iter().map(|mount| mount.target).collect()
}

/// A node's folders, in one tree or in all; removed with what is in them.
#[derive(Debug)]
pub struct Roots {
    paths: Vec<PathBuf>,
}

impl Roots {
    pub fn make(trees: &[PathBuf]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("incloud-disk-test-{}-{count}", std::process::id());
        Self { paths: trees.iter().map(|tree| tree.join(&name)).collect() }
    }

    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}

/// A pod's folders below those.
#[derive(Debug)]
pub struct Folders {
    roots: Arc<Roots>,
    naming: Naming,
    uid: String,
}

impl Folders {
    pub fn make(roots: Arc<Roots>, naming: Naming, uid: &str) -> Self {
        let folders = Self { roots, naming, uid: uid.to_owned() };
        // Like kubelet, before there is any container.
        if let Some(pod) = naming.folders(uid, "").1 {
            folders.make_in_each(&pod);
        }
        folders
    }

    pub fn roots(&self) -> Arc<Roots> {
        Arc::clone(&self.roots)
    }

    /// Makes the folders of a container; answers the files that list their processes.
    pub fn add(&self, container: &str) -> Vec<PathBuf> {
        let folder = self.naming.folders(&self.uid, container).0;
        self.make_in_each(&folder);
        self.roots.paths.iter().map(|root| root.join(&folder).join("cgroup.procs")).collect()
    }

    /// Whether no process is in any of the node's.
    pub fn are_empty(&self) -> bool {
        self.roots.paths.iter().all(|root| is_empty(root).unwrap_or(false))
    }

    fn make_in_each(&self, folder: &str) {
        for root in &self.roots.paths {
            let path = root.join(folder);
            fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }
}

impl Drop for Roots {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(20);
        for root in &self.paths {
            // A process that ends leaves its cgroup a moment after its parent was told.
            while let Err(error) = remove(root) {
                if Instant::now() > end {
                    println!("{} is left: {error}", root.display());
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn is_empty(folder: &Path) -> io::Result<bool> {
    let mut empty = fs::read_to_string(folder.join("cgroup.procs"))?.is_empty();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        empty = empty && (!entry.file_type()?.is_dir() || is_empty(&entry.path())?);
    }
    Ok(empty)
}

fn remove(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    for pid in fs::read_to_string(folder.join("cgroup.procs"))?.lines() {
        // What a test forgot: it was started in a folder that this test made.
        if let Ok(pid) = pid.parse() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    fs::remove_dir(folder)
}
