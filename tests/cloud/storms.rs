//! Bad hours: many calls at once, a cloud that is full, slow or broken.

use crate::scene::Scene;
use crate::server::Fault;
use crate::support::{Answer, spawn};

#[test]
fn two_hundred_calls_at_once_cost_one_login_and_few_questions() {
    let scene = Scene::new();
    let started: Vec<_> =
        (0..200).map(|_| spawn(scene.node.command(scene.is_attached("node-b")))).collect();
    for (child, output) in started {
        let answer = Answer::finish(child, output);
        assert_eq!(answer.json["attached"], false, "{}", answer.text);
    }
    let counters = scene.cloud.counters();
    assert_eq!(counters.logins, 1);
    // They start over some seconds, and an answer serves for one and a half.
    assert!(counters.total < 60, "{counters:?}");
}

#[test]
fn a_cloud_that_asks_for_a_pause_gets_it_and_the_call_succeeds() {
    let scene = Scene::new();
    scene.node.must(scene.is_attached("node-b"));
    scene.cloud.fault(Fault::on("GET", "/volumes/*").proxy(429).header("Retry-After", "1"));
    assert_eq!(scene.node.must(scene.is_attached("node-b"))["attached"], false);
}

#[test]
fn a_broken_service_is_an_error_and_never_a_no() {
    let scene = Scene::new();
    scene.node.must(scene.attach("node-b"));
    scene.node.configure("");
    crate::scene::configure(&scene.node, &scene.cloud, "deadline.isattached = 3");
    scene.cloud.fault(Fault::on("GET", "/volumes/*").proxy(500).always());
    let message = scene.node.fails(scene.is_attached("node-b"));
    assert!(message.contains("Cinder"), "{message}");
}

/// What a call costs the cloud: requests, the login among them where there is no token yet.
#[test]
fn the_requests_of_each_call_are_counted() {
    let scene = Scene::of_immediate();
    let cost = |call: [String; 3]| {
        scene.cloud.reset_counters();
        scene.node.must(call);
        scene.cloud.counters().total
    };
    // Login, server by name, volume, mapping, name record, attach, volume.
    assert_eq!(cost(scene.attach("node-b")), 7, "attach, cold");
    assert_eq!(cost(scene.attach("node-b")), 2, "attached already: server and volume");
    assert_eq!(cost(scene.is_attached("node-b")), 2, "isattached: server and volume");
    assert_eq!(cost(scene.is_attached("node-b")), 0, "isattached within a moment");
    // Server, volumes of that name, the volume twice, detach, volume, mapping, volume, record.
    assert_eq!(cost(scene.detach("node-b")), 9, "detach");
}
