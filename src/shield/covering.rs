//! Whether a new mount is made through a map that waits while the disk is away, and that map.

use crate::driver::Context;
use crate::driver::lookup::find_disk;
use crate::driver::mount::stage::StageOptions;
use crate::driver::operation::moment;
use crate::driver::shield::{self, MapOverDisk};
use crate::model::disk::contents::{FileSystem, FsType};
use crate::model::disk::device::{Device, Identity};
use crate::model::disk::journal::sights::{JournalMark, JournalSights};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::policy::{HealMode, ShieldMode};
use crate::model::record::MapIntent;
use crate::ports::host::{AboveDisk, Maps};
use crate::{own_maps, superblocks};
use std::time::Duration;

/// How long a new mount is compared with its disk, which the kernel may write to just then.
const COMPARED_FOR: Duration = Duration::from_secs(2);

/// Puts a map over the disk, if the volume is to have one, and after the file system was found, made or
/// checked on the disk itself: a program that reads a disk has no map to wait in. Where it cannot have one
/// it is mounted as ever, and that is said.
pub(crate) fn cover(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &Device,
    found: &FileSystem,
    options: &StageOptions,
) -> Result<Option<MapOverDisk>> {
    if disk.kernel_name.starts_with("dm-") {
        return covered_already(maps, cx, id, disk);
    }
    if options.shield.unwrap_or(cx.policy.shield.mode) == ShieldMode::Off || options.untouched {
        return Ok(None);
    }
    let name = &disk.kernel_name;
    let sights = match sights_before(maps, cx, id, disk, found) {
        Ok(sights) => sights,
        Err(error) => {
            tracing::warn!(volume = %id, disk = name, why = error.cause, "mounted without a shield");
            return Ok(None);
        }
    };
    if let Err(error) = maps.cover(find_disk::prove(cx, id, disk)?, sights.counted()) {
        own_maps::tidy(maps, cx, id);
        tracing::warn!(volume = %id, disk = name, %error, "mounted without a shield: device mapper makes no map");
        return Ok(None);
    }
    let map = find_disk::disk(cx, id)?;
    if !map.kernel_name.starts_with("dm-") {
        return Err(Error::new(Kind::Host, format!("the map over {name} is not seen")));
    }
    tracing::info!(volume = %id, disk = name, map = map.kernel_name, "a map is over the volume's disk");
    let mark = intended(cx, id, &map, sights.before_mount());
    Ok(Some(MapOverDisk { map, mark, was_open: false }))
}

/// Through a map that is there it is mounted whatever is wished now: beside it, it cannot be.
fn covered_already(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &Device,
) -> Result<Option<MapOverDisk>> {
    let Some(map) = shield::seen(cx, id).filter(|map| map.number == disk.number) else {
        return Ok(None);
    };
    let sights = below(cx, id)?.and_then(|below| {
        let sights = maps.journals(&below, &AboveDisk::Map(disk, None), cx.deadline);
        sights.map_err(|error| tracing::debug!(volume = %id, %error, "no journal")).ok()
    });
    // udev opens each new map for a moment: only a journal at work tells that it is mounted.
    let was_open = sights.as_ref().map_or(map.opened > 0, JournalSights::is_mounted);
    let mark = if was_open {
        cx.store.records.load(id).journal_through(&moment(cx, disk))
    } else {
        // What a killed call left: the kernel has not mounted it yet.
        intended(cx, id, disk, sights.and_then(|sights| sights.before_mount()))
    };
    Ok(Some(MapOverDisk { map: disk.clone(), mark, was_open }))
}

/// Writes down that the map is mounted now; answers what the mount is remembered by, if that could be done.
fn intended(
    cx: &Context<'_>,
    id: &VolumeId,
    map: &Device,
    mark: Option<JournalMark>,
) -> Option<JournalMark> {
    let Some(journal) = mark else {
        forget_intent(cx, id);
        return None;
    };
    let intent = MapIntent { map: moment(cx, map), journal: journal.clone() };
    match cx.store.records.update(id, |record| record.shield.map_intent = Some(intent)) {
        Ok(()) => Some(journal),
        Err(error) => {
            tracing::warn!(volume = %id, map = map.kernel_name, %error, "a mount through a map is not written down");
            None
        }
    }
}

/// What an earlier mount was to be remembered by says nothing of this one.
fn forget_intent(cx: &Context<'_>, id: &VolumeId) {
    if cx.store.records.load(id).shield.map_intent.is_none() {
        return;
    }
    if let Err(error) = cx.store.records.update(id, |record| record.shield.map_intent = None) {
        tracing::warn!(volume = %id, %error, "an earlier mount through a map is not forgotten");
    }
}

/// The journal of a disk that is not mounted yet. An error if the volume can have no map.
fn sights_before(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    disk: &Device,
    found: &FileSystem,
) -> Result<JournalSights> {
    let not_with = |why: &str| Err(Error::new(Kind::Host, why));
    if !matches!(found.kind, FsType::Ext4 | FsType::Xfs) {
        return not_with(&format!(
            "whether an {} was written elsewhere cannot be told",
            found.kind
        ));
    }
    if cx.policy.heal != HealMode::Auto {
        return not_with("heal.mode is not auto, and nothing else would end a wait");
    }
    if !matches!(cx.cloud.identity(id), Identity::Serial(_)) {
        return not_with("its disk is known by a file, and not by a serial");
    }
    if cx.store.records.load(id).mark.is_shareable == Some(true) {
        return not_with("the cloud would give the volume to several servers");
    }
    maps.journals(disk, &AboveDisk::Nothing, cx.deadline)
}

/// The disk under the volume's map.
fn below(cx: &Context<'_>, id: &VolumeId) -> Result<Option<Device>> {
    let path = shield::seen(cx, id).and_then(|map| map.table).map(|table| table.path);
    path.map_or(Ok(None), |path| cx.host.devices.disk_at(path))
}

/// After the mount: what it is remembered by, if the kernel and the disk agree on it, as they must when the disk is
/// back one day. Where they do not, no disk will be put under the map, and it waits for none.
pub(crate) fn journal(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    covered: &MapOverDisk,
) -> Option<JournalMark> {
    let MapOverDisk { map, mark, was_open } = covered;
    // What runs writes all the time, and was compared when it was mounted.
    if *was_open && mark.is_some() {
        return mark.clone();
    }
    match agree(maps, cx, id, map, mark.as_ref()) {
        Ok(mark) => Some(mark),
        Err(error) if *was_open => {
            not_compared_yet(id, map, &error);
            None
        }
        Err(error) => {
            wait_for_none(maps, id, map, &error);
            None
        }
    }
}

/// Notes the journal position of a mount that a killed call made and did not compare.
pub(crate) fn note_found(maps: &dyn Maps, cx: &Context<'_>, id: &VolumeId, disk: &Device) {
    if !disk.kernel_name.starts_with("dm-") {
        return;
    }
    let record = cx.store.records.load(id);
    let is_untold = record
        .mounts
        .staged
        .as_ref()
        .is_some_and(|staged| staged.disk.is_of(&moment(cx, disk)) && staged.journal.is_none());
    if !is_untold {
        return;
    }
    // Also where the intent tells it: what is compared later is kept in memory by this look.
    let intended = record.journal_through(&moment(cx, disk));
    let noted = agree(maps, cx, id, disk, intended.as_ref()).and_then(|mark| {
        cx.store.records.update(id, |record| {
            if let Some(staged) = &mut record.mounts.staged {
                staged.journal = Some(mark);
            }
        })
    });
    if let Err(error) = noted {
        not_compared_yet(id, disk, &error);
    }
}

/// A wait that only the patience could end is worse than an error at once, which the heal puts right.
fn wait_for_none(maps: &dyn Maps, id: &VolumeId, map: &Device, why: &Error) {
    let name = &map.kernel_name;
    tracing::warn!(volume = %id, map = name, why = why.cause, "without a shield: a disk that comes back would not be put under the map");
    if let Err(error) = maps.end_wait(id) {
        tracing::warn!(volume = %id, map = name, %error, "the map waits all the same");
    }
}

/// What the mount is remembered by, on which the disk and the kernel agree; it is worked out where it is not known.
fn agree(
    maps: &dyn Maps,
    cx: &Context<'_>,
    id: &VolumeId,
    map: &Device,
    mark: Option<&JournalMark>,
) -> Result<JournalMark> {
    let below = below(cx, id)?.ok_or_else(|| Error::new(Kind::Missing, "its disk is gone"))?;
    let until = cx.deadline.at_most(COMPARED_FOR);
    let mut before = None;
    loop {
        let sights = maps.journals(&below, &AboveDisk::WorkingMap(map), cx.deadline)?;
        match sights.agreed(mark, before.as_ref()) {
            Ok(mark) => {
                superblocks::note(maps, cx, id, map, &mark);
                return Ok(mark);
            }
            Err(why) if !until.pause(Duration::from_millis(20)) => {
                return Err(Error::new(Kind::Host, why));
            }
            Err(_) => before = Some(sights),
        }
    }
}

/// What runs may write all that time, so this is no reason to end its shield: the next call that would mount it compares it anew.
fn not_compared_yet(id: &VolumeId, map: &Device, why: &Error) {
    let name = &map.kernel_name;
    tracing::warn!(volume = %id, map = name, why = why.cause, "the mount could not be compared with its disk yet");
}

#[cfg(test)]
mod tests;
