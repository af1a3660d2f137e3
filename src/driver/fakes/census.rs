//! Processes and namespaces that are made up.

use super::nothing;
use crate::host::Census;
use crate::host::clock::Deadline;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::Result;
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{
    Answer, DeviceUses, NamespaceId, NamespaceUse, NamespaceUses, PodUsers, Process, Untold,
};
use crate::model::mount::mountinfo::Mount;
use crate::model::record::NamespaceSign;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

/// What other namespaces have, and who uses disks; or that it cannot be told.
#[derive(Debug, Default)]
pub(in crate::driver) struct FakeCensus {
    pub(in crate::driver) is_blind: bool,
    pub(in crate::driver) namespaces: Vec<NamespaceUse>,
    pub(in crate::driver) untold: Vec<Untold>,
    pub(in crate::driver) users: DeviceUses,
    pub(in crate::driver) ext_ids: BTreeMap<DeviceNumber, u64>,
}

impl FakeCensus {
    /// One that sees nothing.
    pub(in crate::driver) fn blind() -> Self {
        Self { is_blind: true, ..Self::default() }
    }

    fn answer<T>(&self, told: T) -> Answer<T> {
        if self.is_blind {
            return Answer::CannotTell("this machine is made up".to_owned());
        }
        Answer::Told(told)
    }

    /// The namespaces, with those of their mounts that are asked for.
    fn with(&self, is_asked: impl Fn(&Mount) -> bool) -> Answer<NamespaceUses> {
        let mut namespaces = self.namespaces.clone();
        for one in &mut namespaces {
            one.mounts.retain(&is_asked);
        }
        namespaces.retain(|one| !one.mounts.is_empty());
        let untold = self.untold.clone();
        self.answer(NamespaceUses { namespaces, untold, later: Vec::new() })
    }
}

impl Census for FakeCensus {
    fn sight(&self) -> Answer<()> {
        self.answer(())
    }

    fn own_namespace(&self) -> Result<NamespaceId> {
        nothing()
    }

    fn pod_users(&self, _: &ConsumerId, _: &[DeviceNumber], _: NamespaceId) -> Answer<PodUsers> {
        self.answer(PodUsers::default())
    }

    fn namespaces_with(&self, numbers: &[DeviceNumber]) -> Answer<NamespaceUses> {
        self.with(|mount| numbers.contains(&mount.number))
    }

    fn namespaces_in_time(
        &self,
        numbers: &[DeviceNumber],
        _: &BTreeSet<ConsumerId>,
        _: Deadline,
    ) -> Answer<NamespaceUses> {
        self.namespaces_with(numbers)
    }

    fn namespaces_of(&self, numbers: &[DeviceNumber], sources: &Path) -> Answer<NamespaceUses> {
        let mounts = self.namespaces.iter().flat_map(|one| &one.mounts);
        let named = mounts.filter(|mount| Path::new(&mount.source).starts_with(sources));
        let all: Vec<_> = named.map(|mount| mount.number).chain(numbers.iter().copied()).collect();
        self.namespaces_with(&all)
    }

    fn device_users(&self, _: &[DeviceNumber]) -> Answer<DeviceUses> {
        self.answer(self.users.clone())
    }

    fn tracers_that_stop(&self, _: u32) -> Vec<Process> {
        Vec::new()
    }

    fn ext_file_system_ids(&self) -> Answer<BTreeMap<DeviceNumber, u64>> {
        self.answer(self.ext_ids.clone())
    }

    fn open_namespace(&self, _: &NamespaceUse) -> Result<File> {
        nothing()
    }

    fn sign_of(&self, _: Option<&NamespaceUse>) -> Result<NamespaceSign> {
        nothing()
    }

    fn find_namespace(&self, _: &NamespaceSign) -> Result<Option<File>> {
        nothing()
    }
}
