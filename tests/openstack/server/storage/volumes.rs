//! Volumes: how they are listed and shown.

use super::super::clock::{Style, stamp};
use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use super::rules::no_volume;
use super::{Attachment, Volume};
use serde_json::{Map, Value, json};

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
            self.volume_asked(asked, &volume.id).is_ok()
                && asked.own_project(&volume.project)
                && request.query("name").is_none_or(|name| name == volume.name)
                && matches_metadata(volume, request.query("metadata"))
        };
        // Newest first.
        let mut found: Vec<&Volume> = self.storage.volumes.iter().rev().filter(wanted).collect();
        if let Some(marker) = request.query("marker") {
            let at = found.iter().position(|volume| volume.id == marker);
            let missing = || Refusal::missing(format!("marker [{marker}] not found"));
            found.drain(..=at.ok_or_else(missing)?);
        }
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

    /// 413 if a project would have more gigabytes than it may (G23).
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

/// A volume in full (G7).
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
