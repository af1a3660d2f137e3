//! The embedded cloud: a whole cloud for one machine, on loop devices.
//!
//! It behaves like the real one where that matters here. A volume is an image file, its disk a
//! loop device, the "letter" the loop's number. The serial link is
//! `<dir>/by-id/virtio-<first 20 characters>`. Attachments belong to node names: the node that is
//! this machine gets a device, any other only the record, so that a volume can be "elsewhere".
//!
//! This machine's own attachment is true only while the loop device lives: after a reboot the
//! record alone says "attached", and so the view says "not attached" until it is attached anew.

pub mod pull;
pub mod store;

use self::store::{Shelf, VolumeFile};
use crate::failpoints;
use crate::host::{device_nodes, kernel};
use crate::model::advice::{Remedy, advise};
use crate::model::cloud::attachment_state::{VolumePhase, VolumeStatus};
use crate::model::disk::device::{Device, Identity};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName};
use crate::ports::clock::Deadline;
use crate::ports::cloud::{
    Attachment, Capabilities, Cloud, CloudVolume, Note, ServerState, ServerView,
};
use crate::ports::host::Devices;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::time::Duration;

/// The local cloud, as one node sees it.
#[expect(missing_debug_implementations, reason = "it borrows a port")]
pub struct LocalCloud<'a> {
    shelf: Shelf,
    this_node: ServerId,
    devices: &'a dyn Devices,
}

impl<'a> LocalCloud<'a> {
    /// The cloud in this folder, seen from this node.
    pub fn new(dir: &std::path::Path, node: &NodeName, devices: &'a dyn Devices) -> Result<Self> {
        Ok(Self { shelf: Shelf::at(dir), this_node: ServerId::parse(node.as_str())?, devices })
    }

    /// The folder's files.
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// This machine's disk of the volume, if it is plugged in.
    pub fn disk(&self, id: &VolumeId) -> Result<Option<Device>> {
        let wanted = self.identity(id);
        let mut found = self.devices.search(&wanted)?;
        if found.len() > 1 {
            return Err(wanted.shown_by_several(&found));
        }
        Ok(found.pop())
    }

    /// Makes a new volume: a sparse image.
    pub fn create(
        &self,
        id: &VolumeId,
        size: u64,
        name: Option<String>,
        deadline: Deadline,
    ) -> Result<()> {
        let _lock = self.shelf.lock(deadline)?;
        if self.shelf.load(id)?.is_some() {
            return Err(Error::new(Kind::BadCall, format!("volume {id} exists already")));
        }
        self.shelf.make_image(id, size)?;
        self.shelf.save(&VolumeFile::new(id.clone(), size, name))
    }

    /// Makes a new volume with another one's data, as a cloud's clone. Answers its size.
    pub fn copy(
        &self,
        id: &VolumeId,
        source: &VolumeId,
        name: Option<String>,
        deadline: Deadline,
    ) -> Result<u64> {
        self.existing(source)?;
        let _lock = self.shelf.lock(deadline)?;
        let from = self.existing(source)?;
        if self.shelf.load(id)?.is_some() {
            return Err(Error::new(Kind::BadCall, format!("volume {id} exists already")));
        }
        if let Some(attachment) = self.view(&from)?.attachments.first() {
            // What its file system has not written yet would be missing.
            return Err(Error::new(
                Kind::Busy,
                format!("volume {source} is attached to {}", attachment.server),
            )
            .hint("detach it first"));
        }
        let image = self.shelf.image(source);
        pull::copy_sparsely(&image, &self.shelf.image(id))
            .map_err(|error| Error::io(format!("copy {}", image.display()), &error))?;
        let mut file = VolumeFile::new(id.clone(), from.size, name);
        file.origin = Some(format!("volume {source}"));
        self.shelf.save(&file)?;
        Ok(from.size)
    }

    /// Removes a volume that is attached nowhere.
    pub fn delete(&self, id: &VolumeId, deadline: Deadline) -> Result<()> {
        // A question about nothing makes no folder.
        self.existing(id)?;
        let _lock = self.shelf.lock(deadline)?;
        let volume = self.view(&self.existing(id)?)?;
        if let Some(attachment) = volume.attachments.first() {
            return Err(Error::new(
                Kind::Busy,
                format!("volume {id} is attached to {}", attachment.server),
            )
            .hint("detach it first"));
        }
        self.shelf.remove(id)
    }

    /// Pulls the volume's disk without a warning, as a hypervisor can: the file system on it dies,
    /// and the cloud shows the volume detached.
    pub fn yank(&self, id: &VolumeId, deadline: Deadline) -> Result<pull::Pulled> {
        // A question about nothing makes no folder.
        self.existing(id)?;
        let _lock = self.shelf.lock_for(id, deadline)?;
        let file = self.existing(id)?;
        let Some(disk) = self.disk(id)? else {
            return Err(Error::new(
                Kind::Missing,
                format!("volume {id} has no disk on this machine"),
            )
            .hint(advise("{} shows where it is attached", [Remedy::ListVolumes.into()])));
        };
        let pulled = pull::pull(&self.shelf, self.devices, id, &disk)?;
        self.shelf.remove_link(id, &disk)?;
        self.without(file, &self.this_node)?;
        Ok(pulled)
    }

    /// Every volume, as the cloud shows them.
    pub fn list(&self) -> Result<Vec<(VolumeFile, CloudVolume)>> {
        let files = self.shelf.list()?;
        files.into_iter().map(|file| self.view(&file).map(|view| (file, view))).collect()
    }

    fn existing(&self, id: &VolumeId) -> Result<VolumeFile> {
        self.shelf.load(id)?.ok_or_else(|| {
            Error::new(Kind::Missing, format!("volume {id} does not exist in the local cloud"))
                .hint(advise("{} shows those that do", [Remedy::ListVolumes.into()]))
        })
    }

    fn view(&self, file: &VolumeFile) -> Result<CloudVolume> {
        // Attachments of other nodes can be told without a look at this machine's disks.
        let is_ours = file.attachments.contains_key(&self.this_node);
        // Two disks of one image are a fault of that volume's, and no reason to show none.
        let plugged_in = is_ours && !self.devices.search(&self.identity(&file.id))?.is_empty();
        Ok(self.view_as(file, plugged_in))
    }

    /// The same where it was looked at already whether its disk is here.
    fn view_as(&self, file: &VolumeFile, plugged_in: bool) -> CloudVolume {
        let there = |server: &ServerId| *server != self.this_node || plugged_in;
        let attachments: Vec<_> = file
            .attachments
            .iter()
            .filter(|(server, _)| there(server))
            .map(|(server, since)| Attachment {
                id: None,
                server: server.clone(),
                since: Some(since.clone()),
                is_root: false,
            })
            .collect();
        let status = if attachments.is_empty() {
            VolumeStatus::new(VolumePhase::Available, "available")
        } else {
            VolumeStatus::new(VolumePhase::Attached, "in-use")
        };
        CloudVolume {
            name: file.name.clone(),
            recorded_name: file.recorded_name.clone(),
            life: file.life(),
            origin: file.origin.clone(),
            attachments,
            ..CloudVolume::new(file.id.clone(), file.size, status)
        }
    }

    /// The record as it should be: after a reboot, or a kill at the right moment, it lists this
    /// machine although there is no disk, or there is a disk without its link. What the cloud
    /// shows to every node must be true, so it is put right as soon as this machine looks.
    fn noticed(&self, file: VolumeFile, deadline: Deadline) -> Result<VolumeFile> {
        if !file.attachments.contains_key(&self.this_node) {
            return Ok(file);
        }
        let is_right = |disk: Option<Device>| {
            disk.is_some() && std::fs::symlink_metadata(self.shelf.link(&file.id)).is_ok()
        };
        if is_right(self.disk(&file.id)?) {
            return Ok(file);
        }
        // Under the lock no call is half-way through an attach.
        let _lock = self.shelf.lock_for(&file.id, deadline)?;
        let Some(mut now) = self.shelf.load(&file.id)? else { return Ok(file) };
        match self.disk(&file.id)? {
            Some(disk) if std::fs::symlink_metadata(self.shelf.link(&file.id)).is_err() => {
                self.shelf.make_link(&file.id, &disk)?;
            }
            Some(_) => {}
            None => {
                self.remove_dead_link(&file.id)?;
                if now.attachments.remove(&self.this_node).is_some() {
                    tracing::warn!(volume = %file.id, "its disk is gone from this machine: the cloud calls it detached");
                    self.shelf.save(&now)?;
                }
            }
        }
        Ok(now)
    }

    /// Removes the volume's link if no volume of that link has the disk it leads to.
    fn remove_dead_link(&self, id: &VolumeId) -> Result<()> {
        let link = self.shelf.link(id);
        let Ok(target) = std::fs::read_link(&link) else { return Ok(()) };
        for file in self.shelf.list()?.into_iter().filter(|file| self.shelf.link(&file.id) == link)
        {
            if self.disk(&file.id)?.is_some_and(|disk| disk.kernel_node() == target) {
                return Ok(());
            }
        }
        crate::host::files::remove_if_there(&link)
    }

    fn without(&self, mut file: VolumeFile, server: &ServerId) -> Result<()> {
        file.attachments.remove(server);
        self.shelf.save(&file)
    }

    fn plug_in(&self, id: &VolumeId) -> Result<Device> {
        let image = self.shelf.image(id);
        let backing = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&image)
            .map_err(|error| Error::io(format!("open {}", image.display()), &error))?;
        bind_free_loop(&backing)?;
        self.disk(id)?.ok_or_else(|| {
            Error::new(
                Kind::Host,
                format!("the loop device of volume {id} does not show {}", image.display()),
            )
            .hint("is local.dir reached through a link or another mount namespace?")
        })
    }

    fn unplug(&self, id: &VolumeId, disk: &Device) -> Result<()> {
        if self.devices.exclusive_open(disk)?.is_free()? {
            let node = device_nodes::open_to_read(disk)?;
            // Open, the number is this disk's; it must still be the volume's.
            self.devices.check(&self.identity(id), disk)?;
            kernel::loop_unbind(&node)
                .map_err(|errno| Error::io(format!("clear {}", disk.kernel_name), &errno.into()))?;
            drop(node);
        }
        // A cloud does not ask the guest: whatever still uses the disk, or merely has it open,
        // loses it. A process that only looks at a new disk (udev) is given a moment.
        let moment = Deadline::after(Duration::from_millis(200));
        while self.disk(id)?.is_some_and(|now| now.number == disk.number) {
            if !self.devices.exclusive_open(disk)?.is_free()?
                || !moment.pause(Duration::from_millis(5))
            {
                pull::pull(&self.shelf, self.devices, id, disk)?;
                break;
            }
        }
        self.shelf.remove_link(id, disk)
    }
}

fn no_note(note: &Note<'_>) -> Error {
    Error::new(Kind::Config, format!("the local cloud keeps no note {}", note.key()))
}

/// Another process may take the number that the kernel calls free: then the next one is tried.
fn bind_free_loop(backing: &File) -> Result<()> {
    const CONTROL: &str = "/dev/loop-control";
    let control = OpenOptions::new().read(true).write(true).open(CONTROL).map_err(|error| {
        Error::io(format!("open {CONTROL}"), &error)
            .hint("a disk can be attached only beside the kernel that shall use it, as root")
    })?;
    let failed = |what: &str, errno: nix::errno::Errno| Error::io(what, &errno.into());
    for _ in 0..64 {
        let number = kernel::loop_free_number(&control)
            .map_err(|errno| failed("find a free loop device", errno))?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(device) => device,
            // devtmpfs makes the node a moment after the kernel made the device.
            // One that is just being cleared cannot be opened at all.
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound
                    || error.raw_os_error() == Some(nix::errno::Errno::ENXIO as i32) =>
            {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            Err(error) => return Err(Error::io(format!("open {}", path.display()), &error)),
        };
        match kernel::loop_bind(&device, backing) {
            Ok(()) => return Ok(()),
            Err(nix::errno::Errno::EBUSY) => {}
            Err(errno) => return Err(failed(&format!("set up {}", path.display()), errno)),
        }
    }
    Err(Error::new(Kind::Busy, "no loop device stayed free long enough"))
}

impl Cloud for LocalCloud<'_> {
    /// An attach here is done when it is answered: none is open, and no mark needs to tell of it.
    fn capabilities(&self) -> Capabilities {
        Capabilities::of("the local cloud")
    }

    fn identity(&self, id: &VolumeId) -> Identity {
        Identity::BackingFile(self.shelf.image(id))
    }

    fn link(&self, id: &VolumeId) -> PathBuf {
        self.shelf.link(id)
    }

    fn volume(&self, id: &VolumeId, deadline: Deadline) -> Result<Option<CloudVolume>> {
        let Some(file) = self.shelf.load(id)? else { return Ok(None) };
        let file = self.noticed(file, deadline)?;
        // What is noted as attached here was just seen to be.
        let plugged_in = file.attachments.contains_key(&self.this_node);
        Ok(Some(self.view_as(&file, plugged_in)))
    }

    fn server(&self, node: &NodeName, _: Deadline) -> Result<Option<ServerId>> {
        // Every name is a server here: there is no list that could say otherwise.
        ServerId::parse(node.as_str()).map(Some)
    }

    fn recorded_as(&self, name: &VolumeName, _: Deadline) -> Result<Vec<CloudVolume>> {
        let files = self.shelf.list()?;
        let same = files.iter().filter(|file| file.recorded_name.as_ref() == Some(name));
        same.map(|file| self.view(file)).collect()
    }

    fn attached_to(&self, server: &ServerId, _: Deadline) -> Result<Vec<CloudVolume>> {
        let volumes = self.list()?.into_iter().map(|(_, view)| view);
        Ok(volumes.filter(|view| view.attachment_to(server).is_some()).collect())
    }

    fn attach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()> {
        let _lock = self.shelf.lock_for(id, deadline)?;
        let mut file = self.existing(id)?;
        if let Some((other, _)) = file.attachments.iter().find(|(other, _)| *other != server) {
            return Err(Error::new(Kind::Elsewhere, format!("volume {id} is attached to {other}")));
        }
        // Where no disk can be looked for none comes either, and nothing is written down.
        let is_here = *server == self.this_node;
        let known = if is_here { self.disk(id)? } else { None };
        // The record comes first: killed in between, the volume is taken but not plugged in, and
        // the same attach finishes it; the other way round a second node could take it too.
        file.attachments.insert(server.clone(), store::now());
        self.shelf.save(&file)?;
        failpoints::step("local.attach.recorded");
        if is_here {
            let plugged_in = known.map_or_else(|| self.plug_in(id), Ok);
            let disk = plugged_in.inspect_err(|_| {
                // What is plugged in all the same, or cannot be told, stays attached: a detach ends it.
                if !matches!(self.disk(id), Ok(None)) {
                    return;
                }
                file.attachments.remove(server);
                if let Err(error) = self.shelf.save(&file) {
                    tracing::error!(%error, "the record of a failed attach stays");
                }
            })?;
            failpoints::step("local.attach.plugged");
            self.shelf.make_link(id, &disk)?;
        }
        Ok(())
    }

    fn detach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()> {
        let _lock = self.shelf.lock_for(id, deadline)?;
        let file = self.existing(id)?;
        let disk = if *server == self.this_node { self.disk(id)? } else { None };
        if disk.is_none() && !file.attachments.contains_key(server) {
            return Err(Error::new(
                Kind::Missing,
                format!("volume {id} is not attached to {server}"),
            ));
        }
        if let Some(disk) = disk {
            self.unplug(id, &disk)?;
            failpoints::step("local.detach.unplugged");
        }
        self.without(file, server)
    }

    fn note(&self, id: &VolumeId, notes: &[Note<'_>], deadline: Deadline) -> Result<()> {
        let apply = |mut file: VolumeFile| {
            for note in notes {
                match note {
                    Note::Name(name) => file.recorded_name = name.cloned(),
                    Note::Life(life) => file.life = Some(life.to_string()),
                    other => return Err(no_note(other)),
                }
            }
            Ok(file)
        };
        // Most mounts find it as it is: they wait for no lock, and write nothing.
        let file = self.existing(id)?;
        if apply(file.clone())? == file {
            return Ok(());
        }
        let _lock = self.shelf.lock(deadline)?;
        self.shelf.save(&apply(self.existing(id)?)?)
    }

    /// The shelf knows no servers but by what is attached to them; none of them ever goes.
    fn server_view(&self, server: &ServerId, _: Deadline) -> Result<Option<ServerView>> {
        let name = Some(server.to_string());
        Ok(Some(ServerView { name, state: ServerState::Running, word: "ACTIVE".to_owned() }))
    }

    fn extend(&self, id: &VolumeId, bytes: u64, deadline: Deadline) -> Result<()> {
        let _lock = self.shelf.lock(deadline)?;
        let mut file = self.existing(id)?;
        if bytes <= file.size {
            return Ok(());
        }
        self.shelf.grow_image(id, bytes)?;
        file.size = bytes;
        self.shelf.save(&file)?;
        // A hypervisor tells the guest of its disk's new size; here that is up to us.
        match self.disk(id)? {
            Some(disk) => self.devices.rescan(&disk),
            None => Ok(()),
        }
    }
}
