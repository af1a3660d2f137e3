//! Ports for unit tests: they behave, they do not record calls.

mod cloud;
mod made_up;
mod map;
mod no_host;

pub(in crate::driver) use self::cloud::FakeCloud;
pub(in crate::driver) use self::made_up::MadeUp;
pub(in crate::driver) use self::map::{FakeJournal, FakeMap};

use crate::driver::lookup::attachment_view::Attachments;
use crate::driver::lookup::find_disk::Disks;
use crate::host::clock::Deadline;
use crate::host::records::Records;
use crate::host::{
    AboveDisk, Devices, Events, FileSystems, Held, Hidden, Maps, MountRequest, Mounts,
    NewFileSystem,
};
use crate::model::disk::contents::{Contents, FsType};
use crate::model::disk::device::{Device, DeviceNumber, Identity, Link, LinkFault, Proof, Shown};
use crate::model::disk::exclusive_open::ExclusiveOpen;
use crate::model::disk::journal::sights::{JournalMark, JournalSights};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, VolumeId};
use crate::model::mount::layout::Target;
use crate::model::mount::mount_place::Look;
use crate::model::mount::mountinfo::{Mount, MountTable};
use crate::model::mount::staleness::Presence;
use crate::model::shield::own_map::OwnMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Disks that show what they are given.
#[derive(Debug, Default)]
pub(super) struct FakeDevices {
    pub(super) disks: Vec<(Device, Shown)>,
    /// Whether they can be held.
    pub(super) opens: bool,
    pub(super) is_used: bool,
    /// Why they cannot be looked for, and whether that is for want of `/dev`.
    pub(super) unread: Option<&'static str>,
    pub(super) is_out_of_sight: bool,
}

impl FakeDevices {
    /// A disk that shows this serial.
    pub(super) fn with(mut self, kernel_name: &str, size: u64, serial: &str) -> Self {
        let minor = u32::try_from(self.disks.len()).unwrap() * 16;
        let device = Device {
            kernel_name: kernel_name.to_owned(),
            number: DeviceNumber { major: 253, minor },
            size,
            read_only: false,
            sequence: Some(u64::from(minor)),
            proof: Proof::Cut,
        };
        self.disks.push((device, Shown::Serial { file: "serial", text: serial.to_owned() }));
        self
    }
}

/// The disks of a node that is called `here`.
pub(super) fn with_disks<T>(
    cloud: &FakeCloud,
    devices: &FakeDevices,
    records: &Records,
    deadline: Deadline,
    work: impl FnOnce(&Disks<'_>) -> T,
) -> T {
    let attachments = &Attachments { cloud, answers: None, pace: None, deadline };
    let this_node = &NodeName::parse("here").unwrap();
    work(&Disks { cloud, devices, records, this_node, deadline, attachments })
}

struct Silence;

impl Events for Silence {
    fn wait(&mut self, at_most: Duration) {
        std::thread::sleep(at_most.min(Duration::from_millis(1)));
    }

    fn wait_beside(&mut self, at_most: Duration, _: std::os::fd::BorrowedFd<'_>) -> bool {
        self.wait(at_most);
        false
    }
}

impl Devices for FakeDevices {
    fn are_out_of_sight(&self) -> bool {
        self.is_out_of_sight
    }

    fn search(&self, wanted: &Identity) -> Result<Vec<Device>> {
        if let Some(why) = self.unread {
            return Err(Error::new(Kind::Host, why));
        }
        let proven = self.disks.iter().filter_map(|(device, shown)| {
            let proof = wanted.proven_by(std::slice::from_ref(shown))?;
            Some(Device { proof, ..device.clone() })
        });
        Ok(proven.collect())
    }

    fn check(&self, _: &Identity, _: &Device) -> Result<()> {
        Ok(())
    }

    fn hold(&self, _: &Identity, _: &Device) -> Result<Held> {
        if self.opens {
            return Ok(Held::new(File::open("/dev/null").unwrap()));
        }
        Err(Error::new(Kind::Host, "a made-up disk cannot be opened"))
    }

    fn shown_by(&self, number: DeviceNumber) -> Result<Option<Vec<Shown>>> {
        let found = self.disks.iter().find(|(device, _)| device.number == number);
        Ok(found.map(|(_, shown)| vec![shown.clone()]))
    }

    fn watch(&self) -> Box<dyn Events> {
        Box::new(Silence)
    }

    fn link_faults(&self, _: &Identity, _: &Path) -> Vec<LinkFault> {
        Vec::new()
    }

    fn links(&self, _: &Identity, _: &Path) -> Vec<Link> {
        Vec::new()
    }

    fn udev_says(&self, _: &Identity) -> Vec<String> {
        Vec::new()
    }

    fn presence(&self, number: DeviceNumber, wanted: &Identity) -> Result<Presence> {
        Ok(match self.shown_by(number)? {
            None => Presence::Absent,
            Some(shown) if wanted.proven_by(&shown).is_some() => Presence::Own,
            Some(_) => Presence::Other("another serial".to_owned()),
        })
    }

    fn is_gone(&self, number: DeviceNumber) -> Result<bool> {
        Ok(self.shown_by(number)?.is_none())
    }

    fn objection(&self, _: &Device) -> Result<Option<String>> {
        Ok(None)
    }

    fn exclusive_open(&self, _: &Device) -> Result<ExclusiveOpen> {
        Ok(if self.is_used { ExclusiveOpen::InUse } else { ExclusiveOpen::Free })
    }

    fn disk_at(&self, number: DeviceNumber) -> Result<Option<Device>> {
        Ok(self.disks.iter().map(|(disk, _)| disk).find(|disk| disk.number == number).cloned())
    }

    fn rescan(&self, _: &Device) -> Result<()> {
        Ok(())
    }

    fn tidy(&self, _: &VolumeId) {}
}

/// A machine where nothing can be mounted or made: for questions that need neither.
#[derive(Debug)]
pub(super) struct NoHost;

/// Processes of which none has any disk, and whether that can be told.
#[derive(Debug)]
pub(super) struct NoProcesses {
    pub(super) are_seen: bool,
}

fn nothing<T>() -> Result<T> {
    Err(Error::new(Kind::Host, "this machine is made up"))
}

impl Maps for NoHost {
    fn cover(&self, _: &VolumeId, _: &Device, _: Option<(u64, u64)>) -> Result<()> {
        nothing()
    }

    fn switch(&self, _: &VolumeId, _: &Device) -> Result<()> {
        nothing()
    }

    fn journals(&self, _: &Device, _: &AboveDisk<'_>, _: Deadline) -> Result<JournalSights> {
        nothing()
    }

    fn map_of(&self, _: &VolumeId) -> Result<Option<OwnMap>> {
        Ok(None)
    }

    fn why_untold(&self, _: &Device, _: &JournalMark) -> Result<Option<String>> {
        nothing()
    }

    fn superblock(&self, _: &Device, _: &JournalMark) -> Result<Option<String>> {
        nothing()
    }

    fn volumes(&self) -> Result<Vec<VolumeId>> {
        Ok(Vec::new())
    }

    fn end_wait(&self, _: &VolumeId) -> Result<()> {
        Ok(())
    }

    fn settle(&self, _: &VolumeId) -> Result<()> {
        Ok(())
    }

    fn try_again(&self, _: &VolumeId) -> Result<()> {
        Ok(())
    }

    fn remove(&self, _: &VolumeId, _: Deadline) -> Result<bool> {
        Ok(false)
    }
}

impl FileSystems for NoHost {
    fn look(&self, _: &Device, _: Deadline) -> Result<Contents> {
        nothing()
    }

    fn second_opinion(&self, _: &VolumeId, _: &Device, _: Deadline) -> Result<Option<String>> {
        nothing()
    }

    fn stranger(&self, _: &Device, _: &NewFileSystem, _: Deadline) -> Result<Option<String>> {
        nothing()
    }

    fn wipe(&self, _: &Device) -> Result<()> {
        nothing()
    }

    fn make(&self, _: &VolumeId, _: &Device, _: &NewFileSystem, _: Deadline) -> Result<()> {
        nothing()
    }

    fn check(&self, _: &VolumeId, _: &Device, _: FsType, _: Deadline) -> Result<()> {
        nothing()
    }

    fn await_check(&self, _: &VolumeId, _: &Device, _: Deadline) -> Result<Option<Error>> {
        Ok(None)
    }

    fn grow(&self, _: (&File, &Path), _: FsType, _: &Device, _: Deadline) -> Result<u64> {
        nothing()
    }
}

impl Mounts for NoHost {
    fn table(&self) -> Result<MountTable> {
        Ok(MountTable::default())
    }

    fn real_path(&self, target: &Target) -> Result<PathBuf> {
        Ok(target.path())
    }

    fn standing_at(&self, folder: &Path) -> Result<Look> {
        Ok(Look::of(folder, None, MountTable::default()))
    }

    fn leads_to(&self, _: &Path) -> Result<Option<u32>> {
        Ok(None)
    }

    fn open_root(&self, _: &Mount) -> Result<File> {
        nothing()
    }

    fn make_folder(&self, _: &Path) -> Result<()> {
        nothing()
    }

    fn mount(&self, _: &MountRequest<'_>) -> Result<()> {
        nothing()
    }

    fn hidden_in(&self, _: &Path) -> Hidden {
        Hidden::default()
    }

    fn bind(&self, _: &Mount, _: &Path, _: bool) -> Result<()> {
        nothing()
    }

    fn seclude(&self, _: &Path) -> Result<()> {
        nothing()
    }

    fn make_read_only(&self, _: &Mount) -> Result<()> {
        nothing()
    }

    fn flush(&self, _: &Mount, _: Deadline) -> Result<()> {
        nothing()
    }

    fn flush_inside(&self, _: &File, _: &Mount, _: Deadline) -> Result<bool> {
        nothing()
    }

    fn unmount(&self, _: &Mount, _: Deadline) -> Result<()> {
        nothing()
    }

    fn unmount_inside(&self, _: &File, _: &[Mount], _: Deadline) -> Result<()> {
        nothing()
    }

    fn remove_folder(&self, _: &Path) -> Result<()> {
        nothing()
    }

    fn exchange_folder(&self, _: &Path) -> Result<()> {
        nothing()
    }

    fn tidy_exchange(&self, _: &Path) {}

    fn copy_of(&self, _: &Mount) -> Option<OwnedFd> {
        None
    }

    fn put_back(&self, _: OwnedFd, _: &Path) -> Result<()> {
        nothing()
    }

    fn unmount_dead(&self, _: &Mount, _: Deadline) -> Result<()> {
        nothing()
    }
}
