//! How a machine finds out which server it is, when it is not written down.

use crate::scene::{Scene, configure};
use std::fs;

/// The machine's node name is none of the cloud's; the metadata service knows.
fn asking_metadata() -> Scene {
    let scene = Scene::new();
    scene.cloud.world().settings.metadata_of = Some("node-b".to_owned());
    configure(&scene.node, &scene.cloud, "");
    let text = fs::read_to_string(scene.node.config_path()).unwrap();
    let url = scene.cloud.metadata_url();
    let text = text
        .replace("openstack.metadata_url = \"none\"", &format!("openstack.metadata_url = {url:?}"));
    let text = text.replace("node.name = \"node-a\"", "node.name = \"worker-7.example\"");
    fs::write(scene.node.config_path(), text).unwrap();
    scene
}

#[test]
fn the_metadata_service_tells_and_is_asked_once() {
    let scene = asking_metadata();
    scene.node.must(scene.attach("worker-7.example"));
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
    assert!(scene.node.log().contains("this machine is known in the cloud"));
    // The next process of this boot knows; the service may be away.
    scene.cloud.world().settings.metadata_of = None;
    scene.cloud.reset_counters();
    scene.node.must(scene.attach("worker-7.example"));
    let asked = scene.cloud.counters().routes;
    assert!(!asked.keys().any(|route| route.contains("meta_data")), "{asked:?}");
    // Another node's name is another node's, whatever this machine is.
    let message = scene.node.fails(scene.attach("worker-8"));
    assert!(message.contains("no server for node worker-8"), "{message}");
}

#[test]
fn the_metadata_service_is_never_asked_through_a_proxy() {
    let scene = asking_metadata();
    // A proxy that is not there: a request through it fails.
    let mut command = scene.node.command(scene.attach("worker-7.example"));
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"] {
        command.env(name, "http://127.0.0.1:1");
    }
    command.env("NO_PROXY", "").env("no_proxy", "");
    let text = fs::read_to_string(scene.node.config_path()).unwrap();
    fs::write(scene.node.config_path(), format!("openstack.proxy = \"none\"\n{text}")).unwrap();
    let answer = crate::support::Answer::of(command);
    assert_eq!(answer.json["status"], "Success", "{}", answer.text);
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
}

#[test]
fn the_services_are_asked_through_the_proxy_that_the_environment_names() {
    let scene = Scene::new();
    scene.node.configure("");
    configure(&scene.node, &scene.cloud, "deadline.attach = 3");
    let mut command = scene.node.command(scene.attach("node-b"));
    command.env("http_proxy", "http://127.0.0.1:1").env("NO_PROXY", "").env("no_proxy", "");
    let answer = crate::support::Answer::of(command);
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    assert_eq!(scene.cloud.counters().total, 0, "it went past the proxy");
}

#[test]
fn a_metadata_service_that_says_nothing_useful_leaves_the_name() {
    let scene = asking_metadata();
    let text = fs::read_to_string(scene.node.config_path()).unwrap();
    fs::write(scene.node.config_path(), text.replace("worker-7.example", "node-a")).unwrap();
    scene.cloud.world().settings.metadata_of = None;
    scene.node.must(scene.attach("node-a"));
    assert_eq!(scene.attached_to(), [scene.server("node-a")]);
}
