//! Whether what stands on a volume's disk may be mounted, and what is done to it before.

use super::contents::{FileSystem, FsType};
use super::device::{Device, Proof};
use super::formatting::leaves_room;
use crate::advice::{Remedy, advise};
use crate::error::{Error, Result};
use crate::ids::{VolumeId, is_uuid};

/// What stands on a volume's disk, as far as a mount or a new file system is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskHolds {
    /// A file system to mount.
    FileSystem(FileSystem),
    /// Nothing.
    Blank,
    /// Anything else, also what an interrupted mkfs of ours left, in words.
    NotOurs(String),
}

/// What the decision is made of.
#[derive(Debug)]
pub struct Facts<'a> {
    pub volume: &'a VolumeId,
    /// Its proven disk.
    pub disk: &'a Device,
    /// The file system asked for; nothing means what is there, ext4 for a blank disk.
    pub wished: Option<FsType>,
    /// Whether nothing may be written to the disk, because other machines read it.
    pub untouched: bool,
    /// The UUID of the file system that was mounted here last, if the volume has stayed attached since.
    pub last: Option<&'a str>,
    /// Whether this process can grow an ext4 that is mounted.
    pub may_grow_mounted: bool,
}

/// What is done before the mount.
#[derive(Debug, PartialEq, Eq)]
pub enum Preparation {
    /// A file system of this kind is made, if everything but the disk's contents agrees.
    Make(FsType),
    /// This one is mounted; `grow` says whether it grows before that, if nothing uses the disk.
    Mount { found: FileSystem, grow: bool },
}

/// Decides.
pub fn prepare(facts: &Facts<'_>, holds: DiskHolds) -> Result<Preparation> {
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
    // While a volume stays attached only this driver makes file systems on it: the disk is another one, or
    // someone else has written to it.
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
    // The call that grows it mounted would fail, and the orchestrator starts no container before it succeeds.
    let grow = matches!(found.kind, FsType::Ext3 | FsType::Ext4)
        && leaves_room(found.size, disk.size)
        && !disk.read_only
        && !facts.untouched
        && !facts.may_grow_mounted;
    Ok(Preparation::Mount { found, grow })
}

/// A cut serial can be another volume's. Our file systems carry their volume's id as UUID: one that goes on
/// differently after the same 20 characters is that other volume's.
fn is_another_volumes(facts: &Facts<'_>, found: &FileSystem) -> bool {
    facts.disk.proof == Proof::Cut
        && found.uuid != file_system_uuid(facts.volume)
        && found.uuid.starts_with(&facts.volume.virtio_serial().to_lowercase())
}

/// The UUID that a file system of this volume gets: the id itself where that is a UUID, else a
/// hash of it (FNV-1a, 128 bits) in the form of a custom UUID. So contents can be matched to
/// their volume later.
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

/// The refusal to mount or format what is no file system of ours, with the way out.
pub fn not_ours(volume: &VolumeId, disk: &Device, what: &str) -> Error {
    Error::refused(format!("{} holds {what}", disk.kernel_name)).hint(advise(
        "only a blank disk is formatted; if the data may go: {} (shows what is there first)",
        [Remedy::Format.of(volume)],
    ))
}

#[cfg(test)]
mod tests;
