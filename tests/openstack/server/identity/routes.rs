//! Keystone's routes.

use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use serde_json::{Value, json};

/// Answers a request to Keystone.
pub fn answer(world: &mut World, asked: &Asked<'_>) -> Answer {
    let request = asked.request;
    let Some(version) = asked.route.version.as_deref() else {
        return Ok(versions(&asked.keystone));
    };
    if version != "v3" {
        return Err(Refusal::missing(
            "(http://docs.openstack.org/): The resource could not be found.",
        ));
    }
    match (request.method.as_str(), &asked.route.words()[..]) {
        ("POST", ["auth", "tokens"]) => {
            let grant = world.log_in(request.json().as_ref())?;
            let text = world.issue(grant);
            show(world, asked, 201, &text)
        }
        _ => Err(Refusal::missing("The resource could not be found.")),
    }
}

/// A token with its catalog, unless `?nocatalog` or no project (A9b).
fn show(world: &World, asked: &Asked<'_>, status: u16, text: &str) -> Answer {
    let token = world.identity.tokens.get(text).ok_or_else(Refusal::unauthorized)?;
    let mut body = world.identity.show_token(token);
    if let Some(project) = &token.project
        && asked.request.query("nocatalog").is_none()
    {
        body["catalog"] = world.catalog(&asked.base, project);
    }
    Ok(Reply::json(status, json!({"token": body})).with("X-Subject-Token", text))
}

/// The list of versions (A1).
fn versions(keystone: &str) -> Reply {
    let body = json!({"versions": {"values": [version_document(keystone)]}});
    Reply::json(300, body).with("Location", format!("{keystone}/"))
}

fn version_document(keystone: &str) -> Value {
    json!({
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{keystone}/")}],
        "media-types": [{
            "base": "application/json",
            "type": "application/vnd.openstack.identity-v3+json",
        }],
    })
}
