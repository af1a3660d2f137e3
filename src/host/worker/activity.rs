//! What a worker and its children are doing just now, in memory that outlives them: the process that
//! waits for them reads it when they do not come back, and a hanging process can tell nothing.

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// More children than this at once are not written down.
const CHILDREN: usize = 12;
/// Longer texts are cut.
const LONGEST: usize = 240;

/// Milliseconds since the machine's start.
pub(super) fn now_in_milliseconds() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| u64::try_from(now.num_milliseconds()).unwrap_or(0))
}

/// What one process does.
#[derive(Debug)]
pub(super) struct Slot {
    pid: AtomicI32,
    /// Since when, in milliseconds since the machine's start.
    since: AtomicU64,
    length: AtomicU32,
    text: [AtomicU8; LONGEST],
}

/// What all of them do.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) own: Slot,
    /// The file of the driver's own that it uses: that one may lie on a disk that hangs too.
    pub(super) file: Slot,
    /// Whom it waits for: a service or a lock.
    pub(super) wait: Slot,
    /// Since when no service has answered, in milliseconds since the machine's start: 0 before the first request,
    /// and the highest number once one has answered.
    unanswered: AtomicU64,
    /// The disk that it works on: major, minor, the kernel's count of disks (0 is unknown).
    disk: [AtomicU32; 2],
    sequence: AtomicU64,
    pub(super) children: [Slot; CHILDREN],
    /// How wide the terminal is that the waiting process prints on; 0 where it is none.
    columns: AtomicU32,
}

/// What stands in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoardEntry {
    pub(super) pid: i32,
    pub(super) since: u64,
    pub(super) text: String,
}

impl Slot {
    const fn empty() -> Self {
        Self {
            pid: AtomicI32::new(0),
            since: AtomicU64::new(0),
            length: AtomicU32::new(0),
            text: [const { AtomicU8::new(0) }; LONGEST],
        }
    }

    /// Writes down what is done. No memory is asked for: this is done in forked children too.
    pub(super) fn write(&self, text: &str) {
        self.length.store(0, Ordering::Release);
        for (place, byte) in self.text.iter().zip(text.bytes()) {
            place.store(byte, Ordering::Relaxed);
        }
        self.since.store(now_in_milliseconds(), Ordering::Relaxed);
        let length = u32::try_from(text.len().min(LONGEST)).unwrap_or(0);
        self.length.store(length, Ordering::Release);
    }

    pub(super) fn belongs_to(&self, pid: i32) {
        self.pid.store(pid, Ordering::SeqCst);
    }

    pub(super) fn clear(&self) {
        self.length.store(0, Ordering::Release);
        self.pid.store(0, Ordering::SeqCst);
    }

    pub(super) fn read(&self) -> BoardEntry {
        let length = usize::try_from(self.length.load(Ordering::Acquire)).unwrap_or(0);
        let bytes: Vec<u8> =
            self.text[..length.min(LONGEST)].iter().map(|b| b.load(Ordering::Relaxed)).collect();
        BoardEntry {
            pid: self.pid.load(Ordering::SeqCst),
            since: self.since.load(Ordering::Relaxed),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }
}

impl Board {
    const fn empty() -> Self {
        Self {
            own: Slot::empty(),
            file: Slot::empty(),
            wait: Slot::empty(),
            unanswered: AtomicU64::new(0),
            disk: [const { AtomicU32::new(0) }; 2],
            sequence: AtomicU64::new(0),
            children: [const { Slot::empty() }; CHILDREN],
            columns: AtomicU32::new(0),
        }
    }

    /// A free slot for a child that is about to be made.
    pub(super) fn reserve(&self) -> Option<&Slot> {
        /// Taken, and its process is not there yet.
        const RESERVED: i32 = -1;
        self.children.iter().find(|slot| {
            let free = slot.pid.compare_exchange(0, RESERVED, Ordering::SeqCst, Ordering::SeqCst);
            free.is_ok()
        })
    }

    /// For another worker: what an earlier one left behind is noted elsewhere by now.
    pub(super) fn clear(&self) {
        self.own.clear();
        self.file.clear();
        self.wait.clear();
        self.unanswered.store(0, Ordering::Relaxed);
        self.works_on((0, 0), None);
        for slot in &self.children {
            slot.clear();
        }
    }

    pub(super) fn service_is_asked(&self) {
        let now = now_in_milliseconds();
        let _ = self.unanswered.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn service_answered(&self) {
        self.unanswered.store(u64::MAX, Ordering::Relaxed);
    }

    /// How long no service has answered, if any was asked.
    pub(super) fn silence(&self) -> Option<Duration> {
        let since = Some(self.unanswered.load(Ordering::Relaxed)).filter(|since| *since > 0)?;
        now_in_milliseconds().checked_sub(since).map(Duration::from_millis)
    }

    pub(super) fn is_seen_in(&self, columns: Option<usize>) {
        let columns = columns.and_then(|columns| u32::try_from(columns).ok());
        self.columns.store(columns.unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn columns(&self) -> Option<usize> {
        let columns = self.columns.load(Ordering::Relaxed);
        usize::try_from(columns).ok().filter(|columns| *columns > 0)
    }

    pub(super) fn works_on(&self, (major, minor): (u32, u32), sequence: Option<u64>) {
        self.disk[0].store(major, Ordering::Relaxed);
        self.disk[1].store(minor, Ordering::Relaxed);
        self.sequence.store(sequence.unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn disk(&self) -> Option<((u32, u32), Option<u64>)> {
        let [major, minor] = [0, 1].map(|part| self.disk[part].load(Ordering::Relaxed));
        let sequence = Some(self.sequence.load(Ordering::Relaxed)).filter(|number| *number != 0);
        (major != 0).then_some(((major, minor), sequence))
    }
}

/// The board of a process that has no worker.
static OWN: Board = Board::empty();
static SHARED: OnceLock<&'static Board> = OnceLock::new();

/// The board of this process.
pub(super) fn board() -> &'static Board {
    SHARED.get().copied().unwrap_or(&OWN)
}

/// Makes a board that this process and those that it forks have in common.
#[allow(unsafe_code)]
pub(super) fn share() -> nix::Result<&'static Board> {
    if let Some(board) = SHARED.get() {
        return Ok(board);
    }
    let size = NonZeroUsize::new(std::mem::size_of::<Board>()).unwrap_or(NonZeroUsize::MIN);
    let flags = MapFlags::MAP_SHARED | MapFlags::MAP_ANONYMOUS;
    // SAFETY: new memory, mapped until the process ends. It is all zero, which is an empty board,
    // and only atomics lie in it.
    let board = unsafe {
        let memory =
            mmap_anonymous(None, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags)?;
        memory.cast::<Board>().as_ref()
    };
    Ok(SHARED.get_or_init(|| board))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_too_long_a_text_is_cut() {
        let board = Board::empty();
        let slot = board.reserve().unwrap();
        slot.write("unmount /a");
        slot.belongs_to(7);
        let read = slot.read();
        assert_eq!((read.pid, read.text.as_str()), (7, "unmount /a"));
        slot.write(&"x".repeat(4 * LONGEST));
        assert_eq!(slot.read().text.len(), LONGEST);
        slot.clear();
        assert_eq!(slot.read().pid, 0);
        assert_eq!(board.disk(), None);
        board.works_on((7, 3), Some(12));
        assert_eq!(board.disk(), Some(((7, 3), Some(12))));
        assert_eq!(board.columns(), None);
        board.is_seen_in(Some(80));
        assert_eq!(board.columns(), Some(80));
    }

    #[test]
    fn a_full_board_takes_no_more() {
        let board = Board::empty();
        assert!((0..CHILDREN).all(|_| board.reserve().is_some()));
        assert!(board.reserve().is_none());
        board.clear();
        assert!(board.reserve().is_some());
    }
}
