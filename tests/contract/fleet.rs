//! The kustomize base and its overlays, by each kubectl that is here: what they make is known to Kubernetes, calls
//! what the driver has, and shows no secret. A real API server takes them in the scenario `fleet` of `test kubernetes`.

use crate::kubernetes::check;
use crate::support::skip;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use incloud_disk::cli::{self, Verb, Wanted};
use incloud_disk::configuration::Config;
use incloud_disk::model::cloud::access::Written;
use incloud_disk::node::options;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const OVERLAYS: [&str; 3] = ["overlays/local", "overlays/openstack", "overlays/canary"];
/// What stands in the Secret alone.
const SECRET: &str = "replace-me";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/kustomize")
}

#[track_caller]
fn text_of(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Those that are here: of PATH, and the one of `test kubernetes`.
fn kubectls() -> Vec<PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let built = Path::new(&home).join(".cache/incloud-disk/kubernetes/built/usr/bin/kubectl");
    let has_kustomize = |program: &PathBuf| {
        let tried = Command::new(program).args(["kustomize", "--help"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    [PathBuf::from("kubectl"), built].into_iter().filter(has_kustomize).collect()
}

/// A copy, filled in as its first lines say.
fn filled_in() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let status = Command::new("cp").arg("-r").arg(folder()).arg(copy.path()).status().unwrap();
    assert!(status.success());
    let overlay = copy.path().join("kustomize/overlays/openstack");
    fs::copy(overlay.join("cloud.conf.example"), overlay.join("cloud.conf")).unwrap();
    copy
}

#[track_caller]
fn made(kubectl: &Path, copy: &TempDir, name: &str) -> Vec<Value> {
    let folder = copy.path().join("kustomize").join(name);
    let output = Command::new(kubectl).arg("kustomize").arg(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let parts = text.split("\n---\n").map(|part| serde_saphyr::from_str(part).unwrap());
    parts.map(without_broken_lines).collect()
}

/// Newer ones break what a Secret holds into lines, which the API server takes and this reader does not.
fn without_broken_lines(mut object: Value) -> Value {
    if object["kind"] == "Secret" {
        for held in object["data"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
            *held = json!(held.as_str().unwrap().replace('\n', ""));
        }
    }
    object
}

fn of<'all>(objects: &'all [Value], kind: &str) -> &'all Value {
    objects.iter().find(|one| one["kind"] == kind).unwrap_or(&Value::Null)
}

#[track_caller]
fn install_words(set: &Value) -> Vec<String> {
    let args = &set["spec"]["template"]["spec"]["initContainers"][0]["args"];
    let words = args.as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let Wanted::Verb(Verb::Node { words, .. }) =
        cli::read(words.map(Into::into).collect(), || false)
    else {
        panic!("no verb: {args}");
    };
    words
}

/// Calls a test for each kubectl; without one it is skipped.
fn with_each_kubectl(test: &str, body: impl Fn(&Path, &TempDir)) {
    let all = kubectls();
    if all.is_empty() {
        skip(test, "needs kubectl");
    }
    for kubectl in all {
        body(&kubectl, &filled_in());
    }
}

#[test]
fn the_single_file_is_the_one_of_the_base() {
    let link = folder().join("../daemonset.yaml");
    assert_eq!(fs::read_link(link).unwrap(), Path::new("kustomize/base/daemonset.yaml"));
}

#[test]
fn the_overlays_bring_what_the_driver_takes() {
    for overlay in ["overlays/local", "overlays/openstack"] {
        let set: Value =
            serde_saphyr::from_str(&text_of(&format!("{overlay}/configured.yaml"))).unwrap();
        let words = install_words(&set);
        let (_, read) = options::read(&words).unwrap_or_else(|stop| panic!("{words:?}: {stop:?}"));
        assert!(read.config.is_some() && read.consent.replace_config, "{words:?}");
        let config = text_of(&format!("{overlay}/config.toml"));
        assert!(Config::parse(&config, overlay).unwrap().cloud.kind.is_some());
        assert!(!config.contains(SECRET));
    }
    let conf = Written::from_cloud_conf(&text_of("overlays/openstack/cloud.conf.example"), "x");
    assert!(conf.unwrap().auth_url.is_some());
}

/// What a person fills in is no file of the repository.
#[test]
fn credentials_are_not_committed() {
    let ignored = fs::read_to_string(folder().join("../../.gitignore")).unwrap();
    assert!(ignored.lines().any(|line| line == "/examples/kustomize/overlays/*/cloud.conf"));
    let all = Command::new("git").args(["ls-files", "."]).current_dir(folder()).output();
    let Ok(all) = all else { return skip("credentials_are_not_committed", "needs git") };
    let all = String::from_utf8(all.stdout).unwrap();
    assert!(!all.lines().any(|name| name.ends_with("/cloud.conf")), "{all}");
}

#[test]
fn kustomize_makes_what_kubernetes_knows() {
    with_each_kubectl("kustomize_makes_what_kubernetes_knows", |kubectl, copy| {
        let base = made(kubectl, copy, "base");
        let single: Value = serde_saphyr::from_str(&text_of("base/daemonset.yaml")).unwrap();
        assert_eq!(base, [single], "the base adds nothing to the single file");
        for name in OVERLAYS {
            let objects = made(kubectl, copy, name);
            for object in &objects {
                check(object).unwrap();
            }
            let set = of(&objects, "DaemonSet");
            let config = of(&objects, "ConfigMap");
            let pod = &set["spec"]["template"]["spec"];
            let volumes = pod["volumes"].as_array().unwrap();
            let brought = volumes.iter().find(|one| one["name"] == "configuration").unwrap();
            assert_eq!(brought["configMap"]["name"], config["metadata"]["name"], "{name}");
            assert!(volumes.iter().any(|one| one["name"] == "host"), "{name}");
            let install = &pod["initContainers"][0]["volumeMounts"];
            let places: Vec<_> =
                install.as_array().unwrap().iter().map(|one| &one["mountPath"]).collect();
            assert!(places.contains(&&json!("/host")), "{name}: {places:?}");
            if name == "overlays/local" {
                assert_eq!(objects.len(), 2);
                continue;
            }
            let secret = of(&objects, "Secret");
            let brought = volumes.iter().find(|one| one["name"] == "credentials").unwrap();
            assert_eq!(brought["secret"]["secretName"], secret["metadata"]["name"], "{name}");
            assert_eq!(brought["secret"]["defaultMode"], 0o400);
            assert_eq!(secret["metadata"]["namespace"], "kube-system");
            let held = STANDARD.decode(secret["data"]["cloud.conf"].as_str().unwrap()).unwrap();
            assert!(String::from_utf8(held).unwrap().contains(SECRET));
            for other in [set, config] {
                assert!(!other.to_string().contains(SECRET), "{name}");
            }
        }
    });
}

/// By the name of the `ConfigMap`, which the pods of the `DaemonSet` name: so they are other pods.
#[test]
fn what_is_changed_is_rolled_out() {
    with_each_kubectl("what_is_changed_is_rolled_out", |kubectl, copy| {
        let name = "overlays/openstack";
        let before = made(kubectl, copy, name);
        assert_eq!(before, made(kubectl, copy, name));
        for file in ["config.toml", "cloud.conf"] {
            let path = copy.path().join("kustomize").join(name).join(file);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{text}# changed\n")).unwrap();
            let after = made(kubectl, copy, name);
            let template = |all: &[Value]| of(all, "DaemonSet")["spec"]["template"].clone();
            assert_ne!(template(&before), template(&after), "{file}");
            fs::write(&path, text).unwrap();
        }
    });
}

/// An update by itself meets several nodes and no more; the canary waits for a person at each.
#[test]
fn no_update_is_without_a_bound() {
    with_each_kubectl("no_update_is_without_a_bound", |kubectl, copy| {
        for name in ["base", "overlays/local", "overlays/openstack"] {
            let objects = made(kubectl, copy, name);
            let update = &of(&objects, "DaemonSet")["spec"]["updateStrategy"];
            assert_eq!(update["type"], "RollingUpdate", "{name}");
            let bound = update["rollingUpdate"]["maxUnavailable"].as_u64().unwrap();
            assert!((2..=10).contains(&bound), "{name}: {bound}");
        }
        let objects = made(kubectl, copy, "overlays/canary");
        let set = of(&objects, "DaemonSet");
        assert_eq!(set["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
        let selector = &set["spec"]["template"]["spec"]["nodeSelector"];
        assert_eq!(selector["incloud-disk/driver"], "wanted");
        let plugin = fs::read_to_string(folder().join("../kubectl-incloud")).unwrap();
        assert!(plugin.contains("label=incloud-disk/driver value=wanted"));
    });
}

/// By Helm's own code, where `HELM_LIBRARY` names it.
#[test]
fn the_chart_makes_what_the_overlays_make() {
    let test = "the_chart_makes_what_the_overlays_make";
    let Ok(library) = std::env::var("HELM_LIBRARY") else {
        return skip(test, "needs HELM_LIBRARY");
    };
    let Some(kubectl) = kubectls().pop() else { return skip(test, "needs kubectl") };
    let copy = filled_in();
    let overlay = copy.path().join("kustomize/overlays/openstack");
    let file = |name: &str| fs::read_to_string(overlay.join(name)).unwrap();
    let values = copy.path().join("values.json");
    for (name, by_hand) in [("overlays/openstack", false), ("overlays/canary", true)] {
        let given = json!({"config": file("config.toml"), "credentials": file("cloud.conf"), "byHand": by_hand});
        fs::write(&values, given.to_string()).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let output = Command::new("python3")
            .arg(root.join("tests/support/helm.py"))
            .arg(&library)
            .arg(root.join("examples/helm/incloud-disk"))
            .arg(&values)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let by_helm: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let by_kustomize = made(&kubectl, &copy, name);
        assert_eq!(by_helm.len(), by_kustomize.len());
        for kind in ["DaemonSet", "ConfigMap", "Secret"] {
            let (one, other) = (of(&by_helm, kind), of(&by_kustomize, kind));
            assert_eq!(without_names(one, &by_helm), without_names(other, &by_kustomize), "{kind}");
        }
        for object in &by_helm {
            check(object).unwrap();
        }
    }
}

/// What both may name otherwise: the objects whose name has a hash, and whose object it is.
fn without_names(object: &Value, all: &[Value]) -> Value {
    let mut text = object.to_string();
    for kind in ["ConfigMap", "Secret"] {
        let name = of(all, kind)["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("incloud-disk-"), "{name}");
        text = text.replace(&format!("\"{name}\""), &format!("\"the {kind}\""));
    }
    let mut object: Value = serde_json::from_str(&text).unwrap();
    let about = object["metadata"].as_object_mut().unwrap();
    about.remove("annotations");
    if let Some(labels) = about.get_mut("labels").and_then(Value::as_object_mut) {
        labels.remove("app.kubernetes.io/managed-by");
        if labels.is_empty() {
            about.remove("labels");
        }
    }
    object
}

/// Without Helm: the chart has no `DaemonSet` of its own, and its values are those of the overlay.
#[test]
fn the_chart_has_the_one_daemon_set() {
    let chart = folder().join("../helm/incloud-disk");
    let link = fs::read_link(chart.join("daemonset.yaml")).unwrap();
    assert_eq!(link, Path::new("../../kustomize/base/daemonset.yaml"));
    let values: Value =
        serde_saphyr::from_str(&fs::read_to_string(chart.join("values.yaml")).unwrap()).unwrap();
    let config = values["config"].as_str().unwrap();
    assert!(Config::parse(config, "values.yaml").unwrap().cloud.kind.is_some());
    let set: Value = serde_saphyr::from_str(&text_of("base/daemonset.yaml")).unwrap();
    let spec = &set["spec"];
    assert_eq!(values["image"], spec["template"]["spec"]["containers"][0]["image"]);
    assert_eq!(values["maxUnavailable"], spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"]);
    let template = fs::read_to_string(chart.join("templates/objects.yaml")).unwrap();
    assert!(template.contains(".Files.Get \"daemonset.yaml\""));
}
