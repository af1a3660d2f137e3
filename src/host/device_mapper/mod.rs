//! Maps of this driver's own, by device mapper's commands. The way to them is the kernel's alone: no program
//! of LVM or multipath is called, and none of them has to be installed.

mod control;
mod direct;
mod flags;
mod journal;
mod message;
pub(crate) mod seen;
mod seldom;
mod write_count;
mod xfs_log;

use self::control::{Control, MapAnswer};
use crate::failpoints;
use crate::model::disk::device::Device;
use crate::model::disk::journal::sights::{JournalMark, JournalSights};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::shield::map_uuid::MapUuid;
use crate::model::shield::own_map::{MapState, OwnMap};
use crate::ports::clock::Deadline;
use crate::ports::host::{AboveDisk, Maps, Proven};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The kernel counts in these.
const SECTOR: u64 = 512;

/// How long a map is waited for that a process which looks at new disks (udev) has open for a moment.
const LETS_GO: Duration = Duration::from_secs(2);

/// Maps of this machine.
#[derive(Debug, Clone)]
pub struct KernelMaps {
    sysfs: PathBuf,
}

impl Default for KernelMaps {
    fn default() -> Self {
        Self { sysfs: failpoints::folder("INCLOUD_DISK_SYSFS", "/sys") }
    }
}

impl Maps for KernelMaps {
    fn cover(&self, disk: Proven<'_>, counted: Option<(u64, u64)>) -> Result<()> {
        let volume = disk.volume();
        let uuid = uuid_of(volume)?;
        let control = Control::of(&uuid)?;
        // One without a table is what a killed call left; newer kernels show it nowhere in sysfs.
        match control.told()? {
            None => control.create()?,
            Some(told) if told.sectors == 0 && told.opened == 0 => {}
            Some(told) => {
                let opened = told.opened;
                return Err(Error::new(
                    Kind::Host,
                    format!("there is a map {uuid} already, and it is open {opened} times"),
                ));
            }
        }
        failpoints::step("map.created");
        if let Some(stretch) = counted {
            write_count::begin(&control, stretch);
        }
        let made = self.switch(disk);
        if made.is_err() {
            let _ = control.remove();
        }
        made
    }

    fn switch(&self, disk: Proven<'_>) -> Result<()> {
        let (volume, disk) = (disk.volume(), disk.device());
        let uuid = uuid_of(volume)?;
        let control = Control::of(&uuid)?;
        let told = control.told()?.ok_or_else(|| missing(&uuid))?;
        let sectors = disk.size / SECTOR;
        // The kernel finds out amid the swap, and leaves the map suspended.
        if sectors == 0 || sectors < told.sectors {
            return Err(Error::new(
                Kind::Host,
                format!(
                    "{} has {sectors} sectors, and the map {uuid} has {}",
                    disk.kernel_name, told.sectors
                ),
            ));
        }
        let is_new = told.sectors == 0;
        let sectors = if is_new { sectors } else { told.sectors };
        control.load(sectors, disk.number, disk.read_only)?;
        failpoints::step("map.loaded");
        if !is_new {
            let kept = still_waits(&control, &uuid)
                .and_then(|()| write_count::kept_over(&control, || suspended(&control, true)));
            kept.inspect_err(|_| self.goes_on_without(volume))?;
        }
        control.swap()?;
        let now = self.map_of(volume)?.ok_or_else(|| missing(&uuid))?;
        let is_on_disk = now.table.is_some_and(|table| table.path == disk.number);
        if now.state() != MapState::Works || !is_on_disk || now.has_second_table {
            let words = now.state().words();
            return Err(Error::new(
                Kind::Host,
                format!("the map {uuid} was put on {}, and {words}", disk.kernel_name),
            ));
        }
        Ok(())
    }

    fn journals(
        &self,
        disk: &Device,
        above: &AboveDisk<'_>,
        deadline: Deadline,
    ) -> Result<JournalSights> {
        journal::sights(disk, above, deadline)
    }

    fn why_untold(&self, map: &Device, mark: &JournalMark) -> Result<Option<String>> {
        if let Some(why) = seldom::why_seldom(&seldom::mounts_of(map)?)? {
            return Ok(Some(why));
        }
        match mark {
            JournalMark::FirstTransaction(_) => Ok(None),
            JournalMark::XfsLog(mark) => xfs_log::why_untold(map, mark),
        }
    }

    fn superblock(&self, map: &Device, mark: &JournalMark) -> Result<Option<String>> {
        match mark {
            JournalMark::FirstTransaction(_) => journal::superblock(map),
            JournalMark::XfsLog(_) => Ok(None),
        }
    }

    fn map_of(&self, volume: &VolumeId) -> Result<Option<OwnMap>> {
        let Some(uuid) = MapUuid::of(volume) else { return Ok(None) };
        // A machine without maps of ours is not asked: that would load the module.
        let Some(seen) = seen::map_with(&self.sysfs, &uuid)? else { return Ok(None) };
        let Some(told) = Control::of(&uuid)?.told()? else { return Ok(None) };
        Ok(Some(OwnMap {
            volume: volume.clone(),
            kernel_name: seen.kernel_name,
            number: told.number,
            opened: told.opened,
            is_suspended: told.is_suspended,
            has_second_table: told.has_second_table,
            table: told.table,
            status: told.status,
            has_disk: seen.disk.is_some(),
        }))
    }

    fn volumes(&self) -> Result<Vec<VolumeId>> {
        Ok(seen::maps(&self.sysfs)?.into_iter().map(|seen| seen.uuid.volume().clone()).collect())
    }

    fn end_wait(&self, volume: &VolumeId) -> Result<()> {
        let Some(map) = self.map_of(volume)? else { return Ok(()) };
        if matches!(map.state(), MapState::Fails | MapState::NeverBegan) {
            return Ok(());
        }
        let uuid = uuid_of(volume)?;
        let control = Control::of(&uuid)?;
        go_on(&control, &map)?;
        control.tell("fail_if_no_path").map(drop)
    }

    fn settle(&self, volume: &VolumeId) -> Result<()> {
        let Some(mut map) = self.map_of(volume)? else { return Ok(()) };
        let uuid = uuid_of(volume)?;
        let control = Control::of(&uuid)?;
        // Whether a killed call made it so, or a person, the kernel knows, and tells by the next resume. The loaded table
        // stays until then, for it is what tells of the call.
        if map.may_be_cut_short() {
            control.suspend()?;
            map.is_suspended = true;
        }
        go_on(&control, &map)
    }

    fn try_again(&self, volume: &VolumeId) -> Result<()> {
        let Some(map) = self.map_of(volume)? else { return Ok(()) };
        match map.status {
            Some(status) if map.has_disk && !status.is_active => {
                let uuid = uuid_of(volume)?;
                let control = Control::of(&uuid)?;
                control.tell(&format!("reinstate_path {}", status.path)).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn remove(&self, volume: &VolumeId, deadline: Deadline) -> Result<bool> {
        if self.map_of(volume)?.is_none() {
            return Ok(false);
        }
        let uuid = uuid_of(volume)?;
        let control = Control::of(&uuid)?;
        let until = deadline.at_most(LETS_GO);
        loop {
            match control.remove() {
                Ok(()) => {
                    return Ok(true);
                }
                Err(error)
                    if error.kind == Kind::Busy && until.pause(Duration::from_millis(20)) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl KernelMaps {
    /// After a change that failed: what waits goes on to wait, and no table is left that another resume would take.
    fn goes_on_without(&self, volume: &VolumeId) {
        if let Err(error) = self.settle(volume) {
            tracing::warn!(%volume, %error, "a change of the volume's map was not taken back");
        }
    }
}

/// Ends what a call left that was killed amid a change. A table that it had loaded would be swapped in by the
/// resume: the disk of that one was proven by a call that is gone. Without it the map goes on as it was.
fn go_on(control: &Control<'_>, map: &OwnMap) -> Result<()> {
    if map.has_second_table {
        control.clear()?;
    }
    // A target that is suspended takes no words.
    if map.is_suspended { control.swap() } else { Ok(()) }
}

/// Suspends a map right before its table is changed. `waited` is whether what found no disk waited until now: a suspend
/// that fails makes the kernel's multipath forget it.
fn suspended(control: &Control<'_>, waited: bool) -> Result<()> {
    control.suspend().or_else(|error| {
        // Who ended the wait meanwhile has cleared the table that was loaded.
        let is_meant = control.told()?.is_some_and(|told| waited && told.has_second_table);
        if is_meant {
            control.tell("queue_if_no_path")?;
        }
        Err(error)
    })?;
    failpoints::step("map.suspended");
    Ok(())
}

/// Whether what finds no disk under this map waits.
fn waits(told: &MapAnswer) -> bool {
    told.table.is_some_and(|table| table.is_queueing)
}

/// Right before the change: a shutdown, or a person, may have ended the map's wait since it was looked at, and was told that
/// nothing waits from then on. The table that was loaded would wait anew. Of a map that is suspended nothing tells.
fn still_waits(control: &Control<'_>, uuid: &MapUuid) -> Result<()> {
    let told = control.told()?.ok_or_else(|| missing(uuid))?;
    if told.is_suspended || waits(&told) { Ok(()) } else { Err(its_wait_was_ended(uuid)) }
}

fn its_wait_was_ended(uuid: &MapUuid) -> Error {
    Error::new(
        Kind::Host,
        format!("the wait of the map {uuid} was ended, and no disk is put under it"),
    )
}

/// Makes the volume's map as large as its disk is now.
pub(crate) fn grow(uuid: &MapUuid, disk: &Device) -> Result<()> {
    let control = Control::of(uuid)?;
    let told = control.told()?.ok_or_else(|| missing(uuid))?;
    let sectors = disk.size / SECTOR;
    let is_on_disk = told.table.is_some_and(|table| table.path == disk.number);
    // What waits would be counted twice, and has nowhere to go.
    let works = told.status.is_some_and(|status| status.is_active);
    if sectors <= told.sectors || !is_on_disk || !works || told.is_suspended {
        return Ok(());
    }
    control.load(sectors, disk.number, disk.read_only)?;
    let now = control.told().and_then(|told| told.ok_or_else(|| missing(uuid)));
    let changed = now.and_then(|now| suspended(&control, waits(&now)).map(|()| now));
    let goes_on_without = |_: &Error| KernelMaps::default().goes_on_without(uuid.volume());
    let now = changed.inspect_err(goes_on_without)?;
    control.swap()?;
    // A new table waits. One that did not, for no disk would be put under it, must not from here on.
    if !waits(&now) {
        control.tell("fail_if_no_path")?;
    }
    Ok(())
}

/// What becomes of a request to the volume's map, as far as that can be told.
pub(crate) fn state_of(sysfs: &Path, volume: &VolumeId) -> Option<MapState> {
    // Only the machine's own maps can be asked.
    if sysfs != Path::new("/sys") {
        return None;
    }
    let maps = KernelMaps { sysfs: sysfs.to_path_buf() };
    match maps.map_of(volume) {
        Ok(map) => map.map(|map| map.state()),
        Err(error) => {
            tracing::debug!(%volume, %error, "how the volume's map is cannot be told");
            None
        }
    }
}

/// Whether what is asked of this map fails and does not wait: then its disk's number is as good as gone. What
/// cannot be told is no such answer.
pub(crate) fn fails(sysfs: &Path, volume: &VolumeId) -> bool {
    state_of(sysfs, volume) == Some(MapState::Fails)
}

fn uuid_of(volume: &VolumeId) -> Result<MapUuid> {
    MapUuid::of(volume)
        .ok_or_else(|| Error::bad_call(format!("the id of volume {volume} is too long for a map")))
}

fn missing(uuid: &MapUuid) -> Error {
    Error::new(Kind::Missing, format!("there is no map {uuid}"))
}
