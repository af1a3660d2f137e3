//! A server with a client at its side, for short tests.

use crate::client::{Answer, Connection, ask};
use crate::server::{Server, World};
use serde_json::{Value, json};

/// A cloud with servers `a` and `b` and volume `data`, and a token of user demo.
pub(super) struct Cloud {
    pub(super) server: Server,
    pub(super) token: String,
    pub(super) project: String,
    pub(super) a: String,
    pub(super) b: String,
    pub(super) data: String,
}

impl Cloud {
    pub(super) fn new() -> Self {
        Self::of(World::demo())
    }

    /// The same with time that stands still.
    pub(super) fn frozen() -> Self {
        Self::of(World::demo().frozen())
    }

    pub(super) fn of(world: World) -> Self {
        let mut world = world.server("a").server("b").volume("data", 1);
        let token = world.token("demo", "demo");
        let project = world.identity.project_id("demo");
        let (a, b, data) = (world.server_id("a"), world.server_id("b"), world.volume_id("data"));
        Self { server: Server::start(world), token, project, a, b, data }
    }

    /// Asks with headers and a body; panics if there is no answer.
    pub(super) fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut all = vec![("X-Auth-Token", self.token.as_str())];
        all.extend(headers);
        ask(&self.server.url(), method, target, &all, &body).expect("an answer")
    }

    pub(super) fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[], &Value::Null)
    }

    /// Where Cinder has a volume.
    pub(super) fn volume_path(&self, volume: &str) -> String {
        format!("/volume/v3/{}/volumes/{volume}", self.project)
    }

    pub(super) fn attach(&self, server: &str) -> Answer {
        self.ask("POST", &rows(server), &[], &attachment(&self.data))
    }

    pub(super) fn detach(&self, server: &str) -> Answer {
        let target = format!("{}/{}", rows(server), self.data);
        self.ask("DELETE", &target, &[], &Value::Null)
    }

    /// Sends an attach without waiting for its answer.
    pub(super) fn send_attach(&self, server: &str) -> Connection {
        let mut connection = Connection::open(&self.server.url()).expect("the server");
        let headers = [("X-Auth-Token", self.token.as_str())];
        let body = attachment(&self.data).to_string();
        connection.send("POST", &rows(server), &headers, &body).expect("sent");
        connection
    }

    /// The status at Cinder.
    pub(super) fn status(&self) -> String {
        self.server.world().volume_mut("data").status.clone()
    }

    /// Whether Nova lists the volume at a server.
    pub(super) fn is_listed(&self, server: &str) -> bool {
        self.get(&format!("{}/{}", rows(server), self.data)).status == 200
    }

    /// The servers that Cinder shows.
    pub(super) fn holders(&self) -> Vec<String> {
        let volume = self.get(&self.volume_path(&self.data)).json();
        let attachments = volume["volume"]["attachments"].as_array().cloned().unwrap_or_default();
        attachments.iter().map(|one| one["server_id"].as_str().unwrap_or("").to_owned()).collect()
    }
}

/// The body of an attach.
pub(super) fn attachment(volume: &str) -> Value {
    json!({"volumeAttachment": {"volumeId": volume}})
}

/// Where Nova has a server's volumes.
pub(super) fn rows(server: &str) -> String {
    format!("/compute/v2.1/servers/{server}/os-volume_attachments")
}
