//! Reading and changing Nova's rows: `GET` and `PUT os-volume_attachments`.

use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use super::attach::not_attached;
use super::show;
use serde_json::{Value, json};

impl World {
    /// The list; the root disk counts for the page, but does not show (B46b).
    pub fn list_rows(&self, asked: &Asked<'_>, id: &str) -> Answer {
        let server = self.server_asked(asked, id)?;
        let offset = asked.request.query("offset").and_then(|text| text.parse().ok()).unwrap_or(0);
        let limit = asked.limit(self.settings.page)?;
        let all = std::iter::once(None).chain(server.rows.iter().map(Some));
        let page = all.skip(offset).take(limit).flatten();
        let shown: Vec<Value> = page.map(|row| show::row(asked.minor, server, row)).collect();
        Ok(Reply::ok(json!({"volumeAttachments": shown})))
    }

    pub fn show_row(&self, asked: &Asked<'_>, id: &str, volume: &str) -> Answer {
        let server = self.server_asked(asked, id)?;
        let row = server.row(volume).ok_or_else(|| not_attached(id, volume))?;
        Ok(Reply::ok(json!({"volumeAttachment": show::row(asked.minor, server, row)})))
    }

    /// `PUT`: another volume is a swap, for admins only (B47); the same one from 2.85 on changes
    /// what becomes of it with the server.
    pub fn update_row(&mut self, asked: &Asked<'_>, id: &str, volume: &str) -> Answer {
        self.server_asked(asked, id)?;
        let body = asked.request.json().unwrap_or_default();
        let inner = &body["volumeAttachment"];
        if inner["volumeId"] != volume || asked.minor < 85 {
            return Err(Refusal::policy("os_compute_api:os-volumes-attachments:swap"));
        }
        asked.writer("os_compute_api:os-volumes-attachments:update")?;
        let server = self.compute.server_mut(id);
        let row = server.and_then(|server| server.row_mut(volume));
        let row = row.ok_or_else(|| not_attached(id, volume))?;
        row.delete_on_termination = inner["delete_on_termination"] == true;
        Ok(Reply::empty(202))
    }
}
