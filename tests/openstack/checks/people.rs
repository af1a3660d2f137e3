//! Keystone beyond the transcripts: expiry, clocks, revocation, regions, roles, versions.

use super::cloud::Cloud;
use crate::client::{Answer, ask};
use crate::runner::Test;
use crate::server::World;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const TESTS: &[Test] = &[
    ("people::tokens_expire", tokens_expire),
    ("people::a_wrong_clock_shows", a_wrong_clock_shows),
    ("people::revoked_tokens_live_on_in_caches", revoked_tokens_live_on_in_caches),
    ("people::a_default_project_is_taken", a_default_project_is_taken),
    ("people::disabled_and_expired_people", disabled_and_expired_people),
    ("people::the_catalog_has_regions_and_interfaces", the_catalog_has_regions_and_interfaces),
    ("people::readers_may_only_look", readers_may_only_look),
    ("people::versions_are_negotiated", versions_are_negotiated),
];

fn login(cloud: &Cloud, user: &str, password: &str, scope: &Value) -> Answer {
    let user = json!({"name": user, "domain": {"name": "Default"}, "password": password});
    let mut auth = json!({"identity": {"methods": ["password"], "password": {"user": user}}});
    if !scope.is_null() {
        auth["scope"] = scope.clone();
    }
    let body = json!({"auth": auth}).to_string();
    ask(&cloud.server.url(), "POST", "/v3/auth/tokens", &[], &body).expect("an answer")
}

fn demo() -> Value {
    json!({"project": {"name": "demo", "domain": {"id": "default"}}})
}

fn tokens_expire() {
    let cloud = Cloud::frozen();
    cloud.server.advance(Duration::from_secs(3599));
    assert_eq!(cloud.get("/compute/v2.1/servers").status, 200);
    cloud.server.advance(Duration::from_secs(1));
    assert_eq!(cloud.get("/compute/v2.1/servers").status, 401);
    assert_eq!(cloud.get(&cloud.volume_path(&cloud.data)).status, 401);
}

fn a_wrong_clock_shows() {
    let cloud = Cloud::of(World::demo().frozen().with(|world| world.clock.skew = -86_400));
    let token = login(&cloud, "demo", "demopass", &demo());
    let issued = crate::server::clock::stamp(
        cloud.server.world().clock.unix(),
        crate::server::clock::Style::Identity,
    );
    assert_eq!(token.json()["token"]["issued_at"], issued);
    let text = token.header("X-Subject-Token").expect("a token").to_owned();
    let headers = [("X-Auth-Token", text.as_str())];
    let list = ask(&cloud.server.url(), "GET", "/compute/v2.1/servers", &headers, "");
    assert_eq!(list.expect("an answer").status, 200, "the services have the same clock");
}

fn revoked_tokens_live_on_in_caches() {
    let cloud = Cloud::frozen();
    cloud.server.world().settings.token_cache = Duration::from_secs(300);
    cloud.server.world().revoke_all_tokens();
    assert_eq!(cloud.get("/compute/v2.1/servers").status, 200);
    assert_eq!(cloud.get("/identity/v3/auth/catalog").status, 401, "Keystone knows at once");
    cloud.server.advance(Duration::from_secs(300));
    assert_eq!(cloud.get("/compute/v2.1/servers").status, 401);
}

fn a_default_project_is_taken() {
    let cloud = Cloud::new();
    assert!(login(&cloud, "demo", "demopass", &Value::Null).json()["token"]["project"].is_null());
    {
        let mut world = cloud.server.world();
        let project = world.identity.project_id("demo");
        for user in &mut world.identity.users {
            user.default_project = Some(project.clone());
        }
    }
    let token = login(&cloud, "demo", "demopass", &Value::Null).json();
    assert_eq!(token["token"]["project"]["id"], cloud.project);
    let token = login(&cloud, "demo", "demopass", &json!("unscoped")).json();
    assert!(token["token"]["project"].is_null());
}

fn disabled_and_expired_people() {
    let cloud = Cloud::new();
    let change = |change: fn(&mut crate::server::identity::User)| {
        cloud.server.world().identity.users.iter_mut().for_each(change);
    };
    change(|user| user.password_expired = true);
    let expired = login(&cloud, "demo", "demopass", &demo());
    assert_eq!(expired.status, 401);
    assert!(expired.message().contains("password is expired"), "{}", expired.message());
    change(|user| user.enabled = false);
    assert_eq!(login(&cloud, "demo", "demopass", &demo()).status, 401);
    assert_eq!(cloud.get("/compute/v2.1/servers").status, 401, "tokens die with their user");
}

fn the_catalog_has_regions_and_interfaces() {
    let regions = ["RegionOne", "RegionTwo"].map(str::to_owned).to_vec();
    let cloud = Cloud::of(World::demo().with(|world| world.settings.regions = regions));
    "RegionTwo".clone_into(&mut cloud.server.world().server_mut("b").region);
    let token = login(&cloud, "demo", "demopass", &demo()).json();
    let catalog = token["token"]["catalog"].as_array().expect("a catalog");
    let url = |kind: &str, region: &str, interface: &str| {
        let service = catalog.iter().find(|service| service["type"] == kind).expect("a service");
        let endpoints = service["endpoints"].as_array().expect("endpoints");
        let fits = |e: &&Value| e["region"] == region && e["interface"] == interface;
        let endpoint = endpoints.iter().find(fits).expect("an endpoint");
        let url = endpoint["url"].as_str().expect("a url");
        url.strip_prefix(&cloud.server.url()).expect("ours").to_owned()
    };
    assert_eq!(url("compute", "RegionOne", "public"), "/compute/v2.1");
    let second = url("compute", "RegionTwo", "internal");
    assert_eq!(second, "/RegionTwo/internal/compute/v2.1");
    let volumes = url("block-storage", "RegionTwo", "public");
    assert_eq!(volumes, format!("/RegionTwo/volume/v3/{}", cloud.project));
    let names = |path: &str| {
        let list = cloud.get(&format!("{path}/servers")).json();
        let servers = list["servers"].as_array().expect("servers").clone();
        servers.iter().map(|one| one["name"].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names("/compute/v2.1"), names(&second)),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    assert_eq!(cloud.get(&format!("{volumes}/volumes/{}", cloud.data)).status, 404);
}

fn readers_may_only_look() {
    let mut cloud = Cloud::new();
    cloud.token = cloud.server.world().token("reader", "demo");
    assert_eq!(cloud.get(&cloud.volume_path(&cloud.data)).status, 200);
    let refused = cloud.attach(&cloud.a);
    assert_eq!(refused.status, 403);
    assert!(refused.message().starts_with("Policy doesn't allow"), "{}", refused.message());
}

fn versions_are_negotiated() {
    let cloud = Cloud::new();
    cloud.server.world().settings.compute_versions = (1, 60);
    let ask = |version: &str| {
        let headers = [("OpenStack-API-Version", version)];
        let answer = cloud.ask("GET", "/compute/v2.1/servers", &headers, &Value::Null);
        (answer.status, answer.header("OpenStack-API-Version").unwrap_or_default().to_owned())
    };
    assert_eq!(ask("compute 2.60"), (200, "compute 2.60".to_owned()));
    assert_eq!(ask("compute 2.61"), (406, "compute 2.61".to_owned()));
    assert_eq!(ask("compute latest"), (200, "compute 2.60".to_owned()));
    assert_eq!(ask("volume 3.50"), (200, "compute 2.1".to_owned()), "another service's");
    assert_eq!(ask("volume 3.50, compute 2.9"), (200, "compute 2.9".to_owned()));
    let document = cloud.get("/compute/v2.1/").json();
    assert_eq!(document["version"]["version"], "2.60");
}
