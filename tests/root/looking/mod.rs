//! What people see: status, explain, history, holders and doctor, on a node with one volume of each
//! health, as text and as JSON.

mod at_night;
pub mod healths;
mod metrics;
mod naming;
mod on_node;
mod report;
mod transcripts;
mod unseen;

use crate::checks::nothing_is_left;
use crate::scene::{Scene, scene};
use crate::support::pods::Naming;
use crate::support::{Node, has, output_of};
use crate::volume::Volume;
use healths::{Healths, Incident};
use serde_json::Value;
use std::os::unix::process::CommandExt;

/// A verb's answer as JSON.
#[track_caller]
fn json(node: &Node, words: &[&str]) -> Value {
    let text = node.verb(&[words, &["--json"]].concat()).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What a verb says, whatever its exit status, and that.
fn said(node: &Node, words: &[&str]) -> (String, i32) {
    let output = output_of(&mut node.command(words));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    (text, output.status.code().unwrap())
}

/// A command and a path are whole, however long they are, so that they can be copied.
fn fits(line: &str) -> bool {
    let words = line.trim_start();
    let is_command = words.starts_with("$ ") || words.starts_with("type ");
    let ends_with_a_path = words.split(' ').next_back().is_some_and(|word| word.contains('/'));
    is_command || ends_with_a_path || line.chars().count() <= 100
}

/// What a terminal shows of a verb: its output, and what is wrong.
fn words_of(node: &Node, words: &[&str]) -> String {
    let output = output_of(&mut node.command(words));
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn each_health_is_seen_by_every_verb() {
    needs!(pods);
    let node = Node::new();
    let scene = Healths::set(&node);
    let before = node.log();
    status(&node, &scene);
    explain(&node, &scene);
    holders(&node, &scene);
    history(&node, &scene);
    doctor(&node, &scene);
    naming::looks(&node, &scene);
    assert_eq!(node.log(), before, "looking leaves no trace");
    naming::acts(&node, &scene);
}

fn status(node: &Node, scene: &Healths) {
    let (text, _) = said(node, &["status"]);
    assert!(!text.contains('\x1b'), "no terminal reads it, so there is no colour");
    assert!(text.lines().all(fits), "{text}");
    for (health, volume) in scene.each() {
        let names = format!("{} ({})", &volume.pv[..12], &volume.id[..8]);
        let row = text.lines().find(|line| line.contains(&names)).unwrap();
        let word = if health == "ok" { health.to_owned() } else { health.to_uppercase() };
        assert_eq!(row.split_whitespace().next(), Some(word.as_str()), "{text}");
    }
    has(&text, &["6 volumes on node-a: 1 ambiguous, 1 dead, 1 stale, 1 leaked, 1 guarded, 1 ok"]);
    let found = json(node, &["status"]);
    assert_eq!((&found["format"], &found["cloud_answered"]), (&1.into(), &true.into()));
    let of = |volume: &Volume| {
        let all = found["volumes"].as_array().unwrap();
        all.iter().find(|one| one["id"] == volume.id.as_str()).unwrap()
    };
    for (health, volume) in scene.each() {
        let one = of(volume);
        assert_eq!(one["verdict"]["health"], health, "{one:#}");
        assert_eq!(one["name"], volume.pv.as_str());
        assert_eq!(one["verdict"]["next"].is_null(), health == "ok", "{one:#}");
        assert!(one["last_call"]["ending"].is_string(), "{one:#}");
    }
    let let_go = &of(&scene.guarded)["let_go"][0];
    assert_eq!((&let_go["pod"], &let_go["back"]), (&scene.pods[1].uid().into(), &Value::Null));
    assert_eq!((&let_go["lasts"], &let_go["is_forgotten"]), (&false.into(), &false.into()));
    let ok = of(&scene.ok);
    assert_eq!(ok["disk"]["found"], "proven");
    assert_eq!(ok["disk"]["name"], scene.ok.letter());
    assert_eq!(ok["cloud"]["is_here"], true);
    let roles: Vec<_> = ok["mounts"].as_array().unwrap().iter().map(|m| &m["role"]).collect();
    assert_eq!(roles, ["global", "pod", "container"]);
    assert_eq!(ok["mounts"][2]["pod"], scene.pods[0].uid());
    assert_eq!(of(&scene.dead)["cloud"]["is_here"], false);
    assert!(of(&scene.stale)["mounts"].as_array().unwrap().iter().all(|m| m["on"] == "gone"));
    assert_eq!(of(&scene.guarded)["refused"][0]["count"], 2);
}

fn explain(node: &Node, scene: &Healths) {
    for (health, volume) in scene.each() {
        for name in [&volume.id, &volume.pv] {
            let (text, status) = said(node, &["explain", name]);
            assert_eq!(status, 0);
            assert!(text.lines().all(fits), "{text}");
            has(
                &text,
                &[&format!("verdict {health}: "), "Cloud", "Disk", "Mounts", "Holders", "Memory"],
            );
        }
        let found = json(node, &["explain", &volume.pv]);
        assert_eq!(found["volume"]["verdict"]["health"], health);
        assert!(!found["history"].as_array().unwrap().is_empty(), "{found:#}");
    }
    let (text, _) = said(node, &["explain", &scene.stale.id]);
    has(
        &text,
        &["on a disk that is GONE", "type disk heal", &scene.stale.letter(), "shop/prometheus-0"],
    );
    let (text, _) = said(node, &["explain", &scene.leaked.id]);
    has(&text, &["stranger", &format!("{} (", scene.containers[0].pid())]);
    let (text, _) = said(node, &["explain", &scene.ambiguous.id]);
    has(&text, &["not certain", "shown by several disks"]);
    let wrong = node.verb(&["explain", "pvc-unknown"]).unwrap_err();
    assert!(wrong.contains("no volume goes by the name pvc-unknown"), "{wrong}");
}

fn holders(node: &Node, scene: &Healths) {
    let found = json(node, &["holders", &scene.ok.pv]);
    let all = found["holders"].as_array().unwrap();
    let well = &scene.containers[1];
    let ways: Vec<_> = all.iter().map(|one| one["how"].as_str().unwrap()).collect();
    assert_eq!(ways, ["mount", "file"], "{found:#}");
    for one in all {
        assert_eq!(one["process"]["pid"], well.pid());
        assert_eq!(one["process"]["container"], well.id());
        assert_eq!(
            (&one["pod_name"], &one["is_on_gone_disk"]),
            (&"shop/web-0".into(), &false.into())
        );
    }
    let (text, _) = said(node, &["holders", &scene.ok.id]);
    has(&text, &[&format!("{} ", well.pid()), &well.id()[..12], "shop/web-0", "file /data/log"]);
    let (text, _) = said(node, &["holders", &scene.stale.id]);
    has(&text, &["mount /data (on the disk that is gone)"]);
}

fn history(node: &Node, scene: &Healths) {
    let found = json(node, &["history", &scene.guarded.pv]);
    let entries = found["entries"].as_array().unwrap();
    let (kernel, _) = said(node, &["explain", &scene.dead.pv]);
    if std::fs::File::open("/dev/kmsg").is_ok() {
        has(&kernel, &["Last calls", " kernel "]);
    }
    let ops: Vec<_> = entries.iter().map(|one| one["op"].as_str().unwrap()).collect();
    assert_eq!(
        ops,
        ["attach", "waitforattach", "mountdevice", "mount", "unmount", "unmountdevice", "now"]
    );
    assert_eq!((&entries[5]["ending"], &entries[5]["count"]), (&"refused".into(), &2.into()));
    assert_eq!(entries[4]["text"], "let go of shop/orders-0's folder: the pod keeps the volume");
    assert_eq!(entries[3]["pod"], "shop/orders-0");
    assert!(entries.iter().take(5).all(|one| one["took_ms"].is_u64()), "{found:#}");
    assert_eq!(entries[1]["disk"], scene.guarded.letter());
    // By pod: nothing of another pod, and the calls for its volume that name no pod.
    for pod in ["shop/prometheus-0", "prometheus-0", scene.pods[3].uid()] {
        let (text, _) = said(node, &["history", "--pod", pod]);
        has(&text, &[&scene.stale.pv, "mounted for shop/prometheus-0", "attached to node-a"]);
        assert!(!text.contains(&scene.ok.id), "{text}");
    }
    let (text, _) = said(node, &["history", "--since", "1h"]);
    assert!(scene.each().iter().all(|(_, volume)| text.contains(&volume.pv)), "{text}");
    let (text, _) = said(node, &["history", "--since", "2099-01-01"]);
    has(&text, &["To see the last tear-down: --since "]);
    node.history_needs_no_words();
}

fn doctor(node: &Node, scene: &Healths) {
    let (text, status) = said(node, &["doctor"]);
    assert_eq!(status, 2, "{text}");
    assert!(text.lines().all(fits), "{text}");
    has(
        &text,
        &[&format!("{} is stale", scene.stale.id), &format!("fix: disk heal {}", scene.stale.id)],
    );
    let output = output_of(&mut node.command(["doctor", "--json"]));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["worst"], output.status.code()), (&"error".into(), Some(2)));
    let findings = found["findings"].as_array().unwrap();
    let volumes: Vec<_> = findings.iter().filter(|one| one["check"] == "volumes").collect();
    assert_eq!(volumes.len(), 5, "{found:#}");
    for (health, volume) in scene.each() {
        let told = volumes.iter().any(|one| {
            one["found"].as_str().unwrap().starts_with(&format!("{} is {health}", volume.id))
        });
        assert_eq!(told, health != "ok", "{health}");
    }
}

/// What the history says meanwhile is in the transcripts.
#[test]
fn the_incident_is_told_from_yesterdays_log_too() {
    needs!(pods);
    let node = Node::new();
    let Incident { volume, pod, container } = Incident::happens(&node);
    let log = node.own().join("log");
    let today = std::fs::read_dir(&log).unwrap().next().unwrap().unwrap().path();
    std::fs::rename(today, log.join("incloud-disk.2026-01-02.jsonl")).unwrap();
    node.must(volume.is_attached());
    let (text, _) = said(&node, &["history", &volume.id]);
    has(&text, &["(12 times until", "asked"]);
    assert!(!text.contains("still refused"), "kubelet has changed its mind: {text}");

    volume.take_away_with(&pod, container);
    let (text, _) = said(&node, &["history", &volume.pv]);
    has(&text, &["unmounted for shop/prometheus-0", "detached from node-a"]);
    nothing_is_left(&node, &[&volume]);
}

/// Mounts that the predecessor made: the device by its letter, mounted twice, and no record.
#[test]
fn what_the_predecessor_mounted_is_shown() {
    needs!(pods);
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring();
    volume.node.must(volume.unstage());
    let device = format!("/dev/{}", volume.letter());
    crate::volume::make_folder(&volume.pod(crate::volume::POD));
    for place in [volume.global(), volume.pod(crate::volume::POD)] {
        crate::holders::run("mount", &[&device, place.to_str().unwrap()]);
    }
    std::fs::remove_dir_all(node.own().join("state")).unwrap();
    let found = json(&node, &["status"]);
    let one = &found["volumes"][0];
    assert_eq!(
        (&one["id"], &one["name"]),
        (&volume.id.as_str().into(), &volume.pv.as_str().into())
    );
    assert_eq!(one["verdict"]["health"], "ok", "{one:#}");
    let mounts = one["mounts"].as_array().unwrap();
    let all: Vec<_> = mounts.iter().map(|one| (&one["role"], &one["source"])).collect();
    let source: Value = device.into();
    assert_eq!(all, [(&"global".into(), &source), (&"pod".into(), &source)]);
    // Its disk goes: nothing but the folder says whose it was.
    node.verb(&["local", "yank", &volume.id]).unwrap();
    let (text, _) = said(&node, &["status"]);
    has(&text, &[&volume.pv[..12], "DEAD"]);
    has(
        &said(&node, &["explain", &volume.pv]).0,
        &["verdict dead: 2 mounts stand on the disk that is gone"],
    );
}

/// A btrfs shows a number of no disk, in a container too, where it is not asked for its disk.
#[test]
fn a_btrfs_in_a_container_is_well() {
    needs!(pods);
    let Scene { node, volume, pod, container } = scene().of("btrfs").called("web-0").idle().start();
    let found = json(&node, &["status"]);
    let one = &found["volumes"][0];
    assert_eq!(one["verdict"]["health"], "ok", "{one:#}");
    let mounts = one["mounts"].as_array().unwrap();
    let all: Vec<_> = mounts.iter().map(|one| (&one["role"], &one["on"])).collect();
    let on: Value = "disk".into();
    assert_eq!(all, [(&"global".into(), &on), (&"pod".into(), &on), (&"container".into(), &on)]);
    node.verb(&["local", "yank", &volume.id]).unwrap();
    let (text, _) = said(&node, &["explain", &volume.id]);
    has(&text, &["verdict dead: 3 mounts", "container /data on a disk that is GONE"]);
    has(&text, &["mount /data (on the disk that is gone)", "then restart its pods"]);
    // It is back: no heal moves it, and none is proposed.
    node.must(volume.attach());
    let (text, _) = said(&node, &["status"]);
    has(&text, &["STALE shop/web-0", "restart shop/web-0", "$ kubectl delete pod -n shop web-0"]);
    let (text, status) = said(&node, &["heal", &volume.id]);
    has(&text, &["now: Reads and writes fail", "$ kubectl delete pod -n shop web-0"]);
    assert_eq!(status, 4, "{text}");
    volume.take_away_with(&pod, container);
}

/// What a verb says to a user who is not root, and its exit status.
fn as_another_user(node: &Node, words: &[&str]) -> (String, Option<i32>) {
    for path in [node.base(), node.own()] {
        crate::holders::run("chmod", &["755", path.to_str().unwrap()]);
    }
    // The binary may lie where only root may go.
    let program = node.base().join("disk");
    if !program.exists() {
        crate::holders::run("cp", &[crate::support::DISK, program.to_str().unwrap()]);
    }
    let mut command = std::process::Command::new(&program);
    command.args(words).env("INCLOUD_DISK_CONFIG", node.config_path()).uid(65534).gid(65534);
    let output = output_of(&mut command);
    let all = [output.stdout, output.stderr].concat();
    (String::from_utf8(all).unwrap(), output.status.code())
}

/// A user who is not root sees less, is told what, and nothing is taken for absent.
#[test]
fn without_root_it_is_said_what_was_not_seen() {
    needs!(pods);
    let Scene { node, volume, pod, container } =
        scene().called("web-0").named(Naming::Cgroupfs).start();
    let as_a_user = |words: &[&str]| as_another_user(&node, words);
    let (text, status) = as_a_user(&["status"]);
    assert_eq!(status, Some(0), "{text}");
    has(&text, &[&volume.pv[..12], "Not seen", "run it with sudo"]);
    assert!(!text.contains("detached"), "{text}");
    let row = text.lines().find(|line| line.contains(&volume.pv[..12])).unwrap();
    assert!(row.starts_with("UNKNOWN "), "{text}");
    has(&text, &["Whether it is well is not known", "sudo disk explain"]);
    has(&text, &["its view is unknown", "what this machine remembers"]);
    let (text, status) = as_a_user(&["holders", &volume.id]);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(text.matches("Not seen").count(), 1, "{text}");
    has(&text, &[&format!("sudo disk holders {} sees all", volume.id)]);
    let (text, status) = as_a_user(&["release", &volume.id, "--dry-run"]);
    assert_eq!(status, Some(1), "{text}");
    has(&text, &[&format!("this needs root: sudo disk release {} --dry-run", volume.id)]);
    // The configuration that install.sh writes is root's alone.
    crate::holders::run("chmod", &["600", node.config_path().to_str().unwrap()]);
    let (text, status) = as_a_user(&["status"]);
    assert_eq!(status, Some(0), "{text}");
    has(&text, &["Not seen: the configuration, so the defaults are taken"]);
    let (text, status) = as_a_user(&["doctor"]);
    assert!(matches!(status, Some(2 | 3)), "{text}");
    volume.take_away_with(&pod, container);
}

/// The heal moves mounts; a file that is open stays on the lost disk, and what is written to it is lost.
#[test]
fn after_a_heal_a_process_with_an_open_file_is_told_until_it_ends() {
    needs!(pods);
    let Scene { node, volume, pod, mut container, .. } = scene().called("db-0").start();
    container.must(&crate::support::pods::Order::Open { path: "/data/log".into() });
    healths::pull(&volume, &mut container);
    node.must(volume.attach());
    let (text, _) = said(&node, &["status"]);
    has(
        &text,
        &[
            "HALF-HEALED shop/db-0",
            "still has files open on the disk that is gone.",
            "$ disk heal --end-holders",
        ],
    );
    let found = json(&node, &["explain", &volume.id]);
    let seen = &found["volume"];
    assert_eq!(seen["verdict"]["health"], "half-healed", "{seen:#}");
    assert_eq!(seen["users_of_lost_disk"][0]["process"]["pid"], container.pid(), "{seen:#}");
    assert!(seen["mounts"].as_array().unwrap().iter().all(|mount| mount["on"] == "disk"));
    let (text, status) = said(&node, &["doctor"]);
    has(&text, &[&format!("{} is half-healed", volume.id)]);
    assert_eq!(status, 2);
    volume.take_away_with(&pod, container);
    let (text, _) = said(&node, &["status"]);
    assert!(!text.contains("HALF-HEALED"), "{text}");
}
