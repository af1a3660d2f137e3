//! What cannot be determined is `unknown`, never a verdict: without root, and with a configuration that
//! names another cloud than the volumes'. At 7ba4fed each healthy volume was AMBIGUOUS, in red, and its pods
//! were to be restarted.

use super::{as_another_user, json, said};
use crate::holders::run;
use crate::support::{Node, has};
use crate::volume::{POD, Volume};
use serde_json::Value;
use std::fs;

/// A volume that is mounted and well.
fn mounted() -> (Node, Volume) {
    let (node, volume) = Volume::on_a_node("ext4", "64M");
    volume.bring_to_pod();
    assert!(row(&said(&node, &["status"]).0, &volume).starts_with("ok "));
    (node, volume)
}

/// What status says of the volume, without those of other tests.
#[track_caller]
fn row<'t>(status: &'t str, volume: &Volume) -> &'t str {
    let at = status.find(&format!("({})", &volume.id[..8])).unwrap_or_else(|| panic!("{status}"));
    let begin = status[..at].rfind('\n').map_or(0, |end| end + 1);
    let rest = &status[begin..];
    let next = rest.match_indices('\n').find(|(end, _)| !rest[end + 1..].starts_with(' '));
    &rest[..next.map_or(rest.len(), |(end, _)| end)]
}

#[track_caller]
fn is_unknown(node: &Node, volume: &Volume, words: &[&str]) {
    let (text, _) = said(node, &["status"]);
    let row = row(&text, volume);
    assert!(row.starts_with("UNKNOWN ") && !row.contains("restart"), "{text}");
    has(row, words);
    // Not `--check`: volumes of other tests may be seen, and be worse.
    let (rows, _) = said(node, &["status", "--rows"]);
    let row = rows.lines().find(|line| line.contains(&volume.id)).unwrap();
    assert!(row.starts_with("volume\t4\tunknown\t"), "{rows}");
    let seen = &json(node, &["explain", &volume.id])["volume"];
    assert_eq!(seen["verdict"]["health"], "unknown", "{seen:#}");
    assert_eq!(seen["disk"]["found"], "unseen", "{seen:#}");
    for mount in seen["mounts"].as_array().unwrap() {
        assert_eq!((&mount["on"], &mount["verdict"]), (&"unknown".into(), &Value::Null));
    }
}

fn configured_as(node: &Node, right: &str, of: &str, is: &str) {
    assert!(right.contains(of), "{right}");
    fs::write(node.config_path(), right.replacen(of, is, 1)).unwrap();
}

#[test]
fn with_the_wrong_cloud_a_healthy_volume_is_unknown() {
    needs!(mounts);
    let (node, volume) = mounted();
    let right = fs::read_to_string(node.config_path()).unwrap();
    let kind = "cloud.kind = \"local\"";
    let check = "To do: check cloud.kind in the configuration";
    configured_as(&node, &right, kind, "");
    is_unknown(&node, &volume, &["names no cloud", "To do: write [cloud] kind = "]);
    configured_as(&node, &right, kind, "cloud.kind = \"openstack\"");
    is_unknown(&node, &volume, &[check, "the disk and its pods need nothing"]);
    // One that has all it takes and does not answer.
    let silent = "cloud.kind = \"openstack\"\nopenstack.auth_url = \"http://127.0.0.1:1/v3\"\n\
                  openstack.application_credential_id = \"i\"\n\
                  openstack.application_credential_secret = \"s\"";
    configured_as(&node, &right, kind, silent);
    is_unknown(&node, &volume, &[check]);
    // The right kind, and another local cloud.
    let dir = format!("{:?}", node.base().join("cloud"));
    configured_as(&node, &right, &dir, &format!("{:?}", node.base().join("other")));
    is_unknown(&node, &volume, &[check, "and local.dir"]);
    let (text, _) = said(&node, &["doctor"]);
    has(&text, &[&format!("warning volumes {} is unknown", volume.id), "fix: check cloud.kind"]);
    fs::write(node.config_path(), right).unwrap();
    volume.ends();
}

/// The cloud is not asked for the metrics, nor after a heal.
#[test]
fn with_the_wrong_cloud_no_metric_and_no_heal_calls_a_healthy_volume_harmed() {
    needs!(mounts);
    let (node, volume) = mounted();
    let page = node.own().join("disk.prom");
    let right = fs::read_to_string(node.config_path()).unwrap();
    node.configure(&format!("[metrics]\ntextfile = '{}'", page.display()));
    let with_metrics = fs::read_to_string(node.config_path()).unwrap();
    for kind in ["", "cloud.kind = \"openstack\""] {
        configured_as(&node, &with_metrics, "cloud.kind = \"local\"", kind);
        let text = super::words_of(&node, &["heal", &volume.id]);
        assert!(!text.contains("may be the wrong one"), "{text}");
        assert!(text.contains("cloud.kind") || text.contains("names no cloud"), "{text}");
        let _ = crate::support::output_of(&mut node.command(["heal"]));
        let text = fs::read_to_string(&page).unwrap();
        let head = "incloud_disk_health_volumes{health=\"unknown\"} ";
        let count = text.lines().find_map(|line| line.strip_prefix(head)).unwrap();
        assert_ne!(count, "0", "{text}");
        assert!(!text.contains("incloud_disk_absent{"), "{text}");
    }
    fs::write(node.config_path(), right).unwrap();
    volume.ends();
}

/// With the right configuration a disk that is not the volume's is still one.
#[test]
fn a_copy_that_is_mounted_in_the_volumes_place_is_ambiguous() {
    needs!(mounts);
    let (node, volume) = mounted();
    node.must(volume.unpublish(POD));
    run("umount", &[volume.global().to_str().unwrap()]);
    let copies = node.base().join("copies");
    fs::create_dir(&copies).unwrap();
    let copy = copies.join(format!("{}.img", volume.id));
    fs::copy(volume.image(), &copy).unwrap();
    run("mount", &["-o", "loop", copy.to_str().unwrap(), volume.global().to_str().unwrap()]);
    let found = json(&node, &["explain", &volume.id]);
    assert_eq!(found["volume"]["verdict"]["health"], "ambiguous", "{found:#}");
    run("umount", &[volume.global().to_str().unwrap()]);
    fs::remove_dir(volume.pod(POD)).unwrap();
    volume.take_away();
}

/// Of each check without root: skipped, or what is so.
fn levels(node: &Node, check: &str) -> Vec<String> {
    let (text, _) = as_another_user(node, &["doctor", "--json"]);
    let found: Value = serde_json::from_str(&text).unwrap();
    let all = found["findings"].as_array().unwrap().iter();
    let its = all.filter(|one| one["check"] == check);
    its.map(|one| one["level"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn without_root_nothing_is_judged_that_only_root_can_read() {
    needs!(mounts);
    let (node, volume) = mounted();
    let looks = |is_hidden: bool| {
        let (text, _) = as_another_user(&node, &["status"]);
        let row = row(&text, &volume);
        assert!(row.starts_with("UNKNOWN ") && !row.contains("restart"), "{text}");
        has(row, &[&format!("$ sudo disk explain {}", volume.id)]);
        let (line, status) = as_another_user(&node, &["status", "--check"]);
        assert!(!line.contains(&volume.id[..8]) || status == Some(3), "{line}");
        let (text, _) = as_another_user(&node, &["explain", &volume.id]);
        has(&text, &["Memory", "not seen read /", "permission denied", "lock not seen"]);
        assert!(!text.contains("there is no configuration"), "{text}");
        for check in ["kernel", "sight", "cloud"] {
            assert_eq!(levels(&node, check), ["skipped"], "{check}");
        }
        assert!(levels(&node, "volumes").contains(&"skipped".to_owned()));
        let of_configuration = if is_hidden { "skipped" } else { "ok" };
        assert_eq!(levels(&node, "configuration"), [of_configuration]);
        let (text, status) = as_another_user(&node, &["doctor"]);
        has(&text, &[" skipped: run sudo disk doctor", "skipped sight"]);
        let has_errors = text.lines().any(|line| line.starts_with("error "));
        assert_eq!(status, Some(if has_errors { 2 } else { 3 }), "{text}");
        for lie in ["cannot put a mount beneath", "can be seen\n", "every call that is not init"] {
            assert!(!text.contains(lie), "{text}");
        }
        let (text, status) = as_another_user(&node, &["history", &volume.id]);
        assert_eq!(status, Some(1), "{text}");
        has(&text, &["permission denied; run it with sudo"]);
    };
    looks(false);
    // As install.sh leaves it.
    run("chmod", &["600", node.config_path().to_str().unwrap()]);
    looks(true);
    volume.ends();
}
