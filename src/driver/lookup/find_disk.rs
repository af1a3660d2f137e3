//! The volume's disk on this machine, or why it cannot be told.
//!
//! virtio shows 20 characters of a serial, and a volume's id has 36: two volumes can look alike.
//! Then the whole id decides where a bus shows it, else the cloud's list of what is attached here
//! together with the sizes; what is still not certain is refused, with all names.

use crate::cloud::{Cloud, CloudVolume};
use crate::driver::lookup::attachment_view::Attachments;
use crate::driver::operation::Volume;
use crate::host::clock::Deadline;
use crate::host::records::Records;
use crate::host::{Devices, Held};
use crate::model::disk::device::{Device, Identity, Proof};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, VolumeId};
use crate::model::text::shown;
use std::path::Path;
use std::time::Duration;

/// After this long without the disk the cloud is asked why, and then once in a while.
const ASK_AFTER: Duration = Duration::from_secs(2);
const ASK_EVERY: Duration = Duration::from_secs(20);

/// The net beneath the events: how long a look is at most put off.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The disks of volumes on this machine.
pub(in crate::driver) struct Disks<'a> {
    pub(in crate::driver) cloud: &'a dyn Cloud,
    pub(in crate::driver) devices: &'a dyn Devices,
    pub(in crate::driver) records: &'a Records,
    pub(in crate::driver) this_node: &'a NodeName,
    pub(in crate::driver) deadline: Deadline,
    pub(in crate::driver) attachments: &'a Attachments<'a>,
}

impl Disks<'_> {
    /// The volume's disk, if this machine sees it now.
    pub(in crate::driver) fn find_disk(&self, id: &VolumeId) -> Result<Option<Device>> {
        let wanted = self.cloud.identity(id);
        let mut found = self.devices.search(&wanted)?;
        if found.iter().any(|disk| disk.proof == Proof::Whole) {
            found.retain(|disk| disk.proof == Proof::Whole);
        }
        match found.as_slice() {
            [] => Ok(None),
            [one] if one.proof == Proof::Whole => Ok(found.pop()),
            [_] if self.records.others_with_serial(id).is_empty() => Ok(found.pop()),
            [_, ..] if found[0].proof == Proof::Whole => Err(wanted.shown_by_several(&found)),
            _ => self.tell_apart(id, &wanted, &found).map(Some),
        }
    }

    /// The volume's disk; missing is an error here.
    pub(in crate::driver) fn disk(&self, id: &VolumeId) -> Result<Device> {
        self.find_disk(id)?.ok_or_else(|| {
            let wanted = self.cloud.identity(id);
            Error::new(Kind::Missing, format!("no disk of this machine shows {wanted}"))
                .hint("is the volume attached to this machine?")
        })
    }

    /// Holds the disk while something is done to it, so that its number cannot go to another.
    pub(in crate::driver) fn hold(&self, id: &VolumeId, disk: &Device) -> Result<Held> {
        self.devices.hold(&self.cloud.identity(id), disk)
    }

    /// Looks once more, right before or after something is done to the disk.
    pub(in crate::driver) fn prove_again(&self, id: &VolumeId, disk: &Device) -> Result<()> {
        self.devices.check(&self.cloud.identity(id), disk)
    }

    /// Reports links that name the volume and lead elsewhere. Nothing follows them here, but
    /// other programs may.
    pub(in crate::driver) fn report_links(&self, id: &VolumeId) {
        for fault in self.devices.link_faults(&self.cloud.identity(id), &self.cloud.link(id)) {
            tracing::warn!(volume = %id, link = %fault.link.display(), what = fault.what, "a link lies");
        }
    }

    /// Reports a device that the orchestrator remembers and that is not the volume's disk. It is
    /// never followed: what is remembered outlives a reboot.
    pub(in crate::driver) fn report_hint(&self, id: &VolumeId, hint: &str, disk: &Device) {
        let path = Path::new(hint);
        if !hint.is_empty() && path != self.cloud.link(id) && path != disk.kernel_node() {
            let hint = shown(hint);
            tracing::warn!(volume = %id, hint, disk = %disk.kernel_name, "the remembered device is another one");
        }
    }

    /// Disks or volumes that share a cut serial.
    fn tell_apart(&self, id: &VolumeId, wanted: &Identity, disks: &[Device]) -> Result<Device> {
        let rivals = self.records.others_with_serial(id);
        let refuse = |why: &str| {
            let names = disks.iter().map(|d| format!("{} ({})", d.kernel_name, d.number));
            let others = rivals.iter().map(|rival| format!("volume {rival}"));
            let all: Vec<_> = names.chain(others).collect();
            Err(Error::refused(format!(
                "{wanted} is all that the disk shows of volume {id}, and it is not the only one: {}; {why}",
                all.join(", ")
            ))
            .hint("detach the volume that is not needed here"))
        };
        let attached = match self.attached_with_serial_of(id) {
            Ok(attached) => attached,
            Err(error) => return refuse(&format!("the cloud cannot tell them apart: {error}")),
        };
        let Some(ours) = attached.iter().find(|volume| volume.id == *id) else {
            return refuse("by the cloud's word the volume is not attached here");
        };
        if attached.len() != disks.len() {
            return refuse(&format!(
                "{} of them are attached by the cloud's word, {} disks are there",
                attached.len(),
                disks.len()
            ));
        }
        // With one volume and one disk there is nothing left to confuse; with several only a size
        // that no other has tells them apart.
        let of_our_size = disks.iter().filter(|disk| disk.size == ours.size).collect::<Vec<_>>();
        let same_size = attached.iter().filter(|volume| volume.size == ours.size).count();
        match (disks, of_our_size.as_slice()) {
            ([only], _) => Ok(only.clone()),
            (_, [one]) if same_size == 1 => Ok((*one).clone()),
            _ => refuse("their sizes do not tell them apart"),
        }
    }

    fn attached_with_serial_of(&self, id: &VolumeId) -> Result<Vec<CloudVolume>> {
        let server = self.attachments.existing_server(self.this_node)?;
        let mut attached = self.cloud.attached_to(&server, self.deadline)?;
        attached.retain(|volume| volume.id.virtio_serial() == id.virtio_serial());
        Ok(attached)
    }

    /// Waits for the disk: subscribes to news first, then looks, so that it cannot be missed.
    pub(in crate::driver) fn wait_for(
        &self,
        volume: &Volume,
        deadline: Deadline,
    ) -> Result<Device> {
        let mut events = None;
        let mut ask = Deadline::after(ASK_AFTER);
        loop {
            if let Some(disk) = self.find_disk(&volume.id)?
                && disk.size > 0
            {
                tracing::info!(volume = %volume.id, disk = %disk.kernel_name, number = %disk.number, "its disk");
                return Ok(disk);
            }
            if events.is_none() {
                // The usual case is a disk that is there already: it needs no subscription. From
                // here on every look comes after it.
                events = Some(self.devices.watch());
                continue;
            }
            if ask.over() {
                ask = Deadline::after(ASK_EVERY);
                self.say_if_not_attached(volume)?;
            }
            let left = deadline.remaining();
            if left.is_zero() {
                return Err(self.never_came(volume, deadline));
            }
            let nap = left.min(LOOK_EVERY).min(ask.remaining().max(Duration::from_millis(1)));
            if let Some(events) = &mut events {
                events.wait(nap);
            }
        }
    }

    fn never_came(&self, volume: &Volume, deadline: Deadline) -> Error {
        let wanted = self.cloud.identity(&volume.id);
        self.report_links(&volume.id);
        let known = self.devices.udev_says(&wanted);
        let udev = match known.as_slice() {
            [] => String::new(),
            known => format!(" (udev names {})", known.join(", ")),
        };
        let seconds = deadline.total().as_secs();
        Error::new(
            Kind::Timeout,
            format!("no disk with {wanted} appeared within {seconds} s{udev}"),
        )
        .hint("is the volume attached to this machine, and does the kernel's log show the disk?")
    }

    /// The disk cannot come if the cloud does not think of sending it. A cloud that cannot be
    /// asked is no reason to stop waiting.
    fn say_if_not_attached(&self, volume: &Volume) -> Result<()> {
        let asked = self
            .cloud
            .server(self.this_node, self.deadline)
            .and_then(|server| Ok((server, self.cloud.volume(&volume.id, self.deadline)?)));
        match asked {
            Ok((Some(server), Some(state))) if state.attachment_to(&server).is_none() => {
                let at = match state.attachments.first() {
                    Some(other) => format!("it is attached to {}", other.server),
                    None => "it is attached nowhere".to_owned(),
                };
                Err(Error::new(
                    Kind::Missing,
                    format!("volume {} is not attached to {server}: {at}", volume.id),
                )
                .hint("it must be attached again before its disk can appear"))
            }
            Ok((_, None)) => Err(Error::new(
                Kind::Missing,
                format!("volume {} does not exist in the cloud", volume.id),
            )),
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(volume = %volume.id, %error, "the disk is not there, and the cloud cannot say why");
                Ok(())
            }
        }
    }

    /// Whether nothing uses the disk, for what is about to write to it. What cannot be seen is an
    /// error.
    pub(in crate::driver) fn is_free(&self, disk: &Device) -> Result<bool> {
        self.devices.exclusive_open(disk)?.is_free()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::fakes::{FakeCloud, FakeDevices, MadeUp};

    const ONE: &str = "6f1c2d3e-4a5b-4c6d-8e7f-000000000001";
    const TWO: &str = "6f1c2d3e-4a5b-4c6d-8e7f-000000000002";
    const CUT: &str = "6f1c2d3e-4a5b-4c6d-8";

    /// What is asked on a machine whose disks are these.
    fn at<T>(cloud: &FakeCloud, devices: &FakeDevices, ask: impl FnOnce(&Disks<'_>) -> T) -> T {
        MadeUp::with(cloud, devices).drive(|driver| ask(driver.known.disks))
    }

    /// Asks for volume ONE on a machine that has also seen `seen`.
    fn ask(cloud: &FakeCloud, devices: &FakeDevices, seen: &[&str]) -> Result<Option<String>> {
        let found = at(cloud, devices, |disks| {
            for id in seen {
                let id = VolumeId::parse(id).unwrap();
                disks.records.update(&id, |record| record.was_mounted = true).unwrap();
            }
            disks.find_disk(&VolumeId::parse(ONE).unwrap())
        })?;
        Ok(found.map(|disk| disk.kernel_name))
    }

    #[track_caller]
    fn refused(result: Result<Option<String>>, words: &[&str]) {
        let error = result.unwrap_err();
        assert_eq!(error.kind, Kind::Refused, "{error}");
        for word in words {
            assert!(error.cause.contains(word), "{word}: {error}");
        }
    }

    #[test]
    fn one_disk_of_a_volume_without_rivals_needs_no_cloud() {
        let down = FakeCloud { is_down: true.into(), ..FakeCloud::default() };
        let disks = FakeDevices::default().with("vdb", 5, CUT).with("vdc", 5, "other");
        assert_eq!(ask(&down, &disks, &[]).unwrap().as_deref(), Some("vdb"));
        assert_eq!(ask(&down, &FakeDevices::default(), &[TWO]).unwrap(), None);
    }

    #[test]
    fn the_whole_id_decides_where_a_bus_shows_it() {
        let down = FakeCloud { is_down: true.into(), ..FakeCloud::default() };
        let disks =
            FakeDevices::default().with("sda", 5, TWO).with("sdb", 5, ONE).with("vdb", 5, CUT);
        assert_eq!(ask(&down, &disks, &[TWO]).unwrap().as_deref(), Some("sdb"));
    }

    #[test]
    fn two_disks_that_show_the_whole_id_are_refused() {
        let disks = FakeDevices::default().with("sda", 5, ONE).with("sdb", 5, ONE);
        refused(ask(&FakeCloud::default(), &disks, &[]), &["sda", "sdb"]);
    }

    #[test]
    fn two_disks_of_one_cut_serial_are_told_apart_by_size_alone() {
        let disks = FakeDevices::default().with("vdb", 5, CUT).with("vdc", 7, CUT);
        let both = FakeCloud::default().with(ONE, 7, &["here"]).with(TWO, 5, &["here"]);
        assert_eq!(ask(&both, &disks, &[]).unwrap().as_deref(), Some("vdc"));
        let same = FakeCloud::default().with(ONE, 5, &["here"]).with(TWO, 5, &["here"]);
        refused(ask(&same, &disks, &[]), &["vdb", "vdc"]);
        let neither = FakeCloud::default().with(ONE, 6, &["here"]).with(TWO, 5, &["here"]);
        refused(ask(&neither, &disks, &[]), &["vdb", "vdc"]);
    }

    #[test]
    fn two_disks_and_a_cloud_that_knows_of_one_are_refused() {
        let disks = FakeDevices::default().with("vdb", 5, CUT).with("vdc", 7, CUT);
        let one = FakeCloud::default().with(ONE, 7, &["here"]).with(TWO, 5, &["there"]);
        refused(ask(&one, &disks, &[]), &["vdb", "vdc", "1 of them"]);
        let down = FakeCloud { is_down: true.into(), ..FakeCloud::default() };
        refused(ask(&down, &disks, &[]), &["vdb", "vdc", "the cloud is down"]);
    }

    #[test]
    fn the_disk_of_a_rival_is_not_taken_for_ours() {
        let disks = FakeDevices::default().with("vdb", 5, CUT);
        let rival = FakeCloud::default().with(ONE, 5, &["there"]).with(TWO, 5, &["here"]);
        refused(ask(&rival, &disks, &[TWO]), &["vdb", TWO, "not attached here"]);
        let ours = FakeCloud::default().with(ONE, 5, &["here"]).with(TWO, 5, &["there"]);
        assert_eq!(ask(&ours, &disks, &[TWO]).unwrap().as_deref(), Some("vdb"));
    }

    #[test]
    fn what_tells_disks_apart_is_a_size_that_one_of_them_and_one_volume_has() {
        let three = "6f1c2d3e-4a5b-4c6d-8e7f-000000000003";
        let disks =
            FakeDevices::default().with("vdb", 5, CUT).with("vdc", 7, CUT).with("vdd", 5, CUT);
        let with = |sizes: [u64; 3]| {
            let cloud = FakeCloud::default().with(ONE, sizes[0], &["here"]);
            cloud.with(TWO, sizes[1], &["here"]).with(three, sizes[2], &["here"])
        };
        assert_eq!(ask(&with([7, 5, 5]), &disks, &[]).unwrap().as_deref(), Some("vdc"));
        refused(ask(&with([7, 7, 5]), &disks, &[]), &["vdb", "vdc", "vdd", "sizes"]);
        // One that grew in the cloud, and is the only one here.
        let one = FakeDevices::default().with("vdb", 5, CUT);
        let grown = FakeCloud::default().with(ONE, 7, &["here"]).with(TWO, 5, &["there"]);
        assert_eq!(ask(&grown, &one, &[TWO]).unwrap().as_deref(), Some("vdb"));
    }

    #[test]
    fn a_disk_is_proven_again_by_what_it_shows_then_and_told_free_or_in_use() {
        let (cloud, id) = (FakeCloud::default(), VolumeId::parse(ONE).unwrap());
        let devices = FakeDevices::default().with("vdb", 5, CUT).with("vdc", 5, "other");
        let both: Vec<_> = devices.disks.iter().map(|(disk, _)| disk.clone()).collect();
        let proven = |disk: &Device| at(&cloud, &devices, |disks| disks.prove_again(&id, disk));
        assert_eq!(proven(&both[0]), Ok(()));
        assert_eq!(proven(&both[1]).unwrap_err().kind, Kind::Refused);
        let is_free = |devices| at(&cloud, devices, |disks| disks.is_free(&both[0]));
        assert_eq!(is_free(&devices), Ok(true));
        let used = FakeDevices { used: 1.into(), ..FakeDevices::default() };
        assert_eq!(is_free(&used), Ok(false));
    }

    #[test]
    fn a_disk_without_a_size_has_not_come_yet() {
        let volume = Volume::new(VolumeId::parse(ONE).unwrap(), None);
        let came = |size| {
            let devices = FakeDevices::default().with("vdb", size, CUT);
            let soon = Deadline::after(Duration::from_millis(20));
            at(&FakeCloud::default(), &devices, |disks| disks.wait_for(&volume, soon))
                .map_err(|error| error.kind)
        };
        assert!(came(1).is_ok());
        assert_eq!(came(0).unwrap_err(), Kind::Timeout);
    }

    #[test]
    fn a_wait_that_the_cloud_will_not_end_is_ended_and_no_other() {
        let volume = Volume::new(VolumeId::parse(ONE).unwrap(), None);
        let say = |cloud: &FakeCloud| {
            let told =
                at(cloud, &FakeDevices::default(), |disks| disks.say_if_not_attached(&volume));
            told.map_err(|error| error.cause)
        };
        assert_eq!(say(&FakeCloud::default().with(ONE, 1, &["here"])), Ok(()));
        let down = FakeCloud { is_down: true.into(), ..FakeCloud::default() };
        assert_eq!(say(&down), Ok(()));
        for (cloud, words) in [
            (FakeCloud::default().with(ONE, 1, &["there"]), "it is attached to there"),
            (FakeCloud::default().with(ONE, 1, &[]), "it is attached nowhere"),
            (FakeCloud::default(), "does not exist in the cloud"),
        ] {
            let why = say(&cloud).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
