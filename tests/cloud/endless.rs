//! What a cloud may send without an end, and what the driver takes of it.

use crate::scene::Scene;
use crate::server::Fault;
use serde_json::json;
use std::time::{Duration, Instant};

/// At fee4868 the call took all of it into its memory.
#[test]
fn an_answer_without_an_end_is_a_failure_that_names_the_service() {
    for (service, path, name) in [
        ("identity", "/auth/tokens", "Keystone"),
        ("compute", "/servers/**", "Nova"),
        ("volume", "/volumes/**", "Cinder"),
    ] {
        let scene = Scene::new();
        scene.cloud.fault(Fault::on("*", path).service(service).always().endless());
        let message = scene.node.fails(scene.attach("node-a"));
        assert!(
            message.contains("does not end its answer: more than 8 MiB"),
            "{service}: {message}"
        );
        assert!(message.contains(name), "{service}: {message}");
        assert!(message.contains("is it the cloud's service"), "{message}");
    }
}

#[test]
fn an_answer_that_drips_ends_with_the_call() {
    let scene = Scene::new();
    scene.configure("deadline.isattached = 3");
    let drip = Fault::on("GET", "/**").service("volume").always().endless();
    scene.cloud.fault(drip.trickle(Duration::from_millis(20)));
    let begin = Instant::now();
    let message = scene.node.fails(scene.is_attached("node-a"));
    assert!(begin.elapsed() < Duration::from_secs(8), "{message}");
    assert!(message.contains("Cinder"), "{message}");
}

/// A thousand times deeper than a reader's stack, and longer than a message.
#[test]
fn nested_and_long_answers_are_failures_in_one_short_line() {
    for body in ["[".repeat(2_000_000), "\u{1b}[2J\u{202e}é\n".repeat(300_000)] {
        let scene = Scene::new();
        let fault = Fault::on("GET", "/**").service("volume").always();
        scene.cloud.fault(fault.reply(400, json!(body)));
        let message = scene.node.fails(scene.is_attached("node-a"));
        assert!(message.len() < 1200 && message.contains("answered 400"), "{message}");
        assert!(!message.contains(['\u{1b}', '\u{202e}']), "{message}");
    }
}

/// At fee4868 fifty pages were asked for before the list was given up.
#[test]
fn a_list_whose_next_page_is_itself_is_a_failure() {
    let scene = Scene::new();
    let next = json!([{"rel": "next", "href": "http://x/servers/detail?marker=m"}]);
    let page = json!({"servers": [], "servers_links": next});
    scene.cloud.fault(Fault::on("GET", "/servers/**").always().reply(200, page));
    let before = scene.cloud.counters().total;
    let message = scene.node.fails(scene.is_attached("node-c"));
    assert!(message.contains("lists without an end"), "{message}");
    assert!(scene.cloud.counters().total - before < 12, "{}", scene.cloud.counters().total);
}
