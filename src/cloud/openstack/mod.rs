//! The cloud of the report: Keystone, Nova and Cinder over HTTP.
//!
//! Nothing is built and nothing is asked before a call needs it. What one call learned of a
//! volume or a server is remembered for that call only.

mod catalog;
mod cinder;
mod client;
#[cfg(fuzzing)]
pub mod garbage;
mod http;
mod keystone;
mod known_secrets;
pub mod limiter;
mod nova;
mod queue;
mod services;
mod sources;
mod tokens;
mod whoami;
mod wire;
pub mod words;

use self::http::Http;
pub use self::sources::access;
pub use self::whoami::ids_in_firmware;

use self::limiter::Limiter;
use self::nova::MappingAnswer;
use self::services::Services;
use self::tokens::Tokens;
use self::whoami::OwnServer;
use crate::failpoints;
use crate::model::cloud::access::Access;
use crate::model::cloud::attachment_state::Mapping;
use crate::model::cloud::request::Work;
use crate::model::disk::device::Identity;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId, VolumeId, VolumeName, is_uuid};
use crate::model::sorting::sort_by_key;
use crate::ports::clock::Deadline;
use crate::ports::cloud::notes::{Note, Notes};
use crate::ports::cloud::{
    Attachment, Capabilities, Cloud, CloudVolume, Reservation, ServerView, Trouble,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Cinder counts in these.
const GIB: u64 = 1 << 30;

/// Nova gives a request up after its RPC timeout, 60 s: this is twice that. It counts from the last work
/// of the server's host, which takes its requests one after the other.
const LONGEST_SILENCE: Duration = Duration::from_secs(120);

/// An `OpenStack` cloud, as one call sees it.
#[expect(missing_debug_implementations, reason = "it holds secrets")]
pub struct OpenStack {
    services: Services,
    node: OwnNode,
    own: OwnServer,
    /// Whether it is settled which region the call is about.
    is_settled: Cell<bool>,
    /// Servers that were seen to exist during this call.
    seen_servers: RefCell<BTreeSet<ServerId>>,
    /// Which volumes several servers may have.
    shareable: RefCell<BTreeMap<VolumeId, bool>>,
}

/// What this machine is configured to be.
#[derive(Debug, Clone)]
pub struct OwnNode {
    pub name: NodeName,
    /// Whether Kubernetes is known to call it so; the host's name may be no node's, or another's.
    pub is_name_certain: bool,
    /// Its id in the cloud, if a person wrote it down.
    pub server: Option<ServerId>,
    /// Ids of other nodes that a person wrote down.
    pub others: BTreeMap<NodeName, ServerId>,
}

impl OpenStack {
    /// The cloud behind this access. A region that the call itself names is the only one looked at.
    pub fn new(access: Access, run_dir: &Path, node: OwnNode, region: Option<&str>) -> Self {
        let access = match region {
            Some(region) => Access { region: Some(region.to_owned()), ..access },
            None => access,
        };
        let is_settled = Cell::new(access.region.is_some());
        let limiter = Limiter::in_folder(&run_dir.join("limiter"), access.limits);
        let tokens = Tokens::below(run_dir, &access);
        let own = OwnServer::beside(&tokens, &node.name);
        Self {
            services: Services::new(Http::new(access, limiter), tokens),
            node,
            own,
            is_settled,
            seen_servers: RefCell::default(),
            shareable: RefCell::default(),
        }
    }

    /// Asks the configured region alone; where none is configured, one after the other until one has
    /// it. Where a server or a volume was found, there the rest of the call belongs: both always live
    /// in one region. A region that does not answer is named, and costs only its share of the time;
    /// "there is none" is said only when every region has said so.
    fn anywhere<T>(
        &self,
        deadline: Deadline,
        is_found: impl Fn(&T) -> bool,
        ask: impl Fn(Deadline) -> Result<T>,
    ) -> Result<T> {
        if self.is_settled.get() {
            return ask(deadline);
        }
        let regions = self.services.regions(deadline)?;
        if regions.len() < 2 {
            return ask(deadline);
        }
        let here = self.services.here();
        let mut order: Vec<_> = (0..regions.len()).collect();
        sort_by_key(&mut order, |place| *place != here);
        let (mut nothing, mut failure) = (None, None);
        for (asked, place) in order.iter().enumerate() {
            self.services.go_to(*place);
            let left = u32::try_from(regions.len() - asked).unwrap_or(1);
            match ask(deadline.at_most(deadline.remaining() / left)) {
                Ok(found) if is_found(&found) => {
                    tracing::debug!(region = regions[*place], "found in this region");
                    self.is_settled.set(true);
                    return Ok(found);
                }
                Ok(none) => nothing = nothing.or(Some(none)),
                Err(error) => {
                    let region = regions[*place].as_deref().unwrap_or("without a name");
                    let cause = format!("region {region}: {}", error.cause);
                    failure = failure.or(Some(Error { cause, ..error }));
                }
            }
        }
        self.services.go_to(here);
        match (failure, nothing) {
            (Some(error), _) => {
                let way = "name this machine's region in openstack.region, then no other is asked";
                let own = error.hint.clone().filter(|_| error.kind == Kind::Refused);
                let hint = own.map_or_else(|| way.to_owned(), |own| format!("{own}; or {way}"));
                Err(error.hint(hint))
            }
            (None, Some(none)) => Ok(none),
            (None, None) => ask(deadline),
        }
    }

    fn exists(&self, server: &ServerId, deadline: Deadline) -> Result<bool> {
        if self.seen_servers.borrow().contains(server) {
            return Ok(true);
        }
        let exists = self.services.compute_server(server.as_str(), deadline)?.is_some();
        if exists {
            self.seen_servers.borrow_mut().insert(server.clone());
        }
        Ok(exists)
    }

    fn existing(&self, server: &ServerId, deadline: Deadline) -> Result<Option<ServerId>> {
        let exists =
            self.anywhere(deadline, |found| *found, |deadline| self.exists(server, deadline))?;
        Ok(exists.then(|| server.clone()))
    }

    /// The server that this machine itself is: as written down, as found before, or by what the
    /// machine shows and the cloud confirms; else by its node's name like any other.
    fn own_server(&self, deadline: Deadline) -> Result<Option<ServerId>> {
        if let Some(written) = &self.node.server {
            return self.existing(written, deadline);
        }
        if let Some((server, place)) = self.own.kept() {
            // Which regions there are may have changed; then all are looked at again.
            if !self.is_settled.get() && self.services.regions(deadline)?.len() > place {
                self.services.go_to(place);
                self.is_settled.set(true);
            }
            return Ok(Some(server));
        }
        for source in whoami::SOURCES {
            for candidate in source.candidates(self.services.access()) {
                let ask = |deadline| self.services.compute_server(candidate.as_str(), deadline);
                let Some(server) = self.anywhere(deadline, Option::is_some, ask)? else { continue };
                if source.is_believed(&server.name, &self.node.name) {
                    tracing::info!(server = %candidate, ?source, "this machine is known in the cloud");
                    self.seen_servers.borrow_mut().insert(candidate.clone());
                    self.own.keep(&candidate, self.services.here());
                    return Ok(Some(candidate));
                }
                tracing::warn!(server = %candidate, ?source, name = server.name, "not this machine: the id may be left over from another one");
            }
        }
        self.server_named(&self.node.name, deadline)
    }

    fn server_named(&self, node: &NodeName, deadline: Deadline) -> Result<Option<ServerId>> {
        if let Some(written) = self.node.others.get(node) {
            return self.existing(written, deadline);
        }
        if is_uuid(node.as_str()) {
            let id = ServerId::parse(&node.as_str().to_lowercase())?;
            return self.existing(&id, deadline);
        }
        let ask = |deadline| self.services.servers_named(node.as_str(), deadline);
        let found = self.anywhere(deadline, |found: &Vec<_>| !found.is_empty(), ask)?;
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
                .hint("write the right one into [node.servers] of the configuration"))
            }
        }
    }

    fn view(&self, volume: wire::CinderVolume) -> Result<CloudVolume> {
        let id = VolumeId::parse(&volume.id)?;
        self.shareable.borrow_mut().insert(id.clone(), volume.multiattach);
        let mut attachments: Vec<Attachment> = Vec::new();
        for one in &volume.attachments {
            let server = ServerId::parse(&one.server_id)?;
            // During a live migration one server is listed twice.
            if attachments.iter().all(|other| other.server != server) {
                let (id, since) = (one.attachment_id.clone(), one.attached_at.clone());
                attachments.push(Attachment { id, server, since, is_root: one.is_root() });
            }
        }
        let pairs = volume.metadata.iter().map(|(key, text)| (key.as_str(), text.as_str()));
        let notes = Notes::read(pairs);
        let size = volume.size.saturating_mul(GIB);
        let status = words::volume_status(&volume.status);
        Ok(CloudVolume {
            origin: volume.origin(),
            name: volume.name.filter(|name| !name.is_empty()),
            is_encrypted: volume.encrypted,
            is_shareable: volume.multiattach,
            attachments,
            ..CloudVolume::new(id, size, status).with_notes(notes)
        })
    }
}

impl Cloud for OpenStack {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            is_remote: true,
            keeps_marks: true,
            longest_silence: LONGEST_SILENCE,
            volumes_side: "the block service",
            servers_side: "the compute service",
            ..Capabilities::of("OpenStack")
        }
    }

    fn identity(&self, id: &VolumeId) -> Identity {
        Identity::Serial(id.clone())
    }

    fn link(&self, id: &VolumeId) -> PathBuf {
        failpoints::folder("INCLOUD_DISK_BY_ID", "/dev/disk/by-id").join(id.link_name())
    }

    fn volume(&self, id: &VolumeId, deadline: Deadline) -> Result<Option<CloudVolume>> {
        let ask = |deadline| self.services.volume(id.as_str(), deadline);
        let found = self.anywhere(deadline, Option::is_some, ask)?;
        found.map(|volume| self.view(volume)).transpose()
    }

    fn server(&self, node: &NodeName, deadline: Deadline) -> Result<Option<ServerId>> {
        if *node == self.node.name {
            self.own_server(deadline)
        } else {
            self.server_named(node, deadline)
        }
    }

    /// As written down, as found before, or by what the hypervisor shows.
    fn is_this_machine(&self, server: &ServerId) -> bool {
        if self.node.server.as_ref() == Some(server) {
            return true;
        }
        let shown = |source: &whoami::Source| source.candidates(self.services.access());
        match self.own.kept() {
            Some((kept, _)) => kept == *server,
            None => whoami::LOCAL_SOURCES.iter().any(|source| shown(source).contains(server)),
        }
    }

    fn belongs_to_another_node(
        &self,
        attached: &ServerId,
        (node, server): (&NodeName, Option<&ServerId>),
        deadline: Deadline,
    ) -> Result<bool> {
        if is_uuid(node.as_str()) {
            return Ok(node.as_str().to_lowercase() != attached.as_str());
        }
        let OwnNode { name, is_name_certain, others, .. } = &self.node;
        let owners: Vec<_> =
            others.iter().filter(|(_, id)| *id == attached).map(|(owner, _)| owner).collect();
        let is_here = self.is_this_machine(attached);
        if server == Some(attached) || owners.contains(&node) || is_here && node == name {
            return Ok(false);
        }
        // The cloud itself knows a server by the node's name, or this machine is that node.
        if server.is_some() && !others.contains_key(node) {
            return Ok(true);
        }
        // Entries of node.servers may be wrong: the name that the cloud has for the server comes first.
        let is_named_so = |deadline| -> Result<bool> {
            let view = self.services.compute_server(attached.as_str(), deadline)?;
            Ok(view.is_some_and(|view| whoami::is_name_of(&view.name, node)))
        };
        Ok((!owners.is_empty() || is_here && *is_name_certain) && !is_named_so(deadline)?)
    }

    fn recorded_as(&self, name: &VolumeName, deadline: Deadline) -> Result<Vec<CloudVolume>> {
        let key = Note::Name(Some(name)).key();
        let ask = |deadline| self.services.volumes_with(&key, name.as_str(), deadline);
        let found = self.anywhere(deadline, |found: &Vec<_>| !found.is_empty(), ask)?;
        found.into_iter().map(|volume| self.view(volume)).collect()
    }

    fn called(&self, name: &VolumeName, deadline: Deadline) -> Result<Vec<CloudVolume>> {
        let ask = |deadline| self.services.volumes_called(name.as_str(), deadline);
        let found = self.anywhere(deadline, |found: &Vec<_>| !found.is_empty(), ask)?;
        found.into_iter().map(|volume| self.view(volume)).collect()
    }

    fn mapping(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<Mapping> {
        match self.services.mapping(server.as_str(), id.as_str(), deadline)? {
            MappingAnswer::There => Ok(Mapping::Mapped),
            MappingAnswer::NotAtServer => Ok(Mapping::NotMapped),
            MappingAnswer::Missing => {
                let exists = self.exists(server, deadline)?;
                Ok(if exists { Mapping::NotMapped } else { Mapping::NoServer })
            }
        }
    }

    fn unproven_scope(
        &self,
        server: Option<&ServerId>,
        deadline: Deadline,
    ) -> Result<Option<String>> {
        let is_visible = match server {
            Some(server) => self.existing(server, deadline)?.is_some(),
            None => false,
        };
        if is_visible || self.own_server(deadline)?.is_some() {
            return Ok(None);
        }
        Ok(Some(self.services.access().scope()))
    }

    fn attached_to(&self, server: &ServerId, deadline: Deadline) -> Result<Vec<CloudVolume>> {
        let mapped = self.services.attachments_of(server.as_str(), deadline)?;
        if mapped.is_some() {
            self.seen_servers.borrow_mut().insert(server.clone());
        }
        let mapped = mapped.unwrap_or_default();
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

    fn note(&self, id: &VolumeId, notes: &[Note<'_>], deadline: Deadline) -> Result<()> {
        let pairs = || notes.iter().map(|note| (note.key(), note.value()));
        let texts: BTreeMap<_, _> =
            pairs().filter_map(|(key, text)| Some((key.into_owned(), text?))).collect();
        if !texts.is_empty() {
            self.services.set_metadata(id.as_str(), &texts, deadline)?;
        }
        // One request removes one key.
        for (key, _) in pairs().filter(|(_, text)| text.is_none()) {
            self.services.remove_metadata(id.as_str(), &key, deadline)?;
        }
        Ok(())
    }

    fn work_at(&self, server: &ServerId, deadline: Deadline) -> Result<Work> {
        self.services.work_at(server.as_str(), deadline)
    }

    fn attach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()> {
        let is_shareable = self.shareable.borrow().get(id).copied().unwrap_or(false);
        self.services.attach(server.as_str(), id.as_str(), is_shareable, deadline)
    }

    fn detach(&self, id: &VolumeId, server: &ServerId, deadline: Deadline) -> Result<()> {
        self.services.detach(server.as_str(), id.as_str(), deadline)
    }

    fn server_view(&self, server: &ServerId, deadline: Deadline) -> Result<Option<ServerView>> {
        let found = self.services.compute_server(server.as_str(), deadline)?;
        Ok(found.map(|server| ServerView {
            name: Some(server.name).filter(|name| !name.is_empty()),
            state: words::server_state(&server.status),
            word: server.status,
        }))
    }

    fn reservations(&self, id: &VolumeId, deadline: Deadline) -> Result<Vec<Reservation>> {
        let found = self.services.stored_attachments_of(id.as_str(), deadline)?.into_iter();
        found
            .map(|one| {
                let server = one.instance.as_deref().map(ServerId::parse).transpose()?;
                Ok(Reservation { id: one.id, server, word: one.status })
            })
            .collect()
    }

    fn forget_attachment(&self, attachment: &str, deadline: Deadline) -> Result<()> {
        self.services.drop_attachment(attachment, deadline)
    }

    fn clock_ahead(&self) -> Option<i64> {
        self.services.ahead()
    }

    fn extend(&self, id: &VolumeId, bytes: u64, deadline: Deadline) -> Result<()> {
        self.services.extend(id.as_str(), bytes.div_ceil(GIB), deadline)
    }

    fn advice(&self, trouble: Trouble<'_>) -> Option<String> {
        Some(words::advice(trouble))
    }
}
