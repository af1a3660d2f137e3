//! Cinder's attachments API, from 3.27 on.

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
            ("GET", []) => Ok(self.list_attachments(asked)),
            ("DELETE", [id]) => self.delete_attachment(asked, id),
            _ => Err(Refusal::missing("The resource could not be found.")),
        }
    }

    fn list_attachments(&self, asked: &Asked<'_>) -> Reply {
        let wanted = asked.request.query("volume_id");
        let visible = self.storage.volumes.iter().filter(|volume| {
            self.volume_asked(asked, &volume.id).is_ok()
                && asked.own_project(&volume.project)
                && wanted.is_none_or(|id| id == volume.id)
        });
        let shown: Vec<Value> = visible
            .flat_map(|volume| volume.attachments.iter().map(|known| summary(volume, known)))
            .collect();
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

    /// Refused while Nova uses it (G13); answers what is left of the volume's (H9).
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
    /// Allowed if Nova does not know the pair (H9), has another attachment for it, or the
    /// attachment never had a connection.
    pub fn check_guard(&self, volume: &Volume, attachment: &Attachment) -> Result<(), Refusal> {
        let server = &attachment.server;
        let row = self.compute.server(server).and_then(|server| server.row(&volume.id));
        let used = row.is_some_and(|row| row.attachment.as_ref() == Some(&attachment.id));
        if !attachment.connected || !used {
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
