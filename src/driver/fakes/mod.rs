//! Fake ports for unit tests: they behave, and do not record calls.

mod cloud;
mod devices;
mod file_systems;
mod made_up;
mod mounts;
mod namespaces;
mod no_host;

pub(crate) use self::cloud::FakeCloud;
pub(crate) use self::devices::FakeDevices;
pub(crate) use self::file_systems::FakeFileSystems;
pub(crate) use self::made_up::MadeUp;
pub(crate) use self::mounts::FakeMounts;
pub(crate) use self::namespaces::FakeNamespaces;
pub(crate) use self::no_host::NoHost;
pub(crate) use crate::host::machine::boot_id;

use crate::host::records::RecordFiles;
use crate::model::disk::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::model::record::DiskMoment;

/// The records in a test's directory.
pub(crate) fn records_in(folder: &tempfile::TempDir) -> RecordFiles {
    RecordFiles::below(&folder.path().join("state"), &folder.path().join("run"))
}

/// The disk as it is now, on the machine that runs these tests.
pub(crate) fn moment(disk: &Device) -> DiskMoment {
    let Device { number, sequence, size, .. } = *disk;
    DiskMoment { number, sequence, size, boot: boot_id() }
}

/// What has no fake.
fn nothing<T>() -> Result<T> {
    Err(Error::new(Kind::Host, "this machine is made up"))
}
