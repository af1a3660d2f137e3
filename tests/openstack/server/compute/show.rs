//! A server and its volumes as the API shows them, by version.

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

/// A server in full (B8); newer versions add fields (B10b, E5c), `server_groups` only alone.
pub fn server(asked: &Asked<'_>, server: &Server, alone: bool) -> Value {
    let root = asked.service_root();
    let bookmark = |path: &str| json!([{"rel": "bookmark", "href": format!("{root}/{path}")}]);
    let power = match server.vm_state.as_str() {
        "active" => 1,
        "paused" => 3,
        "stopped" | "suspended" => 4,
        _ => 0,
    };
    let minor = asked.minor;
    let volumes: Vec<Value> = server
        .rows
        .iter()
        .map(|row| {
            let mut shown = json!({"id": row.volume});
            if minor >= 3 {
                shown["delete_on_termination"] = json!(row.delete_on_termination);
            }
            shown
        })
        .collect();
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
    let mut from = |first: u32, name: &str, value: Value| {
        if minor >= first {
            body[name] = value;
        }
    };
    from(9, "locked", json!(server.locked));
    from(19, "description", Value::Null);
    from(26, "tags", json!([]));
    let sizes = json!({"vcpus": 1, "ram": 64, "disk": 1, "ephemeral": 0, "swap": 0,
        "original_name": "acc.tiny", "extra_specs": {}});
    from(47, "flavor", sizes);
    from(63, "trusted_image_certificates", Value::Null);
    if alone {
        from(71, "server_groups", json!([]));
    }
    from(73, "locked_reason", Value::Null);
    body
}

/// A volume at a server, as GET shows it (B17 to B22).
pub fn row(minor: u32, server: &Server, row: &Row) -> Value {
    let mut body = json!({
        "id": row.volume,
        "volumeId": row.volume,
        "serverId": server.id,
        "device": row.device,
    });
    if minor >= 70 {
        body["tag"] = json!(row.tag);
    }
    if minor >= 79 {
        body["delete_on_termination"] = json!(row.delete_on_termination);
    }
    if minor >= 89 {
        if let Some(body) = body.as_object_mut() {
            body.remove("id");
        }
        body["attachment_id"] = json!(row.attachment);
        body["bdm_uuid"] = json!(row.uuid);
    }
    body
}
