//! Maps of the driver's own, made and switched as a driver does it that mounts through them: by the
//! driver's own code.

use incloud_disk::host::device_mapper::KernelMaps;
use incloud_disk::host::devices::SysfsDevices;
use incloud_disk::model::disk::device::{Device, Identity};
use incloud_disk::model::ids::VolumeId;
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::host::{AboveDisk, Devices, Maps, Proven};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The same by a process of its own, which can be killed at a step.
pub(crate) fn cover_by_a_process(volume: &str) -> ExitCode {
    ended(cover(volume))
}

pub(crate) fn switch_by_a_process(volume: &str) -> ExitCode {
    ended(switch(volume).map(drop))
}

fn ended(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

pub(super) fn cover(volume: &str) -> Result<(), String> {
    for module in ["dm-mod", "dm-multipath", "dm-round-robin"] {
        let done = Command::new("/sbin/modprobe").arg(module).output();
        let done = done.map_err(|error| format!("modprobe: {error}"))?;
        if !done.status.success() {
            let text = String::from_utf8_lossy(&done.stderr).into_owned();
            return Err(format!("modprobe {module}: {text}"));
        }
    }
    let (id, disk) = disk_of(volume)?;
    let maps = KernelMaps::default();
    // Of an xfs what is written to its log is counted from before the map has a table; a blank disk has none.
    let deadline = Deadline::after(Duration::from_secs(10));
    let sights = maps.journals(&disk, &AboveDisk::Nothing, deadline);
    let counted = sights.ok().and_then(|sights| sights.counted());
    maps.cover(proven(&id, &disk)?, counted).map_err(|error| error.to_string())
}

pub(super) fn switch(volume: &str) -> Result<Duration, String> {
    let begun = Instant::now();
    let (id, disk) = disk_of(volume)?;
    KernelMaps::default().switch(proven(&id, &disk)?).map_err(|error| error.to_string())?;
    Ok(begun.elapsed())
}

/// Whatever a scenario left.
pub(super) fn end() -> Result<(), String> {
    let maps = KernelMaps::default();
    for volume in maps.volumes().map_err(|error| error.to_string())? {
        maps.end_wait(&volume).map_err(|error| error.to_string())?;
        let _ = maps.remove(&volume, Deadline::after(Duration::from_millis(100)));
    }
    Ok(())
}

fn proven<'a>(id: &'a VolumeId, disk: &'a Device) -> Result<Proven<'a>, String> {
    let wanted = Identity::Serial(id.clone());
    SysfsDevices::default().prove(id, &wanted, disk).map_err(|error| error.to_string())
}

/// The disk itself, which must be under no map.
fn disk_of(volume: &str) -> Result<(VolumeId, Device), String> {
    let id = VolumeId::parse(volume).map_err(|error| error.to_string())?;
    let wanted = Identity::Serial(id.clone());
    let found = SysfsDevices::default().search(&wanted).map_err(|error| error.to_string())?;
    match found.as_slice() {
        [one] if !one.kernel_name.starts_with("dm-") => Ok((id, one.clone())),
        all => Err(format!("{wanted} is shown by {all:?}")),
    }
}
