//! Who we are: credentials, tokens kept between processes, and secrets that stay secret.

use crate::scene::Scene;
use crate::server::Fault;
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
