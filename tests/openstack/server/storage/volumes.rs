//! Volumes: how they are listed and shown, by version.

use super::super::clock::{Style, stamp};
use super::super::handle::Asked;
use super::super::ids;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use super::rules::no_volume;
use super::{Attachment, Volume};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The service that shows in `service_uuid`; the same for all volumes, as with one back end (G8).
const SERVICE: &str = "df64622b-538c-4ea8-9056-19d0955e97fe";
const VOLUME_TYPE: &str = "a6b78ea8-8778-4303-9b35-86d3dbe9df7d";

impl World {
    /// The volume of a path, if the token may see it.
    pub fn volume_asked(&self, asked: &Asked<'_>, id: &str) -> Result<&Volume, Refusal> {
        let token = asked.token()?;
        let region = asked.region(self);
        let seen = |volume: &&Volume| {
            let own = token.project.as_deref() == Some(volume.project.as_str());
            volume.region == region && (own || token.is_admin())
        };
        self.storage.volume(id).filter(seen).ok_or_else(|| no_volume(id))
    }

    /// `GET /volumes` and `/volumes/detail`.
    pub fn list_volumes(&self, asked: &Asked<'_>, detail: bool) -> Answer {
        let request = asked.request;
        let wanted = |volume: &&Volume| {
            let equals = |name: &str, value: &str| request.query(name).is_none_or(|v| v == value);
            self.volume_asked(asked, &volume.id).is_ok()
                && (asked.own_project(&volume.project) || request.query("all_tenants").is_some())
                && equals("name", &volume.name)
                && equals("status", &volume.status)
                && equals("availability_zone", &volume.zone)
                && matches_metadata(volume, request.query("metadata"))
        };
        // Newest first.
        let mut found: Vec<&Volume> = self.storage.volumes.iter().rev().filter(wanted).collect();
        if let Some(marker) = request.query("marker") {
            let at = found.iter().position(|volume| volume.id == marker);
            let missing = || Refusal::missing(format!("marker [{marker}] not found"));
            found.drain(..=at.ok_or_else(missing)?);
        }
        let offset = request.query("offset").and_then(|text| text.parse().ok()).unwrap_or(0);
        found.drain(..found.len().min(offset));
        let limit = asked.limit(self.settings.page)?;
        let more =
            found.len() > limit || (request.query("limit").is_some() && found.len() == limit);
        found.truncate(limit);
        let shown: Vec<Value> = found
            .iter()
            .map(|volume| if detail { show(asked, volume) } else { summary(asked, volume) })
            .collect();
        let mut body = json!({"volumes": shown});
        if let (true, Some(last)) = (more, found.last()) {
            let path = if detail { "volumes/detail" } else { "volumes" };
            let href = asked.next_page(path, limit, &last.id);
            body["volumes_links"] = json!([{"rel": "next", "href": href}]);
        }
        Ok(Reply::ok(body))
    }

    /// `POST /volumes`: enough to make a disk, and to be told that there is no room (G24).
    pub fn create_volume(&mut self, asked: &Asked<'_>) -> Answer {
        let token = asked.writer("volume:create")?;
        let body = asked.request.json().and_then(|body| body.get("volume").cloned());
        let size = body.as_ref().and_then(|body| body["size"].as_u64());
        let (Some(body), Some(size)) = (body, size) else {
            return Err(Refusal::bad("Missing required element 'volume' in request body."));
        };
        let project = token.project.clone().unwrap_or_default();
        self.check_quota(&project, size)?;
        let name = body["name"].as_str().unwrap_or_default().to_owned();
        let id = ids::uuid();
        let mut volume = self.new_volume(&id, &name, size, &project);
        volume.region = asked.region(self);
        volume.set_status("creating");
        let named = |key: &str| body[key].as_str().map(str::to_owned);
        (volume.snapshot, volume.source) = (named("snapshot_id"), named("source_volid"));
        if let Some(image) = named("imageRef") {
            volume.bootable = true;
            volume.image.insert("image_id".to_owned(), Value::from(image));
        }
        if let Some(metadata) = body["metadata"].as_object() {
            volume.metadata.clone_from(metadata);
        }
        let shown = show(asked, &volume);
        self.storage.volumes.push(volume);
        let delay = Duration::from_millis(self.settings.delays.extend);
        self.later(delay, super::super::compute::host::Step::Created { volume: id });
        Ok(Reply::json(202, json!({"volume": shown})))
    }

    /// 413 if a project would have more gigabytes than it may (G23, G24).
    pub fn check_quota(&self, project: &str, more: u64) -> Result<(), Refusal> {
        let own = self.storage.volumes.iter().filter(|volume| volume.project == project);
        let used: u64 = own.map(|volume| volume.size).sum();
        let quota = self.settings.quota;
        if used + more <= quota {
            return Ok(());
        }
        Err(Refusal::new(
            413,
            format!(
                "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed \
                 gigabytes quota. Requested {more}G, quota is {quota}G and {used}G has been \
                 consumed."
            ),
        ))
    }

    /// `DELETE /volumes/{id}` (B25, C7, C14, H20).
    pub fn delete_volume(&mut self, asked: &Asked<'_>, id: &str) -> Answer {
        asked.writer("volume:delete")?;
        let volume = self.volume_asked(asked, id)?;
        let deletable =
            matches!(volume.status.as_str(), "available") || volume.status.starts_with("error");
        if !deletable || !volume.attachments.is_empty() {
            return Err(Refusal::bad(
                "Invalid volume: Volume status must be available or error or error_restoring or \
                 error_extending or error_managing and must not be migrating, attached, belong to \
                 a group, have snapshots, awaiting a transfer, or be disassociated from snapshots \
                 after volume transfer.",
            ));
        }
        self.storage.volumes.retain(|volume| volume.id != id);
        Ok(Reply::empty(202).with("Content-Type", "text/html; charset=UTF-8"))
    }
}

/// Whether a volume has what a filter such as `{'key': 'value'}` asks for.
fn matches_metadata(volume: &Volume, filter: Option<&str>) -> bool {
    let Some(filter) = filter else { return true };
    // Cinder reads a Python dictionary; for plain texts it differs from JSON only by the quotes.
    let parsed = serde_json::from_str::<Map<String, Value>>(filter)
        .or_else(|_| serde_json::from_str(&filter.replace('\'', "\"")));
    parsed.is_ok_and(|wanted| {
        wanted.iter().all(|(key, value)| volume.metadata.get(key) == Some(value))
    })
}

/// A volume in a plain list (N3).
fn summary(asked: &Asked<'_>, volume: &Volume) -> Value {
    json!({"id": volume.id, "name": volume.name, "links": links(asked, volume)})
}

fn links(asked: &Asked<'_>, volume: &Volume) -> Value {
    let (id, project) = (&volume.id, asked.project());
    let bookmark = format!("{}/{project}/volumes/{id}", asked.service_root());
    json!([
        {"rel": "self", "href": asked.link(&format!("volumes/{id}"))},
        {"rel": "bookmark", "href": bookmark},
    ])
}

/// A volume in full; newer versions only add fields (G7, G8).
pub fn show(asked: &Asked<'_>, volume: &Volume) -> Value {
    let complete = volume.attachments.iter().filter(|attachment| attachment.is_complete());
    let attachments: Vec<Value> = complete.map(|known| show_attached(volume, known)).collect();
    let mut body = json!({
        "id": volume.id,
        "status": volume.status,
        "size": volume.size,
        "availability_zone": volume.zone,
        "created_at": stamp(volume.created, Style::Micro),
        "updated_at": stamp(volume.updated, Style::Micro),
        "name": volume.name,
        "description": null,
        "volume_type": volume.kind,
        "snapshot_id": volume.snapshot,
        "source_volid": volume.source,
        "metadata": volume.metadata,
        "links": links(asked, volume),
        "user_id": volume.user,
        "bootable": if volume.bootable { "true" } else { "false" },
        "encrypted": volume.encrypted,
        "replication_status": null,
        "consistencygroup_id": null,
        "multiattach": volume.multiattach,
        "attachments": attachments,
        "os-vol-tenant-attr:tenant_id": volume.project,
    });
    if !volume.image.is_empty() {
        body["volume_image_metadata"] = Value::Object(volume.image.clone());
    }
    let minor = asked.minor;
    if minor >= 13 {
        body["group_id"] = Value::Null;
    }
    if minor >= 48 {
        body["shared_targets"] = json!(false);
        body["service_uuid"] = json!(SERVICE);
    }
    if minor >= 63 {
        body["volume_type_id"] = json!(VOLUME_TYPE);
    }
    if minor >= 65 {
        body["consumes_quota"] = json!(true);
    }
    body
}

/// An attachment as the volume shows it: `id` is the volume's (B24).
fn show_attached(volume: &Volume, attachment: &Attachment) -> Value {
    json!({
        "id": volume.id,
        "attachment_id": attachment.id,
        "volume_id": volume.id,
        "server_id": attachment.server,
        "host_name": null,
        "device": attachment.device,
        "attached_at": attachment.attached_at.map(|at| stamp(at, Style::Micro)),
    })
}
