//! The local cloud's folder: images, records, links, and one lock for all changes.
//!
//! ```text
//! <dir>/lock                    held by the process that changes something
//! <dir>/volumes/<id>.img        the volume's bytes
//! <dir>/volumes/<id>.json       its record, replaced whole
//! <dir>/by-id/virtio-<20>       a link to the loop device of this machine
//! ```

use crate::host::files::{self, LockedFile};
use crate::host::worker;
use crate::model::disk::device::Device;
use crate::model::disk::formatting::Life;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{ServerId, VolumeId, VolumeName};
use crate::model::pauses::Steps;
use crate::model::sorting::sort_by;
use crate::ports::clock::{Deadline, seconds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One volume's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeFile {
    /// The format of the writer.
    pub format: u32,
    pub id: VolumeId,
    /// Its size in bytes.
    pub size: u64,
    /// Its name in the cloud, given by people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The orchestrator's name of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_name: Option<VolumeName>,
    /// How far it has come, in the words of [`Life`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<String>,
    /// What it was made from, if it did not begin blank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// To whom it is attached, and since when.
    #[serde(default)]
    pub attachments: BTreeMap<ServerId, String>,
}

impl VolumeFile {
    /// A new volume, attached nowhere.
    pub fn new(id: VolumeId, size: u64, name: Option<String>) -> Self {
        Self {
            format: 1,
            id,
            size,
            name,
            recorded_name: None,
            life: None,
            origin: None,
            attachments: BTreeMap::new(),
        }
    }

    /// How far it has come.
    pub fn life(&self) -> Option<Life> {
        self.life.as_deref().map(Life::read)
    }
}

/// The folder.
#[derive(Debug, Clone)]
pub struct Shelf {
    dir: PathBuf,
}

impl Shelf {
    /// The shelf in this folder, by its real path: sysfs shows images by theirs.
    pub fn at(dir: &Path) -> Self {
        let _using = worker::uses(dir);
        Self { dir: fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf()) }
    }

    pub fn image(&self, id: &VolumeId) -> PathBuf {
        self.dir.join("volumes").join(format!("{id}.img"))
    }

    /// The copy that takes the image's name when a disk is pulled.
    pub fn copy(&self, id: &VolumeId) -> PathBuf {
        self.dir.join("volumes").join(format!("{id}.img.copy"))
    }

    /// The link to a volume's disk.
    pub fn link(&self, id: &VolumeId) -> PathBuf {
        self.dir.join("by-id").join(id.link_name())
    }

    fn record(&self, id: &VolumeId) -> PathBuf {
        self.dir.join("volumes").join(format!("{id}.json"))
    }

    /// Makes the caller the only one who changes something, until the file is dropped.
    pub fn lock(&self, deadline: Deadline) -> Result<LockedFile> {
        files::make_private_folder(&self.dir)?;
        let path = self.dir.join("lock");
        let io = |error: &std::io::Error| Error::io(format!("lock {}", path.display()), error);
        let file = files::open_shared(&path).map_err(|error| io(&error))?;
        for step in Steps::between(Duration::from_millis(1), Duration::from_millis(20)) {
            match file.try_lock() {
                Ok(()) => return Ok(LockedFile::of(file)),
                Err(TryLockError::WouldBlock) if deadline.pause(step) => {}
                Err(TryLockError::WouldBlock) => break,
                Err(TryLockError::Error(error)) => return Err(io(&error)),
            }
        }
        Err(Error::new(Kind::Busy, format!("the local cloud is locked: {}", path.display())))
    }

    /// The same for who plugs this volume's disk in or out. No pull runs beside that lock, so a copy
    /// that is there was left by one that was killed; a later call may find nothing to unplug.
    pub fn lock_for(&self, id: &VolumeId, deadline: Deadline) -> Result<LockedFile> {
        let lock = self.lock(deadline)?;
        files::remove_if_there(&self.copy(id))?;
        Ok(lock)
    }

    /// The record of a volume; nothing if there is no such volume.
    pub fn load(&self, id: &VolumeId) -> Result<Option<VolumeFile>> {
        let path = self.record(id);
        let Some(text) = files::read_if_there(&path)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| {
            Error::new(Kind::Host, format!("{} cannot be read: {error}", path.display()))
        })
    }

    /// Replaces the record of a volume.
    pub fn save(&self, file: &VolumeFile) -> Result<()> {
        let json = serde_json::to_vec_pretty(file)
            .map_err(|error| Error::new(Kind::Bug, error.to_string()))?;
        files::replace(&self.record(&file.id), &json).map(drop)
    }

    /// Every record, by id.
    pub fn list(&self) -> Result<Vec<VolumeFile>> {
        let folder = self.dir.join("volumes");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io(format!("read {}", folder.display()), &error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry =
                entry.map_err(|error| Error::io(format!("read {}", folder.display()), &error))?;
            let name = entry.file_name();
            // Names that are no ids are temporary files of a writer.
            let id = name.to_str().and_then(|name| name.strip_suffix(".json")).map(VolumeId::parse);
            if let Some(Ok(id)) = id
                && let Some(file) = self.load(&id)?
            {
                files.push(file);
            }
        }
        sort_by(&mut files, |a, b| a.id.cmp(&b.id));
        Ok(files)
    }

    /// Makes an empty image.
    pub fn make_image(&self, id: &VolumeId, size: u64) -> Result<()> {
        let path = self.image(id);
        files::make_private_folder(&self.dir.join("volumes"))?;
        let made = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|file| file.set_len(size).and_then(|()| file.sync_all()));
        made.map_err(|error| Error::io(format!("make {}", path.display()), &error))
    }

    /// Makes an image longer.
    pub fn grow_image(&self, id: &VolumeId, size: u64) -> Result<()> {
        let path = self.image(id);
        let io = |error: std::io::Error| Error::io(format!("grow {}", path.display()), &error);
        let file = OpenOptions::new().write(true).open(&path).map_err(io)?;
        if file.metadata().map_err(io)?.len() < size {
            file.set_len(size).and_then(|()| file.sync_all()).map_err(io)?;
        }
        Ok(())
    }

    /// Removes a volume: the record first, for without it there is no volume.
    pub fn remove(&self, id: &VolumeId) -> Result<()> {
        files::remove_if_there(&self.record(id))?;
        files::remove_if_there(&self.copy(id))?;
        files::remove_if_there(&self.image(id))
    }

    /// Points the volume's link at its disk, as udev would.
    pub fn make_link(&self, id: &VolumeId, disk: &Device) -> Result<()> {
        let link = self.link(id);
        files::make_private_folder(&self.dir.join("by-id"))?;
        files::remove_if_there(&link)?;
        std::os::unix::fs::symlink(disk.kernel_node(), &link)
            .map_err(|error| Error::io(format!("link {}", link.display()), &error))
    }

    /// Removes the volume's link if it still points at this disk.
    pub fn remove_link(&self, id: &VolumeId, disk: &Device) -> Result<()> {
        let link = self.link(id);
        match fs::read_link(&link) {
            Ok(target) if target == disk.kernel_node() => files::remove_if_there(&link),
            _ => Ok(()),
        }
    }
}

/// The time as the cloud's records show it: seconds since 1970.
pub fn now() -> String {
    format!("@{}", seconds())
}
