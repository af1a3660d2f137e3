//! Kubernetes has another name for a node than its host and its server have.

use crate::scene::{PV, Scene, configure};
use crate::support::kubelets::Attaches;
use crate::support::options;
use crate::two_servers::{Life, PODS};
use std::fs;

/// The name in Kubernetes.
const NODE: &str = "master2";

/// No name is configured; the metadata service says that this machine is the server `node-b`.
fn unnamed() -> Scene {
    let scene = Scene::of_immediate();
    scene.cloud.world().settings.metadata_of = Some("node-b".to_owned());
    configure(&scene.node, &scene.cloud, "");
    let path = scene.node.config_path();
    let url = format!("openstack.metadata_url = {:?}", scene.cloud.metadata_url());
    let text = fs::read_to_string(path).unwrap();
    let text = text.replace("openstack.metadata_url = \"none\"", &url);
    fs::write(path, text.replace("node.name = \"node-a\"\n", "")).unwrap();
    scene.node.has_kubelet(Attaches::KubeletByFlag);
    scene
}

#[test]
fn the_name_that_kubelet_has_is_this_machines() {
    needs!(seams);
    for told in [&["--hostname-override=master2"][..], &["--hostname-override", "Master2"]] {
        let scene = unnamed();
        let message = scene.node.fails(scene.attach(NODE));
        assert!(message.contains("node.servers") && message.contains("node.name"), "{message}");
        scene.node.kubelet_is_told(told);
        scene.node.must(scene.attach(NODE));
        assert_eq!(scene.attached_to(), [scene.server("node-b")]);
        // What is asked for without a name is asked for at the same server.
        scene.node.must(["detach", PV]);
        assert!(scene.attached_to().is_empty());
    }
}

/// kubelet attaches to its own node; a controller to any.
#[test]
fn what_kubelet_attaches_to_another_server_than_this_machine_is_refused() {
    let scene = Scene::of_immediate();
    let kubelet = scene.node.base().join("kubelet");
    std::os::unix::fs::symlink("/bin/sh", &kubelet).unwrap();
    let asked = scene.node.command(scene.attach("node-b"));
    let mut by_kubelet = std::process::Command::new(kubelet);
    by_kubelet.args(["-c", "\"$@\"; exit $?", "kubelet"]).arg(asked.get_program());
    by_kubelet.args(asked.get_args());
    for (name, value) in asked.get_envs() {
        match value {
            Some(value) => by_kubelet.env(name, value),
            None => by_kubelet.env_remove(name),
        };
    }
    let answer = crate::support::Answer::of(by_kubelet);
    assert_eq!(answer.json["status"], "Failure", "{}", answer.text);
    let message = answer.json["message"].as_str().unwrap();
    assert!(message.contains("set node.name = \"node-b\""), "{message}");
    assert!(scene.attached_to().is_empty());
    scene.node.must(scene.attach("node-b"));
}

#[test]
fn a_wait_for_a_disk_at_another_server_names_the_key() {
    let scene = Scene::of_immediate();
    scene.node.must(scene.attach("node-b"));
    let asked = ["waitforattach", "", &options(&scene.volume, PV, "")].map(str::to_owned);
    let message = scene.node.fails(asked);
    assert!(message.contains("node.name (which is node-a now)"), "{message}");
}

/// The configuration has the server of this machine under the name that Kubernetes has for it, and kubelet is not seen.
#[test]
fn what_a_mapped_name_asks_for_at_this_machine_is_guarded_and_healed() {
    needs!(mounts, seams);
    let life = Life::new("ext4");
    let (here, there) = (&life.here, &life.there);
    let more = format!(
        "node.servers = {{ {NODE:?} = {:?} }}\nnode.server_id = {:?}",
        here.server, here.server
    );
    configure(&here.node, &life.cloud, &more);
    life.up(here, "ext4");
    let message = here.detach_as_fails(NODE);
    assert!(message.contains(PODS[0]) || message.contains("mounted"), "{message}");
    let (is_done, said) = there.verb(&["detach", "--force", &life.volume, "node-a"]);
    assert!(is_done, "{said}");
    here.attach_as(NODE);
    let (is_done, said) = here.verb(&["heal"]);
    assert!(is_done && !said.contains("switched"), "the attach has healed: {said}");
    life.down(here);
}
