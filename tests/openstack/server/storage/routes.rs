//! Cinder's routes.

use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use serde_json::json;

/// Answers a request to Cinder.
pub fn answer(world: &mut World, asked: &Asked<'_>) -> Answer {
    if asked.route.version.is_none() || asked.route.rest.is_empty() && asked.route.project.is_none()
    {
        return Ok(versions(world, asked));
    }
    let token = asked.token()?;
    // From 3.67 on the path may leave the project out; before, and if it is another's, the answer
    // is this, and not 403 or 404 (A11, G5).
    let own = match &asked.route.project {
        Some(project) => token.project.as_ref() == Some(project),
        None => asked.minor >= 67 && token.project.is_some(),
    };
    if !own {
        return Err(Refusal::bad("Malformed request url"));
    }
    match (asked.request.method.as_str(), &asked.route.words()[..]) {
        ("GET", ["volumes"]) => world.list_volumes(asked, false),
        ("GET", ["volumes", "detail"]) => world.list_volumes(asked, true),
        ("POST", ["volumes"]) => world.create_volume(asked),
        ("GET", ["volumes", id]) => {
            let volume = world.volume_asked(asked, id)?;
            Ok(Reply::ok(json!({"volume": super::volumes::show(asked, volume)})))
        }
        ("DELETE", ["volumes", id]) => world.delete_volume(asked, id),
        ("POST", ["volumes", id, "action"]) => world.volume_action(asked, id),
        (_, ["volumes", id, "metadata", rest @ ..]) => world.metadata_api(asked, id, rest),
        (_, ["attachments", rest @ ..]) => world.attachments_api(asked, rest),
        _ => Err(Refusal::missing("The resource could not be found.")),
    }
}

/// The list of versions (G1).
fn versions(world: &World, asked: &Asked<'_>) -> Reply {
    let (lowest, highest) = world.settings.storage_versions;
    let status = if asked.route.version.is_none() { 300 } else { 200 };
    let body = json!({"versions": [{
        "id": "v3.0",
        "status": "CURRENT",
        "version": format!("3.{highest}"),
        "min_version": format!("3.{lowest}"),
        "updated": "2022-08-31T00:00:00Z",
        "links": [
            {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
            {"rel": "self", "href": format!("{}/v3/", asked.service_root())},
        ],
        "media-types": [{
            "base": "application/json",
            "type": "application/vnd.openstack.volume+json;version=3",
        }],
    }]});
    Reply::json(status, body)
}
