//! Nova's routes.

use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use super::attach::Ticket;
use super::show;
use serde_json::json;

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
    asked.token()?;
    match (asked.request.method.as_str(), &asked.route.words()[..]) {
        ("GET", ["servers"]) => world.list_servers(asked),
        ("GET", ["servers", id]) => {
            let server = world.server_asked(asked, id)?;
            Ok(Reply::ok(json!({"server": show::server(asked, server)})))
        }
        ("GET", ["servers", id, "os-volume_attachments"]) => world.list_rows(asked, id),
        ("GET", ["servers", id, "os-volume_attachments", volume]) => {
            world.show_row(asked, id, volume)
        }
        ("DELETE", ["servers", id, "os-volume_attachments", volume]) => {
            world.detach(asked, id, volume)
        }
        ("GET", ["servers", id, "os-instance-actions"]) => world.list_actions(asked, id),
        ("GET", ["servers", id, "os-instance-actions", request]) => {
            world.show_action(asked, id, request)
        }
        _ => Err(Refusal::missing("The resource could not be found.")),
    }
}
