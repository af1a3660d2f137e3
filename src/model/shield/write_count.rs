//! How device mapper counts the writes to a stretch of a map (its statistics): the words for it, and its answers.
//!
//! What waits in a map when another disk is put under it is counted as if it had been written, and once more when it
//! is. So how much that was is kept with the count, in the kernel too: it is as old as the map.

use std::fmt;

/// By this name the count is ours.
const OWNER: &str = "incloud-disk";

/// A count of ours that a map has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteCount {
    /// The kernel's number of it.
    region: u64,
    /// What is counted: the first sector, and how many.
    stretch: (u64, u64),
    surplus: Surplus,
}

/// Sectors that were counted and not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Surplus {
    sectors: u64,
    /// The count of the moment before a change of the map: what comes after it is none, until the change is whole.
    held_at: Option<u64>,
}

impl WriteCount {
    /// The words that begin a count of a stretch: its first sector, and how many.
    pub fn begin((first, count): (u64, u64)) -> String {
        format!("@stats_create {first}+{count} /1 {OWNER} 0")
    }

    /// The words that ask which counts there are.
    pub fn list() -> String {
        format!("@stats_list {OWNER}")
    }

    /// The first of our counts in an answer: `0: 1024+4096 4096 incloud-disk 0`.
    pub fn listed(text: &str) -> Option<Self> {
        text.lines().find_map(|line| {
            let (region, rest) = line.split_once(": ")?;
            let mut words = rest.split_ascii_whitespace();
            let (first, count) = words.next()?.split_once('+')?;
            let stretch = (first.parse().ok()?, count.parse().ok()?);
            let is_ours = words.nth(1)? == OWNER;
            let surplus = Surplus::parse(words.next()?).filter(|_| is_ours)?;
            Some(Self { region: region.parse().ok()?, stretch, surplus })
        })
    }

    /// Whether it is of this stretch.
    pub fn is_of(&self, stretch: (u64, u64)) -> bool {
        self.stretch == stretch
    }

    /// The words that ask for its numbers.
    pub fn print(&self) -> String {
        format!("@stats_print {}", self.region)
    }

    /// The words that end it.
    pub fn end(&self) -> String {
        format!("@stats_delete {}", self.region)
    }

    /// The words that keep what is known of its surplus.
    pub fn keep(&self) -> String {
        format!("@stats_set_aux {} {}", self.region, self.surplus)
    }

    /// How many sectors were written, when so many are counted.
    pub fn written(&self, counted: u64) -> Option<u64> {
        self.surplus.held_at.unwrap_or(counted).checked_sub(self.surplus.sectors)
    }

    /// Before a change of the map, amid which nothing is written.
    #[must_use]
    pub fn held(self, counted: u64) -> Self {
        let held_at = Some(self.surplus.held_at.unwrap_or(counted));
        Self { surplus: Surplus { held_at, ..self.surplus }, ..self }
    }

    /// When what waited in the map has been taken back.
    #[must_use]
    pub fn let_go(self, counted: u64) -> Self {
        let more = self.surplus.held_at.map_or(0, |held_at| counted.saturating_sub(held_at));
        let sectors = self.surplus.sectors.saturating_add(more);
        Self { surplus: Surplus { sectors, held_at: None }, ..self }
    }
}

/// The sectors that were written, in the kernel's numbers of one stretch.
pub fn sectors_written(text: &str) -> Option<u64> {
    const OF_WRITES: usize = 7;
    let mut lines = text.lines();
    let (line, other) = (lines.next()?, lines.next());
    line.split_ascii_whitespace().nth(OF_WRITES)?.parse().ok().filter(|_| other.is_none())
}

impl Surplus {
    /// `120`, or amid a change `120:4000`.
    fn parse(text: &str) -> Option<Self> {
        let (sectors, held_at) = match text.split_once(':') {
            Some((sectors, held_at)) => (sectors, Some(held_at.parse().ok()?)),
            None => (text, None),
        };
        Some(Self { sectors: sectors.parse().ok()?, held_at })
    }
}

impl fmt::Display for Surplus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sectors)?;
        self.held_at.map_or(Ok(()), |held_at| write!(f, ":{held_at}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(surplus: &str) -> WriteCount {
        let text = format!("0: 0+8 8 dmstats -\n3: 1024+4096 4096 incloud-disk {surplus}\n");
        WriteCount::listed(&text).unwrap()
    }

    #[test]
    fn ours_is_found_among_the_counts_of_a_map() {
        let count = listed("0");
        assert_eq!(count.print(), "@stats_print 3");
        assert_eq!(count.end(), "@stats_delete 3");
        assert_eq!(count.written(70), Some(70));
        assert!(count.is_of((1024, 4096)) && !count.is_of((1024, 8192)));
        for text in
            ["", "0: 0+8 8 dmstats 0\n", "0: 0+8 8 incloud-disk x\n", "0: 0+8 8 incloud-disk\n"]
        {
            assert_eq!(WriteCount::listed(text), None, "{text:?}");
        }
        assert_eq!(WriteCount::begin((1024, 4096)), "@stats_create 1024+4096 /1 incloud-disk 0");
    }

    #[test]
    fn the_kernels_numbers_tell_what_was_written() {
        assert_eq!(sectors_written("1024+4096 1 0 8 3 20 0 176 5 0 9 9 3 5\n"), Some(176));
        for text in
            ["", "1024+4096 1 0 8", "0+8 1 0 8 3 20 0 x 5\n", "0+8 1 0 8 3 20 0 176 5\n8+8 1\n"]
        {
            assert_eq!(sectors_written(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_counted_when_the_disk_changes_is_not_written() {
        let held = listed("20").held(100);
        assert_eq!(held.keep(), "@stats_set_aux 3 20:100");
        assert_eq!(held.written(164), Some(80), "as long as the change is not whole");
        // A call was killed amid it: the next one goes on from the same moment.
        let again = listed("20:100").held(164);
        assert_eq!(again, held);
        let done = again.let_go(228);
        assert_eq!(done.keep(), "@stats_set_aux 3 148");
        assert_eq!(done.written(228), Some(80));
        assert_eq!(done.written(300), Some(152));
        assert_eq!(listed("20").written(19), None);
    }
}
