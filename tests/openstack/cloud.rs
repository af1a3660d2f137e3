//! A server with a client at its side, for short tests.

use crate::client::{Answer, Connection, ask};
use crate::server::{Server, World};
use serde_json::{Value, json};

/// A cloud with servers `a` and `b` and volume `data`, and a token of user demo.
pub(crate) struct Cloud {
    pub(crate) server: Server,
    pub(crate) token: String,
    pub(crate) project: String,
    pub(crate) a: String,
    pub(crate) b: String,
    pub(crate) data: String,
}

impl Cloud {
    pub(crate) fn new() -> Self {
        let mut world = World::demo().server("a").server("b").volume("data", 1);
        let token = world.token("demo", "demo");
        let project = world.identity.project_id("demo");
        let (a, b, data) = (world.server_id("a"), world.server_id("b"), world.volume_id("data"));
        Self { server: Server::start(world), token, project, a, b, data }
    }

    /// Asks with headers and a body; panics if there is no answer.
    pub(crate) fn ask(
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

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[], &Value::Null)
    }

    pub(crate) fn attach(&self, server: &str) -> Answer {
        self.ask("POST", &rows(server), &[], &attachment(&self.data))
    }

    /// Sends an attach without waiting for its answer.
    pub(crate) fn send_attach(&self, server: &str) -> Connection {
        let mut connection = Connection::open(&self.server.url()).expect("the server");
        let headers = [("X-Auth-Token", self.token.as_str())];
        let body = attachment(&self.data).to_string();
        connection.send("POST", &rows(server), &headers, &body).expect("sent");
        connection
    }

    /// The status at Cinder.
    pub(crate) fn status(&self) -> String {
        self.server.world().volume_mut("data").status.clone()
    }
}

/// The body of an attach.
pub(crate) fn attachment(volume: &str) -> Value {
    json!({"volumeAttachment": {"volumeId": volume}})
}

/// Where Nova has a server's volumes.
pub(crate) fn rows(server: &str) -> String {
    format!("/compute/v2.1/servers/{server}/os-volume_attachments")
}
