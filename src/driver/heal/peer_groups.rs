//! With whom mounts shared and whom they followed: their new ones go where those are now.

use crate::driver::heal::recovery::Recovery;
use crate::host::clock::Deadline;
use crate::host::records::Records;
use crate::host::{Census, Mounts, PeerGroup, Remounts, SwitchRequest};
use crate::model::disk::device::Device;
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::mount::disk_users::{NamespaceId, NamespaceUse};
use crate::model::mount::mountinfo::Mount;
use crate::model::mount::replacement::{Propagation, Switched, group_of};
use crate::model::record::Switching;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// What is known of it at the beginning of a round.
pub(in crate::driver) struct PeerGroupState {
    own: Option<NamespaceId>,
    was: Vec<Switching>,
    group: Option<u32>,
    /// A mount of the machine's own that has come to the group's place.
    peer: Option<File>,
}

impl PeerGroupState {
    /// Old mounts with the propagation that they had before an interrupted heal: what they shared
    /// with or followed may be gone with what that has switched.
    fn as_they_were(&self, namespace: Option<NamespaceId>, mounts: &[Mount]) -> Vec<Mount> {
        let known = of(&self.was, namespace).map_or(&[][..], |one| &one.mounts);
        let as_it_was = |mount: &Mount| {
            let was = known.iter().find(|was| was.id.is_none() && was.target == mount.target);
            let propagation = was.map_or(&mount.propagation, |was| &was.propagation).clone();
            Mount { propagation, ..mount.clone() }
        };
        mounts.iter().map(as_it_was).collect()
    }

    /// The group with who stands for it.
    fn group<'f>(&self, peer: Option<&'f File>) -> Option<PeerGroup<'f>> {
        self.group.zip(peer).map(|(number, peer)| PeerGroup { number, place: peer.as_fd() })
    }
}

fn of(was: &[Switching], namespace: Option<NamespaceId>) -> Option<&Switching> {
    was.iter().find(|one| Some(NamespaceId(one.sign.namespace)) == namespace)
}

/// The peer groups of replaced mounts.
pub(in crate::driver) struct PeerGroups<'a> {
    pub(in crate::driver) mounts: &'a dyn Mounts,
    pub(in crate::driver) records: &'a Records,
    pub(in crate::driver) census: &'a dyn Census,
    pub(in crate::driver) remounts: &'a dyn Remounts,
}

impl PeerGroups<'_> {
    /// The peer group that the machine's own old mounts were in, those included that an interrupted
    /// heal has switched already. All of it was written down before anything was switched.
    pub(in crate::driver) fn group_state(&self, id: &VolumeId, disk: &Device) -> PeerGroupState {
        let was = Recovery::switching(&self.records.load(id));
        let own = self.census.own_namespace().ok();
        // What they stand on is in groups of its own.
        let mounts = of(&was, own).into_iter().flat_map(|one| &one.mounts);
        let shared: Vec<(u32, &PathBuf)> = mounts
            .filter(|mount| mount.id.is_none())
            .filter_map(|mount| Some((group_of(&mount.propagation, "shared:")?, &mount.target)))
            .collect();
        let group = shared.first().map(|(group, _)| *group);
        let places = shared.iter().filter(|(of, _)| Some(*of) == group).map(|(_, place)| *place);
        let has_come = |place: &PathBuf| {
            let look = self.mounts.standing_at(place).ok()?;
            let top = look.top().ok()??;
            let is_peer = top.number == disk.number
                && top.root == Path::new("/")
                && Propagation::of(top).is_shared;
            is_peer.then(|| self.mounts.open_root(top).ok())?
        };
        let peer = places.clone().find_map(has_come);
        PeerGroupState { own, was, group, peer }
    }

    /// Switches the machine's own mounts: those first whose new one came already, under the old one,
    /// for in what it shares with the others are to be.
    pub(in crate::driver) fn switch_own(
        &self,
        id: &VolumeId,
        disk: &Device,
        own: &[Mount],
        fresh: &File,
        deadline: Deadline,
    ) -> Result<Vec<Switched>> {
        let table = self.mounts.table()?;
        let has_come = |old: &Mount| {
            table.mounts().iter().any(|below| {
                below.id == old.parent && below.number == disk.number && below.target == old.target
            })
        };
        let (halves, others): (Vec<Mount>, Vec<Mount>) =
            own.iter().cloned().partition(|old| has_come(old));
        let mut done = Vec::new();
        for part in [halves, others].iter().filter(|part| !part.is_empty()) {
            let group_state = self.group_state(id, disk);
            done.extend(self.remounts.switch(&SwitchRequest {
                namespace: None,
                stale: &group_state.as_they_were(group_state.own, part),
                fresh: fresh.as_fd(),
                group: group_state.group(group_state.peer.as_ref().or(Some(fresh))),
                deadline,
            })?);
        }
        Ok(done)
    }

    /// Switches the mounts of another namespace.
    pub(in crate::driver) fn switch_in(
        &self,
        group_state: &PeerGroupState,
        one: &NamespaceUse,
        fresh: &File,
        deadline: Deadline,
    ) -> Result<Vec<Switched>> {
        let door = self.census.open_namespace(one)?;
        self.remounts.switch(&SwitchRequest {
            namespace: Some(&door),
            stale: &group_state.as_they_were(one.id, &one.mounts),
            fresh: fresh.as_fd(),
            group: group_state.group(group_state.peer.as_ref()),
            deadline,
        })
    }
}
