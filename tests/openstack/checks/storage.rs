//! Cinder beyond the transcripts: metadata, lists, attachments, the guard.

use super::cloud::Cloud;
use crate::runner::Test;
use crate::server::World;
use serde_json::{Value, json};

pub(super) const TESTS: &[Test] = &[
    ("storage::metadata_is_kept", metadata_is_kept),
    ("storage::metadata_is_checked", metadata_is_checked),
    ("storage::volumes_are_found_by_what_they_have", volumes_are_found_by_what_they_have),
    ("storage::lists_have_pages", lists_have_pages),
    ("storage::a_cloud_without_the_guard", a_cloud_without_the_guard),
    ("storage::the_project_may_be_left_out", the_project_may_be_left_out),
    ("storage::a_volume_is_made_and_deleted", a_volume_is_made_and_deleted),
];

fn metadata_is_kept() {
    let cloud = Cloud::new();
    let path = format!("{}/metadata", cloud.volume_path(&cloud.data));
    let of = |cloud: &Cloud| {
        cloud.get(&cloud.volume_path(&cloud.data)).json()["volume"]["metadata"].clone()
    };
    let posted = cloud.ask("POST", &path, &[], &json!({"metadata": {"pv": "one", "k": "v"}}));
    assert_eq!((posted.status, posted.json()), (200, json!({"metadata": {"pv": "one", "k": "v"}})));
    let one = format!("{path}/pv");
    let put = cloud.ask("PUT", &one, &[], &json!({"meta": {"pv": "two"}}));
    assert_eq!((put.status, put.json()), (200, json!({"meta": {"pv": "two"}})));
    assert_eq!(cloud.get(&one).json(), json!({"meta": {"pv": "two"}}));
    let deleted = cloud.ask("DELETE", &one, &[], &Value::Null);
    assert_eq!((deleted.status, deleted.body.len()), (200, 0));
    assert_eq!(of(&cloud), json!({"k": "v"}));
    assert_eq!(cloud.ask("DELETE", &one, &[], &Value::Null).status, 404);
    let put = cloud.ask("PUT", &path, &[], &json!({"metadata": {"only": "this"}}));
    assert_eq!((put.status, of(&cloud)), (200, json!({"only": "this"})));
}

fn metadata_is_checked() {
    let cloud = Cloud::new();
    let path = format!("{}/metadata", cloud.volume_path(&cloud.data));
    let long = "x".repeat(256);
    let bad =
        [json!({}), json!({"metadata": {long.as_str(): "v"}}), json!({"metadata": {"": "v"}})];
    for body in bad {
        assert_eq!(cloud.ask("POST", &path, &[], &body).status, 400, "{body}");
    }
    let mismatch = json!({"meta": {"other": "v"}});
    assert_eq!(cloud.ask("PUT", &format!("{path}/key"), &[], &mismatch).status, 400);
    cloud.server.world().volume_mut("data").set_status("maintenance");
    assert_eq!(cloud.ask("POST", &path, &[], &json!({"metadata": {"k": "v"}})).status, 400);
}

fn names(cloud: &Cloud, query: &str) -> Vec<String> {
    let list = cloud.get(&format!("/volume/v3/{}/volumes{query}", cloud.project)).json();
    let volumes = list["volumes"].as_array().cloned().unwrap_or_default();
    volumes.iter().map(|volume| volume["name"].as_str().unwrap_or("").to_owned()).collect()
}

fn volumes_are_found_by_what_they_have() {
    let world = World::demo().volume("one", 1).volume("two", 1).with(|world| {
        world.volume_mut("two").metadata.insert("pv".to_owned(), json!("pvc-2"));
        world.volume_mut("one").set_status("error");
        world.add_volume("hidden", "44444444-4444-4444-8444-444444444444", 1, "other");
    });
    let cloud = Cloud::of(world);
    assert_eq!(names(&cloud, ""), ["data", "two", "one"]);
    assert_eq!(names(&cloud, "/detail?name=one"), ["one"]);
    assert_eq!(names(&cloud, "?name=on"), Vec::<String>::new());
    assert_eq!(names(&cloud, "/detail?metadata=%7B%27pv%27%3A+%27pvc-2%27%7D"), ["two"]);
    assert_eq!(names(&cloud, "?metadata=%7B%22pv%22%3A%22pvc-3%22%7D"), Vec::<String>::new());
    assert_eq!(names(&cloud, "?status=error"), ["one"]);
}

fn lists_have_pages() {
    let cloud = Cloud::of(World::demo().volume("one", 1).volume("two", 1));
    let path = format!("/volume/v3/{}/volumes?limit=2", cloud.project);
    let first = cloud.get(&path).json();
    let next = first["volumes_links"][0]["href"].as_str().expect("a next page");
    let next = next.strip_prefix(&cloud.server.url()).expect("ours");
    let second = cloud.get(next).json();
    assert_eq!(
        (&second["volumes"][0]["name"], second["volumes"].as_array().map(Vec::len)),
        (&json!("one"), Some(1))
    );
    assert!(second["volumes_links"].is_null());
    cloud.server.world().settings.page = 1;
    let first = cloud.get("/compute/v2.1/servers?name=%5E%5Bab%5D%24").json();
    let next = first["servers_links"][0]["href"].as_str().expect("a next page");
    assert!(next.contains("name=%5E%5Bab%5D%24"), "the filter goes along: {next}");
    let next = next.strip_prefix(&cloud.server.url()).expect("ours");
    assert_eq!(cloud.get(next).json()["servers"][0]["name"], "a");
}

fn a_cloud_without_the_guard() {
    let cloud = Cloud::new();
    cloud.server.world().attached("data", "a");
    let attachment = cloud.server.world().volume_mut("data").attachments[0].id.clone();
    let path = format!("/volume/v3/{}/attachments/{attachment}", cloud.project);
    let version = [("OpenStack-API-Version", "volume 3.44")];
    let delete = || cloud.ask("DELETE", &path, &version, &Value::Null).status;
    assert_eq!(delete(), 409);
    cloud.server.world().settings.guard = false;
    assert_eq!((delete(), delete()), (200, 404));
    assert_eq!((cloud.status().as_str(), cloud.is_listed(&cloud.a)), ("available", true));
}

fn the_project_may_be_left_out() {
    let cloud = Cloud::new();
    let path = format!("/volume/v3/volumes/{}", cloud.data);
    let get = |version: &str| {
        cloud.ask("GET", &path, &[("OpenStack-API-Version", version)], &Value::Null).status
    };
    assert_eq!((get("volume 3.66"), get("volume 3.67")), (400, 200));
}

fn a_volume_is_made_and_deleted() {
    let cloud = Cloud::new();
    let path = format!("/volume/v3/{}/volumes", cloud.project);
    let made = cloud.ask("POST", &path, &[], &json!({"volume": {"size": 1, "name": "new"}}));
    assert_eq!((made.status, &made.json()["volume"]["status"]), (202, &json!("creating")));
    assert!(cloud.server.wait_idle());
    let id = cloud.server.world().volume_id("new");
    assert_eq!(cloud.get(&cloud.volume_path(&id)).json()["volume"]["status"], "available");
    assert_eq!(cloud.ask("DELETE", &cloud.volume_path(&id), &[], &Value::Null).status, 202);
    assert_eq!(cloud.get(&cloud.volume_path(&id)).status, 404);
}
