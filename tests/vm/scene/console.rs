//! A person at the cloud's console: the API over HTTP, and no word to the driver.

use super::{Outcome, Scene, Stop, Volume};
use crate::client::{Answer, ask};
use serde_json::json;
use std::time::Duration;

/// How long the cloud may take.
const LIMIT: Duration = Duration::from_secs(60);

/// With this key a server says in the cloud that it has the volume mounted.
const MARK: &str = "incloud-disk-mounted-on";

impl Scene<'_> {
    pub(crate) fn console_detaches(&mut self, volume: &Volume, node: &str) -> Outcome {
        let path = format!("/{}", volume.id);
        self.console("DELETE", node, &path, "", 202)?;
        let id = volume.id.clone();
        // Nova's row lives on for a moment, and refuses an attach until it is gone.
        let done = self.machine.cloud.wait_until(LIMIT, |world| {
            let volume = world.storage.volume(&id);
            volume.is_some_and(|volume| volume.status == "available")
                && world.compute.servers_with(&id).is_empty()
        });
        self.check(&format!("the console detaches {}", volume.pv), done, "available")
    }

    pub(crate) fn console_attaches(&mut self, volume: &Volume, node: &str) -> Outcome {
        let body = json!({"volumeAttachment": {"volumeId": volume.id}}).to_string();
        self.console("POST", node, "", &body, 200)?;
        let id = volume.id.clone();
        let done = self.machine.cloud.wait_until(LIMIT, |world| {
            world.storage.volume(&id).is_some_and(|volume| volume.status == "in-use")
        });
        self.check(&format!("the console attaches {}", volume.pv), done, "in-use")
    }

    /// The cloud's storage answers nothing for a volume, until it is detached.
    pub(crate) fn disk_hangs(&mut self, volume: &Volume) -> Outcome {
        let done = self.machine.plug.hang(&volume.id);
        self.check("the disk hangs", done.is_ok(), format!("{done:?}"))
    }

    pub(crate) fn disk_answers(&mut self, volume: &Volume) -> Outcome {
        let done = self.machine.plug.answer(&volume.id);
        self.check("the disk answers again", done.is_ok(), format!("{done:?}"))
    }

    /// The mark of the server goes, as with a controller's attach elsewhere: the server does not have the volume then.
    pub(crate) fn mark_is_taken(&mut self, volume: &Volume) {
        let mut world = self.machine.cloud.world();
        if let Some(volume) = world.storage.volume_mut(&volume.id) {
            volume.metadata.remove(MARK);
        }
    }

    /// What holds back a detach that is asked for elsewhere.
    pub(crate) fn is_marked(&mut self, volume: &Volume, node: &str) -> Outcome {
        let id = volume.id.clone();
        let done = self.machine.cloud.wait_until(LIMIT, |world| {
            let server = world.server_id(node);
            let mark = world.storage.volume(&id).and_then(|volume| volume.metadata.get(MARK));
            mark.and_then(serde_json::Value::as_str) == Some(server.as_str())
        });
        self.check("the cloud knows again where it is mounted", done, node)
    }

    fn console(
        &mut self,
        method: &str,
        node: &str,
        path: &str,
        body: &str,
        status: u16,
    ) -> Outcome {
        let url = self.outside_url();
        let user = json!({"name": "demo", "domain": {"id": "default"}, "password": "demopass"});
        let login = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": "demo", "domain": {"id": "default"}}},
        }});
        let told = |error: std::io::Error| Stop::Broken(format!("the console: {error}"));
        let answer = ask(&url, "POST", "/identity/v3/auth/tokens", &[], &login.to_string());
        let answer = answer.map_err(told)?;
        let token = answer.header("X-Subject-Token").unwrap_or_default().to_owned();
        let server = self.machine.cloud.world().server_id(node);
        let target = format!("/compute/v2.1/servers/{server}/os-volume_attachments{path}");
        let answer: Answer =
            ask(&url, method, &target, &[("X-Auth-Token", token.as_str())], body).map_err(told)?;
        if answer.status == status {
            return Ok(());
        }
        Err(Stop::Broken(format!(
            "the console: {} {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        )))
    }

    /// The cloud's address on the outside: in its own it is the guest's network that counts.
    fn outside_url(&self) -> String {
        let url = self.machine.cloud.url();
        format!("http://127.0.0.1:{}", url.rsplit(':').next().unwrap_or_default())
    }
}
