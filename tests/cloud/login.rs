//! Who we are: credentials, tokens kept between processes, and secrets that stay secret.

use crate::scene::Scene;
use crate::server::{Fault, World};
use serde_json::{Value, json};
use std::fs;

#[test]
fn one_login_serves_many_processes() {
    let scene = Scene::new();
    for _ in 0..5 {
        scene.node.must(scene.is_attached("node-b"));
    }
    assert_eq!(scene.cloud.counters().logins, 1);
}

#[test]
fn a_refused_token_costs_one_login_and_no_more() {
    let scene = Scene::new();
    scene.node.must(scene.attach("node-b"));
    scene.cloud.fault(Fault::on("GET", "/volumes/*").unauthorized());
    scene.node.must(scene.is_attached("node-b"));
    assert_eq!(scene.cloud.counters().logins, 2);
}

#[test]
fn a_wrong_password_is_told_without_the_password() {
    let scene = Scene::new();
    let text = fs::read_to_string(scene.node.config_path()).unwrap();
    fs::write(scene.node.config_path(), text.replace("demopass", "hunter2-canary")).unwrap();
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("user demo cannot log in"), "{message}");
    let log = scene.node.log();
    assert!(!message.contains("hunter2") && !log.contains("hunter2"), "{message}");
    assert_eq!(scene.cloud.counters().logins, 1, "a refused login is not tried again");
}

#[test]
fn a_cloud_conf_of_kubernetes_is_enough() {
    let scene = Scene::new();
    let conf = scene.node.base().join("cloud.conf");
    let text = format!(
        "[Global]\nauth-url = {}\nusername = demo\npassword = \"demopass\" ; quoted\n\
         tenant-name = demo\ndomain-name = Default\nunknown = 1\n[LoadBalancer]\nuse-octavia = true\n",
        scene.cloud.auth_url()
    );
    fs::write(&conf, text).unwrap();
    scene.node.configure("");
    let own = fs::read_to_string(scene.node.config_path()).unwrap();
    let own = own.replace(
        "cloud.kind = \"local\"",
        &format!("cloud.kind = \"openstack\"\nopenstack.cloud_conf = {conf:?}"),
    );
    fs::write(scene.node.config_path(), own).unwrap();
    scene.node.must(scene.attach("node-b"));
    fs::write(&conf, "[Global]\n\nauth-url = \"http://x\n").unwrap();
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("cloud.conf: line 3"), "{message}");
}

#[test]
fn of_several_regions_the_configured_one_is_asked_else_all() {
    let mut world = World::demo();
    world.settings.regions = vec!["North".to_owned(), "South".to_owned()];
    let scene = Scene::of(world);
    scene.node.must(scene.attach("node-b"));
    scene.node.must(scene.detach("node-b"));
    scene.configure("openstack.region = \"West\"");
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("North") && message.contains("South"), "{message}");
    scene.configure("openstack.region = \"North\"");
    scene.node.must(scene.attach("node-b"));
}

#[test]
fn a_login_that_meets_a_broken_service_is_tried_again() {
    let scene = Scene::new();
    scene.cloud.fault(Fault::on("POST", "/auth/tokens").proxy(500).times(2));
    assert_eq!(scene.node.must(scene.is_attached("node-b"))["attached"], false);
}

#[test]
fn a_token_that_lives_for_a_minute_serves_all_calls_of_it() {
    let scene = Scene::new();
    scene.cloud.world().settings.token_lifetime = std::time::Duration::from_secs(60);
    for call in [scene.is_attached("node-b"), scene.attach("node-b"), scene.detach("node-b")] {
        scene.node.must(call);
    }
    assert_eq!(scene.cloud.counters().logins, 1, "a login for each call");
}

/// A service that answers with what it was sent: it is in the log by then, and on the screen.
#[test]
fn a_report_has_no_token_and_no_password_that_the_cloud_quotes() {
    let scene = Scene::new();
    scene.node.must(scene.is_attached("node-b"));
    let tokens = fs::read_dir(scene.node.own().join("run/tokens")).unwrap().flatten();
    let kept = tokens.filter_map(|file| fs::read_to_string(file.path()).ok());
    let mut kept = kept.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
    let token = kept.find_map(|kept| Some(kept["token"].as_str()?.to_owned())).expect("a token");
    let said = format!("{token} of demo, who came with demopass, may not do this");
    let body = json!({"forbidden": {"code": 403, "message": said}});
    for path in ["/volumes/*", "/volumes/detail", "/servers/*", "/servers/detail"] {
        scene.cloud.fault(Fault::on("GET", path).always().reply(403, body.clone()));
    }
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("(redacted) of demo"), "it is quoted: {message}");
    for words in [&["report", "--out", "-"][..], &["report", "--text", "--out", "-"]] {
        let text = scene.node.verb(words).unwrap();
        let joined: String = text.split_whitespace().collect();
        assert!(joined.contains("(redacted)ofdemo,whocamewith(redacted)"), "{text}");
        for secret in [&token[..10], &token[token.len() - 10..], "demopass"] {
            assert!(!joined.contains(secret), "{secret}: {text}");
        }
    }
}
