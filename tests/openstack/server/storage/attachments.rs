//! Cinder's attachments API, from 3.27 on.

use super::super::clock::{Style, stamp};
use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use super::{Attachment, Volume};
use serde_json::{Value, json};

impl World {
    /// Answers a request below `/attachments`.
    pub fn attachments_api(&mut self, asked: &Asked<'_>, words: &[&str]) -> Answer {
        if asked.minor < 27 {
            return Err(Refusal::missing("The resource could not be found."));
        }
        match (asked.request.method.as_str(), words) {
            ("GET", []) => Ok(self.list_attachments(asked, false)),
            ("GET", ["detail"]) => Ok(self.list_attachments(asked, true)),
            ("POST", []) => self.reserve_by_user(asked),
            ("GET", [id]) => {
                let (volume, attachment) = self.find_attachment(asked, id)?;
                Ok(Reply::ok(json!({"attachment": detail(volume, attachment)})))
            }
            ("DELETE", [id]) => self.delete_attachment(asked, id),
            _ => Err(Refusal::missing("The resource could not be found.")),
        }
    }

    fn list_attachments(&self, asked: &Asked<'_>, in_full: bool) -> Reply {
        let query = |name: &str| asked.request.query(name);
        let visible = self
            .storage
            .volumes
            .iter()
            .filter(|volume| self.volume_asked(asked, &volume.id).is_ok())
            .filter(|volume| asked.own_project(&volume.project) || query("all_tenants").is_some())
            .filter(|volume| query("volume_id").is_none_or(|id| id == volume.id));
        let mut shown: Vec<Value> = Vec::new();
        for volume in visible {
            let own = volume.attachments.iter();
            let own = own.filter(|known| query("instance_id").is_none_or(|id| id == known.server));
            let own =
                own.filter(|known| query("status").is_none_or(|status| status == known.status));
            shown.extend(
                own.map(
                    |known| {
                        if in_full { detail(volume, known) } else { summary(volume, known) }
                    },
                ),
            );
        }
        Reply::ok(json!({"attachments": shown}))
    }

    fn find_attachment(
        &self,
        asked: &Asked<'_>,
        id: &str,
    ) -> Result<(&Volume, &Attachment), Refusal> {
        let missing = || {
            Refusal::missing(format!(
                "Volume attachment could not be found with filter: attachment_id = {id}."
            ))
        };
        let mut all = self.storage.volumes.iter().flat_map(|volume| {
            volume.attachments.iter().map(move |attachment| (volume, attachment))
        });
        let found = all.find(|(volume, attachment)| {
            attachment.id == id && self.volume_asked(asked, &volume.id).is_ok()
        });
        found.ok_or_else(missing)
    }

    /// A member may reserve a volume past Nova (G28).
    fn reserve_by_user(&mut self, asked: &Asked<'_>) -> Answer {
        asked.writer("volume:attachment_create")?;
        let body = asked.request.json().unwrap_or_default();
        let text = |key: &str| body["attachment"][key].as_str().unwrap_or_default().to_owned();
        let (volume, server) = (text("volume_uuid"), text("instance_uuid"));
        self.volume_asked(asked, &volume)?;
        let id = self.storage.reserve(&volume, &server)?;
        let (volume, attachment) = self.find_attachment(asked, &id)?;
        Ok(Reply::ok(json!({"attachment": detail(volume, attachment)})))
    }

    /// Refused while Nova uses it (G13); answers what is left of the volume's (G31, H9).
    fn delete_attachment(&mut self, asked: &Asked<'_>, id: &str) -> Answer {
        asked.writer("volume:attachment_delete")?;
        let (volume, attachment) = self.find_attachment(asked, id)?;
        self.check_guard(volume, attachment)?;
        let volume = volume.id.clone();
        self.storage.drop_attachment(&volume, id);
        let volume = self.storage.volume(&volume).ok_or_else(|| super::rules::no_volume(id))?;
        let left: Vec<Value> = volume.attachments.iter().map(|a| summary(volume, a)).collect();
        Ok(Reply::ok(json!({"attachments": left})))
    }

    /// The guard of 2023: refuses what would cut a disk off that Nova believes in.
    ///
    /// Allowed if Nova does not know the pair (H9, H14), has another attachment for it (H19), or
    /// the attachment never had a connection (G31).
    pub fn check_guard(&self, volume: &Volume, attachment: &Attachment) -> Result<(), Refusal> {
        let server = &attachment.server;
        let row = self.compute.server(server).and_then(|server| server.row(&volume.id));
        let used = row.is_some_and(|row| row.attachment.as_ref() == Some(&attachment.id));
        if !self.settings.guard || !attachment.connected || !used {
            return Ok(());
        }
        Err(Refusal::conflict(format!(
            "ConflictNovaUsingAttachment: Detach volume from instance {server} using the Compute API"
        )))
    }
}

fn summary(volume: &Volume, attachment: &Attachment) -> Value {
    json!({
        "id": attachment.id,
        "status": attachment.status,
        "instance": attachment.server,
        "volume_id": volume.id,
    })
}

/// An attachment in full; a reservation has empty texts where an attachment has times (G11).
fn detail(volume: &Volume, attachment: &Attachment) -> Value {
    let mut shown = summary(volume, attachment);
    let at = attachment.attached_at.map(|at| stamp(at, Style::Micro));
    shown["attached_at"] = json!(at.unwrap_or_default());
    shown["detached_at"] = json!("");
    shown["attach_mode"] = json!(if attachment.connected { "rw" } else { "null" });
    shown["connection_info"] = if attachment.connected {
        json!({
            "device_path": format!("<STATE>/volumes/{}", volume.id),
            "volume_id": volume.id,
            "qos_specs": null,
            "access_mode": "rw",
            "encrypted": false,
            "cacheable": false,
            "driver_volume_type": "local",
            "attachment_id": attachment.id,
        })
    } else {
        json!({})
    };
    shown
}
