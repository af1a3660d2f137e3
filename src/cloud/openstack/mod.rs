//! The cloud of the report: Keystone, Nova and Cinder over HTTP.
//!
//! Nothing is built and nothing is asked before a call needs it. What one call learned of a
//! volume or a server is remembered for that call only.

mod http;
mod keystone;
pub mod limiter;
mod services;
mod tokens;
mod whoami;
mod wire;

use self::http::Http;
use self::limiter::{Limiter, Limits};
use self::services::Services;
use self::tokens::Tokens;
use super::{Attachment, Cloud, CloudVolume};
use crate::model::access::Access;
use crate::model::device::Identity;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName, is_uuid};
use crate::model::situation::ComputeView;
use crate::model::time::Deadline;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The key of a volume's metadata that holds the orchestrator's name of it.
const NAME_KEY: &str = "incloud-disk-name";

/// Cinder counts in these.
const GIB: u64 = 1 << 30;

/// An `OpenStack` cloud, as one call sees it.
#[expect(missing_debug_implementations, reason = "it holds secrets")]
pub struct OpenStack {
    services: Services,
    this_node: NodeName,
    /// This machine's id in the cloud, if somebody wrote it down.
    this_server: Option<ServerId>,
    /// Servers that were seen to exist during this call.
    seen_servers: RefCell<BTreeSet<ServerId>>,
    /// Which volumes several servers may have.
    shareable: RefCell<BTreeMap<VolumeId, bool>>,
}

impl OpenStack {
    /// The cloud behind this access.
    #[must_use]
    pub fn new(
        access: Access,
        run_dir: &Path,
        this_node: &NodeName,
        this_server: Option<&ServerId>,
    ) -> Self {
        let limiter = Limiter::in_folder(&run_dir.join("limiter"), Limits::default());
        let tokens = Tokens::below(run_dir, &access);
        Self {
            services: Services::new(Http::new(access, limiter), tokens),
            this_node: this_node.clone(),
            this_server: this_server.cloned(),
            seen_servers: RefCell::default(),
            shareable: RefCell::default(),
        }
    }

    fn exists(&self, server: &ServerId, deadline: Deadline) -> Result<bool> {
        if self.seen_servers.borrow().contains(server) {
            return Ok(true);
        }
        let exists = self.services.server_exists(server.as_str(), deadline)?;
        if exists {
            self.seen_servers.borrow_mut().insert(server.clone());
        }
        Ok(exists)
    }

    /// The server that this machine itself is: as written down, else by what the machine shows,
    /// each confirmed by the cloud; else by its node's name like any other.
    fn own_server(&self, deadline: Deadline) -> Result<Option<ServerId>> {
        if let Some(written) = &self.this_server {
            return Ok(self.exists(written, deadline)?.then(|| written.clone()));
        }
        for candidate in whoami::candidates() {
            if self.exists(&candidate, deadline)? {
                return Ok(Some(candidate));
            }
        }
        self.server_named(&self.this_node, deadline)
    }

    fn server_named(&self, node: &NodeName, deadline: Deadline) -> Result<Option<ServerId>> {
        if is_uuid(node.as_str()) {
            let id = ServerId::parse(&node.as_str().to_lowercase())?;
            return Ok(self.exists(&id, deadline)?.then_some(id));
        }
        let found = self.services.servers_named(node.as_str(), deadline)?;
        match found.as_slice() {
            [] => Ok(None),
            [one] => {
                let id = ServerId::parse(&one.id)?;
                self.seen_servers.borrow_mut().insert(id.clone());
                Ok(Some(id))
            }
            several => {
                let ids: Vec<_> = several.iter().map(|server| server.id.as_str()).collect();
                Err(Error::refused(format!(
                    "node {node} could be any of these servers: {}",
                    ids.join(", ")
                ))
                .hint("set node.server_id on that machine, or give its server another name"))
            }
        }
    }

    fn view(&self, volume: wire::Volume) -> Result<CloudVolume> {
        let id = VolumeId::parse(&volume.id)?;
        self.shareable.borrow_mut().insert(id.clone(), volume.multiattach);
        let mut attachments: Vec<Attachment> = Vec::new();
        for one in volume.attachments {
            let server = ServerId::parse(&one.server_id)?;
            // During a live migration one server is listed twice.
            if attachments.iter().all(|other| other.server != server) {
                attachments.push(Attachment { server, since: one.attached_at });
            }
        }
        let recorded_name = volume.metadata.get(NAME_KEY);
        Ok(CloudVolume {
            id,
            size: volume.size.saturating_mul(GIB),
            name: volume.name.filter(|name| !name.is_empty()),
            recorded_name: recorded_name.and_then(|name| VolumeName::parse(name).ok()),
            status: volume.status,
            is_shareable: volume.multiattach,
            attachments,
        })
    }
}

impl Cloud for OpenStack {
    fn identity(&self, id: &VolumeId) -> Identity {
        Identity::Serial(id.clone())
    }

    fn link(&self, id: &VolumeId) -> PathBuf {
        Path::new("/dev/disk/by-id").join(id.link_name())
    }

    fn volume(&self, id: &VolumeId, deadline: Deadline) -> Result<Option<CloudVolume>> {
        let found = self.services.volume(id.as_str(), deadline)?;
        found.map(|volume| self.view(volume)).transpose()
    }

    fn server(&self, node: &NodeName, deadline: Deadline) -> Result<Option<ServerId>> {
        if *node == self.this_node {
            self.own_server(deadline)
        } else {
            self.server_named(node, deadline)
        }
    }

    fn recorded_as(&self, name: &VolumeName, deadline: Deadline) -> Result<Vec<VolumeId>> {
        let found = self.services.volumes_with(NAME_KEY, name.as_str(), deadline)?;
        found.iter().map(|volume| VolumeId::parse(&volume.id)).collect()
    }

    fn compute_view(
        &self,
        id: &VolumeId,
        server: &ServerId,
        deadline: Deadline,
    ) -> Result<ComputeView> {
        if self.services.is_mapped(server.as_str(), id.as_str(), deadline)? {
            return Ok(ComputeView::Mapped);
        }
        let exists = self.exists(server, deadline)?;
        Ok(if exists { ComputeView::NotMapped } else { ComputeView::NoServer })
    }

    fn attached_to(&self, server: &ServerId, deadline: Deadline) -> Result<Vec<CloudVolume>> {
        let mapped = self.services.attachments_of(server.as_str(), deadline)?.unwrap_or_default();
        let mut attached = Vec::new();
        for one in mapped {
            let Some(volume) = self.services.volume(&one.volume, deadline)? else { continue };
            let view = self.view(volume)?;
            if view.attachment_to(server).is_some() {
                attached.push(view);
            }
        }
        Ok(attached)
    }

    fn record_name(
        &self,
        id: &VolumeId,
        name: Option<&VolumeName>,
        deadline: Deadline,
    ) -> Result<()> {
        self.services.set_metadata(id.as_str(), NAME_KEY, name.map(VolumeName::as_str), deadline)
    }

    fn attach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()> {
        let is_shareable = self.shareable.borrow().get(id).copied().unwrap_or(false);
        self.services.attach(server.as_str(), id.as_str(), is_shareable, deadline)
    }

    fn detach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()> {
        self.services.detach(server.as_str(), id.as_str(), deadline)
    }

    fn extend(&self, id: &VolumeId, bytes: u64, deadline: Deadline) -> Result<()> {
        self.services.extend(id.as_str(), bytes.div_ceil(GIB), deadline)
    }
}

/// The access that a configuration asks for: written in it, in a `cloud.conf` that it names, or
/// in the variables of a person's shell.
pub fn access(
    written: &crate::model::access::Written,
    origin: &str,
    get: impl Fn(&str) -> Option<String>,
) -> Result<Access> {
    use crate::model::access::Written;
    if let Some(path) = &written.cloud_conf {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let doing = format!("read the cloud_conf {}", path.display());
            Error { kind: Kind::Config, ..Error::io(doing, &error) }
        })?;
        let name = path.display().to_string();
        return Written::from_cloud_conf(&text, &name)?.resolve(&name);
    }
    if written.has_login() {
        return written.clone().resolve(origin);
    }
    let shell = Written::from_variables(get);
    if shell.has_login() {
        return shell.resolve("the OS_ variables of the environment");
    }
    Err(Error::new(
        Kind::Config,
        format!("{origin} says neither who we are in the cloud nor where that is written"),
    )
    .hint("write [openstack] cloud_conf = \"…\", or auth_url and credentials there"))
}
