//! The verbs that look, called in a container that has the machine's root below a folder: they see what
//! kubelet's calls see.

use super::*;
use crate::checks::eventually;
use crate::support::{DISK, copy_program, start};
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Each kubelet works in this machine, so the others' would be found too: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that looks like a kubelet of this machine, and waits.
struct Kubelet {
    process: Child,
    plugins: PathBuf,
}

impl Kubelet {
    fn of(node: &Node, name: &str) -> Self {
        Self::by(&[], node, name)
    }

    /// Begun by another program. Its driver's folder has the configuration of the node, for no call
    /// names it.
    fn by(words: &[&str], node: &Node, name: &str) -> Self {
        let plugins = node.own().join(name);
        let folder = plugins.join("incloud~disk");
        fs::create_dir_all(&folder).unwrap();
        fs::copy(node.config_path(), folder.join(".config.toml")).unwrap();
        let program = plugins.join("kubelet");
        copy_program("/bin/bash", &program);
        let mut words: Vec<_> = words.iter().map(PathBuf::from).collect();
        words.push(program);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["-c", "echo; read line; exec sleep 60", "-"]);
        command.arg(format!("--root-dir={}", node.kubelet_root().display()));
        command.arg(format!("--volume-plugin-dir={}", plugins.display()));
        let mut process = start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        // It has its name now.
        let said = process.stdout.as_mut().unwrap().read(&mut [0]);
        assert_eq!(said.unwrap(), 1, "{words:?}");
        Self { process, plugins }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.plugins);
    }
}

/// A container with a network, a name and mounts of its own, which has this machine's root below a
/// folder, and in its own root neither the volumes nor a configuration.
fn in_container(node: &Node, words: &[&str]) -> Output {
    output_of(&mut container(node, words))
}

fn container(node: &Node, words: &[&str]) -> Command {
    const ENTER: &str = r#"
        set -e
        hostname a-pod
        mkdir -p "$ROOT"
        mount --rbind / "$ROOT"
        mount --make-rprivate "$ROOT"
        if [ -d "$ROOT/var/lib/kubelet" ]; then mount -t tmpfs none "$ROOT/var/lib/kubelet"; fi
        mount -t tmpfs none "$KUBELET_ROOT"
        if [ -d /etc/incloud-disk ]; then mount -t tmpfs none /etc/incloud-disk; fi
        exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--uts", "--net", "--ipc", "--cgroup", "sh", "-c", ENTER, "sh", DISK]);
    command.args(words).env("ROOT", root_in_container(node));
    command.env("KUBELET_ROOT", node.kubelet_root());
    // Of the image's own, where it leads to nothing.
    command.env("INCLOUD_DISK_CONFIG", "/nowhere/config.toml");
    command
}

fn root_in_container(node: &Node) -> PathBuf {
    node.own().join("host")
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Only where the machine has no configuration at its usual place, which counts before the one beside.
fn hides_the_configuration() {
    if std::path::Path::new("/etc/incloud-disk").is_dir() {
        crate::holders::run("mount", &["-t", "tmpfs", "none", "/etc/incloud-disk"]);
    }
}

#[test]
fn a_container_sees_what_kubelets_calls_see() {
    needs!(pods);
    let _alone = alone();
    hides_the_configuration();
    let scene = scene().start();
    let (node, id) = (&scene.node, scene.volume.id.as_str());
    let root = root_in_container(node);
    let root = root.to_str().unwrap();
    let kubelet = Kubelet::of(node, "plugins");
    let seen = answer(&in_container(node, &["node", "--root", root, "status", "--json"]));
    let own = json(node, &["status"]);
    let volume = |seen: &Value| {
        let all = seen["volumes"].as_array().unwrap().iter();
        let mut mine = all.filter(|row| row["id"] == id).cloned();
        mine.next().unwrap_or_else(|| panic!("{id}: {seen}"))
    };
    assert_eq!(seen["node"], own["node"]);
    for key in ["disk", "mounts", "pods", "verdict"] {
        assert_eq!(volume(&seen)[key], volume(&own)[key], "{key}");
    }
    let told = in_container(node, &["node", "--root", root, "explain", id]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("verdict"), "{told:?}");
    let report = in_container(node, &["node", "--root", root, "report", "--text", "--out", "-"]);
    assert!(String::from_utf8_lossy(&report.stdout).contains(id), "{report:?}");
    let doctor = answer(&in_container(node, &["node", "--root", root, "doctor", "--json"]));
    let of = |check: &str| {
        let all = doctor["findings"].as_array().unwrap();
        all.iter()
            .find(|one| one["check"] == check)
            .unwrap_or_else(|| panic!("{check}: {doctor}"))
            .clone()
    };
    let beside = node.own().join("plugins/incloud~disk/.config.toml");
    assert_eq!(of("configuration")["found"], beside.to_str().unwrap());
    assert_eq!(of("kubelet root")["level"], "ok");
    // The control: without the word that enters the machine, nothing of it is there.
    let blind = in_container(node, &["status", "--json"]);
    assert!(!String::from_utf8_lossy(&blind.stdout).contains(id), "{blind:?}");
    drop(kubelet);
    let alone = in_container(node, &["node", "--root", root, "status"]);
    let alone = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(alone.is_empty() || alone.contains("hostPID: true"), "{alone}");
    scene.ends();
}

/// Which of them is meant cannot be known.
#[test]
fn of_two_kubelets_of_one_root_none_is_taken() {
    needs!(pods);
    let _alone = alone();
    let node = Node::new();
    let (one, other) = (Kubelet::of(&node, "one"), Kubelet::of(&node, "other"));
    let root = root_in_container(&node);
    let told = in_container(&node, &["node", "--root", root.to_str().unwrap(), "status"]);
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(told.status.code(), Some(1), "{text}");
    for kubelet in [&one, &other] {
        assert!(
            text.contains(&format!("process {}: plugin folder", kubelet.process.id())),
            "{text}"
        );
    }
}

/// A tenant gives his process any name and any words, and his folder may be seen at the same path by the
/// node: an emptyDir is. To go where he lives would be to let him be root.
#[test]
fn a_tenants_process_is_no_kubelet() {
    needs!(pods);
    let _alone = alone();
    hides_the_configuration();
    let node = Node::new();
    let root = root_in_container(&node);
    let words = ["node", "--root", root.to_str().unwrap(), "doctor", "--json"];
    let tenants: [&[&str]; 3] = [
        &["unshare", "--pid", "--fork", "--kill-child"],
        &["setpriv", "--reuid", "1000", "--clear-groups"],
        &["setpriv", "--inh-caps", "-sys_admin", "--bounding-set", "-sys_admin"],
    ];
    for tenant in tenants {
        let kubelet = Kubelet::by(tenant, &node, "tenants");
        let told = in_container(&node, &words);
        let (out, err) =
            (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
        // Not even in what is said where nothing of the machine is found.
        assert!(!out.contains("tenants") && !err.contains("tenants"), "{tenant:?}: {out}{err}");
        assert!(err.is_empty() || err.contains("hostPID: true"), "{tenant:?}: {err}");
        // Nor does he keep root from seeing the node.
        let own = Kubelet::of(&node, "own");
        let told = in_container(&node, &words);
        let out = String::from_utf8_lossy(&told.stdout);
        assert!(out.contains("own/incloud~disk"), "{tenant:?}: {told:?}");
        drop((own, kubelet));
    }
}

/// What kubelet was started with is what its calls have: the image's own says nothing of the node.
#[test]
fn the_variables_are_kubelets() {
    needs!(pods);
    let _alone = alone();
    hides_the_configuration();
    let node = Node::new();
    let root = root_in_container(&node);
    let named = node.own().join("named.toml");
    fs::copy(node.config_path(), &named).unwrap();
    let variable = format!("INCLOUD_DISK_CONFIG={}", named.display());
    let kubelet = Kubelet::by(&["env", &variable], &node, "plugins");
    let words = ["node", "--root", root.to_str().unwrap(), "doctor", "--json"];
    let doctor = answer(&in_container(&node, &words));
    assert_eq!(doctor["findings"][0]["found"], named.to_str().unwrap(), "{doctor}");
    drop(kubelet);
}

/// Its number may be a tenant's by then.
#[test]
fn a_kubelet_that_ends_while_it_is_looked_for_is_not_entered() {
    needs!(pods, seams);
    let _alone = alone();
    let node = Node::new();
    let root = root_in_container(&node);
    let kubelet = Kubelet::of(&node, "plugins");
    let gate = node.own().join("gate");
    let words = ["node", "--root", root.to_str().unwrap(), "status", "--check"];
    let mut command = container(&node, &words);
    command.env("INCLOUD_DISK_SEAM", format!("hold-kubelet=hold:{}", gate.display()));
    let asked = start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    eventually("it has found kubelet", || gate.exists());
    let mut kubelet = kubelet;
    kubelet.process.stdin.take().unwrap().write_all(b"\n").unwrap();
    let name = format!("/proc/{}/comm", kubelet.process.id());
    eventually("it is another program", || fs::read_to_string(&name).unwrap() == "sleep\n");
    fs::remove_file(&gate).unwrap();
    let told = asked.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert_eq!((told.status.code(), text.lines().count()), (Some(3), 1), "{told:?}");
    assert!(text.starts_with("not seen: "), "{text}");
}
