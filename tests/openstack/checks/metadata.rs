//! The metadata service.

use super::cloud::Cloud;
use crate::client::{Answer, ask};
use crate::runner::Test;
use crate::server::Fault;

pub(super) const TESTS: &[Test] = &[
    ("metadata::a_server_learns_who_it_is", a_server_learns_who_it_is),
    ("metadata::unknown_metadata_is_not_found", unknown_metadata_is_not_found),
    (
        "metadata::it_is_counted_and_fails_like_any_service",
        it_is_counted_and_fails_like_any_service,
    ),
];

const PATH: &str = "/openstack/latest/meta_data.json";

/// Asks without a token.
fn get(cloud: &Cloud, path: &str) -> Answer {
    ask(&cloud.server.metadata_url(), "GET", path, &[], "").expect("an answer")
}

fn a_server_learns_who_it_is() {
    let cloud = Cloud::new();
    for (name, id) in [("a", &cloud.a), ("b", &cloud.b)] {
        // By name and by id.
        for asking in [name, id] {
            cloud.server.world().settings.metadata_of = Some(asking.to_owned());
            let answer = get(&cloud, PATH);
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("Content-Type"), Some("application/json"));
            let body = answer.json();
            assert_eq!((&body["uuid"], &body["name"]), (&id.as_str().into(), &name.into()));
            assert_eq!(body["hostname"], format!("{name}.novalocal"));
            assert_eq!(body["project_id"], cloud.project);
            assert_eq!(body["availability_zone"], "nova");
        }
    }
}

fn unknown_metadata_is_not_found() {
    let cloud = Cloud::new();
    assert_eq!(get(&cloud, PATH).status, 404, "no server asks");
    cloud.server.world().settings.metadata_of = Some("a".to_owned());
    for path in ["/openstack", "/openstack/latest", "/openstack/2099-01-01/meta_data.json"] {
        assert_eq!(get(&cloud, path).status, 404, "{path}");
    }
    assert_eq!(cloud.ask("POST", PATH, &[], &serde_json::Value::Null).status, 404);
    assert_eq!(get(&cloud, PATH).status, 200);
}

fn it_is_counted_and_fails_like_any_service() {
    let cloud = Cloud::new();
    cloud.server.world().settings.metadata_of = Some("a".to_owned());
    cloud.server.fault(Fault::on("GET", "/meta_data.json").service("metadata").proxy(503));
    assert_eq!(get(&cloud, PATH).status, 503);
    assert_eq!(get(&cloud, PATH).status, 200);
    let counters = cloud.server.counters();
    assert_eq!(counters.route("GET metadata/meta_data.json"), 2);
    assert_eq!((counters.total, counters.service("metadata")), (2, 2));
}
