//! Ports for unit tests: they behave, they do not record calls.

mod cloud;
mod devices;
mod file_systems;
mod made_up;
mod map;
mod mounts;
mod namespaces;
mod no_host;

pub(in crate::driver) use self::cloud::FakeCloud;
pub(in crate::driver) use self::devices::FakeDevices;
pub(in crate::driver) use self::file_systems::FakeFileSystems;
pub(in crate::driver) use self::made_up::MadeUp;
pub(in crate::driver) use self::map::{FakeJournal, FakeMap};
pub(in crate::driver) use self::mounts::FakeMounts;
pub(in crate::driver) use self::namespaces::FakeNamespaces;
pub(in crate::driver) use self::no_host::NoHost;

use crate::driver::lookup::attachment_view::Attachments;
use crate::driver::lookup::find_disk::Disks;
use crate::host::clock::Deadline;
use crate::host::records::Records;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::NodeName;

/// The disks of a node that is called `here`.
pub(super) fn with_disks<T>(
    cloud: &FakeCloud,
    devices: &FakeDevices,
    records: &Records,
    deadline: Deadline,
    work: impl FnOnce(&Disks<'_>) -> T,
) -> T {
    let this_node = &NodeName::parse("here").unwrap();
    let attachments = &Attachments { cloud, answers: None, pace: None, deadline, this_node };
    let mounts = &FakeMounts::default();
    work(&Disks { cloud, devices, mounts, records, this_node, deadline, attachments })
}

/// Where nothing is made up.
fn nothing<T>() -> Result<T> {
    Err(Error::new(Kind::Host, "this machine is made up"))
}
