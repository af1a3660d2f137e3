//! What stands in `examples` for the cluster: Kubernetes knows all of it, and it calls what the driver has.

use crate::kubernetes::check;
use crate::support::promtool;
use incloud_disk::cli::{self, Verb, Wanted};
use incloud_disk::node::kubelet::USUAL_PLUGIN_DIR;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

#[track_caller]
fn example(name: &str) -> String {
    fs::read_to_string(path_of(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[track_caller]
fn read<T: DeserializeOwned>(name: &str) -> T {
    serde_saphyr::from_str(&example(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every object of `examples`, with the file's name.
fn manifests() -> Vec<(&'static str, Value)> {
    let files = ["pv", "pvc", "pod", "statefulset", "daemonset", "node-problem-detector"];
    let of_file = |name| objects(&format!("{name}.yaml")).into_iter().map(move |one| (name, one));
    files.into_iter().flat_map(of_file).collect()
}

#[test]
fn kubernetes_knows_every_key() {
    for (name, object) in manifests() {
        check(&object).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Each value of another type is found, and each key that is misspelt but in the maps where all keys are allowed.
#[test]
fn a_manifest_that_is_wrong_is_told() {
    const FREE: [&str; 7] =
        ["labels", "matchLabels", "nodeSelector", "data", "options", "requests", "capacity"];
    for (name, good) in manifests() {
        for place in places(&good) {
            let mut wrong = good.clone();
            *wrong.pointer_mut(&place).unwrap() = json!([[]]);
            assert!(check(&wrong).is_err(), "{name}: {place}");

            let (parent, key) = place.rsplit_once('/').unwrap();
            let mut wrong = good.clone();
            let Some(parent_object) = wrong.pointer_mut(parent).unwrap().as_object_mut() else {
                continue;
            };
            let value = parent_object.remove(&key.replace("~1", "/")).unwrap();
            parent_object.insert(format!("{key}s"), value);
            let is_free = FREE.iter().any(|free| parent.ends_with(&format!("/{free}")));
            assert_eq!(check(&wrong).is_ok(), is_free, "{name}: {place}");
        }
    }
}

/// Pointers to all that is below.
fn places(value: &Value) -> Vec<String> {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(all) => all.iter().map(|(key, one)| (key.replace('/', "~1"), one)).collect(),
        Value::Array(all) => all.iter().enumerate().map(|(n, one)| (n.to_string(), one)).collect(),
        _ => Vec::new(),
    };
    let with_below = |(key, one): &(String, &Value)| {
        let inner = places(one).into_iter().map(move |place| format!("/{key}{place}"));
        std::iter::once(format!("/{key}")).chain(inner).collect::<Vec<_>>()
    };
    below.iter().flat_map(with_below).collect()
}

/// The API server refuses a set whose selector does not take its own pods, and names that are none.
#[test]
fn the_sets_take_their_own_pods() {
    for name in ["daemonset.yaml", "statefulset.yaml"] {
        let set: Value = read(name);
        let spec = &set["spec"];
        let labels = &spec["template"]["metadata"]["labels"];
        for (key, value) in spec["selector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(&labels[key], value, "{name}");
        }
        let pod = &spec["template"]["spec"];
        let claims = spec["volumeClaimTemplates"].as_array().cloned().unwrap_or_default();
        let mut volumes: Vec<_> =
            claims.iter().map(|claim| claim["metadata"]["name"].clone()).collect();
        volumes.extend(pod["volumes"].as_array().into_iter().flatten().map(|v| v["name"].clone()));
        let containers = ["initContainers", "containers"].map(|key| pod[key].as_array());
        for container in containers.into_iter().flatten().flatten() {
            for mount in container["volumeMounts"].as_array().unwrap() {
                assert!(volumes.contains(&mount["name"]), "{name}: {mount}");
            }
        }
    }
}

#[test]
fn the_claim_of_the_stateful_set_is_the_one_that_the_volume_waits_for() {
    let (set, volume): (Value, Value) = (read("statefulset.yaml"), read("pv.yaml"));
    let claim = &set["spec"]["volumeClaimTemplates"][0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let name = format!("{}-{}-0", text(&claim["metadata"]["name"]), text(&set["metadata"]["name"]));
    assert_eq!(volume["spec"]["claimRef"]["name"], name.as_str());
    assert_eq!(volume["spec"]["claimRef"]["namespace"], set["metadata"]["namespace"]);
    // As in the documents: shop/prometheus-0.
    assert_eq!(set["metadata"]["namespace"], "shop");
    assert_eq!(claim["spec"]["volumeName"], volume["metadata"]["name"]);
    assert_eq!(claim["spec"]["accessModes"], volume["spec"]["accessModes"]);
    assert_eq!(claim["spec"]["storageClassName"], volume["spec"]["storageClassName"]);
    assert_eq!(
        claim["spec"]["resources"]["requests"]["storage"],
        volume["spec"]["capacity"]["storage"]
    );
}

/// The objects of a file that has several.
fn objects(name: &str) -> Vec<Value> {
    let text = example(name);
    let parts = text.split("\n---\n").map(serde_saphyr::from_str);
    parts.map(|part| part.unwrap_or_else(|error| panic!("{name}: {error}"))).collect()
}

/// The monitor of node-problem-detector: where the driver is, in words that it has, and in time.
#[test]
fn the_monitor_calls_what_there_is() {
    let all = objects("node-problem-detector.yaml");
    let of = |kind: &str| all.iter().find(|one| one["kind"] == kind).unwrap();
    let file = of("ConfigMap")["data"]["incloud-disk.json"].as_str().unwrap();
    let monitor: Value = serde_json::from_str(file).unwrap();
    let rule = &monitor["rules"][0];
    assert_eq!(rule["path"], format!("/host{USUAL_PLUGIN_DIR}/incloud~disk/disk"));
    assert_eq!(rule["condition"], monitor["conditions"][0]["type"]);
    let seconds = |value: &Value| {
        let text = value.as_str().unwrap().strip_suffix('s').unwrap();
        text.parse::<u64>().unwrap()
    };
    let config = &monitor["pluginConfig"];
    assert!(seconds(&rule["timeout"]) <= seconds(&config["timeout"]));
    assert!(seconds(&config["timeout"]) < seconds(&config["invoke_interval"]));
    let words = rule["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().into());
    let Wanted::Verb(Verb::Node { words, .. }) = cli::read(words.collect(), || false) else {
        panic!("{rule}")
    };
    assert_eq!(words, ["status", "--check"]);
    let read = cli::read(words.iter().map(Into::into).collect(), || false);
    assert!(matches!(read, Wanted::Verb(Verb::Look(_))), "{read:?}");
    let pod = &of("DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(pod["hostPID"], true);
    assert_eq!(pod["containers"][0]["securityContext"]["privileged"], true);
}

/// The words that the `DaemonSet` gives to the driver are words of the driver.
#[test]
fn the_daemon_set_calls_what_there_is() {
    let set: Value = read("daemonset.yaml");
    let pod = &set["spec"]["template"]["spec"];
    let words = |value: &Value| {
        let all = value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned());
        all.collect::<Vec<_>>()
    };
    let probe = words(&pod["containers"][0]["readinessProbe"]["exec"]["command"]);
    // The image's own word for it, and the release that it is made of.
    let image = example("Dockerfile");
    assert!(image.contains(&format!("\nENTRYPOINT [\"{}\"]\n", probe[0])), "{image}");
    assert!(image.contains("\nFROM scratch\n") && image.contains("\nCOPY ${RELEASE}/ /\n"));
    assert_eq!(probe[0], "/disk");
    for words in [
        words(&pod["initContainers"][0]["args"]),
        words(&pod["containers"][0]["args"]),
        probe[1..].to_vec(),
    ] {
        let arguments: Vec<std::ffi::OsString> = words.iter().map(Into::into).collect();
        let incloud_disk::cli::Wanted::Verb(incloud_disk::cli::Verb::Node { words, .. }) =
            incloud_disk::cli::read(arguments, || false)
        else {
            panic!("no verb: {words:?}");
        };
        assert!(incloud_disk::node::options::read(&words).is_ok(), "{words:?}");
    }
    // A process that enters the machine's root sees its processes and may change it.
    assert_eq!(pod["hostPID"], true);
    for container in [&pod["initContainers"][0], &pod["containers"][0]] {
        assert_eq!(container["securityContext"]["privileged"], true);
        assert_eq!(container["volumeMounts"][0]["mountPath"], "/host");
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Kubeadm<Arguments> {
    api_version: String,
    kind: String,
    controller_manager: ControlPlaneComponent<Arguments>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ControlPlaneComponent<Arguments> {
    extra_args: Arguments,
    #[serde(default)]
    extra_volumes: Vec<HostPathMount>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Argument {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct HostPathMount {
    name: String,
    host_path: String,
    mount_path: String,
    read_only: bool,
    path_type: String,
}

/// kubeadm refuses what it does not know, and its types are not in any schema that Kubernetes
/// publishes: these are theirs of v1beta2 and v1beta4.
#[test]
fn kubeadm_is_told_in_its_own_words() {
    let before: Kubeadm<BTreeMap<String, String>> = read("kubeadm-before-1.36.yaml");
    assert_eq!(before.api_version, "kubeadm.k8s.io/v1beta2");
    assert_eq!(before.kind, "ClusterConfiguration");
    assert!(before.controller_manager.extra_args["flex-volume-plugin-dir"].starts_with('/'));
    assert!(before.controller_manager.extra_volumes.is_empty());

    let from: Kubeadm<Vec<Argument>> = read("kubeadm-from-1.36.yaml");
    assert_eq!(from.api_version, "kubeadm.k8s.io/v1beta4");
    assert_eq!(from.kind, "ClusterConfiguration");
    let (arguments, volumes) =
        (from.controller_manager.extra_args, from.controller_manager.extra_volumes);
    let ([argument], [volume]) = (&arguments[..], &volumes[..]) else { panic!("one of each") };
    assert_eq!(argument.name, "flex-volume-plugin-dir");
    assert_eq!(argument.value, volume.mount_path);
    assert_eq!(volume.host_path, volume.mount_path);
    assert!(volume.read_only && !volume.name.is_empty());
    assert_eq!(volume.path_type, "DirectoryOrCreate");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    rules: Vec<Alert>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alert {
    #[serde(rename = "alert")]
    name: String,
    expr: String,
    #[serde(rename = "for", default)]
    lasts: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[test]
fn the_alerts_are_whole_and_name_what_the_driver_measures() {
    let rules: Rules = read("alerts.yaml");
    for group in rules.groups {
        assert!(!group.name.is_empty() && !group.rules.is_empty());
        for rule in group.rules {
            assert!(["critical", "warning"].contains(&rule.labels["severity"].as_str()));
            for key in ["summary", "description"] {
                assert!(!rule.annotations[key].is_empty(), "{}: {key}", rule.name);
            }
            assert!(rule.lasts.is_empty() || rule.lasts.ends_with('m'), "{}", rule.name);
            asks_for_what_is_measured(&rule.expr);
        }
    }
}

/// Each metric of the query is one that the driver writes.
#[track_caller]
pub fn asks_for_what_is_measured(query: &str) {
    let metrics = fs::read_to_string(path_of("../src/model/report/metrics.rs")).unwrap();
    let source: String = metrics.split_whitespace().collect();
    let name = regex_lite::Regex::new("incloud_disk_([a-z_]+)").unwrap();
    let used: Vec<_> = name.captures_iter(query).map(|found| found[1].to_owned()).collect();
    assert!(!used.is_empty(), "{query}: no metric of ours");
    for one in used {
        let base = one.strip_suffix("_bucket").unwrap_or(&one);
        // A state of volumes is written with its beginning.
        let base = base.strip_suffix("_since_timestamp_seconds").unwrap_or(base);
        assert!(source.contains(&format!("(\"{base}\",\"")), "{query}: {one}");
    }
}

/// Prometheus reads the alerts, and each of them fires when it must and not before.
#[test]
fn prometheus_takes_the_alerts() {
    let test = "prometheus_takes_the_alerts";
    for (words, file) in [("check rules", "alerts.yaml"), ("test rules", TRIALS)] {
        let path = path_of(file);
        let words: Vec<&OsStr> = words.split(' ').map(OsStr::new).collect();
        let words = [&words[..], &[path.as_os_str()]].concat();
        let Some((is_content, said)) = promtool(test, &words, None) else { return };
        assert!(is_content, "{said}");
    }
}

const TRIALS: &str = "../tests/contract/alerts_trials.yaml";

/// No alert is left out of them.
#[test]
fn every_alert_is_tried() {
    let rules: Rules = read("alerts.yaml");
    let trials = example(TRIALS);
    for rule in rules.groups.iter().flat_map(|group| &group.rules) {
        assert!(trials.contains(&format!("alertname: {}\n", rule.name)), "{}", rule.name);
    }
}
