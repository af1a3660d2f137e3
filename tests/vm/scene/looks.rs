//! What is looked at: the guest's disks and mounts, what a container has, the image outside.

use super::{Outcome, Running, Scene, Stop, Volume};
use crate::orders::{Ask, Disk, Said};
use std::time::Duration;

/// The check that all incidents are about.
pub(crate) const POD_HAS_ITS_DISK: &str = "the pod has its disk, and writes to it";
/// The same before anything happened: a control that fails there shows nothing.
const POD_BEGINS: &str = "the pod begins on its disk, and writes to it";

/// How soon a container must be on its disk again.
const SOON: Duration = Duration::from_secs(5);
/// How long its writing is watched.
const WATCHED: Duration = Duration::from_millis(300);

impl Scene<'_> {
    /// The kernel's name of the volume's disk; there must be one, soon: the cloud calls a disk
    /// attached that the guest sees a moment later.
    pub(crate) fn letter(&mut self, volume: &Volume) -> Outcome<String> {
        let mut name = None;
        let check = format!("the disk of {} is there", volume.pv);
        self.check_soon(&check, SOON, |scene| {
            name = scene.letter_now(volume)?;
            Ok((name.is_some(), name.clone().unwrap_or_else(|| "no disk".to_owned())))
        })?;
        Ok(name.unwrap_or_default())
    }

    /// The same without a demand.
    pub(crate) fn letter_now(&mut self, volume: &Volume) -> Outcome<Option<String>> {
        let disks = self.disks()?;
        let found = disks.into_iter().find(|disk| disk.serial.contains(volume.serial()));
        Ok(found.map(|disk| disk.name))
    }

    fn disks(&mut self) -> Outcome<Vec<Disk>> {
        match self.machine.ask(&Ask::Disks)? {
            Said::Disks(disks) => Ok(disks),
            other => Err(Stop::Broken(format!("the agent said {other:?}"))),
        }
    }

    /// The mount that one sees at a container's place: the fields of its line.
    pub(crate) fn mount_at(&mut self, container: &Running, place: &str) -> Outcome<Vec<String>> {
        let path = format!("/proc/{}/mountinfo", container.pid).into();
        let Said::Text(text) = self.machine.ask(&Ask::Read { path })? else {
            return Err(Stop::Broken("the agent did not read".to_owned()));
        };
        let mut lines = text.lines().rev().map(|line| line.split(' ').map(str::to_owned));
        let found = lines.find_map(|fields| {
            let fields: Vec<_> = fields.collect();
            fields.get(4).is_some_and(|at| at == place).then_some(fields)
        });
        found.ok_or_else(|| Stop::Broken(format!("nothing at {place} of {}", container.name)))
    }

    /// A place of a container is on the volume's disk as it is now, and what it writes arrives.
    pub(crate) fn pod_has_its_disk(
        &mut self,
        container: &Running,
        place: &str,
        volume: &Volume,
    ) -> Outcome {
        self.is_on_its_disk(POD_HAS_ITS_DISK, container, place, volume)
    }

    /// The same at the beginning of a story.
    pub(crate) fn pod_begins(
        &mut self,
        container: &Running,
        place: &str,
        volume: &Volume,
    ) -> Outcome {
        self.is_on_its_disk(POD_BEGINS, container, place, volume)
    }

    fn is_on_its_disk(
        &mut self,
        check: &str,
        container: &Running,
        place: &str,
        volume: &Volume,
    ) -> Outcome {
        let check = format!("{check} ({} {place})", container.name);
        let (container, volume, place) = (container.clone(), volume.clone(), place.to_owned());
        self.check_soon(&check, SOON, move |scene| scene.state_of(&container, &place, &volume))
    }

    fn state_of(
        &mut self,
        container: &Running,
        place: &str,
        volume: &Volume,
    ) -> Outcome<(bool, String)> {
        let (number, serial) = self.disk_below(container, place)?;
        let before = self.report(container)?;
        std::thread::sleep(WATCHED);
        let after = self.report(container)?;
        let writes = after.writes - before.writes;
        let errors = after.errors - before.errors;
        let is_its = serial.contains(volume.serial());
        let disk = match (&serial, is_its) {
            (_, true) => "its disk".to_owned(),
            (serial, _) if serial.is_empty() => "a disk that is gone".to_owned(),
            (serial, _) => format!("another disk, {serial}"),
        };
        // Of a container that writes; another one only reads.
        let arrives = writes > 0 && after.file_systems.contains(&number);
        let well = is_its && errors == 0 && (arrives || after.writes == 0);
        Ok((well, format!("{number} is {disk}; {writes} writes, {errors} errors")))
    }

    /// The number of the mount at a container's place, and what that disk shows as its serial.
    pub(crate) fn disk_below(
        &mut self,
        container: &Running,
        place: &str,
    ) -> Outcome<(String, String)> {
        let number = self.mount_at(container, place)?[2].clone();
        let disks = self.disks()?;
        let mut disk = disks.iter().find(|disk| disk.number == number);
        // A map shows no serial, and its disk does.
        if let Some(below) = disk.and_then(|disk| disk.below.as_ref()) {
            disk = disks.iter().find(|disk| disk.name == *below);
        }
        Ok((number, disk.map(|disk| disk.serial.clone()).unwrap_or_default()))
    }

    /// How many lines a container's log has on the file system that is at a place of the host.
    pub(crate) fn lines(&mut self, file: &str) -> Outcome<u64> {
        let text = self.machine.shell(&format!("wc -l <{file}"))?;
        text.trim().parse().map_err(|_| format!("wc said {text:?}").into())
    }

    /// The image on the outside holds a sound file system; it is plugged in nowhere.
    pub(crate) fn check_image(&mut self, volume: &Volume) -> Outcome {
        let image = self.machine.plug.image(&volume.id);
        let (program, option) = match volume.fs {
            "xfs" => ("usr/sbin/xfs_repair", "-n"),
            _ => ("usr/sbin/e2fsck", "-fn"),
        };
        let mut command = self.bench.parts.program("guest", program);
        let output = command.arg(option).arg(&image).output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        let last = text.lines().last().unwrap_or_default().to_owned();
        let name = program.rsplit('/').next().unwrap_or_default();
        self.check(&format!("{name} {option} of {}", volume.pv), output.status.success(), last)
    }
}
