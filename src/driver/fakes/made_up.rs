//! A context on a fake node.

use super::{FakeCloud, FakeDevices, FakeFileSystems, FakeMounts, FakeNamespaces, NoHost};
use crate::attachment::detach::{self, Force};
use crate::call_counts::CallCounts;
use crate::host::locks::LockFiles;
use crate::host::machine::ThisMachine;
use crate::host::pace::PaceFile;
use crate::host::records::RecordFiles;
use crate::host::shared_answers::AnswerFiles;
use crate::model::face::{Faces, OF_TESTS};
use crate::model::ids::{NodeName, VolumeId};
use crate::model::mount::after_heal::After;
use crate::model::policy::{GuardPolicy, HealMode, ShieldPolicy, Takeover};
use crate::ports::clock::Deadline;
use crate::shield::{NoShield, Shield};
use crate::{Context, Host, Policy, Store};
use std::time::Duration;

/// The parts of the fake node. Its directory is kept from one call to the next.
pub(crate) struct MadeUp<'a> {
    pub(crate) cloud: &'a FakeCloud,
    pub(crate) devices: &'a FakeDevices,
    pub(crate) shield_hooks: &'a dyn Shield,
    pub(crate) file_systems: FakeFileSystems,
    pub(crate) mounts: FakeMounts,
    pub(crate) namespaces: FakeNamespaces,
    pub(crate) node: &'a str,
    pub(crate) guard: GuardPolicy,
    pub(crate) heal: HealMode,
    pub(crate) shield: ShieldPolicy,
    pub(crate) limit: Duration,
    pub(crate) folder: tempfile::TempDir,
}

impl<'a> MadeUp<'a> {
    /// The node `here`, where nothing is mounted and everything is visible.
    pub(crate) fn with(cloud: &'a FakeCloud, devices: &'a FakeDevices) -> Self {
        Self {
            cloud,
            devices,
            shield_hooks: &NoShield,
            file_systems: FakeFileSystems::default(),
            mounts: FakeMounts::default(),
            namespaces: FakeNamespaces::default(),
            node: "here",
            guard: GuardPolicy::default(),
            heal: HealMode::Off,
            shield: ShieldPolicy::default(),
            limit: Duration::from_secs(5),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn records(&self) -> RecordFiles {
        super::records_in(&self.folder)
    }

    /// The answer to a detach of `v-1` from this node, and how many requests that made.
    pub(crate) fn detached(&self) -> (Option<String>, u32) {
        let (id, node) = (VolumeId::parse("v-1").unwrap(), NodeName::parse(self.node).unwrap());
        let told = self.drive(|cx| detach::detach(cx, &id, Some(&node), Force::No));
        (told.err().map(|error| error.cause), self.cloud.requests.get())
    }

    pub(crate) fn drive<T>(&self, work: impl FnOnce(&Context<'_>) -> T) -> T {
        let folder = self.folder.path();
        work(&Context {
            cloud: self.cloud,
            host: Host {
                devices: self.devices,
                shield: self.shield_hooks,
                file_systems: &self.file_systems,
                mounts: &self.mounts,
                remounts: &self.namespaces,
                census: &self.namespaces,
                processes: &NoHost,
                kubelets: &NoHost,
                environment: &ThisMachine,
            },
            store: Store {
                records: &self.records(),
                locks: &LockFiles::below(folder),
                answers: &AnswerFiles::below(folder, ""),
                pace: &PaceFile::below(folder),
                scratch: folder,
            },
            policy: Policy {
                guard: &self.guard,
                heal: self.heal,
                shield: &self.shield,
                after: &After::Nothing,
                takeover: Takeover::Off,
            },
            this_node: &NodeName::parse(self.node).unwrap(),
            faces: Faces::default(),
            face: &OF_TESTS.0[0],
            operation: "test",
            deadline: Deadline::after(self.limit),
            counts: &CallCounts::default(),
        })
    }
}
