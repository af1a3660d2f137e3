//! The log of an xfs, sector by sector: records, what they are made of, and the empty headers that a mount
//! leaves behind the end.

use super::bytes::{be32, part};
use super::xfs_place::{LogPlace, SECTOR};
use crc32c::{crc32c, crc32c_append};

const MAGIC: u32 = 0xfeed_babe;
const LENGTH: usize = 512;

/// A record's header tells the cycles of so much of it; longer ones have more of them.
const TOLD_BY_ONE: u64 = 32 << 10;
/// The longest that a record may be.
const LONGEST: u64 = 256 << 10;

// Places in a header.
const CYCLE: usize = 0x4;
const VERSION: usize = 0x8;
const RECORD_LENGTH: usize = 0xc;
const OWN_PLACE: usize = 0x10;
const TAIL: usize = 0x18;
const CHECKSUM: usize = 0x20;
const BEFORE: usize = 0x24;
const PARTS: usize = 0x28;
const UUID: usize = 0x130;
const BUFFER: usize = 0x140;

/// How much of a header the checksum is over: on machines with 64 bits, and on others.
const HEADERS: [usize; 2] = [328, 324];
/// The same of each further one.
const FURTHER_HEADER: usize = 260;

/// Of the first part of a record: its flags, and the one that says that the file system is unmounted.
const PART_FLAGS: usize = 9;
const UNMOUNTED: u8 = 0x20;

/// A place as the log has it: the cycle and the sector.
pub type LogNumber = (u32, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogSector {
    /// Of a record of this cycle, or whatever stands there: not its beginning.
    Inside(u32),
    /// A record begins here.
    Record(LogRecord),
    /// An empty header that a mount wrote here.
    Stamp {
        /// Whether it says that it stands here, and is of this file system.
        is_here: bool,
        /// One less than the cycle in which it will be overwritten.
        cycle: u32,
        /// Where the log began at that mount.
        tail: LogNumber,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRecord {
    /// In which cycle it was written.
    pub cycle: u32,
    /// Whether it says that it stands here, and is of this file system.
    pub is_here: bool,
    /// How many sectors it has, its headers included.
    pub sectors: u64,
    /// Where the log began when it was written.
    pub tail: LogNumber,
    /// The sector where the one before it begins.
    pub before: u32,
    /// Its checksum, as it says it.
    pub checksum: u32,
    /// Whether it says that the file system is unmounted.
    pub is_unmount: bool,
    /// Whether that is right; nothing if its end is not in the stretch.
    pub is_whole: Option<bool>,
}

impl LogSector {
    /// The cycle in which it was written, or that it was stamped with.
    pub const fn cycle(&self) -> u32 {
        match self {
            Self::Inside(cycle) | Self::Stamp { cycle, .. } => *cycle,
            Self::Record(record) => record.cycle,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogStretch {
    /// The position of its first sector, if that were written next.
    pub begin: u64,
    pub sectors: Vec<LogSector>,
}

impl LogStretch {
    /// Reads the bytes of a stretch that begins at this position, of the file system with these 16 bytes of UUID.
    pub fn parse(bytes: &[u8], place: &LogPlace, begin: u64, uuid: &[u8]) -> Self {
        let count = bytes.len() / LENGTH;
        let sectors = (0..count).map(|number| {
            let position = begin + number as u64;
            sector(&bytes[number * LENGTH..], place.cycle_and_sector(position).1, uuid)
        });
        Self { begin, sectors: sectors.collect() }
    }

    pub fn at(&self, position: u64) -> Option<&LogSector> {
        let number = position.checked_sub(self.begin)?;
        usize::try_from(number).ok().and_then(|number| self.sectors.get(number))
    }

    /// The first position behind it.
    pub fn end(&self) -> u64 {
        self.begin + self.sectors.len() as u64
    }
}

/// A sector of the log, and what follows.
fn sector(bytes: &[u8], here: u64, uuid: &[u8]) -> LogSector {
    let first = be32(bytes, 0).unwrap_or_default();
    if first != MAGIC {
        return LogSector::Inside(first);
    }
    let cycle = be32(bytes, CYCLE).unwrap_or_default();
    header(bytes, (cycle, here), uuid).unwrap_or(LogSector::Inside(cycle))
}

fn header(bytes: &[u8], (cycle, here): (u32, u64), uuid: &[u8]) -> Option<LogSector> {
    let number = |at: usize| be32(bytes, at).ok();
    let place = |at: usize| Some((number(at)?, number(at + 4)?));
    let length = u64::from(number(RECORD_LENGTH)?);
    let (own, tail) = (place(OWN_PLACE)?, place(TAIL)?);
    let says_here = own.0 == cycle && u64::from(own.1) == here && number(VERSION)? == 2;
    let is_here = says_here && bytes.get(UUID..UUID + 16)? == uuid;
    let parts = number(PARTS)?;
    if length == 0 {
        let is_here = is_here && parts == 0 && number(CHECKSUM)? == 0;
        return Some(LogSector::Stamp { is_here, cycle, tail });
    }
    let buffer = u64::from(number(BUFFER)?);
    if length > LONGEST || buffer > LONGEST {
        return Some(LogSector::Inside(cycle));
    }
    let headers = buffer.div_ceil(TOLD_BY_ONE).max(1);
    let (begin, end) = (headers * SECTOR, headers * SECTOR + length);
    let payload = bytes.get(usize::try_from(begin).ok()?..);
    let flags = payload.and_then(|payload| payload.get(PART_FLAGS)).copied().unwrap_or_default();
    let whole = bytes.get(..usize::try_from(end).ok()?);
    let is_whole = whole.map(|whole| is_sound(whole, headers, length));
    Some(LogSector::Record(LogRecord {
        cycle,
        is_here,
        sectors: headers + length.div_ceil(SECTOR),
        tail,
        before: number(BEFORE)?,
        checksum: part(bytes, CHECKSUM).map(u32::from_le_bytes).ok()?,
        is_unmount: parts == 1 && flags & UNMOUNTED != 0,
        is_whole,
    }))
}

/// Whether a record's checksum is right: over its headers, the sum itself being nothing, and all that follows.
fn is_sound(whole: &[u8], headers: u64, length: u64) -> bool {
    let headers = usize::try_from(headers).unwrap_or(1);
    let used = usize::try_from(length.div_ceil(TOLD_BY_ONE)).unwrap_or(1).min(headers);
    let Ok(told) = part(whole, CHECKSUM).map(u32::from_le_bytes) else { return false };
    HEADERS.iter().any(|header| {
        let mut first = whole[..*header].to_vec();
        first[CHECKSUM..CHECKSUM + 4].fill(0);
        let further = (1..used).map(|number| &whole[number * LENGTH..][..FURTHER_HEADER]);
        let sum = further.fold(crc32c(&first), crc32c_append);
        crc32c_append(sum, &whole[headers * LENGTH..]) == told
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: LogPlace = LogPlace { at: 0, sectors: 100 };
    const OWN: [u8; 16] = [7; 16];

    fn header(cycle: u32, here: u32, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        for (at, value) in [
            (0, MAGIC),
            (CYCLE, cycle),
            (VERSION, 2),
            (RECORD_LENGTH, length),
            (OWN_PLACE, cycle),
            (OWN_PLACE + 4, here),
            (TAIL, 1),
            (TAIL + 4, 9),
            (BEFORE, 90),
            (PARTS, u32::from(length > 0)),
            (BUFFER, 32 << 10),
        ] {
            bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        bytes[UUID..UUID + 16].copy_from_slice(&OWN);
        bytes
    }

    /// A record of two sectors, the second of which says that the file system is unmounted.
    fn unmount() -> Vec<u8> {
        let mut bytes = header(2, 95, 512);
        bytes.extend([0; LENGTH]);
        bytes[LENGTH + 3] = 2;
        bytes[LENGTH + PART_FLAGS] = UNMOUNTED;
        let sum = crc32c_append(crc32c(&bytes[..HEADERS[0]]), &bytes[LENGTH..]);
        bytes[CHECKSUM..CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn records_and_stamps_are_told_apart() {
        let mut bytes = unmount();
        bytes.extend(header(1, 97, 0));
        bytes.extend(header(1, 97, 0));
        bytes.extend([0; LENGTH]);
        let log = LogStretch::parse(&bytes, &PLACE, 295, &OWN);
        assert_eq!(log.end(), 300);
        let Some(LogSector::Record(record)) = log.at(295) else { panic!("{log:?}") };
        assert!(record.is_here && record.is_unmount, "{record:?}");
        assert_eq!((record.is_whole, record.sectors, record.before), (Some(true), 2, 90));
        assert_eq!(log.at(296), Some(&LogSector::Inside(2)));
        let stamp = |is_here| LogSector::Stamp { is_here, cycle: 1, tail: (1, 9) };
        assert_eq!(log.at(297), Some(&stamp(true)));
        assert_eq!(log.at(298), Some(&stamp(false)), "it says that it stands before");
        assert_eq!(log.at(299), Some(&LogSector::Inside(0)));
        assert_eq!(log.at(300), None);
        assert_eq!(log.at(294), None);
    }

    #[test]
    fn a_record_that_is_cut_or_changed_is_not_whole() {
        let is_whole = |bytes: &[u8]| match LogStretch::parse(bytes, &PLACE, 295, &OWN).at(295) {
            Some(LogSector::Record(record)) => record.is_whole,
            other => panic!("{other:?}"),
        };
        let bytes = unmount();
        assert_eq!(is_whole(&bytes[..LENGTH]), None);
        for at in [TAIL, LENGTH + 100, 2 * LENGTH - 1] {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert_eq!(is_whole(&bytes), Some(false), "{at}");
        }
    }

    #[test]
    fn strange_bytes_are_no_record() {
        for length in [(256 << 10) + 1, u32::MAX] {
            let bytes = header(2, 95, length);
            let log = LogStretch::parse(&bytes, &PLACE, 295, &OWN);
            assert_eq!(log.at(295), Some(&LogSector::Inside(2)));
        }
    }
}
