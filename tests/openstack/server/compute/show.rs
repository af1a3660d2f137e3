//! A server and its volumes as the API shows them.

use super::super::clock::{Style, stamp};
use super::super::handle::Asked;
use super::{Row, Server};
use serde_json::{Value, json};

/// The hash of the host's name; the same for all servers, as on one host.
pub const HOST_ID: &str = "8ceaa7bd47549ec433f96cacbd526afa224cbd379fef0ae6c34c16cd";
const IMAGE: &str = "554fb355-4830-4bb6-88f5-30f5883e9d8f";

/// A server in a plain list (B4).
pub fn summary(asked: &Asked<'_>, server: &Server) -> Value {
    json!({"id": server.id, "name": server.name, "links": links(asked, server)})
}

fn links(asked: &Asked<'_>, server: &Server) -> Value {
    let id = &server.id;
    json!([
        {"rel": "self", "href": asked.link(&format!("servers/{id}"))},
        {"rel": "bookmark", "href": format!("{}/servers/{id}", asked.service_root())},
    ])
}

/// A server in full (B8).
pub fn server(asked: &Asked<'_>, server: &Server) -> Value {
    let root = asked.service_root();
    let bookmark = |path: &str| json!([{"rel": "bookmark", "href": format!("{root}/{path}")}]);
    let power = match server.vm_state.as_str() {
        "active" => 1,
        "paused" => 3,
        "stopped" | "suspended" => 4,
        _ => 0,
    };
    let volumes: Vec<Value> = server.rows.iter().map(|row| json!({"id": row.volume})).collect();
    let mut body = json!({
        "id": server.id,
        "name": server.name,
        "status": server.status(),
        "tenant_id": server.project,
        "user_id": server.user,
        "metadata": {},
        "hostId": HOST_ID,
        "image": {"id": IMAGE, "links": bookmark(&format!("images/{IMAGE}"))},
        "flavor": {"id": "1", "links": bookmark("flavors/1")},
        "created": stamp(server.created, Style::Short),
        "updated": stamp(server.updated, Style::Short),
        "addresses": {},
        "accessIPv4": "",
        "accessIPv6": "",
        "links": links(asked, server),
        "OS-DCF:diskConfig": "MANUAL",
        "OS-EXT-AZ:availability_zone": server.zone,
        "config_drive": "",
        "key_name": null,
        "OS-SRV-USG:launched_at": stamp(server.created, Style::Micro),
        "OS-SRV-USG:terminated_at": null,
        "OS-EXT-STS:task_state": server.task_state,
        "OS-EXT-STS:vm_state": server.vm_state,
        "OS-EXT-STS:power_state": power,
        "os-extended-volumes:volumes_attached": volumes,
    });
    // Only a server that is whole or on its way there shows how far it is.
    if matches!(server.status(), "ACTIVE" | "BUILD" | "REBUILD" | "RESIZE" | "VERIFY_RESIZE") {
        body["progress"] = json!(0);
    }
    if server.vm_state == "error" {
        let created = stamp(server.updated, Style::Short);
        body["fault"] = json!({"code": 500, "created": created, "message": "An error occurred"});
    }
    body
}

/// A volume at a server, as GET shows it (B17).
pub fn row(server: &Server, row: &Row) -> Value {
    json!({
        "id": row.volume,
        "volumeId": row.volume,
        "serverId": server.id,
        "device": row.device,
    })
}
