//! A detach succeeds only if the volume is certainly not attached to the node, whatever the cloud calls its server.

use crate::scene::Scene;

/// The node's Kubernetes name, which is no server's.
const MASTER: &str = "master2";

/// A machine with this name and these lines in its configuration; the controller-manager's has no node name.
fn controller(scene: &Scene, name: &str, more: &str) -> crate::support::Node {
    let node = scene.neighbour(name);
    crate::scene::configure(&node, &scene.cloud, more);
    node
}

/// The volume is at `node-b`, which Kubernetes calls `master2`.
fn attached_to_master() -> Scene {
    let scene = Scene::of_immediate();
    let more = format!("node.servers = {{ {MASTER:?} = {:?} }}", scene.server("node-b"));
    controller(&scene, "kubelet", &more).must(scene.attach(MASTER));
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
    scene
}

/// Detach by the name of the volume, by the id, and by the id alone; and the question.
#[track_caller]
fn is_in_doubt(scene: &Scene, node: &crate::support::Node) {
    let by_id = ["detach".to_owned(), scene.volume.clone(), MASTER.to_owned()];
    let exactly = ["detach".to_owned(), format!("id:{}", scene.volume), MASTER.to_owned()];
    for call in [scene.detach(MASTER), by_id, exactly, scene.is_attached(MASTER)] {
        let message = node.fails(call);
        assert!(message.contains("node.servers") && message.contains("node.name"), "{message}");
        assert!(message.contains(&scene.server("node-b")), "{message}");
    }
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
}

#[test]
fn a_name_without_a_server_is_not_detached() {
    let scene = attached_to_master();
    is_in_doubt(&scene, &controller(&scene, "controller", ""));
    // Its entry is all that was missing.
    let more = format!("node.servers = {{ {MASTER:?} = {:?} }}", scene.server("node-b"));
    controller(&scene, "controller", &more).must(scene.detach(MASTER));
    assert!(scene.attached_to().is_empty());
    // Attached nowhere, it is detached from every name.
    controller(&scene, "controller", "").must(["detach", &scene.volume, MASTER]);
}

/// A volume that the driver before this one attached has no name recorded: the cloud alone calls it so.
#[test]
fn a_volume_of_another_driver_is_not_detached_from_an_unknown_name() {
    let scene = Scene::of_immediate();
    scene.cloud.world().attached("data", "node-b");
    let free = scene.server("node-a");
    for more in [String::new(), format!("node.servers = {{ {MASTER:?} = {free:?} }}")] {
        scene.configure(&more);
        let message = scene.node.fails(["detach", "data", MASTER]);
        assert!(message.contains("node.servers"), "{message}");
    }
    scene.node.must(["detach", "data", "node-a"]);
    assert_eq!(scene.attached_to(), [scene.server("node-b")]);
}

#[test]
fn a_name_that_stands_for_a_deleted_server_is_not_detached() {
    let scene = attached_to_master();
    let deleted = "11111111-2222-4333-8444-555555555555";
    let more = format!("node.servers = {{ {MASTER:?} = {deleted:?} }}");
    is_in_doubt(&scene, &controller(&scene, "controller", &more));
}

#[test]
fn a_name_that_stands_for_another_server_is_not_detached() {
    let scene = attached_to_master();
    scene.cloud.world().add_server("node-c", "11111111-2222-4333-8444-555555555555", "demo");
    let more = format!("node.servers = {{ {MASTER:?} = {:?} }}", scene.server("node-c"));
    is_in_doubt(&scene, &controller(&scene, "controller", &more));
    // Not even if a second entry is wrong too, where the cloud knows the server by the node's name.
    MASTER.clone_into(&mut scene.cloud.world().server_mut("node-b").name);
    let server = scene.attached_to().remove(0);
    let more = format!(
        "node.servers = {{ {MASTER:?} = {:?}, \"worker\" = {server:?} }}",
        scene.server("node-c")
    );
    controller(&scene, "controller", &more).fails(scene.detach(MASTER));
    assert_eq!(scene.attached_to(), [server]);
}

#[test]
fn this_machines_server_is_another_nodes_only_if_its_name_is_known() {
    let scene = attached_to_master();
    let more = format!("node.server_id = {:?}", scene.server("node-b"));
    // `node.name` of this machine is `known`: then it is not master2.
    controller(&scene, "known", &more).must(scene.detach(MASTER));
    let unknown = controller(&scene, "unknown", &more);
    let path = unknown.config_path();
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, text.replace("node.name = \"unknown\"\n", "")).unwrap();
    is_in_doubt(&scene, &unknown);
}

/// What belongs to another node for certain keeps no detach from its end.
#[test]
fn a_volume_that_another_node_has_is_detached() {
    let scene = attached_to_master();
    let (server, free) = (scene.server("node-b"), scene.server("node-a"));
    // The cloud knows exactly one server by the node's name; the name is a server's id.
    let plain = controller(&scene, "controller", "");
    for node in ["node-a", free.as_str(), "11111111-2222-4333-8444-555555555555"] {
        plain.must(scene.detach(node));
        assert_eq!(plain.must(scene.is_attached(node))["attached"], false);
    }
    // The server that has it is a known node's; the name stands for none, or for one.
    let more = format!("node.servers = {{ \"worker\" = {server:?} }}");
    controller(&scene, "controller", &more).must(scene.detach(MASTER));
    let more = format!("node.servers = {{ \"worker\" = {server:?}, {MASTER:?} = {free:?} }}");
    controller(&scene, "controller", &more).must(scene.detach(MASTER));
    assert_eq!(scene.attached_to(), [server]);
}
