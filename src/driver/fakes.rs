//! Ports for unit tests: they behave, they do not record calls.

mod cloud;
mod devices;
mod file_systems;
mod made_up;
mod map;
mod mounts;
mod namespaces;
mod no_host;

pub(crate) use self::cloud::FakeCloud;
pub(crate) use self::devices::FakeDevices;
pub(crate) use self::file_systems::FakeFileSystems;
pub(crate) use self::made_up::MadeUp;
pub(crate) use self::map::{FakeJournal, FakeMap};
pub(crate) use self::mounts::FakeMounts;
pub(crate) use self::namespaces::FakeNamespaces;
pub(crate) use self::no_host::NoHost;

use crate::host::clock::Deadline;
use crate::host::records::Records;
use crate::lookup::attachment_view::Attachments;
use crate::lookup::find_disk::Disks;
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
