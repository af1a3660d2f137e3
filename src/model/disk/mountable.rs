//! Whether the contents of a volume's disk may be mounted, and what has to be done first.

use super::contents::{FileSystem, FsType};
use super::device::{Device, Proof};
use super::formatting::leaves_room;
use crate::advice::{Remedy, advise};
use crate::error::{Error, Result};
use crate::ids::{VolumeId, is_uuid};

/// The contents of a volume's disk, as far as a mount or a format is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskHolds {
    /// A file system to mount.
    FileSystem(FileSystem),
    Blank,
    /// Anything else, in words; also what an interrupted mkfs of this driver left behind.
    NotOurs(String),
}

/// The input of the decision.
#[derive(Debug)]
pub struct MountableFacts<'a> {
    pub volume: &'a VolumeId,
    /// The device, proven to belong to the volume.
    pub disk: &'a Device,
    /// The requested file system. `None` accepts the existing one, and means ext4 for a blank disk.
    pub wished: Option<FsType>,
    /// Whether nothing may be written to the disk, because other nodes read it.
    pub untouched: bool,
    /// The UUID of the file system that this node mounted last, if the volume has stayed attached since.
    pub last: Option<&'a str>,
    /// Whether this process can grow a mounted ext4.
    pub may_grow_mounted: bool,
}

/// What to do before the mount.
#[derive(Debug, PartialEq, Eq)]
pub enum Preparation {
    /// Format the disk with this file system, unless something else speaks against it.
    Make(FsType),
    /// Mount this file system. `grow` says whether to grow it first, if the disk is not in use.
    Mount { found: FileSystem, grow: bool },
}

/// Refuses, or says how to prepare the disk.
pub fn prepare(facts: &MountableFacts<'_>, holds: DiskHolds) -> Result<Preparation> {
    let (volume, disk) = (facts.volume, facts.disk);
    let name = &disk.kernel_name;
    let found = match holds {
        DiskHolds::FileSystem(found) => found,
        DiskHolds::NotOurs(what) => return Err(not_ours(volume, disk, &what)),
        DiskHolds::Blank if facts.untouched => {
            return Err(Error::refused(format!(
                "{name} is blank, and the volume is shared: it may not be written to"
            ))
            .hint("use the volume without the option share first, so that it gets its data"));
        }
        DiskHolds::Blank => return Ok(Preparation::Make(facts.wished.unwrap_or_default())),
    };
    if let Some(wished) = facts.wished.filter(|wished| !wished.accepts(found.kind)) {
        return Err(Error::refused(format!(
            "{name} holds {}, but {wished} is asked for",
            found.kind
        ))
        .hint("ask for the file system that is there, or for none; a disk with data is never formatted"));
    }
    if is_another_volumes(facts, &found) {
        return Err(Error::refused(format!(
            "{name} shows the serial of volume {volume}, but its file system was made for volume {}",
            found.uuid
        ))
        .hint("the two ids share their first 20 characters; attach the right volume"));
    }
    // Only this driver formats an attached volume, so this is another disk, or someone else has written to it.
    if let Some(last) = facts.last.filter(|last| *last != found.uuid) {
        return Err(Error::refused(format!(
            "refusing to mount {name} for volume {volume}: its file system is {}, but {last} was mounted from here before, \
             and the volume has not been detached since",
            found.uuid
        ))
        .hint(advise("find out whether this is the volume's disk and who changed it; if this file system is the right one: {}", [Remedy::KeepFileSystem(found.uuid).of(volume)])));
    }
    if found.size > disk.size {
        return Err(Error::refused(format!(
            "the {} on {name} needs {} bytes, the disk has {}",
            found.kind, found.size, disk.size
        ))
        .hint("is it the right volume, and was it made smaller?"));
    }
    // Growing it later would fail without CAP_SYS_RESOURCE, and no container starts until it has grown.
    let grow = matches!(found.kind, FsType::Ext3 | FsType::Ext4)
        && leaves_room(found.size, disk.size)
        && !disk.read_only
        && !facts.untouched
        && !facts.may_grow_mounted;
    Ok(Preparation::Mount { found, grow })
}

/// Two volume ids may share the 20 characters that virtio shows. This driver's file systems carry the whole id as UUID,
/// which reveals the other volume.
fn is_another_volumes(facts: &MountableFacts<'_>, found: &FileSystem) -> bool {
    facts.disk.proof == Proof::Cut
        && found.uuid != file_system_uuid(facts.volume)
        && found.uuid.starts_with(&facts.volume.virtio_serial().to_lowercase())
}

/// The UUID of a file system that this driver makes for a volume: the volume id if that is a UUID, otherwise its
/// FNV-1a hash (128 bits) as a custom UUID.
pub fn file_system_uuid(id: &VolumeId) -> String {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let text = id.as_str();
    if is_uuid(text) {
        return text.to_lowercase();
    }
    let hash = text.bytes().fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    uuid::Builder::from_custom_bytes(hash.to_be_bytes()).into_uuid().to_string()
}

/// The refusal to mount or format unknown contents.
pub fn not_ours(volume: &VolumeId, disk: &Device, what: &str) -> Error {
    Error::refused(format!("{} holds {what}", disk.kernel_name)).hint(advise(
        "only a blank disk is formatted; if the data may go: {} (shows what is there first)",
        [Remedy::Format.of(volume)],
    ))
}

#[cfg(test)]
mod tests;
