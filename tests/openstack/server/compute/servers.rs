//! Servers: found by id, by a regular expression of the name, page by page; deleted.

use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use super::host::Step;
use super::{Server, show};
use regex_lite::RegexBuilder;
use serde_json::{Value, json};
use std::time::Duration;

impl World {
    /// The server of a path, if the token may see it: unknown, deleted and foreign ones are alike
    /// (B9, B10).
    pub fn server_asked(&self, asked: &Asked<'_>, id: &str) -> Result<&Server, Refusal> {
        let token = asked.token()?;
        let region = asked.region(self);
        let seen = |server: &&Server| {
            let own = token.project.as_deref() == Some(server.project.as_str());
            server.region == region && (own || token.is_admin())
        };
        let missing = || Refusal::missing(format!("Instance {id} could not be found."));
        self.compute.server(id).filter(seen).ok_or_else(missing)
    }

    /// `GET /servers`.
    pub fn list_servers(&self, asked: &Asked<'_>) -> Answer {
        let request = asked.request;
        let pattern = request.query("name").map(name_pattern).transpose()?;
        let wanted = |server: &&Server| {
            self.server_asked(asked, &server.id).is_ok()
                && asked.own_project(&server.project)
                && pattern.as_ref().is_none_or(|pattern| pattern.is_match(&server.name))
        };
        // Newest first.
        let mut found: Vec<&Server> = self.compute.servers.iter().rev().filter(wanted).collect();
        if let Some(marker) = request.query("marker") {
            let at = found.iter().position(|server| server.id == marker);
            let missing = || Refusal::bad(format!("marker [{marker}] not found"));
            found.drain(..=at.ok_or_else(missing)?);
        }
        let limit = asked.limit(self.settings.page)?;
        // A full page links to the next one, also if that is empty (N2).
        let full = found.len() >= limit;
        found.truncate(limit);
        let shown: Vec<Value> = found.iter().map(|server| show::summary(asked, server)).collect();
        let mut body = json!({"servers": shown});
        if let (true, Some(last)) = (full, found.last()) {
            let href = asked.next_page("servers", limit, &last.id);
            body["servers_links"] = json!([{"rel": "next", "href": href}]);
        }
        Ok(Reply::ok(body))
    }

    /// Nova forgets a server; `tidy`: Cinder is told, as it should be, or never (H6).
    pub fn remove_server(&mut self, id: &str, tidy: bool) {
        let Some(at) = self.compute.servers.iter().position(|server| server.id == id) else {
            return;
        };
        let server = self.compute.servers.remove(at);
        self.hosts.forget(id);
        if !tidy {
            return;
        }
        let delay = Duration::from_millis(self.settings.delays.cleanup);
        for row in server.rows {
            if let Some(attachment) = row.attachment {
                self.later(delay, Step::Cleanup { volume: row.volume, attachment });
            }
        }
    }
}

/// The database's idea of a name's pattern: unanchored, without regard to case (B4, N1).
fn name_pattern(text: &str) -> Result<regex_lite::Regex, Refusal> {
    let pattern = RegexBuilder::new(text).case_insensitive(true).build();
    pattern.map_err(|_| Refusal::bad(format!("'{text}' is not a 'regex'")))
}
