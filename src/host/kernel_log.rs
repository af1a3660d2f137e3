//! The kernel's own log, as far as its ring in memory reaches back.

use crate::model::report::kernel_line::{KernelLine, parse};
use crate::model::timestamp::Millis;
use crate::ports::clock;
use nix::fcntl::OFlag;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// A record is no longer: the kernel says EINVAL to a smaller room.
const LONGEST: usize = 8192;

/// More records than any ring has: one that is written to without end is not read for ever.
const MOST: usize = 1 << 18;

/// A machine that slept for less has not slept: both clocks are read one after the other.
const NAP: Duration = Duration::from_secs(1);

/// What the ring has.
#[derive(Debug, Clone, Default)]
pub struct KernelLog {
    /// The lines, the oldest first.
    pub lines: Vec<KernelLine>,
    /// When the kernel's clock began to count, by the clock on the wall.
    pub zero: Millis,
    /// How long the machine slept since its boot: a line from before a sleep is earlier by that than it
    /// seems.
    pub slept: Option<Duration>,
}

impl KernelLog {
    /// Reads it; nothing where it may not be read.
    pub fn read() -> Option<Self> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
        let mut ring = options.open("/dev/kmsg").ok()?;
        let mut lines = Vec::new();
        let mut room = vec![0; LONGEST];
        for _ in 0..MOST {
            match ring.read(&mut room) {
                Ok(0) => break,
                Ok(length) => lines.extend(parse(&String::from_utf8_lossy(&room[..length]))),
                // The ring went over what was to be read next: it goes on behind that.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let awake = clock::since_boot_awake();
        let slept = clock::since_boot().saturating_sub(awake);
        let awake = u64::try_from(awake.as_millis()).unwrap_or(u64::MAX);
        let zero = clock::now().saturating_sub(awake);
        Some(Self { lines, zero, slept: (slept > NAP).then_some(slept) })
    }

    /// When a line was written, by the clock on the wall.
    pub fn at(&self, line: &KernelLine) -> Millis {
        self.zero + u64::try_from(line.since_boot.as_millis()).unwrap_or_default()
    }

    /// The moment before which lines are lost, if any are.
    pub fn begins_late(&self) -> Option<Millis> {
        self.lines.first().filter(|line| line.sequence > 0).map(|line| self.at(line))
    }
}
