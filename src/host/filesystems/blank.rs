//! Reads a disk that may be blank. Where it is read says [`crate::model::disk::contents::blank`]; here it
//! is read, in as few seconds as the disk allows, and nothing is kept of what was read.

use super::place_reader::{self, PlaceReader};
use super::samples::{sampled, unread};
use crate::model::advice::{Remedy, advise};
use crate::model::disk::contents::blank::{self, Extent};
use crate::model::disk::contents::{self, Contents, Read, places};
use crate::model::disk::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::ports::clock::Deadline;
use crate::{confinement, failpoints};
use ring::rand::{SecureRandom, SystemRandom};
use std::fs::File;
use std::time::Duration;

/// How long the fixed places and the copies may take at most. A disk that needs longer is not
/// called blank.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// How long random places are read at most, and in how many rounds.
const RANDOM: Duration = Duration::from_secs(2);
const ROUNDS: usize = 4;

/// What stands on a disk that shows no mark at its beginning: only if all of it that is read is
/// zero, it is blank. An error if a place cannot be read, or if the time is over before every place
/// was read that has to be.
pub(super) fn verdict(disk: &File, device: &Device, deadline: Deadline) -> Result<Contents> {
    let size = device.size;
    // What this machine read before may have been written elsewhere since.
    place_reader::forget(disk);
    let edges = sampled(disk, device, &places::edges(size))?;
    let judge = || contents::judge(&Read { size, samples: &edges });
    let verdict = confinement::judged(&device.kernel_name, judge)?;
    drop(edges);
    if verdict != Contents::Blank {
        return Ok(verdict);
    }
    let fixed: Vec<Extent> = blank::fixed(size).chain(blank::copies(size)).collect();
    let mut reader = PlaceReader::of(disk, device, &fixed);
    let mut done = 0;
    failpoints::effect("filesystems.read").map_err(unread)?;
    for batch in fixed.chunks(PlaceReader::at_once(&fixed)) {
        if deadline.over() {
            return Err(too_slow(device, done, fixed.len(), deadline));
        }
        if let Some(data) = first_data(&mut reader, batch)? {
            return Ok(data);
        }
        done += batch.len();
    }
    at_random(&mut reader, size, deadline)
}

/// Looks at random places, for as long as a few rounds of them may take.
fn at_random(reader: &mut PlaceReader<'_>, size: u64, deadline: Deadline) -> Result<Contents> {
    let until = deadline.at_most(RANDOM);
    for _ in 0..ROUNDS {
        failpoints::effect("filesystems.read").map_err(unread)?;
        let dice = dice(blank::stretches(size))?;
        let round: Vec<Extent> = blank::random(size, &dice).collect();
        for batch in round.chunks(PlaceReader::at_once(&round)) {
            if until.over() {
                return Ok(Contents::Blank);
            }
            if let Some(data) = first_data(reader, batch)? {
                return Ok(data);
            }
        }
    }
    Ok(Contents::Blank)
}

/// The first of these places that holds another byte than zero, in words.
fn first_data(reader: &mut PlaceReader<'_>, batch: &[Extent]) -> Result<Option<Contents>> {
    reader.announce(batch);
    for place in batch {
        if let found @ Some(_) = contents::unknown(place.0, reader.read(*place)?) {
            return Ok(found);
        }
    }
    // Megabytes that are not asked for again must not crowd out what is.
    place_reader::forget(reader.disk);
    Ok(None)
}

fn too_slow(device: &Device, done: usize, all: usize, deadline: Deadline) -> Error {
    let (name, seconds) = (&device.kernel_name, deadline.total().as_secs());
    Error::new(
        Kind::Timeout,
        format!("{name} answered {done} of {all} reads within {seconds} s: whether it is blank is not proven, and it is not formatted"),
    )
    .hint(advise("the next call tries again; if the disk stays that slow, a person can format it: {}", [Remedy::FormatAtOnce.into()]))
}

/// Numbers that a tenant who knows this program cannot foresee.
fn dice(count: usize) -> Result<Vec<u64>> {
    let mut numbers = vec![[0; size_of::<u64>()]; count];
    SystemRandom::new()
        .fill(numbers.as_flattened_mut())
        .map_err(|_| Error::new(Kind::Host, "the kernel gives no random numbers"))?;
    Ok(numbers.into_iter().map(u64::from_ne_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_are_numbers_of_all_sizes_that_are_not_thrown_twice() {
        let thrown = dice(64).unwrap();
        assert_eq!(thrown.len(), 64);
        // One in 2^64 that any of the bits is never set, and far less that two are the same.
        assert_eq!(thrown.iter().fold(0, |all, one| all | one), u64::MAX);
        assert_ne!(thrown, dice(64).unwrap());
    }
}
