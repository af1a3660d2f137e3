//! Fake disks for unit tests.

use crate::model::disk::device::{Connection, Device, DeviceNumber, Identity, Link, Proof, Shown};
use crate::model::disk::exclusive_open::ExclusiveOpen;
use crate::model::disk::transport::{Admission, Transport};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::mount::staleness::Presence;
use crate::ports::host::{Devices, Events, Held};
use std::cell::Cell;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Disks with given identities.
#[derive(Debug, Default)]
pub(crate) struct FakeDevices {
    pub(crate) disks: Vec<(Device, Shown)>,
    /// Whether they can be opened.
    pub(crate) opens: bool,
    /// For how many checks they are still in use.
    pub(crate) used: Cell<u32>,
    /// Why they cannot be searched, and whether that is because `/dev` is missing.
    pub(crate) unread: Option<&'static str>,
    pub(crate) is_out_of_sight: bool,
}

impl FakeDevices {
    /// Adds a disk with this serial.
    pub(crate) fn with(mut self, kernel_name: &str, size: u64, serial: &str) -> Self {
        let minor = u32::try_from(self.disks.len()).unwrap() * 16;
        let device = Device {
            kernel_name: kernel_name.to_owned(),
            number: DeviceNumber { major: 253, minor },
            size,
            read_only: false,
            sequence: Some(u64::from(minor)),
            proof: Proof::Cut,
            connection: None,
        };
        self.disks.push((device, Shown::Serial { file: "serial", text: serial.to_owned() }));
        self
    }
}

impl FakeDevices {
    /// Sets the transport of the last disk.
    pub(crate) fn on(mut self, transport: &str, admission: Admission) -> Self {
        let transport = Transport::named(transport);
        self.disks.last_mut().unwrap().0.connection = Some(Connection { transport, admission });
        self
    }
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

    fn claimants(&self, wanted: &Identity) -> Result<Vec<Device>> {
        if let Some(why) = self.unread {
            return Err(Error::new(Kind::Host, why));
        }
        let proven = self.disks.iter().filter_map(|(device, shown)| {
            let proof = wanted.proven_by(std::slice::from_ref(shown))?;
            Some(Device { proof, ..device.clone() })
        });
        Ok(proven.collect())
    }

    fn check(&self, wanted: &Identity, disk: &Device) -> Result<()> {
        match self.presence(disk.number, wanted)? {
            Presence::Own => Ok(()),
            other => Err(Error::refused(format!("it is {other:?}"))),
        }
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

    fn leads_to(&self, _: &Path, _: &Path) -> bool {
        false
    }

    fn links(&self, _: &Identity, _: &Path) -> Vec<Link> {
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
        let left = self.used.get();
        self.used.set(left.saturating_sub(1));
        Ok(if left > 0 { ExclusiveOpen::InUse } else { ExclusiveOpen::Free })
    }

    fn disk_at(&self, number: DeviceNumber) -> Result<Option<Device>> {
        Ok(self.disks.iter().map(|(disk, _)| disk).find(|disk| disk.number == number).cloned())
    }

    fn rescan(&self, _: &Device) -> Result<()> {
        Ok(())
    }

    fn tidy(&self, _: &VolumeId) {}
    fn has_link(&self, _: &VolumeId) -> bool {
        false
    }
    fn remove_link(&self, _: &VolumeId) {}
}
