//! Nova's routes.

use super::super::handle::Asked;
use super::super::reply::{Answer, Form, Refusal, Reply};
use super::super::world::World;
use super::attach::Ticket;
use super::show;
use serde_json::{Value, json};

/// What a request comes to: an answer, or an attach that waits for its host.
#[derive(Debug)]
pub enum Outcome {
    Now(Answer),
    Wait(Ticket),
}

/// Answers a request to Nova.
pub fn answer(world: &mut World, asked: &Asked<'_>) -> Outcome {
    if let ("POST", ["servers", id, "os-volume_attachments"]) =
        (asked.request.method.as_str(), &asked.route.words()[..])
    {
        return match world.begin_attach(asked, id) {
            Ok(ticket) => Outcome::Wait(ticket),
            Err(refusal) => Outcome::Now(Err(refusal)),
        };
    }
    Outcome::Now(answer_at_once(world, asked))
}

fn answer_at_once(world: &mut World, asked: &Asked<'_>) -> Answer {
    if asked.route.version.is_none() {
        return Ok(Reply::ok(json!({"versions": [version_document(world, asked)]})));
    }
    asked.token()?;
    match (asked.request.method.as_str(), &asked.route.words()[..]) {
        ("GET", []) => {
            let mut version = version_document(world, asked);
            let docs = "http://docs.openstack.org/";
            if let Some(links) = version["links"].as_array_mut() {
                links.push(json!({"rel": "describedby", "type": "text/html", "href": docs}));
            }
            version["media-types"] = json!([{
                "base": "application/json",
                "type": "application/vnd.openstack.compute+json;version=2.1",
            }]);
            Ok(Reply::ok(json!({"version": version})))
        }
        ("GET", ["servers"]) => world.list_servers(asked, false),
        ("GET", ["servers", "detail"]) => world.list_servers(asked, true),
        ("GET", ["servers", id]) => {
            let server = world.server_asked(asked, id)?;
            Ok(Reply::ok(json!({"server": show::server(asked, server, true)})))
        }
        ("DELETE", ["servers", id]) => world.delete_server_asked(asked, id),
        ("GET", ["servers", id, "os-volume_attachments"]) => world.list_rows(asked, id),
        ("GET", ["servers", id, "os-volume_attachments", volume]) => {
            world.show_row(asked, id, volume)
        }
        ("PUT", ["servers", id, "os-volume_attachments", volume]) => {
            world.update_row(asked, id, volume)
        }
        ("DELETE", ["servers", id, "os-volume_attachments", volume]) => {
            world.detach(asked, id, volume)
        }
        ("GET", ["servers", id, "os-instance-actions"]) => world.list_actions(asked, id),
        ("GET", ["servers", id, "os-instance-actions", request]) => {
            world.show_action(asked, id, request)
        }
        // The same for an unknown path and for a method that a path does not have (N8, N9).
        _ => Err(Refusal::missing("The resource could not be found.<br /><br />\n\n\n")
            .form(Form::Router)),
    }
}

fn version_document(world: &World, asked: &Asked<'_>) -> Value {
    let (lowest, highest) = world.settings.compute_versions;
    json!({
        "id": "v2.1",
        "status": "CURRENT",
        "version": format!("2.{highest}"),
        "min_version": format!("2.{lowest}"),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": format!("{}/v2.1/", asked.service_root())}],
    })
}
