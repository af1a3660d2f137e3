//! `/control`: the server's state and figures, seen and changed from another process.
//!
//! `GET /control/state`, `/control/counters`, `/control/log`; `POST /control/change` with a script's
//! text (what it names is added or changed), `/control/reset` (counters and log),
//! `/control/advance` with `{"ms": 1000}`.

use super::Shared;
use super::http::{Request, Response};
use super::route::Route;
use super::script::Script;
use super::world::World;
use serde_json::{Value, json};
use std::time::Duration;

/// Answers a request of a test.
pub fn answer(shared: &Shared, request: &Request, route: &Route) -> Response {
    let result = match (request.method.as_str(), &route.words()[..]) {
        ("GET", ["state"]) => Ok(state(&shared.world())),
        ("GET", ["counters"]) => Ok(json!(shared.traffic().counters())),
        ("GET", ["log"]) => Ok(json!(shared.traffic().log())),
        ("POST", ["change"]) => Script::parse(&request.body)
            .and_then(|script| script.apply(&mut shared.world()))
            .map(|()| state(&shared.world())),
        ("POST", ["reset"]) => {
            shared.traffic().reset();
            Ok(json!({}))
        }
        ("POST", ["advance"]) => {
            let by = request.json().and_then(|body| body["ms"].as_u64()).unwrap_or(0);
            shared.world().clock.advance(Duration::from_millis(by));
            Ok(json!({}))
        }
        _ => {
            return Response::new(
                404,
                "application/json",
                json!({"error": "no such door"}).to_string(),
            );
        }
    };
    match result {
        Ok(body) => Response::new(200, "application/json", body.to_string()),
        Err(why) => Response::new(400, "application/json", json!({"error": why}).to_string()),
    }
}

/// Both views, side by side.
fn state(world: &World) -> Value {
    let servers: Vec<Value> = world
        .compute
        .servers
        .iter()
        .map(|server| {
            let rows: Vec<Value> = server
                .rows
                .iter()
                .map(|row| json!({"volume": row.volume, "device": row.device, "attachment": row.attachment}))
                .collect();
            json!({
                "id": server.id,
                "name": server.name,
                "region": server.region,
                "vm_state": server.vm_state,
                "task_state": server.task_state,
                "locked": server.locked,
                "host": server.host,
                "volumes": rows,
            })
        })
        .collect();
    let volumes: Vec<Value> = world
        .storage
        .volumes
        .iter()
        .map(|volume| {
            let attachments: Vec<Value> = volume
                .attachments
                .iter()
                .map(
                    |known| json!({"id": known.id, "status": known.status, "server": known.server}),
                )
                .collect();
            json!({
                "id": volume.id,
                "name": volume.name,
                "region": volume.region,
                "size": volume.size,
                "status": volume.status,
                "metadata": volume.metadata,
                "history": volume.history,
                "attachments": attachments,
            })
        })
        .collect();
    json!({
        "servers": servers,
        "volumes": volumes,
        "tokens": world.identity.tokens.len(),
        "faults": world.faults.len(),
        "idle": world.hosts.is_idle(),
    })
}
