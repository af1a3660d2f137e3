//! `disk node servers` makes `[node.servers]` from the list of nodes of Kubernetes.

use crate::scene::{Scene, configure};
use serde_json::{Value, json};
use std::fs;

fn node(name: &str, provider: &str, system: &str) -> Value {
    json!({
        "kind": "Node",
        "metadata": {"name": name, "uid": "u"},
        "spec": if provider.is_empty() { json!({}) } else { json!({"providerID": provider}) },
        "status": {"nodeInfo": {"systemUUID": system, "kernelVersion": "5"}},
    })
}

/// What it prints for these nodes, and whether none is left out.
fn servers(scene: &Scene, nodes: &[Value]) -> (String, bool) {
    let path = scene.node.base().join("nodes.json");
    fs::write(&path, json!({"kind": "List", "items": nodes}).to_string()).unwrap();
    let by_file = crate::support::output_of(scene.node.command(["node", "servers"]).arg(&path));
    let mut command = scene.node.command(["node", "servers"]);
    let by_stdin = command.stdin(fs::File::open(path).unwrap()).output().unwrap();
    assert_eq!(by_file.stdout, by_stdin.stdout, "{by_file:?} {by_stdin:?}");
    (String::from_utf8(by_file.stdout).unwrap(), by_file.status.success())
}

#[test]
fn each_node_has_its_server_by_providers_id_or_by_the_machines() {
    let scene = Scene::of_immediate();
    let (a, b) = (scene.server("node-a"), scene.server("node-b"));
    let swapped = |id: &str| {
        let reversed = |part: &str| -> String {
            (0..part.len()).step_by(2).rev().map(|at| &part[at..at + 2]).collect()
        };
        let parts: Vec<_> = id.split('-').collect();
        let head = parts[..3].iter().map(|part| reversed(part));
        head.chain(parts[3..].iter().map(|part| (*part).to_owned())).collect::<Vec<_>>().join("-")
    };
    let nodes = [
        node("master1", &format!("openstack://region/{a}"), ""),
        node("master2", "", &swapped(&b).to_uppercase()),
    ];
    let (said, is_whole) = servers(&scene, &nodes);
    let wanted =
        format!("[node.servers]\n\"master1\" = {a:?} # node-a\n\"master2\" = {b:?} # node-b\n");
    assert_eq!((said.as_str(), is_whole), (wanted.as_str(), true));
    // It is what the configuration takes.
    configure(&scene.node, &scene.cloud, "");
    let path = scene.node.config_path();
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, text + "\n" + &said).unwrap();
    scene.node.must(scene.attach("master2"));
    assert_eq!(scene.attached_to(), [b]);
}

#[test]
fn a_node_whose_server_is_in_doubt_is_left_out_by_name() {
    let scene = Scene::of_immediate();
    let (a, b) = (scene.server("node-a"), scene.server("node-b"));
    let gone = "11111111-2222-4333-8444-555555555555";
    let nodes = [
        node("one", &format!("openstack:///{a}"), &b),
        node("two", "", &a),
        node("three", &format!("openstack:///{gone}"), &b),
        node("four", "", "Not Settable"),
        node("five", "", &b),
    ];
    let (said, is_whole) = servers(&scene, &nodes);
    assert!(!is_whole, "{said}");
    for line in [
        format!("# one is left out: server {a} is also that of two"),
        format!("# two is left out: server {a} is also that of one"),
        format!("# three is left out: the cloud has no server {gone}"),
        "# four is left out: it has neither".to_owned(),
        format!("\"five\" = {b:?} # node-b"),
    ] {
        assert!(said.lines().any(|said| said.starts_with(&line)), "{line}: {said}");
    }
    let output = scene.node.command(["node", "servers", "/dev/null"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("kubectl get nodes -o json"), "{said}");
}
