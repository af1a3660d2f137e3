//! What stands in `examples` is what the driver takes: read as Kubernetes reads it, called as
//! kubelet would call.

use crate::support::Node;
use incloud_disk::configuration::Config;
use regex_lite::Regex;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

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

/// The keys that the configuration's type has in a section, by the error for one that it has not; none where
/// there is no section of that name.
fn fields_of(section: &str) -> Vec<String> {
    let header = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
    let error = Config::parse(&format!("{header}not_a_key = 1"), "x").unwrap_err().cause;
    let Some((_, known)) = error.split_once("there is no key `not_a_key`; there are ") else {
        return Vec::new();
    };
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// All keys below a section, in full.
pub fn keys_below(section: &str) -> Vec<String> {
    let full = |name: String| if section.is_empty() { name } else { format!("{section}.{name}") };
    let mut all = Vec::new();
    for key in fields_of(section).into_iter().map(full) {
        let below = keys_below(&key);
        if below.is_empty() {
            all.push(key);
        } else {
            all.extend(below);
        }
    }
    all
}

/// The keys of the example, in comments too: each with its value, and whether it is in a comment.
fn keys_of_the_example(text: &str) -> BTreeMap<String, (String, bool)> {
    let line = Regex::new(r"^(# )?([a-z_]+) = (.*?)(?: +# .*)?$").unwrap();
    let mut section = "";
    let mut found = BTreeMap::new();
    for one in text.lines() {
        if let Some(name) = one.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some(key) = line.captures(one) {
            let value = (key[3].to_owned(), key.get(1).is_some());
            let before = found.insert(format!("{section}.{}", &key[2]), value);
            assert!(before.is_none(), "{one}");
        }
    }
    found
}

/// The keys in the tables of docs/configuration.md, each with its default.
fn keys_of_the_page() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let page = fs::read_to_string(path).unwrap();
    let mut found = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        for key in cells[1].split('`').skip(1).step_by(2) {
            let before = found.insert(key.to_owned(), cells[2].trim_matches('`').to_owned());
            assert!(before.is_none(), "{row}");
        }
    }
    found
}

#[test]
fn every_key_is_in_the_example_and_on_its_page() {
    let all: BTreeSet<_> = keys_below("").into_iter().collect();
    assert!(all.len() > 50 && all.contains("openstack.limits.burst"), "{all:?}");
    let text = example("config.toml");
    let (example, page) = (keys_of_the_example(&text), keys_of_the_page());
    assert_eq!(example.keys().cloned().collect::<BTreeSet<_>>(), all, "examples/config.toml");
    assert_eq!(page.keys().cloned().collect::<BTreeSet<_>>(), all, "docs/configuration.md");
    for (key, (value, is_comment)) in &example {
        let name = key.rsplit('.').next().unwrap();
        if *is_comment {
            // Without a default it stands in a comment, and is right when it is taken in.
            Config::parse(&text.replace(&format!("# {name} = "), &format!("{name} = ")), "x")
                .unwrap();
        } else if key != "cloud.kind" {
            assert_eq!(&page[key], value, "{key}");
        }
    }
}

#[test]
fn the_example_has_the_defaults() {
    let mut written = Config::parse(&example("config.toml"), "x").unwrap();
    let default = Config::default();
    assert!(written.cloud.kind.take().is_some());
    assert_eq!(format!("{written:?}"), format!("{default:?}"));
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

/// What `./install.sh test fleet` plays where it may; without root this alone.
#[test]
fn the_plays_use_builtin_modules_and_stop_at_the_first_failure() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/ansible");
    for name in [
        "install.yml",
        "rollback.yml",
        "uninstall.yml",
        "tasks/look.yml",
        "tasks/release.yml",
        "tasks/verify.yml",
    ] {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let lines = || text.lines().map(|line| line.trim_start().trim_start_matches("- "));
        let modules: Vec<_> = lines().filter(|line| line.starts_with("ansible.")).collect();
        assert!(!modules.is_empty(), "{name}");
        assert!(
            modules.iter().all(|one| one.starts_with("ansible.builtin.")),
            "{name}: {modules:?}"
        );
        // Within such a block Ansible goes on with the other nodes, and with the next batch.
        let goes_on = ["block:", "rescue:", "always:", "ignore_errors:", "ignore_unreachable:"];
        assert!(!lines().any(|line| goes_on.iter().any(|one| line.starts_with(one))), "{name}");
        if !name.starts_with("tasks/") {
            assert!(text.contains("\n  any_errors_fatal: true\n"), "{name}");
        }
    }
}
