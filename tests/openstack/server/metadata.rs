//! The metadata service: it tells a server who it is, without a token.

use super::fault::page;
use super::http::{Request, Response};
use super::route::Route;
use super::world::World;
use serde_json::json;

/// Answers the server that [`metadata_of`](super::world::Settings::metadata_of) names.
pub fn answer(world: &World, request: &Request, route: &Route) -> Response {
    let is_known = request.method == "GET"
        && route.version.as_deref() == Some("latest")
        && route.words() == ["meta_data.json"];
    let asking = world.settings.metadata_of.as_ref();
    let asking = asking.map(|name| world.server_id(name));
    let server = asking.and_then(|id| world.compute.server(&id)).filter(|_| is_known);
    let Some(server) = server else { return Response::new(404, "text/html", page(404)) };
    let body = json!({
        "uuid": server.id,
        "name": server.name,
        "hostname": format!("{}.novalocal", server.name),
        "project_id": server.project,
        "availability_zone": server.zone,
        "launch_index": 0,
        "devices": [],
    });
    Response::new(200, "application/json", body.to_string())
}
