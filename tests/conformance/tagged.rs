//! The shelf with what a cloud may have beyond the least: notes, and volumes that grow. A note is a
//! file; which keys and texts there are is the library's matter.

use crate::shelf::{OnShelf, Shelf};
use incloud_disk::model::disk::device::Identity;
use incloud_disk::model::error::{Error, Kind, Result};
use incloud_disk::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::cloud::{Capabilities, Cloud, CloudVolume, Note, Notes};
use std::fs::{self, File};
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct Tagged {
    pub shelf: Shelf,
}

fn failed(error: &std::io::Error) -> Error {
    Error::io("keep a note", error)
}

impl Tagged {
    pub fn notes_of(&self, id: &VolumeId) -> PathBuf {
        self.shelf.folder.join("notes").join(id.as_str())
    }

    fn pairs(&self, id: &VolumeId) -> Result<Vec<(String, String)>> {
        let folder = match fs::read_dir(self.notes_of(id)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&error)),
        };
        folder
            .map(|entry| {
                let entry = entry?;
                let text = fs::read_to_string(entry.path())?;
                Ok((entry.file_name().to_string_lossy().into_owned(), text))
            })
            .collect::<std::io::Result<_>>()
            .map_err(|error| failed(&error))
    }

    fn with_notes(&self, volume: CloudVolume) -> Result<CloudVolume> {
        let pairs = self.pairs(&volume.id)?;
        let pairs = pairs.iter().map(|(key, text)| (key.as_str(), text.as_str()));
        Ok(volume.with_notes(Notes::read(pairs)))
    }
}

impl Cloud for Tagged {
    fn capabilities(&self) -> Capabilities {
        Capabilities { keeps_marks: true, ..Capabilities::of("the shelf with tags") }
    }

    fn identity(&self, id: &VolumeId) -> Identity {
        self.shelf.identity(id)
    }

    fn volume(&self, id: &VolumeId, deadline: Deadline) -> Result<Option<CloudVolume>> {
        let volume = self.shelf.volume(id, deadline)?;
        volume.map(|volume| self.with_notes(volume)).transpose()
    }

    fn server(&self, node: &NodeName, deadline: Deadline) -> Result<Option<ServerId>> {
        self.shelf.server(node, deadline)
    }

    fn attached_to(&self, server: &ServerId, deadline: Deadline) -> Result<Vec<CloudVolume>> {
        let found = self.shelf.attached_to(server, deadline)?;
        found.into_iter().map(|volume| self.with_notes(volume)).collect()
    }

    fn attach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()> {
        self.shelf.attach(id, server, deadline)
    }

    fn detach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()> {
        self.shelf.detach(id, server, deadline)
    }

    fn note(&self, id: &VolumeId, notes: &[Note<'_>], _: Deadline) -> Result<()> {
        if self.shelf.size(id)?.is_none() {
            return Err(Error::new(Kind::Missing, format!("there is no volume {id}")));
        }
        let folder = self.notes_of(id);
        fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
        for note in notes {
            let file = folder.join(&*note.key());
            let kept = match note.value() {
                Some(text) => fs::write(&file, text),
                None => match fs::remove_file(&file) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                },
            };
            kept.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    fn recorded_as(&self, name: &VolumeName, deadline: Deadline) -> Result<Vec<CloudVolume>> {
        let folder = self.shelf.folder.join("volumes");
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| failed(&error))? {
            let entry = entry.map_err(|error| failed(&error))?;
            let id = VolumeId::parse(&entry.file_name().to_string_lossy())?;
            found.extend(self.volume(&id, deadline)?);
        }
        found.retain(|volume| volume.recorded_name.as_ref() == Some(name));
        Ok(found)
    }

    fn extend(&self, id: &VolumeId, bytes: u64, _: Deadline) -> Result<()> {
        match self.shelf.size(id)? {
            None => Err(Error::new(Kind::Missing, format!("there is no volume {id}"))),
            Some(size) if size >= bytes => Ok(()),
            Some(_) => File::options()
                .write(true)
                .open(self.shelf.volume_file(id))
                .and_then(|file| file.set_len(bytes))
                .map_err(|error| failed(&error)),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other clouds cannot be on every machine")]
fn tagged(_: &str) -> Option<OnShelf<impl Fn(Shelf) -> Box<dyn Cloud>>> {
    Some(OnShelf::new(|shelf| Box::new(Tagged { shelf }) as Box<dyn Cloud>))
}

conforms!(tagged);
