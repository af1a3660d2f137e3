//! What was read of a disk, and what may be said of it.

use crate::disk::file_system::FileSystem;
use std::fmt;

/// What stands on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// All that was read is zero.
    Blank,
    /// A file system that we can mount.
    FileSystem(FileSystem),
    /// Data of a known kind: never formatted, never mounted. The text says what.
    Foreign(String),
    /// Bytes that are not known: not formatted either. The text says where.
    Unknown(String),
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("nothing"),
            Self::FileSystem(FileSystem { kind, uuid, is_unfinished: true, .. }) => {
                write!(f, "an unfinished {kind} (UUID {uuid})")
            }
            Self::FileSystem(FileSystem { kind, uuid, .. }) => write!(f, "{kind} (UUID {uuid})"),
            Self::Foreign(what) | Self::Unknown(what) => f.write_str(what),
        }
    }
}

/// Bytes that were read from a disk at one place.
#[derive(Debug, Clone)]
pub struct ReadSample {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// The disk, as far as it was read.
#[derive(Debug, Clone)]
pub struct Read<'a> {
    /// The whole disk's size.
    pub size: u64,
    /// What was read; the first sample begins at offset 0.
    pub samples: &'a [ReadSample],
}
