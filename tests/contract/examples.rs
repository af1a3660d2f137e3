//! What stands in `examples` is what the driver takes: read as Kubernetes reads it, called as
//! kubelet would call.

use crate::support::Node;
use incloud_disk::configuration::Config;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn manifest(name: &str) -> Value {
    serde_saphyr::from_str(&example(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The options JSON that kubelet makes of a `PersistentVolume`: all values are strings, keys are
/// sorted.
fn options_of(volume: &Value) -> String {
    let flex = &volume["spec"]["flexVolume"];
    let mut options = Map::new();
    options.insert("kubernetes.io/fsType".into(), flex["fsType"].clone());
    options.insert("kubernetes.io/pvOrVolumeName".into(), volume["metadata"]["name"].clone());
    options.insert("kubernetes.io/readwrite".into(), json!("rw"));
    options.extend(flex["options"].as_object().unwrap().clone());
    assert!(options.values().all(Value::is_string), "{options:?}");
    serde_json::to_string(&options).unwrap()
}

#[test]
fn the_configuration_has_every_key_with_its_default() {
    let text = example("config.toml");
    let (written, default) = (Config::parse(&text, "x").unwrap(), Config::default());
    assert_eq!(written.local.dir, default.local.dir);
    assert_eq!(written.paths.state_dir, default.paths.state_dir);
    assert_eq!(written.paths.run_dir, default.paths.run_dir);
    assert_eq!(written.paths.log_dir, default.paths.log_dir);
    assert_eq!(written.openstack.limits, default.openstack.limits);
    assert_eq!(written.openstack.timeouts, default.openstack.timeouts);
    assert_eq!(written.attach.takeover, default.attach.takeover);
    assert_eq!(written.log.max_files, default.log.max_files);
    assert_eq!((written.guard.mode, written.heal.mode), (default.guard.mode, default.heal.mode));
    assert_eq!(written.guard.remote, default.guard.remote);
    assert_eq!(default.guard.give_up_after, None);
    for call in
        ["attach", "detach", "isattached", "waitforattach", "mountdevice", "mount", "expandfs"]
    {
        assert!(text.contains(&format!("\n{call} = ")), "{call}");
        assert_eq!(written.deadline.of(call), default.deadline.of(call), "{call}");
    }
    // Keys without a default stand there as comments, and are right when they are taken in.
    let node = text.replace("# name = ", "name = ").replace("# server_id = ", "server_id = ");
    let node = node.replace("# servers = ", "servers = ");
    let all = node.replace("# kubelet_root = ", "kubelet_root = ");
    let all = Config::parse(&all, "x").unwrap();
    assert_eq!(all.paths.kubelet_root, Some(PathBuf::from("/var/lib/kubelet")));
    assert!(all.node.name.is_some() && all.node.server_id.is_some());
    assert_eq!(all.node.servers.len(), 1);
    for key in [
        "cloud_conf",
        "clouds_file",
        "cloud",
        "cert_file",
        "key_file",
        "proxy",
        "metadata_url",
        "textfile",
    ] {
        let taken = text.replace(&format!("# {key} = "), &format!("{key} = "));
        assert!(taken != text, "{key}");
        Config::parse(&taken, "x").unwrap();
    }
}

#[test]
fn the_small_configurations_choose_a_cloud_and_leave_the_rest() {
    for (name, kind) in [("config-local.toml", "Local"), ("config-openstack.toml", "OpenStack")] {
        let text = example(name);
        let written = Config::parse(&text, name).unwrap();
        assert_eq!(format!("{:?}", written.cloud.kind), format!("Some({kind})"), "{name}");
        assert_eq!(written.paths.state_dir, Config::default().paths.state_dir);
    }
    // The other way in, too.
    let text = example("config-openstack.toml");
    let (head, _) = text.split_once("auth_url").unwrap();
    Config::parse(&format!("{head}cloud_conf = \"/etc/kubernetes/cloud.conf\""), "x").unwrap();
}

#[test]
fn the_volume_the_claim_and_the_pod_belong_together() {
    let (volume, claim, pod) = (manifest("pv.yaml"), manifest("pvc.yaml"), manifest("pod.yaml"));
    assert_eq!(volume["spec"]["flexVolume"]["driver"], "incloud/disk");
    assert_eq!(claim["spec"]["volumeName"], volume["metadata"]["name"]);
    assert_eq!(volume["spec"]["claimRef"]["name"], claim["metadata"]["name"]);
    assert_eq!(volume["spec"]["claimRef"]["namespace"], claim["metadata"]["namespace"]);
    assert_eq!(claim["spec"]["accessModes"], volume["spec"]["accessModes"]);
    assert_eq!(claim["spec"]["storageClassName"], volume["spec"]["storageClassName"]);
    assert_eq!(
        claim["spec"]["resources"]["requests"]["storage"],
        volume["spec"]["capacity"]["storage"]
    );
    assert_eq!(pod["metadata"]["namespace"], claim["metadata"]["namespace"]);
    let source = &pod["spec"]["volumes"][0];
    assert_eq!(source["persistentVolumeClaim"]["claimName"], claim["metadata"]["name"]);
    assert_eq!(pod["spec"]["containers"][0]["volumeMounts"][0]["name"], source["name"]);
    // Kubernetes refuses a FlexVolume with spec.mountOptions before it calls any driver.
    assert!(volume["spec"].get("mountOptions").is_none());
}

#[test]
fn the_driver_takes_the_example_volume() {
    let (node, volume) = (Node::new(), manifest("pv.yaml"));
    let id = volume["spec"]["flexVolume"]["options"]["volumeID"].as_str().unwrap();
    let name = volume["metadata"]["name"].as_str().unwrap();
    let options = options_of(&volume);
    node.create(id, "1M");
    let reply = node.must(["attach", &options, "node-b"]);
    assert_eq!(reply["device"].as_str().unwrap(), node.link(id).to_str().unwrap());
    assert_eq!(node.must(["isattached", &options, "node-b"])["attached"], true);
    node.must(["detach", name, "node-b"]);
    assert_eq!(node.must(["isattached", &options, "node-b"])["attached"], false);
}

#[test]
fn the_readme_of_the_examples_names_every_file() {
    let readme = example("README.md");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || readme.contains(&format!("`{name}`")), "{name}");
    }
}
