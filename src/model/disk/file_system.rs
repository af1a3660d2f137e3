//! A file system, as its superblock tells of it.

use std::fmt;

/// A file system that this driver makes and mounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FsType {
    /// The journalled predecessor of ext4.
    Ext3,
    /// The default.
    #[default]
    Ext4,
    /// The other one in wide use.
    Xfs,
    /// The one with checksums and snapshots.
    Btrfs,
}

/// All of them.
const FS_TYPES: [FsType; 4] = [FsType::Ext3, FsType::Ext4, FsType::Xfs, FsType::Btrfs];

impl FsType {
    /// The name that mount(2) and the orchestrator use.
    pub fn name(self) -> &'static str {
        match self {
            FsType::Ext3 => "ext3",
            FsType::Ext4 => "ext4",
            FsType::Xfs => "xfs",
            FsType::Btrfs => "btrfs",
        }
    }

    /// The type of this name, if we have it.
    pub fn named(name: &str) -> Option<Self> {
        FS_TYPES.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether a disk with `found` on it serves a wish for `self`: ext3 under ext4 is fine, for
    /// the ext4 driver of the kernel mounts both.
    pub fn accepts(self, found: FsType) -> bool {
        self == found || (self == FsType::Ext4 && found == FsType::Ext3)
    }
}

impl fmt::Display for FsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a superblock says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    pub kind: FsType,
    /// Its UUID, as 32 hexadecimal digits with dashes.
    pub uuid: String,
    /// How many bytes of the device it covers.
    pub size: u64,
    /// How often it was ever mounted to be written, where it counts that.
    pub mounts: Option<u16>,
    /// Whether it asks for a check before it is mounted.
    pub wants_check: bool,
    /// Whether it asks for a panic of the whole machine after an error.
    pub asks_for_panic: bool,
    /// Whether its mkfs marked it as unfinished: xfs has such a mark.
    pub is_unfinished: bool,
}

#[cfg(any(test, debug_assertions))]
impl FileSystem {
    /// A finished ext4 of this many bytes that counts no mounts, and asks for nothing.
    pub fn of_a_test(uuid: &str, size: u64) -> Self {
        Self {
            kind: FsType::Ext4,
            uuid: uuid.to_owned(),
            size,
            mounts: None,
            wants_check: false,
            asks_for_panic: false,
            is_unfinished: false,
        }
    }
}
