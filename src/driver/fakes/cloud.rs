//! A fake cloud for unit tests.

use crate::model::cloud::attachment_state::{Mapping, VolumePhase, VolumeStatus};
use crate::model::disk::device::Identity;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use crate::ports::clock::Deadline;
use crate::ports::cloud::{
    Attachment, Capabilities, Cloud, CloudVolume, Note, ServerState, ServerView,
};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;

/// A cloud with virtio disks, which show a truncated serial.
#[derive(Debug, Default)]
pub(crate) struct FakeCloud {
    pub(crate) volumes: RefCell<Vec<CloudVolume>>,
    pub(crate) is_down: Cell<bool>,
    /// Whether it keeps marks, and whether it accepts notes.
    pub(crate) keeps_marks: bool,
    pub(crate) is_remote: bool,
    pub(crate) forbids_notes: Cell<bool>,
    /// Whether it fails when it gets a note.
    pub(crate) fails_notes: Cell<bool>,
    /// How many notes it got.
    pub(crate) notes: Cell<u32>,
    /// The compute service's answer, until a request changes it; otherwise derived from the volumes.
    pub(crate) mapping: Cell<Option<Mapping>>,
    /// The server of each node, if it has another name than the node.
    pub(crate) server: RefCell<Option<ServerId>>,
    /// Each volume's file, if there are no virtio disks.
    pub(crate) image: Option<PathBuf>,
    /// How many requests changed something.
    pub(crate) requests: Cell<u32>,
}

impl FakeCloud {
    /// Adds a volume that is attached to these servers.
    pub(crate) fn with(self, id: &str, size: u64, servers: &[&str]) -> Self {
        let attachments: Vec<_> = servers
            .iter()
            .map(|server| Attachment {
                id: Some(format!("attachment-{server}")),
                server: ServerId::parse(server).unwrap(),
                since: None,
                is_root: false,
            })
            .collect();
        let status = if attachments.is_empty() { available() } else { in_use() };
        let id = VolumeId::parse(id).unwrap();
        let volume = CloudVolume { attachments, ..CloudVolume::new(id, size, status) };
        self.volumes.borrow_mut().push(volume);
        self
    }

    fn up(&self) -> Result<()> {
        if self.is_down.get() {
            Err(Error::new(Kind::Unreachable, "the cloud is down"))
        } else {
            Ok(())
        }
    }

    fn change(&self, id: &VolumeId, change: impl FnOnce(&mut CloudVolume)) -> Result<()> {
        self.up()?;
        let mut volumes = self.volumes.borrow_mut();
        match volumes.iter_mut().find(|volume| volume.id == *id) {
            Some(volume) => {
                change(volume);
                Ok(())
            }
            None => Err(Error::new(Kind::Missing, "no such volume")),
        }
    }
}

fn available() -> VolumeStatus {
    VolumeStatus::new(VolumePhase::Available, "available")
}

fn in_use() -> VolumeStatus {
    VolumeStatus::new(VolumePhase::Attached, "in-use")
}

impl Cloud for FakeCloud {
    fn capabilities(&self) -> Capabilities {
        let (is_remote, keeps_marks) = (self.is_remote, self.keeps_marks);
        Capabilities { is_remote, keeps_marks, ..Capabilities::of("the made-up cloud") }
    }

    fn identity(&self, id: &VolumeId) -> Identity {
        let serial = || Identity::Serial(id.clone());
        self.image.clone().map_or_else(serial, Identity::BackingFile)
    }

    fn volume(&self, id: &VolumeId, _: Deadline) -> Result<Option<CloudVolume>> {
        self.up()?;
        Ok(self.volumes.borrow().iter().find(|volume| volume.id == *id).cloned())
    }

    fn server(&self, node: &NodeName, _: Deadline) -> Result<Option<ServerId>> {
        self.up()?;
        let as_the_node = || ServerId::parse(node.as_str());
        self.server.borrow().clone().map_or_else(as_the_node, Ok).map(Some)
    }

    fn recorded_as(&self, name: &VolumeName, _: Deadline) -> Result<Vec<CloudVolume>> {
        self.up()?;
        let volumes = self.volumes.borrow();
        let same = volumes.iter().filter(|volume| volume.recorded_name.as_ref() == Some(name));
        Ok(same.cloned().collect())
    }

    fn mapping(&self, id: &VolumeId, server: &ServerId, _: Deadline) -> Result<Mapping> {
        self.up()?;
        if let Some(view) = self.mapping.get() {
            return Ok(view);
        }
        let volumes = self.volumes.borrow();
        let volume = volumes.iter().find(|volume| volume.id == *id);
        let is_mapped = volume.is_some_and(|volume| volume.attachment_to(server).is_some());
        Ok(if is_mapped { Mapping::Mapped } else { Mapping::NotMapped })
    }

    fn attached_to(&self, server: &ServerId, _: Deadline) -> Result<Vec<CloudVolume>> {
        self.up()?;
        let volumes = self.volumes.borrow();
        let there = volumes.iter().filter(|volume| volume.attachment_to(server).is_some());
        Ok(there.cloned().collect())
    }

    fn note(&self, id: &VolumeId, notes: &[Note<'_>], _: Deadline) -> Result<()> {
        if self.forbids_notes.get() {
            return Err(Error::new(Kind::Config, "no notes for this user"));
        }
        if self.fails_notes.get() {
            return Err(Error::new(Kind::Unreachable, "the cloud is down"));
        }
        self.change(id, |volume| {
            for note in notes {
                match note {
                    Note::Name(name) => volume.recorded_name = name.cloned(),
                    Note::Life(life) => volume.life = Some((*life).clone()),
                    Note::MountedOn(server) if self.keeps_marks => {
                        volume.mounted_on = server.cloned();
                    }
                    Note::MountedBeside(server) if self.keeps_marks => {
                        volume.mounted_beside.insert((*server).clone());
                    }
                    Note::NotMountedBeside(server) if self.keeps_marks => {
                        volume.mounted_beside.remove(*server);
                    }
                    other => panic!("a note of a cloud that keeps marks: {other:?}"),
                }
            }
        })?;
        self.notes.set(self.notes.get() + 1);
        Ok(())
    }

    fn attach(&self, id: &VolumeId, server: &ServerId, _: Deadline) -> Result<()> {
        self.requests.set(self.requests.get() + 1);
        self.mapping.set(None);
        let attachment = Attachment::to(server.clone());
        self.change(id, |volume| {
            volume.attachments.push(attachment);
            volume.status = in_use();
        })
    }

    fn detach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()> {
        if self.mapping(id, server, deadline)? != Mapping::Mapped {
            return Err(Error::new(Kind::Missing, "no such attachment"));
        }
        self.requests.set(self.requests.get() + 1);
        self.mapping.set(None);
        self.change(id, |volume| {
            volume.attachments.retain(|one| one.server != *server);
            volume.status = available();
        })
    }

    fn server_view(&self, server: &ServerId, _: Deadline) -> Result<Option<ServerView>> {
        let is_gone = self.mapping.get() == Some(Mapping::NoServer);
        let (name, word) = (Some(server.to_string()), "ACTIVE".to_owned());
        Ok((!is_gone).then_some(ServerView { name, state: ServerState::Running, word }))
    }

    fn forget_attachment(&self, attachment: &str, _: Deadline) -> Result<()> {
        self.requests.set(self.requests.get() + 1);
        for volume in self.volumes.borrow_mut().iter_mut() {
            volume.attachments.retain(|one| one.id.as_deref() != Some(attachment));
            if volume.attachments.is_empty() {
                volume.status = available();
            }
        }
        Ok(())
    }

    fn extend(&self, id: &VolumeId, bytes: u64, _: Deadline) -> Result<()> {
        self.change(id, |volume| volume.size = bytes)
    }
}
