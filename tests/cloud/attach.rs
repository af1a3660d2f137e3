//! Attach, detach and isattached through the binary.

use crate::scene::{PV, Scene, configure};
use crate::server::{Cut, Fault};
use crate::support::{Answer, options, spawn};
use std::time::Duration;

#[test]
fn a_volume_is_attached_and_detached_and_each_call_can_be_repeated() {
    let scene = Scene::new();
    for _ in 0..2 {
        let reply = scene.node.must(scene.attach("node-b"));
        let link = format!("/dev/disk/by-id/virtio-{}", &scene.volume[..20]);
        assert_eq!(reply["device"], link);
        assert_eq!(scene.attached_to(), [scene.server("node-b")]);
    }
    assert_eq!(scene.node.must(scene.is_attached("node-b"))["attached"], true);
    assert_eq!(scene.node.must(scene.is_attached("node-a"))["attached"], false);
    for _ in 0..2 {
        scene.node.must(scene.detach("node-b"));
        assert!(scene.attached_to().is_empty());
    }
    assert_eq!(scene.node.must(scene.is_attached("node-b"))["attached"], false);
    let counters = scene.cloud.counters();
    assert_eq!((counters.attaches[&scene.volume], counters.detaches[&scene.volume]), (1, 1));
}

#[test]
fn detach_finds_the_volume_by_its_name_from_any_machine() {
    let scene = Scene::new();
    scene.node.must(scene.attach("node-b"));
    let replica = scene.neighbour("replica");
    replica.must(scene.detach("node-a"));
    assert_eq!(scene.attached_to(), [scene.server("node-b")], "only what was meant");
    replica.must(scene.detach("node-b"));
    assert!(scene.attached_to().is_empty());
    let metadata = scene.cloud.world().storage.volume(&scene.volume).unwrap().metadata.clone();
    let keys: Vec<_> = metadata.keys().collect();
    assert_eq!(keys, ["incloud-disk-tenure"], "the name goes with the attachment");
}

#[test]
fn a_volume_of_another_server_is_never_taken() {
    let scene = Scene::new();
    scene.node.must(scene.attach("node-b"));
    let message = scene.node.fails(scene.attach("node-a"));
    assert!(
        message.contains("Multi-Attach") && message.contains(&scene.server("node-b")),
        "{message}"
    );
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
}

#[test]
fn of_eight_attaches_from_two_nodes_one_node_wins() {
    let scene = Scene::new();
    let replicas: Vec<_> = (0..8).map(|n| scene.neighbour(&format!("replica-{n}"))).collect();
    let started: Vec<_> = replicas
        .iter()
        .zip(["node-a", "node-b"].iter().cycle())
        .map(|(replica, node)| (*node, spawn(replica.command(scene.attach(node)))))
        .collect();
    let answers: Vec<_> = started
        .into_iter()
        .map(|(node, (child, out))| (node, Answer::finish(child, out)))
        .collect();
    let owners = scene.attached_to();
    let winner = if owners == [scene.server("node-a")] { "node-a" } else { "node-b" };
    assert_eq!(owners, [scene.server(winner)]);
    for (node, answer) in answers {
        let expected = if node == winner { "Success" } else { "Failure" };
        assert_eq!(answer.json["status"], expected, "{node}: {}", answer.text);
        assert!(node == winner || answer.text.contains(&scene.server(winner)), "{}", answer.text);
    }
}

#[test]
fn a_lost_answer_is_found_out_by_looking() {
    for cut in [Cut::Before, Cut::After, Cut::Middle] {
        let scene = Scene::new();
        // The driver's patience follows the call's deadline.
        let more = "deadline.attach = 8\ndeadline.detach = 8";
        scene.node.configure("");
        configure(&scene.node, &scene.cloud, more);
        scene.cloud.fault(Fault::on("POST", "/servers/*/os-volume_attachments").cut(cut));
        scene.node.must(scene.attach("node-b"));
        assert_eq!(scene.attached_to(), [scene.server("node-b")], "{cut:?}");
        scene.cloud.fault(Fault::on("DELETE", "/servers/*/os-volume_attachments/*").cut(cut));
        scene.node.must(scene.detach("node-b"));
        assert!(scene.attached_to().is_empty(), "{cut:?}");
    }
}

#[test]
fn a_volume_or_server_that_does_not_exist_is_told_apart() {
    let scene = Scene::new();
    let gone = "00000000-0000-4000-8000-00000000dead";
    let message = scene.node.fails(["attach", &options(gone, PV, ""), "node-b"]);
    assert!(message.contains(gone) && message.contains("does not exist"), "{message}");
    let message = scene.node.fails(scene.attach("node-x"));
    assert!(message.contains("no server for node node-x"), "{message}");
    assert_eq!(
        scene.node.must(["isattached", &options(gone, PV, ""), "node-b"])["attached"],
        false
    );
    scene.node.must(["detach", gone, "node-b"]);
    scene.node.must(["detach", gone, "node-x"]);
}

/// Every request of a call in turn takes effect, is not answered, and the caller is killed.
#[test]
fn killed_after_each_request_nothing_is_attached_twice_or_left() {
    for is_attach in [true, false] {
        for n in 1.. {
            let scene = Scene::new();
            let call = |scene: &Scene| {
                if is_attach { scene.attach("node-b") } else { scene.detach("node-b") }
            };
            if !is_attach {
                scene.node.must(scene.attach("node-b"));
            }
            scene.cloud.reset_counters();
            scene.cloud.fault(Fault::on("*", "/**").nth(n).hold(Cut::After));
            let (mut child, output) = spawn(scene.node.command(call(&scene)));
            if !scene.cloud.wait_held(1, Duration::from_secs(2)) {
                // It made fewer requests than that: all have been struck.
                let answer = Answer::finish(child, output);
                assert_eq!(answer.json["status"], "Success", "{}", answer.text);
                assert!(n > 4, "a call of only {n} requests");
                break;
            }
            child.kill().unwrap();
            child.wait().unwrap();
            scene.node.must(call(&scene));
            let expected = if is_attach { vec![scene.server("node-b")] } else { Vec::new() };
            assert_eq!(scene.attached_to(), expected, "request {n}, attach: {is_attach}");
            let counters = scene.cloud.counters();
            let changes = if is_attach { counters.attaches } else { counters.detaches };
            assert_eq!(changes.values().sum::<u64>(), 1, "request {n}: {changes:?}");
        }
    }
}
