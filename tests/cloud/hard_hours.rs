//! One part of the cloud hangs, fails or is slow: the calls about its other parts go on.

use crate::scene::Scene;
use crate::server::{Cut, Fault, World};
use crate::support::{options, spawn};
use std::io::PipeReader;
use std::process::Child;
use std::time::Duration;

type Running = (Child, PipeReader);

fn killed(calls: Vec<Running>) {
    for (mut child, _) in calls {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Two servers, and so many volumes named `data-N`.
fn with_volumes(count: usize) -> (Scene, Vec<String>) {
    let names: Vec<String> = (0..count).map(|n| format!("data-{n}")).collect();
    let scene = Scene::of(names.iter().fold(World::demo(), |world, name| world.volume(name, 1)));
    let ids = names.iter().map(|name| scene.cloud.world().volume_id(name)).collect();
    (scene, ids)
}

/// The host of one server does not answer: more calls wait for it than there are places, and calls
/// about another server are answered while they wait.
#[test]
fn a_host_that_hangs_holds_up_only_its_own_server() {
    let (scene, volumes) = with_volumes(10);
    scene.node.must(scene.is_attached("node-a"));
    let slow = scene.server("node-b");
    let path = format!("/servers/{slow}/os-volume_attachments");
    scene.cloud.fault(Fault::on("POST", &path).always().hold(Cut::Before));
    let attach = |(n, id): (usize, &String)| {
        spawn(scene.node.command(["attach", &options(id, &format!("pv-{n}"), ""), "node-b"]))
    };
    let waiting: Vec<_> = volumes.iter().enumerate().map(attach).collect();
    assert!(scene.cloud.wait_held(4, Duration::from_secs(30)));

    scene.configure("deadline.attach = 20\ndeadline.detach = 20\ndeadline.isattached = 20");
    scene.node.must(scene.attach("node-a"));
    assert_eq!(scene.node.must(scene.is_attached("node-a"))["attached"], true);
    assert_eq!(scene.node.must(scene.is_attached("node-b"))["attached"], false);
    scene.node.must(scene.detach("node-a"));
    let mut waiting = waiting;
    let still = waiting.iter_mut().map(|(child, _)| child.try_wait().unwrap());
    assert_eq!(
        still.filter(Option::is_none).count(),
        10,
        "they were answered while all of the others waited"
    );
    killed(waiting);
}

#[test]
fn a_service_that_fails_is_named_with_its_reason_and_the_others_are_asked() {
    let scene = Scene::new();
    scene.node.must(scene.is_attached("node-a"));
    scene.configure("deadline.isattached = 2\ndeadline.attach = 2");
    scene.cloud.fault(Fault::on("*", "/**").service("volume").always().cut(Cut::Before));
    for _ in 0..3 {
        let message = scene.node.fails(scene.is_attached("node-b"));
        assert!(message.contains("Cinder"), "{message}");
    }
    scene.cloud.reset_counters();
    let message = scene.node.fails(scene.attach("node-b"));
    assert!(message.contains("Cinder") && !message.contains("Nova is left"), "{message}");
    let message = scene.node.fails(scene.is_attached("node-b"));
    assert!(message.contains("Cinder") && message.contains("left alone"), "{message}");
    assert!(message.contains("times in a row, last: "), "the cause is told: {message}");
    let asked = scene.cloud.counters().services.get("compute").copied().unwrap_or(0);
    assert!(asked > 0, "Nova is well, and was not asked");
}
