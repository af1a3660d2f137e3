//! Turn observations of a volume into facts for people.

use crate::context::Context;
use crate::model::face::Faces;
use crate::model::ids::{ConsumerId, ServerId, VolumeName};
use crate::model::mount::layout::FolderKind;
use crate::model::mount::mountinfo::Mount;
use crate::model::record::VolumeRecord;
use crate::model::report::facts::{CloudFact, CloudView, MountFact, PodFact, RefusalFact, Role};
use crate::model::report::refusal::Refusal;
use crate::model::report::tear_down::TearDown;
use crate::ports::cloud::CloudVolume;
use std::collections::BTreeSet;

/// The role of a mount in this node's namespace: by its path, otherwise by the record.
pub(crate) fn own_role(
    faces: Faces,
    mount: &Mount,
    record: Option<&VolumeRecord>,
) -> (Role, Option<ConsumerId>) {
    match faces.place_of(&mount.target) {
        Some((FolderKind::Stage, _)) => (Role::Global, None),
        Some((FolderKind::Consumer(uid) | FolderKind::Part(uid), _)) => (Role::Pod, Some(uid)),
        None => {
            let Some(record) = record else { return (Role::Machine, None) };
            match record.mounts.published_folders().find(|(_, folder)| *folder == mount.target) {
                Some((uid, _)) => (Role::Pod, Some(uid.clone())),
                None if record.mounts.staged.as_ref().is_some_and(|s| s.folder == mount.target) => {
                    (Role::Global, None)
                }
                None => (Role::Machine, None),
            }
        }
    }
}

pub(crate) fn name_of(
    faces: Faces,
    record: Option<&VolumeRecord>,
    cloud: &CloudFact,
    mounts: &[MountFact],
) -> Option<VolumeName> {
    let recorded = match cloud {
        CloudFact::Known(view) => view.recorded_name.clone(),
        CloudFact::Unknown { .. } | CloudFact::Missing => None,
    };
    let folder = || mounts.iter().find_map(|mount| Some(faces.place_of(&mount.place)?.1));
    record.and_then(|record| record.name.clone()).or(recorded).or_else(folder)
}

pub(crate) fn pods_of(record: Option<&VolumeRecord>, mounts: &[MountFact]) -> Vec<PodFact> {
    let of_pods = mounts.iter().filter(|mount| mount.role != Role::Stranger);
    let having: BTreeSet<_> = of_pods.filter_map(|mount| mount.pod.clone()).collect();
    let consumers = record.map(|record| record.mounts.consumers.clone()).unwrap_or_default();
    let all: BTreeSet<_> = having.iter().chain(consumers.keys()).cloned().collect();
    let pod = |uid: ConsumerId| PodFact {
        name: consumers.get(&uid).filter(|name| !name.is_empty()).cloned(),
        has_it: having.contains(&uid),
        uid,
    };
    all.into_iter().map(pod).collect()
}

pub(crate) fn refusals_of(cx: &Context<'_>, record: &VolumeRecord) -> Vec<RefusalFact> {
    let now = cx.host.environment.uptime();
    let words = |refusal: &Refusal| cx.faces.words_of(refusal.face.as_ref());
    let fact = |(tear_down, refusal): (&TearDown, &Refusal)| RefusalFact {
        what: words(refusal).name(tear_down),
        told: words(refusal).told(tear_down, |pod| record.mounts.consumers.get(pod).cloned()),
        operation: words(refusal).operation(tear_down),
        tear_down: tear_down.clone(),
        reason: refusal.reason.clone(),
        since: refusal.since,
        last: refusal.last,
        count: refusal.count,
        is_current: refusal.is_current(&now),
    };
    record.guard.refused.iter().map(fact).collect()
}

pub(crate) fn view(volume: CloudVolume, server: Option<&ServerId>) -> CloudView {
    let is_here = server.is_some_and(|server| volume.attachment_to(server).is_some());
    let servers = volume.attachments.iter().map(|one| (one.server.to_string(), one.since.clone()));
    let beside = || volume.mounted_beside.first().cloned();
    CloudView {
        servers: servers.collect(),
        status: volume.status,
        size: volume.size,
        name: volume.name,
        recorded_name: volume.recorded_name,
        mounted_on: volume.mounted_on.or_else(beside).map(|server| server.to_string()),
        life: volume.life,
        origin: volume.origin,
        is_encrypted: volume.is_encrypted,
        here: server.map(ToString::to_string),
        is_here,
    }
}
