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

impl Owner {
    /// The owner of the process whose `/proc/PID/cgroup` this is.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut best = Self::default();
        for found in paths(text).map(Self::of_path) {
            // A process may have been moved in one hierarchy and not in the others.
            if (found.pod.is_some(), found.container.is_some())
                > (best.pod.is_some(), best.container.is_some())
            {
                best = found;
            }
        }
        best
    }

    fn of_path(path: &str) -> Self {
        let mut owner = Self::default();
        for folder in path.split('/') {
            if owner.pod.is_none()
                && let Some(pod) = pod_of(folder)
            {
                // A container that the pod stands in is not the pod's.
                owner = Self { pod: Some(pod), container: None };
            }
            if owner.container.is_none() {
                owner.container = container_of(folder).map(str::to_owned);
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
}

impl PodFolder {
    /// Those of the pod with this UID.
    #[must_use]
    pub fn of(pod: &ConsumerId) -> Self {
        let plain = format!("pod{pod}");
        Self { escaped: plain.replace('-', "_"), plain }
    }

    /// Whether a folder has such a name.
    #[must_use]
    pub fn is_named(&self, folder: &str) -> bool {
        match pod_part(folder) {
            Some(Part::Plain(part)) => part == self.plain,
            Some(Part::Escaped(part)) => part == self.escaped,
            None => false,
        }
    }

    /// Whether any line of a `/proc/PID/cgroup` leads through such a folder.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        paths(text).any(|path| path.split('/').any(|folder| self.is_named(folder)))
    }
}

/// The pod that a folder of this name was made for.
#[must_use]
pub fn pod_of(folder: &str) -> Option<ConsumerId> {
    let uid = match pod_part(folder)? {
        Part::Plain(part) => part.strip_prefix("pod")?.to_owned(),
        Part::Escaped(part) => part.strip_prefix("pod")?.replace('_', "-"),
    };
    is_uid(&uid).then(|| ConsumerId::parse(&uid).ok())?
}

/// The part of a folder's name that is `pod` and a UID, if it begins so.
enum Part<'a> {
    /// As it is.
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

/// The path of every line.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        // A controller's name may hold anything but a colon, a path may hold colons too.
        let path = line.splitn(3, ':').nth(2)?;
        // What the kernel appends when the folder was removed under a process that is ending.
        Some(path.strip_suffix(" (deleted)").unwrap_or(path))
    })
}

#[cfg(test)]
mod tests;
