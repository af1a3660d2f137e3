//! The users of a volume, in words.

use crate::model::advice::Remedy;
use crate::model::ids::{ConsumerId, VolumeId};
use crate::model::mount::disk_users::{
    DeviceUses, FileUse, Holder, KernelUse, NamespaceKeeper, NamespaceUse, Tie,
};
use crate::model::mount::ownership::Machine;
use crate::model::record::VolumeRecord;
use std::collections::BTreeSet;

/// How many users to name.
pub(crate) const NAMED: usize = 4;

/// All users.
pub(crate) fn all_of(users: &DeviceUses) -> Vec<String> {
    let namespaces = users.namespaces.iter().map(namespace);
    let files = users.files.iter().map(file_use);
    let kernel = users.kernel.iter().map(kernel_use);
    namespaces.chain(files).chain(kernel).collect()
}

/// `shop/orders-0 (7a5c…)`, as far as known.
pub(crate) fn labelled(pod: &ConsumerId, label: Option<&str>) -> String {
    match label {
        Some(label) if !label.is_empty() => format!("{label} ({pod})"),
        _ => pod.to_string(),
    }
}

pub(crate) fn cannot_tell(why: &str) -> String {
    format!("who uses the volume cannot be told from here: {why}")
}

/// Why users could not be determined, as the end of a sentence about what is in use.
pub(crate) fn users_untold(why: &str) -> String {
    format!(": by whom cannot be told from here: {why}")
}

/// The first few, and how many more there are.
pub(crate) fn named<T>(all: &[T], words: impl Fn(&T) -> String) -> String {
    let mut text = all.iter().take(NAMED).map(words).collect::<Vec<_>>().join("; ");
    if all.len() > NAMED {
        text += &format!("; and {} more", all.len() - NAMED);
    }
    text
}

pub(crate) fn holder(one: &Holder) -> String {
    // Tenants can have any number of places.
    let mut places: Vec<_> =
        one.places.iter().take(NAMED).map(|place| place.display().to_string()).collect();
    if let Some(more @ 1..) = one.places.len().checked_sub(NAMED) {
        places.push(format!("and {more} more"));
    }
    format!("{} has it at {}", one.process, places.join(", "))
}

pub(crate) fn namespace(one: &NamespaceUse) -> String {
    let id = one.id.map_or_else(|| "a mount namespace".to_owned(), |id| id.to_string());
    let who = match one.processes.as_slice() {
        [] => match (one.user, one.keepers.first()) {
            (_, Some(NamespaceKeeper::OpenIn { process, .. })) => format!("kept open by {process}"),
            (_, Some(NamespaceKeeper::MountedAt { place, .. })) => {
                format!("kept by the mount {}", place.display())
            }
            (_, Some(NamespaceKeeper::Unexamined(process))) => {
                format!("process {process}, which could not be examined, may live there")
            }
            (Some(user), None) => format!("user {user}, and no process lives there"),
            (None, None) => "no process lives there".to_owned(),
        },
        [first] => first.to_string(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    };
    let place = one.mounts.first().map(|mount| mount.target.display().to_string());
    format!("{who} ({id}, at {})", place.unwrap_or_default())
}

pub(crate) fn file_use(one: &FileUse) -> String {
    let how = match one.tie {
        Tie::Descriptor(number) => format!("by descriptor {number}"),
        Tie::Map => "in its memory".to_owned(),
        Tie::WorkingFolder => "as its working folder".to_owned(),
        Tie::RootFolder => "as its root folder".to_owned(),
        Tie::Undescribed => {
            let (process, keeper) = (&one.process, one.path.display());
            return format!("{process} keeps files in {keeper} that may be of this volume");
        }
    };
    format!("{} holds {} {how}", one.process, one.path.display())
}

pub(crate) fn kernel_use(one: &KernelUse) -> String {
    match one {
        KernelUse::Holder { device, name, .. } if name.is_empty() => {
            format!("{device} is made of it")
        }
        KernelUse::Holder { device, name, .. } => format!("{device} ({name}) is made of it"),
        KernelUse::Loop { device, file } => {
            format!("{device} is a loop device on {}", file.display())
        }
        KernelUse::Swap(area) => format!("{} is swapped to", area.display()),
    }
}

/// The namespace without its copies of this node's mounts, if the volume also has a place of its own there.
pub(crate) fn at_its_places(one: &NamespaceUse, machine: &Machine<'_>) -> NamespaceUse {
    let mut shown = one.clone();
    shown.mounts.retain(|mount| machine.folder_under(mount, one).is_none());
    if shown.mounts.is_empty() { one.clone() } else { shown }
}

/// The pods in these namespaces.
pub(crate) fn pods_of(held: &[&NamespaceUse]) -> BTreeSet<ConsumerId> {
    let processes = held.iter().flat_map(|one| &one.processes);
    processes.filter_map(|process| process.owner.pod.clone()).collect()
}

/// The consumers of a volume, by their names for people.
pub(crate) fn given_to(pods: &BTreeSet<ConsumerId>, record: Option<&VolumeRecord>) -> String {
    if pods.is_empty() {
        return "processes that have the volume at a place of their own".to_owned();
    }
    let pods: Vec<_> = pods
        .iter()
        .map(|pod| {
            labelled(pod, record.and_then(|r| r.mounts.consumers.get(pod)).map(String::as_str))
        })
        .collect();
    format!("pods that use the volume, {},", pods.join(", "))
}

/// How a person ends ordinary users' processes.
pub(crate) fn end_of_users(id: Option<&VolumeId>, left: &[&NamespaceUse]) -> String {
    let is_users = |one: &&NamespaceUse| {
        let mut processes = one.processes.iter();
        one.user.is_some()
            && (one.processes.is_empty() || processes.any(|one| one.ordinary_user().is_some()))
    };
    let is_kept = left.iter().any(is_users);
    if is_kept { way_to_end_users(id) } else { String::new() }
}

pub(crate) fn way_to_end_users(id: Option<&VolumeId>) -> String {
    let end = id.map_or_else(|| Remedy::EndUsers.into(), |id| Remedy::EndUsers.of(id));
    format!("; {end} ends what users keep")
}
