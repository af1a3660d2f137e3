//! What happens to a disk before it is looked at.

use crate::files;
use crate::support::with_files;
use nix::unistd::{Whence, lseek};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// An image, or what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// As its maker left it.
    Whole,
    /// The first 512 bytes are zeros.
    WithoutFirstSector,
    /// The first 4 KiB are zeros.
    WithoutFirstPage,
    /// Only the first half is there.
    FirstHalf,
    /// The sector with the first byte that is not zero cannot be read: what cannot be seen there
    /// is mostly what would have said whose disk it is.
    Unreadable,
}

pub const ALL: [Variant; 5] = [
    Variant::Whole,
    Variant::WithoutFirstSector,
    Variant::WithoutFirstPage,
    Variant::FirstHalf,
    Variant::Unreadable,
];

impl Variant {
    /// How large the disk is then.
    pub fn size(self, whole: u64) -> u64 {
        if self == Variant::FirstHalf { whole / 2 } else { whole }
    }

    /// Copies the image over an empty sparse file, and does to it what the variant says.
    pub fn put(self, image: &Path, target: &Path) {
        copy_data(image, target);
        match self {
            Variant::Whole | Variant::FirstHalf | Variant::Unreadable => {}
            Variant::WithoutFirstSector => files::write_at(target, 0, &[0; 512]),
            Variant::WithoutFirstPage => files::write_at(target, 0, &[0; 4096]),
        }
    }
}

/// As far as the target goes, and without its holes.
fn copy_data(image: &Path, target: &Path) {
    with_files(|| {
        let mut from = File::open(image).unwrap();
        let mut to = File::options().write(true).open(target).unwrap();
        let length = to.metadata().unwrap().len();
        for (start, end) in stretches(&from) {
            let end = end.min(length);
            if start < end {
                from.seek(SeekFrom::Start(start)).unwrap();
                to.seek(SeekFrom::Start(start)).unwrap();
                // copy_file_range(2), where the two share a file system.
                std::io::copy(&mut (&from).take(end - start), &mut to).unwrap();
            }
        }
        to.flush().unwrap();
    });
}

/// The stretches of a file that are not holes.
fn stretches(file: &File) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(data) = lseek(file, at, Whence::SeekData) {
        at = lseek(file, data, Whence::SeekHole).unwrap();
        found.push((u64::try_from(data).unwrap(), u64::try_from(at).unwrap()));
    }
    found
}

/// Where the first byte stands that is not zero.
pub fn first_byte(path: &Path) -> Option<u64> {
    const BLOCK: usize = 4096;
    with_files(|| {
        let file = File::open(path).unwrap();
        let mut block = [0; BLOCK];
        for (start, end) in stretches(&file) {
            for offset in (start..end).step_by(BLOCK) {
                let got = file.read_at(&mut block, offset).unwrap();
                if block[..got] != [0; BLOCK][..got] {
                    let first = block[..got].iter().position(|byte| *byte != 0).unwrap();
                    return Some(offset + first as u64);
                }
            }
        }
        None
    })
}
