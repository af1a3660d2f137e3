//! The ports that see processes and namespaces: there are none.

use super::{NoHost, NoProcesses, nothing};
use crate::host::child::FileSystemKeeper;
use crate::host::clock::Deadline;
use crate::host::{Census, Processes, Remounts, SwitchRequest};
use crate::model::disk::device::DeviceNumber;
use crate::model::error::Result;
use crate::model::ids::ConsumerId;
use crate::model::mount::after_heal::Wakeup;
use crate::model::mount::disk_users::{
    Answer, DeviceUses, NamespaceId, NamespaceUse, NamespaceUses, PodUsers, Process,
};
use crate::model::mount::mountinfo::Mount;
use crate::model::mount::replacement::{Method, MountIntent, Switched};
use crate::model::record::NamespaceSign;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

impl NoProcesses {
    fn answer<T: Default>(&self) -> Answer<T> {
        if self.are_seen {
            Answer::Told(T::default())
        } else {
            Answer::CannotTell("this machine is made up".to_owned())
        }
    }
}

impl Census for NoProcesses {
    fn sight(&self) -> Answer<()> {
        self.answer()
    }

    fn own_namespace(&self) -> Result<NamespaceId> {
        nothing()
    }

    fn pod_users(&self, _: &ConsumerId, _: &[DeviceNumber], _: NamespaceId) -> Answer<PodUsers> {
        self.answer()
    }

    fn namespaces_with(&self, _: &[DeviceNumber]) -> Answer<NamespaceUses> {
        self.answer()
    }

    fn namespaces_in_time(
        &self,
        _: &[DeviceNumber],
        _: &BTreeSet<ConsumerId>,
        _: Deadline,
    ) -> Answer<NamespaceUses> {
        self.answer()
    }

    fn namespaces_of(&self, _: &[DeviceNumber], _: &Path) -> Answer<NamespaceUses> {
        self.answer()
    }

    fn device_users(&self, _: &[DeviceNumber]) -> Answer<DeviceUses> {
        self.answer()
    }

    fn tracers_that_stop(&self, _: u32) -> Vec<Process> {
        Vec::new()
    }

    fn ext_file_system_ids(&self) -> Answer<BTreeMap<DeviceNumber, u64>> {
        self.answer()
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

impl Remounts for NoHost {
    fn method(&self) -> Method {
        Method::Stack
    }

    fn switch(&self, _: &SwitchRequest<'_>) -> Result<Vec<Switched>> {
        nothing()
    }

    fn will_change(&self, _: &SwitchRequest<'_>) -> Result<Vec<MountIntent>> {
        nothing()
    }

    fn set_back(&self, _: Option<&File>, _: &[MountIntent], _: Deadline) -> Result<()> {
        nothing()
    }

    fn keep(&self, _: Option<&File>, _: &[Mount], _: Deadline) -> Result<Option<FileSystemKeeper>> {
        nothing()
    }
}

impl Processes for NoHost {
    fn pin(&self, _: u32) -> Result<OwnedFd> {
        unreachable!("nothing is healed in these tests")
    }

    fn signal(&self, _: &OwnedFd, _: Wakeup) -> Result<()> {
        unreachable!("nothing is healed in these tests")
    }

    fn has_ended(&self, _: &OwnedFd) -> bool {
        unreachable!("nothing is healed in these tests")
    }

    fn run(&self, _: &Path, _: &[(&str, String)], _: Deadline) -> Result<String> {
        unreachable!("nothing is healed in these tests")
    }
}
