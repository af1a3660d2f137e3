//! The processes of one pod: by its folder in the trees of cgroups, or, where not every tree can
//! be seen whole, by what each process says of itself.
//!
//! On a machine with 620 processes the trees take a tenth of the time of the processes.

use super::cgroups::is_tree_of;
use super::proc::{Proc, has_ended, number_of_link};
use crate::files;
use crate::model::cgroup::{PodFolder, pod_of};
use crate::model::ids::ConsumerId;
use crate::model::mount::mountinfo::{Mount, MountTable};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// `PROC_CGROUP_INIT_INO` of `linux/proc_ns.h`: in another one the trees begin at some folder.
const INITIAL_CGROUPS: u64 = 0xEFFF_FFFB;

/// Where to look for the processes of pods.
#[derive(Debug)]
pub(super) struct CgroupTrees {
    /// Where all the trees are mounted; none where not every one is, and each process is asked.
    trees: Option<Vec<PathBuf>>,
    /// Whether also below other pods: this process is in a pod, so it may serve a cluster inside
    /// of it.
    below_pods: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PodProcesses {
    /// Every process of it now, those that ended just now perhaps included.
    pub(super) pids: BTreeSet<u32>,
    /// Whether a folder was made for it.
    pub(super) has_folder: bool,
}

impl CgroupTrees {
    /// The trees, if every one that the kernel has is mounted here, from its root on.
    pub(super) fn here(proc: &Proc, own: &MountTable) -> io::Result<Self> {
        // A kernel without cgroups has no such file.
        let text = files::unless_lack(proc.read("self/cgroup"))?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let below_pods =
            text.lines().any(|line| line.split(['/', ':']).any(|name| pod_of(name).is_some()));
        Ok(Self { trees: trees(proc, own, &text), below_pods })
    }

    pub(super) fn of_pod(&self, proc: &Proc, pod: &ConsumerId) -> io::Result<PodProcesses> {
        let folder = PodFolder::of(pod, self.below_pods);
        let walk = Walk { folder: &folder, makers: proc.trusted() };
        if let Some(trees) = &self.trees {
            let mut found = PodProcesses::default();
            let walked = trees.iter().try_for_each(|root| walk.below(root, false, &mut found));
            if walked.is_ok() {
                return Ok(found);
            }
        }
        by_their_words(proc, &folder)
    }
}

fn trees(proc: &Proc, own: &MountTable, text: &str) -> Option<Vec<PathBuf>> {
    let link = proc.link("self/ns/cgroup").ok()?;
    if number_of_link(link.to_str()?, "cgroup") != Some(INITIAL_CGROUPS) {
        return None;
    }
    let root_of = |line: &str| {
        let controllers = line.split(':').nth(1)?;
        let is_whole =
            |mount: &&Mount| mount.root == Path::new("/") && is_tree_of(mount, controllers, own);
        own.mounts().iter().find(is_whole).map(|mount| mount.target.clone())
    };
    let roots = text.lines().map(root_of).collect::<Option<Vec<_>>>()?;
    (!roots.is_empty()).then_some(roots)
}

fn by_their_words(proc: &Proc, folder: &PodFolder) -> io::Result<PodProcesses> {
    let mut found = PodProcesses::default();
    for pid in proc.pids()? {
        match proc.read(&format!("{pid}/cgroup")) {
            Ok(text) => {
                let text = String::from_utf8_lossy(&text);
                if folder.has(&text, |step| proc.is_made_by_root(step)) {
                    found.pids.insert(pid);
                }
            }
            Err(error) if !has_ended(&error) => return Err(error),
            Err(_) => {}
        }
    }
    found.has_folder = !found.pids.is_empty();
    Ok(found)
}

/// The links of a folder without folders in it: most are such, and need no reading.
const LEAF: u64 = 2;

struct Walk<'a> {
    folder: &'a PodFolder,
    /// The user whose folders are believed.
    makers: u32,
}

impl Walk<'_> {
    /// Down from a folder above all of the pod's, or from the pod's own.
    fn through(&self, path: &Path, is_named: bool, found: &mut PodProcesses) -> io::Result<()> {
        let Some(folder) = unless_removed(fs::metadata(path))? else { return Ok(()) };
        // A user's, who names folders as he likes.
        if folder.uid() != self.makers {
            return Ok(());
        }
        found.has_folder |= is_named;
        self.within(path, &folder, is_named, found)
    }

    /// All that is below a folder of the pod is the pod's, whichever process made it.
    fn inside(&self, path: &Path, found: &mut PodProcesses) -> io::Result<()> {
        match unless_removed(fs::metadata(path))? {
            Some(folder) => self.within(path, &folder, true, found),
            None => Ok(()),
        }
    }

    fn within(
        &self,
        path: &Path,
        folder: &fs::Metadata,
        inside: bool,
        found: &mut PodProcesses,
    ) -> io::Result<()> {
        if inside {
            found.pids.extend(processes_in(path)?);
        }
        if folder.nlink() == LEAF { Ok(()) } else { self.below(path, inside, found) }
    }

    fn below(&self, path: &Path, inside: bool, found: &mut PodProcesses) -> io::Result<()> {
        let Some(entries) = unless_removed(fs::read_dir(path))? else { return Ok(()) };
        for entry in entries {
            let Some(entry) = unless_removed(entry)? else { break };
            // Links are other names of trees, such as `cpu` for `cpu,cpuacct`.
            if !unless_removed(entry.file_type())?.is_some_and(|kind| kind.is_dir()) {
                continue;
            }
            if inside {
                self.inside(&entry.path(), found)?;
                continue;
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_named = self.folder.is_named(&name);
            if is_named || self.folder.may_be_below(&name) {
                self.through(&entry.path(), is_named, found)?;
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
