//! The smallest cloud there can be: a folder. A volume is a file, and attached by a link that names
//! its server. It has the seven methods that a cloud must have, and no other.
//!
//! ```text
//! <folder>/volumes/<id>        the volume, as long as it is large
//! <folder>/servers/<name>      a server
//! <folder>/attached/<id>       a link whose target is the server's name
//! ```

use crate::suite::{MIB, Subject};
use incloud_disk::model::cloud::attachment_state::{VolumePhase, VolumeStatus};
use incloud_disk::model::disk::device::Identity;
use incloud_disk::model::error::{Error, Kind, Result};
use incloud_disk::model::ids::{NodeName, ServerId, VolumeId};
use incloud_disk::ports::clock::Deadline;
use incloud_disk::ports::cloud::{Attachment, Capabilities, Cloud, CloudVolume};
use std::fs;
use std::io::ErrorKind::{AlreadyExists, NotFound};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

#[derive(Debug, Clone)]
pub struct Shelf {
    pub folder: PathBuf,
}

fn io(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("{doing} {}", path.display()), error)
}

impl Shelf {
    pub fn volume_file(&self, id: &VolumeId) -> PathBuf {
        self.folder.join("volumes").join(id.as_str())
    }

    pub fn link_file(&self, id: &VolumeId) -> PathBuf {
        self.folder.join("attached").join(id.as_str())
    }

    /// Where the volume is attached.
    pub fn holder(&self, id: &VolumeId) -> Result<Option<ServerId>> {
        let link = self.link_file(id);
        match fs::read_link(&link) {
            Ok(target) => ServerId::parse(&target.to_string_lossy()).map(Some),
            Err(error) if error.kind() == NotFound => Ok(None),
            Err(error) => Err(io("read", &link, &error)),
        }
    }

    /// What is not there is nothing only in a folder that is.
    pub fn size(&self, id: &VolumeId) -> Result<Option<u64>> {
        let file = self.volume_file(id);
        match fs::metadata(&file) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == NotFound && self.folder.join("volumes").is_dir() => {
                Ok(None)
            }
            Err(error) => Err(io("look at", &file, &error)),
        }
    }

    fn existing(&self, id: &VolumeId) -> Result<()> {
        let missing = || Error::new(Kind::Missing, format!("there is no volume {id}"));
        self.size(id)?.map(drop).ok_or_else(missing)
    }
}

impl Cloud for Shelf {
    fn capabilities(&self) -> Capabilities {
        Capabilities::of("the shelf")
    }

    fn identity(&self, id: &VolumeId) -> Identity {
        Identity::Serial(id.clone())
    }

    fn volume(&self, id: &VolumeId, _: Deadline) -> Result<Option<CloudVolume>> {
        let Some(size) = self.size(id)? else { return Ok(None) };
        let holder = self.holder(id)?;
        let status = match &holder {
            Some(_) => VolumeStatus::new(VolumePhase::Attached, "taken"),
            None => VolumeStatus::new(VolumePhase::Available, "on the shelf"),
        };
        Ok(Some(CloudVolume {
            attachments: holder.into_iter().map(Attachment::to).collect(),
            ..CloudVolume::new(id.clone(), size, status)
        }))
    }

    fn server(&self, node: &NodeName, _: Deadline) -> Result<Option<ServerId>> {
        let servers = self.folder.join("servers");
        match fs::metadata(servers.join(node.as_str())) {
            Ok(_) => ServerId::parse(node.as_str()).map(Some),
            Err(error) if error.kind() == NotFound && servers.is_dir() => Ok(None),
            Err(error) => Err(io("look into", &servers, &error)),
        }
    }

    fn attached_to(&self, server: &ServerId, deadline: Deadline) -> Result<Vec<CloudVolume>> {
        let folder = self.folder.join("attached");
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|error| io("read", &folder, &error))? {
            let entry = entry.map_err(|error| io("read", &folder, &error))?;
            let id = VolumeId::parse(&entry.file_name().to_string_lossy())?;
            found.extend(self.volume(&id, deadline)?);
        }
        found.retain(|volume| volume.attachment_to(server).is_some());
        Ok(found)
    }

    fn attach(&self, id: &VolumeId, server: &ServerId, _: Deadline) -> Result<()> {
        self.existing(id)?;
        let link = self.link_file(id);
        symlink(server.as_str(), &link).map_err(|error| match error.kind() {
            AlreadyExists => Error::new(Kind::Busy, format!("volume {id} is taken")),
            _ => io("make", &link, &error),
        })
    }

    fn detach(&self, id: &VolumeId, server: &ServerId, _: Deadline) -> Result<()> {
        self.existing(id)?;
        if self.holder(id)?.as_ref() != Some(server) {
            return Err(Error::new(Kind::Missing, format!("{server} does not have volume {id}")));
        }
        let link = self.link_file(id);
        fs::remove_file(&link).map_err(|error| io("remove", &link, &error))
    }
}

/// A shelf in a folder of its own, and how the cloud on it is seen.
pub struct OnShelf<F> {
    folder: TempDir,
    see: F,
}

impl<F: Fn(Shelf) -> Box<dyn Cloud>> OnShelf<F> {
    pub fn new(see: F) -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["volumes", "attached", "notes", "servers/node-a", "servers/node-b"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self { folder, see }
    }

    pub fn shelf(&self) -> Shelf {
        Shelf { folder: self.folder.path().to_path_buf() }
    }
}

impl<F: Fn(Shelf) -> Box<dyn Cloud>> Subject for OnShelf<F> {
    fn cloud(&self) -> Box<dyn Cloud + '_> {
        (self.see)(self.shelf())
    }

    fn make(&self) -> VolumeId {
        let id = VolumeId::parse(&crate::server::ids::uuid()).unwrap();
        let file = fs::File::create(self.shelf().volume_file(&id)).unwrap();
        file.set_len(1024 * MIB).unwrap();
        id
    }

    fn node_without_server(&self) -> Option<NodeName> {
        Some(NodeName::parse("node").unwrap())
    }

    fn troubles(&self) -> Vec<&'static str> {
        vec!["nothing is mounted at the folder"]
    }

    fn begin(&self, _: &str) {
        for name in ["volumes", "attached", "notes", "servers"] {
            fs::rename(self.folder.path().join(name), self.folder.path().join(format!(".{name}")))
                .unwrap();
        }
    }

    /// It is changed when its call ends.
    fn patience(&self) -> Duration {
        Duration::from_secs(3)
    }

    /// Its own calls never wait; those of a cloud that is built on it may.
    fn hang(&self) -> bool {
        fs::write(self.folder.path().join("hangs"), "").unwrap();
        true
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other clouds cannot be on every machine")]
fn plain(_: &str) -> Option<OnShelf<impl Fn(Shelf) -> Box<dyn Cloud>>> {
    Some(OnShelf::new(|shelf| Box::new(shelf) as Box<dyn Cloud>))
}

conforms!(plain);
