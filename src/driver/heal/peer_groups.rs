//! Peer groups and masters of stale mounts: the new mounts join them.
use crate::context::Context;
use crate::heal::recovery;
use crate::model::disk::device::{Device, DeviceNumber};
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{NamespaceId, NamespaceUse};
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::replacement::{Propagation, Switched, group_of};
use crate::model::record::Switching;
use crate::ports::clock::Deadline;
use crate::ports::host::{PeerGroup, SwitchRequest};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The state at the beginning of a round.
pub(crate) struct PeerGroupState {
    own: Option<NamespaceId>,
    was: Vec<Switching>,
    group: Option<u32>,
    /// One of this node's mounts that has already joined the group.
    peer: Option<File>,
}

impl PeerGroupState {
    /// Stale mounts with their propagation from before an interrupted heal; their peers or masters may be gone since.
    fn as_they_were(&self, namespace: Option<NamespaceId>, mounts: &[Mount]) -> Vec<Mount> {
        let known = of(&self.was, namespace).map_or(&[][..], |one| &one.mounts);
        let as_it_was = |mount: &Mount| {
            let was = known.iter().find(|was| was.id.is_none() && was.target == mount.target);
            let propagation = was.map_or(&mount.propagation, |was| &was.propagation).clone();
            Mount { propagation, ..mount.clone() }
        };
        mounts.iter().map(as_it_was).collect()
    }

    /// The group and its current representative.
    fn group<'f>(&self, peer: Option<&'f File>) -> Option<PeerGroup<'f>> {
        self.group.zip(peer).map(|(number, peer)| PeerGroup { number, place: peer.as_fd() })
    }
}

fn of(was: &[Switching], namespace: Option<NamespaceId>) -> Option<&Switching> {
    was.iter().find(|one| Some(NamespaceId(one.sign.namespace)) == namespace)
}

/// Whether a mount shares the whole new file system.
fn stands_for_group(top: &Mount, disk: DeviceNumber) -> bool {
    top.number == disk && top.root == Path::new("/") && Propagation::of(top).is_shared
}

/// Whether a stale mount already has its new one beneath.
fn has_come_beneath(old: &Mount, table: &MountTable, disk: DeviceNumber) -> bool {
    table
        .mounts()
        .iter()
        .any(|below| below.id == old.parent && below.number == disk && below.target == old.target)
}

/// The peer group of this node's own stale mounts, including those that an interrupted heal has replaced. All of it was
/// recorded before anything was replaced.
pub(crate) fn group_state(cx: &Context<'_>, id: &VolumeId, disk: &Device) -> PeerGroupState {
    let was = recovery::switching(cx, &cx.store.records.load(id));
    let own = cx.host.census.own_namespace().ok();
    // Their parents are in groups of their own.
    let mounts = of(&was, own).into_iter().flat_map(|one| &one.mounts);
    let shared: Vec<(u32, &PathBuf)> = mounts
        .filter(|mount| mount.id.is_none())
        .filter_map(|mount| Some((group_of(&mount.propagation, "shared:")?, &mount.target)))
        .collect();
    let group = shared.first().map(|(group, _)| *group);
    let places = shared.iter().filter(|(of, _)| Some(*of) == group).map(|(_, place)| *place);
    let has_come = |place: &PathBuf| {
        let look = cx.host.mounts.standing_at(place).ok()?;
        let top = look.top().ok()??;
        stands_for_group(top, disk.number).then(|| cx.host.mounts.open_root(top).ok())?
    };
    let peer = places.clone().find_map(has_come);
    PeerGroupState { own, was, group, peer }
}

/// Replaces this node's own mounts. Those that already have a new mount beneath come first, because the others join its
/// group.
pub(crate) fn switch_own(
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &Device,
    own: &[Mount],
    fresh: &File,
    deadline: Deadline,
) -> Result<Vec<Switched>> {
    let table = cx.host.mounts.table()?;
    let (halves, others): (Vec<Mount>, Vec<Mount>) =
        own.iter().cloned().partition(|old| has_come_beneath(old, &table, disk.number));
    let mut done = Vec::new();
    for part in [halves, others].iter().filter(|part| !part.is_empty()) {
        let group_state = group_state(cx, id, disk);
        done.extend(cx.host.remounts.switch(&SwitchRequest {
            namespace: None,
            stale: &group_state.as_they_were(group_state.own, part),
            fresh: fresh.as_fd(),
            group: group_state.group(group_state.peer.as_ref().or(Some(fresh))),
            deadline,
        })?);
    }
    Ok(done)
}

/// Replaces the mounts in another namespace.
pub(crate) fn switch_in(
    cx: &Context<'_>,
    group_state: &PeerGroupState,
    one: &NamespaceUse,
    fresh: &File,
    deadline: Deadline,
) -> Result<Vec<Switched>> {
    let door = cx.host.census.open_namespace(one)?;
    cx.host.remounts.switch(&SwitchRequest {
        namespace: Some(&door),
        stale: &group_state.as_they_were(one.id, &one.mounts),
        fresh: fresh.as_fd(),
        group: group_state.group(group_state.peer.as_ref()),
        deadline,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::mount::replacement::MountIntent;
    use crate::model::record::NamespaceSign;

    const NUMBER: DeviceNumber = DeviceNumber { major: 254, minor: 16 };

    fn intent(id: Option<u32>, target: &str, propagation: &str) -> MountIntent {
        let propagation = propagation.to_owned();
        MountIntent { id, number: NUMBER, target: target.into(), propagation }
    }

    fn switching(namespace: u64, mounts: Vec<MountIntent>) -> Switching {
        Switching { boot: "boot".to_owned(), sign: NamespaceSign::of_number(namespace), mounts }
    }

    #[test]
    fn what_an_interrupted_heal_wrote_of_a_mount_tells_what_it_shared_with() {
        let noted =
            vec![intent(None, "/data", "shared:5 "), intent(Some(30), "/beneath", "shared:6 ")];
        let was = vec![switching(2, vec![intent(None, "/data", "master:9 ")]), switching(1, noted)];
        let state = PeerGroupState { own: Some(NamespaceId(1)), was, group: Some(5), peer: None };
        let mounts = ["/data", "/beneath", "/other"]
            .map(|target| Mount::of_a_test("254:16", target, "shared:1 "));
        let shared_with = |namespace: Option<u64>| {
            let all = state.as_they_were(namespace.map(NamespaceId), &mounts);
            let targets = all.iter().map(|one| one.target.clone());
            assert!(targets.eq(mounts.iter().map(|one| one.target.clone())));
            all.into_iter().map(|one| one.propagation.trim().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(shared_with(Some(1)), ["shared:5", "shared:1", "shared:1"]);
        assert_eq!(shared_with(Some(2)), ["master:9", "shared:1", "shared:1"]);
        assert_eq!(shared_with(Some(3)), ["shared:1"; 3], "nothing is noted of that one");
        assert_eq!(shared_with(None), ["shared:1"; 3]);
    }

    #[test]
    fn a_whole_mount_of_the_disk_that_shares_stands_for_its_group() {
        let whole = Mount::of_a_test("254:16", "/data", "shared:5 ");
        assert!(stands_for_group(&whole, NUMBER));
        assert!(!stands_for_group(&whole, DeviceNumber { major: 254, minor: 32 }));
        assert!(!stands_for_group(&Mount { root: "/sub".into(), ..whole }, NUMBER));
        assert!(!stands_for_group(&Mount::of_a_test("254:16", "/data", "master:5 "), NUMBER));
    }

    #[test]
    fn an_old_mount_whose_new_one_came_stands_on_that() {
        let table = MountTable::parse(
            b"30 1 254:16 / /data rw - ext4 s rw\n\
              31 1 254:16 / /other rw - ext4 s rw\n\
              32 1 0:5 / /data rw - tmpfs t rw\n",
        )
        .unwrap();
        let on = |parent, target: &str| {
            let old = Mount { parent, ..Mount::of_a_test("254:0", target, "") };
            has_come_beneath(&old, &table, NUMBER)
        };
        assert!(on(30, "/data"));
        assert!(!on(30, "/data/sub") && !on(31, "/data"), "it stands in another one");
        assert!(!on(32, "/data"), "another file system's");
        assert!(!on(1, "/data"));
    }

    #[test]
    fn a_group_is_joined_only_where_a_mount_stands_for_it() {
        let place = tempfile::tempfile().unwrap();
        let of = |group| PeerGroupState { own: None, was: Vec::new(), group, peer: None };
        assert_eq!(of(Some(5)).group(Some(&place)).map(|group| group.number), Some(5));
        assert!(of(Some(5)).group(None).is_none());
        assert!(of(None).group(Some(&place)).is_none());
    }
}
