//! Who uses the volume: the one place where the guard tells containers that were given the volume from those that
//! merely see this node's mounts. `guard/leaked_copies.rs` unmounts the latter.

pub(crate) mod mount_place;
pub(crate) mod words;

use crate::context::Context;
use crate::model::disk::device::DeviceNumber;
use crate::model::ids::{ConsumerId, VolumeId};
use crate::model::mount::disk_users::{Answer, Holder, PodUsers};
use crate::model::mount::ownership::{Machine, NamespaceRole};
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;

/// The pod's processes that use the volume, in whatever cgroup.
pub(super) fn holders_of(
    snapshot: &Snapshot<'_>,
    pod: &ConsumerId,
    numbers: &[DeviceNumber],
) -> Answer<Vec<Holder>> {
    let cx = snapshot.cx;
    let own = match cx.host.census.own_namespace() {
        Ok(own) => own,
        Err(error) => return Answer::CannotTell(error.cause),
    };
    match cx.host.census.pod_users(pod, numbers, own) {
        Answer::Told(PodUsers { holders, has_cgroup: false }) if holders.is_empty() => {
            holders_outside_cgroups(snapshot, pod, numbers)
        }
        Answer::Told(found) => Answer::Told(found.holders),
        Answer::CannotTell(why) => Answer::CannotTell(why),
    }
}

/// Where kubelet makes no cgroups for pods (`--cgroups-per-qos=false`), a container that uses the volume and belongs to
/// no other pod may be this one's.
fn holders_outside_cgroups(
    snapshot: &Snapshot<'_>,
    pod: &ConsumerId,
    numbers: &[DeviceNumber],
) -> Answer<Vec<Holder>> {
    let cx = snapshot.cx;
    let uses = match cx.host.census.namespaces_with(numbers) {
        Answer::Told(uses) => uses,
        Answer::CannotTell(why) => return Answer::CannotTell(why),
    };
    if uses.namespaces.is_empty() {
        return Answer::Told(Vec::new());
    }
    let table = match cx.host.mounts.table() {
        Ok(table) => table,
        Err(error) => return Answer::CannotTell(error.cause),
    };
    let record = snapshot.record();
    let machine = Machine::new(cx.faces, &table, record.as_ref(), numbers);
    let given = uses.namespaces.iter();
    let given = given.filter(|one| machine.role(one) == NamespaceRole::Claim);
    let holders = given.flat_map(|one| {
        let places: Vec<_> = one.mounts.iter().map(|mount| mount.target.clone()).collect();
        let its = one.processes.iter().filter(|process| {
            // A namespace that a user made for himself is no container.
            let is_users = one.user.is_some() && process.ordinary_user().is_some();
            !is_users && process.owner.pod.as_ref().is_none_or(|other| other == pod)
        });
        its.map(move |process| Holder { process: process.clone(), places: places.clone() })
    });
    Answer::Told(holders.collect())
}

/// Whether a process of the pod still uses the volume; true if that is uncertain.
pub(crate) fn may_have_it(cx: &Context<'_>, id: &VolumeId, pod: &ConsumerId) -> bool {
    let snapshot = Snapshot::of(cx, Some(id));
    match holders_of(&snapshot, pod, &snapshot.numbers(&[])) {
        Answer::Told(holders) => !holders.is_empty(),
        Answer::CannotTell(_) => true,
    }
}

/// The recorded pods of the volume.
pub(crate) fn consumers_of(cx: &Context<'_>, id: &VolumeId) -> BTreeSet<ConsumerId> {
    let record = cx.store.records.load(id);
    record.mounts.consumers.into_keys().chain(record.mounts.published.into_keys()).collect()
}
