//! Records of volumes, one file each, and an index of names: `names/<name>` is a link whose text
//! is the volume's id. A link is made in one system call, so the index cannot be half-written.

use super::files;
use crate::model::error::{Error, Result};
use crate::model::ids::{VolumeId, VolumeName};
use crate::model::record::{FORMAT, VolumeRecord};
use std::fs;
use std::path::{Path, PathBuf};

/// The records of this machine.
#[derive(Debug, Clone)]
pub struct Records {
    volumes: PathBuf,
    names: PathBuf,
}

impl Records {
    /// Records below the state folder.
    #[must_use]
    pub fn below(state_dir: &Path) -> Self {
        Self { volumes: state_dir.join("volumes"), names: state_dir.join("names") }
    }

    /// What is remembered of a volume. A record that cannot be read is none: it is a cache.
    #[must_use]
    pub fn load(&self, id: &VolumeId) -> VolumeRecord {
        let path = self.path(id);
        let text = files::read_if_there(&path).unwrap_or_default();
        let record = text.and_then(|text| match serde_json::from_str::<VolumeRecord>(&text) {
            Ok(record) if record.volume == *id => Some(record),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a record cannot be read and is left out");
                None
            }
        });
        record.unwrap_or_else(|| VolumeRecord::new(id.clone()))
    }

    /// Changes what is remembered. The caller holds the volume's lock.
    pub fn update(&self, id: &VolumeId, change: impl FnOnce(&mut VolumeRecord)) -> Result<()> {
        crate::seam::effect("records.update")?;
        let before = self.load(id);
        let mut after = before.clone();
        change(&mut after);
        if after == before && self.path(id).exists() {
            return Ok(());
        }
        after.format = after.format.max(FORMAT);
        files::make_private_folder(&self.volumes)?;
        let json = serde_json::to_vec_pretty(&after)
            .map_err(|error| Error::new(crate::model::error::Kind::Bug, error.to_string()))?;
        files::replace(&self.path(id), &json)?;
        match &after.name {
            Some(name) => self.index(name, id),
            None => Ok(()),
        }
    }

    /// Forgets a volume that left this machine for good.
    pub fn forget(&self, id: &VolumeId) -> Result<()> {
        if let Some(name) = self.load(id).name
            && self.named(&name).as_ref() == Some(id)
        {
            files::remove_if_there(&self.names.join(name.as_str()))?;
        }
        files::remove_if_there(&self.path(id))
    }

    /// The volume that was last seen under this name.
    #[must_use]
    pub fn named(&self, name: &VolumeName) -> Option<VolumeId> {
        let text = fs::read_link(self.names.join(name.as_str())).ok()?;
        VolumeId::parse(text.to_str()?).ok()
    }

    /// Other volumes that were seen here and whose virtio disks would show the same serial.
    #[must_use]
    pub fn others_with_serial(&self, id: &VolumeId) -> Vec<VolumeId> {
        let serial = id.virtio_serial();
        if serial.len() == id.as_str().len() {
            return Vec::new();
        }
        let entries = fs::read_dir(&self.volumes).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| {
            VolumeId::parse(entry.file_name().to_str()?.strip_suffix(".json")?).ok()
        });
        ids.filter(|other| other != id && other.virtio_serial() == serial).collect()
    }

    fn index(&self, name: &VolumeName, id: &VolumeId) -> Result<()> {
        if self.named(name).as_ref() == Some(id) {
            return Ok(());
        }
        files::make_private_folder(&self.names)?;
        let path = self.names.join(name.as_str());
        files::remove_if_there(&path)?;
        match std::os::unix::fs::symlink(id.as_str(), &path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(Error::io(format!("write {}", path.display()), &error))
            }
            _ => Ok(()),
        }
    }

    fn path(&self, id: &VolumeId) -> PathBuf {
        self.volumes.join(format!("{id}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_names_follow() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::below(folder.path());
        let (one, two) = (VolumeId::parse("v1").unwrap(), VolumeId::parse("v2").unwrap());
        let name = VolumeName::parse("pv-1").unwrap();
        records.update(&one, |record| record.name = Some(name.clone())).unwrap();
        assert_eq!(records.named(&name), Some(one.clone()));
        records.update(&two, |record| record.name = Some(name.clone())).unwrap();
        assert_eq!(records.named(&name), Some(two.clone()), "the last pair seen counts");
        records.forget(&one).unwrap();
        assert_eq!(records.named(&name), Some(two.clone()), "the name was no longer its own");
        records.forget(&two).unwrap();
        assert_eq!(records.named(&name), None);
        assert_eq!(records.load(&two), VolumeRecord::new(two));
    }

    #[test]
    fn a_broken_record_is_no_record() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::below(folder.path());
        let id = VolumeId::parse("v1").unwrap();
        fs::create_dir_all(folder.path().join("volumes")).unwrap();
        for text in ["", "{", "[]", r#"{"format":1,"volume":"v2","was_mounted":true}"#] {
            fs::write(folder.path().join("volumes/v1.json"), text).unwrap();
            assert!(!records.load(&id).was_mounted);
        }
        records.update(&id, |record| record.was_mounted = true).unwrap();
        assert!(records.load(&id).was_mounted);
    }
}
