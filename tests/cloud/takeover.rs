//! A volume that stands on the books of a server which cannot use it.

use crate::scene::{Scene, configure};

fn with_policy(policy: &str) -> Scene {
    let scene = Scene::of_immediate();
    scene.node.configure("");
    let more = format!("deadline.attach = 12\ndeadline.detach = 12\nattach.takeover = {policy:?}");
    configure(&scene.node, &scene.cloud, &more);
    scene
}

/// The volume's server died without tidying up: Cinder still lists it.
fn orphaned(policy: &str) -> (Scene, String) {
    let scene = with_policy(policy);
    scene.node.must(scene.attach("node-b"));
    let dead = scene.server("node-b");
    scene.cloud.world().remove_server(&dead, false);
    assert_eq!(scene.attached_to(), [dead.as_str()]);
    (scene, dead)
}

#[test]
fn a_deleted_servers_volume_is_taken_by_policy_alone() {
    let (scene, dead) = orphaned("off");
    let message = scene.node.fails(scene.attach("node-a"));
    assert!(message.contains(&dead) && message.contains("does not exist"), "{message}");
    assert!(message.contains("attach.takeover = "), "what ends it is named: {message}");
    assert_eq!(scene.attached_to(), [dead.as_str()]);

    let (scene, _) = orphaned("deleted");
    scene.node.must(scene.attach("node-a"));
    assert_eq!(scene.attached_to(), [scene.server("node-a")]);
    assert!(scene.node.log().contains("taking the volume"), "{}", scene.node.log());
}

#[test]
fn a_detach_from_a_deleted_server_ends_by_policy_or_names_what_ends_it() {
    let (scene, dead) = orphaned("off");
    let message = scene.node.fails(scene.detach("node-b"));
    assert!(message.contains("volume attachment delete"), "{message}");
    assert_eq!(scene.attached_to(), [dead.as_str()]);

    let (scene, _) = orphaned("deleted");
    scene.node.must(scene.detach("node-b"));
    assert!(scene.attached_to().is_empty());
    scene.node.must(scene.detach("node-b"));
}

#[test]
fn a_stopped_servers_volume_is_taken_by_the_wider_policy_alone() {
    for (policy, is_taken) in [("off", false), ("deleted", false), ("stopped", true)] {
        let scene = with_policy(policy);
        scene.node.must(scene.attach("node-b"));
        "stopped".clone_into(&mut scene.cloud.world().server_mut("node-b").vm_state);
        if is_taken {
            scene.node.must(scene.attach("node-a"));
        } else {
            let message = scene.node.fails(scene.attach("node-a"));
            assert!(message.contains("node-b, SHUTOFF"), "{message}");
        }
        let owner = if is_taken { "node-a" } else { "node-b" };
        assert_eq!(scene.attached_to(), [scene.server(owner)], "{policy}");
    }
}

#[test]
fn a_running_server_keeps_its_volume_under_every_policy() {
    for policy in ["off", "deleted", "stopped"] {
        let scene = with_policy(policy);
        scene.node.must(scene.attach("node-b"));
        let message = scene.node.fails(scene.attach("node-a"));
        assert!(message.contains("Multi-Attach error") && message.contains("node-b"), "{message}");
        assert!(message.contains(" since 20"), "{message}");
        assert_eq!(scene.attached_to(), [scene.server("node-b")]);
    }
}

#[test]
fn an_unfinished_attachment_without_a_server_is_named() {
    let scene = with_policy("stopped");
    let other = scene.server("node-b");
    let id = scene.cloud.world().storage_lists("data", &other, "reserved");
    scene.cloud.world().volume_mut("data").set_status("reserved");
    let message = scene.node.fails(scene.attach("node-a"));
    assert!(message.contains("still reserved") && message.contains(&id), "{message}");
    assert!(message.contains(&other), "{message}");
}
