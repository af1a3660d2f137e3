//! Reads a disk whose mkfs was killed: whether another process wrote to it since.

use super::blank::at_random;
use super::make;
use super::place_reader::PlaceReader;
use super::samples::{sample, unread};
use crate::clock::Deadline;
use crate::failpoints;
use crate::model::disk::contents::blank::{self, Extent};
use crate::model::disk::contents::leftover::{FirstInodes, stranger_by_copy, stranger_by_marks};
use crate::model::disk::contents::{FsType, first_not_zero, places, uuid_bytes};
use crate::model::disk::device::Device;
use crate::model::error::{Error, Kind, Result};
use crate::{NewFileSystem, device_nodes, files};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Larger ext file systems are not made in memory, to compare: of 8 TiB it takes some 120 MiB.
const LARGEST_COPY: u64 = 8 << 40;

/// What stands on the disk beside what this mkfs writes, in words; nothing if it wrote all.
pub(super) fn stranger(
    device: &Device,
    plan: &NewFileSystem,
    deadline: Deadline,
) -> Result<Option<String>> {
    let disk = device_nodes::open_to_read(device)?;
    let size = device.size;
    let kind = plan.kind;
    let copy = match kind {
        FsType::Xfs | FsType::Btrfs => None,
        FsType::Ext3 | FsType::Ext4 => match Copy::of(plan, size, deadline)? {
            None => return Ok(Some(format!("an unfinished {kind} that cannot be compared"))),
            copy => copy,
        },
    };
    let uuid = uuid_bytes(&plan.uuid)
        .ok_or_else(|| Error::new(Kind::Bug, "a file system is planned without a UUID"))?;
    // The places that a blank disk is read at, those at random included.
    let between = blank::fixed(size).chain(blank::copies(size));
    let places: Vec<Extent> = places::edges(size).into_iter().chain(between).collect();
    let mut reader = PlaceReader::of(&disk, device, &places);
    let mut read = |at: u64, length: usize| Ok(sample(&disk, device, at, length as u64)?.bytes);
    let mut strange_in = |batch: &[Extent]| -> Result<Option<String>> {
        reader.announce(batch);
        for place in batch.iter().copied() {
            let found = reader.read(place)?;
            if first_not_zero(found).is_none() {
                continue;
            }
            let stretch = (place.0, found);
            let strange = match &copy {
                Some(copy) => {
                    stranger_by_copy(stretch, &copy.read(place.0, found.len())?, copy.inodes)
                }
                None => stranger_by_marks(kind, &uuid, stretch, size, &mut read)?,
            };
            if let Some(at) = strange {
                return Ok(Some(format!(
                    "unknown data at offset {at}, which the mkfs.{kind} that was stopped there does not write"
                )));
            }
        }
        Ok(None)
    };
    failpoints::effect("filesystems.read").map_err(unread)?;
    for batch in places.chunks(PlaceReader::at_once(&places)) {
        if deadline.over() {
            return Err(Error::new(
                Kind::Timeout,
                format!("{} was not read to its end in time", device.kernel_name),
            ));
        }
        if let strange @ Some(_) = strange_in(batch)? {
            return Ok(strange);
        }
    }
    at_random(size, deadline, strange_in)
}

/// The same file system, made in memory to its end.
struct Copy {
    file: File,
    inodes: FirstInodes,
}

impl Copy {
    fn of(plan: &NewFileSystem, size: u64, deadline: Deadline) -> Result<Option<Self>> {
        const HEAD: usize = 64 * 1024 + 4096;
        if !can_be_made_again(plan, size) {
            return Ok(None);
        }
        let failed = |error: std::io::Error| Error::io("make a file system in memory", &error);
        let file = files::in_memory("mkfs").map_err(failed)?;
        file.set_len(size).map_err(failed)?;
        make::make_copy(&file, plan, deadline)?;
        let mut head = vec![0; HEAD.min(usize::try_from(size).unwrap_or(HEAD))];
        file.read_exact_at(&mut head, 0).map_err(failed)?;
        let inodes = FirstInodes::of(&head).ok_or_else(|| {
            Error::new(Kind::Host, format!("mkfs.{} made nothing in memory", plan.kind))
        })?;
        Ok(Some(Self { file, inodes }))
    }

    fn read(&self, at: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = self.file.read_exact_at(&mut bytes, at);
        read.map_err(|error| Error::io("read a file system in memory", &error))?;
        Ok(bytes)
    }
}

/// Whether the same ext file system comes of its plan once more, in memory: by the same random number.
fn can_be_made_again(plan: &NewFileSystem, size: u64) -> bool {
    size <= LARGEST_COPY && plan.seed.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::mount::mount_options::MkfsOptions;

    #[test]
    fn an_ext_is_compared_if_its_random_number_is_known_and_it_is_not_too_large() {
        let plan = |seed: Option<&str>| NewFileSystem {
            kind: FsType::Ext4,
            uuid: String::new(),
            again: false,
            options: MkfsOptions::default(),
            seed: seed.map(str::to_owned),
            at: 0,
        };
        assert!(can_be_made_again(&plan(Some("seed")), LARGEST_COPY));
        assert!(!can_be_made_again(&plan(Some("seed")), LARGEST_COPY + 1));
        let of_before = plan(None);
        assert!(!can_be_made_again(&of_before, 1 << 30), "of a record of before");
        let soon = Deadline::after(std::time::Duration::from_secs(5));
        assert!(Copy::of(&of_before, 1 << 30, soon).unwrap().is_none());
    }
}
