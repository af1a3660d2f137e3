//! Building a world, and making its views disagree.

use super::clock::Clock;
use super::compute::{Row, Server};
use super::hook::Hook;
use super::ids;
use super::storage::{Attachment, Volume};
use super::world::{Delays, World};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Adding what a cloud has; ids and names serve alike.
impl World {
    /// The world with time that only a test moves.
    #[must_use]
    pub fn frozen(mut self) -> Self {
        self.clock = Clock::frozen();
        self
    }

    /// The world with other delays.
    #[must_use]
    pub fn delays(mut self, delays: Delays) -> Self {
        self.settings.delays = delays;
        self
    }

    /// The world with a hook.
    #[must_use]
    pub fn hook(mut self, hook: Hook) -> Self {
        self.hook = hook;
        self
    }

    /// The world with an active server of project `demo`.
    #[must_use]
    pub fn server(self, name: &str) -> Self {
        self.server_as(name, &ids::uuid())
    }

    /// The same with a chosen id.
    #[must_use]
    pub fn server_as(mut self, name: &str, id: &str) -> Self {
        self.add_server(name, id, "demo");
        self
    }

    /// The world with an available volume of project `demo`, of so many GiB.
    #[must_use]
    pub fn volume(self, name: &str, size: u64) -> Self {
        self.volume_as(name, &ids::uuid(), size)
    }

    /// The same with a chosen id.
    #[must_use]
    pub fn volume_as(mut self, name: &str, id: &str, size: u64) -> Self {
        self.add_volume(name, id, size, "demo");
        self
    }

    /// The world with more done to it.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Adds a server to a project.
    pub fn add_server(&mut self, name: &str, id: &str, project: &str) -> &mut Server {
        let project = self.identity.project_id(project);
        let now = self.clock.unix();
        self.compute.servers.push(Server {
            id: id.to_owned(),
            name: name.to_owned(),
            user: self.owner(&project),
            project,
            region: self.home_region(),
            zone: "nova".to_owned(),
            vm_state: "active".to_owned(),
            task_state: None,
            locked: false,
            created: now,
            updated: now,
            rows: Vec::new(),
            actions: Vec::new(),
        });
        self.compute.servers.last_mut().expect("just added")
    }

    /// Adds a volume to a project.
    pub fn add_volume(&mut self, name: &str, id: &str, size: u64, project: &str) -> &mut Volume {
        let project = self.identity.project_id(project);
        let volume = self.new_volume(id, name, size, &project);
        self.storage.volumes.push(volume);
        self.storage.volumes.last_mut().expect("just added")
    }

    /// A volume that is not yet in the world.
    pub fn new_volume(&self, id: &str, name: &str, size: u64, project: &str) -> Volume {
        let now = self.clock.unix();
        Volume {
            id: id.to_owned(),
            name: name.to_owned(),
            project: project.to_owned(),
            user: self.owner(project),
            region: self.home_region(),
            zone: "nova".to_owned(),
            size,
            status: "available".to_owned(),
            bootable: false,
            multiattach: false,
            encrypted: false,
            kind: "loop".to_owned(),
            snapshot: None,
            source: None,
            image: Map::new(),
            metadata: Map::<String, Value>::new(),
            doubled: BTreeSet::new(),
            attachments: Vec::new(),
            created: now,
            updated: now,
            history: vec!["available".to_owned()],
        }
    }

    /// A user who may write in a project.
    fn owner(&self, project: &str) -> String {
        let of_project = |user: &&super::identity::User| user.grants.contains_key(project);
        self.identity.users.iter().find(of_project).map(|user| user.id.clone()).unwrap_or_default()
    }
}

/// Finding and changing; an unknown name is a mistake of the test.
impl World {
    /// The id of a server by name or id.
    pub fn server_id(&self, name: &str) -> String {
        let known = self.compute.servers.iter().find(|s| s.name == name || s.id == name);
        known.unwrap_or_else(|| panic!("no server {name}")).id.clone()
    }

    /// The id of a volume by name or id.
    pub fn volume_id(&self, name: &str) -> String {
        let known = self.storage.volumes.iter().find(|v| v.name == name || v.id == name);
        known.unwrap_or_else(|| panic!("no volume {name}")).id.clone()
    }

    /// A server by name or id.
    pub fn server_mut(&mut self, name: &str) -> &mut Server {
        let id = self.server_id(name);
        self.compute.server_mut(&id).expect("known")
    }

    /// A volume by name or id.
    pub fn volume_mut(&mut self, name: &str) -> &mut Volume {
        let id = self.volume_id(name);
        self.storage.volume_mut(&id).expect("known")
    }

    /// Both views: the volume is at the server, as after a good attach.
    pub fn attached(&mut self, volume: &str, server: &str) {
        let attachment = self.storage_lists(volume, server, "attached");
        self.compute_lists(volume, server, Some(attachment));
        self.volume_mut(volume).set_status("in-use");
    }

    /// Only Nova's view: a row, of an attachment or a ghost without one. Cinder is not asked.
    pub fn compute_lists(&mut self, volume: &str, server: &str, attachment: Option<String>) {
        let volume = self.volume_id(volume);
        let prefix = self.settings.device_prefix.clone();
        let server = self.server_mut(server);
        let device = server.free_device(&prefix);
        server.rows.push(Row { volume, device, attachment });
    }

    /// Only Nova's view: the row of a volume is gone.
    pub fn compute_forgets(&mut self, volume: &str, server: &str) {
        let volume = self.volume_id(volume);
        self.server_mut(server).rows.retain(|row| row.volume != volume);
    }

    /// Only Cinder's view: an attachment in a status, of a server that need not exist; gives its id.
    /// The volume's own status stays as it is.
    pub fn storage_lists(&mut self, volume: &str, server: &str, status: &str) -> String {
        let known = self.compute.servers.iter().find(|s| s.name == server || s.id == server);
        let server = known.map_or_else(|| server.to_owned(), |server| server.id.clone());
        let now = self.clock.unix();
        let prefix = self.settings.device_prefix.clone();
        let free = self.compute.server(&server).map(|server| server.free_device(&prefix));
        let mut attachment = Attachment::reserved(&server);
        status.clone_into(&mut attachment.status);
        if status != "reserved" {
            attachment.connected = true;
            attachment.device = Some(free.unwrap_or_else(|| format!("{prefix}b")));
            attachment.attached_at = Some(now);
        }
        let id = attachment.id.clone();
        self.volume_mut(volume).attachments.push(attachment);
        id
    }

    /// The server loses its host, and its volumes are only reserved for it from then on.
    pub fn shelve_offloaded(&mut self, server: &str) {
        let server = self.server_mut(server);
        "shelved_offloaded".clone_into(&mut server.vm_state);
        let (id, rows) = (server.id.clone(), server.rows.clone());
        for row in rows {
            let attachment = Attachment::reserved(&id);
            let server = self.compute.server_mut(&id).expect("known");
            server.row_mut(&row.volume).expect("known").attachment = Some(attachment.id.clone());
            let volume = self.storage.volume_mut(&row.volume).expect("known");
            volume.attachments.retain(|one| Some(&one.id) != row.attachment.as_ref());
            volume.attachments.push(attachment);
            volume.settle_status();
        }
    }

    /// Only Cinder's view: no server has the volume.
    pub fn storage_forgets(&mut self, volume: &str) {
        self.volume_mut(volume).attachments.clear();
    }
}
