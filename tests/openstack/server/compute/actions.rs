//! Instance actions: the only place where a member sees that an attach has failed (D4).

use super::super::clock::{Style, stamp};
use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use super::Server;
use super::show::HOST_ID;
use serde_json::{Value, json};

/// One thing that was done with a server.
#[derive(Debug, Clone)]
pub struct Action {
    /// The id of the request that asked for it.
    pub request: String,
    /// `attach_volume` or `detach_volume`.
    pub name: String,
    pub user: String,
    pub project: String,
    /// Seconds since 1970.
    pub started: i64,
    pub finished: Option<i64>,
    /// `Success` or `Error` when it is finished.
    pub result: Option<String>,
}

impl World {
    /// Remembers that something begins at a server.
    pub fn begin_action(&mut self, asked: &Asked<'_>, server: &str, name: &str) {
        let started = self.clock.unix();
        let (user, project) = asked
            .token()
            .map(|token| (token.user.clone(), token.project.clone().unwrap_or_default()))
            .unwrap_or_default();
        let Some(server) = self.compute.server_mut(server) else { return };
        server.actions.push(Action {
            request: asked.id.clone(),
            name: name.to_owned(),
            user,
            project,
            started,
            finished: None,
            result: None,
        });
    }

    /// Remembers how it ended.
    pub fn end_action(&mut self, server: &str, request: &str, result: &str) {
        let now = self.clock.unix();
        let Some(server) = self.compute.server_mut(server) else { return };
        let action = server.actions.iter_mut().find(|action| action.request == request);
        if let Some(action) = action {
            action.finished = Some(now);
            action.result = Some(result.to_owned());
        }
    }

    /// `GET /servers/{id}/os-instance-actions`, newest first.
    pub fn list_actions(&self, asked: &Asked<'_>, id: &str) -> Answer {
        let server = self.server_asked(asked, id)?;
        let all: Vec<Value> = server.actions.iter().rev().map(|a| head(asked, server, a)).collect();
        Ok(Reply::ok(json!({"instanceActions": all})))
    }

    /// `GET /servers/{id}/os-instance-actions/{request}`.
    pub fn show_action(&self, asked: &Asked<'_>, id: &str, request: &str) -> Answer {
        let server = self.server_asked(asked, id)?;
        let action = server.actions.iter().find(|action| action.request == request);
        let missing = || Refusal::missing(format!("Action {request} not found"));
        let action = action.ok_or_else(missing)?;
        let mut body = head(asked, server, action);
        // Members see events from 2.51 on.
        if asked.minor >= 51 || asked.token()?.is_admin() {
            let mut event = json!({
                "event": format!("compute_{}", action.name),
                "start_time": stamp(action.started, Style::Micro),
                "finish_time": action.finished.map(|at| stamp(at, Style::Micro)),
                "result": action.result,
            });
            if asked.minor >= 62 {
                event["hostId"] = json!(HOST_ID);
            }
            body["events"] = json!([event]);
        }
        Ok(Reply::ok(json!({"instanceAction": body})))
    }
}

fn head(asked: &Asked<'_>, server: &Server, action: &Action) -> Value {
    let failed = action.result.as_deref() == Some("Error");
    let mut body = json!({
        "action": action.name,
        "instance_uuid": server.id,
        "request_id": action.request,
        "user_id": action.user,
        "project_id": action.project,
        "start_time": stamp(action.started, Style::Micro),
        "message": failed.then_some("Error"),
    });
    if asked.minor >= 58 {
        let updated = action.finished.unwrap_or(action.started);
        body["updated_at"] = json!(stamp(updated, Style::Micro));
    }
    body
}
