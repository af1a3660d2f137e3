//! The driver on a machine that is made up.

use super::{FakeCloud, FakeDevices, FakeFileSystems, FakeMounts, FakeNamespaces, NoHost};
use crate::call_counts::CallCounts;
use crate::host::Maps;
use crate::host::clock::Deadline;
use crate::host::locks::Locks;
use crate::host::pace::Pace;
use crate::host::records::Records;
use crate::host::shared_answers::Answers;
use crate::model::face::{Faces, OF_TESTS};
use crate::model::ids::NodeName;
use crate::model::mount::after_heal::After;
use crate::model::policy::{GuardPolicy, HealMode, ShieldPolicy, Takeover};
use crate::{Driver, Ports, with_driver};
use std::time::Duration;

/// What a call works with there.
pub(crate) struct MadeUp<'a> {
    pub(crate) cloud: &'a FakeCloud,
    pub(crate) devices: &'a FakeDevices,
    pub(crate) maps: &'a dyn Maps,
    pub(crate) file_systems: FakeFileSystems,
    pub(crate) mounts: FakeMounts,
    pub(crate) namespaces: FakeNamespaces,
    pub(crate) node: &'a str,
    pub(crate) guard: GuardPolicy,
    pub(crate) limit: Duration,
}

impl<'a> MadeUp<'a> {
    /// The node that is called `here`, where nothing is mounted and all can be seen.
    pub(crate) fn with(cloud: &'a FakeCloud, devices: &'a FakeDevices) -> Self {
        Self {
            cloud,
            devices,
            maps: &NoHost,
            file_systems: FakeFileSystems::default(),
            mounts: FakeMounts::default(),
            namespaces: FakeNamespaces::default(),
            node: "here",
            guard: GuardPolicy::default(),
            limit: Duration::from_secs(5),
        }
    }

    pub(crate) fn drive<T>(&self, work: impl FnOnce(&Driver<'_>) -> T) -> T {
        let folder = tempfile::tempdir().unwrap();
        let ports = Ports {
            cloud: self.cloud,
            devices: self.devices,
            maps: self.maps,
            file_systems: &self.file_systems,
            mounts: &self.mounts,
            records: &Records::below(&folder.path().join("state"), &folder.path().join("run")),
            answers: &Answers::below(folder.path(), ""),
            pace: &Pace::below(folder.path()),
            locks: &Locks::below(folder.path()),
            this_node: &NodeName::parse(self.node).unwrap(),
            takeover: Takeover::Off,
            census: &self.namespaces,
            remounts: &self.namespaces,
            after: &After::Nothing,
            kubelets: &NoHost,
            processes: &NoHost,
            heal: HealMode::Off,
            shield: &ShieldPolicy::default(),
            scratch: folder.path(),
            guard: &self.guard,
            operation: "test",
            counts: &CallCounts::default(),
            faces: Faces::default(),
            face: &OF_TESTS.0[0],
            deadline: Deadline::after(self.limit),
        };
        with_driver(&ports, work)
    }
}
