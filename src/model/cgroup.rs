//! Whose a process is, read from the names of its cgroups (`/proc/PID/cgroup`, cgroups(7)).
//!
//! A line is `hierarchy:controllers:path`; cgroup v1 has one for each hierarchy, v2 a single one
//! (`0::path`), a hybrid machine both. kubelet makes one folder for each pod, a runtime one for
//! each container below it:
//!
//! | who | folder |
//! | --- | --- |
//! | kubelet, driver cgroupfs | `kubepods/burstable/pod<uid>` |
//! | kubelet, driver systemd | `kubepods-burstable-pod<uid, dashes as underscores>.slice` |
//! | containerd | `<id>`, `cri-containerd-<id>.scope`, or all in one `<slice>:cri-containerd:<id>` |
//! | CRI-O | `crio-<id>`, `crio-<id>.scope`; `crio-conmon-<id>.scope` is its watcher, no container |
//! | Docker | `<id>`, `docker-<id>.scope` |
//!
//! What stands above (`kubepods`, a class of service, another cgroup root, the container in which
//! kubelet itself runs) and below (systemd in a container) differs from machine to machine and
//! decides nothing. Names are compared whole: a UID that another one begins with is another pod.

use super::ids::{ConsumerId, is_uuid};

/// Whose a process is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The UID of its pod. Of pods inside a pod the outer one, which is this machine's.
    pub pod: Option<ConsumerId>,
    /// The runtime's id of its container.
    pub container: Option<String>,
}

/// A folder on the way of one line of a `/proc/PID/cgroup`: whether its name is to be believed is a
/// question of who made it. A user may have a part of the tree to himself, and name folders there as
/// he likes.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The controllers of the hierarchy; empty for cgroup v2.
    pub controllers: &'a str,
    /// The path from the tree's root to the folder.
    pub path: &'a str,
}

impl Owner {
    /// The owner of the process whose `/proc/PID/cgroup` this is, by folders that are believed.
    pub fn of(text: &str, is_believed: impl Fn(Step<'_>) -> bool) -> Self {
        let mut best = Self::default();
        for (controllers, path) in lines(text) {
            let found = Self::of_path(path, |path| is_believed(Step { controllers, path }));
            // A process may have been moved in one hierarchy and not in the others.
            if (found.pod.is_some(), found.container.is_some())
                > (best.pod.is_some(), best.container.is_some())
            {
                best = found;
            }
        }
        best
    }

    fn of_path(path: &str, is_believed: impl Fn(&str) -> bool) -> Self {
        let mut owner = Self::default();
        for (folder, way) in folders(path) {
            let pod = if owner.pod.is_none() { pod_of(folder) } else { None };
            let container = container_of(folder);
            // Below a pod's folder all is the pod's: a runtime gives a container its own folder.
            let says_something = pod.is_some() || owner.container.is_none() && container.is_some();
            if says_something && owner.pod.is_none() && !is_believed(way) {
                break;
            }
            if pod.is_some() {
                // A container that the pod stands in is not the pod's.
                owner = Self { pod, container: None };
            }
            if owner.container.is_none() {
                owner.container = container.map(str::to_owned);
            }
        }
        owner
    }
}

/// The folder names of one pod.
#[derive(Debug, Clone)]
pub struct PodFolder {
    plain: String,
    escaped: String,
    /// Whether it is also the pod's below another pod's folder.
    below_pods: bool,
}

impl PodFolder {
    /// Those of the pod with this UID. Below another pod's folder, where that one may make folders,
    /// they count only if this machine is itself a pod's.
    pub fn of(pod: &ConsumerId, below_pods: bool) -> Self {
        let plain = format!("pod{pod}");
        Self { escaped: plain.replace('-', "_"), plain, below_pods }
    }

    /// Whether the pod's folder may be below a folder of this name.
    pub fn may_be_below(&self, folder: &str) -> bool {
        self.below_pods || pod_of(folder).is_none()
    }

    /// Whether a folder has such a name.
    pub fn is_named(&self, folder: &str) -> bool {
        match pod_part(folder) {
            Some(Part::Plain(part)) => part == self.plain,
            Some(Part::Escaped(part)) => part == self.escaped,
            None => false,
        }
    }

    /// Whether any line of a `/proc/PID/cgroup` leads through such a folder that is believed.
    pub fn has(&self, text: &str, is_believed: impl Fn(Step<'_>) -> bool) -> bool {
        lines(text).any(|(controllers, path)| {
            let mut way = folders(path);
            let end = way.find(|(name, _)| self.is_named(name) || !self.may_be_below(name));
            let own = end.filter(|(name, _)| self.is_named(name));
            own.is_some_and(|(_, path)| is_believed(Step { controllers, path }))
        })
    }
}

/// Each folder of a path by its name, and the path to it.
fn folders(path: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut end = 0;
    path.split('/').map(move |folder| {
        end += folder.len() + 1;
        (folder, &path[..end - 1])
    })
}

/// The pod that a folder of this name was made for.
pub fn pod_of(folder: &str) -> Option<ConsumerId> {
    let uid = match pod_part(folder)? {
        Part::Plain(part) => part.strip_prefix("pod")?.to_owned(),
        Part::Escaped(part) => part.strip_prefix("pod")?.replace('_', "-"),
    };
    is_uid(&uid).then(|| ConsumerId::parse(&uid).ok())?
}

/// The part of a folder's name that is `pod` and a UID, if it begins so.
enum Part<'a> {
    Plain(&'a str),
    /// systemd takes a dash for a step in the tree of slices; kubelet writes underscores instead.
    Escaped(&'a str),
}

fn pod_part(folder: &str) -> Option<Part<'_>> {
    // The folder that a runtime makes when kubelet names slices for systemd and the runtime was
    // not told of systemd: `<slice>:<runtime>:<container id>`.
    let folder = folder.split_once(':').map_or(folder, |(slice, _)| slice);
    let part = match folder.strip_suffix(".slice") {
        Some(slice) => Part::Escaped(slice.rsplit('-').next()?),
        None => Part::Plain(folder),
    };
    let (Part::Plain(text) | Part::Escaped(text)) = &part;
    text.starts_with("pod").then_some(part)
}

/// API servers give UUIDs; pods from files on the node have an MD5 sum instead.
fn is_uid(text: &str) -> bool {
    is_uuid(text) || (text.len() == 32 && is_hex(text))
}

fn container_of(folder: &str) -> Option<&str> {
    /// What containerd, CRI-O, Docker and podman all have.
    const ID_LENGTH: usize = 64;
    let name = folder.strip_suffix(".scope").unwrap_or(folder);
    let at = name.len().checked_sub(ID_LENGTH)?;
    let (before, id) = name.split_at_checked(at)?;
    let is_whole = before.is_empty() || before.ends_with(['-', ':', '_']);
    let is_watcher = before.trim_end_matches(['-', ':', '_']).ends_with("conmon");
    (is_whole && !is_watcher && is_hex(id)).then_some(id)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The controllers and the path of every line.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        // A controller's name may hold anything but a colon, a path may hold colons too.
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        // What the kernel appends when the folder was removed under a process that is ending.
        Some((controllers, path.strip_suffix(" (deleted)").unwrap_or(path)))
    })
}

#[cfg(test)]
mod tests;
