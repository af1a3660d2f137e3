//! Messages to device mapper: a header of the kernel's own layout, and what a command has after it.

use super::flags;
use crate::kernel::{DEVICE_MAPPER_HEADER, unpacked};
use crate::model::disk::device::DeviceNumber;
use nix::errno::Errno;

type Result<T> = std::result::Result<T, Errno>;

/// What the kernel is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Command {
    Create = 3,
    Remove = 4,
    /// Suspends; without its flag it resumes, and a table that is loaded takes the other's place.
    Suspend = 6,
    Status = 7,
    LoadTable = 9,
    ClearTable = 10,
    TableStatus = 12,
    Message = 14,
}

// Places in `struct dm_ioctl`.
const LENGTH: usize = 12;
const DATA_START: usize = 16;
const TARGETS: usize = 20;
const OPENED: usize = 24;
const FLAGS: usize = 28;
const NUMBER: usize = 40;
const NAME: usize = 48;
const UUID: usize = 176;
/// The longest name and UUID, without the zero at the end.
const LONGEST: usize = 127;

/// `struct dm_target_spec`: two numbers of 64 bits, two of 32, and the target's kind in 16 bytes.
const TARGET: usize = 40;
const TARGET_NEXT: usize = 20;
const TARGET_KIND: usize = 24;

/// Room for the answers: of a map with one path they have some 200 bytes.
const ROOM: usize = 4096;

/// A message, and after it was sent the answer.
#[derive(Debug, Clone)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

/// A table's one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MapTarget {
    pub(super) sectors: u64,
    pub(super) kind: String,
    pub(super) parameters: String,
}

impl Message {
    /// One about the map of this UUID.
    pub(super) fn about(uuid: &str, flags: u32) -> Result<Self> {
        /// The version of the interface: the first of the three numbers must be the kernel's.
        const VERSION: u32 = 4;
        let mut message = Self { bytes: vec![0; DEVICE_MAPPER_HEADER + ROOM] };
        message.put(0, &VERSION.to_ne_bytes())?;
        let length = u32::try_from(message.bytes.len()).map_err(|_| Errno::EINVAL)?;
        message.put(LENGTH, &length.to_ne_bytes())?;
        let start = u32::try_from(DEVICE_MAPPER_HEADER).map_err(|_| Errno::EINVAL)?;
        message.put(DATA_START, &start.to_ne_bytes())?;
        message.put(FLAGS, &flags.to_ne_bytes())?;
        message.put_text(UUID, uuid)?;
        Ok(message)
    }

    /// The same, with a name: to make the map, for it is known by its UUID else.
    pub(super) fn named(mut self, name: &str) -> Result<Self> {
        self.put_text(NAME, name)?;
        Ok(self)
    }

    /// The same, with a table of one target.
    pub(super) fn with_target(mut self, target: &MapTarget) -> Result<Self> {
        let at = DEVICE_MAPPER_HEADER;
        self.put(TARGETS, &1_u32.to_ne_bytes())?;
        self.put(at + 8, &target.sectors.to_ne_bytes())?;
        // Where the next one would be, counted from this one.
        let next = (TARGET + target.parameters.len() + 1).next_multiple_of(8);
        let next = u32::try_from(next).map_err(|_| Errno::EINVAL)?;
        self.put(at + TARGET_NEXT, &next.to_ne_bytes())?;
        self.put(at + TARGET_KIND, target.kind.as_bytes())?;
        self.put(at + TARGET, target.parameters.as_bytes())?;
        // The zero after it is there.
        self.get(at + TARGET + target.parameters.len(), 1)?;
        Ok(self)
    }

    /// The same, with words for the target at the map's first sector.
    pub(super) fn with_words(mut self, words: &str) -> Result<Self> {
        self.put(DEVICE_MAPPER_HEADER + 8, words.as_bytes())?;
        self.get(DEVICE_MAPPER_HEADER + 8 + words.len(), 1)?;
        Ok(self)
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The map's number.
    pub(super) fn number(&self) -> Result<DeviceNumber> {
        Ok(unpacked(u64::from_ne_bytes(self.array(NUMBER)?)))
    }

    pub(super) fn flags(&self) -> Result<u32> {
        self.word(FLAGS)
    }

    pub(super) fn opened(&self) -> Result<u32> {
        self.word(OPENED)
    }

    /// The table's target; nothing if there is none. More than one, or one that is not whole, is an error.
    pub(super) fn target(&self) -> Result<Option<MapTarget>> {
        if self.flags()? & flags::TOO_LONG != 0 {
            return Err(Errno::EMSGSIZE);
        }
        match self.word(TARGETS)? {
            0 => return Ok(None),
            1 => {}
            _ => return Err(Errno::EBADMSG),
        }
        let at = usize::try_from(self.word(DATA_START)?).map_err(|_| Errno::EBADMSG)?;
        let place = |more: usize| at.checked_add(more).ok_or(Errno::EBADMSG);
        Ok(Some(MapTarget {
            sectors: u64::from_ne_bytes(self.array(place(8)?)?),
            kind: text_of(self.get(place(TARGET_KIND)?, TARGET - TARGET_KIND)?)?,
            parameters: text_of(self.bytes.get(place(TARGET)?..).ok_or(Errno::EBADMSG)?)?,
        }))
    }

    /// What was answered to words; nothing is an answer too.
    pub(super) fn words(&self) -> Result<String> {
        let flags = self.flags()?;
        if flags & flags::TOO_LONG != 0 {
            return Err(Errno::EMSGSIZE);
        }
        if flags & flags::HAS_WORDS == 0 {
            return Ok(String::new());
        }
        let at = usize::try_from(self.word(DATA_START)?).map_err(|_| Errno::EBADMSG)?;
        text_of(self.bytes.get(at..).ok_or(Errno::EBADMSG)?)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        let place = self.bytes.get_mut(at..at + bytes.len()).ok_or(Errno::EMSGSIZE)?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    fn put_text(&mut self, at: usize, text: &str) -> Result<()> {
        if text.is_empty() || text.len() > LONGEST || text.contains('\0') {
            return Err(Errno::EINVAL);
        }
        self.put(at, text.as_bytes())
    }

    fn get(&self, at: usize, length: usize) -> Result<&[u8]> {
        let end = at.checked_add(length).ok_or(Errno::EBADMSG)?;
        self.bytes.get(at..end).ok_or(Errno::EBADMSG)
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        self.get(at, N)?.try_into().map_err(|_| Errno::EBADMSG)
    }

    fn word(&self, at: usize) -> Result<u32> {
        Ok(u32::from_ne_bytes(self.array(at)?))
    }
}

/// The text before the first zero; there must be one.
fn text_of(bytes: &[u8]) -> Result<String> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(Errno::EBADMSG)?;
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> Message {
        Message::about("incloud_disk-v-1", flags::NO_FLUSH).unwrap()
    }

    fn target() -> MapTarget {
        MapTarget { sectors: 2048, kind: "multipath".to_owned(), parameters: "3 a b c".to_owned() }
    }

    #[test]
    fn a_message_has_the_kernels_layout() {
        let mut message = about().named("n").unwrap().with_target(&target()).unwrap();
        let bytes = message.bytes();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(4), word(8)), (4, 0, 0));
        assert_eq!((word(12) as usize, word(16)), (bytes.len(), 312));
        assert_eq!((word(20), word(28)), (1, 1 << 11));
        assert_eq!(&bytes[48..50], b"n\0");
        assert_eq!(&bytes[176..193], b"incloud_disk-v-1\0");
        // The target: its first sector, how many, its state, where the next is, its kind.
        assert_eq!(bytes[312..320], [0; 8]);
        assert_eq!(bytes[320..328], 2048_u64.to_ne_bytes());
        assert_eq!((word(328), word(332)), (0, 48));
        assert_eq!(&bytes[336..346], b"multipath\0");
        assert_eq!(&bytes[352..360], b"3 a b c\0");
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(about().target(), Ok(None));
        assert_eq!(about().with_target(&target()).unwrap().target(), Ok(Some(target())));
        let mut message = about();
        message.put(NUMBER, &0xfd05_u64.to_ne_bytes()).unwrap();
        assert_eq!(message.number().unwrap().to_string(), "253:5");
    }

    #[test]
    fn what_has_no_room_is_not_sent() {
        for uuid in ["", "a\0b", &"x".repeat(LONGEST + 1)] {
            assert!(Message::about(uuid, 0).is_err(), "{uuid:?}");
        }
        assert!(Message::about(&"x".repeat(LONGEST), 0).is_ok());
        let long = "x".repeat(ROOM);
        assert!(about().with_words(&long).is_err());
        let all_but_the_zero = "x".repeat(ROOM - TARGET);
        for parameters in [long, all_but_the_zero] {
            assert!(about().with_target(&MapTarget { parameters, ..target() }).is_err());
        }
    }

    #[test]
    fn an_answer_that_is_not_whole_is_an_error() {
        let with = |at: usize, word: u32| {
            let mut message = about().with_target(&target()).unwrap();
            message.put(at, &word.to_ne_bytes()).unwrap();
            message.target()
        };
        assert_eq!(with(FLAGS, flags::TOO_LONG), Err(Errno::EMSGSIZE));
        for (at, word) in [(TARGETS, 2), (DATA_START, u32::MAX), (DATA_START, 4390)] {
            assert_eq!(with(at, word), Err(Errno::EBADMSG), "{at} {word}");
        }
        let mut words = about().with_words("3 answers").unwrap();
        assert_eq!(words.words(), Ok(String::new()), "none were answered");
        words.put(FLAGS, &flags::HAS_WORDS.to_ne_bytes()).unwrap();
        words.put(DEVICE_MAPPER_HEADER, b"12\0").unwrap();
        assert_eq!(words.words(), Ok("12".to_owned()));
        words.put(FLAGS, &(flags::HAS_WORDS | flags::TOO_LONG).to_ne_bytes()).unwrap();
        assert_eq!(words.words(), Err(Errno::EMSGSIZE));
        let mut endless = about().with_target(&target()).unwrap();
        let start = DEVICE_MAPPER_HEADER + TARGET;
        endless.bytes()[start..].fill(b'x');
        assert_eq!(endless.target(), Err(Errno::EBADMSG));
    }
}
