//! The parts of a script: people, servers, volumes, each added or changed.

use super::super::compute::Host;
use super::super::ids;
use super::super::world::World;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserScript {
    pub(super) name: String,
    pub(super) password: String,
    /// Role names by project.
    #[serde(default)]
    pub(super) roles: BTreeMap<String, Vec<String>>,
    pub(super) default_project: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CredentialScript {
    pub(super) name: String,
    pub(super) id: Option<String>,
    pub(super) secret: String,
    pub(super) user: String,
    pub(super) project: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerScript {
    pub(super) name: Option<String>,
    pub(super) id: Option<String>,
    pub(super) project: Option<String>,
    pub(super) region: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) vm_state: Option<String>,
    /// `""`: none.
    pub(super) task_state: Option<String>,
    pub(super) locked: Option<bool>,
    pub(super) host: Option<Host>,
    /// Nova's rows in place of those there are: a volume's name or id each.
    pub(super) lists: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VolumeScript {
    pub(super) name: Option<String>,
    pub(super) id: Option<String>,
    pub(super) project: Option<String>,
    pub(super) region: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) status: Option<String>,
    pub(super) bootable: Option<bool>,
    pub(super) multiattach: Option<bool>,
    pub(super) encrypted: Option<bool>,
    pub(super) volume_type: Option<String>,
    pub(super) snapshot_id: Option<String>,
    pub(super) source_volid: Option<String>,
    /// What `volume_image_metadata` shows.
    pub(super) image: Option<Map<String, Value>>,
    pub(super) metadata: Option<Map<String, Value>>,
    /// Both views: the volume is at these servers and no others.
    pub(super) attached_to: Option<Vec<String>>,
    /// Cinder's attachments in place of those there are.
    pub(super) attachments: Option<Vec<AttachmentScript>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AttachmentScript {
    pub(super) server: String,
    pub(super) status: String,
}

impl UserScript {
    pub(super) fn apply(self, world: &mut World) {
        let id = world.identity.add_user(&self.name, &self.password);
        for (project, roles) in &self.roles {
            let project = world.identity.project_id(project);
            let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
            world.identity.grant(&id, &project, &roles);
        }
        let project = self.default_project.map(|name| world.identity.project_id(&name));
        if let Some(user) = world.identity.users.last_mut() {
            user.default_project = project;
        }
    }
}

impl ServerScript {
    /// Adds or changes the server; gives its id.
    pub(super) fn apply(self, world: &mut World) -> String {
        let named = |text: &Option<String>, known: &str| text.as_deref() == Some(known);
        let servers = &world.compute.servers;
        let known = match &self.id {
            Some(id) => servers.iter().find(|server| server.id == *id),
            None => servers.iter().find(|server| named(&self.name, &server.name)),
        };
        let known = known.map(|server| server.id.clone());
        let id = known.unwrap_or_else(|| {
            let id = self.id.clone().unwrap_or_else(ids::uuid);
            let project = self.project.as_deref().unwrap_or("demo");
            world.add_server(self.name.as_deref().unwrap_or(&id), &id, project);
            id
        });
        let server = world.server_mut(&id);
        server.name = self.name.unwrap_or_else(|| server.name.clone());
        server.region = self.region.unwrap_or_else(|| server.region.clone());
        server.zone = self.zone.unwrap_or_else(|| server.zone.clone());
        server.vm_state = self.vm_state.unwrap_or_else(|| server.vm_state.clone());
        server.locked = self.locked.unwrap_or(server.locked);
        if let Some(task) = self.task_state {
            server.task_state = Some(task).filter(|task| !task.is_empty());
        }
        if let Some(host) = self.host {
            world.set_host(&id, host);
        }
        id
    }
}

impl VolumeScript {
    pub(super) fn apply(self, world: &mut World) -> Result<(), String> {
        let volumes = &world.storage.volumes;
        let known = match &self.id {
            Some(id) => volumes.iter().find(|volume| volume.id == *id),
            None => volumes.iter().find(|volume| self.name.as_deref() == Some(&volume.name)),
        };
        let known = known.map(|volume| volume.id.clone());
        let id = known.unwrap_or_else(|| {
            let id = self.id.clone().unwrap_or_else(ids::uuid);
            let project = self.project.as_deref().unwrap_or("demo");
            world.add_volume(self.name.as_deref().unwrap_or_default(), &id, 1, project);
            id
        });
        let volume = world.volume_mut(&id);
        volume.name = self.name.unwrap_or_else(|| volume.name.clone());
        volume.region = self.region.unwrap_or_else(|| volume.region.clone());
        volume.zone = self.zone.unwrap_or_else(|| volume.zone.clone());
        volume.size = self.size.unwrap_or(volume.size);
        volume.bootable = self.bootable.unwrap_or(volume.bootable);
        volume.multiattach = self.multiattach.unwrap_or(volume.multiattach);
        volume.encrypted = self.encrypted.unwrap_or(volume.encrypted);
        volume.kind = self.volume_type.unwrap_or_else(|| volume.kind.clone());
        volume.snapshot = self.snapshot_id.or_else(|| volume.snapshot.take());
        volume.source = self.source_volid.or_else(|| volume.source.take());
        volume.image = self.image.unwrap_or_else(|| volume.image.clone());
        volume.metadata = self.metadata.unwrap_or_else(|| volume.metadata.clone());
        if let Some(servers) = self.attached_to {
            attach_only_to(world, &id, &servers)?;
        }
        if let Some(attachments) = self.attachments {
            world.storage_forgets(&id);
            for attachment in attachments {
                world.storage_lists(&id, &attachment.server, &attachment.status);
            }
        }
        if let Some(status) = self.status {
            world.volume_mut(&id).set_status(&status);
        }
        Ok(())
    }
}

fn attach_only_to(world: &mut World, volume: &str, servers: &[String]) -> Result<(), String> {
    for wanted in servers {
        let mut known = world.compute.servers.iter();
        if !known.any(|server| server.name == *wanted || server.id == *wanted) {
            return Err(format!("no server {wanted}"));
        }
    }
    for server in &mut world.compute.servers {
        server.rows.retain(|row| row.volume != volume);
    }
    world.storage_forgets(volume);
    world.volume_mut(volume).set_status("available");
    for server in servers {
        world.attached(volume, server);
    }
    Ok(())
}

/// The id of a volume by name or id.
pub(super) fn known_volume(world: &World, name: &str) -> Result<String, String> {
    let mut volumes = world.storage.volumes.iter();
    let known = volumes.find(|volume| volume.name == name || volume.id == name);
    known.map(|volume| volume.id.clone()).ok_or_else(|| format!("no volume {name}"))
}
