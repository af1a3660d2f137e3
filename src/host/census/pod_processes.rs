//! The processes of one pod: by its folder in the trees of cgroups, or, where not every tree can
//! be seen whole, by what each process says of itself.
//!
//! On a machine with 620 processes the trees take a tenth of the time of the processes.

use super::cgroups::{has_controllers, is_tree};
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

/// The processes of one pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PodProcesses {
    /// Every process of it now, those that ended just now perhaps included.
    pub(super) pids: BTreeSet<u32>,
    /// Whether a folder was made for it.
    pub(super) has_folder: bool,
}

impl PodProcesses {
    pub(super) fn of(pod: &ConsumerId, proc: &Proc) -> io::Result<Self> {
        let own = proc.own_table().map_err(|error| io::Error::other(error.cause))?;
        // A kernel without cgroups has no such file.
        let text = files::unless_lack(proc.read("self/cgroup"))?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        // This process is in a pod, so it may serve a cluster inside of it.
        let below_pods =
            text.lines().any(|line| line.split(['/', ':']).any(|name| pod_of(name).is_some()));
        let folder = PodFolder::of(pod, below_pods);
        let mut found = Self::default();
        let mut read = |root: &PathBuf| found.add_below(root, false, &folder, proc.trusted);
        match trees(proc, &own, &text) {
            Some(trees) if trees.iter().try_for_each(&mut read).is_ok() => Ok(found),
            _ => by_their_words(proc, &folder),
        }
    }

    /// Down from a folder above all of the pod's, or from one of the pod. Folders of this user are believed.
    fn add_below(
        &mut self,
        path: &Path,
        is_inside: bool,
        pod: &PodFolder,
        trusted: u32,
    ) -> io::Result<()> {
        let Some(entries) = unless_removed(fs::read_dir(path))? else { return Ok(()) };
        for entry in entries {
            let Some(entry) = unless_removed(entry)? else { break };
            let Some(folder) = unless_removed(entry.metadata())? else { continue };
            // Links are other names of trees, such as `cpu` for `cpu,cpuacct`.
            if !folder.is_dir() {
                continue;
            }
            // All that is below a folder of the pod is the pod's, whichever process made it.
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            let is_named = !is_inside && pod.is_named(&name);
            let may_be_below = is_inside || is_named || pod.may_be_below(&name);
            // A user names folders as he likes.
            if !may_be_below || !is_inside && folder.uid() != trusted {
                continue;
            }
            self.has_folder |= is_named;
            if is_inside || is_named {
                self.pids.extend(processes_in(&path)?);
            }
            if folder.nlink() != LEAF {
                self.add_below(&path, is_inside || is_named, pod, trusted)?;
            }
        }
        Ok(())
    }
}

/// Where all the trees are mounted, if every one that the kernel has is mounted here, from its root on.
fn trees(proc: &Proc, own: &MountTable, text: &str) -> Option<Vec<PathBuf>> {
    let link = proc.link("self/ns/cgroup").ok()?;
    if number_of_link(link.to_str()?, "cgroup") != Some(INITIAL_CGROUPS) {
        return None;
    }
    let root_of = |line: &str| {
        let controllers = line.split(':').nth(1)?;
        let is_whole = |mount: &&Mount| {
            mount.root == Path::new("/")
                && has_controllers(mount, controllers)
                && is_tree(mount, own)
        };
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
