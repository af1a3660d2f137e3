//! A map that waits: the disk that came back is put under it, if nothing else wrote to it meanwhile, and what
//! waits goes on; or the patience is over, and it fails.

use crate::driver::Context;
use crate::driver::guard::remote_mark::millis_since_boot;
use crate::driver::lookup::find_disk;
use crate::driver::operation::moment;
use crate::driver::shield::{self, Returned};
use crate::model::advice::{Remedy, advise};
use crate::model::disk::device::Device;
use crate::model::disk::exclusive_open::ExclusiveOpen;
use crate::model::disk::journal::one_moment::Sameness;
use crate::model::disk::journal::sights::JournalMark;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::record::{MapWait, VolumeRecord, WaitCause};
use crate::model::shield::own_map::{MapState, OwnMap};
use crate::model::text::kept;
use crate::ports::host::{AboveDisk, Maps};
use crate::{own_maps, superblocks};
use std::time::Duration;

/// What came of a try to put a disk under its map.
enum PutBack {
    Done,
    NoDisk,
    /// Something else may have written to it: why.
    Refused(String),
}

/// What a look finds.
enum Found {
    Waiting(OwnMap, MapWait),
    Failing(Error),
    Neither,
}

/// What a look may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    AtDisks,
    /// What the kernel has in memory alone.
    InMemory,
}

/// Looks after the volume's map, if it has one. The caller holds the volume's lock.
pub(crate) fn look_after(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId) -> Returned {
    let (map, wait) = match found(maps, cx, id, Looks::AtDisks) {
        Found::Waiting(map, wait) => (map, wait),
        Found::Failing(why) => return Returned::Fails(why),
        Found::Neither => return Returned::Not,
    };
    let (cause, why) = match put_back(maps, cx, id, &map) {
        Ok(PutBack::Done) => {
            let waited =
                cx.host.environment.uptime().since(&wait.since).unwrap_or_default().as_secs();
            tracing::warn!(volume = %id, map = map.kernel_name, waited, "the disk is back under its map: what waited goes on");
            cx.counts.wait_ended(true);
            forget_wait(cx, id);
            return Returned::Back;
        }
        Ok(PutBack::NoDisk) => (WaitCause::Gone, None),
        Ok(PutBack::Refused(why)) => (WaitCause::Refused, Some(why)),
        Err(error) => (WaitCause::Gone, Some(error.to_string())),
    };
    note_why(cx, id, &map, &wait, (cause, why));
    end_of_patience(maps, cx, id, &map, &wait);
    Returned::Not
}

/// Before what would wait with the map: its disk may be back, and neither an event nor the timer have come to it. The
/// caller holds the volume's lock.
pub(crate) fn must_not_wait(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId) -> Result<()> {
    own_maps::must_not_wait(maps, id).or_else(|_| {
        let _ = look_after(maps, cx, id);
        own_maps::must_not_wait(maps, id).map_err(|error| shield::why_it_waits(cx, id, error))
    })
}

/// The part of it that reads no disk: where a process hangs that reads one, the wait must have its end all the
/// same.
pub(crate) fn keep_time(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId) {
    if let Found::Waiting(map, wait) = found(maps, cx, id, Looks::InMemory) {
        end_of_patience(maps, cx, id, &map, &wait);
    }
}

/// What the timer looks at while the volume's map works.
pub(crate) fn note_superblock(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId) {
    let Some(map) = shield::seen(cx, id).filter(|map| map.state().works()) else { return };
    if let Some((over, mark)) = remembered(cx, id, &map) {
        superblocks::note(maps, cx, id, &over, &mark);
    }
}

/// The map as a disk, and what its mount is remembered by.
fn remembered(cx: &Context<'_>, id: &VolumeId, map: &OwnMap) -> Option<(Device, JournalMark)> {
    let over = cx.host.devices.disk_at(map.number).ok().flatten()?;
    let mark = cx.store.records.load(id).journal_through(&moment(cx, &over))?;
    Some((over, mark))
}

/// The map, if it waits for its disk, and since when. One that waits at its disk is told to go on, if that is still
/// the one that it was.
fn found(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId, looks: Looks) -> Found {
    let map = match maps.map_of(id) {
        Ok(Some(map)) => map,
        Ok(None) => {
            forget_wait(cx, id);
            return Found::Neither;
        }
        Err(error) => {
            tracing::debug!(volume = %id, %error, "whether the volume has a map cannot be told");
            return Found::Neither;
        }
    };
    let Some(map) = without_second_table(maps, cx, id, map) else { return Found::Neither };
    if matches!(map.state(), MapState::WaitsAtPath | MapState::Suspended) {
        // A request that fails each time waits as well: only a look that finds it working ends this wait.
        let wait = note_wait(cx, id, &map, WaitCause::Failing);
        if map.state() == MapState::Suspended {
            note_why(cx, id, &map, &wait, (WaitCause::Failing, None));
            own_maps::settle(maps, cx, id);
        } else if looks == Looks::AtDisks {
            let why = why_not_again(maps, cx, id, &map);
            let why = why.unwrap_or_else(|error| Some(error.to_string()));
            let is_as_it_was = why.is_none();
            note_why(cx, id, &map, &wait, (WaitCause::Failing, why));
            if is_as_it_was {
                own_maps::try_again(maps, cx, id);
            }
        }
        let Some(now) = shield::seen(cx, id) else { return Found::Neither };
        if now.state() == MapState::WaitsForDisk {
            return Found::Waiting(now, wait);
        }
        // What fails from now on is told by the look that let it fail.
        let is_over = end_of_patience(maps, cx, id, &now, &wait);
        return if is_over { found(maps, cx, id, looks) } else { Found::Neither };
    }
    let fails_here = map.state() == MapState::Fails && map.has_disk && map.opened > 0;
    if fails_here && looks == Looks::AtDisks {
        forget_wait(cx, id);
        let goes_on = goes_on_as_without_a_map(maps, cx, id, &map);
        return goes_on.map_or_else(Found::Failing, |()| Found::Neither);
    }
    if map.state() == MapState::Works {
        waits_not_in_vain(maps, cx, id, &map);
    }
    if !map.state().waits() || map.opened == 0 {
        forget_wait(cx, id);
        return Found::Neither;
    }
    let wait = note_wait(cx, id, &map, WaitCause::Gone);
    Found::Waiting(map, wait)
}

/// A table that a killed call has loaded holds its disk: so long the disk that came back is in use.
fn without_second_table(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    map: OwnMap,
) -> Option<OwnMap> {
    if !map.has_second_table || map.is_suspended {
        return Some(map);
    }
    own_maps::settle(maps, cx, id);
    shield::seen(cx, id)
}

/// A map whose disk could not be compared when it is back: its loss is as without a shield. A wait that only the
/// patience ends is worse than an error that the heal puts right.
fn waits_not_in_vain(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId, map: &OwnMap) {
    let Some((over, mark)) = remembered(cx, id, map) else { return };
    let name = &map.kernel_name;
    let why = match maps.why_untold(&over, &mark) {
        Ok(Some(why)) => why,
        Ok(None) => return,
        Err(error) => {
            tracing::debug!(volume = %id, map = name, %error, "whether a disk that comes back could be compared is not known");
            return;
        }
    };
    tracing::warn!(volume = %id, map = name, why, "without a shield from here on: a disk that comes back would not be put under the map");
    if let Err(error) = own_maps::end_wait(maps, id) {
        tracing::warn!(volume = %id, map = name, %error, "the map waits all the same");
    }
}

/// A map that waits no more, and a request to its disk failed. Without a map the next one would be tried; through
/// one that can tell an earlier state of its disk it never reaches what may be one.
fn goes_on_as_without_a_map(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    map: &OwnMap,
) -> Result<()> {
    let why = disk_below(cx, id, map).and_then(|(over, disk)| {
        match cx.store.records.load(id).journal_through(&moment(cx, &over)) {
            Some(mark) if maps.why_untold(&over, &mark)?.is_none() => {
                why_another(maps, cx, id, &over, &disk)
            }
            _ => Ok(None),
        }
    });
    let why = match why {
        Ok(None) => {
            own_maps::try_again(maps, cx, id);
            return Ok(());
        }
        Ok(Some(why)) => why,
        Err(error) => error.to_string(),
    };
    let name = &map.kernel_name;
    let reason = format!("what is asked of {name} fails, for its disk is not proven: {why}");
    let way = "{} takes it from what uses it; the next mount looks at the disk anew";
    Err(Error::refused(reason).hint(advise(way, [Remedy::Release.of(id)])))
}

/// Why the disk under a map whose request failed may be written meanwhile.
fn why_not_again(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    map: &OwnMap,
) -> Result<Option<String>> {
    let (over, disk) = disk_below(cx, id, map)?;
    why_another(maps, cx, id, &over, &disk)
}

/// The map and the disk below it, which is the volume's: a target can be given another disk whose going this machine
/// was not told of.
fn disk_below(cx: &Context<'_>, id: &VolumeId, map: &OwnMap) -> Result<(Device, Device)> {
    let disk = map.table.map_or(Ok(None), |table| cx.host.devices.disk_at(table.path))?;
    let disk = disk.ok_or_else(|| Error::new(Kind::Missing, "its disk is gone"))?;
    // What it shows may be what the kernel remembers of it.
    cx.host.devices.rescan(&disk)?;
    let over = find_disk::disk(cx, id)?;
    if over.number == map.number {
        return Ok((over, disk));
    }
    let (its, other) = (&over.kernel_name, &disk.kernel_name);
    Err(Error::new(Kind::Host, format!("{its} is the volume's disk, and not {other}")))
}

fn put_back(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId, map: &OwnMap) -> Result<PutBack> {
    if map.has_disk {
        return Ok(PutBack::NoDisk);
    }
    let Some(disk) = find_disk::find_disk(cx, id)?.filter(|disk| disk.size > 0) else {
        return Ok(PutBack::NoDisk);
    };
    let _held = find_disk::hold(cx, id, &disk)?;
    if let Some(why) = why_not(maps, cx, id, map, &disk)? {
        return Ok(PutBack::Refused(why));
    }
    maps.switch(find_disk::prove(cx, id, &disk)?)?;
    Ok(PutBack::Done)
}

/// Why anything else may have written to the disk than what is mounted through the map. An error where this
/// cannot be looked at just now.
fn why_not(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    map: &OwnMap,
    disk: &Device,
) -> Result<Option<String>> {
    let name = &disk.kernel_name;
    if disk.read_only {
        return Ok(Some(format!("{name} refuses writes")));
    }
    if cx.host.devices.exclusive_open(disk)? != ExclusiveOpen::Free {
        return Err(Error::new(Kind::Host, format!("something uses {name}")));
    }
    let over = cx.host.devices.disk_at(map.number)?;
    let over =
        over.ok_or_else(|| Error::new(Kind::Missing, format!("{} is gone", map.kernel_name)))?;
    why_another(maps, cx, id, &over, disk)
}

/// Why the disk may not be what was mounted through this map, or may have been written since by anything else.
fn why_another(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    over: &Device,
    disk: &Device,
) -> Result<Option<String>> {
    let name = &disk.kernel_name;
    let record = cx.store.records.load(id);
    if record.mark.is_shareable == Some(true) {
        return Ok(Some("the cloud would give the volume to several servers".to_owned()));
    }
    // The next map may have the number that an earlier one had.
    let now = moment(cx, over);
    let Some(staged) = record.mounts.mounted_as().filter(|staged| staged.disk.is_of(&now)) else {
        return Ok(Some("how the volume was mounted is not remembered".to_owned()));
    };
    let Some(mark) = record.journal_through(&now) else {
        return Ok(Some("how far its journal was at the mount is not known".to_owned()));
    };
    let above = AboveDisk::Map(over, Some(&mark));
    let sights = maps.journals(disk, &above, cx.deadline)?;
    let uuid = sights.uuid();
    if uuid != staged.uuid {
        return Ok(Some(format!("{name} has the file system {uuid}, and not {}", staged.uuid)));
    }
    match sights.compare(&mark, record.shield.superblocks_through(&now)) {
        Sameness::Same => Ok(None),
        Sameness::Differs(why) | Sameness::Unknown(why) => Ok(Some(format!("{name}: {why}"))),
    }
}

/// Since when it waits: the moment is written down, for the next look is another process's.
fn note_wait(cx: &Context<'_>, id: &VolumeId, map: &OwnMap, cause: WaitCause) -> MapWait {
    let now = cx.host.environment.uptime();
    let known =
        cx.store.records.load(id).shield.map_wait.filter(|wait| now.since(&wait.since).is_some());
    known.unwrap_or_else(|| {
        let wait = MapWait { since: now, cause, not_switched: None };
        let (name, state) = (&map.kernel_name, map.state().words());
        tracing::warn!(volume = %id, map = name, state, patience = cx.policy.shield.patience, "what is asked of the volume waits");
        change(cx, id, |record| {
            record.shield.map_wait = Some(wait.clone());
            record.mark.doubt(millis_since_boot());
        });
        wait
    })
}

/// Why no disk was put under the map is said once, until it is another reason.
fn note_why(
    cx: &Context<'_>,
    id: &VolumeId,
    map: &OwnMap,
    wait: &MapWait,
    (cause, why): (WaitCause, Option<String>),
) {
    let why = why.map(|why| kept(&why));
    if (wait.cause, &wait.not_switched) == (cause, &why) {
        return;
    }
    if let Some(why) = &why {
        tracing::warn!(volume = %id, map = map.kernel_name, why, "the disk that is here is not put under the map");
    }
    change(cx, id, |record| {
        if let Some(wait) = &mut record.shield.map_wait {
            (wait.cause, wait.not_switched) = (cause, why);
        }
    });
}

/// Whether the wait was ended.
fn end_of_patience(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    map: &OwnMap,
    wait: &MapWait,
) -> bool {
    let waited = cx.host.environment.uptime().since(&wait.since).unwrap_or_default();
    if waited < Duration::from_secs(cx.policy.shield.patience) {
        return false;
    }
    let (name, waited) = (&map.kernel_name, waited.as_secs());
    tracing::warn!(volume = %id, map = name, waited, "the patience is over");
    let ended = own_maps::end_wait(maps, id);
    match &ended {
        Ok(()) => {
            cx.counts.wait_ended(false);
            forget_wait(cx, id);
        }
        Err(error) => {
            tracing::warn!(volume = %id, map = name, %error, "the wait could not be ended");
        }
    }
    ended.is_ok()
}

fn forget_wait(cx: &Context<'_>, id: &VolumeId) {
    if cx.store.records.load(id).shield.map_wait.is_some() {
        change(cx, id, |record| record.shield.map_wait = None);
    }
}

fn change(cx: &Context<'_>, id: &VolumeId, change: impl FnOnce(&mut VolumeRecord)) {
    if let Err(error) = cx.store.records.update(id, change) {
        tracing::warn!(volume = %id, %error, "the wait of the volume's map is not remembered");
    }
}

#[cfg(test)]
mod tests;
