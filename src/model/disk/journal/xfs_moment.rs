//! Whether the log of an xfs that came back is the one that the kernel goes on with, which has it mounted still.
//!
//! The kernel tells where its next record will go, and not how far the disk is: when a disk goes, up to eight
//! records are on their way. So the log on the disk may end a little before: by what device mapper, which counts the
//! sectors of the log that were written, has not counted yet, and by no sector more. What tells a stranger is what
//! each mount does first: behind the end of the log it stamps a fixed number of sectors. Where our mount's stamps end
//! is remembered, and those of any later mount end behind that.

use super::one_moment::Sameness;
use super::xfs_log::{LogNumber, LogRecord, LogSector, LogStretch};
use super::xfs_place::{LogPlace, SECTOR};
use serde::{Deserialize, Serialize};

/// So many sectors behind the end are stamped by a mount.
pub const STAMPED: u64 = 4096;
/// How many records may be on their way to the disk.
pub const BUFFERS: u64 = 8;
/// How large a buffer of records may be, in sectors.
const LARGEST_BUFFER: u64 = (256 << 10) / SECTOR;
/// No record has more sectors: its headers, and what it is filled up with.
const LONGEST_RECORD: u64 = 2 * LARGEST_BUFFER;

/// What is read before the kernel's place, and from there on.
pub const READ_BEFORE: u64 = BUFFERS * LARGEST_BUFFER + 2 * LONGEST_RECORD;
/// The same from there on.
pub const READ_AFTER: u64 = STAMPED + BUFFERS * LARGEST_BUFFER;

/// What is remembered of the log at a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XfsMark {
    /// Where the log stands.
    pub place: LogPlace,
    /// The position where the mount began to write.
    pub head: u64,
    /// The checksum of the first record that it wrote there.
    pub first: u32,
    /// How large a buffer of records is, in sectors.
    pub buffer: u64,
    /// The position up to which all was written, less the sectors that were counted till then.
    #[serde(default)]
    pub counted_from: Option<u64>,
}

/// What the kernel tells of a log that it has mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XfsKernel {
    /// Where its next record will go.
    pub head: LogNumber,
    /// Where the oldest record begins that may have to be replayed. It was on the disk.
    pub tail: LogNumber,
    /// How large a buffer of records is, in sectors, if that is told.
    pub buffer: Option<u64>,
    /// How many sectors of the log were written through the map, as far as the disk has confirmed it.
    pub written: Option<u64>,
    /// How many writes are under way in the map, of whatever.
    pub in_flight: u64,
}

/// The log on the disk around the kernel's place, and the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XfsSight {
    /// The UUID of the file system on the disk.
    pub uuid: String,
    /// Where its log stands.
    pub place: LogPlace,
    /// The rest, if it is mounted.
    pub mounted: Option<XfsMounted>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XfsMounted {
    /// What the kernel tells.
    pub kernel: XfsKernel,
    /// What it told before a record was written, so that its count can be tried.
    pub before: Option<XfsKernel>,
    /// The log from [`READ_BEFORE`] before the kernel's place on.
    pub log: LogStretch,
    /// What stands where the kernel's oldest record begins.
    pub at_tail: Option<LogSector>,
    /// What stands where the mount began to write.
    pub at_head: Option<LogSector>,
}

/// All that is on its way could hide a later mount's stamps.
const TOO_LARGE: &str = "its journal's buffers are too large to tell who wrote it (logbsize=256k)";

const UNTOLD: &str = "the kernel tells nothing of its journal";

/// How much of the log is read: where it begins, as a position, and how many sectors. An error if the log is too short.
pub fn stretch_around(place: &LogPlace, head: LogNumber) -> Result<(u64, u64), String> {
    let length = READ_BEFORE + READ_AFTER;
    let position = place.position_of(head);
    if place.sectors <= length || position < place.sectors || u64::from(head.1) >= place.sectors {
        return Err("its journal is too short to tell who wrote it".to_owned());
    }
    Ok((position - READ_BEFORE, length))
}

/// How far the log on the disk goes, by a walk from record to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Walked {
    end: u64,
    /// The oldest of all places where the log begins, by what the records say.
    tail: u64,
    /// Whether one record at least is whole.
    has_record: bool,
}

/// What a walk is held against.
#[derive(Debug, Clone, Copy)]
struct XfsWalk<'a> {
    place: &'a LogPlace,
    log: &'a LogStretch,
    /// The kernel's place.
    head: u64,
    /// Where the oldest record begins.
    tail: u64,
    /// Where our mount began to write.
    mounted_at: u64,
}

impl XfsWalk<'_> {
    fn cycle_at(&self, position: u64) -> u64 {
        self.place.cycle_and_sector(position).0
    }

    fn is_written(&self, position: u64) -> Option<bool> {
        self.log.at(position).map(|sector| u64::from(sector.cycle()) >= self.cycle_at(position))
    }

    /// A record that begins here and was written in this round.
    fn record_at(&self, position: u64) -> Option<&LogRecord> {
        match self.log.at(position) {
            Some(LogSector::Record(record)) => {
                let is_of_now = u64::from(record.cycle) == self.cycle_at(position);
                (record.is_here && is_of_now).then_some(record)
            }
            _ => None,
        }
    }

    /// Where the walk begins: with our mount's first record, or with the first one that is read.
    fn begin(&self) -> Option<u64> {
        if self.mounted_at >= self.log.begin {
            return Some(self.mounted_at);
        }
        let first = self.log.begin..self.log.begin + LONGEST_RECORD;
        first.into_iter().find(|position| self.record_at(*position).is_some())
    }

    /// From there to the first sector that this round has not written.
    fn walked(&self) -> Result<Walked, Sameness> {
        let differs = |why: &str| Sameness::Differs(why.to_owned());
        let begin = self.begin();
        let mut end =
            begin.ok_or_else(|| differs("its journal has no record where one must be"))?;
        let (mut oldest, mut before) = (self.tail, None);
        while end < self.head && self.is_written(end) == Some(true) {
            let record =
                *self.record_at(end).ok_or_else(|| differs("its journal is another one"))?;
            let behind = end + record.sectors;
            if behind > self.head {
                return Err(differs(
                    "its journal goes on where the kernel's ends: it was written elsewhere",
                ));
            }
            if let Some(cut) = (end..behind).find(|at| self.is_written(*at) != Some(true)) {
                end = cut;
                break;
            }
            let tail = self.place.position_of(record.tail);
            let follows = before.is_none_or(|before| u64::from(record.before) == before);
            if record.is_whole != Some(true) || !follows || tail > self.tail {
                return Err(differs("a record of its journal is another one"));
            }
            if record.is_unmount {
                return Err(differs("it was unmounted: it was written elsewhere"));
            }
            oldest = oldest.min(tail);
            before = Some(self.place.cycle_and_sector(end).1);
            end = behind;
        }
        Ok(Walked { end, tail: oldest, has_record: before.is_some() })
    }
}

/// Whether what is on its way is less than what a mount stamps.
fn can_be_told(buffer: u64) -> bool {
    (1..STAMPED / BUFFERS).contains(&buffer)
}

/// From where the sectors of the log are counted. An error if the count is not exact here: older kernels count a
/// write twice that flushes first.
fn counted_from(place: &LogPlace, before: &XfsKernel, now: &XfsKernel) -> Result<u64, String> {
    let none = "device mapper does not count what is written to its journal";
    let (head_before, head) = (place.position_of(before.head), place.position_of(now.head));
    let (written_before, written) = (before.written.ok_or(none)?, now.written.ok_or(none)?);
    if before.in_flight > 0 || now.in_flight > 0 || head == head_before {
        return Err("its journal is written all the time".to_owned());
    }
    let went = |now: u64, before: u64| now.checked_sub(before);
    if went(head, head_before) != went(written, written_before) {
        return Err(
            "this kernel's device mapper does not count exactly what is written to its journal"
                .to_owned(),
        );
    }
    head.checked_sub(written).ok_or_else(|| none.to_owned())
}

/// What is to be remembered of a log after a mount; an error if the kernel does not do what is known of it.
pub fn mark(sight: &XfsSight) -> Result<XfsMark, String> {
    let XfsSight { place, mounted, .. } = sight;
    let mounted = mounted.as_ref().ok_or(UNTOLD)?;
    let XfsMounted { kernel, log, .. } = mounted;
    let buffer = kernel.buffer.filter(|size| *size > 0);
    let buffer = buffer.ok_or("how large the journal's buffers are is not told")?;
    if !can_be_told(buffer) {
        return Err(TOO_LARGE.to_owned());
    }
    let position = place.position_of(kernel.head);
    let stamped = |at: u64| match log.at(at) {
        Some(LogSector::Stamp { is_here: true, cycle, tail }) => {
            (u64::from(*cycle) + 1 == place.cycle_and_sector(at).0).then_some(*tail)
        }
        _ => None,
    };
    let none = "the mount left no stamps in its journal, or wrote over them";
    let tail = stamped(position).ok_or(none)?;
    let run = (position..log.end()).take_while(|at| stamped(*at) == Some(tail)).count() as u64;
    if !(STAMPED / 2..=STAMPED).contains(&run) {
        return Err(none.to_owned());
    }
    let end = position + run;
    if end >= place.position_of(tail) + place.sectors {
        return Err("its journal was so full that the mount left fewer stamps".to_owned());
    }
    let head = end - STAMPED;
    let tail = place.position_of(kernel.tail);
    let walk = XfsWalk { place, log, head: position, tail, mounted_at: head };
    if let Err(Sameness::Differs(why) | Sameness::Unknown(why)) = walk.walked() {
        return Err(why);
    }
    let first = walk.record_at(head).filter(|record| record.is_whole == Some(true));
    let first = first.ok_or("the mount has written nothing to its journal yet")?.checksum;
    let before = mounted.before.as_ref().ok_or("the count of its journal was not tried")?;
    let counted_from = Some(counted_from(place, before, kernel)?);
    Ok(XfsMark { place: *place, head, first, buffer, counted_from })
}

impl XfsMark {
    /// The position up to which the disk has confirmed the log, by the kernel's count.
    fn confirmed(&self, kernel: &XfsKernel) -> Option<u64> {
        self.counted_from?.checked_add(kernel.written?)
    }

    /// No more can be under way than the log's buffers hold.
    fn can_be_under_way(&self, sectors: u64) -> bool {
        sectors <= BUFFERS * self.buffer
    }
}

const NOT_COUNTED: &str = "how much of its journal was confirmed is not counted";
/// Another program cleared the count.
const COUNTED_NO_MORE: &str = "what was written to its journal is counted no more";

/// Whether the count holds still, of a file system that is written all the time, by what the kernel told one after the
/// other. An error says why a disk that comes back could not be compared.
pub fn is_counted_still(mark: &XfsMark, first: &XfsKernel, then: &XfsKernel) -> Result<(), String> {
    let XfsMark { place, .. } = mark;
    let (confirmed_first, confirmed) =
        mark.confirmed(first).zip(mark.confirmed(then)).ok_or(NOT_COUNTED)?;
    let under_way = place.position_of(first.head).saturating_sub(confirmed);
    if confirmed_first > place.position_of(then.head) || !mark.can_be_under_way(under_way) {
        return Err(COUNTED_NO_MORE.to_owned());
    }
    Ok(())
}

/// Compares a disk that came with what the kernel tells, of whose mount this is remembered.
pub fn compare_logs(sight: &XfsSight, mark: &XfsMark) -> Sameness {
    match difference(sight, mark) {
        Ok(()) => Sameness::Same,
        Err(why) => why,
    }
}

fn difference(sight: &XfsSight, mark: &XfsMark) -> Result<(), Sameness> {
    let differs = |why: String| Err(Sameness::Differs(why));
    let unknown = |why: &str| Err(Sameness::Unknown(why.to_owned()));
    let XfsSight { place, mounted, .. } = sight;
    if !can_be_told(mark.buffer) || mark.head.checked_add(place.sectors).is_none() {
        return unknown("what is remembered of its journal is damaged");
    }
    if *place != mark.place {
        return differs("its journal stands elsewhere".to_owned());
    }
    let Some(XfsMounted { kernel, log, at_tail, at_head, .. }) = mounted else {
        return unknown(UNTOLD);
    };
    let (head, tail) = (place.position_of(kernel.head), place.position_of(kernel.tail));
    if head <= mark.head || tail > head {
        return unknown("the kernel tells another journal than that of the mount");
    }
    let is_here = |sector: &Option<LogSector>, position: u64| match sector {
        Some(LogSector::Record(record)) if record.is_here => {
            u64::from(record.cycle) == place.cycle_and_sector(position).0
        }
        _ => false,
    };
    // Its place is written again one round later.
    let has_first = match at_head {
        Some(LogSector::Record(record)) => {
            is_here(at_head, mark.head) && record.checksum == mark.first
        }
        _ => false,
    };
    if head <= mark.head + place.sectors && !has_first {
        return differs("its journal is not the one that the mount began: it was written elsewhere, or set back to an earlier \
             state"
                .to_owned());
    }
    if tail >= mark.head && !is_here(at_tail, tail) {
        return differs("its journal has no record where the kernel's begins: it was written elsewhere, or set back to an \
             earlier state"
                .to_owned());
    }
    let walk = XfsWalk { place, log, head, tail, mounted_at: mark.head };
    let Walked { end, tail: oldest, has_record } = walk.walked()?;
    if end + BUFFERS * mark.buffer < head || end <= tail || !has_record {
        return differs(format!(
            "its journal ends {} sectors before the kernel's: it was set back to an earlier state, or has lost \
             what it had confirmed",
            head - end
        ));
    }
    let confirmed = mark.confirmed(kernel);
    let Some(waiting) = confirmed.and_then(|confirmed| head.checked_sub(confirmed)) else {
        return unknown(NOT_COUNTED);
    };
    if !mark.can_be_under_way(waiting) {
        return unknown(COUNTED_NO_MORE);
    }
    let missing = (end..head).filter(|at| walk.is_written(*at) != Some(true)).count() as u64;
    if missing > waiting {
        return differs(format!(
            "{missing} sectors of its journal are missing, and {waiting} were not confirmed: it was set back to \
             an earlier state, or has lost what it had confirmed"
        ));
    }
    let is_later = |at: &u64| match walk.log.at(*at) {
        Some(sector) => u64::from(sector.cycle()) > walk.cycle_at(*at),
        None => true,
    };
    let goes_on = (head..log.end()).any(|at| walk.is_written(at) != Some(false));
    if goes_on || (end..head).any(|at| is_later(&at)) {
        return differs(
            "its journal goes on after the kernel's: it was written elsewhere".to_owned(),
        );
    }
    if log.end() < head + READ_AFTER || oldest + place.sectors < head + STAMPED {
        return unknown("its journal is too full to tell who wrote it");
    }
    let is_strange = |at: &u64| match log.at(*at) {
        Some(LogSector::Stamp { cycle, .. }) => u64::from(*cycle) + 1 == walk.cycle_at(*at),
        _ => false,
    };
    let ours = mark.head + STAMPED;
    match (ours.max(end)..log.end()).find(is_strange) {
        Some(_) => differs("it was mounted: it was written elsewhere".to_owned()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
