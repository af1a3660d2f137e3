//! Reads the log of an xfs around the place where the kernel goes on, and what the kernel tells of that.

use super::direct::{Direct, confined, strange};
use super::write_count;
use crate::model::disk::device::Device;
use crate::model::disk::journal::sights::JournalMark;
use crate::model::disk::journal::xfs_log::{LogNumber, LogSector, LogStretch};
use crate::model::disk::journal::xfs_moment::{
    BUFFERS, XfsKernel, XfsMark, XfsMounted, XfsSight, is_counted_still, stretch_around,
};
use crate::model::disk::journal::xfs_place::{LogPlace, SECTOR, XFS_UUID, log_place};
use crate::model::error::{Error, Kind, Result};
use crate::model::mount::mountinfo::Mount;
use crate::ports::clock::Deadline;
use crate::ports::host::AboveDisk;
use crate::{device_nodes, files};
use nix::libc;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// How long it is tried to read a log that is not written meanwhile.
const HELD_STILL: Duration = Duration::from_secs(2);

/// How often a log is read that is written meanwhile.
#[derive(Clone, Copy)]
struct Readings {
    /// As often as there is time.
    until: Deadline,
    /// And past that, for so many records: on a slow machine one reading may take all of it. What waits for its disk writes
    /// no more of them than there are buffers, so one of the readings succeeds.
    records: u64,
    deadline: Deadline,
}

impl Readings {
    fn of_what_waits(deadline: Deadline) -> Self {
        Self { records: BUFFERS, ..Self::of_what_works(deadline) }
    }

    /// It may be written without an end.
    fn of_what_works(deadline: Deadline) -> Self {
        Self { until: deadline.at_most(HELD_STILL), records: 0, deadline }
    }

    /// After so many whose log was written meanwhile.
    fn is_one_left(self, failed: u64) -> bool {
        const BETWEEN: Duration = Duration::from_millis(20);
        self.until.pause(BETWEEN) || (failed <= self.records && self.deadline.pause(BETWEEN))
    }
}

/// The log on this disk, whose beginning is given. What the kernel tells must be the same before and after it was read.
pub(super) fn sight(
    direct: &Direct<'_>,
    begin: &[u8],
    (above, mounts): (&AboveDisk<'_>, &[Mount]),
    deadline: Deadline,
) -> Result<XfsSight> {
    let disk = direct.disk;
    let (uuid, place) = confined(disk, || log_place(begin))?;
    let log = Log { direct, place, uuid: &begin[XFS_UUID] };
    let mounted = match above {
        AboveDisk::Nothing => {
            // Whether the log is long enough is known before the mount.
            confined(disk, || stretch_around(&place, (1, 0)))?;
            None
        }
        AboveDisk::Map(map, mark) => {
            let head = match mark {
                Some(JournalMark::XfsLog(mark)) => Some(mark.head),
                _ => None,
            };
            log.around(map, head, Readings::of_what_waits(deadline))?
        }
        AboveDisk::WorkingMap(map) => {
            let before = told(map, &place)?;
            // Each try writes a record: not while others are written, for by them nothing can be tried.
            if before.is_some_and(|before| before.in_flight == 0) {
                writes_a_record(map, mounts)?;
            }
            let mut mounted = log.around(map, None, Readings::of_what_works(deadline))?;
            if let Some(mounted) = &mut mounted {
                mounted.kernel.buffer = buffer(mounts);
                mounted.before = before;
            }
            mounted
        }
    };
    Ok(XfsSight { uuid, place, mounted })
}

/// A log on a disk.
struct Log<'a> {
    direct: &'a Direct<'a>,
    place: LogPlace,
    uuid: &'a [u8],
}

impl Log<'_> {
    /// The log around the kernel's place, and what stands where the mount began; nothing if it is not mounted.
    fn around(
        &self,
        map: &Device,
        mount: Option<u64>,
        readings: Readings,
    ) -> Result<Option<XfsMounted>> {
        let Some(mut before) = told(map, &self.place)? else { return Ok(None) };
        let mut failed = 0;
        loop {
            let disk = self.direct.disk;
            let (from, count) = confined(disk, || stretch_around(&self.place, before.head))?;
            let log = self.read(from, count)?;
            let at_tail = self.sector(self.place.position_of(before.tail))?;
            let at_head = mount.map_or(Ok(None), |position| self.sector(position))?;
            let Some(kernel) = told(map, &self.place)? else { return Ok(None) };
            let is_still = |a: &XfsKernel, b: &XfsKernel| {
                (a.head, a.tail, a.written) == (b.head, b.tail, b.written)
            };
            if is_still(&kernel, &before) {
                return Ok(Some(XfsMounted { kernel, before: None, log, at_tail, at_head }));
            }
            before = kernel;
            failed += 1;
            if !readings.is_one_left(failed) {
                return Err(Error::new(Kind::Timeout, "the journal is written all the time"));
            }
        }
    }

    /// So many sectors from a position on; the log goes on at its beginning behind its end.
    fn read(&self, from: u64, count: u64) -> Result<LogStretch> {
        let disk = self.direct.disk;
        let (_, sector) = self.place.cycle_and_sector(from);
        let till_end = count.min(self.place.sectors - sector);
        let mut bytes = Vec::new();
        for (sector, count) in [(sector, till_end), (0, count - till_end)] {
            let at = self.place.at + sector * SECTOR;
            let length = usize::try_from(count * SECTOR)
                .map_err(|_| strange(disk, "its journal is too long"))?;
            if length > 0 {
                bytes.extend(self.direct.read((at, length))?);
            }
        }
        confined(disk, || Ok(LogStretch::parse(&bytes, &self.place, from, self.uuid)))
    }

    fn sector(&self, position: u64) -> Result<Option<LogSector>> {
        Ok(self.read(position, 1)?.sectors.pop())
    }
}

/// Why what the kernel tells of this map cannot be compared with a disk that comes back. No disk is read.
pub(super) fn why_untold(map: &Device, mark: &XfsMark) -> Result<Option<String>> {
    // Of a map that is mounted no more there is nothing to tell, and the next mount must find it as it was.
    let (Some(first), Some(then)) = (told(map, &mark.place)?, told(map, &mark.place)?) else {
        return Ok(None);
    };
    Ok(is_counted_still(mark, &first, &then).err())
}

/// What the kernel tells of the xfs that is mounted from this map; nothing if none is. These files are of its memory.
fn told(map: &Device, place: &LogPlace) -> Result<Option<XfsKernel>> {
    let name = &map.kernel_name;
    let at = |file: &str| number(&format!("/sys/fs/xfs/{name}/log/{file}"));
    let in_flight = || {
        let text = files::read_text(format!("/sys/block/{name}/inflight")).ok()?;
        text.split_whitespace().nth(1)?.parse().ok()
    };
    let (Some(head), Some(tail), Some(in_flight)) =
        (at("log_head_lsn"), at("log_tail_lsn"), in_flight())
    else {
        return Ok(None);
    };
    // A mount's buffers are asked for once, when it is new: they do not change.
    let written = write_count::written(map, place.stretch())?;
    Ok(Some(XfsKernel { head, tail, buffer: None, written, in_flight }))
}

/// `12:3456`.
fn number(path: &str) -> Option<LogNumber> {
    let text = files::read_text(path).ok()?;
    let (cycle, sector) = text.trim().split_once(':')?;
    Some((cycle.parse().ok()?, sector.parse().ok()?))
}

/// How large a buffer of the log is, in sectors: `logbsize=32k`.
fn buffer(mounts: &[Mount]) -> Option<u64> {
    let mut options = mounts.first()?.super_options.split(',');
    let size = options.find_map(|option| option.strip_prefix("logbsize="))?;
    let bytes = size.strip_suffix('k')?.parse::<u64>().ok()?.checked_mul(1024)?;
    Some(bytes / SECTOR)
}

/// Makes the file system write a record to its log: by a file without a name, which is gone when it is closed. What
/// the first record of a mount is tells it from all others, and by one that is written the count is tried.
fn writes_a_record(map: &Device, mounts: &[Mount]) -> Result<()> {
    let name = &map.kernel_name;
    let failed = |error: std::io::Error| {
        Error::io(format!("write a first record to the journal of {name}"), &error)
    };
    let Some(mount) = mounts.iter().find(|mount| mount.root == Path::new("/")) else {
        return Err(Error::new(Kind::Missing, format!("{name} is mounted nowhere")));
    };
    let flags = libc::O_TMPFILE | libc::O_NOFOLLOW;
    let file = OpenOptions::new().write(true).mode(0o600).custom_flags(flags).open(&mount.target);
    let file = file.map_err(failed)?;
    if device_nodes::number_below(&file.metadata().map_err(failed)?) != map.number {
        return Err(Error::new(Kind::Host, format!("{name} is not at its mount")));
    }
    file.sync_all().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_often_as_what_waits_can_write_it_and_never_past_the_end() {
        let (over, later) = (Deadline::after(Duration::ZERO), Deadline::after(HELD_STILL));
        let waits = Readings::of_what_waits(later);
        assert!(waits.is_one_left(BUFFERS + 1), "there is time");
        let late = Readings { until: over, ..waits };
        assert!(late.is_one_left(1) && late.is_one_left(BUFFERS) && !late.is_one_left(BUFFERS + 1));
        let works = Readings::of_what_works(later);
        assert!(works.is_one_left(1) && !Readings { until: over, ..works }.is_one_left(1));
        assert!(!Readings::of_what_waits(over).is_one_left(1));
    }
}
