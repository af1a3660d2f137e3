//! Whether a pod has a file system: its processes, and what is mounted where they live.
//!
//! Its processes are those below its folder in the trees of cgroups, or, where not every tree can be seen whole, those that
//! say so themselves. On a machine with 620 processes the trees take a tenth of the time of the processes.

use super::cgroups::{has_controllers, is_tree};
use super::inspection::{Inspection, Unread};
use super::proc::{Proc, has_ended};
use super::scan::Party;
use crate::files;
use crate::model::cgroup::{PodFolder, pod_of};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{Holder, NamespaceId, PodUsers};
use crate::model::mount::mountinfo::{Mount, MountTable};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More rounds than a pod's start or end takes; one takes about a millisecond.
const ROUNDS: usize = 64;

impl Inspection<'_> {
    /// The pod's processes that have one of the file systems; those in the namespace `except` do not count. None is only
    /// answered after two rounds with the same processes: one that was started between the reading of the list and the
    /// reading of its starter is in the next list.
    pub(super) fn pod_users(&mut self, pod: &ConsumerId, except: NamespaceId) -> Result<PodUsers> {
        let mut last = None;
        for _ in 0..ROUNDS {
            let called = PodProcesses::of(pod, &self.proc)
                .map_err(|error| Error::io("list the pod's processes", &error))?;
            let holders = self.holders_among(pod, &called.pids, except)?;
            if !holders.is_empty() || last.as_ref() == Some(&called) {
                return Ok(PodUsers { holders, has_cgroup: called.has_folder });
            }
            last = Some(called);
        }
        Err(Error::refused(format!(
            "the pod's processes change too fast to list: they were others in each of {ROUNDS} looks"
        )))
    }

    /// An error if there are none as far as could be read, and not all could be.
    fn holders_among(
        &mut self,
        pod: &ConsumerId,
        pids: &BTreeSet<u32>,
        except: NamespaceId,
    ) -> Result<Vec<Holder>> {
        (self.processes, self.unread) = (BTreeMap::new(), Unread::default());
        let mut tasks = Vec::new();
        let mut add = |pid: u32| -> io::Result<()> {
            let mut process = self.proc.process(pid)?;
            process.owner.pod = Some(pod.clone());
            self.processes.insert(pid, process);
            let all = self.proc.tasks(pid)?.into_iter();
            tasks.extend(all.map(|task| (Party::Pod(pod.clone()), task)));
            Ok(())
        };
        let added = pids.iter().try_for_each(|pid| add(*pid));
        added.map_err(|error| Error::io("read the pod's processes", &error))?;
        self.read_homes_of(tasks)?;
        let mut holders = BTreeMap::new();
        for one in self.all.iter().filter(|one| one.id != Some(except)) {
            let places = one.mounts_of(&self.filter.numbers).map(|mount| mount.target.clone());
            let places: Vec<PathBuf> = places.collect();
            for task in one.tasks.iter().filter(|_| !places.is_empty()) {
                let (process, places) = (self.process(task.pid), places.clone());
                holders.entry((one.first, task.pid)).or_insert(Holder { process, places });
            }
        }
        match self.must_be_whole()?.first().filter(|_| holders.is_empty()) {
            Some(unread) => Err(Error::new(Kind::Host, unread.to_string())),
            None => Ok(holders.into_values().collect()),
        }
    }
}

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
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            let is_named = !is_inside && pod.is_named(&name);
            // Links are other names of trees, such as `cpu` for `cpu,cpuacct`.
            if !(is_inside || is_named || pod.may_be_below(&name))
                || !unless_removed(entry.file_type())?.is_some_and(|kind| kind.is_dir())
            {
                continue;
            }
            let Some(folder) = unless_removed(entry.metadata())? else { continue };
            // A user names folders as he likes. All that is below a folder of the pod is the pod's, whichever process
            // made it.
            if !is_inside && folder.uid() != trusted {
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
    if proc.own_number("cgroup") != Some(INITIAL_CGROUPS) {
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
