//! The processes of one pod: by its folder in the trees of cgroups, or, where not every tree can
//! be seen whole, by what each process says of itself.
//!
//! On a machine with 620 processes the trees take a tenth of the time of the processes.

use super::proc::{Proc, has_ended, number_of_link};
use crate::model::cgroup::{PodFolder, pod_of};
use crate::model::ids::ConsumerId;
use crate::model::mountinfo::{Mount, MountTable};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// `PROC_CGROUP_INIT_INO` of `linux/proc_ns.h`: in another one the trees begin at some folder.
const INITIAL_CGROUPS: u64 = 0xEFFF_FFFB;

/// Where to look for the processes of pods.
#[derive(Debug)]
pub(super) enum Roll {
    /// In all these trees.
    Trees {
        /// Where they are mounted.
        roots: Vec<PathBuf>,
        /// Whether also below other pods: this process is in a pod, so it may serve a cluster
        /// inside of it.
        below_pods: bool,
    },
    /// In each process's own words.
    Processes,
}

impl Roll {
    /// The trees, if every one that the kernel has is mounted here, from its root on.
    pub(super) fn here(proc: &Proc, own: &MountTable) -> Self {
        Self::trees(proc, own).unwrap_or(Self::Processes)
    }

    fn trees(proc: &Proc, own: &MountTable) -> Option<Self> {
        let link = proc.link("self/ns/cgroup").ok()?;
        if number_of_link(link.to_str()?, "cgroup") != Some(INITIAL_CGROUPS) {
            return None;
        }
        let text = String::from_utf8(proc.read("self/cgroup").ok()?).ok()?;
        let root_of = |line: &str| {
            let controllers = line.split(':').nth(1)?;
            let is_whole = |mount: &&Mount| {
                mount.root == Path::new("/")
                    && is_hierarchy(mount, controllers)
                    // Something else may be mounted over it.
                    && own.covering(&mount.target).is_some_and(|top| top.id == mount.id)
            };
            own.mounts().iter().find(is_whole).map(|mount| mount.target.clone())
        };
        let roots = text.lines().map(root_of).collect::<Option<Vec<_>>>()?;
        let below_pods =
            text.lines().any(|line| line.split(['/', ':']).any(|name| pod_of(name).is_some()));
        (!roots.is_empty()).then_some(Self::Trees { roots, below_pods })
    }

    /// Every process of the pod now, those that ended just now perhaps included.
    pub(super) fn of_pod(&self, proc: &Proc, pod: &ConsumerId) -> io::Result<BTreeSet<u32>> {
        let folder = PodFolder::of(pod);
        match self {
            Self::Trees { roots, below_pods } => {
                let walk = Walk { folder: &folder, below_pods: *below_pods };
                let mut found = BTreeSet::new();
                let walked =
                    roots.iter().try_for_each(|root| walk.through(root, false, &mut found));
                walked.map(|()| found).or_else(|_| by_their_words(proc, &folder))
            }
            Self::Processes => by_their_words(proc, &folder),
        }
    }
}

fn by_their_words(proc: &Proc, folder: &PodFolder) -> io::Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for pid in proc.pids()? {
        match proc.read(&format!("{pid}/cgroup")) {
            Ok(text) if folder.has(&String::from_utf8_lossy(&text)) => {
                found.insert(pid);
            }
            Err(error) if !has_ended(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(found)
}

/// Whether a mount is the tree of these controllers, as `/proc/PID/cgroup` lists them.
fn is_hierarchy(mount: &Mount, controllers: &str) -> bool {
    if controllers.is_empty() {
        return mount.fs_type == "cgroup2";
    }
    let has = |controller: &str| mount.super_options.split(',').any(|option| option == controller);
    mount.fs_type == "cgroup" && controllers.split(',').all(has)
}

/// The links of a folder without folders in it: most are such, and need no reading.
const LEAF: u64 = 2;

struct Walk<'a> {
    folder: &'a PodFolder,
    below_pods: bool,
}

impl Walk<'_> {
    /// Down from a folder; `inside` once it belongs to the pod.
    fn through(&self, path: &Path, inside: bool, found: &mut BTreeSet<u32>) -> io::Result<()> {
        if inside {
            found.extend(processes_in(path)?);
        }
        match unless_removed(fs::metadata(path))? {
            Some(found) if found.nlink() != LEAF => {}
            _ => return Ok(()),
        }
        let Some(entries) = unless_removed(fs::read_dir(path))? else { return Ok(()) };
        for entry in entries {
            let Some(entry) = unless_removed(entry)? else { break };
            // Links are other names of trees, such as `cpu` for `cpu,cpuacct`.
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let inside = inside || self.folder.is_named(&name);
            if inside || self.below_pods || pod_of(&name).is_none() {
                self.through(&entry.path(), inside, found)?;
            }
        }
        Ok(())
    }
}

fn processes_in(folder: &Path) -> io::Result<Vec<u32>> {
    let list = |file| unless_removed(fs::read_to_string(folder.join(file)));
    let text = match list("cgroup.procs") {
        // A threaded folder lists its processes further up; threads have their place in `/proc` too.
        Err(error) if error.raw_os_error() == Some(nix::libc::EOPNOTSUPP) => list("cgroup.threads"),
        other => other,
    }?;
    let text = text.unwrap_or_default();
    let parsed = text.lines().map(|line| match line.parse() {
        // A process that our PID namespace has no number for.
        Ok(0) | Err(_) => {
            Err(io::Error::other(format!("{} lists process {line:?}", folder.display())))
        }
        Ok(pid) => Ok(pid),
    });
    parsed.collect()
}

/// Nothing if the folder was removed meanwhile, which only empty ones can be.
fn unless_removed<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    use nix::libc::{ENODEV, ENOENT};
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.raw_os_error(), Some(ENODEV | ENOENT)) => Ok(None),
        Err(error) => Err(error),
    }
}
