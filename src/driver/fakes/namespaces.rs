//! Fake mount namespaces with their processes, and the effect of a heal on them.

use crate::host::files;
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::ConsumerId;
use crate::model::mount::disk_users::{
    Answer, DeviceUses, NamespaceId, NamespaceUse, NamespaceUses, PodUsers, Process, Untold,
};
use crate::model::mount::mountinfo::Mount;
use crate::model::mount::replacement::{Method, MountIntent, ReplacementOutcome, Switched};
use crate::model::record::NamespaceSign;
use crate::ports::clock::Deadline;
use crate::ports::host::{Census, Keeper, Remounts, SwitchRequest};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The node's own.
const OWN: u64 = 0;

/// What other namespaces have and who uses disks, or that it is not visible. A healed namespace has no stale mounts.
#[derive(Debug, Default)]
pub(crate) struct FakeNamespaces {
    pub(crate) is_blind: bool,
    pub(crate) namespaces: RefCell<Vec<NamespaceUse>>,
    pub(crate) untold: Vec<Untold>,
    pub(crate) users: DeviceUses,
    /// What is found of a pod, at successive looks; the last one repeats.
    pub(crate) pod_users: RefCell<VecDeque<PodUsers>>,
    pub(crate) ext_ids: BTreeMap<DeviceNumber, u64>,
    /// How many attempts to open a namespace fail.
    pub(crate) closed: RefCell<BTreeMap<u64, u32>>,
    /// Mounts that cannot be replaced.
    pub(crate) stuck: Vec<PathBuf>,
    /// How many further changes each of them needs, and their size in bytes.
    pub(crate) changes: BTreeMap<PathBuf, (usize, usize)>,
    /// Changes of a killed heal cannot be reverted.
    pub(crate) is_broken: bool,
    /// How often namespaces were searched, and what was done in which.
    pub(crate) looks: Cell<u32>,
    pub(crate) done: RefCell<Vec<String>>,
}

impl FakeNamespaces {
    /// Nothing is visible.
    pub(crate) fn blind() -> Self {
        Self { is_blind: true, ..Self::default() }
    }

    fn answer<T>(&self, told: T) -> Answer<T> {
        if self.is_blind {
            return Answer::CannotTell("this machine is made up".to_owned());
        }
        Answer::Told(told)
    }

    /// The namespaces, with the requested mounts.
    fn with(&self, is_asked: impl Fn(&Mount) -> bool) -> Answer<NamespaceUses> {
        self.looks.set(self.looks.get() + 1);
        let mut namespaces = self.namespaces.borrow().clone();
        for one in &mut namespaces {
            one.mounts.retain(&is_asked);
        }
        namespaces.retain(|one| !one.mounts.is_empty());
        let untold = self.untold.clone();
        self.answer(NamespaceUses { namespaces, untold, later: Vec::new() })
    }
}

impl Census for FakeNamespaces {
    fn sight(&self) -> Answer<()> {
        self.answer(())
    }

    fn allow(&self, _: Duration) {}

    fn own_namespace(&self) -> Result<NamespaceId> {
        Ok(NamespaceId(OWN))
    }

    fn pod_users(&self, _: &ConsumerId, _: &[DeviceNumber], _: NamespaceId) -> Answer<PodUsers> {
        let mut looks = self.pod_users.borrow_mut();
        let now = if looks.len() > 1 { looks.pop_front() } else { looks.front().cloned() };
        self.answer(now.unwrap_or_default())
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
        let mut all = numbers.to_vec();
        for one in self.namespaces.borrow().iter() {
            let is_named = |mount: &&Mount| Path::new(&mount.source).starts_with(sources);
            all.extend(one.mounts.iter().filter(is_named).map(|mount| mount.number));
        }
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

    fn open_namespace(&self, one: &NamespaceUse) -> Result<File> {
        let number = number_of(one);
        if let Some(tries) = self.closed.borrow_mut().get_mut(&number).filter(|tries| **tries > 0) {
            *tries -= 1;
            return Err(Error::new(Kind::Host, "it does not open"));
        }
        Ok(door(number))
    }

    fn sign_of(&self, one: Option<&NamespaceUse>) -> Result<NamespaceSign> {
        Ok(NamespaceSign::of_number(one.map_or(OWN, number_of)))
    }

    fn find_namespace(&self, sign: &NamespaceSign) -> Result<Option<File>> {
        let is_there = self.namespaces.borrow().iter().any(|one| number_of(one) == sign.namespace);
        Ok(is_there.then(|| door(sign.namespace)))
    }
}

fn number_of(one: &NamespaceUse) -> u64 {
    one.id.expect("a namespace with a number").0
}

/// A file that identifies its namespace.
fn door(number: u64) -> File {
    let file = files::in_memory("namespace").unwrap();
    file.write_all_at(&number.to_le_bytes(), 0).unwrap();
    file
}

fn behind(door: Option<&File>) -> u64 {
    let mut bytes = OWN.to_le_bytes();
    if let Some(door) = door {
        door.read_exact_at(&mut bytes, 0).unwrap();
    }
    u64::from_le_bytes(bytes)
}

impl FakeNamespaces {
    fn note(&self, what: &str, namespace: Option<&File>, mounts: usize) {
        self.done.borrow_mut().push(format!("{what} {mounts} in {}", behind(namespace)));
    }
}

impl Remounts for FakeNamespaces {
    fn method(&self) -> Method {
        Method::Beneath
    }

    fn obstacle(&self) -> Option<String> {
        None
    }

    fn switch(&self, request: &SwitchRequest<'_>) -> Result<Vec<Switched>> {
        self.note("switch", request.namespace, request.stale.len());
        let number = behind(request.namespace);
        let mut done = Vec::new();
        for old in request.stale {
            if self.stuck.contains(&old.target) {
                let skipped = ReplacementOutcome::Skipped("busy".to_owned());
                done.push(Switched::new(old, skipped));
                continue;
            }
            done.push(Switched::new(old, ReplacementOutcome::Switched));
            let mut namespaces = self.namespaces.borrow_mut();
            for one in namespaces.iter_mut().filter(|one| number_of(one) == number) {
                one.mounts.retain(|mount| mount.target != old.target);
            }
        }
        Ok(done)
    }

    fn will_change(&self, request: &SwitchRequest<'_>) -> Result<Vec<MountIntent>> {
        self.note("intend", request.namespace, request.stale.len());
        let mut all = Vec::new();
        for (id, old) in (1..).zip(request.stale) {
            let Mount { number, target, .. } = old.clone();
            let (beside, bytes) = self.changes.get(&target).copied().unwrap_or_default();
            let intent = MountIntent { id: None, number, target, propagation: "x".repeat(bytes) };
            let others = (0..beside).map(|_| MountIntent { id: Some(id), ..intent.clone() });
            all.extend(others);
            all.push(intent);
        }
        Ok(all)
    }

    fn set_back(&self, door: Option<&File>, mounts: &[MountIntent], _: Deadline) -> Result<()> {
        self.note("set back", door, mounts.len());
        if self.is_broken {
            return Err(Error::new(Kind::Host, "it is not put right"));
        }
        Ok(())
    }

    fn keep(
        &self,
        door: Option<&File>,
        mounts: &[Mount],
        _: Deadline,
    ) -> Result<Option<Box<dyn Keeper>>> {
        self.note("keep", door, mounts.len());
        Err(Error::new(Kind::Host, "none of them can be reached"))
    }
}
