//! The virtual clock: moments in microseconds, what comes next, and chance that is the same for the same seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A moment, or a span.
pub type Micros = u64;

pub const SECOND: Micros = 1_000_000;

pub fn micros(span: Duration) -> Micros {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

pub fn span(micros: Micros) -> Duration {
    Duration::from_micros(micros)
}

/// As the driver's gate counts it.
#[allow(clippy::cast_precision_loss, reason = "a time of some hours")]
pub fn millis(moment: Micros) -> f64 {
    moment as f64 / 1000.0
}

/// What happens when.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(Micros, u64, u32, u32)>>,
    count: u64,
}

impl Agenda {
    /// At this moment it is the turn of one, if it still waits as it does now.
    pub fn add(&mut self, at: Micros, who: u32, wait: u32) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, who, wait)));
    }

    pub fn next(&mut self) -> Option<(Micros, u32, u32)> {
        let Reverse((at, _, who, wait)) = self.heap.pop()?;
        Some((at, who, wait))
    }

    /// How many things were on it.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// splitmix64.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    #[allow(clippy::cast_precision_loss, reason = "that many bits are kept")]
    pub fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Some of a span.
    pub fn some_of(&mut self, whole: Duration) -> Micros {
        micros(whole.mul_f64(self.share()))
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % u64::try_from(end.max(1)).unwrap_or(1)).unwrap_or(0)
    }
}
