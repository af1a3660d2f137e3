//! A world as JSON: what `serve --script` begins with, and what `/control/change` adds or changes.
//!
//! ```json
//! {
//!   "servers": [{"name": "node-a", "id": "8a1c..."}, {"name": "node-b"}],
//!   "volumes": [{"name": "data", "size": 2, "attached_to": ["node-a"]}],
//!   "delays": {"attaching": 500},
//!   "hook": "/path/to/plug",
//!   "faults": [{"method": "POST", "path": "/servers/*/os-volume_attachments", "times": 1, "cut": "after"}]
//! }
//! ```
//!
//! A server or volume that is known by its name or id is changed: only what is given. Members that
//! are not known are refused.

mod parts;

use super::compute::host::Plan;
use super::fault::Fault;
use super::hook::Hook;
use super::identity::catalog::Offer;
use super::world::{Delays, Limit, World};
use parts::{CredentialScript, ServerScript, UserScript, VolumeScript, known_volume};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// What a script says; all of it may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    regions: Option<Vec<String>>,
    projects: Vec<String>,
    users: Vec<UserScript>,
    application_credentials: Vec<CredentialScript>,
    servers: Vec<ServerScript>,
    volumes: Vec<VolumeScript>,
    /// Ids or names of servers and volumes that disappear, without a word to the other service.
    remove: Vec<String>,
    delays: Option<Delays>,
    hook: Option<PathBuf>,
    faults: Vec<Fault>,
    /// Faults and failures of before are forgotten first.
    clear_faults: bool,
    failures: Vec<Plan>,
    token_lifetime_s: Option<u64>,
    clock_skew_s: Option<i64>,
    revoke_tokens: bool,
    max_disks: Option<usize>,
    quota: Option<u64>,
    device_prefix: Option<String>,
    rpc_timeout_ms: Option<u64>,
    storage_down: Option<bool>,
    guard: Option<bool>,
    page: Option<usize>,
    compute_versions: Option<(u32, u32)>,
    storage_versions: Option<(u32, u32)>,
    limit: Option<Limit>,
    metadata_of: Option<String>,
    services: Option<Vec<Offer>>,
}

impl Script {
    /// Reads a script.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }

    /// Does to a world what the script says.
    pub fn apply(self, world: &mut World) -> Result<(), String> {
        self.check(world)?;
        self.set(world);
        for project in &self.projects {
            world.identity.add_project(project);
        }
        for user in self.users {
            user.apply(world);
        }
        for credential in self.application_credentials {
            let user = world.identity.user_id(&credential.user);
            let project = world.identity.project_id(&credential.project);
            let identity = &mut world.identity;
            identity.add_credential(&credential.name, &credential.secret, &user, &project);
            if let (Some(id), Some(last)) = (credential.id, identity.credentials.last_mut()) {
                last.id = id;
            }
        }
        let mut rows = Vec::new();
        for mut server in self.servers {
            let lists = server.lists.take();
            let id = server.apply(world);
            rows.extend(lists.map(|lists| (id, lists)));
        }
        for volume in self.volumes {
            volume.apply(world)?;
        }
        for (server, lists) in rows {
            world.server_mut(&server).rows.clear();
            for volume in lists {
                let volume = known_volume(world, &volume)?;
                world.compute_lists(&volume, &server, None);
            }
        }
        for mut plan in self.failures {
            plan.volume = plan.volume.map(|name| known_volume(world, &name)).transpose()?;
            world.hosts.plans.push(plan);
        }
        for gone in self.remove {
            let servers = &world.compute.servers;
            let server = servers.iter().find(|s| s.id == gone || s.name == gone);
            if let Some(id) = server.map(|server| server.id.clone()) {
                world.remove_server(&id, false);
            }
            world.storage.volumes.retain(|volume| volume.id != gone && volume.name != gone);
        }
        Ok(())
    }

    /// Refuses names that would be a test's mistake, before anything is changed.
    fn check(&self, world: &World) -> Result<(), String> {
        let projects = self.servers.iter().filter_map(|server| server.project.as_ref());
        let projects = projects.chain(self.volumes.iter().filter_map(|v| v.project.as_ref()));
        let projects = projects.chain(self.users.iter().flat_map(|user| user.roles.keys()));
        for name in projects.chain(self.application_credentials.iter().map(|c| &c.project)) {
            let old = world.identity.projects.iter().any(|p| p.name == *name || p.id == *name);
            if !old && !self.projects.contains(name) {
                return Err(format!("no project {name}"));
            }
        }
        for name in self.application_credentials.iter().map(|credential| &credential.user) {
            let old =
                world.identity.users.iter().any(|user| user.name == *name || user.id == *name);
            if !old && !self.users.iter().any(|user| user.name == *name) {
                return Err(format!("no user {name}"));
            }
        }
        Ok(())
    }

    /// The settings.
    fn set(&self, world: &mut World) {
        fn put<T: Clone>(to: &mut T, from: Option<&T>) {
            if let Some(from) = from {
                to.clone_from(from);
            }
        }
        let settings = &mut world.settings;
        put(&mut settings.regions, self.regions.as_ref());
        put(&mut settings.delays, self.delays.as_ref());
        put(&mut settings.quota, self.quota.as_ref());
        put(&mut settings.device_prefix, self.device_prefix.as_ref());
        put(&mut settings.storage_down, self.storage_down.as_ref());
        put(&mut settings.guard, self.guard.as_ref());
        put(&mut settings.page, self.page.as_ref());
        put(&mut settings.compute_versions, self.compute_versions.as_ref());
        put(&mut settings.storage_versions, self.storage_versions.as_ref());
        put(&mut settings.token_lifetime, self.token_lifetime_s.map(Duration::from_secs).as_ref());
        put(&mut settings.rpc_timeout, self.rpc_timeout_ms.map(Duration::from_millis).as_ref());
        put(&mut world.clock.skew, self.clock_skew_s.as_ref());
        put(&mut world.identity.offers, self.services.as_ref());
        if self.max_disks.is_some() {
            settings.max_disks = self.max_disks;
        }
        if self.limit.is_some() {
            settings.limit.clone_from(&self.limit);
        }
        if self.metadata_of.is_some() {
            settings.metadata_of.clone_from(&self.metadata_of);
        }
        if let Some(program) = &self.hook {
            world.hook = Hook::Program(program.clone());
        }
        if self.revoke_tokens {
            world.revoke_all_tokens();
        }
        if self.clear_faults {
            world.faults.clear();
            world.hosts.plans.clear();
        }
        world.faults.extend(self.faults.iter().cloned());
    }
}
