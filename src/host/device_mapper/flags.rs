//! Flags of the header of device mapper's messages (`linux/dm-ioctl.h`).

/// The map refuses writes.
pub(super) const READ_ONLY: u32 = 1;
pub(super) const SUSPENDED: u32 = 1 << 1;
/// The table is told, and not how its targets are.
pub(super) const TELL_TABLE: u32 = 1 << 4;
pub(super) const HAS_TABLE: u32 = 1 << 5;
/// It has a second one, which waits for its turn.
pub(super) const HAS_SECOND_TABLE: u32 = 1 << 6;
/// The answer was longer than the message.
pub(super) const TOO_LONG: u32 = 1 << 8;
/// No file system is frozen for it.
pub(super) const SKIP_FREEZE: u32 = 1 << 10;
/// What waits in the map is not sent out first: it has no disk to go to.
pub(super) const NO_FLUSH: u32 = 1 << 11;
/// The answer to words has words too.
pub(super) const HAS_WORDS: u32 = 1 << 16;
