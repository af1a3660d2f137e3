//! What needs the driver: without it kubelet cannot unmount a volume.

use super::console::{NodeResult, Stop};
use super::site::{Plugins, Site};
use super::{kubelet, process};
use crate::host::device_mapper::KernelMaps;
use crate::host::mount_tables;
use crate::model::mount::mountinfo::MountTable;
use crate::ports::host::Maps;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A process that is ending is given so much time.
const ENDING: Duration = Duration::from_secs(1);

/// Volumes mounted in our own mount namespace or in kubelet's, whose mounts they are, and calls under
/// way.
pub(super) fn find(site: &Site, plugins: &Plugins) -> NodeResult<Vec<String>> {
    let mut mounted = volumes(&site.proc.join("self"))?;
    for pid in kubelet::processes(&site.proc) {
        let process = process::folder(&site.proc, pid);
        match volumes(&process) {
            Ok(more) => mounted.extend(more),
            Err(_) if has_ended(&process) => {}
            Err(_) => mounted.extend(volumes(&process)?),
        }
    }
    mounted.sort();
    mounted.dedup();
    let mounted = mounted.iter().map(|path| path.display().to_string());
    Ok(mounted.chain(maps()?).chain(calls(site, plugins)).collect())
}

/// Maps of device mapper through which volumes of this machine are mounted.
pub(super) fn maps() -> NodeResult<Vec<String>> {
    let volumes = KernelMaps::default()
        .volumes()
        .map_err(|error| Stop::new(format!("which volumes have maps cannot be told: {error}")))?;
    Ok(volumes.iter().map(|id| format!("the map of volume {id}")).collect())
}

/// Volumes that are mounted for a kubelet, and not where this process is.
pub(super) fn seen_by_kubelet_alone(site: &Site, pid: u32) -> NodeResult<Vec<PathBuf>> {
    let ours = volumes(&site.proc.join("self"))?;
    let mut theirs = volumes(&process::folder(&site.proc, pid))?;
    theirs.retain(|place| !ours.contains(place));
    Ok(theirs)
}

fn volumes(process: &Path) -> NodeResult<Vec<PathBuf>> {
    let table = mounts(process)?;
    let targets = table.mounts().iter().map(|mount| &mount.target);
    Ok(targets.filter(|target| is_volume(target)).cloned().collect())
}

/// What a process sees mounted. A table that cannot be read is no empty table.
pub(super) fn mounts(process: &Path) -> NodeResult<MountTable> {
    let path = process.join("mountinfo");
    let text = File::open(&path).and_then(mount_tables::read).map_err(|error| error.to_string());
    let table = text.and_then(|text| MountTable::parse(&text).map_err(|error| error.to_string()));
    table.map_err(|why| Stop::new(format!("the mounts cannot be read: {}: {why}", path.display())))
}

/// The machine's one mount of a volume, and a pod's.
fn is_volume(target: &Path) -> bool {
    const MACHINES: &str = "/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/";
    let text = target.to_string_lossy();
    let is_machines = text.split_once(MACHINES).is_some_and(|(_, name)| !name.is_empty());
    let parts: Vec<_> = text.split('/').collect();
    let is_pods = parts.windows(5).any(|five| {
        five[0] == "pods"
            && five[2] == "volumes"
            && five[3] == "incloud~disk"
            && !five[4].is_empty()
    });
    is_machines || is_pods
}

/// Also one that its parent has not waited for yet has no mounts any more; of those the kernel says
/// that the question is invalid.
fn has_ended(process: &Path) -> bool {
    std::thread::sleep(ENDING);
    let Ok(status) = fs::read_to_string(process.join("status")) else {
        return !process.is_dir();
    };
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with(['X', 'Z']))
}

/// Also those of a driver that was replaced meanwhile, which the kernel calls deleted. A word on the
/// node, as this process has one, is no call: it needs no volume.
fn calls(site: &Site, plugins: &Plugins) -> Vec<String> {
    let Ok(folder) = fs::canonicalize(plugins.driver_folder()) else { return Vec::new() };
    let driver = folder.join("disk");
    let replaced = PathBuf::from(format!("{} (deleted)", driver.display()));
    let mut found = Vec::new();
    for pid in process::numbers(&site.proc) {
        let process = process::folder(&site.proc, pid);
        if !may_be_a_call(&process) {
            continue;
        }
        let program = fs::read_link(process.join("exe"));
        if program.is_ok_and(|program| program == driver || program == replaced) {
            let arguments = process::arguments(&process);
            let word = arguments.get(1).map_or("", String::as_str);
            if word != "node" {
                found.push(format!("a call under way: process {pid}: {word}"));
            }
        }
    }
    found
}

/// By what can be read of any process: a user can keep the rest of his own from being read. A call of a
/// controller-manager is root's in a container.
fn may_be_a_call(process: &Path) -> bool {
    let is_named =
        fs::read_to_string(process.join("comm")).map_or(true, |name| name.trim() == "disk");
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    is_named && user.is_none_or(|users| users.split_whitespace().next() == Some("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_told_from_other_mounts() {
        for path in [
            "/var/lib/kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/pv-1",
            "/data/kubelet/pods/0b5c-1/volumes/incloud~disk/pv-2",
        ] {
            assert!(is_volume(Path::new(path)), "{path}");
        }
        for path in [
            "/",
            "/var/lib/kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts",
            "/var/lib/kubelet/pods/0b5c-1/volumes/kubernetes.io~empty-dir/cache",
            "/var/lib/kubelet/pods/0b5c-1/volumes/incloud~disk",
        ] {
            assert!(!is_volume(Path::new(path)), "{path}");
        }
    }
}
