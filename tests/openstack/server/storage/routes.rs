//! Cinder's routes.

use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use serde_json::json;

/// Answers a request to Cinder.
pub fn answer(world: &mut World, asked: &Asked<'_>) -> Answer {
    let token = asked.token()?;
    if asked.route.project.is_none() || token.project != asked.route.project {
        return Err(Refusal::bad("Malformed request url"));
    }
    match (asked.request.method.as_str(), &asked.route.words()[..]) {
        ("GET", ["volumes"]) => world.list_volumes(asked, false),
        ("GET", ["volumes", "detail"]) => world.list_volumes(asked, true),
        ("GET", ["volumes", id]) => {
            let volume = world.volume_asked(asked, id)?;
            Ok(Reply::ok(json!({"volume": super::volumes::show(asked, volume)})))
        }
        ("POST", ["volumes", id, "action"]) => world.extend_asked(asked, id),
        (_, ["volumes", id, "metadata", rest @ ..]) => world.metadata_api(asked, id, rest),
        (_, ["attachments", rest @ ..]) => world.attachments_api(asked, rest),
        _ => Err(Refusal::missing("The resource could not be found.")),
    }
}
