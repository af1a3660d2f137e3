//! Reading Nova's rows: `GET os-volume_attachments`.

use super::super::handle::Asked;
use super::super::reply::{Answer, Reply};
use super::super::world::World;
use super::attach::not_attached;
use super::show;
use serde_json::{Value, json};

impl World {
    pub fn list_rows(&self, asked: &Asked<'_>, id: &str) -> Answer {
        let server = self.server_asked(asked, id)?;
        let shown: Vec<Value> = server.rows.iter().map(|row| show::row(server, row)).collect();
        Ok(Reply::ok(json!({"volumeAttachments": shown})))
    }

    pub fn show_row(&self, asked: &Asked<'_>, id: &str, volume: &str) -> Answer {
        let server = self.server_asked(asked, id)?;
        let row = server.row(volume).ok_or_else(|| not_attached(id, volume))?;
        Ok(Reply::ok(json!({"volumeAttachment": show::row(server, row)})))
    }
}
