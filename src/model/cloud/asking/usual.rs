//! How long a change usually takes, by the last times that it took.

/// So many of the last times count.
pub const LAST: usize = 64;

/// This part of them was as quick or quicker. Most others had to wait for something else as well: a
/// server's host does one thing after the other, and a storm must not make every later look late.
const QUICK: usize = 10;

/// How long it takes when nothing else is in its way; in any unit.
pub fn usual(times: &[u64]) -> Option<u64> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / QUICK).copied()
}

/// Adds the latest time, and forgets those that no longer count.
pub fn add(times: &mut Vec<u64>, time: u64) {
    times.push(time);
    let surplus = times.len().saturating_sub(LAST);
    times.drain(..surplus);
}
